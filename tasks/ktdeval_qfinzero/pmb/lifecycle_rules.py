"""Lifecycle events of positions: expiry, exercise and assignment of options, corporate actions,
financing and settlement.

`docs/qfinzero.md` describes the rules. Options deliver physically, long and short alike (OCC
Rule 805), even if the account can't carry the shares, and the premium becomes part of the cost of
the shares (IRS Publication 550). For splits of a whole number for one, options are adjusted as OCC
does; for other splits, they are closed in cash. Interest and fees are simple between closes, on
actual/360. Amounts are rounded against the trader, and the cost removed with part of a position is
rounded down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from ktdeval_qfinzero.data.rows import DealRow, DividendRow, SplitRow
from ktdeval_qfinzero.errors import ServiceError, invalid
from ktdeval_qfinzero.instruments import CONTRACT_SIZE, OptionContract, read_contract
from ktdeval_qfinzero.pmb.broker_types import Account, FeeRules, Instrument, Position, Rules
from ktdeval_qfinzero.pmb.holding_events import (
    DividendPaid,
    EndTerms,
    OptionAssigned,
    OptionExercised,
    OptionExpired,
    OptionOver,
    PositionEnded,
    PositionSplit,
)
from ktdeval_qfinzero.trading_hours import TradingHours

THRESHOLD_E4 = 100
"""Minimum in-the-money amount per share at which an expiring option is exercised: one cent."""


@dataclass(frozen=True, slots=True)
class EndingPosition:
    """An option position with contracts that are ending.

    `spot_e4`: price of the underlying (at expiry its official close, else its last known price);
    None if it never had a price.
    """

    account_id: str  # id of the holder's or writer's account
    position: Position  # not flat
    spot_e4: int | None
    fees: FeeRules  # rules with the exercise fee
    settles: str  # day on which cash settles


def settlement_session(hours: TradingHours, instrument: Instrument) -> date:
    """Return the session at whose close an option expires: its expiry date, or the last trading day
    before it if there is no session on this date.
    """
    return hours.last_expiry_session(_contract(instrument).expiry)


def expiry_event(ending: EndingPosition, *, do_not_exercise: bool = False) -> OptionOver | None:
    """Return the expiry event for a whole position. Returns None without a price, since an option
    with a missing price must not be treated as out of the money.

    `do_not_exercise`: the holder's instruction, which has no effect on a short position.
    """
    position = ending.position
    spot_e4 = ending.spot_e4
    if spot_e4 is None:
        return None

    contract = _contract(position.instrument)
    # OCC Rule 805
    in_the_money = contract.intrinsic_e4(spot_e4) >= THRESHOLD_E4
    is_forbidden = do_not_exercise and position.qty > 0
    if in_the_money and not is_forbidden:
        return delivery_event(ending, abs(position.qty))

    option = position.instrument.id
    stock = f"STOCK:{contract.underlying}"
    return OptionExpired(
        ending.account_id,
        option,
        stock,
        change=-position.qty,
        cost_e4=position.cost_e4,
        stock_change=0,
        stock_cost_e4=0,
        realized_e4=-position.cost_e4,
        cash_e4=0,
        fee_e4=0,
        spot_e4=spot_e4,
        settles=ending.settles,
    )


def delivery_event(ending: EndingPosition, qty: int) -> OptionOver:
    """Return the event for the exercise of `qty` held contracts, or for the assignment of written
    contracts: shares are exchanged for the strike. The price of the underlying is only recorded.
    """
    position = ending.position
    contract = _contract(position.instrument)
    kind: type[OptionExercised | OptionAssigned] = OptionAssigned
    change = qty
    if position.qty > 0:
        kind = OptionExercised
        change = -qty

    shares = -change * CONTRACT_SIZE
    if contract.right == "P":
        shares = -shares

    # IRS Publication 550: the premium becomes part of the cost of the shares.
    cost = position.cost_e4 * qty // abs(position.qty)
    return kind(
        ending.account_id,
        position.instrument.id,
        f"STOCK:{contract.underlying}",
        change=change,
        cost_e4=cost,
        stock_change=shares,
        stock_cost_e4=shares * contract.strike_e4 + cost,
        realized_e4=0,
        cash_e4=-shares * contract.strike_e4,
        fee_e4=qty * ending.fees.option_exercise_e4,
        spot_e4=ending.spot_e4,
        settles=ending.settles,
    )


def exercise_problem(account: Account, instrument: Instrument, qty: int, today: date) -> str | None:
    """Return why a holder can't exercise now; None if exercise is possible.

    A CASH account must hold the shares that a put delivers, or the settled cash that a call costs.
    A MARGIN account may go short or into debt by exercise, and gets a margin call if it can't carry
    the result. `account`: the holder's account; `today`: trading day of the clock.
    """
    if instrument.contract is None:
        return "only options can be exercised"

    held = account.count_units(instrument.id)
    if not 0 < qty <= held:
        return f"{max(held, 0)} contracts are held, and from 1 to as many can be exercised"
    if today > instrument.contract.expiry:
        return "the option has expired"

    if account.type == "CASH":
        return _cash_account_problem(account, instrument.contract, qty, today)

    return None


def early_assignments(
    positions: Mapping[str, Position], marks: Mapping[str, int], dividends_e4: Mapping[str, int]
) -> tuple[Instrument, ...]:
    """Return the short calls that are assigned at this close because their underlying goes
    ex-dividend on the next trading day, sorted by instrument id.

    The holder of an in-the-money call gains by exercising it if the dividend exceeds the time value
    given up, and is assumed to do so. Every short call that meets this condition is therefore
    assigned in full. Time value is the option's mark less its intrinsic value, and 0 without a
    mark. Puts are never assigned early, and calls for no other reason.

    `positions`: by instrument id; `marks`: instrument id -> price at this close, for options and
    `STOCK:X`; `dividends_e4`: ticker -> dividend whose ex-day is the NEXT trading day (known by
    now), per share as of this close (`per_old_share`).
    """
    assigned = []
    for name, position in sorted(positions.items()):
        contract = position.instrument.contract
        if contract is None or contract.right != "C" or position.qty >= 0:
            continue

        spot = marks.get(f"STOCK:{contract.underlying}")
        intrinsic = 0 if spot is None else contract.intrinsic_e4(spot)
        time_value = max(0, marks.get(name, 0) - intrinsic)

        # The condition named by Cboe and OCC; deterministic here, rather than a lottery of notices.
        if intrinsic >= THRESHOLD_E4 and time_value < dividends_e4.get(contract.underlying, 0):
            assigned.append(position.instrument)

    return tuple(assigned)


def per_old_share(amount_e4: int, splits: Iterable[SplitRow]) -> int:
    """Return a dividend per share as of the close before its ex-day, rounded up. On an ex-day that
    is also that of `splits`, the dividend is stated per new share.
    """
    new = old = 1
    for split in splits:
        new *= split.new
        old *= split.old

    return -(-amount_e4 * new // old)


def _cash_account_problem(
    account: Account, contract: OptionContract, qty: int, today: date
) -> str | None:
    shares = qty * CONTRACT_SIZE
    if contract.right == "P":
        if account.count_units(f"STOCK:{contract.underlying}") >= shares:
            return None
        return (
            f"a CASH account must hold the {shares} shares of {contract.underlying} that are to"
            " be delivered"
        )

    strike_e4 = shares * contract.strike_e4
    if account.settled_e4(today) >= strike_e4:
        return None
    return f"a CASH account must have the ${strike_e4 / 10_000:,.2f} of the strike in settled cash"


def _contract(instrument: Instrument) -> OptionContract:
    contract = instrument.contract
    if contract is None:
        raise invalid("instrument", "is not an option")
    return contract


_CENT_E4 = 100


def split_effects(
    account: Account, split: SplitRow, marks: Mapping[str, int]
) -> tuple[PositionSplit, ...]:
    """Return the events that a split causes for the account's stock and for its options on the
    stock, sorted by instrument id.

    `account`: as before the open of the ex-day; `marks`: `STOCK:X` at the ex-day's open (for the
    new shares; else the last close × old / new), and the last marks of options. Raises ServiceError
    `unavailable` if a price needed for a cash payment is missing.
    """
    effects: list[PositionSplit] = []
    for _, position in sorted(account.positions.items()):
        if not position.qty or position.instrument.underlying != split.symbol:
            continue

        contract = position.instrument.contract
        if contract is None:
            effect = _stock_effect(position, split, marks)
        else:
            effect = _option_effect(position, split, marks, contract)

        effects.append(
            PositionSplit(
                account.id,
                position.instrument.id,
                effect.becomes,
                split.new,
                split.old,
                position.qty,
                effect.qty,
                cost_after_e4=effect.cost_e4,
                realized_e4=effect.realized_e4,
                cash_e4=effect.cash_e4,
            )
        )

    return tuple(effects)


def deal_effects(
    account: Account, deal: DealRow, marks: Mapping[str, int]
) -> tuple[PositionEnded, ...]:
    """Return the delisting events for the account's shares and options on them, sorted by
    instrument id.

    Cash that comes with shares lowers their cost. Options are closed at their intrinsic value,
    given the value of a former share. Without terms and a last price, nothing happens and option
    positions stay.

    `marks`: the last price of the stock (`STOCK:X`) and of the stock that it becomes; without the
    latter, fractional shares are worth nothing.
    """
    share_e4 = deal.cash_e4 if deal.has_terms else marks.get(f"STOCK:{deal.symbol}")
    if share_e4 is None:
        return ()

    prices = (share_e4, marks.get(f"STOCK:{deal.into}", 0))
    ended: list[PositionEnded] = []
    for _, position in sorted(account.positions.items()):
        if position.qty and position.instrument.underlying == deal.symbol:
            ended.append(_end_position(account.id, position, deal, prices))

    return tuple(ended)


def _end_position(
    account_id: str, position: Position, deal: DealRow, prices: tuple[int, int]
) -> PositionEnded:
    """Return the delisting event for one position.

    `prices`: cash paid per share, and price of the stock into which it converts.
    """
    share_e4, into_e4 = prices
    contract = position.instrument.contract
    becomes = ""
    whole = 0
    terms: EndTerms = "DEAL" if deal.has_terms else "LAST_PRICE"

    if contract is None:
        sign = 1 if position.qty > 0 else -1
        units = rest = 0
        if deal.into:
            units, rest = divmod(abs(position.qty) * deal.new, deal.old)
        if units:
            becomes = f"STOCK:{deal.into}"

        whole = sign * units
        cash = position.value_e4(share_e4) + sign * rest * into_e4 // deal.old
    else:
        if deal.into:
            share_e4 += into_e4 * deal.new // deal.old

        terms = "INTRINSIC"
        cash = position.value_e4(contract.intrinsic_e4(share_e4))

    cost = position.cost_e4 - cash if whole else 0
    realized = 0 if whole else cash - position.cost_e4
    return PositionEnded(
        account_id,
        position.instrument.id,
        becomes,
        deal.new,
        deal.old,
        position.qty,
        whole,
        cost,
        realized,
        cash,
        terms=terms,
    )


def adjusted_contract(contract: OptionContract, split: SplitRow) -> OptionContract | None:
    """Return the option series after a split; None unless the split is a whole number for one."""
    # OCC then changes the deliverable, which a 100-share symbol can't express.
    if split.new % split.old:
        return None
    factor = split.new // split.old
    # OCC: strike / n to the cent, n times the contracts
    cents = (2 * contract.strike_e4 + factor * _CENT_E4) // (2 * factor * _CENT_E4)
    return replace(contract, strike_e4=max(1, cents) * _CENT_E4)


def marks_after_split(marks: Mapping[str, int], split: SplitRow) -> dict[str, int]:
    """Return the last prices after a split.

    Prices of options on the stock are scaled, rounded down to at least one step, and stored under
    the new series. An option without a new series gets no price, since its old price belongs to
    another contract. `marks`: instrument id -> last price, with options as before the split.
    """
    after = {}
    for name, mark in marks.items():
        kind, _, symbol = name.partition(":")
        contract = read_contract(symbol) if kind == "OPTION" else None
        if contract is None or contract.underlying != split.symbol:
            after[name] = mark
            continue

        series = adjusted_contract(contract, split)
        if series is not None:
            after[f"OPTION:{series.symbol}"] = max(1, mark * split.old // split.new)

    return after


def entitlement(account: Account, dividend: DividendRow) -> DividendPaid | None:
    """Return the dividend that the account earns or owes for its stock position at the ex-day's
    open, before any trade; None without a position.

    Shares bought on the ex-day earn no dividend; shares sold on the ex-day still earn it. No taxes
    are deducted.
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


@dataclass(frozen=True, slots=True)
class _SplitEffect:
    """Effect of a split on a position."""

    becomes: str  #: id of the new position; empty if it is closed
    qty: int  #: units after the split; `cost_e4` is their cost
    cost_e4: int
    realized_e4: int  #: profit on the part paid out; `cash_e4` is the cash paid
    cash_e4: int


def _stock_effect(position: Position, split: SplitRow, marks: Mapping[str, int]) -> _SplitEffect:
    total = abs(position.qty) * split.new
    whole, rest = divmod(total, split.old)
    sign = 1 if position.qty > 0 else -1
    cost = position.cost_e4 * rest // total
    cash = 0
    if rest:
        cash = sign * rest * _mark_e4(position.instrument, marks) // split.old

    return _SplitEffect(
        becomes=position.instrument.id,
        qty=sign * whole,
        cost_e4=position.cost_e4 - cost,
        realized_e4=cash - cost,
        cash_e4=cash,
    )


def _option_effect(
    position: Position, split: SplitRow, marks: Mapping[str, int], contract: OptionContract
) -> _SplitEffect:
    series = adjusted_contract(contract, split)
    if series is None:
        cash = position.value_e4(_mark_e4(position.instrument, marks))
        return _SplitEffect("", 0, 0, cash - position.cost_e4, cash)

    factor = split.new // split.old
    return _SplitEffect(f"OPTION:{series.symbol}", position.qty * factor, position.cost_e4, 0, 0)


def _mark_e4(instrument: Instrument, marks: Mapping[str, int]) -> int:
    if instrument.id not in marks:
        raise ServiceError(
            "unavailable",
            f"no price of {instrument.id} is known, so what its split leaves over can't be paid",
        )
    return marks[instrument.id]


# Interest is actual/360.
_BPS_YEAR = 10_000 * 360


def settlement_day(hours: TradingHours, trade_day: date) -> date:
    """Return the settlement day, T+1 (SEC Rule 15c6-1, since 28 May 2024): the first trading day
    after the trade.
    """
    return hours.day(int(np.searchsorted(hours.days, np.datetime64(trade_day), side="right")))


def debit_e4(account: Account, marks: Mapping[str, int]) -> int:
    """Return the borrowed cash as a positive amount; 0 without a debit.

    The value of short sales is collateral for the lenders, so it does not pay for purchases: the
    debit is computed on cash less the shorts' market value, marked daily. `marks`: `STOCK:X` for
    short stocks. Raises ServiceError `unavailable` if a short stock has no mark.
    """
    return max(0, sum(_short_values(account, marks).values()) - account.cash_e4)


def debit_interest_e4(debit_e4: int, days: int, bps_per_year: int) -> int:
    """Return the interest on a debit, or the fee on the (positive) value of a short position, for a
    number of calendar days on actual/360, rounded up.

    For $10,000 at 7% over the three days of a weekend: 10,000 × 0.07 × 3 / 360 = $5.8334, rounded
    up.
    """
    return -(-debit_e4 * bps_per_year * days // _BPS_YEAR)


def daily_charges(
    account: Account,
    marks: Mapping[str, int],
    rules: Rules,
    borrow_bps: Mapping[str, int],
    days: int,
) -> tuple[int, dict[str, int]]:
    """Return the charges at a close: interest on borrowed cash, and the fee for each borrowed stock
    by ticker. All are positive.

    `account`: after the day's trades; `marks`: `STOCK:X` for short stocks at this close; `rules`:
    debit rate; `borrow_bps`: ticker -> `BorrowRow.fee_bps_per_year` (no fee if the ticker is
    absent); `days`: calendar days until the next trading day, 3 over a weekend. Raises ServiceError
    `unavailable` if a short stock has no mark.
    """
    interest = debit_interest_e4(debit_e4(account, marks), days, rules.margin.debit_interest_bps)
    shorts = _short_values(account, marks)
    fees = {
        ticker: debit_interest_e4(value, days, borrow_bps.get(ticker, 0))
        for ticker, value in shorts.items()
    }

    return interest, {ticker: fee for ticker, fee in fees.items() if fee}


def _short_values(account: Account, marks: Mapping[str, int]) -> dict[str, int]:
    """Return the positive market value of each stock sold short, sorted by ticker."""
    values = {}
    for name, position in sorted(account.positions.items()):
        if position.instrument.kind == "STOCK" and position.qty < 0:
            if name not in marks:
                raise ServiceError(
                    "unavailable",
                    f"no price of {name} is known, so its borrow fee can't be worked out",
                )

            values[position.instrument.symbol] = -position.qty * marks[name]

    return values
