"""Whether the data of a board are whole: what is missing, doubtful or repaired, with its effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ktdeval_published.clone import Clone
from ktdeval_published.estimates import sharpe_of
from ktdeval_published.fills import one_price_a_day
from ktdeval_published.positions_board import PositionsMarket, ReadEntrant
from ktdeval_published.prices import BoardBars, read_bars
from ktdeval_published.ranks_board import RanksMarket, run_ladder
from ktdeval_published.recipe import BoardRecipe
from ktdeval_published.report import DataFinding, EntrantReport

_LARGE_MOVE = 0.4  #: daily move from which on a price is list_words as split-like
_SAME = 5e-4  #: relative difference below which two prices are equal


def of_ranks(
    recipe: BoardRecipe, market: RanksMarket, entrants: Sequence[EntrantReport]
) -> tuple[DataFinding, ...]:
    """Return the faults of a board of ranks."""
    assert recipe.ladder is not None, "the recipe was checked"
    findings = [_zeros(recipe, market, entrants)]
    findings += _splits(recipe, market, entrants)
    sizes = Counter(len(one.symbols) for days in market.ranks.values() for one in days)
    findings.append(
        DataFinding(
            kind="names ranked",
            count=sum(sizes.values()),
            detail=f"files rank {min(sizes)} to {max(sizes)} names; the ladder is made anew over"
            " names with a close at the entry",
        )
    )
    findings.append(
        DataFinding(
            kind="files without entry or exit",
            count=market.undated,
            detail="the next two days of the prices are taken",
        )
    )
    return tuple(one for one in findings if one.count)


def _zeros(
    recipe: BoardRecipe, market: RanksMarket, entrants: Sequence[EntrantReport]
) -> DataFinding:
    assert recipe.ladder is not None, "the recipe was checked"
    moved = []
    for one in entrants:
        literal = run_ladder(
            market.ranks[one.name], market.repaired, recipe.ladder, zero_is_price=True
        )
        value = sharpe_of(literal.gains / (literal.gross or 1.0), recipe.days_a_year).value
        own = one.executed.sharpe.value if one.executed is not None else None
        if value is not None and own is not None:
            moved.append(abs(value - own))
    largest = max(moved, default=0.0)
    middle = float(np.median(moved)) if moved else 0.0
    return DataFinding(
        kind="closes of zero",
        count=market.raw.zeros,
        detail="read as missing: a name without a close at its exit is valued at its entry",
        effect=f"read as prices, they would move a Sharpe ratio by up to {largest:.2f} (median"
        f" {middle:.2f})",
    )


def _splits(
    recipe: BoardRecipe, market: RanksMarket, entrants: Sequence[EntrantReport]
) -> list[DataFinding]:
    assert recipe.market is not None, "the recipe was checked"
    first = min((one.executed.first for one in entrants if one.executed), default="")
    findings = [
        DataFinding(
            kind="moves of 40 % or more",
            count=len(moves := large_moves(market.raw, first)),
            detail="; ".join(moves),
        )
    ]
    for split in recipe.market.splits:
        changes = [
            one.executed.gain - one.unrepaired.gain
            for one in entrants
            if one.executed and one.unrepaired
            if one.executed.gain is not None and one.unrepaired.gain is not None
        ]
        findings.append(
            DataFinding(
                kind="split booked as a loss",
                count=1,
                detail=f"{split.symbol} on {split.day}, {split.ratio:g} for 1, by {split.source}",
                effect=f"the repair moves a gain by {min(changes):+,.2f} to {max(changes):+,.2f}",
            )
        )
    return findings


def large_moves(bars: BoardBars, first: str) -> list[str]:
    """Return the daily moves of at least 40 % from a day on, in words."""
    ends = np.array([end - 1 for _, end in bars.day_rows.values()])
    days = np.array(list(bars.day_rows))
    closes = bars.last_close[ends]
    ratio = closes[1:] / closes[:-1] - 1
    found = []
    for place, column in np.argwhere(np.abs(ratio) >= _LARGE_MOVE):
        day = str(days[place + 1])
        if day >= first:
            found.append(f"{bars.symbols[column]} {ratio[place, column]:+.1%} on {day}")
    return found


def of_positions(
    of: PositionsMarket, clone: Clone, read: Sequence[ReadEntrant]
) -> tuple[DataFinding, ...]:
    """Return the faults of a board of position rows."""
    accounts = [one.account for one in read if one.account is not None]
    first = min((str(account.states[1].stamp)[:10] for account in accounts), default="")
    moves = large_moves(of.bars, first)
    forked = sum(account.forked_rows for account in accounts)
    repeated = sum(account.repeated_ids for account in accounts)
    zero = sum(account.of_zero for account in accounts)
    unexplained = sum(account.unexplained for account in accounts)
    findings = [
        DataFinding(kind="closes of zero", count=of.bars.zeros, detail="read as missing"),
        DataFinding(kind="moves of 40 % or more", count=len(moves), detail="; ".join(moves)),
        DataFinding(
            kind="forked rows",
            count=forked,
            detail=f"{repeated} ids repeat: days were run again from an earlier state; the account"
            " is the branch that ends in the last row",
        ),
        DataFinding(kind="rows of amount 0", count=zero, detail="they are no trades"),
        DataFinding(
            kind="unexplained changes",
            count=unexplained,
            detail="rows whose change of positions is not that of their action",
        ),
        _missing_bars(of.bars, first),
        *_beside(of, clone),
        *_single_prices(read),
    ]
    return tuple(one for one in findings if one.count)


def _missing_bars(bars: BoardBars, first: str) -> DataFinding:
    used = bars.days >= np.datetime64(first or "1900-01-01")
    missing = np.isnan(bars.close[used])
    names = int(missing.any(axis=0).sum())
    return DataFinding(
        kind="bars without a close",
        count=int(missing.sum()),
        detail=f"in {names} of {len(bars.symbols)} names since {first}; the last close is kept",
    )


def _beside(of: PositionsMarket, clone: Clone) -> list[DataFinding]:
    """Return how far a second table of the same prices differs, by day's last close."""
    if of.market.beside is None:
        return []
    other = read_bars(clone, of.market.beside)
    symbols = [symbol for symbol in of.bars.symbols if symbol in other.column]
    days = [day for day in of.bars.day_rows if day in other.day_rows]
    own = of.bars.last_close[[of.bars.day_rows[day][1] - 1 for day in days]]
    second = other.last_close[[other.day_rows[day][1] - 1 for day in days]]
    own = own[:, [of.bars.column[symbol] for symbol in symbols]]
    second = second[:, [other.column[symbol] for symbol in symbols]]
    differs = np.abs(own / second - 1) > _SAME
    names = [symbols[place] for place in np.flatnonzero(differs.any(axis=0))]
    return [
        DataFinding(
            kind="adjusted beside raw prices",
            count=len(names),
            detail=f"closes of {len(names)} of {len(symbols)} names differ by more than 0.05 % from"
            f" the board's other table on at least one of {len(days)} days:"
            f" {', '.join(names[:6])}{' …' if len(names) > 6 else ''}",
        )
    ]


def _single_prices(read: Sequence[ReadEntrant]) -> list[DataFinding]:
    """Return in which months a name has one price a day, whatever the hour of the row."""
    accounts = [one.account for one in read if one.account is not None]
    found = one_price_a_day(accounts)
    if not any(2 * single > total for single, total in found.values()):
        return []
    return [
        DataFinding(
            kind="one price a day",
            count=single,
            detail=f"{month}: of {total} pairs of name and day that were traded at several hours,"
            f" {single} have a single price",
        )
        for month, (single, total) in found.items()
    ]
