"""Texts and arguments with slots, filled from facts: `{first:spoken}`, `{names:listed}`, `{limit:dollars}`.

A slot is a fact, or a part of one (`{days.first}`), and perhaps a formatter of a closed set; `%B` and other forms of `strftime`
format a day. A text that is one slot and nothing else gives the value itself, so that arguments keep their types.
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
from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.benchmark.draws import Days, Random, pick
from ktdeval_qfinzero.moments import SECOND, moment_text

_NEW_YORK: Final = ZoneInfo("America/New_York")
_ONE_SLOT: Final = re.compile(r"\{([\w.\[\]]+)(?::(\w+))?\}")


def clock_text(moment_ns: int) -> str:
    """Return the time in New York, such as `9:30 a.m.`."""
    local = datetime.fromtimestamp(moment_ns // SECOND, UTC).astimezone(_NEW_YORK)
    return f"{(local.hour - 1) % 12 + 1}:{local.minute:02d} {'a.m.' if local.hour < 12 else 'p.m.'}"


def _spoken(chance: Random, day: date) -> str:
    """A day in one of the ways people write it."""
    return pick(
        chance,
        (f"{day:%B} {day.day}, {day.year}", f"{day:%b} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}", day.isoformat()),
    )


def _range(chance: Random, days: Days) -> str:
    form = pick(chance, ("from {a} to {b}", "between {a} and {b}, both included", "from {a} through {b}"))
    return form.format(a=_spoken(chance, days.first), b=_spoken(chance, days.last))


def _listed(_: Random, names: Sequence[str]) -> str:
    """`A`, `A and B`, `A, B and C`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _dollars(_: Random, value: float) -> str:
    """`$4.50`; `$225` where there are no cents."""
    return f"${value:,.0f}" if value == round(value) else f"${value:,.2f}"


FORMATTERS: Final[Mapping[str, Callable[[Random, Any], str]]] = MappingProxyType(
    {
        "spoken": _spoken,
        "range": _range,
        "listed": _listed,
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
)  #: Ways to write a fact; some draw how, and `one` and `one_name` draw which


class Wording(Formatter):
    """Fills slots from `facts`, to which more may be added, and from `phrases` (`{name:phrase}`, filled); formatters draw."""

    def __init__(self, chance: Random, phrases: Mapping[str, Sequence[str]], facts: Mapping[str, Any]) -> None:
        self.chance = chance
        self.facts = dict(facts)
        self._phrases = phrases

    def say(self, wordings: str | Sequence[str]) -> str:
        """Fill all wordings, and draw one of them where there are several."""
        if isinstance(wordings, str):
            wordings = (wordings,)
        filled = [self.format(wording) for wording in wordings]
        return filled[0] if len(filled) == 1 else pick(self.chance, filled)

    def fill(self, value: Any) -> Any:
        """Fill every text within a value of lists and mappings. Raises DataError: a slot names no fact or no formatter."""
        if isinstance(value, str):
            slot = _ONE_SLOT.fullmatch(value)
            if slot is None or slot[2] is not None:
                return self.format(value)
            return _plain(self.get_field(slot[1], (), {})[0])
        if isinstance(value, Mapping):
            return {name: self.fill(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.fill(part) for part in value]
        return value

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:  # noqa: ARG002 - as Formatter calls it
        """Find what a slot names: a fact or a part of one. Raises DataError: there is none."""
        try:
            return super().get_field(field_name, args, {**self._phrases, **self.facts})
        except (LookupError, AttributeError) as error:
            raise DataError(f"no fact {field_name!r}; known are: {', '.join(self.facts)}") from error

    def format_field(self, value: Any, format_spec: str) -> str:
        """Write a fact in one of the ways of `FORMATTERS`."""
        if format_spec == "phrase":
            return self.say(value)
        if (formatter := FORMATTERS.get(format_spec)) is not None:
            return formatter(self.chance, value)
        if format_spec and not isinstance(value, date | int):
            raise DataError(f"no formatter {format_spec!r}; known are: phrase, {', '.join(FORMATTERS)}")
        return format(_plain(value) if not format_spec else value, format_spec)


def _plain(value: Any) -> JsonValue:
    """A fact as JSON: days in ISO form, contracts and named instruments by symbol."""
    if isinstance(value, date):
        return value.isoformat()
    return getattr(value, "symbol", value)
