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
from typing import Literal

from ktdeval_qfinzero.errors import invalid
from ktdeval_qfinzero.instruments import CONTRACT_SIZE, OptionContract
from ktdeval_qfinzero.pmb.financing import settled_cash_e4
from ktdeval_qfinzero.pmb.types import Account, FeeRules, Instrument, Position
from ktdeval_qfinzero.trading_hours import trading_hours

LifeKind = Literal["EXERCISED", "ASSIGNED", "EXPIRED", "PENDING"]

THRESHOLD_E4 = 100
"""Least amount in the money, of one share, at which an expiring option is exercised: a cent."""


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """What happened to contracts of one option position.

    Attributes:
        kind: EXERCISED (held), ASSIGNED (written), EXPIRED (gone without value), PENDING (no price of the underlying, no change).
        instrument: the option.
        stock: its underlying.
        option_qty: change of the option position (−5: five long contracts are gone; +5: five short ones).
        option_cost_e4: part of the option position's `cost_e4` that leaves with it (subtract it).
        stock_qty: change of the stock position; 0 when expired.
        cash_e4: strike paid (negative) or received, without fee.
        stock_cost_e4: what the delivered shares cost (negative: bring), strike and the option's premium together; 0 when expired.
        realized_e4: realized at once in the option position: −option_cost_e4 when it expired, else 0.
        fee_e4: exercise fee, positive.
        spot_e4, intrinsic_e4: underlying's price used and the worth of exercise for one share; None without a price.
    """

    kind: LifeKind
    instrument: Instrument
    stock: Instrument
    option_qty: int = 0
    option_cost_e4: int = 0
    stock_qty: int = 0
    cash_e4: int = 0
    stock_cost_e4: int = 0
    realized_e4: int = 0
    fee_e4: int = 0
    spot_e4: int | None = None
    intrinsic_e4: int | None = None


def settlement_session(instrument: Instrument) -> date:
    """Session at whose close an option expires: its expiry, or the last trading day before one without a session."""
    return trading_hours().last_expiry_session(_contract(instrument).expiry)


def expiry_event(position: Position, spot_e4: int | None, fees: FeeRules, do_not_exercise: bool = False) -> LifeEvent:
    """What expiry makes of a whole position.

    Args:
        position: of an option, not flat.
        spot_e4: official close of the underlying in the expiry session; else its last known close; None only if there was never
            one: then PENDING, for a missing price is never taken as out of the money. To be asked again when there is one.
        fees: exercise fee.
        do_not_exercise: the holder's instruction; without effect on a short position.
    """
    contract = _contract(position.instrument)
    stock = Instrument("STOCK", contract.underlying)
    if spot_e4 is None:
        return LifeEvent("PENDING", position.instrument, stock)
    intrinsic = contract.intrinsic_e4(spot_e4)
    if intrinsic < THRESHOLD_E4 or (do_not_exercise and position.qty > 0):
        return LifeEvent(
            "EXPIRED",
            position.instrument,
            stock,
            option_qty=-position.qty,
            option_cost_e4=position.cost_e4,
            realized_e4=-position.cost_e4,
            spot_e4=spot_e4,
            intrinsic_e4=intrinsic,
        )
    return _delivery(position, abs(position.qty), spot_e4, fees)


def exercise_problem(account: Account, instrument: Instrument, qty: int, today: date) -> str | None:
    """Why a holder can't exercise now, in words; None where he can.

    A CASH account must hold the shares that a put delivers and, settled, the cash that a call costs; a MARGIN account may go short
    or into debt by exercise, and is called for margin if it can't carry that.

    Args:
        account: the holder's.
        instrument: an option.
        qty: contracts.
        today: trading day of the clock.
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


def exercise_event(position: Position, qty: int, spot_e4: int | None, fees: FeeRules) -> LifeEvent:
    """Exercise of `qty` held contracts before expiry; it takes effect at once. `spot_e4` is only noted."""
    return _delivery(position, qty, spot_e4, fees)


def assignment_event(position: Position, qty: int, spot_e4: int | None, fees: FeeRules) -> LifeEvent:
    """Assignment of `qty` written contracts before expiry. `spot_e4` is only noted."""
    return _delivery(position, qty, spot_e4, fees)


def early_assignments(
    positions: Mapping[str, Position], marks: Mapping[str, int], dividends_e4: Mapping[str, int]
) -> tuple[Instrument, ...]:
    """Short calls that are assigned at this close, because their underlying goes ex-dividend on the next trading day.

    A holder gains by exercising a call in the money for the dividend when that is more than the time value he gives up, and is
    taken to do just that; so every such short call is assigned whole. Time value is what the option's mark is above its intrinsic
    value; an option without a mark is taken to have none. Puts are never assigned early, nor calls for any other reason.

    Args:
        positions: by instrument id.
        marks: instrument id -> price at this close, of options and `STOCK:X`.
        dividends_e4: ticker -> amount of one share's dividend whose ex-day is the NEXT trading day (known by now).

    Returns:
        In the order of instrument ids.
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


def _delivery(position: Position, qty: int, spot_e4: int | None, fees: FeeRules) -> LifeEvent:
    contract = _contract(position.instrument)
    change = -qty if position.qty > 0 else qty
    shares = -change * CONTRACT_SIZE * (1 if contract.right == "C" else -1)
    cost = position.cost_e4 * qty // abs(position.qty)
    return LifeEvent(
        "EXERCISED" if position.qty > 0 else "ASSIGNED",
        position.instrument,
        Instrument("STOCK", contract.underlying),
        option_qty=change,
        option_cost_e4=cost,
        stock_qty=shares,
        cash_e4=-shares * contract.strike_e4,
        stock_cost_e4=shares * contract.strike_e4 + cost,
        fee_e4=qty * fees.option_exercise_e4,
        spot_e4=spot_e4,
        intrinsic_e4=None if spot_e4 is None else contract.intrinsic_e4(spot_e4),
    )


def _cash_account_problem(account: Account, contract: OptionContract, qty: int, today: date) -> str | None:
    shares = qty * CONTRACT_SIZE
    if contract.right == "P":
        stock = account.positions.get(f"STOCK:{contract.underlying}")
        enough = stock is not None and stock.qty >= shares
        return None if enough else f"a CASH account must hold the {shares} shares of {contract.underlying} that are to be delivered"
    enough = settled_cash_e4(account, today) >= shares * contract.strike_e4
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
