"""Rule `price-after`: market prices, volumes and returns that were not yet known on the day of the
decision.

A number is a hit if, at its printed precision, it equals a value on a later day and does not equal
a value that was already known. A single hit is weak evidence: for example, a price with four digits
often equals a later price by chance. Each number therefore has a probability of a false hit. This
is the share of nearby numbers with the same precision that equal later values. From these
probabilities, an upper bound is computed on the probability that all hits are due to chance. A
finding requires a bound below 1e-4.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats as distributions

from ktdeval.market import MarketSnapshot, bar_rows
from ktdeval.values import Finding, Level
from ktdeval_audit.decision_days import DatedText
from ktdeval_audit.printed_numbers import AssetNames, PrintedNumber, numbers_in
from ktdeval_audit.text_rules import finding_at

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer[Any]]

HORIZONS = (1, 5, 21, 252)
"""Horizons in trading days over which later values are searched; each is a separate test."""

# weight of the test for each horizon; the weights sum to 1
_WEIGHTS = {1: 0.5, 5: 0.25, 21: 0.15, 252: 0.1}
_LIMITS = {
    1.0: 0.6,
    1e-4: 0.4,
}  # maximum false-hit probability of the numbers that a test uses -> weight of the test

KNOWN_DAYS = 252
"""Number of past trading days in which a number may equal a known value. Over more days, an asset
has visited most prices near its own, so few numbers would remain.
"""

MAX_CHANCE = 1e-4  #: nothing is reported unless the probability of a false hit is below this value
SURE = 1e-6  #: a single number is an error if its probability is below this value
_AROUND = 0.1  # relative distance from a number within which later values are counted
_MIN_STEPS = 50  # minimum distance in steps, if the relative distance is smaller
_RETURN_DAYS = (1, 2, 3, 4, 5, 10, 20, 21, 60, 63, 252)
_ALL = -1  # key for the values of all assets taken together
_SPAN = 21  # number of trading days whose decisions share a choice of later values
_SHOWN = 5
_SLACK = 1e-9  # tolerance for comparing floats
_MIN_DIGITS = 3  # minimum number of digits; shorter numbers are too common


@dataclass(frozen=True, slots=True)
class Hit:
    """A number, and the later value that it equals."""

    number: PrintedNumber
    value_name: str  #: name of the value, such as `close`
    row: int  #: row of the value's day in the market
    chance: float  #: probability that a nearby number with the same precision is a later value
    text: DatedText


@dataclass(frozen=True, slots=True)
class _Values:
    """Sorted values of an asset, in ascending order, each with its row and the index of its
    name.
    """

    values: Floats
    rows: Ints
    names: Ints

    def between(self, low: float, high: float) -> _Values:
        """Return the values from `low` to `high`, as views."""
        first, last = self.values.searchsorted((low, high))
        return self.at(slice(int(first), int(last)))

    def at(self, places: Ints | slice) -> _Values:
        """Return the values at these places, which ascend."""
        return _Values(self.values[places], self.rows[places], self.names[places])


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What a value is at a precision on one day: its false-hit probability at each horizon, and the
    earliest later value that it equals, as the index of a name and a row.
    """

    chances: tuple[float, ...]
    hit: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class _Span:
    """Values of all assets that are later values on some day of a span of decisions."""

    first: int  #: row of the span's first day
    values: _Values


@dataclass
class _OfDay:
    """Values and outcomes for one row of the market, which all texts of a decision share."""

    row: int
    later: _Values | None = None  #: of all assets
    returns: dict[int, _Values] = field(default_factory=dict)  #: keyed by asset
    #: keyed by asset, value, precision, and whether it is a return; None for no trial
    outcomes: dict[tuple[int, float, float, bool], _Outcome | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Trial:
    """A number that equals no known value, with its false-hit probability and its hit, if any, at
    each horizon.
    """

    chances: tuple[float, ...]
    hits: tuple[Hit | None, ...]


_FIELDS = ("open", "high", "low", "close", "volume", "amount", "adjusted close", "index level")
_RETURN = len(_FIELDS)


@dataclass
class LaterPrices:
    """Searches texts for later values in one market. Sorted values are kept for each asset, and
    outcomes until another day is searched.
    """

    market: MarketSnapshot
    _names: AssetNames = field(init=False)
    _cache: dict[int, _Values] = field(init=False, default_factory=dict)
    _span: _Span | None = field(init=False, default=None)
    _day: _OfDay = field(init=False, default_factory=lambda: _OfDay(-1))
    _trials: list[_Trial] = field(init=False, default_factory=list)
    _seen: set[tuple[int | None, float]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._names = AssetNames.of(self.market.codes, self.market.names)

    def findings(self, texts: Sequence[DatedText]) -> Iterator[Finding]:
        """Yield the findings in the prompts and tool results of one decision."""
        by_asset: dict[int | None, list[_Trial]] = defaultdict(list)
        for dated in texts:
            if dated.text.role == "reply":
                continue

            row = self._row(dated)
            if row is None:
                continue

            for number in numbers_in(dated.text.text, self._names):
                self._add(number, dated, row, by_asset)

        if not by_asset:
            return

        # Each asset is tested. If there are several assets, all of them together are also tested.
        tests = len(by_asset) + int(len(by_asset) > 1)
        is_found = False
        for asset, trials in by_asset.items():
            best = _best(trials)
            chance = min(1.0, best.chance * tests)
            if chance < MAX_CHANCE:
                is_found = True
                whose = "of some asset" if asset is None else f"of {self.market.codes[asset]}"
                yield self._finding(best.hits, whose, chance)

        together = _best(list(chain.from_iterable(by_asset.values())))
        chance = min(1.0, together.chance * tests)
        if not is_found and chance < MAX_CHANCE:
            assets = {hit.number.asset for hit in together.hits}
            yield self._finding(together.hits, f"of {len(assets)} assets", chance)

    def over_the_log(self) -> tuple[float, int, int, int] | None:
        """Return the probability, the number of hits, the number of numbers, and the horizon in
        days, over all decisions. Repeats of a number count once. Return None if the probability is
        too high, or if fewer than two decisions have hits.
        """
        best = _best(self._trials)
        decisions = {(id(hit.text.decision), hit.text.day) for hit in best.hits}
        if best.chance >= MAX_CHANCE or len(decisions) < 2:
            return None  # a single decision's own finding already shows this
        return best.chance, len(best.hits), len(self._trials), best.horizon

    def _add(
        self,
        number: PrintedNumber,
        dated: DatedText,
        row: int,
        by_asset: dict[int | None, list[_Trial]],
    ) -> None:
        asset = number.asset
        if asset is None and len(self.market.codes) == 1:
            asset = 0

        # A number with few digits often equals a later value by chance.
        if abs(number.value) < _MIN_DIGITS * number.step * 10:
            return

        trial = self._trial(number, dated, row, asset)
        if trial is None:
            return

        by_asset[asset].append(trial)
        # Numbers that are shown on several days, such as a table, are evidence only once.
        key = (asset, number.value)
        if key not in self._seen:
            self._seen.add(key)
            self._trials.append(trial)

    def _trial(
        self, number: PrintedNumber, dated: DatedText, row: int, asset: int | None
    ) -> _Trial | None:
        """Return a number's false-hit probabilities and hits. Return None if the number equals a
        known value, or if there is no later value near it.
        """
        if self._day.row != row:
            self._day = _OfDay(row)

        outcomes = self._day.outcomes
        key = (_key(asset), number.value, number.step, number.is_return)
        if key not in outcomes:
            outcomes[key] = self._outcome(number, asset, row)

        outcome = outcomes[key]
        if outcome is None:
            return None

        hits = tuple(
            _hit(outcome, chance, row + horizon, number, dated)
            for chance, horizon in zip(outcome.chances, HORIZONS, strict=True)
        )
        return _Trial(outcome.chances, hits)

    def _outcome(self, number: PrintedNumber, asset: int | None, row: int) -> _Outcome | None:
        """Return a number's false-hit probabilities and its earliest hit. Return None if the number
        equals a known value, or if there is no later value near it.
        """
        if number.is_return:
            values = self._known_returns(asset, row)
        else:
            values = self._values(asset)

        if values is None:
            return None

        half = number.step * (0.5 + _SLACK)
        bounds = (number.value - half, number.value + half)
        rows = values.between(*bounds).rows
        # A value that the agent may have seen within the last year is not a leak, even if a later
        # value equals it.
        if ((rows <= row) & (rows > row - KNOWN_DAYS)).any():
            return None

        reach = max(_AROUND * abs(number.value), _MIN_STEPS * number.step)
        around = (number.value - reach, number.value + reach)
        if asset is None:
            near = self._later_of_all(row).between(*around)
        else:
            near = _after(values.between(*around), row, row + HORIZONS[-1])

        chances = _chances(near, number.step, reach, row)
        if not any(chances):
            return None

        same = near.between(*bounds)
        hit = None
        if len(same.rows):
            first = int(same.rows.argmin())
            hit = (int(same.names[first]), int(same.rows[first]))

        return _Outcome(chances, hit)

    # ---- values in the market

    def _row(self, dated: DatedText) -> int | None:
        """Return the last row known on the day of the decision, or None before the market's first
        day.
        """
        row = int(np.searchsorted(self.market.days, np.datetime64(dated.day), side="right")) - 1
        return row if row >= 0 else None

    def _values(self, asset: int | None) -> _Values:
        key = _key(asset)
        if key not in self._cache:
            self._cache[key] = self._sorted_values(asset)
        return self._cache[key]

    def _later_of_all(self, row: int) -> _Values:
        """Return the values of all assets after the row in work, up to the longest horizon. They are
        chosen once a day, since there are too many for a choice for each number.
        """
        if self._day.later is None:
            nearby = self._values_of_span(row)
            self._day.later = _after(nearby, row, row + HORIZONS[-1])
        return self._day.later

    def _values_of_span(self, row: int) -> _Values:
        """Return the values of all assets that are later values on the row in work, or on another
        day of its span.
        """
        first = row - row % _SPAN
        if self._span is None or self._span.first != first:
            last = first + _SPAN - 1 + HORIZONS[-1]
            self._span = _Span(first, _after(self._values(None), first, last))
        return self._span.values

    def _known_returns(self, asset: int | None, row: int) -> _Values | None:
        """Return an asset's changes on the row in work; None for all assets together."""
        if asset is None:
            return None
        if asset not in self._day.returns:
            self._day.returns[asset] = self._returns(asset, row)
        return self._day.returns[asset]

    def _sorted_values(self, asset: int | None) -> _Values:
        market = self.market
        columns = slice(None) if asset is None else slice(asset, asset + 1)
        fields = [market.open, market.high, market.low, market.close, market.volume, market.amount]
        fields.append(market.adjusted_close)
        parts = [array[:, columns] for array in fields]
        values = []
        rows = []
        names = []
        if asset is None:
            parts += [levels[:, None] for levels in market.indices.values()]

        for number, part in enumerate(parts):
            found = np.argwhere(np.isfinite(part))
            values.append(part[found[:, 0], found[:, 1]])
            rows.append(found[:, 0])
            names.append(np.full(len(found), min(number, _RETURN - 1)))

        return _order_values(np.concatenate(values), np.concatenate(rows), np.concatenate(names))

    def _returns(self, asset: int, row: int) -> _Values:
        """Return changes in the adjusted close, in per cent. These are the changes known on the
        day, and the changes up to later closes. The latter start at the day's close, or at the
        previous close.
        """
        sessions = bar_rows(self.market, asset)
        close = self.market.adjusted_close[sessions, asset]
        last = int(np.searchsorted(sessions, row, side="right")) - 1
        values = []
        rows = []
        for days in _RETURN_DAYS:
            if last >= days:
                values.append(close[last] / close[last - days])
                rows.append(row)

        past = close[max(0, last - HORIZONS[-1]) : last + 1]
        values += list(past[1:] / past[:-1])
        rows += [row] * max(0, len(past) - 1)
        later = close[last + 1 : last + 1 + HORIZONS[-1]]
        later_rows = sessions[last + 1 : last + 1 + HORIZONS[-1]].tolist()
        if last >= 0:
            values += list(later / close[last])
            rows += later_rows

        steps = later[1:] / later[:-1]
        values += list(steps)
        rows += later_rows[1:]

        percent = 100.0 * (np.array(values, dtype=np.float64) - 1.0)
        ordered = np.array(rows, dtype=np.int64)
        is_known = np.isfinite(percent)
        kinds = np.full(int(is_known.sum()), _RETURN)
        return _order_values(percent[is_known], ordered[is_known], kinds)

    # ---- messages

    def _finding(self, hits: Sequence[Hit], whose: str, chance: float) -> Finding:
        first = hits[0]
        level: Level = "error" if len(hits) > 1 or chance < SURE else "warning"
        spelled = []
        for hit in hits[:_SHOWN]:
            words = hit.text.text.text[hit.number.start : hit.number.end]
            spelled.append(f"{words} ({hit.value_name} of {self.market.days[hit.row]})")

        more = f" and {len(hits) - _SHOWN} more" if len(hits) > _SHOWN else ""
        why = (
            f"{len(hits)} {_numbers(hits)} {whose} known only later: {', '.join(spelled)}{more}; "
            f"probability of this by chance at most {chance:.1g}"
        )
        span = (first.number.start, first.number.end)
        fix = "end tables and indicators at the close of the decision day"
        return finding_at(first.text, span, ("price-after", level), (why, fix))


def _numbers(hits: Sequence[Hit]) -> str:
    return "number is" if len(hits) == 1 else "numbers are"


def _key(asset: int | None) -> int:
    """Return the key of an asset, or of all assets taken together."""
    return _ALL if asset is None else asset


def _after(values: _Values, row: int, last: int) -> _Values:
    """Return the values that become known after a row, up to another row."""
    chosen = np.flatnonzero((values.rows > row) & (values.rows <= last))
    return values.at(chosen)


def _chances(near: _Values, step: float, reach: float, row: int) -> tuple[float, ...]:
    """Return the share of numbers with this precision, at most `reach` away, that equal a later
    value, for each horizon. `near` holds the later values among them.
    """
    if not len(near.rows):
        return (0.0,) * len(HORIZONS)

    # Values that are equal at the printed precision are a single target for a chance hit. They stand
    # side by side, since the values are sorted; each target counts from its earliest day.
    grid = np.rint(near.values / step)
    starts = np.flatnonzero(np.concatenate(([True], grid[1:] != grid[:-1])))
    earliest = np.minimum.reduceat(near.rows, starts)
    steps = 2.0 * reach / step
    return tuple(
        min(1.0, int(np.count_nonzero(earliest <= row + horizon)) / steps) for horizon in HORIZONS
    )


def _hit(
    outcome: _Outcome, chance: float, last_row: int, number: PrintedNumber, dated: DatedText
) -> Hit | None:
    """Return a number's hit if its day is not after the last row; None if there is no such hit."""
    if outcome.hit is None or outcome.hit[1] > last_row:
        return None

    name, row = outcome.hit
    word = "return" if name == _RETURN else _FIELDS[name]
    return Hit(number, word, row, chance, dated)


def _order_values(values: Floats, rows: Ints, names: Ints) -> _Values:
    order = np.argsort(values, kind="stable")
    return _Values(values[order], rows[order].astype(np.int32), names[order].astype(np.int8))


@dataclass(frozen=True, slots=True)
class _Best:
    """The horizon at which the hits are least likely to be due to chance."""

    chance: float
    hits: Sequence[Hit]
    horizon: int


def _best(trials: Sequence[_Trial]) -> _Best:
    """Return the horizon with the lowest probability, after correction for multiple tests.

    Each test only uses numbers whose own false-hit probability is below a limit, so that a hundred
    three-digit numbers do not weaken the evidence from a single nine-digit number. The tests share
    the error rate in proportion to their weights (weighted Bonferroni).
    """
    best = _Best(1.0, (), HORIZONS[0])
    for place, horizon in enumerate(HORIZONS):
        for limit, share in _LIMITS.items():
            chosen = [trial for trial in trials if trial.chances[place] <= limit]
            hits = _distinct_hits(chosen, place)
            if not hits:
                continue

            chances = [trial.chances[place] for trial in chosen]
            weight = _WEIGHTS[horizon] * share
            chance = min(1.0, chance_of(len(hits), chances) / weight)
            if chance < best.chance:
                best = _Best(chance, hits, horizon)
    return best


def _distinct_hits(trials: Sequence[_Trial], place: int) -> list[Hit]:
    """Return the hits at one horizon. Repeats of a number count once."""
    hits: dict[tuple[int | None, float], Hit] = {}
    for trial in trials:
        hit = trial.hits[place]
        if hit is not None:
            hits.setdefault((hit.number.asset, hit.number.value), hit)
    return list(hits.values())


def chance_of(hits: int, chances: Sequence[float]) -> float:
    """Return an upper bound on the probability of at least `hits` hits among independent numbers
    with these hit probabilities.

    For one hit, the bound is the sum of the probabilities (Boole). For several hits, it is the tail
    of the binomial distribution with the mean probability. This bounds the tail for unequal
    probabilities if the number of hits exceeds its expected value by at least one (Hoeffding 1956,
    "On the distribution of the number of successes in independent trials", theorem 5). Otherwise,
    the bound is 1.

    Example: if three numbers have a probability of 0.01 each and all are hits,
    `chance_of(3, [0.01] * 3)` is 1e-6.
    """
    if hits <= 0:
        return 1.0

    expected = math.fsum(chances)
    if hits == 1:
        return min(1.0, expected)
    if hits < expected + 1.0:
        return 1.0
    return float(distributions.binom.sf(hits - 1, len(chances), expected / len(chances)))
