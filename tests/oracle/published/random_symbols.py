"""Random traders with an account's own rhythm: the same trades in other symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from . import accounts
from .accounts import Account, Price


class Place(Protocol):
    """What a market must offer."""

    days: list[str]
    symbols: list[str]
    honest: Price
    close: Price


@dataclass
class Step:
    """One trade as a share: of cash for a buy, of the holding for a sale."""

    moment: str
    symbol: str
    buys: bool
    share: float


def steps_of(account: Account) -> list[Step]:
    """Trades of the surviving chain as shares of cash or holding."""
    steps = []
    for place in account.chain:
        row = account.rows[place]
        if not row.shares:
            continue
        state = account.rows[row.before]
        if row.shares > 0:
            spent = row.shares * accounts.fill_price(account, place)
            share = spent / state.cash if state.cash > 0 else 0.0
        else:
            held = state.held.get(row.symbol, 0.0)
            share = -row.shares / held if held > 0 else 0.0
        steps.append(Step(row.moment, row.symbol, row.shares > 0, min(max(share, 0.0), 1.0)))
    return steps


def end_value(steps: list[Step], names: dict[str, str], start: float, market: Place) -> float:
    """Cash and holdings at the last close when each symbol is replaced by `names`."""
    cash = start
    held: dict[str, float] = {}
    for step in steps:
        symbol = names[step.symbol]
        price = market.honest(symbol, step.moment)
        if price is None:
            continue
        if step.buys:
            spent = cash * step.share
            cash -= spent
            held[symbol] = held.get(symbol, 0.0) + spent / price
        else:
            sold = held.get(symbol, 0.0) * step.share
            cash += sold * price
            held[symbol] = held.get(symbol, 0.0) - sold
    last = market.days[-1]
    return cash + sum(
        shares * (market.close(symbol, last) or 0.0) for symbol, shares in held.items()
    )


def shuffles(account: Account, market: Place, times: int = 199) -> dict[str, Any]:
    """Chance that the account with its symbols permuted at random ends as high or higher.

    Honest prices, fractions of shares, no fees, for the account and the draws alike.
    """
    steps = steps_of(account)
    names = sorted({step.symbol for step in steps})
    if not steps:
        return {"own_return": 0.0, "p": None}
    random = np.random.default_rng(20261130)
    own = end_value(steps, {name: name for name in names}, account.start_cash, market)
    ends = []
    for _ in range(times):
        drawn = random.permutation(market.symbols)[: len(names)]
        ends.append(end_value(steps, dict(zip(names, drawn)), account.start_cash, market))
    above = sum(end >= own for end in ends)
    return {
        "own_return": own / account.start_cash - 1,
        "median_random_return": float(np.median(ends)) / account.start_cash - 1,
        "p": (above + 1) / (times + 1),
    }
