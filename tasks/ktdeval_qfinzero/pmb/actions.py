"""Corporate actions on positions and orders: splits and cash dividends, both at the open of the ex-day.

What a split leaves as a fraction of a share is paid out in cash at the ex-day's open, rounded against the trader. Options are
adjusted as OCC does for splits of a whole number for one: as many times the contracts at the strike divided, to the nearest cent.
Other splits change what a contract delivers, which an OPRA symbol of 100 shares can't say: such options are closed in cash at their
last mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

from ktdeval_qfinzero.data.rows import DividendRow, SplitRow
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.instruments import OptionContract, read_contract
from ktdeval_qfinzero.pmb.holding_events import DividendPaid, PositionSplit
from ktdeval_qfinzero.pmb.values import WORKING, Account, Instrument, Order, Position

_CENT_E4 = 100


def split_effects(account: Account, split: SplitRow, marks: Mapping[str, int]) -> tuple[PositionSplit, ...]:
    """Events of a split of the account's stock and of its options on it, by instrument id.
    `account`: before the open of the ex-day; `marks`: `STOCK:X` at the ex-day's open (of the new shares; else the last close × old
    / new), and of options their last mark. Raises ServiceError `unavailable`: a price is needed for cash and is missing.
    """
    effects = []
    for _, position in sorted(account.positions.items()):
        if position.qty and position.instrument.underlying == split.symbol:
            contract = position.instrument.contract
            work_out = _stock_effect if contract is None else partial(_option_effect, contract=contract)
            becomes, qty, cost_e4, realized_e4, cash_e4 = work_out(position, split, marks)
            effects.append(
                PositionSplit(
                    account_id=account.id,
                    instrument=position.instrument.id,
                    becomes=becomes,
                    new=split.new,
                    old=split.old,
                    qty_before=position.qty,
                    qty_after=qty,
                    cost_after_e4=cost_e4,
                    realized_e4=realized_e4,
                    cash_e4=cash_e4,
                )
            )
    return tuple(effects)


def adjusted_contract(contract: OptionContract, split: SplitRow) -> OptionContract | None:
    """Series that an option becomes; None where the split is not a whole number for one."""
    if split.new % split.old:
        return None
    factor = split.new // split.old
    cents = (2 * contract.strike_e4 + factor * _CENT_E4) // (2 * factor * _CENT_E4)
    return replace(contract, strike_e4=max(1, cents) * _CENT_E4)


def marks_after_split(marks: Mapping[str, int], split: SplitRow) -> dict[str, int]:
    """Last prices, those of the stock's options as a split leaves them, rounded down; at least one step.
    They are those of the series that the options become. Where these can't be written, and of series that no option becomes, there
    is none: a price from before the split is about another contract. `marks`: instrument id -> last price; of options before the
    split.
    """
    after = {}
    for name, mark in marks.items():
        kind, _, symbol = name.partition(":")
        contract = read_contract(symbol) if kind == "OPTION" else None
        if contract is None or contract.underlying != split.symbol:
            after[name] = mark
        elif (series := adjusted_contract(contract, split)) is not None:
            after[f"OPTION:{series.symbol}"] = max(1, mark * split.old // split.new)
    return after


def orders_cancelled_by_split(orders: Iterable[Order], split: SplitRow) -> tuple[str, ...]:
    """Ids of working orders in the stock or its options: all are cancelled, GTC ones too, for their terms are of old units."""
    return tuple(order.id for order in orders if order.status in WORKING and order.instrument.underlying == split.symbol)


def entitlement(account: Account, dividend: DividendRow) -> DividendPaid | None:
    """What the account earns or owes by holding the stock at the ex-day's open, before anything trades; None without a position.
    Shares bought on the ex-day bring nothing, those sold that day do. There are no taxes.
    """
    position = account.positions.get(f"STOCK:{dividend.symbol}")
    if position is None or not position.qty:
        return None
    return DividendPaid(
        account_id=account.id,
        instrument=position.instrument.id,
        qty=position.qty,
        share_e4=dividend.amount_e4,
        cash_e4=position.qty * dividend.amount_e4,
        settles=dividend.pay_day.isoformat(),
    )


_Effect = tuple[str, int, int, int, int]
"""Id of what a position becomes (empty: it is closed), units and cost after, realized profit and cash of what is paid out."""


def _stock_effect(position: Position, split: SplitRow, marks: Mapping[str, int]) -> _Effect:
    total = abs(position.qty) * split.new
    whole, rest = divmod(total, split.old)
    sign = 1 if position.qty > 0 else -1
    cost = position.cost_e4 * rest // total
    cash = sign * rest * _mark_e4(position.instrument, marks) // split.old if rest else 0
    return position.instrument.id, sign * whole, position.cost_e4 - cost, cash - cost, cash


def _option_effect(position: Position, split: SplitRow, marks: Mapping[str, int], contract: OptionContract) -> _Effect:
    series = adjusted_contract(contract, split)
    if series is None:
        cash = position.value_e4(_mark_e4(position.instrument, marks))
        return "", 0, 0, cash - position.cost_e4, cash
    return f"OPTION:{series.symbol}", position.qty * (split.new // split.old), position.cost_e4, 0, 0


def _mark_e4(instrument: Instrument, marks: Mapping[str, int]) -> int:
    if instrument.id not in marks:
        raise ServiceError("unavailable", f"no price of {instrument.id} is known, so what its split leaves over can't be paid")
    return marks[instrument.id]
