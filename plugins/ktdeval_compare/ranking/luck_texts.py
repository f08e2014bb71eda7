"""Reports of `compare luck` as aligned plain-text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import points
from ktdeval_compare.ranking.luck import LuckReport, LuckRow, RankCorrelation
from ktdeval_compare.ranking.random_players import PlayersRow
from ktdeval_compare.style_exposures import FactorMeans
from ktdeval_compare.table_columns import (
    UNDEFINED,
    Part,
    ReportColumn,
    figure,
    figure_column,
    grid,
    make_table,
    text,
)

#: if the exposure columns are wider than this number of characters in total, they are numbered
_WIDEST = 50


def luck_parts(report: LuckReport) -> Iterator[Part]:
    """Yield the parts of the `compare luck` report."""
    yield (
        "Luck and selection: medians over episodes; psr, dsr: one-sided probability that the true"
        " Sharpe ratio is above 0, above luck"
    )
    yield make_table("luck", report.cards, cells={"trials a window": _trials})
    yield f"  rank by return against rank by selection: {_agreement(report.ranks)}"
    yield from (f"  {note}" for note in report.notes)

    if report.players:
        yield ""
        yield from _player_parts(report.players)

    if report.exposures:
        yield ""
        yield "Style exposures of the NAV, mean over the days with holdings"
        yield from _exposure_parts(report.exposures)


def _trials(row: LuckRow) -> str:
    least, most = row.trials
    return str(least) if least == most else f"{least} … {most}"


def _agreement(ranks: RankCorrelation) -> str:
    if ranks.reason:
        return ranks.reason
    return f"Spearman {ranks.spearman:+z.2f}, Kendall {ranks.kendall:+z.2f}"


def _player_parts(rows: Sequence[PlayersRow]) -> Iterator[Part]:
    """Yield the parts of the table on random traders."""
    count = max(row.n for row in rows)
    yield (
        f"Random players, {count:,} an episode: same days, turnover, number of names, costs and"
        " rules, names at random; returns in %"
    )
    yield make_table(
        "players",
        rows,
        cells={
            "95 % interval": _beaten_interval,
            "turnover": lambda row: _compare_with_players(row.turnover, row.players_turnover),
            "names": lambda row: _compare_with_players(row.names, row.players_names),
        },
    )


def _beaten_interval(row: PlayersRow) -> str:
    if row.standing is None:
        return UNDEFINED
    return f"{points(row.standing.low, '.2f')} … {points(row.standing.high, '.2f')}"


def _compare_with_players(own: float | None, players: float | None) -> str:
    """Return a card's figure next to the same figure for its random traders."""
    if own is None or players is None:
        return UNDEFINED
    return f"{own:.1f} / {players:.1f}"


def _exposure_parts(rows: Sequence[FactorMeans]) -> Iterator[Part]:
    names = list(rows[0].cards)
    heads = names
    # With many long names, columns are numbered so that the table fits into 80 columns of text.
    if sum(len(name) + 2 for name in names) > _WIDEST:
        heads = [str(number) for number in range(1, len(names) + 1)]
        for head, name in zip(heads, names, strict=True):
            yield f"  {head}: {name}"

    cards = [_card_column(head, name) for head, name in zip(heads, names, strict=True)]
    yield grid(
        rows,
        text("factor"),
        *cards,
        figure_column("mean", "mean", "ratio"),
        ReportColumn("same sign", lambda row: f"{row.same_sign} of {row.members}"),
    )


def _card_column(head: str, name: str) -> ReportColumn[FactorMeans]:
    return ReportColumn(head, lambda row: figure(row.cards[name], "ratio"))
