"""Random policies whose commands depend on what is shown, against twins that send the same commands on other days.

The market is a random walk without drift in steps of one price level, so no order and no path inside a bar is worth anything by
itself, and days are exchangeable: a policy whose commands are those of another day (its *twin*) knows nothing of the day it trades
on. There are no costs. So whoever earns significantly more than its twin has traded on prices that it was shown first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ktdeval_qfinzero.data.rows import Bars, Dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import MINUTE, day_start, moment_text
from ktdeval_qfinzero.pmb import commands as broker_commands
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.workspace import Workspace
from qfinzero_broker_play import FREE, market, thing

TICK = 500  # five cents
SUBSTEPS = 4
FIRST = date(2025, 1, 6)
LOOKS = (40 * MINUTE + MINUTE // 2, 200 * MINUTE, 389 * MINUTE)  # after the open; one lies inside a minute
Command = tuple[str, dict[str, Any]]
Script = Sequence[Sequence[Sequence[Command]]]  # by day and look


@dataclass(frozen=True)
class Walk:
    """A market of one stock: five cents up or down four times a minute, jumps overnight. `close_e4`: [day, minute]."""

    dataset: Dataset
    opens: list[int]
    closes: list[int]
    first_e4: list[int]
    close_e4: list[np.ndarray]


def walk(seed: int, days: int) -> Walk:
    rng, hours = np.random.default_rng([77, seed]), trading_hours()
    row = int(np.searchsorted(hours.days, np.datetime64(FIRST)))
    price = 100 * 10_000
    before = np.array([[day_start(hours.day(row - 1))], *[[price]] * 4])
    tables: dict[str, list[np.ndarray]] = {"minute": [], "day": [before]}
    for index in range(row, row + days):
        starts = hours.minutes(index)
        price += TICK * round(rng.normal(0, 8))
        steps = TICK * rng.choice((-1, 1), len(starts) * SUBSTEPS)
        path = np.concatenate(([price], price + np.cumsum(steps)))
        price = int(path[-1])
        inside = np.stack([path[shift : shift + len(steps) : SUBSTEPS] for shift in range(SUBSTEPS + 1)])
        tables["minute"].append(np.stack([starts, inside[0], inside.max(0), inside.min(0), inside[-1]]))
        tables["day"].append(np.array([[day_start(hours.day(index))], [path[0]], [path.max()], [path.min()], [path[-1]]]))
    bars = {}
    for name, parts in tables.items():
        columns = np.concatenate(parts, axis=1).astype(np.int64)
        count = columns.shape[1]
        bars[name] = Bars(*columns, np.full(count, 1e6), np.ones(count, np.int64))
    made = market({"AVLN": bars["minute"]})
    made.prices.bar_table["stock", "AVLN", "day"] = bars["day"]  # type: ignore[attr-defined]
    rows = range(row, row + days)
    firsts, closes = [int(part[1, 0]) for part in tables["day"][1:]], [part[4] for part in tables["minute"]]
    return Walk(made, [int(hours.open_ns[each]) for each in rows], [int(hours.close_ns[each]) for each in rows], firsts, closes)


@dataclass(frozen=True)
class Policy:
    """Orders before the open, and at each look of the day what to send when the signal is above or below a threshold."""

    frequency: str
    early: list[Command]
    signal: str
    threshold: float
    above: list[list[Command]]
    below: list[list[Command]]
    every: int = 1  # days from one to the next; on those between, what is held is closed

    @property
    def kinds(self) -> set[str]:
        """What it sends after looking: cancel, modify, stop, switch, place; and bracket."""
        sent = [command for looks in (self.above, self.below) for look in looks for command in look]
        brackets = {
            "bracket" for name, given in [*self.early, *sent] if name == "place" and (given.get("profit") or given.get("loss"))
        }
        return {name for name, _ in sent} | brackets


def order(side: str, kind: str, off: int = 0, **more: Any) -> Command:
    return "place", {"side": side, "kind": kind, "off": off, **more}


def mirrored(command: Command) -> Command:
    """A command with the sides changed."""
    name, given = command
    other = {"BUY": "SELL", "SELL": "BUY", "ANY": "ANY"}
    return name, {**given, "side": other[given["side"]]} if "side" in given else given


def random_policy(seed: int) -> Policy:
    """A policy that acts at one look mostly, and after a fall not at all or the other way round: else most of what it does
    cancels out, and the test would not find those that earn.
    """
    rng = np.random.default_rng([78, seed])

    def far() -> int:
        return TICK * int(rng.integers(1, 25))

    def some_order() -> Command:
        more = {name: far() for name in ("profit", "loss") if rng.random() < 0.4}
        side, kind = str(rng.choice(["BUY", "SELL"])), str(rng.choice(["MARKET", "LIMIT", "STOP"]))
        return order(side, kind, far(), tif=str(rng.choice(["DAY", "GTC"])), oco=bool(rng.random() < 0.3), **more)

    def some_commands() -> list[Command]:
        side = {"side": str(rng.choice(["BUY", "SELL", "ANY"]))}
        switch = {"account": int(rng.integers(2)), "frequency": str(rng.choice(["1d", "1m"]))}
        known: list[Command] = [("cancel", side), ("modify", {**side, "by": TICK * int(rng.integers(-20, 21))}), ("stop", {}),
                                ("switch", switch), some_order()]  # fmt: skip
        return [known[index] for index in rng.choice(len(known), int(rng.integers(1, 3)), replace=False)]

    first, acts = some_order(), rng.integers(len(LOOKS))
    early = [first, mirrored(first)] if rng.random() < 0.7 else [first]
    frequency, signal = str(rng.choice(["1d", "1d", "1m"])), str(rng.choice(["move", "move", "profit"]))
    above = [some_commands() if index == acts or rng.random() < 0.2 else [] for index in range(len(LOOKS))]
    below = [[mirrored(command) for command in commands] if rng.random() < 0.5 else [] for commands in above]
    return Policy(frequency, early, signal, float(rng.uniform(0, 0.5)), above, below)


BOTH = [order("BUY", "MARKET"), order("SELL", "MARKET")]
INSIDE = [order("BUY", "LIMIT", 10 * TICK), order("SELL", "LIMIT", 10 * TICK)]


def _late(*commands: Command) -> list[list[Command]]:
    return [[] for _ in LOOKS[1:]] + [list(commands)]


def _expert(early: list[Command], above: Command, below: Command) -> Policy:
    return Policy("1d", early, "move", 0.0, _late(above), _late(below))


SWITCH: Command = ("switch", {"account": 1, "frequency": "1m"})
EXPERTS = {
    "cancel": _expert(BOTH, ("cancel", {"side": "SELL"}), ("cancel", {"side": "BUY"})),
    "modify": _expert(BOTH, ("modify", {"side": "SELL", "by": 0}), ("modify", {"side": "BUY", "by": 0})),
    "touched limit": _expert(INSIDE, ("cancel", {"side": "SELL"}), ("cancel", {"side": "BUY"})),
    "stop the session": replace(_expert(BOTH[:1], ("cancel", {"side": "NONE"}), ("stop", {})), every=2),
    "second account and session": replace(_expert(BOTH[:1], ("cancel", {"side": "NONE"}), SWITCH), every=2),
    "bracket": _expert(
        [order(side, "LIMIT", -60 * TICK, profit=90 * TICK, loss=200 * TICK) for side in ("BUY", "SELL")],
        ("cancel", {"side": "SELL"}), ("cancel", {"side": "BUY"}),
    ),
}  # fmt: skip
"""Policies that would profit from each way of taking an order back: they drop what the day has gone against."""


class Trader:
    """Two accounts on a market; prices are relative to the last one that is shown. What is refused is passed over."""

    def __init__(self, on: Walk) -> None:
        self.walk = on
        self.workspace = Workspace(on.dataset, on.opens[0] - 60 * MINUTE)
        self.broker = self.workspace.broker
        self.accounts = [self.broker.execute("account.create", {"initial_cash": 1e6}).id for _ in range(2)]
        self.account, self.session, self.day, self.before = 0, "", 0, 2e6

    @property
    def mark(self) -> int:
        """Close of the last minute that is complete."""
        over = (self.workspace.clock.as_of_ns - self.walk.opens[self.day]) // MINUTE
        if over > 0:
            return int(self.walk.close_e4[self.day][min(over, len(self.walk.close_e4[self.day])) - 1])
        return int(self.walk.close_e4[self.day - 1][-1]) if self.day else 1_000_000

    def signal(self, name: str) -> float:
        """Move of the day, in dollars, or profit of 100 shares; both are shown by now."""
        if name == "profit":
            return (self.equity() - self.before) / 100
        return (self.mark - self.walk.first_e4[self.day]) / 10_000

    def equity(self) -> float:
        return sum(each.cash_e4 + each.held("STOCK:AVLN") * self.mark for each in self.broker.state.accounts.values()) / 10_000

    def to(self, ns: int) -> None:
        self.workspace.clock.advance(ns)
        self.broker.synchronise()

    def send(self, command: str, **given: Any) -> None:
        try:
            done = self.broker.execute(command, given)
            self.session = done.id if command == "session.create" else self.session
        except ServiceError:
            return

    def begin(self, account: int, frequency: str) -> None:
        """A session of today's."""
        self.account = account
        span = {"start_ts": moment_text(self.workspace.clock.as_of_ns), "end_ts": moment_text(self.walk.closes[self.day])}
        asked = {**span, "frequency": frequency, "universe": {"stocks": ["AVLN"]}, "execution_config": FREE}
        self.send("session.create", account_id=self.accounts[account], **asked)

    def morning(self, frequency: str) -> None:
        """Begin the day with the account that holds more, and close what it holds at the open."""
        held = [self.broker.state.accounts[name].held("STOCK:AVLN") for name in self.accounts]
        self.begin(int(abs(held[1]) > abs(held[0])), frequency)
        if qty := held[self.account]:
            self._send_order({"side": "SELL" if qty > 0 else "BUY", "order_type": "MARKET", "qty": abs(qty)})

    def do(self, command: Command) -> None:
        name, given = command
        if name == "place":
            self._place(**given)
        elif name in ("stop", "switch"):
            self.send("session.stop", session_id=self.session)
            if name == "switch":
                self.begin(given["account"], given["frequency"])
        for each in tuple(self.broker.state.working.values()) if name in ("cancel", "modify") else ():
            if given["side"] in ("ANY", each.side):
                updates = {"qty": 1}
                if name == "modify" and each.order_type != "MARKET":
                    price = each.limit_e4 if each.stop_e4 is None else each.stop_e4
                    updates = {"limit_price" if each.stop_e4 is None else "stop_price": ((price or 0) + given["by"]) / 10_000}
                more = {"updates": updates} if name == "modify" else {}
                self.send(
                    f"order.{name}", order_id=each.id, session_id=self.session, account_id=self.accounts[self.account], **more
                )

    def _place(self, side: str, kind: str, off: int, profit: int = 0, loss: int = 0, oco: bool = False, tif: str = "DAY") -> None:
        sign = 1 if side == "BUY" else -1
        price = self.mark - sign * off if kind == "LIMIT" else self.mark + sign * off if kind == "STOP" else self.mark
        asked = {"side": side, "order_type": kind, "qty": 100, "time_in_force": tif}
        asked |= {} if kind == "MARKET" else {f"{kind.lower()}_price": price / 10_000}
        asked |= {"take_profit_price": (price + sign * profit) / 10_000} if profit else {}
        asked |= {"stop_loss_price": (price - sign * loss) / 10_000} if loss else {}
        working = list(self.broker.state.working)
        self._send_order(asked | ({"oco_with": working[-1]} if oco and working else {}))

    def _send_order(self, asked: dict[str, Any]) -> None:
        ids = {"session_id": self.session, "account_id": self.accounts[self.account]}
        self.send("order.place", order={"instrument": thing("AVLN"), **asked}, **ids)


def play(on: Walk, policy: Policy, script: Script | None = None) -> tuple[np.ndarray, Script]:
    """[days] profits in dollars, and the commands sent at each look: those of a script where one is given."""
    trader, equity, sent = Trader(on), [2e6], []
    for day in range(len(on.opens)):
        trader.to(on.opens[day] - 30 * MINUTE)
        trader.day, trader.before = day, equity[-1]
        trader.morning(policy.frequency)
        trades = day % policy.every == 0
        for command in policy.early if trades else ():
            trader.do(command)
        looks: list[Sequence[Command]] = []
        for index, after in enumerate(LOOKS):
            trader.to(on.opens[day] + after)
            if script is not None:
                looks.append(script[day][index])
            else:
                seen = trader.signal(policy.signal) if trades else 0.0
                looks.append(
                    policy.above[index] if seen > policy.threshold else policy.below[index] if seen < -policy.threshold else []
                )
            for command in looks[-1]:
                trader.do(command)
        trader.to(on.closes[day])
        equity.append(trader.equity())
        sent.append(looks)
    return np.diff(equity), sent


def gaps(on: Walk, policy: Policy) -> np.ndarray:
    """[days] what a policy earned beyond its twin, which sends each day the commands of another one."""
    own, sent = play(on, policy)
    shift = max(1, len(sent) // 2 // policy.every * policy.every)
    return own - play(on, policy, [*sent[shift:], *sent[:shift]])[0]


def p_value(gap: np.ndarray) -> float:
    """One-sided paired t-test of a mean above zero."""
    return float(stats.ttest_1samp(gap, 0, alternative="greater").pvalue) if gap.std() else 1.0


def significant(values: dict[str, float], level: float = 0.01) -> list[str]:
    """Names whose p-values pass Holm's correction over all of them."""
    ranked, rejected = sorted(values, key=lambda name: values[name]), []
    for index, name in enumerate(ranked):
        if values[name] > level / (len(ranked) - index):
            break
        rejected.append(name)
    return rejected


@contextmanager
def taking_back() -> Iterator[None]:
    """Break the broker as it was: bars are matched at their end, and whatever works until then can be taken back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(broker_commands, "_require_no_bar", lambda *_: None)
        yield
