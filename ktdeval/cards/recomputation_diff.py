"""Compare recorded values with recomputed values, and report the first difference by line and
field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Mapping, Sequence
from itertools import zip_longest
from typing import cast

import msgspec

from ktdeval.cards.json_paths import JsonPath, line_of, path_text
from ktdeval.stats.data_limits import ONE_DAY
from ktdeval.trading.ledger import StepRecord
from ktdeval.values.documents.strict_json import JsonValue, dumps_pretty
from ktdeval.values.documents.typed_json import to_plain

#: Card fields that may differ between two equal runs, and that comparisons therefore skip
UNVERIFIED = frozenset({"provenance"})

_ENCODER = msgspec.msgpack.Encoder(order="sorted")
_ABSENT = object()
# far above the floating-point error in sums, far below any difference that matters on a card
_RELATIVE = 1e-9
_ABSOLUTE = 1e-12
_Same = Callable[[object, object], bool]


# ---- differences


def first_difference(
    recorded: JsonValue, recomputed: JsonValue, text: str | None = None
) -> str | None:
    """Return the first differing value, in file order, as `line 12: metrics.sharpe.value: recorded
    1.9, recomputed 0.9`; None if all values are equal.

    Values are equal if their JSON is equal: `1` differs from `1.0`, and `0.0` from `-0.0`. `text`
    is the string from which `recorded` was read; by default it is the `dumps_pretty` form in which
    cards are written.
    """
    return _difference(recorded, recomputed, text, _is_same)


def _difference(
    recorded: JsonValue, recomputed: JsonValue, text: str | None, is_same: _Same
) -> str | None:
    difference = _first_path(recorded, recomputed, (), is_same)
    if difference is None:
        return None

    path, contrast = difference
    source = dumps_pretty(recorded) if text is None else text
    return f"line {line_of(source, path)}: {path_text(path)}: {contrast}"


def card_difference(
    recorded: Mapping[str, JsonValue], recomputed: Mapping[str, JsonValue], text: str | None = None
) -> str | None:
    """Return the `first_difference` between two cards. The comparison ignores the fields that can't
    be verified (`UNVERIFIED`), and the last bits of figures, since sums may differ there on another
    processor.

    A recorded card written before `deciders` existed must still match the labels and eligibility
    that follow from its deciders. An interval that was recorded before one day could leave none is
    not compared (`has_earlier_intervals`). One written before `assumptions` existed must
    still match the eligibility that follows from them, and the label on holdings without a bar. One
    written before `rank_correlation` existed must still match the label and eligibility that follow.
    One written before `BY_PRICES` existed need not have that label, which follows from its task.
    """
    recomputed = cast("Mapping[str, JsonValue]", _with_earlier_intervals(recorded, recomputed))
    comparable = {name: value for name, value in recomputed.items() if name not in UNVERIFIED}
    for name in UNVERIFIED & recorded.keys():
        comparable[name] = recorded[name]

    if "deciders" in comparable.keys() - recorded.keys():
        del comparable["deciders"]
        comparable["episodes"] = _without_part(comparable["episodes"], "served")

    if "assumptions" in comparable.keys() - recorded.keys():
        del comparable["assumptions"]
        comparable["episodes"] = _without_part(comparable["episodes"], "stale")
        comparable["labels"] = _without(comparable["labels"], _REPEATED_LABELS)

    labels = cast("Sequence[str]", recorded.get("labels") or ())
    if "labels" in comparable and BY_PRICES not in labels:
        comparable["labels"] = _without(comparable["labels"], frozenset({BY_PRICES}))

    if "rank_correlation" in comparable.keys() - recorded.keys():
        del comparable["rank_correlation"]

    return _difference(recorded, comparable, text, is_close)


def has_earlier_intervals(
    recorded: Mapping[str, JsonValue], recomputed: Mapping[str, JsonValue]
) -> bool:
    """Return whether a card has an interval that today's rule leaves out because of one day. Such a
    card is verified by the rule of its time (`Resampling.max_day_share`).
    """
    return _with_earlier_intervals(recorded, recomputed) != recomputed


def _with_earlier_intervals(recorded: object, recomputed: object) -> object:
    """Return a recomputed value in which intervals that one day leaves out are as recorded."""
    if isinstance(recorded, Mapping) and isinstance(recomputed, Mapping):
        reason = recomputed.get("reason")
        if (
            isinstance(reason, str)
            and reason.startswith(ONE_DAY)
            and recorded.get("reason") != reason
        ):
            return recorded
        return {
            name: _with_earlier_intervals(recorded[name], value) if name in recorded else value
            for name, value in recomputed.items()
        }
    are_lists = isinstance(recorded, list | tuple) and isinstance(recomputed, list | tuple)
    if are_lists and len(recorded) == len(recomputed):  # type: ignore[arg-type]
        pairs = zip(recorded, recomputed, strict=True)  # type: ignore[call-overload]
        return [_with_earlier_intervals(one, other) for one, other in pairs]
    return recomputed


def _without_part(episodes: JsonValue, part: str) -> JsonValue:
    """Return episodes in the form used on cards written before they had the field `part`."""
    before: list[JsonValue] = []
    for episode in cast("Sequence[Mapping[str, JsonValue]]", episodes):
        before.append({name: value for name, value in episode.items() if name != part})

    return before


_REPEATED_LABELS = frozenset({"fills at a known price", "mostly rejected"})
"""Labels that a reader of a card without `assumptions` can derive from its task or orders: a card
hides nothing by their absence. Fills that exclude a card from ranking change its eligibility, too.
"""


BY_PRICES = "identifiable by its prices"
"""Label that follows from a task's mask and mode alone. Cards that were written before it existed
lack it; it is added when they are read.
"""


def _without(labels: JsonValue, newer: Container[str]) -> JsonValue:
    """Return labels in the form used on cards written before the `newer` ones existed."""
    listed = cast("Sequence[str]", labels)
    return [label for label in listed if label not in newer]


def value_difference(recorded: object, recomputed: object) -> str | None:
    """Return the first difference between two typed values or JSON values, without a line number:
    `exchanges[0].sent[1].content: recorded "…", recomputed "…"`.
    """
    if is_same_json(recorded, recomputed):
        return None

    difference = _first_path(to_plain(recorded), to_plain(recomputed), ())
    if difference is None:
        return None

    path, contrast = difference
    return f"{path_text(path) if path else 'entry'}: {contrast}"


def steps_difference(
    recorded: Sequence[StepRecord], recomputed: Sequence[StepRecord]
) -> str | None:
    """Return the first difference between the step records of two ledgers, on one line such as
    `line 18 (step 17, 2024-04-26): orders[0].filled_shares: recorded 100, recomputed 200`. Step k
    is on line k + 1 of a JSONL file, and in row k of a table.
    """
    for step, (old, new) in enumerate(zip(recorded, recomputed, strict=False)):
        if is_same_json(old, new):
            continue

        difference = _first_path(to_plain(old), to_plain(new), ())
        if difference is not None:
            path, contrast = difference
            field = path_text(path) if path else "record"
            return f"line {step + 1} (step {step}, {old.filled_on}): {field}: {contrast}"

    if len(recorded) != len(recomputed):
        return (
            f"line {min(len(recorded), len(recomputed)) + 1}: recorded {len(recorded)} steps,"
            f" recomputed {len(recomputed)}"
        )

    return None


def _first_path(
    left: object, right: object, path: tuple[str | int, ...] = (), is_same: _Same | None = None
) -> tuple[JsonPath, str] | None:
    """Return the path of the first difference, and a text `recorded …, recomputed …`."""
    if not path and is_same_json(left, right):
        return None

    pairs = _paired_members(left, right)
    if pairs is None:
        if (is_same or _is_same)(left, right):
            return None
        return path, f"recorded {_brief(left)}, recomputed {_brief(right)}"

    for key, old, new in pairs:
        difference = _first_path(old, new, (*path, key), is_same)
        if difference is not None:
            return difference

    return None


def _paired_members(left: object, right: object) -> list[tuple[str | int, object, object]] | None:
    """Return the members of two objects paired by key, or of two arrays paired by index; None for
    other values.
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        # Files are written with sorted keys, so this is file order.
        keys = sorted({*left, *right})
        return [(key, left.get(key, _ABSENT), right.get(key, _ABSENT)) for key in keys]

    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        items = zip_longest(left, right, fillvalue=_ABSENT)
        return [(index, old, new) for index, (old, new) in enumerate(items)]

    return None


def is_same_json(left: object, right: object) -> bool:
    """Return whether two values are the same JSON. Most values are the same, and packing both of
    them is much faster than walking through them. MessagePack makes the same distinctions as JSON
    (1 from 1.0, 0.0 from -0.0) and supports NaN.
    """
    try:
        return _ENCODER.encode(left) == _ENCODER.encode(right)
    except (TypeError, ValueError, OverflowError):  # not all parts are plain values
        return False


def _is_same(left: object, right: object) -> bool:
    if left is _ABSENT or right is _ABSENT:
        return left is right
    # As in JSON, 1 differs from 1.0 and from true, and 0.0 from -0.0.
    if type(left) is type(right):
        return repr(left) == repr(right) if isinstance(left, float) else left == right
    return json.dumps(left) == json.dumps(right)


def is_close(left: object, right: object) -> bool:
    """Return whether two values are the same JSON, ignoring the last bits of floats. These may
    depend on the summation order or the library.
    """
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return _is_same(left, right)


def _brief(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 80 else f"{text[:77]}…"
