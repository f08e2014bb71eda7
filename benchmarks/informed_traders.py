"""Traders that hold the whole history of the market and try to find out which day and which stocks a
mask shows them: what that is worth, by task.

    python benchmarks/informed_traders.py [--data FOLDER] [--tasks …] [--windows …] [--seeds 1]
    python benchmarks/informed_traders.py --rows [--data FOLDER] [--windows …]

A trader chooses its account, so that fills, values and rejections answer for prices; it reads every
figure that it is shown and compares it with the same figure of each day and stock. Once it knows the
day, it buys what will rise most among the stocks that it knows. `--policies`: how it trades until
then; `windows` reads no figure and knows only that an episode is one of the task's public windows.
Returns are means over windows and seeds, in per cent, with 95 % intervals (Student's t).

`--rows`: how many rows of a rebased table of candidates name their stock and day by returns alone.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy import stats

from ktdeval.attribution import filled_forward
from ktdeval.attribution.style_factor_panel import FACTOR_NAMES, factor_panel
from ktdeval.harness import ModelTraits
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.masking.aliases_and_noise import round_each
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.trading.market_tape import MarketTape
from ktdeval_builtin.react import ReactAgent
from ktdeval_deanon.certificate.public_history import PublicHistory

PLUGINS = load_plugins()
Policy = Literal["one", "ten", "alternating", "cash", "windows"]
#: Policies that go by what they are shown alone
POLICIES: tuple[Policy, ...] = ("one", "ten", "alternating", "cash")
TASKS = ("blinded_memory_only", "date_blind_memory_only", "blinded_memory_only_paper")
INITIAL_MINOR = 100_000_000  #: cash that each of these tasks begins with, in fen
HORIZON = 5  #: trading days that it looks ahead
NAMES = 10  #: that it holds
WEIGHT = 0.09
TRIED_WEIGHT = 0.01  #: of a label that it does not know yet
MIN_RISE = 0.01  #: that pays for a purchase
PATIENCE = 12  #: steps after which one that has learnt nothing holds the first names listed
CERTAIN = 12.0  #: log likelihood by which a day, or a stock, is ahead of all others
WORST = 12.5  #: most log likelihood that one odd figure can take
PERCENT = ("MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W")  # shown in per cent
ASKED = (*FACTOR_NAMES, "return_1d_pct", "return_5d_pct", "return_20d_pct", "amount_20d_cny")


class KnownHistory:
    """A market's whole history, as figures that a task shows."""

    def __init__(self, market: MarketSnapshot) -> None:
        self.market = market
        self._public = PublicHistory(market)

    @cached_property
    def _factors(self) -> Mapping[str, np.ndarray]:
        panel = factor_panel(self.market, range(len(self.market.days)))
        scale = {name: 100.0 if name in PERCENT else 1.0 for name in FACTOR_NAMES}
        return {name: panel[k] * scale[name] for k, name in enumerate(FACTOR_NAMES)}

    def figure(self, name: str) -> np.ndarray | None:
        """[T, N] values of a column of a table; None for one that is not known."""
        if name in FACTOR_NAMES:
            return self._factors[name]
        if name == "amount_cny":
            return self.market.amount
        if name.startswith(("return_", "drawdown_", "amount_")):
            return self._public.figure(name)
        return None

    @cached_property
    def index_returns_pct(self) -> np.ndarray:
        """[T, 1] daily returns of the benchmark in per cent."""
        levels = self.market.benchmark
        returns = np.full((len(levels), 1), np.nan)
        returns[1:, 0] = 100.0 * (levels[1:] / levels[:-1] - 1.0)
        return returns

    @cached_property
    def growth_ahead(self) -> np.ndarray:
        """[T, N] growth from the next open over the horizon, of a decision at a day's close."""
        opens = np.where(np.isfinite(self.market.open), self.market.open, np.nan)
        adjusted = opens * self.market.factor
        growth = np.full(opens.shape, np.nan)
        last = len(opens) - 1 - HORIZON
        growth[:last] = adjusted[1 + HORIZON :] / adjusted[1 : last + 1]
        return growth


class InformedTrader:
    """A model of rules that looks up what it is shown. One episode long."""

    traits = ModelTraits(is_free=True)

    def __init__(
        self,
        history: KnownHistory,
        policy: Policy = "one",
        digits: int | None = None,
        starts: Sequence[int] = (),
    ) -> None:
        self._history = history
        self._policy = policy
        self._digits = digits  #: of the mask, which a card shows
        self._starts = starts  #: rows of day_+0 of the windows that an episode may be of
        self._step = -1
        self._score = np.zeros(len(history.market.days))  # log likelihood of each first day
        self._of_label: dict[str, np.ndarray] = {}  # label -> [T, N], or [N] once the day is known
        self._tried = 0
        self.base: int | None = None  #: row of day_+0, once it is known
        self.known_at: int | None = None  #: the step at which the day was known
        self.figures_read = 0

    # ---- the day's decision

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request: look up all that tools show, then submit."""
        conversation = Conversation(request)
        if not conversation.is_submission:
            return self._research(conversation)

        self._step += 1
        if self._policy != "windows":
            self._learn(conversation)

        ahead = self._growth_ahead()
        orders = self._probe(conversation) if ahead is None else self._exploit(conversation, ahead)
        return conversation.submit(orders, conversation.reason("what comes back tells a price"))

    def _growth_ahead(self) -> np.ndarray | None:
        """[N] growth of each stock over the next days, NaN of one that can't be bought; None where
        the day is not known. `windows`: its mean over the days that it may be.
        """
        history = self._history
        starts = self._starts if self._policy == "windows" else [self.base]
        rows = [start + self._step for start in starts if start is not None]
        if not rows:
            return None

        ahead = np.where(history.market.member[rows], history.growth_ahead[rows], np.nan)
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            mean: np.ndarray = np.nanmean(ahead, axis=0)
        return mean

    def _research(self, conversation: Conversation) -> Reply:
        offered = conversation.offered
        if conversation.turns == 0 and "screen_candidates" in offered:
            asked = {"factors": ["amount_20d_cny", "return_5d_pct"], "k": 30}
            return conversation.call([("screen_candidates", asked)])
        if conversation.turns == 1 and "compare_candidates" in offered:
            labels = [row["stock_id"] for row in self._screened(conversation)]
            labels = list(dict.fromkeys([*labels, *conversation.observed.positions]))
            asked = {"stock_ids": labels, "dims": list(ASKED)}
            return conversation.call([("compare_candidates", asked)])
        return Reply("Research done.")

    @staticmethod
    def _screened(conversation: Conversation) -> Sequence[Mapping[str, Any]]:
        return conversation.result_rows("screen_candidates", "candidates")

    # ---- what figures tell

    def _learn(self, conversation: Conversation) -> None:
        state = conversation.state
        performance = state.get("performance") or {}
        self._compare_index(performance.get("benchmark_return_1d_pct"))

        market = self._history.market
        if self._digits is None:
            for row in conversation.rows(state["positions"]):
                self._compare(row["stock_id"], market.close, row.get("last_close_cny"), 0.003)
            last = state.get("last_step") or {}
            for row in conversation.rows(last.get("orders")):
                if row["stock_id"] is not None and row.get("filled_shares"):
                    self._compare(row["stock_id"], market.open, row["fill_price_cny"], 0.003)

        tables = [state.get("candidates"), state.get("holdings")]
        rows = [row for table in tables for row in conversation.rows(table)]
        rows += conversation.result_rows("compare_candidates", "grid")
        for row in rows:
            for name, shown in row.items():
                values = self._history.figure(name)
                if values is not None and shown is not None:
                    self._compare_figure(row["stock_id"], name, values, float(shown))

        if self.base is None:
            self._settle_on_a_day()

    def _compare_figure(self, label: str, name: str, values: np.ndarray, shown: float) -> None:
        """Compare a column of a table, to the digits that it has, or that its inputs have."""
        if name.startswith("amount_"):
            spread = 0.006 if self._digits else 0.0001
            self._compare(label, values, shown, spread * abs(shown))
        elif self._digits:
            self._compare(label, values, shown, 0.4 + 0.03 * abs(shown))
        else:
            self._compare(label, values, shown, 1e-5 + 1e-4 * abs(shown))

    def _compare(self, label: str, values: np.ndarray, shown: float | None, spread: float) -> None:
        """Weigh the days and stocks whose figure a label may show."""
        if shown is None:
            return

        self.figures_read += 1
        if self.base is not None:
            fit = _log_likelihood(values[self.base + self._step], shown, spread)
        else:
            fit = np.full(values.shape, -WORST)
            rows = len(values) - self._step
            fit[:rows] = _log_likelihood(values[self._step :], shown, spread)

        self._of_label[label] = self._of_label.get(label, self._prior(label)) + fit

    def _prior(self, label: str) -> np.ndarray:
        """A label that is a code is that stock."""
        shape = self._history.market.close.shape
        prior = np.zeros(shape if self.base is None else shape[1])
        asset = self._history.market.asset_index.get(label)
        if asset is not None:
            prior -= 1e6
            prior[..., asset] = 0.0
        return prior

    def _compare_index(self, shown: float | None) -> None:
        if shown is None or self.base is not None:
            return

        self.figures_read += 1
        spread = 0.003 * abs(shown) if self._digits else 4e-4
        returns = self._history.index_returns_pct[self._step :, 0]
        fit = np.full(len(self._score), -WORST)
        fit[: len(returns)] = _log_likelihood(returns, shown, max(spread, 4e-4))
        self._score += fit

    def _settle_on_a_day(self) -> None:
        score = self._score.copy()
        for fit in self._of_label.values():
            score += fit.max(axis=1)

        best = int(score.argmax())
        ahead = score[best] - np.delete(score, best).max()
        if ahead < CERTAIN:
            return

        self.base = best
        self.known_at = self._step
        self._of_label = {label: fit[best] for label, fit in self._of_label.items()}

    @property
    def labels(self) -> Sequence[str]:
        """Labels whose figures it has read."""
        return list(self._of_label)

    def asset_of(self, label: str) -> int | None:
        """Column of the stock that a label is known to stand for."""
        fit = self._of_label.get(label)
        if fit is None:
            return self._history.market.asset_index.get(label)
        if fit.ndim == 2:
            return None

        best = int(fit.argmax())
        ahead = fit[best] - np.delete(fit, best).max()
        return best if ahead > CERTAIN / 2 else None

    # ---- orders

    def _exploit(self, conversation: Conversation, ahead: np.ndarray) -> list[Any]:
        """Hold what will rise most, among the labels that are known; try others."""
        listed = self._listed(conversation)
        held = list(conversation.observed.positions)
        rises: dict[str, float] = {}
        for label in dict.fromkeys([*listed, *held]):
            asset = self.asset_of(label)
            growth = np.nan if asset is None else ahead[asset]
            if self._policy == "windows" and asset is None:
                growth = np.nanmean(ahead)  # a handle is any stock
            if np.isfinite(growth):
                rises[label] = float(growth) - 1.0

        rising = [label for label in rises if rises[label] > MIN_RISE]
        rising.sort(key=lambda label: -rises[label])
        kept = [label for label in rising if label in held and rises[label] > rises[rising[0]] / 2]
        kept = kept[:NAMES]
        orders = [
            self._order(conversation, label, "SELL", 0.0) for label in held if label not in kept
        ]
        fresh = [label for label in rising if label not in held][: NAMES - len(kept)]
        orders += [self._order(conversation, label, "BUY", WEIGHT) for label in fresh]
        unknown = [label for label in listed if label not in rises and label not in held]
        room = NAMES - 1 if "universe" in conversation.state else 0
        orders += [
            self._order(conversation, label, "BUY", TRIED_WEIGHT)
            for label in self._next(unknown, room)
        ]
        return orders

    def _probe(self, conversation: Conversation) -> list[Any]:
        """Trade to be told something; hold the first names listed where nothing is told."""
        held = list(conversation.observed.positions)
        listed = [label for label in self._listed(conversation) if label not in held]
        if self._policy == "cash":
            return []

        if self._step >= PATIENCE and not self.figures_read:
            if self._step > PATIENCE:
                return []
            kept = held[:NAMES]
            sales = [self._order(conversation, label, "SELL", 0.0) for label in held[NAMES:]]
            fresh = listed[: NAMES - len(kept)]
            return sales + [self._order(conversation, label, "BUY", WEIGHT) for label in fresh]

        if held:
            if self._policy == "ten" and self._step % 3:
                return []
            return [self._order(conversation, label, "SELL", 0.0) for label in held]

        count = 1 if self._policy == "one" else NAMES
        orders = []
        for number, label in enumerate(self._next(listed, count)):
            weight = WEIGHT if self._policy != "ten" else 0.04 + 0.005 * number
            orders.append(self._order(conversation, label, "BUY", weight))
        return orders

    def _next(self, labels: Sequence[str], count: int) -> list[str]:
        """The next labels in turn."""
        if not labels or not count:
            return []
        first = self._tried
        self._tried += count
        return [labels[(first + k) % len(labels)] for k in range(min(count, len(labels)))]

    @staticmethod
    def _listed(conversation: Conversation) -> list[str]:
        state = conversation.observed
        compared = conversation.result_rows("compare_candidates", "grid")
        return [*state.universe, *state.candidates, *(row["stock_id"] for row in compared)]

    @staticmethod
    def _order(conversation: Conversation, label: str, side: str, weight: float) -> dict[str, Any]:
        return {
            "stock_id": label,
            "side": side,
            "target_weight": weight,
            "confidence": 0.5,
            "reason": conversation.reason("what comes back tells a price"),
        }


def _log_likelihood(values: np.ndarray, shown: float, spread: float) -> np.ndarray:
    distance = np.nan_to_num((values - shown) / spread, nan=1e3, posinf=1e3, neginf=-1e3)
    return np.maximum(-0.5 * distance**2, -WORST)


class RowsByReturns:
    """A model that holds cash and looks each candidate up by its returns over 1, 5 and 20 days, each
    fourth day: in exact returns, and in those of prices with the digits of the mask.
    """

    traits = ModelTraits(is_free=True)
    days = (1, 5, 20)

    def __init__(self, history: KnownHistory, digits: int) -> None:
        self._history = history
        self._digits = digits
        self._step = -1
        self.rows = 0
        self.by_exact = 0  #: rows that agree with one stock and day
        self.by_rounded = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        self._step += 1
        if self._step % 4 == 0:
            exact = {days: self._history.figure(f"return_{days}d_pct") for days in self.days}
            rounded = {days: self._rounded(days) for days in self.days}
            for row in conversation.rows(conversation.state["candidates"]):
                self.rows += 1
                self.by_exact += self._agreeing(row, exact) == 1
                self.by_rounded += self._agreeing(row, rounded) == 1

        return conversation.submit([], conversation.reason("it only looks"))

    def _rounded(self, days: int) -> np.ndarray:
        """[T, N] returns of a day, as a mask shows them in an episode that began `step` days before:
        each asset's close of that day is 100.
        """
        market = self._history.market
        closes = filled_forward(market.close)
        rows = np.arange(len(closes))
        scale = 100.0 / closes[np.maximum(rows - self._step, 0)]
        before = np.maximum(rows - days, 0)
        now = round_each(closes * scale, self._digits) * market.factor
        then = round_each(closes[before] * scale, self._digits) * market.factor[before]
        returns: np.ndarray = (now / then - 1.0) * 100.0
        returns[: max(days, self._step)] = np.nan
        return returns

    def _agreeing(self, row: Mapping[str, Any], returns: Mapping[int, Any]) -> int:
        agrees = np.ones(self._history.market.close.shape, dtype=bool)
        for days, values in returns.items():
            shown = row[f"return_{days}d_pct"]
            if shown is not None:
                unit = 10.0 ** (math.floor(math.log10(abs(shown) or 1e-3)) - self._digits + 1)
                agrees &= np.abs(values - shown) <= 0.56 * unit + 1e-5
        return int(agrees.sum())


# ---- episodes


def opened(
    market: MarketSnapshot, name: str, model: Model, window: str, seed: int
) -> TradingEpisodeRun:
    """An episode of a task at its beginning."""
    task = PLUGINS.make_task(name)
    spec = EpisodeSpec(
        task=task.name,
        task_version=task.version,
        task_hash="0",
        snapshot="0",
        mask=task.mask,
        mode=task.mode,
        window=task.windows[window],
        model="informed",
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
        mask_key=f"{seed:032x}",
    )
    tape = MarketTape.from_snapshot(market, task.trading)
    tools = PLUGINS.tools(task.tools)
    return TradingEpisodeRun(spec, EpisodeParts(task, tools, market, tape, model, ReactAgent()))


def total_return(episode: TradingEpisodeRun) -> float:
    """Play an episode; its return as a fraction."""
    for step in range(episode.total_steps):
        record = episode.run_step(step).step

    return record.nav_minor / INITIAL_MINOR - 1.0


@dataclass
class Result:
    """What one model made of a task, by window and seed."""

    returns: list[float]  #: as fractions
    found_at: list[int] = field(default_factory=list)  #: steps at which it knew the day
    right: int = 0  #: of these, with the true day
    labels: int = 0  #: whose figures it read
    named: int = 0  #: of these, those that it named rightly

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(np.mean(self.returns))

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % interval of the mean."""
        count = len(self.returns)
        half = stats.t.ppf(0.975, count - 1) * np.std(self.returns, ddof=1) / math.sqrt(count)
        return self.mean - float(half), self.mean + float(half)


def attack(
    history: KnownHistory, name: str, policy: Policy, windows: Sequence[str], seeds: int
) -> Result:
    """Trade a task in all windows as a trader that looks up what it is shown."""
    task = PLUGINS.make_task(name)
    market = history.market
    starts = {}
    for window, span in task.windows.items():
        row = int(np.searchsorted(market.days, np.datetime64(span.first)))
        if 0 < row < len(market.days) and window != "long":
            starts[window] = row - 1

    result = Result([])
    for window in windows:
        for seed in range(seeds):
            digits = task._config.round_digits
            trader = InformedTrader(history, policy, digits, list(starts.values()))
            episode = opened(market, name, trader, window, seed)
            result.returns.append(total_return(episode))
            _count(result, trader, episode, starts[window])

    return result


def _count(result: Result, trader: InformedTrader, episode: TradingEpisodeRun, start: int) -> None:
    """Add what a trader found out in an episode."""
    if trader.known_at is not None:
        result.found_at.append(trader.known_at)
        result.right += trader.base == start

    for label in trader.labels:
        result.labels += 1
        asset = trader.asset_of(label)
        result.named += asset is not None and asset == episode.lens.parse_asset(label)


def baseline(
    market: MarketSnapshot, name: str, model: str, windows: Sequence[str], seeds: int
) -> Result:
    """Trade a task in all windows as a built-in model."""
    result = Result([])
    for window in windows:
        for seed in range(seeds):
            made = PLUGINS.make_model(model, {})
            result.returns.append(total_return(opened(market, name, made, window, seed)))

    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="synthetic", help="a snapshot's folder")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--policies", default=",".join((*POLICIES, "windows")))
    parser.add_argument("--windows", default=",".join(f"W{number}" for number in range(1, 11)))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    market = (
        open_snapshot(PLUGINS, "synthetic", {})
        if options.data == "synthetic"
        else load_snapshot(Path(options.data))
    )
    history = KnownHistory(market)
    windows = options.windows.split(",")
    if options.rows:
        print_rows(history, windows)
        return

    columns = ("task", "trader", "episodes", "day found", "latest step", "labels named", "return %")
    print(f"| {' | '.join(columns)} | 95 % interval |")
    print("|---" * (len(columns) + 1) + "|")
    for name in options.tasks.split(","):
        rule = "first_listed" if "memory_only" in name else "momentum"
        plain = baseline(market, name, f"builtin/{rule}", windows, options.seeds)
        print(_line(name, f"builtin/{rule}", plain), flush=True)
        for policy in options.policies.split(","):
            found = attack(history, name, policy, windows, options.seeds)
            print(_line(name, f"informed, {policy}", found), flush=True)


def print_rows(history: KnownHistory, windows: Sequence[str]) -> None:
    """Print how many rows of candidates returns alone name."""
    name = "blinded_rebased_fixed_candidate"
    digits = PLUGINS.make_task(name)._config.round_digits
    print("| window | rows | named by exact returns | by returns of rounded prices |")
    print("|---|---|---|---|")
    for window in windows:
        model = RowsByReturns(history, digits)
        total_return(opened(history.market, name, model, window, 0))
        print(f"| {window} | {model.rows} | {model.by_exact} | {model.by_rounded} |", flush=True)


def _line(name: str, trader: str, result: Result) -> str:
    low, high = (100 * bound for bound in result.interval)
    latest = max(result.found_at, default="")
    return (
        f"| {name} | {trader} | {len(result.returns)} | {result.right} | {latest} |"
        f" {result.named} of {result.labels} | {100 * result.mean:+.2f} |"
        f" {low:+.2f} … {high:+.2f} |"
    )


if __name__ == "__main__":
    main()
