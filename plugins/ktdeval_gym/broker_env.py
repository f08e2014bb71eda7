"""Gymnasium environment for a broker behind tools, with one step per day, in a separate workspace.

It calls the same tools as a model (`pmb_*` and `upq_*` of the QFinZero services). The clock, fills,
fees and margin are therefore the broker's, and data after the clock's time are not accessible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import gymnasium
import numpy as np

from ktdeval.errors import DataError, UsageError
from ktdeval.market import FloatArray
from ktdeval_gym.action_submissions import moves, scaled_down
from ktdeval_gym.arrays import weights_in
from ktdeval_gym.broker_session import BrokerOptions, BrokerTools, ShownAnswer
from ktdeval_gym.policies.policy import LIMIT, Vector
from ktdeval_gym.recording import SessionWriter, no_session_writer
from ktdeval_gym.rewards import RewardConfig, Rewards

Info = dict[str, Any]
_CENTS = 100
# calendar days requested per trading day, in addition to a fortnight for holidays
_CALENDAR_DAYS = 2
_MARGIN_DAYS = 14
_HALTS = 4  # multiple of that period that is requested if halts leave too few bars


class BrokerEnv(gymnasium.Env[Vector, Vector]):  # type: ignore[misc]  # whose types are not read, so that it need not be installed
    """Environment for a broker's session. A step sends market orders that move the stocks to target
    weights. The orders fill on the next day, and the step ends at that day's close.

    Observation, float32, clipped at ±10: the last `lookback` daily log returns of each stock,
    adjusted for splits and dividends and divided by their standard deviation before the session;
    each stock's share of the equity; cash as a share of the equity.

    Action: a target weight from 0 to 1 for each stock. Weights are scaled down if their sum exceeds
    0.995.

    `info`: `day`, `equity`, number of shares `held`, and the orders `refused` in the step. An
    episode is truncated on the session's last day, and terminated if the equity is lost.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - as Gymnasium declares it

    def __init__(
        self,
        options: BrokerOptions,
        samples: Any,
        reward: RewardConfig | None = None,
        render_mode: str | None = None,
        writer: SessionWriter = no_session_writer,
    ) -> None:
        """`samples`: sample set of the session's task (`broker_session.open_samples`). `writer`:
        called with the tool calls of each finished episode, by step.

        Raises DataError if a stock has too few days before the session, or if the services refuse a
        call.
        """
        self.options = options
        self.render_mode = render_mode
        stocks = len(options.stocks)
        size = stocks * options.lookback + stocks + 1
        self.observation_space = gymnasium.spaces.Box(-LIMIT, LIMIT, (size,), np.float32)
        self.action_space = gymnasium.spaces.Box(0.0, 1.0, (stocks,), np.float32)
        self._samples = samples
        self._write = writer
        self._reward = reward or RewardConfig()
        self._begin()

    # ---- the session

    def _begin(self) -> None:
        options = self.options
        environment = self._samples.sample(0).environment
        self._tools = BrokerTools(environment.tools, environment)
        moment = self._tools.moment()
        self._day = moment[:10]
        self._closes = self._history()
        self._account, shown = self._tools.open_account(options.cash)
        last = date.fromisoformat(self._day)
        last += timedelta(_MARGIN_DAYS + _CALENDAR_DAYS * options.days)
        self._session = self._tools.begin_session(
            self._account, moment, last.isoformat(), options.stocks
        )
        self._rounds = [tuple(self._tools.calls)]  #: calls made so far, by step
        self._tools.calls.clear()
        self._is_over = False
        self._refused = 0
        scales = [_scale_of(name, self._closes[name]) for name in options.stocks]
        self._scales = np.array(scales)
        self._rewards = Rewards(self._reward, np.array([float(np.mean(self._scales))]))
        self._take(shown)
        self._quantities = dict.fromkeys(options.stocks, 0)

    def _history(self) -> dict[str, FloatArray]:
        """Return the last closes of each stock, adjusted to today, [lookback + 1] up to and
        including today.

        Raises DataError if too few closes are known.
        """
        options = self.options
        reach = _MARGIN_DAYS + _CALENDAR_DAYS * options.lookback
        needed = options.lookback + 1
        closes: dict[str, list[float]] = {}
        for days in (reach, _HALTS * reach):
            first = date.fromisoformat(self._day) - timedelta(days)
            closes = self._tools.closes(options.stocks, first.isoformat(), self._day)
            if min(map(len, closes.values())) >= needed:
                return {name: np.array(known[-needed:]) for name, known in closes.items()}

        name, known = min(closes.items(), key=lambda item: len(item[1]))
        raise DataError(
            f"{name}: {len(known)} closes are known on {self._day}, and {options.lookback} returns"
            " need one more; choose a shorter lookback, a later as_of or another stock"
        )

    def _take(self, account: ShownAnswer) -> None:
        self._equity = account.equity
        self._cash = account.cash

    # ---- Gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, Info]:
        """Start a new workspace. Nothing is random, so `seed` has no effect."""
        super().reset(seed=seed, options=options)
        self._begin()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Vector, float, bool, bool, Info]:
        """Send orders and advance to the next close. Raises UsageError if the action is not in the
        action space, or if the episode is over.
        """
        weights = weights_in(action, len(self.options.stocks))
        if self._is_over:
            raise UsageError("the episode is over; call reset()")

        before = self._equity
        self._send(weights)
        self._day, is_running, account, traded = self._tools.step(self._session)
        self._take(account)
        self._closes = self._history()
        held = self._tools.quantities(self._account)
        self._quantities = {name: held.get(name, 0) for name in self.options.stocks}
        self._rounds.append(tuple(self._tools.calls))
        self._tools.calls.clear()

        ratios = [closes[-1] / closes[-2] for closes in self._closes.values()]
        reward = self._rewards.of_one(
            round(before * _CENTS),
            round(self._equity * _CENTS),
            round(traded * _CENTS),
            math.log(math.fsum(ratios) / len(ratios)),
        )
        is_ruined = self._equity <= 0
        is_last = len(self._rounds) > self.options.days or not is_running
        self._is_over = is_last or is_ruined
        if self._is_over:
            self._write(self._rounds)

        return self._observation(), reward, is_ruined, is_last, self._info()

    def _send(self, weights: Sequence[float]) -> None:
        """Send the orders that reach target weights: sells first, in whole shares."""
        held: list[float | None] = []
        for name in self.options.stocks:
            value = self._value_of(name)
            held.append(value / self._equity if value else None)

        self._refused = 0
        for move in moves(held, scaled_down(weights)):
            name = self.options.stocks[move.slot]
            close = float(self._closes[name][-1])
            target = math.floor(move.weight * self._equity / close)
            shares = target - self._quantities[name]
            if shares and not self._tools.order(self._session, self._account, name, shares):
                self._refused += 1

    def _value_of(self, name: str) -> float:
        """Return the value of the shares held in a stock, in dollars."""
        return self._quantities[name] * float(self._closes[name][-1])

    def _observation(self) -> Vector:
        parts: list[float] = []
        for name, scale in zip(self.options.stocks, self._scales.tolist(), strict=True):
            returns = np.diff(np.log(self._closes[name])) / scale
            parts.extend(returns.tolist())

        equity = self._equity if self._equity > 0 else 1.0
        for name in self.options.stocks:
            parts.append(self._value_of(name) / equity)
        parts.append(self._cash / equity)
        return np.clip(parts, -LIMIT, LIMIT).astype(np.float32)

    def _info(self) -> Info:
        return {
            "day": self._day,
            "equity": self._equity,
            "held": dict(self._quantities),
            "refused": self._refused,
        }

    def render(self) -> str | None:
        """Return one line of text on the current close, or None without a render mode."""
        if self.render_mode is None:
            return None
        held = ", ".join(f"{number} {name}" for name, number in self._quantities.items())
        return f"{self._day}  equity {self._equity:,.2f}  cash {self._cash:,.2f}  {held}"


def _scale_of(name: str, closes: FloatArray) -> float:
    """Return the standard deviation of log returns. Raises DataError if the price does not move."""
    scale = float(np.std(np.diff(np.log(closes))))
    if scale == 0.0:
        raise DataError(f"{name}: the price does not move before the session; choose another stock")
    return scale
