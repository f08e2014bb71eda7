"""Per-step version of a submission schema, narrowed to the rules of the step.

The plain schema of a form is the same at every step. An engine that enforces it accepts an empty
list, and labels that belong to no asset. The per-step schema lists the labels that the step shows,
the number of decisions that it asks for, and the possible sides and sizes. It is built only from
the state that the prompt shows, so it can't reveal more.

For decisions it is the schema of the tool, since their assets are the same at every step. For
orders it is only held to, and not shown: providers cache a prompt from its beginning, which is the
tools, so a tool with the labels of a day has every following token read again at every step.

The size of the schema is limited by what providers can compile. OpenAI ("Structured model outputs",
"Supported schemas") allows 1,000 enumeration values per schema, and 15,000 characters in the values
of an enumeration with more than 250 values. Gemini rejects lists whose lengths add up to more than
about 960. If a limit is exceeded, the schema accepts labels by a pattern, or any text. A reader
validates a submission against the plain schema and the rules of its task, whatever an engine has
accepted.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.observation.state import ObservedState
from ktdeval.values.documents.strict_json import JsonValue, Schema, plain

#: maximum number of labels in an enumeration. With more than 250, OpenAI limits their characters,
#: and they take more of the prompt than the table that shows them.
MAX_LABELS = 250
MAX_VALUES = 1_000  #: maximum number of values in all enumerations of a schema
MAX_ITEMS = 900  #: maximum length of a list

_WEIGHT_DECIMALS = 3  # decimals of a limit; a limit with more decimals is rounded up
# A holding above the limit raises the bound to the next tenth, so that the bound rarely changes.
_HELD_STEPS = 10
# An order fills at the next price, which may be lower than the rounded price that is shown.
_ROOM = 4.0
#: larger bounds are omitted, since 10^9 would read as a timestamp in seconds since 1970
_MAX_BOUND = 10**8
#: maps every digit to 0, byte by byte; the UTF-8 bytes of other characters are never digits
_DIGITS_AS_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_NO_LENGTHS = {"minLength", "maxLength"}


def with_labels(schema: Schema, labels: Sequence[str]) -> Schema:
    """Return a string schema that accepts the given labels, in order. If an enumeration would be
    too long, return a schema with the labels' pattern instead, or the unchanged schema if they have
    no pattern.
    """
    return _narrow_schema(schema, _label_rule(labels))


def _label_rule(labels: Sequence[str]) -> Schema:
    """Return a rule that accepts strings equal to one of the labels; empty if no rule can express
    this.
    """
    if 0 < len(labels) <= MAX_LABELS:
        return {"enum": [*labels]}

    pattern = label_pattern(labels)
    if pattern is None:
        return {}
    return {"pattern": pattern}


def _narrow_schema(schema: Schema, rule: Schema) -> Schema:
    """Return a string schema with a rule for labels in place of its length bounds."""
    if not rule:
        return schema

    fitting = {word: value for word, value in schema.items() if word not in _NO_LENGTHS}
    return {**fitting, **_copied(rule)}


def _copied(schema: Mapping[str, Any]) -> Schema:
    """Return a schema whose parts can be changed. Several times faster than `copy.deepcopy`."""
    return {word: plain(rule) for word, rule in schema.items()}


def label_pattern(labels: Sequence[str]) -> str | None:
    """Return the pattern of labels that differ only in digits, such as `^asset_[0-9]{4}$`. Returns
    None if the labels differ in more than digits, if a label has several lines, or if the list is
    empty.
    """
    # all labels at once, since a step may show hundreds
    text = "\n".join(labels).encode("utf-8", "surrogatepass")
    forms = text.translate(_DIGITS_AS_ZERO).split(b"\n")
    if not labels or len(forms) != len(labels) or len(set(forms)) != 1:
        return None

    pattern = ""
    for part in re.findall("0+|[^0]+", forms[0].decode("utf-8", "surrogatepass")):
        pattern += f"[0-9]{{{len(part)}}}" if part[0] == "0" else re.escape(part)

    return f"^{pattern}$"


def shown_labels(state: ObservedState) -> list[str]:
    """Return the labels of the assets that a state shows, without duplicates, in display order.
    Empty if the state lists no assets to choose from, in which case an order may refer to others.
    """
    if not state.sections.keys() & {"candidates", "universe"}:
        return []

    by_section: dict[str, Iterable[str]] = {
        "positions": state.positions,
        "candidates": state.candidates,
        "universe": state.universe,
    }
    labels: dict[str, None] = {}
    for name in state.sections:
        labels.update(dict.fromkeys(by_section.get(name, ())))

    return list(labels)


# ---- decisions


def decisions_of(schema: Mapping[str, Any], labels: Sequence[str]) -> Schema:
    """Return a schema for decisions that requires one decision for each label."""
    made = _copied(schema)
    decisions = made["properties"]["decisions"]
    if 0 < len(labels) <= MAX_ITEMS:
        decisions |= {"minItems": len(labels), "maxItems": len(labels)}

    fields = decisions["items"]["properties"]
    fields["stock_id"] = with_labels(fields["stock_id"], labels)
    return made


# ---- orders


def orders_of(schema: Mapping[str, Any], state: ObservedState, *, shorts: bool) -> Schema:
    """Return a schema for orders, bounded by what a state shows: the labels, their number, the
    sides and the sizes.

    `shorts` is True if an asset that is not held can be sold. Each bound is a round number, so that
    it stays the same over many steps, and no order that the rules allow exceeds it.
    """
    made = _copied(schema)
    orders = made["properties"]["orders"]
    labels = shown_labels(state)
    if 0 < len(labels) <= MAX_ITEMS:
        orders["maxItems"] = len(labels)

    nothing_to_sell = "positions" in state.sections and not state.positions and not shorts
    forms = orders["items"].get("anyOf", [orders["items"]])
    _narrow_labels(forms, labels)
    for order in forms:
        fields = order["properties"]
        if nothing_to_sell:
            fields["side"]["enum"] = ["BUY"]
        if "target_weight" in fields:
            _bound_weight(fields["target_weight"], state)
        if "shares" in fields:
            _bound_shares(fields["shares"], state)

    return made


def _narrow_labels(forms: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> None:
    """List the labels in the first form of an order. The other forms use the labels' pattern if one
    exists: hundreds of labels in each form would cost more tokens than the rest of the schema.
    """
    pattern = label_pattern(labels)
    rule = _label_rule(labels)
    for order in forms:
        fields = order["properties"]
        fields["stock_id"] = _narrow_schema(fields["stock_id"], rule)
        rule = {} if pattern is None else {"pattern": pattern}


def _bound_weight(field: dict[str, Any], state: ObservedState) -> None:
    """Bound a target weight by the limit for a single weight. If the largest weight held is
    greater, it is the bound, since it may be reduced in parts.
    """
    limit = state.limits.max_weight
    if limit is None:
        return

    largest = max((abs(position.weight or 0.0) for position in state.positions.values()), default=0)
    if largest > limit:
        bound = math.ceil(round(largest * _HELD_STEPS, 6)) / _HELD_STEPS
    else:
        scale = 10**_WEIGHT_DECIMALS
        bound = math.ceil(round(limit * scale, 6)) / scale

    # The first range is the widest; the others follow outwards for each sign.
    inner, *outer = _truncated_bounds(min(field["maximum"], bound))
    can_be_short = field["minimum"] < 0
    ranges = [(-inner if can_be_short else field["minimum"], inner)]
    for low, high in itertools.pairwise([inner, *outer]):
        ranges.append((low, high))
        if can_be_short:
            ranges.append((-high, -low))

    kind = field.pop("type")
    alternatives = [{"type": kind, "minimum": low, "maximum": high} for low, high in ranges]
    if len(alternatives) == 1:
        field |= alternatives[0]
        return

    del field["minimum"], field["maximum"]
    field["anyOf"] = alternatives


def _truncated_bounds(bound: float) -> list[float]:
    """Return a bound and its truncations after each decimal, such as 0.2 and 0.25. They are needed
    because llguidance 1.9 rejects 0.2 in a range that ends at 0.25, but accepts it if a range ends
    at 0.2.
    """
    scales = [10**decimals for decimals in range(1, _WEIGHT_DECIMALS + 1)]
    cuts = [math.floor(round(bound * scale, 6)) / scale for scale in scales]
    return sorted({cut for cut in cuts if cut > 0})


def _bound_shares(field: dict[str, Any], state: ObservedState) -> None:
    """Bound a number of shares by the number held, or by the number of shares of the cheapest asset
    that the maximum weight buys, rounded up to the next power of ten.
    """
    prices = [price for price in state.prices.values() if price > 0]
    nav = state.account.nav
    if not state.candidates or not prices or nav is None or nav <= 0:
        return

    weight = state.limits.max_weight or 1.0
    most = _ROOM * nav * weight / min(prices)
    for position in state.positions.values():
        most = max(most, abs(position.shares or 0.0))

    bound = 10 ** math.ceil(math.log10(max(most, 1.0)))
    if bound <= _MAX_BOUND:
        field["maximum"] = min(field["maximum"], bound)


# ---- tools


def with_schema(tool: ToolSpec, parameters: Schema) -> ToolSpec:
    """Return a tool with a different schema, or the unchanged tool if the schema has more
    enumeration values than providers accept.
    """
    if not is_compilable(parameters):
        return tool
    return ToolSpec(tool.name, tool.description, parameters)


def is_compilable(schema: Schema) -> bool:
    """Return whether a schema has no more enumeration values than providers accept."""
    return _values_in(schema) <= MAX_VALUES


def _values_in(schema: Any) -> int:
    """Return the total number of values in a schema's enumerations."""
    count = 0
    parts: Iterable[Any] = schema
    if isinstance(schema, dict):
        own = schema.get("enum")
        if isinstance(own, list):
            count = len(own)

        parts = schema.values()

    for part in parts:
        if isinstance(part, dict | list):
            count += _values_in(part)

    return count


# ---- the record


class OfferedSchemas:
    """Tool schemas as last offered in a step; initially the episode's schemas."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._by_name = {tool.name: dict(tool.parameters) for tool in tools}

    def record_changes(self, tools: Iterable[ToolSpec]) -> dict[str, JsonValue]:
        """Return the schemas of tools whose offered schema has changed, keyed by tool name."""
        schemas: dict[str, JsonValue] = {}
        for tool in tools:
            if self._by_name.get(tool.name) != tool.parameters:
                # A copy, since an agent could change a schema in place.
                self._by_name[tool.name] = _copied(tool.parameters)
                schemas[tool.name] = self._by_name[tool.name]

        return schemas
