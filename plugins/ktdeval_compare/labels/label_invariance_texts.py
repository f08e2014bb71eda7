"""Reports of `compare labels` as aligned plain-text tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ktdeval_compare.forks.episode_distance import FIGURES, WORDS
from ktdeval_compare.labels.label_invariance import InvarianceReport, PairFigureRow
from ktdeval_compare.masks.mask_key_effect import KeyReport, SpreadRow
from ktdeval_compare.ranking.random_players import LEVELS
from ktdeval_compare.table_columns import (
    COUNT,
    UNDEFINED,
    Part,
    ReportColumn,
    figure_column,
    format_column,
    grid,
    make_table,
    text,
    unless_alone,
)


def invariance_parts(report: InvarianceReport) -> Iterator[Part]:
    """Yield the parts of the `compare labels` report."""
    keys = sorted({(card.mask_key or "")[:8] for card in report.cards})
    yield (
        f"Episodes of the same window and seed, compared over mask keys {', '.join(keys)}; all "
        "in per cent"
    )
    figures = unless_alone(report.figures, "task")
    yield make_table(
        "pair_figures",
        figures,
        report.alpha,
        cells={"what differs": _difference, "figure": _figure_label, "n": _value_count},
    )
    for reason in dict.fromkeys(row.reason for row in figures if row.reason):
        yield f"  {UNDEFINED}: {reason}"

    level = f"{100 * (1 - report.alpha):g}"
    yield ""
    yield (
        f"Effect on a total return: two runs of one model differ by less than this in {level} of "
        "100 cases"
    )
    noise = unless_alone(report.noise, "task", report.figures)
    yield make_table("noise", noise, cells={"what differs": _difference})
    yield ""
    yield "Notes"
    yield (
        "  decisions: sets of (asset, side, weight or shares) in true identities; turnover: 0 the"
        " same trades, 100 none in common"
    )
    yield from (f"  {note}" for note in report.notes)


def _difference(row: Any) -> str:
    return str(WORDS["between"][row.between])


def _figure_label(row: PairFigureRow) -> str:
    return FIGURES[row.figure].label


def _value_count(row: PairFigureRow) -> str:
    """Return the number of values behind an interval."""
    return str(row.cells if row.over == "episode" else row.windows)


def key_parts(report: KeyReport) -> Iterator[Part]:
    """Yield the parts of the `compare labels --keys` report."""
    yield (
        f"A model that buys the first {report.positions} names listed and keeps them, over"
        f" {report.keys:,} mask keys: total return in per cent"
    )
    percents = [f"{100 * level:g}" for level in LEVELS]
    quantiles = [figure_column(f"{percent} %", f"q{percent}") for percent in percents]
    for (task, card), rows in itertools.groupby(report.spread, lambda row: (row.task, row.card)):
        yield f"  {task}, {card}"
        yield grid(
            rows,
            text("window"),
            COUNT,
            *quantiles,
            figure_column("this key", "own"),
            format_column("rank", "rank", "{:.3f}"),
            ReportColumn("first listed bought", _first_listed),
        )

    yield ""
    yield "Notes"
    yield (
        "  rank: share of keys under which that model does worse than under the card's; without a"
        " choice every rank is as likely"
    )
    yield (
        "  first listed bought: of the names that the card bought at the first steps of its"
        " episodes (by chance)"
    )
    yield from (f"  {note}" for note in report.notes)


def _first_listed(row: SpreadRow) -> str:
    return f"{row.among_first} of {row.bought} ({row.by_chance:.1f})"
