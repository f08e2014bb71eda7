"""Traders that look up the prices which masked tasks show: what that is worth in each family.

    python benchmarks/informed_families.py [--data ../shared/data] [--tasks …] [--out FILE]

A trader holds the whole history of the market. It compares the close of each asset in its prompt, as
shown there, with every close of every asset; where prices are rebased or coarse, it compares the
returns, as a mask rounds them. A day of which all rows agree with some asset is a day that the prompt
may be of. Once only one is left, it knows the day and, by the same figures, the assets. From then on
it holds what earns most until the next fill, under the rules of its task: next open, next close or the
same close; long only or with shorts and their margin; fees. Until then it holds nothing.

Next to it stand `builtin/first_listed` and `builtin/random`, and what no account exceeds under the rules
of the task (`foresight_bound`, mean over episodes). Episodes are calendar months (weeks where
there are hours), or the task's own windows; returns are means over episodes, in per cent, with 95 %
intervals (Student's t). `informed_families.csv` is what it printed last for all tasks; the table of
docs/masks.md comes from that file. Tasks of KTD-Fin are those of `informed_traders.py`.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from family_markets import MARKETS, Market, Run, runs
from foresight_bound import foresight_bound
from informed_returns import student_interval
from played_episodes import PLUGINS, begin_episode, total_return

from ktdeval.attribution import filled_forward
from ktdeval.harness import ModelTraits
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply
from ktdeval.keyless.request_and_reply import Conversation
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.aliases_and_noise import round_each
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.task_api.episode_spec import Window
from ktdeval.trading.market_rules import MarketRules
from ktdeval_markets.task import MarketTask

KEPT = Path(__file__).with_suffix(".csv")
COLUMNS = (
    "family", "task", "market", "trader", "episodes", "mean_pct", "low_pct", "high_pct", "least_pct",
    "most_pct", "at_most_pct", "days_found", "latest_step", "labels", "labels_named",
)  # fmt: skip
BASELINES = ("builtin/first_listed", "builtin/random")
SHOWN_TO = 6e-6  #: a price is shown to six digits: relative difference from the true one, at most
MOST_SHORTS = 8
MARGIN_KEPT = 0.05  #: part of NAV that it leaves in cash next to shorts
SAME_WEIGHT = 0.03  #: difference of weights that is not worth an order
RETURN_DAYS = (1, 5, 20, 60)


# ---- the trader


class PriceHistory:
    """A market's whole history, as figures that a task shows and as what a fill earns."""

    def __init__(self, market: MarketSnapshot) -> None:
        self.market = market

    @cached_property
    def closes(self) -> np.ndarray:
        """[T, N] closes, of a day without one the last."""
        return filled_forward(self.market.close)

    def coarse_returns(self, step: int, digits: int) -> Mapping[int, np.ndarray]:
        """Return [T, N] returns in per cent, by days, as a mask shows them that rounds and rebases,
        in an episode that began `step` days before.
        """
        rows = np.arange(len(self.closes))
        scale = 100.0 / self.closes[np.maximum(rows - step, 0)]
        now = round_each(self.closes * scale, digits) * self.market.factor
        returns = {}
        for days in RETURN_DAYS:
            before = np.maximum(rows - days, 0)
            then = round_each(self.closes[before] * scale, digits) * self.market.factor[before]
            returns[days] = (now / then - 1.0) * 100.0
            returns[days][: max(days, step)] = np.nan

        return returns

    def growth(self, fill: str) -> np.ndarray:
        """Return [T, N] what a unit grows to that is ordered on a day, until the fills of the next
        order; NaN where there are none.
        """
        name = "open" if fill == "next_open" else "close"
        prices = getattr(self.market, name) * self.market.factor
        first, second = self._later(prices)
        return first / prices if fill == "same_close" else second / first

    @staticmethod
    def _later(prices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the next price after each row, and the one after that."""
        first, second = (np.full(prices.shape, np.nan) for _ in range(2))
        next_one, next_two = (np.full(prices.shape[1], np.nan) for _ in range(2))
        for row in reversed(range(len(prices))):
            first[row], second[row] = next_one, next_two
            has_price = np.isfinite(prices[row])
            next_two = np.where(has_price, next_one, next_two)
            next_one = np.where(has_price, prices[row], next_one)

        return first, second


class PriceReader:
    """A model of rules that looks up the prices that it is shown. One episode long."""

    traits = ModelTraits(is_free=True)

    def __init__(self, history: PriceHistory, task: MarketTask, rules: MarketRules) -> None:
        self._history = history
        self._digits = task._config.round_digits
        self._weights = task._config.weights
        self._fees = rules.venues[0].fees
        self._short = rules.venues[0].short
        self._fills = {venue.fill for venue in rules.venues}
        # a position that is left in parts is held for as many days more
        days = 1 + len(task._config.exit or ())
        self._growth = {fill: _over(history.growth(fill), days) for fill in self._fills}
        self._fill_of = [venue.fill for venue in rules.venues]
        self._step = -1
        self._starts = np.ones(len(history.market.days), dtype=bool)  #: that day_+0 may be
        self._of_label: dict[str, np.ndarray] = {}  #: label -> [N] assets that it may be
        self.base: int | None = None  #: row of day_+0, once it is known
        self.known_at: int | None = None  #: the step at which the day was known

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        self._step += 1
        rows = conversation.rows(conversation.state["candidates"])
        self._learn(str(conversation.state["day"]), rows)

        orders: list[dict[str, Any]] = []
        if self.base is not None:
            wanted = self._wanted(conversation, rows)
            orders = self._orders(conversation, wanted)

        return conversation.submit(orders, conversation.reason("its price is known from elsewhere"))

    # ---- what figures tell

    def _learn(self, day: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Leave out days of which a row of the table agrees with no asset."""
        if self.base is None and not day.startswith("day_"):
            self._know(int(np.searchsorted(self._history.market.days, np.datetime64(day))))

        coarse = {}
        if self._digits is not None:
            coarse = self._history.coarse_returns(self._step, self._digits)
        fits = {row["stock_id"]: self._fit(row, coarse) for row in rows}
        fits = {label: fit for label, fit in fits.items() if fit is not None}
        if self.base is None and fits:
            agree = np.mean([fit.any(axis=1) for fit in fits.values()], axis=0) > 0.9
            last = len(agree) - self._step
            self._starts[:last] &= agree[self._step :]
            self._starts[last:] = False
            if self._starts.sum() == 1:
                self._know(int(self._starts.argmax()))

        if self.base is None:
            return

        for label, fit in fits.items():
            agreeing = fit[self.base + self._step]
            self._of_label[label] = self._of_label.get(label, agreeing | True) & agreeing

    def _know(self, base: int) -> None:
        self.base = base
        self.known_at = self._step

    def _fit(self, row: Mapping[str, Any], coarse: Mapping[int, np.ndarray]) -> np.ndarray | None:
        """Return [T, N] whether a row may be of a day and asset; None if it shows nothing."""
        market = self._history.market
        asset = market.asset_index.get(row["stock_id"])
        fit = np.ones(market.close.shape, dtype=bool)
        if asset is not None:  # a code
            fit[:] = False
            fit[:, asset] = True

        if self._digits is None:
            if row.get("close") is None:
                return None
            shown = float(row["close"])
            return fit & (np.abs(market.close - shown) <= SHOWN_TO * shown)

        for days, values in coarse.items():
            shown = row[f"return_{days}d_pct"]
            if shown is not None:
                unit = 10.0 ** (math.floor(math.log10(abs(shown) or 1e-3)) - self._digits + 1)
                fit &= np.abs(values - shown) <= 0.56 * unit + 1e-5

        return fit

    @property
    def labels(self) -> Sequence[str]:
        """Labels whose figures it has read, once it knew the day."""
        return list(self._of_label)

    def asset_of(self, label: str) -> int | None:
        """Return the column of the asset that a label is known to stand for."""
        fit = self._of_label.get(label)
        return int(fit.argmax()) if fit is not None and fit.sum() == 1 else None

    # ---- what it holds

    def _wanted(
        self, conversation: Conversation, rows: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Return the weight of each asset that is known and trades."""
        base = self.base or 0
        rises = {}
        for row in rows:
            asset = self.asset_of(row["stock_id"])
            if asset is None or row["status"] != "trading":
                continue
            rise = self._growth[self._fill_of[asset]][base + self._step, asset] - 1.0
            rises[row["stock_id"]] = float(rise) if np.isfinite(rise) else 0.0

        cost = (self._fees.buy_bps + self._fees.sell_bps) / 1e4
        held = conversation.observed.positions
        may_short = bool(conversation.state["constraints"]["short_sales"])
        gains = {}
        for label, rise in rises.items():
            weight = (held[label].weight or 0.0) if label in held else 0.0
            sign = np.sign(rise)
            gains[label] = abs(rise) - (0.0 if sign * weight > 0 else cost)
            if gains[label] <= 0 and weight:
                rises[label] = float(np.sign(weight)) * 1e-9  # cheaper to keep

        kept = {
            label: rise for label, rise in rises.items() if gains[label] > 0 or abs(rise) < 1e-8
        }
        if conversation.observed.limits.asks_decisions:
            return self._sides(rises, kept, may_short)

        most = float(conversation.state["constraints"]["max_weight"])
        return _best_weights(kept, gains, most, self._margin if may_short else None)

    @property
    def _margin(self) -> float | None:
        """Part of a short's value that stays in cash besides it; None where there are no shorts."""
        return None if self._short is None else self._short.initial_margin_pct / 100.0

    def _sides(
        self, rises: Mapping[str, float], kept: Mapping[str, float], may_short: bool
    ) -> dict[str, float]:
        """Return 1, -1 or 0 of each asset, for BUY, SELL and HOLD."""
        sides = {label: float(np.sign(rise)) for label, rise in kept.items()}
        if not may_short:
            sides = {label: max(side, 0.0) for label, side in sides.items()}

        if self._weights == "equal" and kept:
            best = max(kept, key=lambda label: kept[label] if not may_short else abs(kept[label]))
            sides = {label: sides[best] * (label == best) for label in rises}

        return sides

    def _orders(
        self, conversation: Conversation, wanted: Mapping[str, float]
    ) -> list[dict[str, Any]]:
        held = conversation.observed.positions
        asks_decisions = conversation.observed.limits.asks_decisions
        orders = []
        for label in dict.fromkeys([*held, *wanted]):
            if self.asset_of(label) is None:
                continue
            weight = (held[label].weight or 0.0) if label in held else 0.0
            target = wanted.get(label, 0.0)
            is_closed = target == 0.0 and weight != 0.0
            if not asks_decisions and not is_closed and abs(target - weight) < SAME_WEIGHT:
                continue
            if asks_decisions and label not in wanted:
                continue
            orders.append(
                {
                    "stock_id": label,
                    "side": "BUY" if target > weight else "SELL",
                    "target_weight": target,
                    "confidence": 0.5,
                    "reason": conversation.reason("its price is known from elsewhere"),
                }
            )

        return orders


def _over(growth: np.ndarray, days: int) -> np.ndarray:
    """Return [T, N] growth over so many days, from that of single days; days without one as they were."""
    total = growth.copy()
    for ahead in range(1, days):
        later = np.ones_like(growth)
        later[:-ahead] = growth[ahead:]
        total *= np.where(np.isfinite(later), later, 1.0)

    return total


def _best_weights(
    rises: Mapping[str, float], gains: Mapping[str, float], most: float, margin: float | None
) -> dict[str, float]:
    """Return the weights that earn most: longs up to the cash that the margin of shorts leaves."""
    longs = sorted((label for label in rises if rises[label] > 0), key=lambda one: -gains[one])
    shorts = sorted((label for label in rises if rises[label] < 0), key=lambda one: -gains[one])
    best: dict[str, float] = {}
    best_gain = -1.0
    for count in range(min(MOST_SHORTS, len(shorts)) + 1 if margin is not None else 1):
        weights = dict.fromkeys(shorts[:count], -most)
        room = 1.0 - count * most * (margin or 0.0)
        if count:
            room -= MARGIN_KEPT
        if room < 0:
            break
        for label in longs:
            weights[label] = min(most, room)
            room -= weights[label]
            if room < SAME_WEIGHT:
                break

        gain = sum(abs(weight) * gains[label] for label, weight in weights.items())
        if gain > best_gain:
            best, best_gain = weights, gain

    return best


# ---- episodes


@dataclass
class Result:
    """What one model made of a task, by episode."""

    returns: list[float] = field(default_factory=list)  #: as fractions
    bounds: list[float] = field(default_factory=list)  #: returns that no account exceeds
    found_at: list[int] = field(default_factory=list)  #: steps at which it knew the true day
    labels: int = 0  #: whose figures it read
    named: int = 0  #: of these, those that it named rightly

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % interval of the mean return; NaN of one episode."""
        return student_interval(self.returns)


def opened(task: MarketTask, market: Market, model: Model, window: Window) -> TradingEpisodeRun:
    """Return an episode of a task at its beginning. Its mask key follows from its window."""
    key = int(np.datetime64(window.first).astype(int))
    return begin_episode(task, market.snapshot, model, window, key)


def results_of(run: Run, market: Market) -> Iterator[tuple[str, Result]]:
    """Yield what each trader makes of a task."""
    task = PLUGINS.make_task(run.task)
    assert isinstance(task, MarketTask)
    # no trader here reads texts, or bars before the day's: without them a step is faster
    unread = {"news": 0, "news_each": None, "history": None, "full_bars": None}
    task = MarketTask(task.name, replace(task._config, **unread, **run.change))
    rules = MarketRules.of(market.snapshot, task.trading)
    initial_minor = task.trading.initial_cash * rules.minor_per_unit
    windows = market.windows or [task.windows[name] for name in task.default_windows]
    if run.window:
        windows = [task.windows[run.window]]
    history = PriceHistory(market.snapshot)
    of_task = only(market.snapshot, task._config.assets)
    digits = task._config.round_digits

    informed = Result()
    for window in windows:
        trader = PriceReader(history, task, rules)
        episode = opened(task, market, trader, window)
        informed.returns.append(total_return(episode, initial_minor))
        informed.bounds.append(foresight_bound(of_task, window, task.trading, digits))
        start = int(np.searchsorted(market.snapshot.days, np.datetime64(window.first))) - 1
        if trader.known_at is not None and trader.base == start:
            informed.found_at.append(trader.known_at)
        informed.labels += len(trader.labels)
        for label in trader.labels:
            informed.named += trader.asset_of(label) == episode.lens.parse_asset(label)

    yield "informed", informed

    for name in BASELINES:
        plain = Result()
        for window in windows:
            episode = opened(task, market, PLUGINS.make_model(name, {}), window)
            plain.returns.append(total_return(episode, initial_minor))
        yield name, plain


def only(market: MarketSnapshot, assets: Sequence[str]) -> MarketSnapshot:
    """Return a market in which nothing else can be bought; no assets: all of them."""
    if not assets:
        return market
    member = np.zeros_like(market.member)
    columns = [market.asset_index[code] for code in assets]
    member[:, columns] = market.member[:, columns]
    return replace(market, member=member)


def row_of(run: Run, market: Market, trader: str, result: Result) -> dict[str, object]:
    """Return a row of the table, in `COLUMNS`."""
    low, high = result.interval
    figures = (np.mean(result.returns), low, high, min(result.returns), max(result.returns))
    found: tuple[object, ...] = ("", "", "", "", "")
    if trader == "informed":
        at_most = f"{100 * float(np.mean(result.bounds)):.1f}"
        latest = max(result.found_at, default="")
        found = (at_most, len(result.found_at), latest, result.labels, result.named)

    family = PLUGINS.spec("tasks", run.task).groups[0]
    percent = ["" if np.isnan(figure) else f"{100 * figure:.1f}" for figure in figures]
    values = (family, run.name, market.name, trader, len(result.returns), *percent, *found)
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tasks", default="", help="default: all")
    parser.add_argument("--episodes", type=int, help="of each task, at most; default: all")
    parser.add_argument("--out", type=Path, help="file for the table; default: only print it")
    options = parser.parse_args()
    chosen = runs()
    if options.tasks:
        chosen = [run for run in chosen if run.task in options.tasks.split(",")]

    opened_markets: dict[str, Market] = {}
    rows = []
    for run in chosen:
        if run.market not in opened_markets:
            opened_markets[run.market] = MARKETS[run.market](options.data.resolve())
        market = opened_markets[run.market]
        if options.episodes:
            market = replace(market, windows=market.windows[: options.episodes])
        for trader, result in results_of(run, market):
            rows.append(row_of(run, market, trader, result))
            print(*rows[-1].values(), sep=" | ", flush=True)

    if options.out:
        with options.out.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    main()
