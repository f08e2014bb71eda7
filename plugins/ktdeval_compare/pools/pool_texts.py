"""Report of `compare --pool` as tables of aligned plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ktdeval_compare.pools.pool import OverMarkets, PooledCell, PooledTest, PoolReport
from ktdeval_compare.table_columns import (
    UNDEFINED,
    UNIT,
    VERDICT,
    Part,
    ReportColumn,
    both,
    figure,
    figure_of,
    grid,
    interval,
    interval_head,
    p_of,
    p_value,
    plain,
    text,
)


def pool_parts(report: PoolReport) -> Iterator[Part]:
    """Parts of the report of `compare --pool`."""
    yield "Pooled over the windows of all markets, first - second, random effects"
    yield grid(
        report.pooled,
        text("metric"),
        text("first"),
        text("second"),
        text("cells", "k", is_left=False),
        figure_of("pooled"),
        UNIT,
        interval(report.alpha),
        p_of("p"),
        p_of("Holm p", "p_holm"),
        VERDICT,
    )
    yield "  interval and p: Hartung-Knapp over cells; verdict: by Holm p"
    estimated = [row for row in report.pooled if row.value is not None]
    if estimated:
        yield from _spread_parts(estimated, report.alpha)

    over = [row for row in report.pooled if row.over_markets is not None]
    if over:
        yield from _market_parts(over, report.alpha)

    for row in report.pooled:
        if row.cells:
            yield from _cell_parts(row)

    if report.notes:
        yield ""
        yield "Notes"
        yield from (f"  {note}" for note in report.notes)


def _spread_parts(rows: Sequence[PooledTest], alpha: float) -> Iterator[Part]:
    """How much the cells of each estimate differ."""
    yield ""
    yield "How much cells differ"
    yield grid(
        rows,
        text("metric"),
        text("first"),
        text("second"),
        plain("tau", "tau"),
        UNIT,
        ReportColumn("I²", _spread_share),
        ReportColumn("Q", lambda row: f"{row.q:.2f}"),
        ReportColumn("Q p", lambda row: p_value(row.q_p)),
        ReportColumn(f"a further window, {interval_head(alpha)}", _prediction),
    )
    yield (
        "  tau: standard deviation of true figures between windows (DerSimonian-Laird); I²: share of"
        " the spread that is not errors"
    )


def _market_parts(rows: Sequence[PooledTest], alpha: float) -> Iterator[Part]:
    """Estimates whose cells are markets."""
    yield ""
    yield "Over markets, each pooled over its own windows first"
    yield grid(
        rows,
        text("metric"),
        text("first"),
        text("second"),
        text("markets", is_left=False),
        _over("pooled", lambda over, unit: figure(over.value, unit)),
        UNIT,
        _over(interval_head(alpha), lambda over, unit: both(over.low, over.high, unit)),
        _over("p", lambda over, _: p_value(over.p)),
        _over("tau", lambda over, unit: figure(over.tau, unit).removeprefix("+")),
        _over("Q p", lambda over, _: p_value(over.q_p)),
        ReportColumn("of each", _each_market, is_left=True),
    )


def _over(head: str, cell: Callable[[OverMarkets, str], str]) -> ReportColumn[PooledTest]:
    """A column of the estimate over markets."""

    def show(row: PooledTest) -> str:
        return UNDEFINED if row.over_markets is None else cell(row.over_markets, row.unit)

    return ReportColumn(head, show)


def _each_market(row: PooledTest) -> str:
    markets = () if row.over_markets is None else row.over_markets.markets
    return ", ".join(f"{each.market} {figure(each.value, each.unit)}" for each in markets)


def _cell_parts(row: PooledTest) -> Iterator[Part]:
    """Cells of one estimate, as found and shrunk."""
    yield ""
    yield f"Cells of {row.metric}, {row.first} - {row.second}"
    yield grid(
        row.cells,
        text("cell"),
        figure_of("found"),
        ReportColumn("error", _error),
        ReportColumn("shrunk", lambda cell: figure(cell.shrunk, cell.unit)),
        UNIT,
        ReportColumn("weight", _weight),
    )
    yield (
        f"  error: standard error, of {row.source}; shrunk: empirical Bayes, drawn towards the"
        " pooled figure"
    )


def _spread_share(row: PooledTest) -> str:
    return UNDEFINED if row.i2 is None else f"{100 * row.i2:.0f} %"


def _prediction(row: PooledTest) -> str:
    return both(row.prediction_low, row.prediction_high, row.unit)


def _error(cell: PooledCell) -> str:
    return figure(cell.se, cell.unit).removeprefix("+")


def _weight(cell: PooledCell) -> str:
    return UNDEFINED if cell.weight is None else f"{100 * cell.weight:.1f} %"
