"""Slots in texts and arguments, which are filled from facts: `{first:spoken}`, `{names:listed}`,
`{limit:dollars}`.

A slot names a fact, or a part of a fact (`{days.first}`). It may end with a formatter: a name in
`FORMATTERS` or, for days, a `strftime` format such as `%B`. An argument that consists of one slot
gets the fact itself, so that numbers stay numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from string import Formatter
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

from ktdeval.errors import DataError
from ktdeval.values import JsonValue
from ktdeval_qfinzero.benchmark.market_facts import DayRange, Random, pick
from ktdeval_qfinzero.timestamps import SECOND, moment_text

_NEW_YORK: Final = ZoneInfo("America/New_York")
_ONE_SLOT: Final = re.compile(r"\{([\w.\[\]]+)(?::(\w+))?\}")


def clock_text(moment_ns: int) -> str:
    """Return the time of day in New York, such as `9:30 a.m.`."""
    local = datetime.fromtimestamp(moment_ns // SECOND, UTC).astimezone(_NEW_YORK)
    hour = (local.hour - 1) % 12 + 1
    half = "a.m." if local.hour < 12 else "p.m."
    return f"{hour}:{local.minute:02d} {half}"


_RANGES: Final = ("from {a} to {b}", "between {a} and {b}, both included", "from {a} through {b}")


def _spoken(chance: Random, day: date) -> str:
    """Write a day in one of the usual forms."""
    forms = (
        f"{day:%B} {day.day}, {day.year}",
        f"{day:%b} {day.day}, {day.year}",
        f"{day.day} {day:%B} {day.year}",
        day.isoformat(),
    )
    return pick(chance, forms)


def _range(chance: Random, days: DayRange) -> str:
    form = pick(chance, _RANGES)
    first = _spoken(chance, days.first)
    last = _spoken(chance, days.last)
    return form.format(a=first, b=last)


def _listed_names(_: Random, names: Sequence[str]) -> str:
    """Write `A`, `A and B`, or `A, B and C`."""
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _dollars(_: Random, value: float) -> str:
    """Write `$4.50`, or `$225` if the amount is a whole number of dollars."""
    if value == round(value):
        return f"${value:,.0f}"
    return f"${value:,.2f}"


FORMATTERS: Final[Mapping[str, Callable[[Random, Any], str]]] = MappingProxyType(
    {
        "spoken": _spoken,
        "range": _range,
        "listed": _listed_names,
        "joined": lambda _, names: ",".join(names),
        "commas": lambda _, names: ", ".join(names),
        "ands": lambda _, names: " and ".join(names),
        "plural": lambda _, count: "s" if count > 1 else "",
        "dollars": _dollars,
        "moment": lambda _, moment_ns: moment_text(moment_ns),
        "day": lambda _, moment_ns: moment_text(moment_ns)[:10],
        "clock": lambda _, moment_ns: clock_text(moment_ns),
        "option": lambda _, right: "call" if right == "C" else "put",
        "options": lambda _, right: "calls" if right == "C" else "puts",
        "one": lambda chance, rows: pick(chance, rows).symbol,
        "one_name": lambda chance, rows: pick(chance, rows).name,
    }
)
"""Formatters for facts. They get the random generator, since some draw a form (`spoken`, `range`)
or one of several stocks (`one`, `one_name`).
"""


class SlotWording(Formatter):
    """Filler of slots with facts and with phrases (`{name:phrase}`), whose own slots are filled
    too. `facts` may grow as an item's facts are drawn.
    """

    def __init__(
        self, chance: Random, phrases: Mapping[str, Sequence[str]], facts: Mapping[str, Any]
    ) -> None:
        self.chance = chance
        self.facts = dict(facts)
        self._phrases = phrases

    def say(self, wordings: str | Sequence[str]) -> str:
        """Fill all wordings and return one of them, which is drawn if there are several."""
        if isinstance(wordings, str):
            wordings = (wordings,)

        # Filling also draws. All wordings are filled, so that later draws for the calls do not
        # depend on the chosen wording.
        filled = [self.format(wording) for wording in wordings]
        if len(filled) == 1:
            return filled[0]
        return pick(self.chance, filled)

    def fill(self, value: Any) -> Any:
        """Fill every string in a value of lists and mappings. Raises DataError if a slot names an
        unknown fact or formatter.
        """
        if isinstance(value, str):
            slot = _ONE_SLOT.fullmatch(value)
            if slot is None or slot[2] is not None:
                return self.format(value)

            fact, _ = self.get_field(slot[1], (), {})
            return _plain_fact(fact)

        if isinstance(value, Mapping):
            return {name: self.fill(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.fill(part) for part in value]

        return value

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG002 - as Formatter calls it
        """Return the fact, or part of a fact, that a slot names. Raises DataError if it
        is missing.
        """
        named = {**self._phrases, **self.facts}
        try:
            return super().get_field(field_name, args, named)
        except (LookupError, AttributeError) as error:
            known = ", ".join(self.facts)
            raise DataError(f"no fact {field_name!r}; known are: {known}") from error

    def format_field(self, value: Any, format_spec: str) -> str:
        """Format a fact with a formatter in `FORMATTERS`, or with a format of Python's `format`."""
        if not format_spec:
            return format(_plain_fact(value))
        if format_spec == "phrase":
            return self.say(value)

        formatter = FORMATTERS.get(format_spec)
        if formatter is not None:
            return formatter(self.chance, value)
        if not isinstance(value, date | int):
            known = ", ".join(FORMATTERS)
            raise DataError(f"no formatter {format_spec!r}; known are: phrase, {known}")

        return format(value, format_spec)


def _plain_fact(value: Any) -> JsonValue:
    """Return a fact as JSON: a day in ISO form, a contract or an instrument as its symbol."""
    if isinstance(value, date):
        return value.isoformat()
    plain: JsonValue = getattr(value, "symbol", value)
    return plain
