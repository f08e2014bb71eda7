"""Articles about unusual trading in options, seen in the day's volumes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ktdeval_qfinzero.data.synthetic.grid import Grid, stream
from ktdeval_qfinzero.data.synthetic.names import Stock
from ktdeval_qfinzero.data.synthetic.news_base import Draft, dollars, long_day
from ktdeval_qfinzero.data.synthetic.option_bars import Flow
from ktdeval_qfinzero.moments import MINUTE

_WINDOW = 20
_UNUSUAL = 2.4
"""Times the mean of the window before."""


def flow_articles(seed: int, stock: Stock, grid: Grid, flow: Flow) -> Iterator[Draft]:
    """Days on which calls or puts were traded many times as much as in the twenty sessions before."""
    for row in range(_WINDOW, len(grid)):
        for is_call, volume in ((True, flow.calls), (False, flow.puts)):
            usual = float(np.mean(volume[row - _WINDOW : row]))
            if usual > 0 and volume[row] > _UNUSUAL * usual and (row, is_call) in flow.top:
                yield _article(seed, stock, grid, flow, (row, is_call, float(volume[row]), usual))


def _article(seed: int, stock: Stock, grid: Grid, flow: Flow, found: tuple[int, bool, float, float]) -> Draft:
    row, is_call, volume, usual = found
    word = "call" if is_call else "put"
    contract, top_volume = flow.top[row, is_call]
    ratio = volume / usual
    other = float((flow.puts if is_call else flow.calls)[row])
    rng = stream(seed, "flow", stock.ticker, str(row), word)
    return Draft(
        key=f"flow {stock.ticker} {grid.days[row]} {word}",
        event_type="option_signal",
        time_ns=int(grid.close_ns[row]) + int(rng.integers(20, 60)) * MINUTE,
        importance="medium" if ratio > 4 else "low",
        tickers=(stock.ticker,),
        title=f"{stock.name} {word} volume at {ratio:.1f} times its usual level",
        description=f"{volume:,.0f} {word}s changed hands; the mean of the last {_WINDOW} sessions is {usual:,.0f}.",
        paragraphs=(
            f"On {long_day(grid.days[row])} {volume:,.0f} {word}s on {stock.name} ({stock.ticker}) changed hands, "
            f"{ratio:.1f} times the mean of the {_WINDOW} sessions before ({usual:,.0f}). "
            f"Volume of {'puts' if is_call else 'calls'} was {other:,.0f}.",
            f"The busiest contract was the {dollars(contract.strike_e4 / 1e4)} {word} expiring {contract.expiry} "
            f"({contract.symbol}) with {top_volume:,} contracts. Volume alone does not tell who bought and who sold.",
        ),
        keywords=("options", f"unusual {word} volume"),
        insights=((stock.ticker, "neutral", f"Unusual {word} volume; the side of the trades is not known."),),
    )
