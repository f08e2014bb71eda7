"""Session traded in `ktdeval/Broker-v0`: its options, its task file, and the services' tools as
typed, recorded calls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import Refusal, Tool
from ktdeval.masking import Exact
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig, make_plan
from ktdeval.task_api import is_scoring
from ktdeval.values import JsonValue, dumps_canonical, make_folder, write_atomic
from ktdeval_gym.action_submissions import SubmittedCall

TASK = "broker_session"
_BASE = "qfinzero_planning_live"
_CALLS_A_DAY = (
    #: per day, in addition to one order for each stock: step, bars, positions, and one spare call
    4
)
_CALLS_BEFORE = 20


@dataclass(frozen=True)
class BrokerOptions:
    """Options of `ktdeval/Broker-v0`."""

    as_of: str = "2025-01-23T22:00:00Z"  #: start time of the clock
    stocks: Sequence[str] = ("AVLN", "BRKT")  #: symbols of the traded stocks
    days: int = 20  #: number of trading days, which are the steps of an episode
    lookback: int = 10  #: number of daily returns observed for each stock
    cash: float = 100_000.0  #: initial deposit in dollars
    data_seed: int = 0  #: seed of the embedded market
    out: str | None = None  #: folder for the records of finished episodes

    def check(self) -> None:
        """Raise UsageError if a value is invalid."""
        if isinstance(self.stocks, str) or not self.stocks:
            raise UsageError("stocks: name symbols in a list, such as ['AVLN', 'BRKT']")
        for name, least in (("days", 1), ("lookback", 2)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise UsageError(f"{name} is {value!r}; choose a whole number of {least} or more")
        if not (math.isfinite(self.cash) and self.cash > 0):
            raise UsageError(f"cash is {self.cash!r}; choose a number of dollars above 0")

    @property
    def task_file(self) -> str:
        """Task file of the session, as YAML. Its text depends only on the session."""
        calls = self.days * (len(self.stocks) + _CALLS_A_DAY) + len(self.stocks) + _CALLS_BEFORE
        session = {
            "as_of": self.as_of,
            "stocks": list(self.stocks),
            "days": self.days,
            "cash": float(self.cash),
        }
        variant = {
            "extends": _BASE,
            "data_seed": self.data_seed,
            "harness": {"max_tool_calls": calls},
            "session": session,
        }
        content = {
            "family": "qfinzero_session",
            "version": "1",
            "summary": "A session of the broker, traded day by day",
            "variants": {TASK: variant},
        }
        return yaml.safe_dump(content, sort_keys=False)


def write_task_file(options: BrokerOptions, path: Path) -> None:
    """Write the task file of a session."""
    make_folder(path.parent, "choose another out")
    write_atomic(path, options.task_file)


def open_samples(options: BrokerOptions, plugins: Plugins) -> Any:
    """Return the sample set of a session. Its only sample has the services' tools.

    Raises KtdevalError if an option is invalid.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"{TASK}.yaml"
        write_task_file(options, path)
        (name,) = plugins.resolve_tasks((str(path),))
        task = plugins.make_task(name)

    assert is_scoring(task)
    config = RunConfig(model="builtin/trivial", tasks=(name,))
    plan = make_plan(config, plugins, {name: task}, None, None)  # type: ignore[dict-item]
    return task.samples(plan.specs[0], None, None)


# ---- tools


class ShownAnswer(msgspec.Struct):
    """Part of a response on an account."""

    equity: float
    cash: float


class _Bar(msgspec.Struct):
    ticker: str
    close: float


class _Position(msgspec.Struct):
    instrument_id: str
    qty: int


class _Fill(msgspec.Struct):
    qty: float = 0.0
    price: float = 0.0


class _Event(msgspec.Struct):
    type: str
    data: Mapping[str, Any]


class BrokerTools:
    """Tools of one workspace, as typed calls.

    `calls`: the calls so far, including refused ones. Raises DataError if a call other than an
    order is refused.
    """

    def __init__(self, tools: Sequence[Tool], context: Any) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._context = context
        self.calls: list[SubmittedCall] = []

    def moment(self) -> str:
        """Return the time of the session's clock."""
        return str(self._call("upq_health_freshness", {})["as_of_ts"])

    def open_account(self, cash: float) -> tuple[str, ShownAnswer]:
        """Open an account. Return its id and its holdings."""
        answer = self._call("pmb_account_create", {"initial_cash": cash})
        return answer["account_id"], msgspec.convert(answer["account"], ShownAnswer)

    def begin_session(self, account: str, start: str, end: str, stocks: Sequence[str]) -> str:
        """Begin a daily session. Return its id."""
        arguments: dict[str, JsonValue] = {
            "account_id": account,
            "frequency": "1d",
            "start_ts": start,
            "end_ts": end,
            "universe": {"stocks": list(stocks)},
        }
        return str(self._call("pmb_session_create", arguments)["session_id"])

    def step(self, session: str) -> tuple[str, bool, ShownAnswer, float]:
        """Advance by one day.

        Return the day, whether the session continues, the account, and the value of the day's
        executions.
        """
        answer = self._call("pmb_session_step", {"session_id": session, "step": 1})
        traded = 0.0
        for event in msgspec.convert(answer["events"], list[_Event]):
            if event.type == "TRADE":
                fill = msgspec.convert(event.data, _Fill)
                traded += abs(fill.qty) * fill.price

        clock = answer["clock"]
        account = msgspec.convert(answer["account"], ShownAnswer)
        return clock["current_ts"][:10], clock["status"] == "RUNNING", account, traded

    def closes(self, stocks: Sequence[str], first: str, last: str) -> dict[str, list[float]]:
        """Return the daily closes of each stock, adjusted to the last day for splits and
        dividends.
        """
        arguments: dict[str, JsonValue] = {
            "tickers": ",".join(stocks),
            "start": first,
            "end": last,
            "adjust": "total",
        }
        closes: dict[str, list[float]] = {name: [] for name in stocks}
        for bar in msgspec.convert(self._call("upq_stock_daily", arguments)["bars"], list[_Bar]):
            closes[bar.ticker].append(bar.close)
        return closes

    def quantities(self, account: str) -> dict[str, int]:
        """Return the number of shares held, by symbol."""
        answer = self._call("pmb_account_positions", {"account_id": account})
        positions = msgspec.convert(answer["positions"], list[_Position])
        return {each.instrument_id.removeprefix("STOCK:"): each.qty for each in positions}

    def order(self, session: str, account: str, symbol: str, shares: int) -> bool:
        """Place a market order. Negative `shares` sell. Return False if the order is refused."""
        order: dict[str, JsonValue] = {
            "instrument": {"type": "STOCK", "symbol": symbol},
            "side": "BUY" if shares > 0 else "SELL",
            "order_type": "MARKET",
            "qty": abs(shares),
        }
        arguments: dict[str, JsonValue] = {
            "session_id": session,
            "account_id": account,
            "order": order,
        }
        return not isinstance(self._answer("pmb_order_place", arguments), Refusal)

    def _call(self, name: str, arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
        answer = self._answer(name, arguments)
        if isinstance(answer, Refusal):
            raise DataError(f"{name}: {dumps_canonical(_plain_payload(answer.payload))}")
        value = _plain_payload(answer)
        assert isinstance(value, dict)
        return value

    def _answer(self, name: str, arguments: Mapping[str, JsonValue]) -> Any:
        self.calls.append(SubmittedCall(tool=name, arguments=dict(arguments)))
        return self._tools[name].function(self._context, dict(arguments))


def _plain_payload(payload: Any) -> Any:
    return payload.value if isinstance(payload, Exact) else payload
