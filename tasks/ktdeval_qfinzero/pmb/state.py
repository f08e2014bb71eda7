"""State of a broker: accounts, sessions, orders and trades. Only events change it, one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field

from ktdeval_qfinzero.pmb.values import (
    Account,
    CashEntry,
    CashKind,
    ClientCall,
    DayClose,
    Order,
    Session,
    Spread,
    Trade,
    UnitEntry,
    UnitKind,
)


@dataclass(slots=True)
class BrokerState:
    """State of a broker.
    `now_ns, seq`: moment and number of the last event; `accounts, sessions, orders, spreads`: by id; `working`: orders that may
    still fill, by id, in time priority; `reserves`: id of a working order -> what it tied up when it was accepted; a spread's stand
    at its first leg; `trades`: executions, oldest first; `cash_entries, unit_entries`: movements of cash and of units, oldest
    first; `days`: account id -> closes of days, oldest first; `client_calls`: (account id, client order id) -> what it stands for;
    `kept`: (account id, contract) of options that are not to be exercised at expiry; `running`: id of the running session; empty
    without one.
    """

    now_ns: int = 0
    seq: int = 0
    accounts: dict[str, Account] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    orders: dict[str, Order] = field(default_factory=dict)
    spreads: dict[str, Spread] = field(default_factory=dict)
    working: dict[str, Order] = field(default_factory=dict)
    reserves: dict[str, int] = field(default_factory=dict)
    trades: list[Trade] = field(default_factory=list)
    cash_entries: list[CashEntry] = field(default_factory=list)
    unit_entries: list[UnitEntry] = field(default_factory=list)
    days: dict[str, list[DayClose]] = field(default_factory=dict)
    client_calls: dict[tuple[str, str], ClientCall] = field(default_factory=dict)
    kept: set[tuple[str, str]] = field(default_factory=set)
    running: str = ""

    def count(self, account: Account, instrument_id: str, kind: UnitKind, change: int) -> None:
        """Write down units that came in (negative: went out) with an event."""
        self.unit_entries.append(UnitEntry(self.seq, account.id, instrument_id, kind, change))

    def pay(self, account: Account, kind: CashKind, amount_e4: int) -> None:
        """Bring money into an account (negative: take out)."""
        if amount_e4:
            account.cash_e4 += amount_e4
            self.cash_entries.append(CashEntry(self.seq, account.id, kind, amount_e4))

    def charge(self, account: Account, fee_e4: int) -> None:
        """Take a fee."""
        account.fees_e4 += fee_e4
        self.pay(account, "FEE", -fee_e4)
