"""`ktdeval table`: the tables of the papers, from one's own cards, as text, CSV, Markdown or LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean, median
from typing import Any

import click
import numpy as np
import pandas as pd

from ktdeval.cards import TradingCard, check_match, excess_return, figures_differ_in, system_labels
from ktdeval.cli import FilePath, grid_lines, warn
from ktdeval.errors import CardError, UsageError
from ktdeval.masking import MASK_KINDS
from ktdeval.yamlio import load_yaml
from ktdeval_compare.definitions import cohort_definitions
from ktdeval_compare.entrants import Entrant, Scored, card_notes, label, load_cards, load_entrants
from ktdeval_compare.luck import card_value as _value, exposures

Row = dict[str, float | str | None]
UNDEFINED = "-"
MODES = ("open_research", "fixed_candidate", "memory_only")
_SHOWN = {"percent": "+z.2f", "share": ".2f", "ratio": "z.2f", "small": "z.3f", "points": "z.2f", "rank": "g"}
_IN_PERCENT = ("percent", "share")


@click.command("table")
@click.argument("cards", nargs=-1, required=True, type=FilePath(), metavar="CARD…")
@click.option("--like", "name", required=True, metavar="NAME", help="which table, such as ktdfin-4 (KTD-Fin's Table 4)")
@click.option("--format", "form", type=click.Choice(["text", "csv", "markdown", "latex"]), default="text", show_default=True,
              help="how it is written; CSV has every digit")  # fmt: skip
@click.option("--cohort", "cohorts", multiple=True, metavar="NAME=PATTERN,…", help="systems whose mean is one column of ktdfin-8")
def table_command(cards: tuple[Path, ...], name: str, form: str, cohorts: tuple[str, ...]) -> None:
    """Print a table of a paper, made of your own cards.

    CARD is a card file or a run folder. Figures are those of the cards: medians over the windows and seeds that each has.
    """
    click.echo(write_table(table_of(name), paper_frame(name, cards, cohorts), form), nl=False)


def table_of(name: str) -> Mapping[str, Any]:
    """Caption, source, rows and columns of a table. Raises UsageError: there is none of that name."""
    known: dict[str, Any] = load_yaml(Path(str(files("ktdeval_compare") / "paper_tables.yaml")))
    if name not in known:
        listed = "; ".join(f"{table} ({re.split('[,;]', what['caption'])[0]})" for table, what in known.items())
        raise UsageError(f"there is no table {name!r}; known are {listed}")
    return dict(known[name])


def paper_frame(name: str, paths: Sequence[Path], cohorts: Sequence[str] = ()) -> pd.DataFrame:
    """[rows x columns] of a table, as numbers with all their digits. Raises UsageError, CardError: the cards don't give it."""
    spec = table_of(name)
    if cohorts and spec["rows"] != "factors":
        raise UsageError(f"--cohort: {name} has no cohorts; ktdfin-8 has")
    rows, metrics = spec["rows"], [column[1] for column in spec["columns"]]
    if rows == "suites":
        return _suite_frame(load_cards(paths)[1], metrics)
    if rows == "attackers":
        return pd.DataFrame(_attacker_rows(paths, metrics)).set_index("Attacker")
    entrants = label(load_entrants(paths))
    if what := figures_differ_in(entrant.card for entrant in entrants):
        raise CardError(f"the cards' figures are of different {what} ({paths[0]} …); a table is of cards of the same ones")
    of = {"excess": "total_return", "selection_rank": "selection_alpha"}
    for note in card_notes(entrants, list(dict.fromkeys(of.get(name, name) for name in metrics))):
        warn(note)
    if rows == "factors":
        return _exposure_frame(entrants, cohorts)
    if rows == "models":
        frame = _model_frame(entrants, metrics)
        has_several = any(len(entrant.card.pooled) > 1 for entrant in entrants)
        frame.attrs["note"] = spec.get("note_of_several", "") if has_several else ""
        return frame
    if len({entrant.card.task.config.get("family") for entrant in entrants}) > 1:
        raise CardError(f"a table of {rows} is of one task family; give cards of one, such as ktdfin or ktdfin_rebased")
    return _mode_frame(entrants) if rows == "modes" else _mask_frame(entrants, metrics)


def write_table(spec: Mapping[str, Any], frame: pd.DataFrame, form: str) -> str:
    """A frame in one of the formats, with the caption, source and note of its table; CSV by the metrics' names, as fractions."""
    note = frame.attrs.get("note", "")
    if form == "csv":
        if note:
            warn(note)
        return str(frame.to_csv())
    columns = {metric: (head, how) for head, metric, how in spec["columns"]} or {str(name): (str(name), "ratio") for name in frame}
    if spec["rows"] == "modes":
        frame, columns = _spelled(frame), {mask: (mask, "") for mask in MASK_KINDS}
    frame = frame[[name for name in columns if name in frame and (spec["rows"] == "attackers" or frame[name].notna().any())]]
    words = [str(name) for name in frame.index.names]
    heads = [*words, *(columns[name][0] for name in frame)]
    shown = [[_cell(value, columns[name][1]) for value in frame[name]] for name in frame]
    cells = [[*(key if isinstance(key, tuple) else (key,)), *row] for key, *row in zip(frame.index, *shown, strict=True)]
    caption = f"{spec['caption']} ({spec['source']})"
    notes = [note] if note else []
    if form == "latex":
        caption = ". ".join([caption, *notes])
        layout = "l" * len(words) + "r" * (len(heads) - len(words))
        return str(pd.DataFrame(cells, columns=heads).to_latex(index=False, escape=True, caption=caption, column_format=layout))
    if form == "markdown":
        rule = ["---" if head in words else "---:" for head in heads]
        lines = [f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |" for row in (heads, rule, *cells)]
        return "\n".join([caption, "", *lines, "", *(f"{text}\n" for text in notes)])
    lines = [*grid_lines(heads, cells, words), *notes]
    return "\n".join([caption, *(f"  {line}" for line in lines), ""])


def _spelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Median and quartiles of each mask in one text."""

    def text(row: pd.Series[float], mask: str) -> str:
        low, high = (_cell(row.get(f"{mask}_{end}"), "percent") for end in ("low", "high"))
        return _cell(row[mask], "percent") + ("" if UNDEFINED in (low, high) else f" [{low}, {high}]")

    shown = [mask for mask in MASK_KINDS if mask in frame]
    return pd.DataFrame({mask: [text(row, mask) for _, row in frame.iterrows()] for mask in shown}, frame.index)


def _cell(value: Any, how: str) -> str:
    if isinstance(value, str):
        return value
    return UNDEFINED if value is None or pd.isna(value) else f"{value * 100 if how in _IN_PERCENT else value:{_SHOWN[how]}}"


def benchmark_held(cards: Mapping[str, TradingCard], metric: str) -> float | None:
    """Median over windows, each with a card that has it, of a metric of the benchmark, bought and held; None without one."""
    lines = [getattr(card.reference.benchmark_buy_and_hold[window].metrics, metric, None) for window, card in cards.items()]
    known = [line.value for line in lines if line is not None and line.value is not None]
    return median(known) if known else None


def _row(card: TradingCard, metrics: Sequence[str]) -> Row:
    """Figures of one card; a metric that it does not have is undefined."""
    return {metric: excess_return(card) if metric == "excess" else _value(card, metric) for metric in metrics}


def _model_frame(entrants: Sequence[Entrant], metrics: Sequence[str]) -> pd.DataFrame:
    """One row a model, best return first, and in a table with excess returns the benchmark at its rank."""
    tasks = {entrant.card.task.name for entrant in entrants}
    if len(tasks) > 1:
        raise CardError(f"a table of models is of one task, these cards are of {', '.join(sorted(tasks))}; give those of one")
    rows = {entrant.label: _row(entrant.card, metrics) for entrant in entrants}
    if "selection_rank" in metrics:
        ranks = pd.Series([_value(entrant.card, "selection_alpha") for entrant in entrants], dtype=float).rank(ascending=False)
        for row, rank in zip(rows.values(), ranks, strict=True):
            row["selection_rank"] = float(rank)
    if "excess" in metrics:
        card = entrants[0].card
        cards = dict.fromkeys((episode.window for episode in card.pooled), card)
        held: Row = {metric: benchmark_held(cards, metric) for metric in metrics}
        rows |= {f"{card.snapshot.benchmark_name} buy-and-hold": held} if held["total_return"] is not None else {}
    frame = pd.DataFrame.from_dict(rows, orient="index", dtype=float).rename_axis("Model")
    return frame.sort_values("total_return", ascending=False, kind="stable")


def _suite_frame(entrants: Sequence[Scored], scores: Sequence[str]) -> pd.DataFrame:
    """One row a model, with the scores of each suite (`calling_tm`), best first."""
    rows: dict[str, Row] = {}
    names = system_labels(entrant.system for entrant in entrants)
    for entrant in entrants:
        suite, model = entrant.card.task.config.get("suite"), names[entrant.system]
        row = rows.setdefault(model, dict.fromkeys(scores))
        figures = {
            name: line.value for line_name, line in entrant.card.scores.items() if (name := f"{suite}_{line_name}") in scores
        }
        if any(row[name] is not None for name in figures):
            raise CardError(f"{entrant.path}: {model} has two cards of the suite {suite}; give one")
        row |= figures
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=list(scores), dtype=float).rename_axis("Model")
    if frame.isna().all(axis=None):
        raise UsageError("no card of tool calling or planning here; run --tasks qfinzero_calling,qfinzero_planning")
    best = [name for name in scores if name.endswith("_overall")]
    return frame.iloc[np.argsort(-frame[best].mean(axis=1).to_numpy(), kind="stable")]


def _mode_frame(entrants: Sequence[Entrant]) -> pd.DataFrame:
    """Models and modes x masks: the median of each (`bright`) and its quartiles (`bright_low`, `bright_high`)."""
    cells: dict[tuple[str, ...], Row] = {}
    names = system_labels(entrant.system for entrant in entrants)
    for entrant in entrants:
        card, line = entrant.card, entrant.card.metrics["total_return"]
        name = names[entrant.system]
        row = cells.setdefault((name, card.task.mode), {})
        _check_new(card.task.mask not in row, entrant, name)
        row |= {card.task.mask: line.value}
        if line.interval and line.interval.kind == "interquartile":  # one episode has a bootstrap interval instead
            row |= {f"{card.task.mask}_{end}": getattr(line.interval, end) for end in ("low", "high")}
    frame = pd.DataFrame.from_dict(cells, orient="index", dtype=float).rename_axis(["Model", "Mode"])
    return _in_order(frame, "Mode", MODES)


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
    return _in_order(pd.DataFrame.from_dict(rows, orient="index", dtype=float).rename_axis(["Model", "Mask"]), "Mask", MASK_KINDS)


def _check_new(is_new: bool, entrant: Entrant, name: str) -> None:
    if not is_new:
        task = entrant.card.task
        raise CardError(f"{entrant.path}: {name} has two cards of {task.mask} {task.mode}; give one")


def _in_order(frame: pd.DataFrame, level: str, order: Sequence[str]) -> pd.DataFrame:
    """Rows by model as given, inside it in the order of the benchmark."""
    models = list(dict.fromkeys(frame.index.get_level_values(0)))
    ordered = [*order, *sorted(set(frame.index.get_level_values(level)) - set(order))]
    return frame.loc[sorted(frame.index, key=lambda key: (models.index(key[0]), ordered.index(key[1])))]


def _exposure_frame(entrants: Sequence[Entrant], cohorts: Sequence[str]) -> pd.DataFrame:
    """Factors x models, or x cohorts and, of two, their difference."""
    if not (rows := exposures(entrants)):
        raise UsageError(f"{entrants[0].path}: these cards have no exposures to the same style factors (metric selection_alpha)")
    frame = pd.DataFrame({row["factor"]: row["cards"] for row in rows}, dtype=float).T.rename_axis("Factor")
    exposed = [entrant for entrant in entrants if entrant.label in frame and frame[entrant.label].notna().any()]
    for entrant in entrants:
        if entrant not in exposed:
            warn(
                f"{entrant.label}: no exposures, so it stands in no mean: it never held anything, or has no metric selection_alpha"
            )
    for entrant in exposed:
        if lacking := list(frame.index[frame[entrant.label].isna()]):
            warn(f"{entrant.label}: no exposure to {', '.join(map(str, lacking))}, so it stands in no mean of these")
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
    """Labels of the cards whose systems are of a cohort. Raises UsageError: a pattern matches none."""
    for pattern in patterns:
        check_match(pattern, (entrant.system for entrant in exposed), f"--cohort {cohort}")
    return [entrant.label for entrant in exposed if any(entrant.system.matches(pattern) for pattern in patterns)]


def _attacker_rows(paths: Sequence[Path], scores: Sequence[str]) -> Iterator[Row]:
    """One row an attacker, best first, then what chance alone gives on the same probes."""
    entrants = label([entrant for entrant in load_cards(paths)[1] if "ticker_top1" in entrant.card.scores])
    if not entrants:
        raise UsageError(f"{paths[0]}: no card of a de-anonymization probe here; run --tasks deanon_probe")
    for entrant in sorted(entrants, key=lambda entrant: -(entrant.card.scores[scores[-1]].value or 0.0)):
        yield {"Attacker": entrant.label, **{score: entrant.card.scores[score].value for score in scores}}
    cards = [entrant.card for entrant in entrants]
    chance = {score: [baseline for card in cards if (baseline := card.scores[score].baseline) is not None] for score in scores}
    yield {"Attacker": "random baseline", **{score: fmean(known) if known else None for score, known in chance.items()}}
