"""Comparison of predicted parameter values and times with the expected ones, under each rule set
(`docs/qfinzero-scoring.md`).

Under the reference rules (public code; `ReferenceRules` describes the differences between the
suites), a placeholder earns 1, lists are compared as sets of strings and other values as lower-case
strings. Times have three forms, and an unknown tolerance is five minutes.

Under the paper rules (A.3), placeholders are not compared, types are distinguished, and times are
ISO 8601 with offsets and fractions. Results are exact fractions, so sums do not depend on the
order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal

from ktdeval.values import JsonValue

Tolerance = Literal["exact", "5min", "30min", "60min", "1day", "2day"]
EXACT: Final = "exact"

# Name -> seconds on either side, ends included (A.3).
TOLERANCE_SECONDS: Final[Mapping[str, int]] = MappingProxyType(
    {EXACT: 0, "5min": 300, "30min": 1800, "60min": 3600, "1day": 86_400, "2day": 172_800}
)
_DAY_TOLERANCES: Final[Mapping[str, int]] = MappingProxyType({"1day": 1, "2day": 2})
_REFERENCE_DEFAULT_S: Final = 300
_REFERENCE_FORMS: Final = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d", "%Y-%m-%dT%H:%M")
_NOT_FIELDS: Final = frozenset({"format", "tolerance"})

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
_MAX_TIME_CHARS: Final = 64
_DATE: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(Z|[+-]00(:?00)?)?", re.IGNORECASE)
_MOMENT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T"
    r" ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?",
    re.IGNORECASE,
)


def time_fields(times: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the constrained fields with their expected values: everything except `format` and
    `tolerance`.
    """
    return {name: value for name, value in times.items() if name not in _NOT_FIELDS}


def tolerance_of(times: Mapping[str, JsonValue]) -> str:
    """Return the name of the tolerance; `exact` if none is given."""
    return str(times.get("tolerance", EXACT))


# ---- reference


def reference_time(text: str) -> datetime | None:
    """Parse a time as the public scorers do, without a time zone; None if it is not in one of their
    three forms.
    """
    bare = text.rstrip("Z")
    for form in _REFERENCE_FORMS:
        try:
            return datetime.strptime(bare, form)
        except ValueError:
            continue

    return None


def reference_within(predicted: datetime, expected: datetime, tolerance: str) -> bool:
    """Return whether two times differ by at most the tolerance, which is 5 minutes for an unlisted
    name.
    """
    seconds = TOLERANCE_SECONDS.get(tolerance, _REFERENCE_DEFAULT_S)
    return abs((predicted - expected).total_seconds()) <= seconds


# ---- paper


@dataclass(frozen=True)
class DateOrMoment:
    """A date, or a point in time on it. `ns`: nanoseconds since 1970 in UTC; None for a date."""

    day: date
    ns: int | None = None

    @property
    def start_ns(self) -> int:
        """Point in time, or midnight of the date."""
        if self.ns is not None:
            return self.ns
        return (self.day.toordinal() - _EPOCH.toordinal()) * 86_400 * _SECOND


def instant_of(text: str) -> DateOrMoment | None:
    """Parse an ISO 8601 date, or date and time (UTC without an offset); None for any other
    text.

    A blank may replace the `T`, seconds may be absent, fractions have up to nine digits, and a date
    may be marked as UTC.
    """
    text = text.strip()
    if len(text) > _MAX_TIME_CHARS:
        return None

    day = _DATE.fullmatch(text)
    try:
        if day:
            return DateOrMoment(date.fromisoformat(day[1]))
        if not _MOMENT.fullmatch(text):
            return None

        return _moment_of(text.upper())
    except (ValueError, OverflowError):
        return None


def _moment_of(text: str) -> DateOrMoment:
    """Parse text of the form `_MOMENT`, in upper case. Raises ValueError or OverflowError for a
    time that does not exist.
    """
    read = datetime.fromisoformat(text)  # truncates to microseconds
    moment = read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    digits = re.search(r"[.,]([0-9]+)", text)
    finer_ns = int(digits[1][6:].ljust(3, "0")) if digits else 0

    return DateOrMoment(
        moment.date(), (moment - _EPOCH) // timedelta(microseconds=1) * 1_000 + finer_ns
    )


def is_within(predicted: JsonValue, expected: JsonValue, tolerance: str) -> bool:
    """Return whether a predicted time meets an expected one (paper rules).

    `predicted`: value in the call; anything but a time fails. `expected`: ISO date or time, or a
    number of minutes. `tolerance`: a key of `TOLERANCE_SECONDS`.
    """
    if isinstance(expected, int | float) and not isinstance(expected, bool):
        return _minutes_within(predicted, expected, TOLERANCE_SECONDS[tolerance])
    if not isinstance(expected, str) or not isinstance(predicted, str):
        return False

    left = instant_of(predicted)
    right = instant_of(expected)
    if left is None or right is None:
        return False
    if right.ns is None and tolerance in _DAY_TOLERANCES:
        return abs((left.day - right.day).days) <= _DAY_TOLERANCES[tolerance]

    return abs(left.start_ns - right.start_ns) <= TOLERANCE_SECONDS[tolerance] * _SECOND


def _minutes_within(predicted: JsonValue, expected: float, seconds: int) -> bool:
    if isinstance(predicted, bool) or not isinstance(predicted, int | float):
        return False
    try:
        return abs(Fraction(predicted) - Fraction(expected)) * 60 <= seconds
    except (ValueError, OverflowError):
        return False


RELATIVE_TOLERANCE: Final = 1e-4
ZERO: Final = Fraction(0)
ONE: Final = Fraction(1)

# Parameters with several names; the services take comma-separated strings, the tool servers lists.
NAME_LISTS: Final = frozenset(
    {
        "tickers",
        "symbols",
        "tenors",
        "fields",
        "indicators",
        "stocks",
        "options",
        "contracts",
        "event_types",
        "status_in",
    }
)
# The parameters among these that the services read case-insensitively.
CASELESS_LISTS: Final = frozenset({"status_in"})

_WHOLE_PLACEHOLDER: Final = re.compile(r"\s*(\{.*\}|<.*>)\s*", re.DOTALL)
_INNER_PLACEHOLDER: Final = re.compile(r"\{[A-Za-z_][A-Za-z0-9_.-]*\}|<[A-Za-z_][A-Za-z0-9_.-]*>")


# ---- reference


@dataclass(frozen=True, slots=True)
class ReferenceRules:
    """Differences between the two public scorers."""

    braces_are_placeholders: bool  # whether `{...}` is a placeholder, as `<...>` is
    fold_list_case: bool  # whether list items are compared in upper case


CALLING_RULES: Final = ReferenceRules(braces_are_placeholders=False, fold_list_case=False)
PLANNING_RULES: Final = ReferenceRules(braces_are_placeholders=True, fold_list_case=True)


def text_of(value: JsonValue) -> str | None:
    """Return `str(value)`; None if this fails because the value is nested too deep or a number has
    too many digits.
    """
    try:
        return str(value)
    except (RecursionError, ValueError):
        return None


def reference_object(
    predicted: Mapping[str, JsonValue], expected: Mapping[str, JsonValue], rules: ReferenceRules
) -> float:
    """Return the mean score over the keys of `expected`, from 0 to 1; 1 if it has no keys."""
    if not expected:
        return 1.0

    scores: list[float] = []
    for key, value in expected.items():
        given = predicted.get(key)
        scores.append(0.0 if given is None else reference_value(given, value, rules))

    return math.fsum(scores) / len(scores)


def _is_reference_placeholder(expected: str, rules: ReferenceRules) -> bool:
    ends = expected[:1] + expected[-1:]
    return ends == "<>" or (rules.braces_are_placeholders and ends == "{}")


def reference_value(predicted: JsonValue, expected: JsonValue, rules: ReferenceRules) -> float:
    """Return the score of one value that is present, from 0 to 1."""
    if isinstance(expected, str) and _is_reference_placeholder(expected, rules):
        return 1.0
    if isinstance(expected, dict) and isinstance(predicted, dict):
        return reference_object(predicted, expected, rules)

    if isinstance(expected, list) and isinstance(predicted, list):
        left_set = _reference_items(predicted, rules)
        right_set = _reference_items(expected, rules)
        if left_set == right_set:
            return 1.0
        return len(left_set & right_set) / len(left_set | right_set)

    if isinstance(expected, int | float) and isinstance(predicted, int | float):
        return float(_near(predicted, expected))

    left = text_of(expected)
    right = text_of(predicted)
    return float(left is not None and right is not None and left.lower() == right.lower())


def reference_failures(
    predicted: Mapping[str, JsonValue], expected: Mapping[str, JsonValue], rules: ReferenceRules
) -> set[str]:
    """Return the names of the faults in the parameters: `missing_required_param` and
    `wrong_param_value`.
    """
    failures: set[str] = set()
    for key, value in expected.items():
        given = predicted.get(key)
        if given is None:
            failures.add("missing_required_param")
        elif isinstance(value, dict) and isinstance(given, dict):
            failures |= reference_failures(given, value, rules)
        elif reference_value(given, value, rules) < 1:
            failures.add("wrong_param_value")

    return failures


def _reference_items(items: list[JsonValue], rules: ReferenceRules) -> set[str | None]:
    texts = {text_of(item) for item in items}
    if not rules.fold_list_case:
        return texts
    return {None if text is None else text.upper() for text in texts}


def _near(a: float, b: float) -> bool:
    """Return whether two numbers differ by at most a relative 1e-4 of the larger; 0 equals only 0.
    Integers too large for a float must be equal.
    """
    try:
        return abs(a - b) <= RELATIVE_TOLERANCE * max(abs(a), abs(b))
    except OverflowError:
        return a == b


# ---- paper


@dataclass(frozen=True, slots=True)
class ObjectComparison:
    """Outcome of a recursive comparison. `missing` (absent or null) and `wrong` are dotted
    paths.
    """

    score: Fraction | None  # mean over comparable keys, from 0 to 1; None without any
    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


def is_placeholder(value: JsonValue) -> bool:
    """Return whether an expected value is `{...}` or `<...>`, or contains a `{name}` or `<name>`
    that only a run can fill.
    """
    if not isinstance(value, str):
        return False
    return bool(_WHOLE_PLACEHOLDER.fullmatch(value) or _INNER_PLACEHOLDER.search(value))


def compare_objects(
    predicted: Mapping[str, JsonValue], expected: Mapping[str, JsonValue]
) -> ObjectComparison:
    """Compare the comparable keys of `expected`, each with equal weight. Other keys of `predicted`
    are ignored.
    """
    total = ZERO
    count = 0
    missing: list[str] = []
    wrong: list[str] = []
    for key, value in expected.items():
        if _is_comparable(value):
            part = _compare_key(predicted.get(key), value, key)
            total += part.score or ZERO
            count += 1
            missing += part.missing
            wrong += part.wrong

    return ObjectComparison(total / count if count else None, tuple(missing), tuple(wrong))


def _compare_key(predicted: JsonValue, expected: JsonValue, key: str) -> ObjectComparison:
    """Compare one key. Null is treated as absent, and is right only if null is expected."""
    if predicted is None:
        return ObjectComparison(ONE) if expected is None else ObjectComparison(ZERO, missing=(key,))

    if isinstance(expected, dict) and isinstance(predicted, dict) and expected:
        inner = compare_objects(predicted, expected)
        missing = tuple(f"{key}.{path}" for path in inner.missing)
        wrong = tuple(f"{key}.{path}" for path in inner.wrong)
        return ObjectComparison(inner.score, missing, wrong)

    score = _compare_value(predicted, expected, key)
    return ObjectComparison(score) if score == 1 else ObjectComparison(score, wrong=(key,))


def _is_comparable(expected: JsonValue) -> bool:
    """Return False for a placeholder, and for a non-empty list or object that contains nothing
    else.
    """
    if isinstance(expected, dict | list):
        values = expected.values() if isinstance(expected, dict) else expected
        return not expected or any(_is_comparable(value) for value in values)
    return not is_placeholder(expected)


def _compare_value(predicted: JsonValue, expected: JsonValue, key: str) -> Fraction:
    if key in NAME_LISTS:
        fold_case = key in CASELESS_LISTS
        predicted = _names_of(predicted, fold_case)
        expected = _names_of(expected, fold_case)

    if isinstance(expected, list):
        return _jaccard(predicted, expected) if isinstance(predicted, list) else ZERO
    if isinstance(expected, dict):  # with keys on both sides it is compared key by key, not here
        return ONE if isinstance(predicted, dict) else ZERO

    return ONE if _same_scalar(predicted, expected) else ZERO


def _names_of(value: JsonValue, fold_case: bool) -> JsonValue:
    """Return a comma-separated string as the list of its trimmed parts, and any other value
    unchanged. With `fold_case`, names are converted to upper case.
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",")]
        value = [part for part in parts if part]
    if fold_case and isinstance(value, list):
        return [item.upper() if isinstance(item, str) else item for item in value]
    return value


def _jaccard(predicted: Sequence[JsonValue], expected: Sequence[JsonValue]) -> Fraction:
    """Return the Jaccard overlap of two lists as sets. Each expected placeholder excuses one
    otherwise unexpected item.
    """
    required = {_item_key(item) for item in expected if _is_comparable(item)}
    blanks = sum(1 for item in expected if not _is_comparable(item))
    given = {_item_key(item) for item in predicted}
    surplus = max(0, len(given - required) - blanks)
    union = len(required) + surplus

    return Fraction(len(required & given), union) if union else ONE


def _item_key(item: JsonValue) -> str:
    """Return a key that is equal for equal items. At any depth, strings are trimmed, 1 equals 1.0,
    and true is not a number.
    """
    return json.dumps(_normalised_item(item), sort_keys=True)


def _normalised_item(item: JsonValue) -> JsonValue:
    if isinstance(item, dict):
        return {key: _normalised_item(part) for key, part in item.items()}
    if isinstance(item, list):
        return [_normalised_item(part) for part in item]
    if isinstance(item, str):
        return item.strip()
    if isinstance(item, float) and item.is_integer():
        return int(item)

    return item


def _same_scalar(predicted: JsonValue, expected: JsonValue) -> bool:
    if isinstance(expected, bool) or isinstance(predicted, bool) or expected is None:
        return type(predicted) is type(expected) and bool(predicted == expected)
    if isinstance(expected, int | float):
        return isinstance(predicted, int | float) and _near(predicted, expected)
    return isinstance(predicted, str) and _same_text(predicted.strip(), str(expected).strip())


def _same_text(predicted: str, expected: str) -> bool:
    """Return whether two strings are equal or spell the same time. Times are compared as values; a
    date never equals a date with a time.
    """
    if predicted == expected:
        return True
    left = instant_of(predicted)
    right = instant_of(expected)
    return left is not None and right is not None and left == right
