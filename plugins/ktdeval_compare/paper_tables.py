"""`ktdeval table`: the tables of the papers, from one's own cards, as text, CSV, Markdown or
LaTeX.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd
from msgspec import UNSET

from ktdeval.cards import TradingCard, check_match, excess_return, figures_differ_in, system_labels
from ktdeval.cli import warn
from ktdeval.errors import CardError, UsageError
from ktdeval.masking import MASK_KINDS
from ktdeval.stats import TRADING_DAYS
from ktdeval.values.jsonio import JsonValue
from ktdeval.values.yamlio import load_yaml
from ktdeval_compare.arena_tables import asset_frame, fund_frame
from ktdeval_compare.columns import Part, Table, lines_of
from ktdeval_compare.definitions import cohort_definitions
from ktdeval_compare.entrants import (
    Entrant,
    by_task,
    card_notes,
    label,
    load_cards,
    load_entrants,
)
from ktdeval_compare.exposures import card_exposures
from ktdeval_compare.luck import card_value as _value
from ktdeval_compare.suite_tables import kind_frame, suite_frame

Row = dict[str, float | str | None]
UNDEFINED = "-"
MODES = ("open_research", "fixed_candidate", "memory_only")
_SHOWN = {
    "percent": "+z.2f",
    "share": ".2f",
    "ratio": "z.2f",
    "small": "z.3f",
    "points": "z.2f",
    "rank": "g",
}
_IN_PERCENT = ("percent", "share")
#: kinds of rows whose tables show a column also where no card has its figure
_WHOLE = ("attackers", "agents", "funds")


def known_tables() -> dict[str, Any]:
    """Return caption, source, rows and columns of each table by its name."""
    return dict(load_yaml(Path(str(files("ktdeval_compare") / "paper_tables.yaml"))))


def table_of(name: str) -> Mapping[str, Any]:
    """Caption, source, rows and columns of a table. Raises UsageError: there is none of that
    name.
    """
    known = known_tables()
    if name not in known:
        listed = []
        for table, what in known.items():
            title = re.split("[,;]", what["caption"])[0]
            listed.append(f"{table} ({title})")

        raise UsageError(f"there is no table {name!r}; known are {'; '.join(listed)}")

    return dict(known[name])


def paper_frame(name: str, paths: Sequence[Path], cohorts: Sequence[str] = ()) -> pd.DataFrame:
    """[rows x columns] of a table, as numbers with all their digits. Raises UsageError, CardError:
    the cards don't give it.
    """
    spec = table_of(name)
    if cohorts and spec["rows"] != "factors":
        raise UsageError(f"--cohort: {name} has no cohorts; ktdfin-8 has")

    rows = spec["rows"]
    metrics = [column[1] for column in spec["columns"]]
    if rows == "suites":
        return suite_frame(load_cards(paths)[1], metrics)
    if rows == "kinds":
        return kind_frame(load_cards(paths)[1])
    if rows == "attackers":
        return pd.DataFrame(_attacker_rows(paths, metrics)).set_index("Attacker")

    entrants = label(load_entrants(paths))
    if rows == "agents":
        return _agent_frame(entrants, spec)

    _check_alike(entrants, paths[0])

    # Columns that are made of a metric of another name.
    made_of = {"excess": "total_return", "selection_rank": "selection_alpha"}
    used = dict.fromkeys(made_of.get(name, name) for name in metrics)
    for note in card_notes(entrants, list(used)):
        warn(note)

    if rows == "factors":
        return _exposure_frame(entrants, cohorts)
    return _metric_frame(entrants, spec, metrics)


def _metric_frame(
    entrants: Sequence[Entrant], spec: Mapping[str, Any], metrics: Sequence[str]
) -> pd.DataFrame:
    """Return a table of the metrics of alike cards."""
    rows = spec["rows"]
    if rows == "funds":
        return _fund_frame(entrants, spec)

    if rows == "models":
        frame = _model_frame(entrants, metrics)
        has_several = any(len(entrant.card.pooled) > 1 for entrant in entrants)
        frame.attrs["note"] = spec.get("note_of_several", "") if has_several else ""
        return frame

    if len({entrant.card.task.config.get("family") for entrant in entrants}) > 1:
        raise CardError(
            f"a table of {rows} is of one task family; give cards of one, such as ktdfin or"
            " ktdfin_rebased"
        )

    if rows == "modes":
        return _mode_frame(entrants)
    return _mask_frame(entrants, metrics)


def _check_alike(entrants: Sequence[Entrant], first: Path) -> None:
    """Refuse cards whose figures can't stand in one table."""
    what = figures_differ_in(entrant.card for entrant in entrants)
    if what:
        raise CardError(
            f"the cards' figures are of different {what} ({first} …); a table is of cards of the"
            " same ones"
        )


def _agent_frame(entrants: Sequence[Entrant], spec: Mapping[str, Any]) -> pd.DataFrame:
    """Agents and models x assets; the cards of each asset must be alike, and markets may differ
    between assets.
    """
    frame, columns = asset_frame(entrants, spec["columns"], spec["assets"])
    for members in by_task(entrants).values():
        _check_alike(members, members[0].path)
    if len({entrant.card.rules for entrant in entrants}) > 1:
        raise CardError(
            f"the cards' figures are of different metric rules ({entrants[0].path} …); a table is"
            " of cards of the same ones"
        )

    metrics = [metric for _, metric, _ in spec["columns"]]
    for note in card_notes(entrants, metrics):
        warn(note)

    frame.attrs["columns"] = columns
    frame.attrs["note"] = _note(spec, entrants)
    return frame


def _fund_frame(entrants: Sequence[Entrant], spec: Mapping[str, Any]) -> pd.DataFrame:
    """Models of one fund, and its index."""
    metrics = [metric for _, metric, _ in spec["columns"]]
    card = entrants[0].card
    windows = dict.fromkeys((episode.window for episode in card.pooled), card)
    index = {metric: benchmark_held(windows, metric) for metric in spec["of_index"]}
    index["df_sharpe"] = index_sharpe(windows, _risk_free(spec["treasury_bill"], card.rules))
    frame = fund_frame(entrants, metrics, index)
    frame.attrs["note"] = _note(spec, entrants)
    return frame


def _risk_free(bill: float, rules: str) -> float:
    """Return the sum over a year's days of the daily risk-free rate: the paper divides the yield of
    a bill by 252, and strict rules take the 252nd root of its growth.
    """
    if rules == "paper":
        return bill
    return TRADING_DAYS * math.expm1(math.log1p(bill) / TRADING_DAYS)


def _note(spec: Mapping[str, Any], entrants: Sequence[Entrant]) -> str:
    """Return what differs from the paper: always, by these cards' rules, and of several episodes."""
    parts = [spec["note"]]
    if entrants[0].card.rules != "paper":
        parts.append(spec["note_of_strict"])
    if any(len(entrant.card.pooled) > 1 for entrant in entrants):
        parts.append("a cell is the median over the episodes of its card")

    return "; ".join(parts)


def table_json(name: str, spec: Mapping[str, Any], frame: pd.DataFrame) -> dict[str, JsonValue]:
    """Return a frame as JSON: its columns by the metrics' names, each with its printed heading, and
    its rows with all digits; null where a figure is not defined.
    """
    headings = {}
    for heading, metric, _how in frame.attrs.get("columns", spec["columns"]):
        headings[metric] = heading

    columns: list[JsonValue] = []
    for column in frame:
        columns.append({"name": str(column), "heading": headings.get(column, str(column))})

    rows: list[JsonValue] = []
    for key, (_, figures) in zip(frame.index, frame.iterrows(), strict=True):
        words = key if isinstance(key, tuple) else (key,)
        row: dict[str, JsonValue] = dict(zip(map(str, frame.index.names), words, strict=True))
        for column, value in figures.items():
            row[str(column)] = _json_figure(value)

        rows.append(row)

    return {
        "table": name,
        "caption": spec["caption"],
        "source": spec["source"],
        "note": frame.attrs.get("note", ""),
        "columns": columns,
        "rows": rows,
    }


def _json_figure(value: Any) -> JsonValue:
    """Return a cell as JSON; None for an undefined figure."""
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return None
    return float(value)


def write_table(
    spec: Mapping[str, Any], frame: pd.DataFrame, form: str, width: int | None = None
) -> str:
    """A frame in one of the formats, with the caption, source and note of its table; CSV by the
    metrics' names, as fractions. `width`: the most columns of a line of text.
    """
    note = frame.attrs.get("note", "")
    if form == "csv":
        if note:
            warn(note)

        return str(frame.to_csv())

    table = _cells(spec, frame)
    caption = f"{spec['caption']} ({spec['source']})"
    if form == "latex":
        return _latex(table, ". ".join([caption, note] if note else [caption]))
    if form == "markdown":
        return _markdown(table, caption, note)

    parts: list[Part] = [caption, Table(table.heads, table.rows, table.words)]
    if note:
        parts.append(f"  {note}")

    return "\n".join([*lines_of(parts, width), ""])


@dataclass(frozen=True, slots=True)
class _Cells:
    """A table as text."""

    heads: list[str]
    rows: list[list[str]]
    words: list[str]  #: heads of the columns that are words, which come first


def _cells(spec: Mapping[str, Any], frame: pd.DataFrame) -> _Cells:
    """Figures of a frame as its table shows them; columns without any figure are left out."""
    listed = frame.attrs.get("columns", spec["columns"])
    columns = {metric: (head, how) for head, metric, how in listed}
    if not columns:
        columns = {str(name): (str(name), "ratio") for name in frame}
    if spec["rows"] == "modes":
        frame = _spelled(frame)
        columns = {mask: (mask, "") for mask in MASK_KINDS}

    shown = []
    for name in columns:
        if name in frame and (spec["rows"] in _WHOLE or frame[name].notna().any()):
            shown.append(name)

    words = [str(name) for name in frame.index.names]
    heads = [*words, *(columns[name][0] for name in shown)]
    rows = []
    for key, values in zip(frame.index, frame[shown].itertuples(index=False), strict=True):
        names = key if isinstance(key, tuple) else (key,)
        hows = [columns[name][1] for name in shown]
        figures = [_cell(value, how) for value, how in zip(values, hows, strict=True)]
        rows.append([*names, *figures])

    return _Cells(heads, rows, words)


def _latex(table: _Cells, caption: str) -> str:
    layout = "l" * len(table.words) + "r" * (len(table.heads) - len(table.words))
    frame = pd.DataFrame(table.rows, columns=table.heads)
    return str(frame.to_latex(index=False, escape=True, caption=caption, column_format=layout))


def _markdown(table: _Cells, caption: str, note: str) -> str:
    rule = ["---" if head in table.words else "---:" for head in table.heads]
    lines = [caption, ""]
    for row in (table.heads, rule, *table.rows):
        cells = [text.replace("|", "\\|") for text in row]
        lines.append(f"| {' | '.join(cells)} |")

    lines.append("")
    if note:
        lines.append(f"{note}\n")
    return "\n".join(lines)


def _spelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Median and quartiles of each mask in one text."""
    texts: dict[str, list[str]] = {}
    for mask in MASK_KINDS:
        if mask in frame:
            texts[mask] = [_with_quartiles(row, mask) for _, row in frame.iterrows()]
    return pd.DataFrame(texts, frame.index)


def _with_quartiles(row: pd.Series[float], mask: str) -> str:
    median = _cell(row[mask], "percent")
    low = _cell(row.get(f"{mask}_low"), "percent")
    high = _cell(row.get(f"{mask}_high"), "percent")
    if UNDEFINED in (low, high):
        return median
    return f"{median} [{low}, {high}]"


def _cell(value: Any, how: str) -> str:
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return UNDEFINED

    scaled = value * 100 if how in _IN_PERCENT else value
    return f"{scaled:{_SHOWN[how]}}"


def benchmark_held(cards: Mapping[str, TradingCard], metric: str) -> float | None:
    """Median over windows, each with a card that has it, of a metric of the benchmark, bought and
    held; None without one.
    """
    known: list[float] = []
    for window, card in cards.items():
        metrics = card.reference.benchmark_buy_and_hold[window].metrics
        line = getattr(metrics, metric, None)
        if line is not None and line.value is not None:
            known.append(line.value)

    return median(known) if known else None


def index_sharpe(cards: Mapping[str, TradingCard], risk_free: float) -> float | None:
    """Median over windows of the annualised Sharpe ratio of the benchmark over `risk_free`, a
    fraction a year; None without one.

    A card has the ratio over 0, S, and the annualised volatility V: over f it is S - f / V.
    """
    known: list[float] = []
    for window, card in cards.items():
        metrics = card.reference.benchmark_buy_and_hold[window].metrics
        if metrics.volatility is UNSET or not metrics.volatility.value:
            continue
        if metrics.sharpe.value is not None:
            known.append(metrics.sharpe.value - risk_free / metrics.volatility.value)

    return median(known) if known else None


def _row(card: TradingCard, metrics: Sequence[str]) -> Row:
    """Figures of one card; a metric that it does not have is undefined."""
    return {
        metric: excess_return(card) if metric == "excess" else _value(card, metric)
        for metric in metrics
    }


def _model_frame(entrants: Sequence[Entrant], metrics: Sequence[str]) -> pd.DataFrame:
    """One row a model, best return first, and in a table with excess returns the benchmark at its
    rank.
    """
    tasks = {entrant.card.task.name for entrant in entrants}
    if len(tasks) > 1:
        raise CardError(
            f"a table of models is of one task, these cards are of {', '.join(sorted(tasks))}; give"
            " those of one"
        )

    rows = {entrant.label: _row(entrant.card, metrics) for entrant in entrants}
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


def _mode_frame(entrants: Sequence[Entrant]) -> pd.DataFrame:
    """Models and modes x masks: the median of each (`bright`) and its quartiles (`bright_low`,
    `bright_high`).
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

        # One episode has a bootstrap interval instead.
        if line.quartiles:
            row[f"{card.task.mask}_low"] = line.quartiles.low
            row[f"{card.task.mask}_high"] = line.quartiles.high

    frame = pd.DataFrame.from_dict(cells, orient="index", dtype=float)
    return _in_order(frame.rename_axis(["Model", "Mode"]), "Mode", MODES)


def _mask_frame(entrants: Sequence[Entrant], metrics: Sequence[str]) -> pd.DataFrame:
    """One row a model and mask."""
    if len({entrant.card.task.mode for entrant in entrants}) > 1:
        raise CardError("a table of masks is of one mode; give cards of one, such as open_research")

    rows: dict[tuple[str, ...], Row] = {}
    names = system_labels(entrant.system for entrant in entrants)
    for entrant in entrants:
        key = (names[entrant.system], entrant.card.task.mask)
        _check_new(key not in rows, entrant, key[0])
        rows[key] = _row(entrant.card, metrics)

    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=float)
    return _in_order(frame.rename_axis(["Model", "Mask"]), "Mask", MASK_KINDS)


def _check_new(is_new: bool, entrant: Entrant, name: str) -> None:
    if not is_new:
        task = entrant.card.task
        raise CardError(
            f"{entrant.path}: {name} has two cards of {task.mask} {task.mode}; give one"
        )


def _in_order(frame: pd.DataFrame, level: str, order: Sequence[str]) -> pd.DataFrame:
    """Rows by model as given, inside it in the order of the benchmark."""
    models = list(dict.fromkeys(frame.index.get_level_values(0)))
    ordered = [*order, *sorted(set(frame.index.get_level_values(level)) - set(order))]
    return frame.loc[
        sorted(frame.index, key=lambda key: (models.index(key[0]), ordered.index(key[1])))
    ]


def _exposure_frame(entrants: Sequence[Entrant], cohorts: Sequence[str]) -> pd.DataFrame:
    """Factors x models, or x cohorts and, of two, their difference."""
    rows = card_exposures(entrants)
    if not rows:
        raise UsageError(
            f"{entrants[0].path}: these cards have no exposures to the same style factors (metric"
            " selection_alpha)"
        )

    frame = pd.DataFrame({row.factor: row.cards for row in rows}, dtype=float).T
    frame = frame.rename_axis("Factor")
    exposed: list[Entrant] = []
    for entrant in entrants:
        if entrant.label in frame and frame[entrant.label].notna().any():
            exposed.append(entrant)
        else:
            warn(
                f"{entrant.label}: no exposures, so it stands in no mean: it never held anything,"
                " or has no metric selection_alpha"
            )

    for entrant in exposed:
        lacking = frame.index[frame[entrant.label].isna()]
        if len(lacking):
            factors = ", ".join(str(factor) for factor in lacking)
            warn(f"{entrant.label}: no exposure to {factors}, so it stands in no mean of these")

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


def _columns_of(exposed: Sequence[Entrant], cohort: str, patterns: Sequence[str]) -> list[str]:
    """Labels of the cards whose systems are of a cohort. Raises UsageError: a pattern matches
    none.
    """
    for pattern in patterns:
        check_match(pattern, (entrant.system for entrant in exposed), f"--cohort {cohort}")

    labels = []
    for entrant in exposed:
        if any(entrant.system.matches(pattern) for pattern in patterns):
            labels.append(entrant.label)
    return labels


def _attacker_rows(paths: Sequence[Path], scores: Sequence[str]) -> Iterator[Row]:
    """One row an attacker, best first, then what chance alone gives on the same probes."""
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
