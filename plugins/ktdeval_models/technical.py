"""Technical-analysis rules, and models that decide by one of these rules.

The rules are pure functions of bars; later bars never change an earlier signal. The models apply a
rule to the bars that a task shows, separately for each asset.

A rule takes `AssetBars` of T bars and its parameters (`technical.yaml`). Differences below a
billionth of the close are treated as zero, since shown prices are rounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.keyless import NO_ACCOUNT, Certain, Conversation, Intent, equal_first, standing
from ktdeval.market import DayArray, FloatArray, sessions
from ktdeval.masking import render_json
from ktdeval.observation import ObservedBar, ObservedState
from ktdeval_models.params import CalendarParams, rules

BoolArray = npt.NDArray[np.bool_]
IntArray = npt.NDArray[np.int64]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class AssetBars:
    """[T] prices of one asset, oldest first, all finite. In a market that has only closes, highs
    and lows equal the closes.
    """

    close: FloatArray
    high: FloatArray
    low: FloatArray


class RuleSignals(NamedTuple):
    """Signals of a rule after each of T bars."""

    sides: IntArray  #: [T] +1 buy, -1 sell, 0 neither
    #: name -> [T] figures that determine the signals, NaN until there are enough bars
    figures: Mapping[str, FloatArray]


def windows(values: FloatArray, days: int) -> FloatArray:
    """Return for each value the last `days` values up to and including it, [T, days]; NaN before
    the first value.
    """
    return np.lib.stride_tricks.sliding_window_view(
        np.concatenate([np.full(days - 1, np.nan), values]), days
    )


def smooth_values(values: FloatArray, days: int, weight: float) -> FloatArray:
    """Return [T]: s = s + weight (x - s), starting from the simple mean of the first `days` finite
    values; NaN before that. `values` may have NaN only at the start. A weight of 2 / (days + 1)
    gives the exponential moving average, and 1 / days gives Wilder's average.
    """
    averages = np.full(len(values), np.nan)
    first = int(np.isnan(values).sum()) + days - 1
    if first < len(values):
        start = float(values[first + 1 - days : first + 1].mean())
        later = values[first + 1 :].tolist()
        averages[first:] = [
            *accumulate(later, lambda last, new: last + weight * (new - last), initial=start)
        ]

    return averages


def stochastic(bars: AssetBars, days: int) -> FloatArray:
    """Return [T]: the position of the close between the lowest low (0) and the highest high (100)
    over `days`; 50 if low and high are equal.
    """
    high = windows(bars.high, days).max(axis=1)
    low = windows(bars.low, days).min(axis=1)
    return 50.0 + _share_of_whole(bars.close - (high + low) / 2.0, high - low, bars.close) * 100.0


def rsi(close: FloatArray, days: int) -> FloatArray:
    """Return Wilder's relative strength index, [T]; 50 if all closes are equal."""
    moves = np.diff(close, prepend=np.nan)
    gain = smooth_values(np.maximum(moves, 0.0), days, 1.0 / days)
    loss = smooth_values(np.maximum(-moves, 0.0), days, 1.0 / days)
    return 50.0 + _share_of_whole((gain - loss) / 2.0, gain + loss, close) * 100.0


def swings(values: FloatArray, distance: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return [T] sides of a stop-and-reverse path, and the highest and lowest value since its last
    turn ([T] each, NaN where `distance` is NaN). The path turns up when a value is more than the
    distance above the lowest value, and down when it is more than the distance below the highest.
    """
    sides = np.zeros(len(values), np.int64)
    extremes = np.full((2, len(values)), np.nan)
    side = 0
    high = -np.inf
    low = np.inf

    for row in np.flatnonzero(np.isfinite(distance)).tolist():
        value = values[row]
        far = distance[row]
        high = max(high, value)
        low = min(low, value)

        if side <= 0 and value - low > far:
            side = 1
            high = value
        elif side >= 0 and high - value > far:
            side = -1
            low = value

        sides[row] = side
        extremes[:, row] = high, low

    return sides, extremes[0], extremes[1]


def macd(bars: AssetBars, fast: int, slow: int, signal: int) -> RuleSignals:
    """Return signals from moving average convergence divergence (MACD) against its signal line."""
    line = smooth_values(bars.close, fast, 2 / (fast + 1)) - smooth_values(
        bars.close, slow, 2 / (slow + 1)
    )
    average = smooth_values(line, signal, 2 / (signal + 1))
    return RuleSignals(_sign(line - average, bars.close), {"macd": line, "signal": average})


def kdj_rsi(
    bars: AssetBars, days: int, smooth: int, rsi_days: int, overbought: float, oversold: float
) -> RuleSignals:
    """Return signals from a stochastic oscillator. An RSI blocks buys when overbought and sells
    when oversold.
    """
    raw = stochastic(bars, days)
    strength = rsi(bars.close, rsi_days)
    k, d = np.full((2, len(raw)), np.nan)
    finite = np.isfinite(raw)
    k[finite] = smooth_values(np.append(50.0, raw[finite]), 1, 1 / smooth)[1:]
    d[finite] = smooth_values(np.append(50.0, k[finite]), 1, 1 / smooth)[1:]
    buy = (k - d > _ROUNDING) & (strength <= overbought)
    sell = (d - k > _ROUNDING) & (strength >= oversold)

    return RuleSignals(_sides(buy, sell), {"k": k, "d": d, "j": 3.0 * k - 2.0 * d, "rsi": strength})


def bollinger(
    bars: AssetBars, days: int, sigmas: float, levels: Mapping[str, float]
) -> RuleSignals:
    """Return signals when the close is beyond a Bollinger band and a slow stochastic oscillator is
    beyond its threshold.
    """
    closes = windows(bars.close, days)
    middle = closes.mean(axis=1)
    reach = sigmas * closes.std(axis=1)
    slow = windows(stochastic(bars, int(levels["days"])), int(levels["smooth"])).mean(axis=1)
    under = _sign(bars.close - middle + reach, bars.close)
    over = _sign(bars.close - middle - reach, bars.close)
    sides = _sides(
        (under < 0) & (slow < levels["oversold"]), (over > 0) & (slow > levels["overbought"])
    )

    return RuleSignals(
        sides, {"lower": middle - reach, "upper": middle + reach, "stochastic": slow}
    )


def sma_cross(bars: AssetBars, fast: int, slow: int) -> RuleSignals:
    """Return signals from the cross of two simple moving averages."""
    short = windows(bars.close, fast).mean(axis=1)
    long = windows(bars.close, slow).mean(axis=1)
    return RuleSignals(_sign(short - long, bars.close), {f"sma_{fast}": short, f"sma_{slow}": long})


def mean_reversion(bars: AssetBars, days: int, entry: float) -> RuleSignals:
    """Return signals from the z-score of the close relative to its mean; the z-score is 0 if all
    closes are equal.
    """
    closes = windows(bars.close, days)
    z = _share_of_whole(bars.close - closes.mean(axis=1), closes.std(axis=1), bars.close)
    return RuleSignals(_sides(z <= -entry, z >= entry), {"z": z})


def atr(bars: AssetBars, days: int, multiple: float) -> RuleSignals:
    """Return signals from Wilder's stop and reverse on closes. The distance is based on the
    previous bar's average true range.
    """
    before = np.append(np.nan, bars.close[:-1])
    true_range = np.maximum(bars.high, before) - np.minimum(bars.low, before)
    far = multiple * np.append(np.nan, smooth_values(true_range, days, 1 / days)[:-1])
    sides, high, low = swings(bars.close, far)

    return RuleSignals(sides, {"highest": high, "lowest": low, "distance": far})


def zigzag(bars: AssetBars, reversal_pct: float) -> RuleSignals:
    """Return signals from zigzag turns of the close, once a percentage reversal has confirmed them.
    The same factor applies in both directions.
    """
    sides, high, low = swings(
        np.log(bars.close), np.full(len(bars.close), np.log1p(reversal_pct / 100.0))
    )
    return RuleSignals(sides, {"highest": np.exp(high), "lowest": np.exp(low)})


def turn_of_month(days: DayArray, calendar: str, before: int, after: int) -> RuleSignals:
    """Return +1 from the close of the `before`-th last session of a month until the close of
    session `after` of the next month, when holdings are sold. Raises DataError if the calendar does
    not cover the days.
    """
    listed = [_month(day, calendar) for day in days.astype("M8[M]")]
    counts = []
    for month, day in zip(listed, days, strict=True):
        counts.append(np.searchsorted(month, day, side="right"))

    passed = np.array(counts, np.float64)
    left = np.array([len(month) for month in listed]) - passed

    return RuleSignals(
        _sides((left < before) | (passed < after), passed < 0),
        {"session": passed, "sessions_left": left},
    )


@cache
def _month(month: np.datetime64, calendar: str) -> DayArray:
    first = month.astype("M8[D]")
    next_first = (month + np.timedelta64(1, "M")).astype("M8[D]")
    last = next_first - np.timedelta64(1, "D")
    return sessions(first, last, calendar)


def _share_of_whole(part: FloatArray, whole: FloatArray, level: FloatArray) -> FloatArray:
    """Return `part / whole`; 0 if the whole is negligible relative to the price level."""
    return np.where(whole <= _ROUNDING * level, 0.0, part / np.where(whole == 0.0, 1.0, whole))


def _sign(difference: FloatArray, level: FloatArray) -> IntArray:
    return _sides(difference > _ROUNDING * level, difference < -_ROUNDING * level)


def _sides(buy: BoolArray, sell: BoolArray) -> IntArray:
    return buy.astype(np.int64) - sell.astype(np.int64)


RULES: Mapping[str, Callable[..., RuleSignals]] = {
    rule.__name__: rule
    for rule in (macd, kdj_rsi, bollinger, sma_cross, mean_reversion, atr, zigzag, turn_of_month)
}


# ---- models

_DECISIONS: Mapping[int, Literal["BUY", "SELL", "HOLD"]] = {1: "BUY", -1: "SELL", 0: "HOLD"}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class RuleModel:
    """Submits the rule's BUY, SELL or HOLD for each asset after the last bar shown. If there are
    too few bars, it submits HOLD with that reason.

    Raises ProviderError if the task does not ask for such decisions, shows no `history`, or hides
    days that the rule needs. Raises ModelError if the conversation shows no account.
    """

    def __init__(self, name: str, params: CalendarParams | None = None) -> None:
        self.name = name
        self._calendar = None if params is None else params.calendar
        self._numbers = rules()[name]["numbers"]
        if self._calendar is not None:
            # an unknown calendar is an error in the command line
            sessions("2020-01-01", "2020-01-31", self._calendar)

    @property
    def traits(self) -> ModelTraits:
        """Traits of a model that calls no provider. They include checks whether it can decide on a
        task.
        """
        return ModelTraits(
            is_free=True,
            request_problem=self._request_problem,
            step_problem=self._step_problem,
        )

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        if conversation.choices:
            return conversation.choose_all()
        if not conversation.is_submission:
            return Reply("Research done.")
        if not conversation.is_readable:
            raise ModelError(
                "bad_request",
                f"builtin/{self.name}: the conversation shows no account to decide on",
            )
        if problem := self._problem(conversation):
            raise ProviderError(problem)

        intents = self._decisions(conversation)
        orders = [intent.order(conversation) for intent in intents]
        return conversation.submit(orders, conversation.reason(f"Decided by the rule {self.name}."))

    def _decisions(self, conversation: Conversation) -> list[Intent]:
        """Return a decision for each asset, ordered by figures, since earlier decisions trade
        first. Of assets with equal figures, either all open positions or none does. Their orders
        come first, and use only cash that is certain to be available.
        """
        state = conversation.observed
        certain = Certain(conversation)
        rows = [asset.cells for asset in state.candidates.values()]
        groups = []

        for group in standing(rows):
            decided = [self._intent(state, row["stock_id"]) for row in group]
            groups.append(self._affordable(decided, state, certain))

        return equal_first(groups)

    def _intent(self, state: ObservedState, label: str) -> Intent:
        bars = state.history.get(label, ())
        side, reason = self.decide(bars, state.candidates[label].kind)
        return Intent(label, _DECISIONS[side], side, 0.5, reason)

    def _affordable(
        self, decided: Sequence[Intent], state: ObservedState, certain: Certain
    ) -> Sequence[Intent]:
        """Return the decisions for assets with equal figures. If the cash does not suffice for all
        of them, decisions that would open a position become HOLD.
        """
        opened = set[str]()
        for intent in decided:
            if intent.target_weight and intent.stock_id not in state.positions:
                opened.add(intent.stock_id)

        weight = state.limits.max_weight
        if weight is None:
            weight = 1.0
        if len(opened) < 2 or certain.takes(weight * len(opened), len(opened)):
            return decided

        reason = f"{self.name}: HOLD, the cash is not enough for all names with these figures"
        held_back = []
        for intent in decided:
            if intent.stock_id in opened:
                held_back.append(replace(intent, side="HOLD", target_weight=0, reason=reason))
            else:
                held_back.append(intent)

        return held_back

    def _request_problem(self, request: ModelRequest) -> str | None:
        """Return what this rule needs but a task's submission lacks; None if the rule can decide."""
        return self._problem(Conversation(request))

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return why the model can't answer a step (the step asks for no submission); None if it
        can.
        """
        if any(Conversation(request).is_submission for request in requests):
            return None
        return NO_ACCOUNT

    def _problem(self, conversation: Conversation) -> str | None:
        state = conversation.observed
        if not conversation.is_submission or not conversation.is_readable:
            return None

        if not state.limits.asks_decisions:
            problem = (
                "decides BUY, SELL or HOLD, and the task asks for orders; set its answers: stances"
            )
        elif "history" not in state.sections:
            problem = (
                "needs bars, and the task shows none; set its history, or take one of"
                " investorbench_history"
            )
        elif self.name == "turn_of_month" and not _DAY.fullmatch(state.day):
            problem = (
                "needs days, and the task's mask hides them; take one that shows them:"
                " investorbench_msft_history_bright"
            )
        else:
            return None

        return f"builtin/{self.name} {problem}"

    def decide(self, bars: Sequence[ObservedBar], kind: str) -> tuple[int, str]:
        """Return the side (+1, -1, 0) and the reason for one asset of the given kind (`stock`,
        `crypto`). `bars` are the asset's bars, oldest first.
        """
        too_few = f"{self.name}: HOLD, {len(bars)} bars are too few"
        if not bars:
            return 0, too_few

        sides, figures = self._signals(bars, kind)
        last = {name: float(values[-1]) for name, values in figures.items()}
        if not np.isfinite([*last.values()]).all():
            return 0, too_few

        side = int(sides[-1])
        listed = ", ".join(f"{name} {render_json(value)}" for name, value in last.items())
        return side, f"{self.name}: {_DECISIONS[side]}, {listed}"

    def _signals(self, bars: Sequence[ObservedBar], kind: str) -> RuleSignals:
        rule = RULES[self.name]
        if self.name == "turn_of_month":
            calendar = self._calendar or ("24/7" if kind == "crypto" else "XNYS")
            days = np.array([bar.day for bar in bars], dtype="datetime64[D]")
            return rule(days, calendar, **self._numbers)

        # A price that is not shown (None) becomes NaN here, and is then replaced by the close.
        rows = [(bar.close, bar.high, bar.low) for bar in bars]
        prices = np.array(rows, np.float64).T
        whole = np.where(np.isnan(prices), prices[0], prices)
        return rule(AssetBars(*whole), **self._numbers)
