"""What a reader does on the terminal, drawn at random, and the same done by calls of the API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Literal
from zoneinfo import ZoneInfo

from qfinzero_broker_play import thing
from qfinzero_server import Reply, Served
from qfinzero_world import contracts

Kind = Literal[
    "order", "step-bar", "step-minute", "step-day", "cancel", "cancel-all", "flatten", "branch"
]

OPENED = "2025-01-06T14:30:00Z"
ENDS = "2025-01-31"
STOCKS = ("AVLN", "BRKT", "CSTL")
OPTIONS = tuple(sorted(contract.symbol for contract in contracts()))
BOTH = {"account_id": "acct-000001", "session_id": "sess-000001"}

_MARKET = ZoneInfo("America/New_York")
_AROUND = {"AVLN": 100, "BRKT": 50, "CSTL": 240}
_KINDS: tuple[Kind, ...] = (
    *("order",) * 8,
    *("step-bar",) * 7,
    *("step-day",) * 2,
    *("cancel",) * 2,
    "step-minute",
    "cancel-all",
    "flatten",
    "branch",
)


@dataclass(frozen=True)
class Opening:
    """Terms of a session."""

    account_type: str
    frequency: str


@dataclass(frozen=True)
class Command:
    """Something to do. `given`: an order, the id of one, or the moment of a branch."""

    kind: Kind
    given: Any = None


def opening(random: Random) -> Opening:
    """Draw the terms of a session."""
    return Opening(random.choice(("MARGIN", "MARGIN", "CASH")), random.choice(("1d", "1m")))


class ByApi:
    """A client without a page: the same commands in a workspace of its own."""

    def __init__(self, served: Served, terms: Opening) -> None:
        self.served = served
        self.workspace = served.open(as_of_ts=OPENED)
        self.all = [self.workspace]  #: this one and those that it branched from, the first first
        account = {"account_type": terms.account_type}

        assert served.post("/v1/accounts", account, self.workspace).status == 200

        session = {
            "account_id": BOTH["account_id"],
            "frequency": terms.frequency,
            "start_ts": OPENED,
            "end_ts": ENDS,
            "universe": {"stocks": list(STOCKS), "options": list(OPTIONS)},
        }

        assert served.post("/v1/sessions", session, self.workspace).status == 200

    # ---- what it sees

    def _get(self, path: str) -> Any:
        return self.served.get(path, self.workspace).body

    @property
    def clock(self) -> datetime:
        """The session's clock."""
        return _moment(self._session()["current_ts"])

    @property
    def is_running(self) -> bool:
        """Whether its session runs."""
        return self._session()["status"] == "RUNNING"

    def _session(self) -> dict[str, Any]:
        session: dict[str, Any] = self._get(f"/v1/sessions/{BOTH['session_id']}")["session"]
        return session

    def working(self) -> list[str]:
        """Ids of orders that work."""
        path = f"/v1/accounts/{BOTH['account_id']}/orders?status_in=OPEN"
        return [order["order_id"] for order in self._get(path)["orders"]]

    def draw(self, random: Random) -> Command:
        """Draw the next command among those that are possible now."""
        kind = random.choice(_KINDS)
        if kind == "order":
            return Command("order", drawn_order(random))

        if kind == "cancel":
            working = self.working()
            return Command("cancel", random.choice(working)) if working else Command("step-bar")

        if kind == "branch":
            return Command("branch", earlier(random, self.clock))

        return Command(kind)

    # ---- what it does

    def do(self, command: Command) -> None:
        """Do what a command says; a refusal changes nothing."""
        if command.kind == "order":
            self._post("/v1/orders", {**BOTH, "order": command.given})
        elif command.kind == "cancel":
            self._cancel(command.given)
        elif command.kind == "branch":
            self._branch(command.given)
        elif command.kind.startswith("step"):
            self._post(f"/v1/sessions/{BOTH['session_id']}/step", self._distance(command.kind))
        else:
            for order_id in self.working():
                self._cancel(order_id)

            if command.kind == "flatten":
                self._close_positions()

    def _post(self, path: str, body: Any) -> Reply:
        return self.served.post(path, body, self.workspace)

    def _cancel(self, order_id: str) -> None:
        self._post(f"/v1/orders/{order_id}/cancel", BOTH)

    def _distance(self, kind: Kind) -> dict[str, Any]:
        if kind == "step-bar":
            return {"step": 1}

        if kind == "step-minute":
            return {"until_ts": _text(self.clock + timedelta(minutes=1))}

        friday = 4
        saturday = 5
        days = {friday: 3, saturday: 2}.get(self.clock.astimezone(_MARKET).weekday(), 1)

        return {"until_ts": _text(self.clock + timedelta(days=days))}

    def _close_positions(self) -> None:
        held = self._get(f"/v1/accounts/{BOTH['account_id']}/positions")["positions"]
        for position in held:
            order = {
                "instrument": position["instrument"],
                "side": "SELL" if position["qty"] > 0 else "BUY",
                "order_type": "MARKET",
                "qty": abs(position["qty"]),
                "time_in_force": "DAY",
            }
            self._post("/v1/orders", {**BOTH, "order": order})

    def _branch(self, moment: str) -> None:
        reply = self._post("/terminal/branches", {"as_of_ts": moment})
        assert reply.status == 201, reply.text
        self.workspace = reply.body["workspace_id"]
        self.all.append(self.workspace)


def earlier(random: Random, clock: datetime) -> str:
    """Draw a whole minute between the opening and a clock."""
    span = clock - _moment(OPENED)
    back = timedelta(minutes=int(random.random() * span / timedelta(minutes=1)))
    return _text(clock - back)


def drawn_order(random: Random) -> dict[str, Any]:
    """An order of a stock or an option, now and then one that the broker refuses or rejects."""
    symbol = random.choice((*STOCKS, *STOCKS, *random.sample(OPTIONS, 2)))
    around = _AROUND.get(symbol, 3)
    kind = random.choice(("MARKET", "MARKET", "MARKET", "LIMIT", "LIMIT", "STOP", "STOP_LIMIT"))
    order: dict[str, Any] = {
        "instrument": thing(symbol),
        "side": random.choice(("BUY", "BUY", "SELL")),
        "order_type": kind,
        "qty": random.choice((0, 1, 3, 7, 25, 25, 100, 100, 500, 20_000)),
        "time_in_force": random.choice(("DAY", "DAY", "GTC", "GTC", "GTC", "GTD")),
    }

    for name in ("stop", "limit"):
        if name.upper() in kind:
            order[f"{name}_price"] = _price(random, around)

    if order["time_in_force"] == "GTD":
        order["expire_ts"] = random.choice(("2025-01-08", "2025-01-15T15:00:00Z", "2025-01-02"))

    if random.random() < 0.2:
        order["take_profit_price"] = _number(round(around * 1.2, 2))
        order["stop_loss_price"] = _number(round(around * 0.8, 2))

    return order


def _price(random: Random, around: float) -> float:
    return _number(round(around * random.choice((0.9, 0.99, 1.0, 1.001, 1.01, 1.1)), 2))


def _number(value: float) -> float:
    """A number as scripts write it: without decimals where it is whole."""
    return int(value) if value == int(value) else value


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.split(".")[0].removesuffix("Z")).replace(tzinfo=UTC)


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
