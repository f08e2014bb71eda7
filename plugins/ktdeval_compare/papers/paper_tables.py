"""Tables from papers, made from the user's own cards and runs: the tables by name, and their rows
as numbers.

A table is declared in the YAML file in its paper's package (`ktdeval.registry.paper_tables`). Its
rows are computed from cards, either here or by a function in that package.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

import pandas as pd
from msgspec import UNSET

from ktdeval.cards import (
    TradingCard,
    check_match,
    excess_return,
    figures_differ_in,
    pace_notes,
    system_labels,
)
from ktdeval.cli import warn
from ktdeval.errors import CardError, UsageError
from ktdeval.masking import MASK_KINDS
from ktdeval.registry import PaperTable, Plugins, TableChoices
from ktdeval.stats import TRADING_DAYS, annualisation_problem
from ktdeval.values import later, near_matches
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    by_task,
    card_notes,
    label,
    load_cards,
    load_entrants,
)
from ktdeval_compare.papers.ama_deepfund_tables import asset_frame, fund_frame
from ktdeval_compare.papers.cohort_definitions import cohort_definitions
from ktdeval_compare.papers.qfinzero_tables import kind_frame, suite_frame
from ktdeval_compare.papers.ratio_intervals import ratio_notes
from ktdeval_compare.ranking.luck import card_value as _value
from ktdeval_compare.style_exposures import card_exposures

Row = dict[str, float | str | None]
MODES = ("open_research", "fixed_candidate", "memory_only")


def known_tables(plugins: Plugins) -> dict[str, PaperTable]:
    """Return all tables by name."""
    return {name: spec.make() for name, spec in plugins.specs("tables").items()}


def find_paper_table(name: str, plugins: Plugins) -> PaperTable:
    """Return the table with this name.

    Raises UsageError if the name is unknown.
    """
    known = known_tables(plugins)
    if name not in known:
        near = near_matches(name, known) or f"; known are {', '.join(known)}"
        raise UsageError(f"no table {name!r}{near}; see `ktdeval paper table --like`")

    return known[name]


def check_choices(
    table: PaperTable,
    choices: TableChoices,
    options: Mapping[str, str],
    known: Mapping[str, PaperTable],
) -> None:
    """Check that the choices apply to a table or figure. `options` maps each choice to its option;
    `known` has all tables, or all figures.

    Raises UsageError otherwise. The message gives the option and the tables or figures to which it
    applies.
    """
    unset = type(choices)(plugins=choices.plugins)
    for field, option in options.items():
        if getattr(choices, field) == getattr(unset, field) or field in table.takes:
            continue

        takers = []
        for name, other in known.items():
            if field in other.takes:
                takers.append(name)

        raise UsageError(f"{option}: {table.name} does not take it; {', '.join(takers)} do")


_OPTIONS = {
    "cohort": "--cohort",
    "rules": "--rules",
    "median": "--median",
    "classes": "--class",
    "data": "--data",
}


def paper_frame(
    table: PaperTable,
    paths: Sequence[Path],
    choices: TableChoices,
    tell: Callable[[str], None] = warn,
) -> pd.DataFrame:
    """Return a table's data, [rows x columns], at full precision. The frame's `attrs` have the
    `notes`. `tell` gets the caveats of the cards in tables of tasks.

    Raises UsageError or CardError if the cards lack the table's figures, or if a choice does not
    apply.
    """
    check_choices(table, choices, _OPTIONS, known_tables(choices.plugins))
    rows = table.rows
    if ":" in rows:
        frame: pd.DataFrame = later(rows)()(paths, table, choices)
        return frame

    metrics = table.metrics
    if rows == "suites":
        return suite_frame(load_cards(paths)[1], metrics)
    if rows == "kinds":
        return kind_frame(load_cards(paths)[1])
    if rows == "attackers":
        return pd.DataFrame(_attacker_rows(paths, metrics)).set_index("Attacker")

    entrants = label(load_entrants(paths))
    if rows == "agents":
        return _agent_frame(entrants, table)

    check_alike(entrants, paths[0])

    # These columns are computed from a metric with a different name.
    made_of = {"excess": "total_return", "selection_rank": "selection_alpha"}
    used = dict.fromkeys(made_of.get(name, name) for name in metrics)
    for note in card_notes(entrants, list(used)):
        tell(note)

    if rows == "factors":
        return _exposure_frame(entrants, choices.cohort)
    return _metric_frame(entrants, table)


def _metric_frame(entrants: Sequence[EntrantCard], table: PaperTable) -> pd.DataFrame:
    """Return a table of metrics from cards with equal settings."""
    rows = table.rows
    if rows == "funds":
        return _fund_frame(entrants, table)

    if rows == "models":
        frame = _model_frame(entrants, table.metrics)
        has_several = any(len(entrant.card.pooled) > 1 for entrant in entrants)
        notes = [*ratio_notes(entrants, table.metrics)]
        if has_several and table.note_of_several:
            notes.insert(0, table.note_of_several)
        frame.attrs["notes"] = tuple(notes)
        return frame

    if len({entrant.card.task.config.get("family") for entrant in entrants}) > 1:
        raise CardError(
            f"a table of {rows} is of one task family; give cards of one, such as ktdfin or"
            " ktdfin_rebased"
        )

    if rows == "modes":
        return _mode_frame(entrants)
    return _mask_frame(entrants, table.metrics)


def _several_note(entrants: Sequence[EntrantCard]) -> str:
    """Return a note that figures are medians over several episodes. Empty if every card has only
    one episode.
    """
    counts = {len(entrant.card.pooled) for entrant in entrants}
    most = max(counts)
    if most < 2:
        return ""

    shown = f"{most}" if len(counts) == 1 else f"{min(counts)} to {most}"
    return (
        f"each figure is its own median over {shown} episodes: figures of a row are of no single"
        " path"
    )


def check_alike(entrants: Sequence[EntrantCard], first: Path) -> None:
    """Raise CardError if cards can't be combined in a table or figure."""
    what = figures_differ_in(entrant.card for entrant in entrants)
    if what:
        raise CardError(
            f"the cards' figures have different {what} ({first} …); a table is of cards of the"
            " same ones"
        )


def check_rule_sets(entrants: Sequence[EntrantCard], what: str) -> None:
    """Raise CardError if the cards in one table or figure have different rule sets."""
    if len({entrant.card.rules for entrant in entrants}) > 1:
        raise CardError(
            f"the cards' figures have different metric rules ({entrants[0].path} …); a {what} is of"
            " cards of the same ones"
        )


def _agent_frame(entrants: Sequence[EntrantCard], table: PaperTable) -> pd.DataFrame:
    """Return [agents and models x assets]. Cards for the same asset must have equal settings, but
    markets can differ between assets.
    """
    frame, columns = asset_frame(entrants, table.columns, table.settings["assets"])
    for members in by_task(entrants).values():
        check_alike(members, members[0].path)
    check_rule_sets(entrants, "table")
    for note in card_notes(entrants, table.metrics):
        warn(note)

    frame.attrs["columns"] = columns
    frame.attrs["notes"] = (_note(table, entrants),)
    return frame


def _fund_frame(entrants: Sequence[EntrantCard], table: PaperTable) -> pd.DataFrame:
    """Return the models that manage one fund, and the fund's index."""
    settings = table.settings
    card = entrants[0].card
    windows = dict.fromkeys((episode.window for episode in card.pooled), card)
    index = {metric: benchmark_held(windows, metric) for metric in settings["of_index"]}
    index["df_sharpe"] = index_sharpe(windows, risk_free_of(settings["treasury_bill"], card.rules))
    frame = fund_frame(entrants, table.metrics, index)
    frame.attrs["notes"] = (_note(table, entrants),)
    return frame


def risk_free_of(bill: float, rules: str) -> float:
    """Return the sum of the daily risk-free rates over a year. With `paper` rules, the daily rate
    is a bill's yield divided by 252. With `strict` rules, it is the 252nd root of one plus the
    yield, minus one.
    """
    if rules == "paper":
        return bill
    return TRADING_DAYS * math.expm1(math.log1p(bill) / TRADING_DAYS)


def _note(table: PaperTable, entrants: Sequence[EntrantCard]) -> str:
    """Return a note on the differences from the paper: the table's own notes, the differences due
    to the cards' rules, and the note on several episodes.
    """
    parts = [*table.notes]
    if entrants[0].card.rules != "paper":
        parts.append(table.note_of_strict)
    parts.append(_several_note(entrants))
    parts += pace_notes(entrant.card for entrant in entrants)
    parts += ratio_notes(entrants, table.metrics)

    return "; ".join(filter(None, parts))


def benchmark_held(cards: Mapping[str, TradingCard], metric: str) -> float | None:
    """Return a metric for the benchmark, bought and held, as the median over windows. `cards` has
    one card per window. Return None if the metric is undefined in all windows.
    """
    known: list[float] = []
    for window, card in cards.items():
        metrics = card.reference.benchmark_buy_and_hold[window].metrics
        line = getattr(metrics, metric, None)
        if line is None or line.value is None:
            continue
        if metric != "sharpe" or not _is_short(line.n, card):
            known.append(line.value)

    return median(known) if known else None


def _is_short(days: int, card: TradingCard) -> bool:
    """Return whether a benchmark's days are too few for a ratio at a year's pace."""
    return annualisation_problem(days, float(card.snapshot.days_a_year)) is not None


def index_sharpe(cards: Mapping[str, TradingCard], risk_free: float) -> float | None:
    """Return the benchmark's annualised Sharpe ratio, as the median over windows. `risk_free` is an
    annual fraction. Return None if the ratio is undefined in all windows.

    A card has the ratio S for a risk-free rate of 0, and the annualised volatility V. For a rate of
    f, the ratio is S - f / V.
    """
    known: list[float] = []
    for window, card in cards.items():
        metrics = card.reference.benchmark_buy_and_hold[window].metrics
        if metrics.volatility is UNSET or not metrics.volatility.value:
            continue
        if metrics.sharpe.value is not None and not _is_short(metrics.sharpe.n, card):
            known.append(metrics.sharpe.value - risk_free / metrics.volatility.value)

    return median(known) if known else None


def _card_row(card: TradingCard, metrics: Sequence[str]) -> Row:
    """Return a card's figures. A metric that is not on the card is undefined."""
    return {
        metric: excess_return(card) if metric == "excess" else _value(card, metric)
        for metric in metrics
    }


def _model_frame(entrants: Sequence[EntrantCard], metrics: Sequence[str]) -> pd.DataFrame:
    """Return one row per model, best return first. In a table with excess returns, the benchmark is
    inserted according to its return.
    """
    tasks = {entrant.card.task.name for entrant in entrants}
    if len(tasks) > 1:
        raise CardError(
            f"a table of models is of one task, these cards are of {', '.join(sorted(tasks))}; give"
            " those of one"
        )

    rows = {entrant.label: _card_row(entrant.card, metrics) for entrant in entrants}
    if "selection_rank" in metrics:
        selections = [_value(entrant.card, "selection_alpha") for entrant in entrants]
        ranks = pd.Series(selections, dtype=float).rank(ascending=False)
        for row, rank in zip(rows.values(), ranks, strict=True):
            row["selection_rank"] = float(rank)

    if "excess" in metrics:
        card = entrants[0].card
        cards = dict.fromkeys((episode.window for episode in card.pooled), card)
        held: Row = {metric: benchmark_held(cards, metric) for metric in metrics}
        if held["total_return"] is not None:
            rows[f"{card.snapshot.benchmark_name} buy-and-hold"] = held

    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=float).rename_axis("Model")
    return frame.sort_values("total_return", ascending=False, kind="stable")


def _mode_frame(entrants: Sequence[EntrantCard]) -> pd.DataFrame:
    """Return [models and modes x masks], with the median for each mask (such as `bright`) and the
    quartiles (`bright_low`, `bright_high`). Two episodes have no quartiles but their two returns
    (`bright_first`, `bright_second`).
    """
    cells: dict[tuple[str, ...], Row] = {}
    names = system_labels(entrant.system for entrant in entrants)
    for entrant in entrants:
        card = entrant.card
        line = entrant.card.metrics["total_return"]
        name = names[entrant.system]
        row = cells.setdefault((name, card.task.mode), {})
        _check_new(card.task.mask not in row, entrant, name)
        row[card.task.mask] = line.value

        returns = [episode.metrics["total_return"].value for episode in card.pooled]
        # The card of a single episode has a bootstrap interval instead.
        if len(returns) == 2:
            row[f"{card.task.mask}_first"], row[f"{card.task.mask}_second"] = returns
        elif line.quartiles:
            row[f"{card.task.mask}_low"] = line.quartiles.low
            row[f"{card.task.mask}_high"] = line.quartiles.high

    frame = pd.DataFrame.from_dict(cells, orient="index", dtype=float)
    return _in_order(frame.rename_axis(["Model", "Mode"]), "Mode", MODES)


def _mask_frame(entrants: Sequence[EntrantCard], metrics: Sequence[str]) -> pd.DataFrame:
    """Return one row per model and mask."""
    if len({entrant.card.task.mode for entrant in entrants}) > 1:
        raise CardError("a table of masks is of one mode; give cards of one, such as open_research")

    rows: dict[tuple[str, ...], Row] = {}
    names = system_labels(entrant.system for entrant in entrants)
    for entrant in entrants:
        key = (names[entrant.system], entrant.card.task.mask)
        _check_new(key not in rows, entrant, key[0])
        rows[key] = _card_row(entrant.card, metrics)

    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    return _in_order(frame.rename_axis(["Model", "Mask"]), "Mask", MASK_KINDS)


def _check_new(is_new: bool, entrant: EntrantCard, name: str) -> None:
    if not is_new:
        task = entrant.card.task
        raise CardError(
            f"{entrant.path}: {name} has two cards of {task.mask} {task.mode}; give one"
        )


def _in_order(frame: pd.DataFrame, level: str, order: Sequence[str]) -> pd.DataFrame:
    """Sort rows by model as given, and within each model as in `order`."""
    models = list(dict.fromkeys(frame.index.get_level_values(0)))
    ordered = [*order, *sorted(set(frame.index.get_level_values(level)) - set(order))]
    return frame.loc[
        sorted(frame.index, key=lambda key: (models.index(key[0]), ordered.index(key[1])))
    ]


def _exposure_frame(entrants: Sequence[EntrantCard], cohorts: Sequence[str]) -> pd.DataFrame:
    """Return [factors x models] with the mean, or [factors x cohorts]. If there are two cohorts,
    also include their difference.
    """
    rows = card_exposures(entrants)
    if not rows:
        raise UsageError(
            f"{entrants[0].path}: these cards have no exposures to the same style factors (metric"
            " selection_alpha)"
        )

    frame = pd.DataFrame({row.factor: row.cards for row in rows}, dtype=float).T
    frame = frame.rename_axis("Factor")
    exposed: list[EntrantCard] = []
    for entrant in entrants:
        if entrant.label in frame and frame[entrant.label].notna().any():
            exposed.append(entrant)
        else:
            warn(
                f"{entrant.label}: no exposures, so it is excluded from all means: it never held "
                "anything, or has no metric selection_alpha"
            )

    for entrant in exposed:
        lacking = frame.index[frame[entrant.label].isna()]
        if len(lacking):
            factors = ", ".join(str(factor) for factor in lacking)
            warn(f"{entrant.label}: no exposure to {factors}, so it is excluded from their means")

    if not cohorts:
        return frame.assign(mean=frame.mean(axis=1))

    means = {}
    for name, patterns in cohort_definitions(cohorts).items():
        means[name] = frame[_columns_of(exposed, name, patterns)].mean(axis=1)

    columns = pd.DataFrame(means)
    if len(means) == 2:
        first, second = means
        columns[f"{first} - {second}"] = columns[first] - columns[second]

    return columns


def _columns_of(exposed: Sequence[EntrantCard], cohort: str, patterns: Sequence[str]) -> list[str]:
    """Return the labels of the cards whose systems belong to a cohort.

    Raises UsageError if a pattern matches no system.
    """
    for pattern in patterns:
        check_match(pattern, (entrant.system for entrant in exposed), f"--cohort {cohort}")

    labels = []
    for entrant in exposed:
        if any(entrant.system.matches(pattern) for pattern in patterns):
            labels.append(entrant.label)
    return labels


def _attacker_rows(paths: Sequence[Path], scores: Sequence[str]) -> Iterator[Row]:
    """Yield one row per attacker, best first. The last row is the chance level on the same
    probes.
    """
    _, scored = load_cards(paths)
    entrants = label([entrant for entrant in scored if "ticker_top1" in entrant.card.scores])
    if not entrants:
        raise UsageError(
            f"{paths[0]}: no card of a de-anonymization probe here; run --tasks deanon_probe"
        )

    last = scores[-1]
    for entrant in sorted(entrants, key=lambda entrant: -(entrant.card.scores[last].value or 0.0)):
        row: Row = {"Attacker": entrant.label}
        for score in scores:
            row[score] = entrant.card.scores[score].value
        yield row

    chance: Row = {"Attacker": "random baseline"}
    for score in scores:
        baselines = [entrant.card.scores[score].baseline for entrant in entrants]
        known = [baseline for baseline in baselines if baseline is not None]
        chance[score] = fmean(known) if known else None
    yield chance
