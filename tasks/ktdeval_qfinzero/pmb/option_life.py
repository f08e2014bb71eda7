"""What becomes of options at expiry, on exercise and on assignment: always physical delivery at the strike, long and short alike.

An option in the money by a cent or more is exercised at its expiry session's close, as OCC Rule 805 has it (exercise by exception),
unless its holder forbids it; a short one is assigned just when a holder of it would exercise. Shares are delivered even where the
account can't carry them: the margin call follows. The premium moves into the cost of the shares (IRS Publication 550). Nothing is
rounded but the cost that leaves with a part of a position, which is rounded down, as in every other trade.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import CONTRACT_SIZE, OptionContract
from ktdeval_qfinzero.pmb.holding_events import OptionAssigned, OptionExercised, OptionExpired, OptionOver
from ktdeval_qfinzero.pmb.rules import FeeRules
from ktdeval_qfinzero.pmb.values import Account, Instrument, Position
from ktdeval_qfinzero.trading_hours import trading_hours

THRESHOLD_E4 = 100
"""Least amount in the money, of one share, at which an expiring option is exercised: a cent."""


@dataclass(frozen=True, slots=True)
class Ending:
    """An option position of which contracts end.
    `account_id`: of the holder or writer; `position`: not flat; `spot_e4`: price of the underlying: at expiry its official close,
    else its last known one; None where there never was one; `fees`: exercise fee; `settles`: day on which cash settles.
    """

    account_id: str
    position: Position
    spot_e4: int | None
    fees: FeeRules
    settles: str


def settlement_session(instrument: Instrument) -> date:
    """Session at whose close an option expires: its expiry, or the last trading day before one without a session."""
    return trading_hours().last_expiry_session(_contract(instrument).expiry)


def expiry_event(ending: Ending, *, do_not_exercise: bool = False) -> OptionOver | None:
    """What expiry makes of a whole position; None without a price: a missing one is never taken as out of the money.
    `do_not_exercise`: the holder's instruction; without effect on a short position.
    """
    position, spot_e4 = ending.position, ending.spot_e4
    if spot_e4 is None:
        return None
    contract = _contract(position.instrument)
    if contract.intrinsic_e4(spot_e4) >= THRESHOLD_E4 and not (do_not_exercise and position.qty > 0):
        return delivery_event(ending, abs(position.qty))
    return OptionExpired(
        account_id=ending.account_id,
        instrument=position.instrument.id,
        stock=f"STOCK:{contract.underlying}",
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


def delivery_event(ending: Ending, qty: int) -> OptionOver:
    """Exercise of `qty` held contracts, or assignment of written ones: shares against the strike. The price is only noted."""
    position, contract = ending.position, _contract(ending.position.instrument)
    change = -qty if position.qty > 0 else qty
    shares = -change * CONTRACT_SIZE * (1 if contract.right == "C" else -1)
    cost = position.cost_e4 * qty // abs(position.qty)
    return (OptionExercised if position.qty > 0 else OptionAssigned)(
        account_id=ending.account_id,
        instrument=position.instrument.id,
        stock=f"STOCK:{contract.underlying}",
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
    """Why a holder can't exercise now, in words; None where he can.
    A CASH account must hold the shares that a put delivers and, settled, the cash that a call costs; a MARGIN account may go short
    or into debt by exercise, and is called for margin if it can't carry that. `account`: the holder's; `today`: trading day of the
    clock.
    """
    problem = _holding_problem(account, instrument, qty, today)
    if problem is None and account.type == "CASH":
        return _cash_account_problem(account, _contract(instrument), qty, today)
    return problem


def _holding_problem(account: Account, instrument: Instrument, qty: int, today: date) -> str | None:
    """Why so many contracts can't be exercised, whatever the account; None where they can."""
    if instrument.contract is None:
        return "only options can be exercised"
    position = account.positions.get(instrument.id)
    held = 0 if position is None else position.qty
    if not 0 < qty <= held:
        return f"{max(held, 0)} contracts are held, and from 1 to as many can be exercised"
    return "the option has expired" if today > settlement_session(instrument) else None


def early_assignments(
    positions: Mapping[str, Position], marks: Mapping[str, int], dividends_e4: Mapping[str, int]
) -> tuple[Instrument, ...]:
    """Short calls that are assigned at this close, because their underlying goes ex-dividend on the next trading day.
    A holder gains by exercising a call in the money for the dividend when that is more than the time value he gives up, and is
    taken to do just that; so every such short call is assigned whole. Time value is what the option's mark is above its intrinsic
    value; an option without a mark is taken to have none. Puts are never assigned early, nor calls for any other reason.
    `positions`: by instrument id; `marks`: instrument id -> price at this close, of options and `STOCK:X`; `dividends_e4`: ticker
    -> amount of one share's dividend whose ex-day is the NEXT trading day (known by now). Returns in the order of instrument ids.
    """
    assigned = []
    for name, position in sorted(positions.items()):
        contract = position.instrument.contract
        if contract is None or contract.right != "C" or position.qty >= 0:
            continue
        spot = marks.get(f"STOCK:{contract.underlying}")
        intrinsic = 0 if spot is None else contract.intrinsic_e4(spot)
        time_value = max(0, marks.get(name, 0) - intrinsic)
        if intrinsic >= THRESHOLD_E4 and time_value < dividends_e4.get(contract.underlying, 0):
            assigned.append(position.instrument)
    return tuple(assigned)


def _cash_account_problem(account: Account, contract: OptionContract, qty: int, today: date) -> str | None:
    shares = qty * CONTRACT_SIZE
    if contract.right == "P":
        stock = account.positions.get(f"STOCK:{contract.underlying}")
        enough = stock is not None and stock.qty >= shares
        return None if enough else f"a CASH account must hold the {shares} shares of {contract.underlying} that are to be delivered"
    enough = account.settled_e4(today) >= shares * contract.strike_e4
    return (
        None
        if enough
        else f"a CASH account must have the ${shares * contract.strike_e4 / 10_000:,.2f} of the strike in settled cash"
    )


def _contract(instrument: Instrument) -> OptionContract:
    contract = instrument.contract
    if contract is None:
        raise invalid("instrument", "is not an option")
    return contract
