"""Reports of `compare luck` as tables of aligned plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval_compare.luck import LuckReport, LuckRow, RankCorrelation
from ktdeval_compare.style_exposures import FactorMeans
from ktdeval_compare.table_columns import (
    UNDEFINED,
    Column,
    Part,
    figure,
    figure_of,
    grid,
    p_of,
    text,
)

_WIDEST = 50  #: Columns of exposures in all, in characters, before they are numbered


def luck_parts(report: LuckReport) -> Iterator[Part]:
    """Parts of the report of `compare luck`."""
    yield (
        "Luck and selection: medians over episodes; psr, dsr: probability that the true Sharpe"
        " ratio is above 0, above luck"
    )
    yield grid(
        report.cards,
        text("card"),
        figure_of("return %", "total_return", "fraction"),
        Column("rank", lambda row: _rank(row.return_rank)),
        figure_of("selection %", "selection", "fraction"),
        Column("rank ", lambda row: _rank(row.selection_rank)),
        figure_of("as paper %", "paper_selection", "fraction"),
        p_of("psr"),
        p_of("dsr"),
        Column("trials a window", _trials),
        Column("note", lambda row: row.reason or "", is_left=True),
    )
    yield f"  rank by return against rank by selection: {_agreement(report.ranks)}"
    yield from (f"  {note}" for note in report.notes)

    if report.exposures:
        yield ""
        yield "Style exposures: of the NAV, mean over the days on which something was held"
        yield from _exposure_parts(report.exposures)


def _rank(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:g}"


def _trials(row: LuckRow) -> str:
    least, most = row.trials
    return str(least) if least == most else f"{least} … {most}"


def _agreement(ranks: RankCorrelation) -> str:
    if ranks.reason:
        return ranks.reason
    return f"Spearman {ranks.spearman:+z.2f}, Kendall {ranks.kendall:+z.2f}"


def _exposure_parts(rows: Sequence[FactorMeans]) -> Iterator[Part]:
    names = list(rows[0].cards)
    heads = names
    # Many long names are numbered, so that the table fits 80 columns.
    if sum(len(name) + 2 for name in names) > _WIDEST:
        heads = [str(number) for number in range(1, len(names) + 1)]
        for head, name in zip(heads, names, strict=True):
            yield f"  {head}: {name}"

    cards = [_card_column(head, name) for head, name in zip(heads, names, strict=True)]
    yield grid(
        rows,
        text("factor"),
        *cards,
        figure_of("mean", "mean", "ratio"),
        Column("same sign", lambda row: f"{row.same_sign} of {row.members}"),
    )


def _card_column(head: str, name: str) -> Column[FactorMeans]:
    return Column(head, lambda row: figure(row.cards[name], "ratio"))
