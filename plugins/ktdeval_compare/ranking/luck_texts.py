"""Reports of `compare luck` as tables of aligned plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval_compare.ranking.luck import LuckReport, LuckRow, RankCorrelation
from ktdeval_compare.ranking.random_players import PlayersRow
from ktdeval_compare.style_exposures import FactorMeans
from ktdeval_compare.table_columns import (
    UNDEFINED,
    Part,
    ReportColumn,
    figure,
    figure_of,
    grid,
    p_of,
    p_value,
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
        ReportColumn("rank", lambda row: _rank(row.return_rank)),
        figure_of("selection %", "selection", "fraction"),
        ReportColumn("rank ", lambda row: _rank(row.selection_rank)),
        figure_of("as KTD-Fin %", "paper_selection", "fraction"),
        p_of("psr"),
        p_of("dsr"),
        ReportColumn("trials a window", _trials),
        ReportColumn("note", lambda row: row.reason or "", is_left=True),
    )
    yield f"  rank by return against rank by selection: {_agreement(report.ranks)}"
    yield from (f"  {note}" for note in report.notes)

    if report.players:
        yield ""
        yield from _player_parts(report.players)

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


def _player_parts(rows: Sequence[PlayersRow]) -> Iterator[Part]:
    """Parts of the table of random players."""
    count = max(row.n for row in rows)
    yield (
        f"Random players, {count:,} an episode: same days, turnover, number of names, costs and"
        " rules, names at random; returns in %"
    )
    yield grid(
        rows,
        text("card"),
        text("window"),
        ReportColumn("seed", lambda row: UNDEFINED if row.seed is None else str(row.seed)),
        ReportColumn("return", lambda row: _of_standing(row, "own")),
        ReportColumn("players: 5 %", lambda row: _of_standing(row, "q5")),
        ReportColumn("median", lambda row: _of_standing(row, "q50")),
        ReportColumn("95 %", lambda row: _of_standing(row, "q95")),
        ReportColumn("beats %", _beaten),
        ReportColumn("95 % interval", _beaten_interval),
        ReportColumn(
            "p", lambda row: p_value(None if row.standing is None else row.standing.p_value)
        ),
        ReportColumn(
            "turnover", lambda row: _compare_with_players(row.turnover, row.players_turnover)
        ),
        ReportColumn("names", lambda row: _compare_with_players(row.names, row.players_names)),
        ReportColumn("note", lambda row: row.reason or "", is_left=True),
    )


def _of_standing(row: PlayersRow, name: str) -> str:
    if row.standing is None:
        return UNDEFINED
    return figure(getattr(row.standing, name), "fraction")


def _beaten(row: PlayersRow) -> str:
    """Return the share of players that a card beats; it is never negative, and has no sign."""
    if row.standing is None:
        return UNDEFINED
    return f"{100 * row.standing.rank:.2f}"


def _beaten_interval(row: PlayersRow) -> str:
    if row.standing is None:
        return UNDEFINED
    return f"{100 * row.standing.low:.2f} … {100 * row.standing.high:.2f}"


def _compare_with_players(own: float | None, players: float | None) -> str:
    """Return a figure of the card, and that of its players."""
    if own is None or players is None:
        return UNDEFINED
    return f"{own:.1f} / {players:.1f}"


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
        ReportColumn("same sign", lambda row: f"{row.same_sign} of {row.members}"),
    )


def _card_column(head: str, name: str) -> ReportColumn[FactorMeans]:
    return ReportColumn(head, lambda row: figure(row.cards[name], "ratio"))
