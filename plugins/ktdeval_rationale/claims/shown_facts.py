"""Facts that a model was shown in a step: figures by subject and field, from JSON and from text.

JSON comes in many shapes: tables of columns and rows, objects keyed by label, or one object for one
asset. All shapes are read as facts, each with a subject, a field and a number. A subject is an
asset's label, the name of an index or a sector, or `""` for the account and the market.
"""

from __future__ import annotations

import contextlib
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ktdeval.observation import shown_state, table_rows
from ktdeval.values import loads_strict
from ktdeval_rationale.claims.text_figures import TextFigure, normalise_text, printed_numbers

LABEL_FIELDS = ("stock_id", "symbol", "ticker", "code", "asset", "instrument", "index", "sector")
DAY_FIELDS = ("day", "date", "datetime", "time")
_BARS = ("open", "high", "low", "close", "volume")
_TICKER = re.compile(r"(?=[^a-z]*[A-Z0-9])[A-Z0-9][A-Z0-9._-]{0,14}|asset_\d+")
_LARGEST_JSON = 8_000_000  # maximum length in characters of a text that is parsed as JSON
_PAST_SECTIONS = ("last_step", "outcomes")  # names of fields whose figures refer to earlier days


@dataclass(frozen=True, slots=True)
class ShownNumbers:
    """All numbers in the texts that were shown."""

    values: Sequence[float]  #: sorted

    def has(self, figure: TextFigure) -> bool:
        """Return whether a shown number rounds to a figure. A per cent figure also matches a
        fraction of 1.
        """
        sizes = (figure.value, -figure.value)
        if not figure.is_signed:
            sizes = (abs(figure.value), -abs(figure.value))

        factors = (1.0, 0.01) if figure.is_percent else (1.0, 100.0)
        scaled = product(sizes, factors)
        return any(self._near(size * factor, figure.half_unit * factor) for size, factor in scaled)

    def _near(self, value: float, half_unit: float) -> bool:
        room = half_unit * (1 + 1e-9) + 1e-12
        at = bisect_left(self.values, value - room)
        return at < len(self.values) and self.values[at] <= value + room


@dataclass(frozen=True)
class ShownFacts:
    """Facts that were shown in a step."""

    #: distinct numbers, keyed by subject and field
    facts: Mapping[str, Mapping[str, Sequence[float]]]
    #: closes by day, oldest first, keyed by subject
    closes: Mapping[str, Sequence[float]]
    #: words, such as `suspended`, keyed by subject and field
    words: Mapping[str, Mapping[str, str]]
    candidates: frozenset[str]  #: subjects in the table of candidates; empty without such a table
    numbers: ShownNumbers
    fields: frozenset[str] = field(default_factory=frozenset)  #: numbers of all subjects

    @property
    def labels(self) -> tuple[str, ...]:
        """Subjects with a name."""
        return tuple(sorted(filter(None, {*self.facts, *self.words})))

    def values(self, subject: str, names: Iterable[str]) -> list[float]:
        """Return the numbers that a subject has in some fields."""
        own = self.facts.get(subject, {})
        found: list[float] = []
        for name in names:
            found += own.get(name, ())
        return found

    @classmethod
    def of(cls, shown_texts: Sequence[str], state: Any = None) -> ShownFacts:
        """Read the texts shown in a step, and the state if it is available as JSON values."""
        builder = _Builder()
        if state:
            builder.read_section("", state)

        numbers: list[float] = []
        for text in shown_texts:
            plain = normalise_text(text)
            numbers += [value for value, _ in printed_numbers(plain)]
            for value in _json_values(text):
                builder.read_section("", value)
                numbers += _plain_numbers(value)

        if state:
            numbers += _plain_numbers(state)
        return builder.build(numbers)


@dataclass(frozen=True)
class _Builder:
    """Accumulates facts while texts are read."""

    facts: dict[str, dict[str, dict[float, None]]] = field(default_factory=dict)
    closes: dict[str, dict[str, float]] = field(default_factory=dict)
    words: dict[str, dict[str, str]] = field(default_factory=dict)
    candidates: set[str] = field(default_factory=set)

    def build(self, numbers: Sequence[float]) -> ShownFacts:
        facts = {}
        fields: set[str] = set()
        for subject, own in self.facts.items():
            facts[subject] = {name: tuple(values) for name, values in own.items()}
            fields.update(own)

        closes = {label: tuple(days.values()) for label, days in self.closes.items()}
        return ShownFacts(
            facts=facts,
            closes=closes,
            words=self.words,
            candidates=frozenset(self.candidates),
            numbers=ShownNumbers(sorted(numbers)),
            fields=frozenset(fields),
        )

    def read_section(self, name: str, value: Any, subject: str = "") -> None:
        """Read a JSON value under the given name."""
        if name in _PAST_SECTIONS:
            return

        rows = _rows(value)
        if rows:
            self._read_rows(name, rows, subject)
        elif isinstance(value, Mapping):
            self._read_object(value, subject)

    def _read_object(self, value: Mapping[str, Any], subject: str) -> None:
        label = _label_of(value)
        own = label or subject
        is_by_label = bool(value) and all(
            isinstance(part, Mapping) and _TICKER.fullmatch(str(key)) for key, part in value.items()
        )
        for key, part in value.items():
            if is_by_label:
                self._read_object(part, str(key))
            elif isinstance(part, Mapping | list):
                self.read_section(str(key), part, own)
            else:
                self._add(own, str(key), part)

    def _read_rows(self, name: str, rows: Sequence[Mapping[str, Any]], subject: str) -> None:
        dated = any(key in rows[0] for key in DAY_FIELDS)
        last: dict[str, Mapping[str, Any]] = {}
        for row in rows:
            label = _label_of(row) or subject
            if name == "candidates":
                self.candidates.add(label)
            if not dated:
                self._read_object({**row}, label)
            elif any(key in row for key in ("close", "close_cny")):
                self._add_close(label, row)
                last[label] = row

        # Of daily bars, only those of the last day are current figures.
        for label, row in last.items():
            for key, part in row.items():
                self._add(label, str(key), part)

    def _add_close(self, label: str, row: Mapping[str, Any]) -> None:
        day = next(str(row[key]) for key in DAY_FIELDS if key in row)
        close = row.get("close", row.get("close_cny"))
        number = _number(close)
        if number is not None:
            self.closes.setdefault(label, {}).setdefault(day, number)

    def _add(self, subject: str, name: str, value: Any) -> None:
        if isinstance(value, str):
            if name not in LABEL_FIELDS:
                self.words.setdefault(subject, {})[name] = value
        elif isinstance(value, bool):
            self.words.setdefault(subject, {})[name] = str(value).lower()
        else:
            number = _number(value)
            if number is not None:
                own = self.facts.setdefault(subject, {})
                own.setdefault(name.lower(), {})[number] = None


def _rows(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list):
        return [row for row in value if isinstance(row, Mapping)]
    try:
        return table_rows(value)
    except (TypeError, ValueError):  # a table from another source, with rows of unequal lengths
        return []


def _label_of(row: Mapping[str, Any]) -> str:
    for name in LABEL_FIELDS:
        if isinstance(row.get(name), str):
            return str(row[name])
    return ""


def _json_values(text: str) -> Iterator[Any]:
    """Yield the JSON in a shown text, which is either the whole text or its last block."""
    if len(text) > _LARGEST_JSON:
        return
    if text.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            yield loads_strict(text)

        return

    state = shown_state(text)
    if state:
        yield state


def _number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def _plain_numbers(value: Any) -> list[float]:
    """Return all numbers of a JSON value."""
    found: list[float] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple):
            waiting += part
        else:
            number = _number(part)
            if number is not None:
                found.append(number)

    return found
