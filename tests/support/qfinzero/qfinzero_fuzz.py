"""Arguments made up from the operations' own schemas (valid, nearly valid, and garbage), and what
every call must keep.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, reduce
from random import Random
from typing import Any

import numpy as np

from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.cursors import write_cursor
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.errors import STATUS, ServiceError
from ktdeval_qfinzero.operations import Operation
from support.qfinzero.qfinzero_broker_play import market, minutes
from support.qfinzero.qfinzero_calls import ask, copied, validator
from support.qfinzero.qfinzero_scenario import CONTRACT, amid_trading, in_process, played
from support.qfinzero.qfinzero_world import at, small_dataset
from support.tables import beside

Arguments = dict[str, Any]
ACCOUNT = "acct-000001"
SESSION = "sess-000001"
BOTH = {"account_id": ACCOUNT, "session_id": SESSION}

TEXTS = beside(__file__)
DAYS: tuple[str, ...] = tuple(TEXTS["days"])
MOMENTS = (*DAYS, *TEXTS["moments"])
STOCKS = tuple(TEXTS["stocks"])
ODD_STOCKS = tuple(TEXTS["odd_stocks"])
CONTRACTS = tuple(TEXTS["contracts"])
ODD_CONTRACTS = tuple(TEXTS["odd_contracts"])
HARD = ("\x00", "a\x00b", "\ud800", "\udfff\ud800", "x" * 3_000, ",".join(["AVLN"] * 300))
ODD_TEXTS = (*TEXTS["odd_texts"], *HARD, *TEXTS["odd_moments"], *ODD_STOCKS, *ODD_CONTRACTS)
ODD_NUMBERS = (
    0,
    -1,
    1,
    2,
    499,
    500,
    501,
    10**5,
    10**5 + 1,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    -(2**63) - 1,
    2**64,
    10**400,
    10**5_000,
    0.5,
    1e-9,
    5e-324,
    -0.0,
    1e18,
    1.7976931348623157e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    0.1 + 0.2,
    99_999.999,
    1.00005,
)
WORDS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("start", "date", "start_date", "expiry_min"), DAYS),
    **dict.fromkeys(
        ("end", "end_date", "expiry_max"), ("2025-01-10", "2025-01-31", "2025-03-31", *DAYS)
    ),
    **dict.fromkeys(
        ("start_utc", "end_utc", "start_ts", "end_ts", "until_ts", "expire_ts"), MOMENTS
    ),
    "order_id": tuple(f"ord-{number:06d}" for number in range(1, 12)),
    "symbol": STOCKS,
    "contract": CONTRACTS,
    **TEXTS["words"],
}  #: Texts that mean something, by the argument's name
LISTED: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "tickers": (STOCKS, ODD_STOCKS),
    "stocks": (STOCKS, ODD_STOCKS),
    "options": (CONTRACTS, ODD_CONTRACTS),
}  #: Usual and odd members of lists of texts


def nested(levels: int) -> list[Any]:
    """Lists in lists."""
    return reduce(lambda value, _: [value], range(levels), [])


@cache
def cursors() -> tuple[str, ...]:
    """Cursors of every shape that an operation has, and such as nobody gave."""
    keys: tuple[tuple[str | int, ...], ...] = (
        ("AVLN", 1_736_173_800_000_000_000),
        ("ZNEW", 0),
        ("AVLN", 2**63 - 2),
        ("AVLN", 2**63 - 1),
        ("AVLN", 2**70),
        ("AVLN", -1),
        (1_736_173_800_000_000_000, "news_1"),
        (0, ""),
        (2**63 - 2, "x"),
        ("AVLN", "stock"),
        (CONTRACT,),
        (0,),
        (3,),
        (2**63 - 2,),
        ("\x00",),
        (),
        ("AVLN", 1, 2),
        (0, "' OR 1=1"),
    )
    issued = [write_cursor(*key) for key in keys]
    broken = (
        "W10",
        "bnVsbA",
        "WzAs",
        "e30",
        "W1tdXQ",
        "WyJcdWQ4MDAiXQ",
        "WzFlOTk5XQ",
        "WzFdCg",
        "WzEuMF0",
        "WzEsdHJ1ZV0",
        "!",
        "=" * 9,
    )

    return (*issued, *broken, issued[0] + "=", issued[0][:-1])


class Maker:
    """Makes arguments up, as `random` decides."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def arguments(self, operation: Operation) -> Any:
        """Valid arguments mostly; some with a fault, some nothing but garbage."""
        lot = self._random.random()
        if lot < 0.06:
            return (
                self._random.choice((nested(40), {"cursor": nested(9_000)}))
                if lot < 0.01
                else self.garbage()
            )

        made = self._object(operation.properties, operation.required)

        return made if lot < 0.8 else self._with_fault(made)

    def garbage(self, depth: int = 3) -> Any:
        """Whatever JSON and those who write it can say, and what it can't."""
        choice = self._random.choice
        kind = choice(("word", "text", "number", "constant", "list", "object"))

        if depth and kind in ("list", "object"):
            items = [self.garbage(depth - 1) for _ in range(self._random.randrange(4))]
            return (
                items if kind == "list" else {choice((*ODD_TEXTS, *WORDS)): item for item in items}
            )

        known = {"word": choice(list(WORDS.values())), "text": ODD_TEXTS, "number": ODD_NUMBERS}

        return choice(known.get(kind, (None, True, False)))

    def _object(self, properties: Mapping[str, Any], required: Sequence[str]) -> Arguments:
        share = self._random.choice((0.1, 0.4, 0.9))
        chosen = [name for name in properties if name in required or self._random.random() < share]
        return {name: self._value(name, properties[name]) for name in chosen}

    def _value(self, name: str, schema: Mapping[str, Any]) -> Any:
        """A value that a schema allows, mostly."""
        choice = self._random.choice
        kind = schema.get("type")
        special = {
            "order": self._order,
            "instrument": self._instrument,
            "updates": self._updates,
        }.get(name)

        if special is not None and self._usual():
            return special()

        if "enum" in schema:
            return choice(schema["enum"])

        if kind == "boolean":
            return choice((True, False))

        if kind == "object":
            return self._object(schema["properties"], schema.get("required", ()))

        if kind == "array":
            return self._list(name, schema)

        if kind in ("integer", "number"):
            return self._number(schema)

        if name == "cursor":
            return choice(cursors())

        return choice(WORDS.get(name, ("a",)) if self._usual() else ODD_TEXTS)

    def _usual(self) -> bool:
        return self._random.random() < 0.95

    def _list(self, name: str, schema: Mapping[str, Any]) -> list[Any]:
        count = self._random.randint(schema.get("minItems", 0), min(schema["maxItems"], 4))
        if name in LISTED:
            return [
                self._random.choice(LISTED[name][0 if self._usual() else 1]) for _ in range(count)
            ]

        return [self._value("", schema["items"]) for _ in range(count)]

    def _number(self, schema: Mapping[str, Any]) -> Any:
        most = schema["maximum"]
        whole = schema["type"] == "integer"
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        likely = [
            value for value in (1, 2, 5, 100, 390, 100.0, 95.5, 0.01) if least <= value <= most
        ]
        edges = [schema.get("default", least), least, most, (least + most) // 2]
        value = self._random.choice(likely + edges)

        return int(value) if whole and self._usual() else value

    def _instrument(self) -> Arguments:
        if self._random.random() < 0.5:
            return {
                "type": "STOCK",
                "symbol": self._random.choice(STOCKS if self._usual() else ODD_STOCKS),
            }

        return {
            "type": "OPTION",
            "contract": self._random.choice(CONTRACTS if self._usual() else ODD_CONTRACTS),
        }

    def _order(self) -> Arguments:
        choice = self._random.choice
        kind = choice(("MARKET", "LIMIT", "STOP", "STOP_LIMIT"))
        prices = (0.01, 0.0001, 2.5, 45.0, 95.5, 100, 101.25, 240.0, 999_999.99, 100.005, 1_000_000)
        order: Arguments = {
            "instrument": self._instrument(),
            "side": choice(("BUY", "SELL")),
            "order_type": kind,
            "qty": choice((1, 3, 7, 50, 100, 1_000, 1_000_000)),
            **({"limit_price": choice(prices)} if "LIMIT" in kind else {}),
            **({"stop_price": choice(prices)} if "STOP" in kind else {}),
        }
        end = choice(("DAY", "GTC", "GTC", "GTD", None))

        return (
            order
            | ({"time_in_force": end} if end else {})
            | ({"expire_ts": choice(MOMENTS)} if end == "GTD" else {})
        )

    def _updates(self) -> Arguments:
        choice = self._random.choice
        names = self._random.sample(("qty", "limit_price", "stop_price"), choice((1, 1, 2)))
        return {
            name: choice((50, 150, 10**6) if name == "qty" else (49.5, 71, 100.25, 0.005))
            for name in names
        }

    def _with_fault(self, arguments: Arguments) -> Any:
        """Arguments with one value replaced, left out or put in."""
        changed: Any = copy.deepcopy(arguments)
        where = changed

        while isinstance(where, dict) and where:
            name = self._random.choice(sorted(where))
            if isinstance(where[name], dict) and where[name] and self._random.random() < 0.5:
                where = where[name]
                continue

            fault = self._random.choice(("replace", "replace", "remove", "add"))
            if fault == "remove":
                del where[name]
            else:
                field = (
                    name
                    if fault == "replace"
                    else self._random.choice(("extra", "as_of_ts", "", "\ud800", "cursor"))
                )
                where[field] = self.garbage()

            break

        return changed


# ---- places where calls are tried


@cache
def world() -> Dataset:
    return small_dataset()


def _busy() -> Workspace:
    workspace = Workspace(world())
    played(amid_trading(), in_process(workspace))
    for kind, symbol, prices in (
        ("LIMIT", "AVLN", {"limit_price": 50}),
        ("STOP", "BRKT", {"stop_price": 70}),
        ("STOP_LIMIT", "AVLN", {"limit_price": 151, "stop_price": 150}),
    ):
        order = {
            "instrument": {"type": "STOCK", "symbol": symbol},
            "side": "BUY",
            "order_type": kind,
            "qty": 100,
            **prices,
        }
        ask(workspace, "PMB.order.place", **BOTH, order={**order, "time_in_force": "GTC"})

    return workspace


def _minutes() -> Workspace:
    workspace = Workspace(world(), at("2025-01-06T15:00:00Z"))
    ask(workspace, "PMB.account.create", account_type="CASH", initial_cash=30_000)
    universe = {"stocks": list(STOCKS), "options": list(CONTRACTS)}
    span = {"start_ts": "2025-01-06T15:00:00Z", "end_ts": "2025-01-10"}
    ask(workspace, "PMB.session.create", account_id=ACCOUNT, **span, universe=universe)

    return workspace


@cache
def sparse() -> Dataset:
    """Minutes with gaps and thin volumes; before the first of each nothing was ever traded."""
    chance = np.random.default_rng(3)
    bars = {}

    for symbol, first in zip(
        (*STOCKS, *CONTRACTS), (100.0, 50.0, 240.0, 3.0, 2.0, 3.0, 10.0), strict=True
    ):
        close = np.round(first * np.exp(np.cumsum(chance.normal(0, 0.05, 40))), 2) + 0.05
        rows = [
            (price, price + 0.05, price - 0.05, price, float(chance.integers(0, 3_000)))
            for price in close.tolist()
        ]
        bars[symbol] = minutes([row if chance.random() < 0.4 else None for row in rows])

    return market(bars)


def _gaps() -> Workspace:
    workspace = Workspace(sparse(), at("2025-01-06T14:30:00Z"))
    ask(workspace, "PMB.account.create", initial_cash=50_000)
    universe = {"stocks": list(STOCKS), "options": list(CONTRACTS)}
    span = {"start_ts": "2025-01-06T14:30:00Z", "end_ts": "2025-01-27"}
    ask(workspace, "PMB.session.create", account_id=ACCOUNT, **span, universe=universe)

    return workspace


@cache
def _scenes() -> tuple[Workspace, ...]:
    busy = _busy()
    new = Workspace(world(), at("2025-01-02T12:00:00Z"))
    idle = copied(busy)
    ask(idle, "PMB.session.stop", session_id=SESSION)
    ask(new, "PMB.account.create")

    return busy, _minutes(), idle, new, _gaps()


SCENES = 5


def scene(number: int) -> Workspace:
    """A workspace of its own. 0: in the midst of trading by days (fills, positions, a spread,
    working and cancelled orders); 1: a CASH account in a session of minutes; 2: as 0, after the
    session was stopped; 3: an account and nothing else; 4: a session of minutes, few of which have
    a bar.
    """
    return copied(_scenes()[number])


# ---- what every call must keep


def state(workspace: Workspace) -> tuple[Any, ...]:
    """Everything that a call could change, without the log and the counts of refused commands."""
    engine = workspace.broker.engine
    state = asdict(engine.state)

    for session in state["sessions"].values():
        session["refused"] = None

    state["seq"] = None
    position = (
        engine.now_ns,
        engine.day_row,
        engine.opened,
        engine.done,
        id(engine.frame),
        dict(engine.due),
    )

    return workspace.clock.as_of_ns, position, state


def attempt(
    workspace: Workspace, operation: Operation, given: JsonValue
) -> JsonValue | ServiceError:
    """Make a call and hold it to everything that is promised of every call."""
    before = state(workspace)
    entries = list(workspace.broker.log.entries)

    try:
        answer: JsonValue | ServiceError = operation.call(workspace, given)
    except ServiceError as error:
        answer = error

    log = workspace.broker.log.entries

    assert log[: len(entries)] == entries

    if isinstance(answer, ServiceError):
        check_refusal(answer)
        added = [
            entry.kind if entry.kind == "command" else entry.type for entry in log[len(entries) :]
        ]
        assert added in ([], ["command", "COMMAND_REFUSED"])
        assert state(workspace) == before, f"{operation.name}: refused, and yet something changed"
        return answer

    dumps_canonical(answer).encode()
    validator(operation.name).validate(answer)
    if not operation.changes:
        assert state(workspace) == before
        assert len(log) == len(entries)

    return answer


def check_refusal(error: ServiceError) -> None:
    """An error envelope is strict JSON, of a known code, on one line, and short."""
    text = dumps_canonical(error.to_json())
    text.encode()

    assert error.code in STATUS
    assert error.message
    assert (error.message + error.field).isprintable()
    assert len(text) < 2_000
