"""Contents of a masked payload, and comparisons of each shown number with the corresponding number
for every asset and day of the public history.

A payload is what a model sees of one stock on one day: an object with the results of three research
tools, as the lens rendered them. They are `market_context` (from `get_market_context`), `screen`
(from `screen_candidates`) and `snapshot` (from `get_stock_snapshot`, with bars).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ktdeval.errors import DataError
from ktdeval.market import BoolArray, parse_code
from ktdeval.masking import (
    FIGURE_DIGITS,
    MAX_DIGITS,
    REBASE_LEVEL,
    WICK_SD,
    WICK_SHIFT,
    MaskConfig,
)
from ktdeval.values import JsonValue
from ktdeval_deanon.certificate.public_history import COUNTS, PARTS, PublicHistory, SingleArray

Numbers = Mapping[str, float]  #: Name -> number; nulls are omitted

_DAY_HANDLE = re.compile(r"day_([+-][0-9]{1,6})")


@dataclass(frozen=True)
class ShownBar:
    """One bar shown in a payload."""

    offset: int  #: trading days from the payload's day: 0 is the same day, -1 the day before
    numbers: Numbers  #: column (such as `close_cny`) -> number


@dataclass(frozen=True)
class ShownPayload:
    """A parsed payload."""

    stock_id: str  #: the asset's label as shown: a code or a handle
    #: row of the payload's day in the public calendar; None if only a handle is shown
    row: int | None
    since_start: int | None  #: trading days since `day_+0`; None if not shown
    board: str
    member: bool  #: whether the payload says that the stock is an index member
    figures: Numbers  #: returns, turnover and factor values in the snapshot, by name
    bars: tuple[ShownBar, ...]  #: oldest first
    indices: tuple[Numbers, ...]  #: figures for each index, benchmark first; empty if omitted
    breadth: Numbers  #: counts and sums over all members; empty if omitted


def read_payload(payload: Mapping[str, JsonValue], rows: Mapping[str, int]) -> ShownPayload:
    """Parse a payload.

    `rows`: ISO date -> row of the public calendar. Raises DataError if a part is missing or not
    what the tools return; the message names the part.
    """
    snapshot = _payload_field(payload, "snapshot", Mapping)
    context = _payload_field(payload, "market_context", Mapping)
    number, is_handle = _day_number(
        _payload_field(snapshot, "day", str, "snapshot."), rows, "snapshot.day"
    )
    step = _payload_field(context, "calendar", Mapping, "market_context.").get("step")
    since_start: int | None = None
    if isinstance(step, int):
        since_start = step
    elif is_handle:
        since_start = number  # a handle counts from day_+0

    # Coarse masks that hide days omit both fields.
    indices: list[dict[str, Any]] = []
    breadth: Mapping[str, Any] = {}
    if "indices" in context or "breadth" in context:
        indices = _payload_table(context, "indices", "market_context.")
        breadth = _payload_field(context, "breadth", Mapping, "market_context.")

    bars: list[ShownBar] = []
    for row in _payload_table(snapshot, "bars", "snapshot."):
        day, _ = _day_number(row.get("day"), rows, "snapshot.bars: day")
        bars.append(ShownBar(day - number, _numbers(row)))

    return ShownPayload(
        stock_id=_payload_field(snapshot, "stock_id", str, "snapshot."),
        row=None if is_handle else number,
        since_start=since_start,
        board=_payload_field(snapshot, "board", str, "snapshot."),
        member=snapshot.get("index_member") is True,
        figures=_numbers(_payload_field(snapshot, "factors", Mapping, "snapshot.")),
        bars=tuple(bars),
        indices=tuple(map(_numbers, indices)),
        breadth=_numbers(breadth),
    )


def _day_number(day: Any, rows: Mapping[str, int], where: str) -> tuple[int, bool]:
    """Return the number in a day handle or the row of a date, and whether the day is a handle."""
    if isinstance(day, str):
        handle = _DAY_HANDLE.fullmatch(day)
        if handle:
            return int(handle[1]), True
        if day in rows:
            return rows[day], False

    raise DataError(
        f"payload: {where}: expected a handle such as day_+3 or a day of the public calendar, was"
        f" {day!r}"
    )


def _numbers(row: Mapping[str, Any]) -> Numbers:
    numbers: dict[str, float] = {}
    for name, value in row.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            numbers[name] = float(value)

    return numbers


def _payload_field(of: Mapping[str, Any], name: str, kind: type, where: str = "") -> Any:
    """Return a field of a payload. Raises DataError if it is absent or has another type."""
    value = of.get(name)
    if not isinstance(value, kind):
        expected = "text" if kind is str else "a JSON object"
        raise DataError(f"payload: {where}{name}: expected {expected}, was {type(value).__name__}")
    return value


def _payload_table(of: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Return the rows of `{"columns": […], "rows": [[…], …]}` as mappings."""
    table = _payload_field(of, name, Mapping, where)
    columns = table.get("columns")
    rows = table.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, list):
        raise DataError(f"payload: {where}{name}: expected a table with columns and rows")
    if any(not isinstance(row, list) or len(row) != len(columns) for row in rows):
        raise DataError(f"payload: {where}{name}: expected rows of {len(columns)} values")

    return [dict(zip(columns, row, strict=True)) for row in rows]


# --- evidence

Field = Literal[
    "labels", "price_level", "returns", "volume", "factors", "board", "index", "breadth"
]
"""Groups of what a payload shows.

* `labels`: code and date, where the mask shows them.
* `price_level`: the last close.
* `returns`: bars' returns, all shown prices over the last close, the stock's returns and drawdown.
* `volume`: bars' volumes and turnover, mean turnover.
* `factors`: the other factor values.
* `board`: board and index membership.
* `index`: the indices' levels and figures.
* `breadth`: counts and sums over all members.
"""
FIELDS: tuple[Field, ...] = get_args(Field)

NOISE_BOUND = 4.5
"""A history number agrees with a shown number if the two differ by no more than rounding plus this
many standard deviations of the noise.
"""

# rounding error that single precision may add to a difference of logarithms, and to a number
_LOG_SLACK = 4e-6
_SLACK = 3e-7
_CERTAIN = 1e-3
_NOISE_OF = {"high": (WICK_SHIFT, WICK_SD), "low": (-WICK_SHIFT, WICK_SD)}
"""Mean and standard deviation of the noise in a bar's high and low prices, in units of the noise; 0
and 1 for the other prices.
"""
_FIELD_OF: Mapping[str, Field] = {"return_": "returns", "drawdown_": "returns", "amount_": "volume"}
_SMALLEST_UNIT = 1e-5  # numbers below 1 have five decimals


class ShownComparison(NamedTuple):
    """One shown number next to the corresponding number for every asset and day."""

    values: SingleArray  #: [T, N] or [T, 1], by the day to which the number refers
    offset: int  #: days from the payload's day to the number's day, at most 0
    shown: float
    bound: float  #: largest difference at which a number agrees
    scale: float  #: typical difference if a number agrees
    #: subtracted from `values` if the number is relative to another number
    minus: SingleArray | None = None
    minus_offset: int = 0  #: days from the payload's day to the other number's day


class PayloadComparisons:
    """Evidence in a payload: numbers to compare and conditions to meet."""

    def __init__(self, shown: ShownPayload, history: PublicHistory, mask: MaskConfig) -> None:
        self.shown = shown
        self.history = history
        self.mask = mask
        self.noise = mask.noise_pct / 100.0
        # Rebased values refer to day_+0, which is this many days before the payload's day.
        self.start: int | None = None
        if shown.since_start is not None and shown.since_start >= 0:
            self.start = shown.since_start

        # The last bar with a close; without it, the other bars have no reference.
        self.last: ShownBar | None = None
        for bar in shown.bars:
            if bar.numbers.get("close_cny", 0.0) > 0.0:
                self.last = bar

    def by_field(self) -> Iterator[tuple[Field, list[ShownComparison]]]:
        """Yield the numbers to compare, by field."""
        returns = [*self._changes(), *self._ratios(), *self._absences()]
        yield "price_level", list(self._level())
        yield "returns", [*returns, *self._figures("returns")]
        yield "volume", [*self._volumes(), *self._figures("volume")]
        yield "factors", list(self._figures("factors"))
        yield "index", list(self._indices())
        yield "breadth", list(self._breadth())

    def conditions(self) -> Iterator[tuple[Field, BoolArray]]:
        """Yield the conditions that allow or exclude an asset or a day, by field."""
        shown = self.shown
        history = self.history
        matches = np.zeros(history.has_bar.shape, dtype=np.bool_)
        matches[:, history.boards == shown.board] = True

        if shown.member:
            matches &= history.market.member

        yield "board", matches
        code = parse_code(shown.stock_id)
        asset: int | None = None
        if code is not None:
            asset = history.market.asset_index.get(history.market.canonical(code))

        if asset is not None or shown.row is not None:
            allowed = np.ones(history.has_bar.shape, dtype=np.bool_)
            if asset is not None:
                allowed[:, :asset] = False
                allowed[:, asset + 1 :] = False

            if shown.row is not None:
                allowed[: shown.row] = False
                allowed[shown.row + 1 :] = False

            yield "labels", allowed

    def _level(self) -> Iterator[ShownComparison]:
        if self.last is None:
            return

        closes = self.history.log_prices["close"]
        offset = self.last.offset
        shown = _pack(self._price(self.last.numbers["close_cny"]), _LOG_SLACK, self.noise)

        if not self.mask.rebase_prices:
            yield ShownComparison(closes, offset, *shown)
        elif self.start is not None:
            yield ShownComparison(closes, offset, *shown, self.history.log_base, -self.start)

    def _changes(self) -> Iterator[ShownComparison]:
        values, error = self.history.figure_under("return_1d_pct", self.mask)
        assert values is not None  # every history has returns
        changes = np.where(self.history.has_bar, values, np.float32(np.nan))
        for bar in self.shown.bars:
            change = bar.numbers.get("return_pct")
            if change is not None:
                noise = self._change_noise(change) + error
                yield self._number(changes, bar.offset, change, noise)

    def _ratios(self) -> Iterator[ShownComparison]:
        """Yield the ratios of all shown prices to the last shown close, which are all that prices
        reveal beyond their scale.
        """
        if self.last is None:
            return

        logs = self.history.log_prices
        reference = self._price(self.last.numbers["close_cny"])
        for bar in self.shown.bars:
            for part in PARTS:
                price = bar.numbers.get(f"{part}_cny", 0.0)
                if price <= 0.0 or (part == "close" and bar is self.last):
                    continue

                shift, spread = _NOISE_OF.get(part, (0.0, 1.0))
                ratio = self._price(price).over(reference).shift(-shift * self.noise)
                shown = _pack(ratio, _LOG_SLACK, self.noise * math.hypot(spread, 1.0))
                yield ShownComparison(
                    logs[part], bar.offset, *shown, logs["close"], self.last.offset
                )

    def _absences(self) -> Iterator[ShownComparison]:
        """Yield the days without a bar, from the first shown bar to the payload's day."""
        shown = {bar.offset for bar in self.shown.bars}
        for offset in range(min(shown, default=1), 1):
            if offset not in shown:
                yield ShownComparison(self.history.absence, offset, 1.0, 0.5, _CERTAIN)

    def _volumes(self) -> Iterator[ShownComparison]:
        history = self.history
        for bar in self.shown.bars:
            volume = bar.numbers.get("volume_shares", 0.0)
            amount = bar.numbers.get("amount_cny", 0.0)
            if volume > 0.0 and not self.mask.rebase_prices:
                shown = _pack(self._figure(volume).log(), _LOG_SLACK, self.noise)
                yield ShownComparison(history.log_volume, bar.offset, *shown)
            elif volume > 0.0 and self.start is not None:
                # The tool rounds to four digits before rescaling, so the size of each rounding
                # error is not visible.
                span = self._price(volume).widen(math.log(stands_for(1.0, FIGURE_DIGITS).high))
                shown = _pack(span, _LOG_SLACK, self.noise)
                yield ShownComparison(
                    history.log_volume, bar.offset, *shown, history.minus_log_base, -self.start
                )

            if amount > 0.0:
                shown = _pack(self._figure(amount).log(), _LOG_SLACK, self.noise)
                yield ShownComparison(history.log_amount, bar.offset, *shown)

    def _figures(self, field: Field) -> Iterator[ShownComparison]:
        for name, value in self.shown.figures.items():
            values, error = self.history.figure_under(name, self.mask)
            if values is not None and _field_of(name) == field:
                noise = self.noise * abs(value)
                if name.startswith("return_"):
                    noise = self._change_noise(value)

                yield self._number(values, 0, value, noise + error)

    def _indices(self) -> Iterator[ShownComparison]:
        # If names are hidden, the mask key shuffles all indices except the first, so only the first
        # is compared.
        indices = self.shown.indices
        if self.mask.kind in ("stock_blind", "blinded"):
            indices = indices[:1]

        for index, numbers in enumerate(indices):
            for name, value in numbers.items():
                values = self.history.index_figure(index, name)
                if values is not None:
                    yield self._number(values, 0, value, 0.0)

            logs = self.history.log_index_level(index)
            level = numbers.get("level", 0.0)
            # Levels start at 100 on day_+0, so they show the return since then.
            if (
                self.shown.row is None
                and self.start is not None
                and logs is not None
                and level > 0.0
            ):
                since = self._price(level).shift(-math.log(REBASE_LEVEL))
                yield ShownComparison(logs, 0, *_pack(since, _LOG_SLACK, 0.0), logs, -self.start)

    def _breadth(self) -> Iterator[ShownComparison]:
        for name, value in self.shown.breadth.items():
            values = self.history.breadth.get(name)
            if values is None:
                continue

            if name in COUNTS:  # the mask does not round counts
                yield ShownComparison(values, 0, value, 0.5, _CERTAIN)
            else:
                yield self._number(values, 0, value, 0.0)

    def _number(
        self, values: SingleArray, offset: int, shown: float, noise: float
    ) -> ShownComparison:
        slack = _SLACK * abs(shown) + 1e-9
        return ShownComparison(values, offset, *_pack(self._figure(shown), slack, noise))

    def _figure(self, shown: float) -> NumberSpan:
        return figure_span(shown, self.mask.round_digits)

    def _price(self, shown: float) -> NumberSpan:
        """Return the range of logarithms of the true values behind a positive number that only the
        mask has rounded.
        """
        return stands_for(shown, self.mask.round_digits or MAX_DIGITS).log()

    def _change_noise(self, change_pct: float) -> float:
        """Return the standard deviation of the noise in a return, in per cent."""
        return math.sqrt(2.0) * self.noise * (100.0 + change_pct)


def _field_of(figure: str) -> Field:
    """Return the field to which a snapshot figure belongs."""
    for prefix, field in _FIELD_OF.items():
        if figure.startswith(prefix):
            return field

    return "factors"


@dataclass(frozen=True, slots=True)
class NumberSpan:
    """Range of true values behind a shown number."""

    low: float
    high: float

    def log(self) -> NumberSpan:
        """Return the range of logarithms."""
        return NumberSpan(math.log(self.low), math.log(self.high))

    def over(self, other: NumberSpan) -> NumberSpan:
        """Return the range of log ratios to another range; both ranges are logarithms."""
        return NumberSpan(self.low - other.high, self.high - other.low)

    def shift(self, by: float) -> NumberSpan:
        """Return the range shifted up by `by`."""
        return NumberSpan(self.low + by, self.high + by)

    def widen(self, by: float) -> NumberSpan:
        """Return the range widened by `by` on both sides."""
        return NumberSpan(self.low - by, self.high + by)


def stands_for(shown: float, digits: int) -> NumberSpan:
    """Return the range of numbers that are rendered as `shown` at `digits` significant digits (and
    with five decimals below 1).
    """
    if shown < 0.0:
        mirrored = stands_for(-shown, digits)
        return NumberSpan(-mirrored.high, -mirrored.low)

    if shown == 0.0:
        return NumberSpan(-_SMALLEST_UNIT / 2.0, _SMALLEST_UNIT / 2.0)

    exponent = math.floor(math.log10(shown))
    above = 10.0 ** (exponent - digits + 1)
    below = above
    if shown <= 10.0**exponent * (1.0 + 1e-12):
        below = above / 10.0  # the digit step is finer just below a power of ten

    if shown < 1.0:
        above = max(above, _SMALLEST_UNIT)
        below = max(below, _SMALLEST_UNIT)

    return NumberSpan(shown - below / 2.0, shown + above / 2.0)


def figure_span(shown: float, round_digits: int | None) -> NumberSpan:
    """Return the range of true values behind a figure.

    Tools round a figure to four significant digits, the mask then rounds to its own number of
    digits, and rendering rounds to five decimals.
    """
    digits = min(round_digits or FIGURE_DIGITS, FIGURE_DIGITS)
    span = stands_for(shown, digits)
    farthest = max(abs(span.low), abs(span.high))
    before = 0.0
    if digits < FIGURE_DIGITS:
        before = _rounding_error(farthest, FIGURE_DIGITS)

    if abs(shown) < 1.0:
        own = _rounding_error(farthest, digits)
        # Rendering rounded more coarsely than the rounding before it.
        if own < _SMALLEST_UNIT / 2.0:
            before += own

    return span.widen(before)


def _rounding_error(value: float, digits: int) -> float:
    """Return the largest change to a number from rounding to `digits` significant digits."""
    return 0.5 * 10.0 ** (math.floor(math.log10(value)) - digits + 1)


def _pack(span: NumberSpan, slack: float, noise: float) -> tuple[float, float, float]:
    """Return `shown`, `bound` and `scale` for a comparison."""
    shown = (span.low + span.high) / 2.0
    reach = (span.high - span.low) / 2.0 + slack
    bound = reach + NOISE_BOUND * noise
    # The rounding error is uniform over ±reach, so its standard deviation is reach / √3.
    scale = math.hypot(reach / math.sqrt(3.0), noise)
    return shown, bound, scale
