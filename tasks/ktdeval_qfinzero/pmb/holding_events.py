"""Events that concern an account's holdings: options, corporate actions, charges and margin
calls.
"""

from __future__ import annotations

from datetime import date
from typing import ClassVar, Literal

from ktdeval_qfinzero.pmb.broker_types import CashKind, Instrument
from ktdeval_qfinzero.pmb.state_events import BrokerState, EventData

EndTerms = Literal["DEAL", "LAST_PRICE", "INTRINSIC"]

# ---- options


class OptionInstructed(EventData, frozen=True):
    """The holder of an option instructed whether to exercise it at expiry."""

    type = "OPTION_INSTRUCTED"
    account_id: str
    contract: str
    do_not_exercise: bool

    def _apply(self, state: BrokerState) -> None:
        (state.do_not_exercise.add if self.do_not_exercise else state.do_not_exercise.discard)(
            (self.account_id, self.contract)
        )


class OptionOver(EventData, frozen=True):
    """Option contracts ended: they were exercised, assigned or expired."""

    account_id: str
    instrument: str
    stock: str
    change: int
    cost_e4: int
    stock_change: int
    stock_cost_e4: int
    realized_e4: int
    cash_e4: int
    fee_e4: int
    spot_e4: int | None
    settles: str

    def _apply(self, state: BrokerState) -> None:
        account = state.accounts[self.account_id]
        option = account.positions[self.instrument]
        option.qty += self.change
        option.cost_e4 -= self.cost_e4
        option.realized_e4 += self.realized_e4

        if self.stock_change:
            account.position(Instrument.of(self.stock)).move(self.stock_change, self.stock_cost_e4)

        state.pay(account, "EXERCISE", self.cash_e4)
        state.pay(account, "FEE", -self.fee_e4)
        if self.cash_e4 > 0:
            account.settle_later(self.settles, self.cash_e4)


class OptionExercised(OptionOver, frozen=True):
    """Held contracts were exercised."""

    type = "OPTION_EXERCISED"


class OptionAssigned(OptionOver, frozen=True):
    """Written contracts were assigned."""

    type = "OPTION_ASSIGNED"


class OptionExpired(OptionOver, frozen=True):
    """Contracts expired without value, or unexercised on the holder's instruction."""

    type = "OPTION_EXPIRED"


# ---- days


class PositionReplaced(EventData, frozen=True):
    """A position was replaced: each `old` units became `new` units of `becomes` (empty if the
    position was closed), and cash.
    """

    kind: ClassVar[Literal["SPLIT", "DEAL"]]
    account_id: str
    instrument: str
    becomes: str
    new: int
    old: int
    qty_before: int
    qty_after: int
    cost_after_e4: int
    realized_e4: int
    cash_e4: int

    def _apply(self, state: BrokerState) -> None:
        account = state.accounts[self.account_id]
        before = account.positions[self.instrument]
        key = (account.id, before.instrument.symbol)

        if self.becomes and key in state.do_not_exercise:
            state.do_not_exercise.remove(key)
            state.do_not_exercise.add((account.id, Instrument.of(self.becomes).symbol))

        before.qty = before.cost_e4 = 0
        after = account.position(Instrument.of(self.becomes or self.instrument))
        after.move(self.qty_after, self.cost_after_e4)
        after.realized_e4 += self.realized_e4
        state.pay(account, self.kind, self.cash_e4)


class PositionSplit(PositionReplaced, frozen=True):
    """A split changed a position. `becomes`: the adjusted series, for an option."""

    type = "POSITION_SPLIT"
    kind = "SPLIT"


class PositionEnded(PositionReplaced, frozen=True, kw_only=True):
    """A stock stopped trading, and a position in it or in its options was closed.

    `becomes`: shares received instead, or empty. `terms`: `DEAL`; `LAST_PRICE` if the terms of the
    deal are not known; `INTRINSIC` for an option, closed at its intrinsic value given what a share
    became.
    """

    type = "POSITION_ENDED"
    kind = "DEAL"
    terms: EndTerms


class CashMoved(EventData, frozen=True, kw_only=True):
    """Cash was received (negative: paid) other than by a trade."""

    kind: ClassVar[CashKind]
    account_id: str
    cash_e4: int

    def _apply(self, state: BrokerState) -> None:
        state.pay(state.accounts[self.account_id], self.kind, self.cash_e4)


class DividendPaid(CashMoved, frozen=True, kw_only=True):
    """A dividend was earned, or was owed on a short position."""

    type = "DIVIDEND"
    kind = "DIVIDEND"
    instrument: str
    qty: int
    share_e4: int
    settles: str

    def _apply(self, state: BrokerState) -> None:
        super()._apply(state)
        if self.cash_e4 > 0:
            state.accounts[self.account_id].settle_later(self.settles, self.cash_e4)


class InterestCharged(CashMoved, frozen=True, kw_only=True):
    """Interest was charged on borrowed cash."""

    type = "INTEREST"
    kind = "INTEREST"
    days: int


class BorrowFeeCharged(CashMoved, frozen=True, kw_only=True):
    """A fee was charged for shares sold short."""

    type = "BORROW_FEE"
    kind = "BORROW_FEE"
    instrument: str
    qty: int
    fee_bps: int
    days: int


class MarginCalled(EventData, frozen=True):
    """Equity fell below the maintenance requirement. `due`: a day."""

    type = "MARGIN_CALL"
    account_id: str
    session_id: str
    equity_e4: int
    maintenance_e4: int
    due: str

    def _apply(self, state: BrokerState) -> None:
        state.accounts[self.account_id].margin_call_due = date.fromisoformat(self.due)
        state.sessions[self.session_id].margin_calls += 1


class MarginCallMet(EventData, frozen=True):
    """Equity reached the maintenance requirement again."""

    type = "MARGIN_CALL_MET"
    account_id: str
    session_id: str
    equity_e4: int
    maintenance_e4: int

    def _apply(self, state: BrokerState) -> None:
        state.accounts[self.account_id].margin_call_due = None
