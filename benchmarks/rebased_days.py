"""For how many days the rebased tasks hide the day: the table of docs/certificate.md, and what
coarser figures and figures relative to the day's stocks would hide.

    python benchmarks/rebased_days.py --data FOLDER [--episodes 120] [--tried 40] [--rows 20]

Episodes begin on days drawn from the whole history, not on those of the task's windows. On each day
an attacker looks at up to 120 stocks by seven calls. It ranks all days of the history by how likely
the episode began there. Shares are of episodes whose true first day is the likeliest, in per cent,
with Wilson's 95 % interval.

* `index`: mean return shown, against the returns of one index. Needs that index's closes alone.
* `boards`: mean return of the stocks on ChiNext minus that of the main board, against two indices.
* `spread`: logarithm of the standard deviation of the returns shown, against that of all members.
* `rows`: returns over 1, 5 and 20 days of 30 stocks, against every stock and day, rounded as the
  mask does. Needs the whole history; the first five days only.

`relative`: figures shown less the mean of the stocks shown that day, then rounded again.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from identifiability import MODELS, agreed, reference, share
from played_episodes import PLUGINS, market_of, spec_under

from ktdeval.attribution import filled_forward
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.aliases_and_noise import round_each
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.task_api import TargetTask, Window
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.trading import Account
from ktdeval.values import derive_seed
from ktdeval_deanon.certificate.date_paths import (
    HORIZONS,
    ShownStock,
    daily_returns,
    log_likelihoods,
    place_of,
    shown_days,
)

TASK = "blinded_rebased_open_research"
TABLE_TASK = "blinded_rebased_fixed_candidate"
RETURN_DAYS = (1, 5, 20)
DIMS = tuple(f"return_{days}d_pct" for days in RETURN_DAYS)
CHINEXT = "399006.SZ"
BARS_BEFORE = 60  #: rows before the first day that may be drawn
ROW_STOCKS = 30
ROW_DAYS = (1, 5)
FLOOR = 1e-9  #: likelihood of a row that no stock explains
#: differences, in points, between the mean over the stocks shown and that over all members, for
#: returns over 1, 5 and 20 days
MEAN_ERROR = np.array([0.4, 0.8, 1.5])


@dataclass(frozen=True)
class Blur:
    """How returns are shown."""

    name: str
    digits: int
    is_relative: bool = False

    def show(self, returns: np.ndarray) -> np.ndarray:
        """Return the [S, 3] returns of a day as they are shown."""
        if not self.is_relative:
            return returns
        return round_each(returns - np.nanmean(returns, axis=0), self.digits)


BLURS = (
    Blur("3 digits (the task)", 3),
    Blur("3 digits, relative", 3, is_relative=True),
    Blur("2 digits", 2),
    Blur("2 digits, relative", 2, is_relative=True),
    Blur("1 digit", 1),
    Blur("1 digit, relative", 1, is_relative=True),
)


@dataclass(frozen=True)
class ShownDay:
    """What an attacker sees of one day."""

    is_chinext: np.ndarray  #: [S]
    returns: np.ndarray  #: [S, 3] over 1, 5 and 20 days, in per cent; NaN where null


class History:
    """Public history of a market, as attackers compare it."""

    def __init__(self, market: MarketSnapshot) -> None:
        self.market = market
        self.closes = filled_forward(market.close)
        self.member = market.member & np.isfinite(market.close)
        self._rounded: dict[tuple[int, int], np.ndarray] = {}

    @cached_property
    def index(self) -> np.ndarray:
        """[T] daily returns of the benchmark, in per cent."""
        return daily_returns(self.market.benchmark)

    @cached_property
    def boards(self) -> np.ndarray | None:
        """[T] daily return of the ChiNext index less that of the benchmark; None without it."""
        levels = self.market.indices.get(CHINEXT)
        return None if levels is None else daily_returns(levels) - self.index

    @cached_property
    def spread(self) -> np.ndarray:
        """[T] logarithm of the standard deviation of the members' returns."""
        adjusted = self.closes * self.market.factor
        returns = np.full(adjusted.shape, np.nan)
        returns[1:] = 100.0 * (adjusted[1:] / adjusted[:-1] - 1.0)
        with warnings.catch_warnings(action="ignore"):
            return np.log(np.nanstd(np.where(self.member, returns, np.nan), axis=1))

    def rounded_returns(self, digits: int, step: int) -> np.ndarray:
        """[T, N, 3] returns as a mask shows them in an episode that began `step` days before: each
        asset's close of that day is 100, and prices have so many digits.
        """
        key = (digits, step)
        if key not in self._rounded:
            rows = np.arange(len(self.closes))
            scale = 100.0 / self.closes[np.maximum(rows - step, 0)]
            now = round_each(self.closes * scale, digits) * self.market.factor
            columns = []
            for days in RETURN_DAYS:
                before = np.maximum(rows - days, 0)
                then = round_each(self.closes[before] * scale, digits)
                values = 100.0 * (now / (then * self.market.factor[before]) - 1.0)
                values[: max(days, step)] = np.nan
                columns.append(values)

            self._rounded[key] = np.stack(columns, axis=2)

        return self._rounded[key]


# ---- what is shown


def targeted(digits: int) -> TargetTask:
    """The rebased task with so many digits."""
    task = PLUGINS.make_task(TASK)
    changed = type(task)(task.name, replace(task._config, round_digits=digits))
    return TargetTask(changed, tuple(PLUGINS.tools(task.tools)))


def spec_of(number: int) -> EpisodeSpec:
    """An episode under a key of its own."""
    task = PLUGINS.make_task(TASK)
    return spec_under(task, task.windows["W1"], number, model="attacker")


def seen(stocks: Sequence[ShownStock]) -> ShownDay:
    """A day as arrays."""
    table = [[stock.figures[name] for name in DIMS] for stock in stocks]
    return ShownDay(
        np.array([stock.board == "chinext" for stock in stocks]), np.array(table, dtype=float)
    )


def watch_table(market: MarketSnapshot, number: int, first: int) -> list[np.ndarray]:
    """Returns over a day in the table of `blinded_rebased_fixed_candidate`, by day: [S, 1]."""
    task = PLUGINS.make_task(TABLE_TASK)
    last = first + HORIZONS[-1]
    ends = [str(market.days[row]) for row in (first + 1, last)]
    spec = replace(spec_of(number), task=task.name, mode=task.mode, window=Window("path", *ends))
    scene = task.scene(spec, market)
    untouched = Account(100 * task.trading.initial_cash, {})
    days = []
    for step, row in enumerate(range(first, last)):
        step_view = scene.tool_context(step, market.as_of(row), untouched)
        table = scene.lens.render(scene._state(step_view, None)["candidates"])
        column = table["columns"].index(DIMS[0])
        days.append(np.array([[line[column]] for line in table["rows"]], dtype=float))

    return days


def watch(market: MarketSnapshot, digits: int, number: int, first: int) -> list[ShownDay]:
    """An episode's days, from its first decision on."""
    rows = range(first, first + HORIZONS[-1])
    days = shown_days(targeted(digits), spec_of(number), market, rows, DIMS)
    return [seen(stocks) for stocks in days]


# ---- attackers


def path_of(
    attacker: str, days: Sequence[np.ndarray], on_chinext: Sequence[np.ndarray]
) -> np.ndarray:
    """[n] the figure a day by which an attacker finds the day."""
    values = []
    for returns, is_chinext in zip(days, on_chinext, strict=True):
        daily = returns[:, 0]
        with warnings.catch_warnings(action="ignore"):
            value = np.nanmean(daily)
            if attacker == "boards":
                value = np.nanmean(daily[is_chinext]) - np.nanmean(daily[~is_chinext])
            elif attacker == "spread":
                value = np.log(np.nanstd(daily) + FLOOR)

        values.append(value)

    return np.array(values)


def row_fits(history: History, blur: Blur, days: Sequence[np.ndarray]) -> list[np.ndarray]:
    """[T] log likelihood of each first day by the rows of stocks shown, after each day."""
    count = len(history.closes)
    total = np.zeros(count)
    fits = []
    for step, returns in enumerate(days):
        known = returns[np.isfinite(returns).all(axis=1)]
        known = known[:: max(1, len(known) // ROW_STOCKS)][:ROW_STOCKS]
        scale = 0.05 + 3.0 * 10.0**-blur.digits * np.abs(known)
        if blur.is_relative:
            scale = np.hypot(scale, MEAN_ERROR)

        values = history.rounded_returns(blur.digits, step)
        fit = np.full(count, -np.inf)
        for row in range(BARS_BEFORE // 2 + step, count):
            usable = history.member[row] & np.isfinite(values[row]).all(axis=1)
            candidates = values[row][usable]
            if blur.is_relative:
                candidates = candidates - candidates.mean(axis=0)

            fit[row - step] = _rows_of_a_day(known, scale, candidates)

        total = total + fit
        fits.append(total)

    return fits


def _rows_of_a_day(known: np.ndarray, scale: np.ndarray, candidates: np.ndarray) -> float:
    """Log likelihood of rows [S, 3], each of which is any of the candidates [N, 3] of a day."""
    if not len(candidates):
        return -np.inf

    distance = np.zeros((len(known), len(candidates)), dtype=np.float32)
    for column in range(known.shape[1]):
        shown = (known[:, column] / scale[:, column]).astype(np.float32)
        unit = (1.0 / scale[:, column]).astype(np.float32)
        miss = shown[:, None] - unit[:, None] * candidates[None, :, column].astype(np.float32)
        distance += miss * miss

    near = np.exp(-0.5 * distance).sum(axis=1) / scale.prod(axis=1)
    return float(np.log(near / len(candidates) + FLOOR).sum())


# ---- tables


def firsts_of(market: MarketSnapshot, count: int) -> list[int]:
    """Rows of first decision days, drawn without repeats."""
    pool = np.arange(BARS_BEFORE, len(market.days) - HORIZONS[-1] - 1)
    rng = np.random.default_rng(derive_seed(0, "rebased days"))
    drawn: list[int] = rng.choice(pool, min(count, len(pool)), replace=False).tolist()
    return drawn


Hits = dict[tuple[str, str, int], list[bool]]  #: (blur, attacker, days seen) -> whether first


def attack(history: History, digits: int, episodes: int, by_rows: int) -> Hits:
    """Attack episodes with so many digits; `by_rows`: how many of them by rows, too."""
    blurs = [blur for blur in BLURS if blur.digits == digits]
    hits: Hits = {}
    for number, first in enumerate(firsts_of(history.market, episodes)):
        days = watch(history.market, digits, number, first)
        chinext = [day.is_chinext for day in days]
        for blur in blurs:
            shown = [blur.show(day.returns) for day in days]
            for attacker in ("index", "boards", "spread"):
                public: np.ndarray | None = getattr(history, attacker)
                if public is None or (attacker == "index" and blur.is_relative):
                    continue

                path = path_of(attacker, shown, chinext)
                for length in HORIZONS:
                    place, _ = place_of(first, log_likelihoods(path[:length], public))
                    hits.setdefault((blur.name, attacker, length), []).append(place == 1)

            if number < by_rows:
                fits = row_fits(history, blur, shown[: ROW_DAYS[-1]])
                for length in ROW_DAYS:
                    place, _ = place_of(first, fits[length - 1])
                    hits.setdefault((blur.name, "rows", length), []).append(place == 1)

    return hits


def print_hits(hits: Hits) -> None:
    """Print the rows of one number of digits."""
    for blur, attacker in dict.fromkeys((blur, attacker) for blur, attacker, _ in hits):
        cells = []
        for length in HORIZONS:
            found = hits.get((blur, attacker, length))
            cells.append("" if found is None else share(np.array(found)))

        count = len(hits[blur, attacker, 1])
        print(f"| {blur} | {attacker} | {count} | {' | '.join(cells)} |", flush=True)


def print_windows(history: History) -> None:
    """Print how soon the index tells the ten public windows apart."""
    market = history.market
    task = PLUGINS.make_task(TASK)
    starts = []
    for name, window in task.windows.items():
        if name != "long":
            starts.append(int(np.searchsorted(market.days, np.datetime64(window.first))) - 1)

    found: dict[int, list[bool]] = {days: [] for days in HORIZONS}
    for number, first in enumerate(starts):
        days = watch(market, 3, number, first)
        path = path_of("index", [day.returns for day in days], [day.is_chinext for day in days])
        for length in HORIZONS:
            fit = log_likelihoods(path[:length], history.index)
            found[length].append(bool(fit[first] == fit[starts].max()))

    cells = [share(np.array(hits)) for hits in found.values()]
    print(
        f"| the task, in W1 to W10, known to be one of these | index | {len(starts)} | {' | '.join(cells)} |"
    )


def print_table_task(history: History, episodes: int) -> None:
    """Print how often the index finds the day of the task with a table of candidates."""
    found: dict[int, list[bool]] = {days: [] for days in HORIZONS}
    for number, first in enumerate(firsts_of(history.market, episodes)):
        days = watch_table(history.market, number, first)
        path = path_of("index", days, [np.zeros(len(day), dtype=bool) for day in days])
        for length in HORIZONS:
            place, _ = place_of(first, log_likelihoods(path[:length], history.index))
            found[length].append(place == 1)

    cells = [share(np.array(hits)) for hits in found.values()]
    print(f"| 3 digits ({TABLE_TASK}) | index | {episodes} | {' | '.join(cells)} |", flush=True)


def print_costs(market: MarketSnapshot) -> None:
    """Print the share of decisions of three rules that stay the same."""
    print("\n| prices from 100 on, with | same decisions, % |\n|---|---|")
    references = {
        model: list(reference(market, model, "open_research", HORIZONS[-1])) for model in MODELS
    }
    for digits in (3, 2, 1):
        mask = MaskConfig(rebase_prices=True, round_digits=digits)
        shares = [
            agreed(market, mask, model, "open_research", moments)
            for model, moments in references.items()
        ]
        plural = "" if digits == 1 else "s"
        print(f"| {digits} digit{plural} | {100 * np.mean(shares):.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="synthetic", help="a snapshot's folder")
    parser.add_argument("--episodes", type=int, default=120, help="with the task's three digits")
    parser.add_argument("--tried", type=int, default=40, help="with other digits")
    parser.add_argument("--rows", type=int, default=20, help="by the attacker by rows")
    parser.add_argument("--digits", default="3,2,1")
    parser.add_argument("--costs", action="store_true", help="what coarser digits cost, too")
    options = parser.parse_args()
    market = market_of(options.data)
    history = History(market)
    days = " | ".join(f"after {length} d" for length in HORIZONS)
    print(f"{market.meta.name}: {len(market.codes)} assets, {len(market.days)} days\n")
    print(f"| shown | attacker | episodes | {days} |\n{'|---' * (3 + len(HORIZONS))}|", flush=True)
    for digits in map(int, options.digits.split(",")):
        count = options.episodes if digits == 3 else options.tried
        print_hits(attack(history, digits, count, options.rows))
        if digits == 3:
            print_windows(history)
            print_table_task(history, options.tried)

    if options.costs:
        print_costs(market)


if __name__ == "__main__":
    main()
