"""Gymnasium environment of a broker behind tools: one day a step, in the workspace of a sample.

It calls the tools that a model is offered (`pmb_*` and `upq_*` of the QFinZero services) in the
environment of a scoring task's sample. So the clock, fills, fees and margin are the broker's own,
and nothing later than the clock can be known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.harness import Refusal, Tool
from ktdeval.masking import Exact
from ktdeval.plugins.registry import load_plugins
from ktdeval.runner import RunConfig, make_plan
from ktdeval.tasks import is_scoring
from ktdeval.values.fields import user_path
from ktdeval.values.jsonio import JsonValue, dumps_canonical, make_folder, write_atomic
from ktdeval_gym.actions import INVESTED, SMALLEST_CHANGE
from ktdeval_gym.policy import LIMIT, Vector
from ktdeval_gym.rewards import RewardConfig, Rewards, StepAmounts

Info = dict[str, Any]
_CENTS = 100
_CALENDAR_DAYS = 2  # a calendar day or two to each trading day, and a fortnight for holidays
_MARGIN_DAYS = 14


@dataclass(frozen=True)
class BrokerOptions:
    """Options of `ktdeval/Broker-v0`."""

    task: str = "qfinzero_planning_live"  #: whose samples' workspaces have the tools
    #: number of the sample in its task; its moment is where the session begins
    sample: int = 84
    stocks: Sequence[str] = ("AVLN", "BRKT")  #: what is traded
    days: int = 20  #: trading days, steps of an episode
    lookback: int = 10  #: daily returns observed of each stock
    cash: float = 100_000.0  #: dollars paid in
    out: str | None = None  #: folder of the sessions' exports, one for each episode that ended


class _Shown(msgspec.Struct):
    """Part of an account's answer."""

    equity: float
    cash: float


class _Bar(msgspec.Struct):
    ticker: str
    close: float


class _SessionBar(msgspec.Struct):
    instrument_id: str
    close: float


class _Position(msgspec.Struct):
    instrument_id: str
    qty: int


class _Trade(msgspec.Struct):
    value: float


class BrokerTools:
    """Tools of one workspace, as typed calls. Raises DataError for a refusal that is no outcome of
    an order.
    """

    def __init__(self, tools: Sequence[Tool], context: Any) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._context = context

    def call(self, name: str, arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
        """Return a tool's answer."""
        if name not in self._tools:
            raise UsageError(f"the task has no tool {name}; choose a task of the QFinZero services")

        answer = self._tools[name].function(self._context, dict(arguments))
        if isinstance(answer, Refusal):
            raise DataError(f"{name}: {dumps_canonical(_plain(answer.payload))}")
        value = _plain(answer)
        assert isinstance(value, dict)
        return value

    def order(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Place an order. Return False where the broker refuses it."""
        answer = self._tools["pmb_order_place"].function(self._context, dict(arguments))
        return not isinstance(answer, Refusal)


def _plain(payload: Any) -> Any:
    return payload.value if isinstance(payload, Exact) else payload


class BrokerEnv(gymnasium.Env[Vector, Vector]):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Environment of a broker's session. A step sends market orders towards target weights of the
    stocks, which fill at the next day's trading, and ends at that day's close.

    Observation, float32, cut at ±10: for each stock its last `lookback` daily log returns over their
    standard deviation before the session; each stock's share of the equity; cash as a share.
    Action: target weight of 0 to 1 of each stock; scaled down where their sum exceeds 0.995.
    An episode is truncated at the session's last day, terminated if the equity is gone.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        options: BrokerOptions,
        reward: RewardConfig | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Raises UsageError: the task has no such sample or tools; DataError: a stock has too few
        days before the session.
        """
        if not options.stocks or options.days < 1 or options.lookback < 2:
            raise UsageError("Broker-v0 needs stocks, days of 1 or more, and lookback of 2 or more")

        self.options = options
        self.render_mode = render_mode
        stocks = len(options.stocks)
        size = stocks * options.lookback + stocks + 1
        self.observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (stocks,), np.float32)
        self._samples = _samples(options)
        self._reward = reward or RewardConfig()
        self._begin()

    # ---- the session

    def _begin(self) -> None:
        options = self.options
        sample = self._samples.sample(options.sample)
        environment = sample.environment
        if environment is None or not environment.tools:
            raise UsageError(f"task {options.task} makes no calls; choose qfinzero_planning_live")

        tools = BrokerTools(environment.tools, environment)
        self._tools = tools
        self._stop_sessions()
        moment = tools.call("upq_health_freshness", {})["as_of_ts"]
        today = date.fromisoformat(moment[:10])
        self._closes = self._history(today)
        account = tools.call("pmb_account_create", {"initial_cash": options.cash})
        self._account = account["account_id"]
        last = today + timedelta(_MARGIN_DAYS + _CALENDAR_DAYS * options.days)
        session = tools.call(
            "pmb_session_create",
            {
                "account_id": self._account,
                "frequency": "1d",
                "start_ts": moment,
                "end_ts": last.isoformat(),
                "universe": {"stocks": list(options.stocks)},
            },
        )
        self._session = session["session_id"]
        self._step = 0
        self._trades = 0
        self._scales = np.array([_scale_of(name, self._closes[name]) for name in options.stocks])
        self._rewards = Rewards(self._reward, np.array([float(np.mean(self._scales))]))
        self._read_account(account["account"])
        self._quantities = dict.fromkeys(options.stocks, 0)
        self._day = moment[:10]

    def _stop_sessions(self) -> None:
        """Stop the session that the sample's situation may have: a workspace has one clock."""
        for account in self._tools.call("pmb_account_list", {})["accounts"]:
            if account["session_id"] is not None:
                self._tools.call("pmb_session_stop", {"session_id": account["session_id"]})

    def _history(self, today: date) -> dict[str, list[float]]:
        """Return the adjusted closes of each stock until today. Raises DataError: too few."""
        first = today - timedelta(_MARGIN_DAYS + _CALENDAR_DAYS * self.options.lookback)
        closes: dict[str, list[float]] = {}
        for name in self.options.stocks:
            answer = self._tools.call(
                "upq_stock_daily",
                {"tickers": name, "start": first.isoformat(), "end": today.isoformat()},
            )
            bars = msgspec.convert(answer["bars"], list[_Bar])
            closes[name] = [bar.close for bar in bars]
            if len(closes[name]) <= self.options.lookback:
                raise DataError(
                    f"{name}: {len(closes[name])} closes are known on {today}, and"
                    f" {self.options.lookback} returns need one more; choose a shorter lookback or a"
                    " later sample"
                )

        return closes

    def _read_account(self, account: Mapping[str, Any]) -> None:
        shown = msgspec.convert(account, _Shown)
        self._equity = shown.equity
        self._cash = shown.cash

    # ---- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, Info]:
        """Begin a new workspace. Nothing is drawn: `seed` changes nothing."""
        super().reset(seed=seed, options=options)
        self._begin()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Vector, float, bool, bool, Info]:
        """Send orders and go to the next close. Raises UsageError: the action is not in the space,
        or the episode is over.
        """
        if not self.action_space.contains(action):
            raise UsageError("the action is not in the environment's action space")
        if self._step >= self.options.days:
            raise UsageError("the episode is over; call reset()")

        before = self._equity
        earlier = {name: closes[-1] for name, closes in self._closes.items()}
        self._send([float(weight) for weight in action])
        answer = self._tools.call("pmb_session_step", {"session_id": self._session, "step": 1})
        self._step += 1
        self._day = answer["clock"]["current_ts"][:10]
        self._read_account(answer["account"])
        self._read_market()

        moves = [self._closes[name][-1] / earlier[name] for name in self.options.stocks]
        amounts = StepAmounts(
            nav_before=np.array([round(before * _CENTS)]),
            nav=np.array([round(self._equity * _CENTS)]),
            traded=np.array([round(self._traded() * _CENTS)]),
            benchmark=np.array([math.log(math.fsum(moves) / len(moves))]),
        )
        reward = float(self._rewards.of(amounts, np.ones(1, dtype=np.bool_))[0])
        is_ruined = self._equity <= 0
        is_finished = answer["clock"]["status"] != "RUNNING"
        is_last = self._step == self.options.days or is_finished
        if is_last or is_ruined:
            self._step = self.options.days
            self._export()

        return self._observation(), reward, is_ruined, is_last, self._info()

    def _send(self, weights: Sequence[float]) -> None:
        """Send the orders to target weights: sells first, whole shares."""
        total = math.fsum(weights)
        shrink = INVESTED / total if total > INVESTED else 1.0
        moves: dict[str, int] = {}
        for name, weight in zip(self.options.stocks, weights, strict=True):
            close = self._closes[name][-1]
            now = self._quantities[name] * close / self._equity
            target = weight * shrink
            if abs(target - now) >= SMALLEST_CHANGE or (target == 0.0 and now):
                moves[name] = math.floor(target * self._equity / close) - self._quantities[name]

        for name, move in sorted(moves.items(), key=lambda item: item[1] > 0):
            if move:
                self._order(name, move)

    def _order(self, name: str, move: int) -> None:
        order: dict[str, JsonValue] = {
            "instrument": {"type": "STOCK", "symbol": name},
            "side": "BUY" if move > 0 else "SELL",
            "order_type": "MARKET",
            "qty": abs(move),
        }
        self._tools.order(
            {"session_id": self._session, "account_id": self._account, "order": order}
        )

    def _read_market(self) -> None:
        """Take up the day's closes and what is held."""
        market = self._tools.call("pmb_session_market", {"session_id": self._session})
        bars = msgspec.convert(market["bars"], list[_SessionBar])
        close_of = {bar.instrument_id: bar.close for bar in bars}
        for name, closes in self._closes.items():
            closes.append(close_of.get(f"STOCK:{name}", closes[-1]))

        held = self._tools.call("pmb_account_positions", {"account_id": self._account})
        positions = msgspec.convert(held["positions"], list[_Position])
        quantity_of = {position.instrument_id: position.qty for position in positions}
        for name in self._quantities:
            self._quantities[name] = quantity_of.get(f"STOCK:{name}", 0)

    def _traded(self) -> float:
        """Return the value of the executions since the step before."""
        answer = self._tools.call(
            "pmb_account_trades", {"account_id": self._account, "limit": 1000}
        )
        trades = msgspec.convert(answer["trades"], list[_Trade])
        new = trades[self._trades :]
        self._trades = len(trades)
        return math.fsum(abs(trade.value) for trade in new)

    def _observation(self) -> Vector:
        parts: list[float] = []
        for name, scale in zip(self.options.stocks, self._scales.tolist(), strict=True):
            closes = np.array(self._closes[name][-self.options.lookback - 1 :])
            returns = np.diff(np.log(closes)) / scale
            parts.extend(returns.tolist())

        equity = self._equity if self._equity > 0 else 1.0
        for name in self.options.stocks:
            parts.append(self._quantities[name] * self._closes[name][-1] / equity)
        parts.append(self._cash / equity)
        return np.clip(parts, -LIMIT, LIMIT).astype(np.float32)

    def _info(self) -> Info:
        return {"day": self._day, "equity": self._equity, "held": dict(self._quantities)}

    def render(self) -> str | None:
        """Return one line of text on the present close; None without a render mode."""
        if self.render_mode is None:
            return None
        held = ", ".join(f"{number} {name}" for name, number in self._quantities.items())
        return f"{self._day}  equity {self._equity:,.2f}  cash {self._cash:,.2f}  {held}"

    def _export(self) -> None:
        """Write the session's export: orders, trades, daily equity, figures, hash of the log."""
        if self.options.out is None:
            return

        folder: Path = user_path(self.options.out)
        make_folder(folder, "choose another out")
        answer = self._tools.call(
            "pmb_session_export", {"session_id": self._session, "format": "json"}
        )
        number = 1
        while (path := folder / f"session_{number:04d}.json").exists():
            number += 1
        write_atomic(path, dumps_canonical(answer) + "\n")


def _scale_of(name: str, closes: Sequence[float]) -> float:
    """Return the standard deviation of log returns. Raises DataError: the price does not move."""
    scale = float(np.std(np.diff(np.log(np.array(closes)))))
    if scale == 0.0:
        raise DataError(f"{name}: the price does not move before the session; choose another stock")
    return scale


def _samples(options: BrokerOptions) -> Any:
    """Return the samples of the task. Raises UsageError: it has none, or not this one."""
    plugins = load_plugins()
    task = plugins.make_task(options.task)
    if not is_scoring(task):
        raise UsageError(f"task {options.task} has no workspaces; choose qfinzero_planning_live")

    config = RunConfig(model="builtin/trivial", tasks=(options.task,))
    plan = make_plan(config, plugins, {options.task: task}, None, None)  # type: ignore[dict-item]
    samples = task.samples(plan.specs[0], None, None)
    if not 0 <= options.sample < len(samples):
        raise UsageError(
            f"sample {options.sample}: task {options.task} has 0 to {len(samples) - 1}"
        )
    return samples
