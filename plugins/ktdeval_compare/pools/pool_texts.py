"""Report of `compare --pool` as aligned plain-text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ktdeval_compare.pools.pool import PooledTest, PoolReport
from ktdeval_compare.table_columns import (
    UNIT,
    Part,
    figure,
    format_column,
    grid,
    interval,
    interval_head,
    make_table,
    note_parts,
    p_of,
    plain,
    text,
)


def pool_parts(report: PoolReport) -> Iterator[Part]:
    """Yield the parts of the `compare --pool` report."""
    yield "Pooled over the windows of all markets, first - second, random effects"
    yield make_table("pooled", report.pooled, report.alpha)
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

    yield from note_parts(report.notes)


def _spread_parts(rows: Sequence[PooledTest], alpha: float) -> Iterator[Part]:
    """Yield a table of how much the cells of each estimate differ."""
    yield ""
    yield "How much cells differ"
    yield grid(
        rows,
        text("metric"),
        text("first"),
        text("second"),
        plain("tau", "tau"),
        UNIT,
        format_column("I²", "i2", "{:.0f} %", 100),
        format_column("Q", "q", "{:.2f}"),
        p_of("Q p", "q_p"),
        replace(
            interval(alpha, part="prediction_"), head=f"a further window, {interval_head(alpha)}"
        ),
    )
    yield (
        "  tau: standard deviation of true figures between windows (DerSimonian-Laird); I²: share of"
        " the spread that is not errors"
    )


def _market_parts(rows: Sequence[PooledTest], alpha: float) -> Iterator[Part]:
    """Yield a table of the estimates whose cells are markets."""
    yield ""
    yield "Over markets, each pooled over its own windows first"
    yield make_table("markets", rows, alpha, cells={"of each": _each_market})


def _each_market(row: PooledTest) -> str:
    markets = () if row.over_markets is None else row.over_markets.markets
    return ", ".join(f"{each.market} {figure(each.value, each.unit)}" for each in markets)


def _cell_parts(row: PooledTest) -> Iterator[Part]:
    """Yield the cells of one estimate, with observed and shrunk values."""
    yield ""
    yield f"Cells of {row.metric}, {row.first} - {row.second}"
    yield make_table("pooled_cells", row.cells)
    yield (
        f"  error: standard error, of {row.source}; shrunk: empirical Bayes, drawn towards the"
        " pooled figure"
    )
