"""Find the decision day for each text in a log. The day comes from a field, a map or the prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ktdeval.errors import DataError, UsageError
from ktdeval.values import JsonValue
from ktdeval_audit.log_types import AgentLog, LoggedDecision, LogText
from ktdeval_audit.named_dates import named_dates
from ktdeval_tables.readers.rows import TableFile, TableShape, read_rows

FIELDS = (
    "decided_on",
    "decision_date",
    "decision_day",
    "trade_date",
    "trading_date",
    "trading_day",
    "as_of_date",
    "as_of",
    "asof",
    "current_date",
    "simulation_date",
    "sim_date",
    "analysis_date",
    "knowledge_day",
    "day",
)
"""Metadata fields read as the day, in this order."""

LATE_FIELDS = ("date",)
"""Fields used only if the prompt gives no day: they may hold the day of the run."""

_SAYS = (
    r"(?:today(?:'s)?(?: date)?(?: is|:)?|current (?:trading )?(?:date|day|time)(?: is|:)|"
    r"it is(?: now)?|the date is|simulation date(?: is|:)|trad(?:ing|e) (?:date|day)(?: is|:)|"
    r"decision (?:date|day)(?: is|:)|analysis date(?: is|:)|今天是?|今日|现在是|当前日期[::]?|交易日[::]?)",
    r'(?:(?:^|\n)[ *#-]*(?:date|day)(?: is|:)|\bday (?=[0-9]{4}-[0-9]{2}-[0-9]{2} has closed)|"'
    r'(?:current_date|today|trade_date|day)": ?)',
    r"(?:as of|on the close of|close of|up to|before)",
)
"""Text before a day in a prompt: explicit words, a line or key for a date, and ambiguous words,
which may also introduce the day of a report.
"""
_PHRASES = tuple(re.compile(phrase, re.IGNORECASE) for phrase in _SAYS)
_GAP = re.compile(r"[^\w.!?。]{0,8}_{0,2}")  # punctuation and Markdown


@dataclass(frozen=True)
class DatedText:
    """A text, with its decision and the day of the decision."""

    decision: LoggedDecision
    text: LogText
    day: date


@dataclass(frozen=True)
class DatedLog:
    """The dated texts in a log, in order, and the decisions for which no day was found."""

    texts: tuple[DatedText, ...]
    undated: tuple[LoggedDecision, ...]
    by_folder: int = 0  #: number of decisions that are dated by the name of a folder

    @property
    def days(self) -> tuple[date, ...]:
        """Decision days in ascending order, with one entry per decision and day."""
        pairs = {(id(each.decision), each.day) for each in self.texts}
        return tuple(sorted(day for _, day in pairs))


def date_log(log: AgentLog, day_field: str | None = None, day_map: Path | None = None) -> DatedLog:
    """Return a log's texts with their decision days.

    `day_field`: dotted name, or last part of the name, of the field that contains the day.
    `day_map`: table with the columns `decision` and `day`. Raises UsageError if no decision has a
    day. Raises DataError if a value in the field or in the map is not a day.
    """
    by_name = _read_map(day_map) if day_map is not None else {}
    texts: list[DatedText] = []
    undated = []
    by_folder = 0
    for decision in log.decisions:
        found = list(_date_texts(decision, day_field, by_name))
        if not found and day_field is None and day_map is None:
            found = list(_date_by_folder(decision))
            by_folder += bool(found)

        texts += found
        if not found:
            undated.append(decision)

    if not texts:
        raise UsageError(_no_day(log, day_field, day_map))
    return DatedLog(tuple(texts), tuple(undated), by_folder)


def _no_day(log: AgentLog, day_field: str | None, day_map: Path | None) -> str:
    fields: dict[str, None] = {}
    for each in log.decisions[:20]:
        fields.update(dict.fromkeys(each.fields))

    names = list(fields)
    known = f"; fields: {', '.join(names[:12])}" if names else ""
    first = log.decisions[0].title
    if day_map is not None:
        return f"--day-map {day_map}: lists no decision of the log, such as {first!r}"
    if day_field is not None:
        return f"--day-field {day_field!r}: not found in any decision of {log.source}{known}"
    return (
        f"{log.source}: no decision names its day; name a field with --day-field, a table of "
        "decision"
        f" and day with --day-map (the first decision is {first!r}), or write `Today is 2024-03-05`"
        f" into the prompt{known}"
    )


def _date_texts(
    decision: LoggedDecision, day_field: str | None, by_name: Mapping[str, date]
) -> Iterator[DatedText]:
    fixed = by_name.get(decision.title) or by_name.get(decision.file)
    if fixed is None and day_field is not None:
        fixed = _field_day(decision.fields, (day_field,), decision, strict=True)
    elif fixed is None and not by_name:
        fixed = _field_day(decision.fields, FIELDS, decision)

    if fixed is not None:
        for text in decision.texts:
            yield DatedText(decision, text, fixed)
    elif not by_name:
        yield from _by_prompt(decision, day_field)


def _by_prompt(decision: LoggedDecision, day_field: str | None) -> Iterator[DatedText]:
    """Yield texts with their days, which are stated by the clearest kind of phrase in the decision.
    A text has the most recently stated day. Texts before the first such phrase have the first
    stated day.
    """
    stated = [_stated_day(decision, text, day_field) for text in decision.texts]
    clearest = min((words for words, _ in filter(None, stated)), default=None)
    days = [found[1] if found and found[0] == clearest else None for found in stated]
    current = next(filter(None, days), None)
    if current is None and day_field is None:
        current = _field_day(decision.fields, LATE_FIELDS, decision)
    if current is None:
        return

    for text, day in zip(decision.texts, days, strict=True):
        current = day or current
        yield DatedText(decision, text, current)


def _stated_day(
    decision: LoggedDecision, text: LogText, day_field: str | None
) -> tuple[int, date] | None:
    """Return the day that a text states, with the rank of the phrase that states it."""
    if day_field is not None:
        day = _field_day(text.fields, (day_field,), decision)
        return (0, day) if day else None
    if text.role != "prompt":
        return None

    day = _field_day(text.fields, FIELDS, decision)
    return (0, day) if day else _day_in_words(text.text)


def stated_day(text: str) -> date | None:
    """Return the day that a prompt calls today, or None.

    Example: `stated_day("Today is Tuesday, March 5, 2024.")` is 5 March 2024.
    """
    found = _day_in_words(text)
    return found[1] if found else None


def _day_in_words(text: str) -> tuple[int, date] | None:
    """Return the day that a text calls today, with the index in `_SAYS` of the phrase that states
    it.
    """
    dates = [named for named in named_dates(text) if named.unit == "day"]
    if not dates:
        return None

    starts = {named.start: named.first for named in dates}
    for number, phrase in enumerate(_PHRASES):
        for match in phrase.finditer(text):
            gap = _GAP.match(text, match.end())
            end = gap.end() if gap else match.end()
            near = [start for start in starts if match.end() <= start <= end]
            if near:
                return number, starts[near[0]]
    return None


def own_day(decision: LoggedDecision) -> date | None:
    """Return the day in a field with a known name, or None if no such field contains a day."""
    return _field_day(decision.fields, (*FIELDS, *LATE_FIELDS), decision)


def _field_day(
    fields: Mapping[str, JsonValue],
    names: Sequence[str],
    decision: LoggedDecision,
    *,
    strict: bool = False,
) -> date | None:
    """Return the first day in a field with one of these names. With `strict`, raises DataError if
    the value of such a field is not a day.
    """
    for name in names:
        for key, value in fields.items():
            if key != name and key.rpartition(".")[2] != name:
                continue

            day = _day_of(value)
            if day is not None:
                return day
            if strict:
                where = f"{decision.name}, line {decision.line}" if decision.line else decision.name
                raise DataError(
                    f"{where}: --day-field {key} holds {str(value)[:40]!r}, not a day such as "
                    "2024-03-05"
                )
    return None


def _day_of(value: JsonValue) -> date | None:
    """Return the day if the whole value of a field is a day, with or without a time of day."""
    text = str(value).strip()
    named = named_dates(text)
    if len(named) != 1 or named[0].unit != "day" or named[0].start != 0:
        return None
    return named[0].first


def _date_by_folder(decision: LoggedDecision) -> Iterator[DatedText]:
    """Yield texts that are dated by the name of a folder that contains the log file. The nearest
    folder whose name is a day is used.
    """
    *folders, _ = decision.file.split("/")
    days = [day for day in map(_day_of, folders) if day is not None]
    for text in decision.texts if days else ():
        yield DatedText(decision, text, days[-1])


def _read_map(path: Path) -> dict[str, date]:
    """Read a table of decision days, and return the days by decision. Raises DataError, which names
    the file and the line.
    """
    table = TableFile(path, TableShape(("decision", "day"), required=("decision", "day")))
    days: dict[str, date] = {}
    for row in read_rows(table):
        text = str(row.cells["day"])
        day = _day_of(text)
        if day is None:
            raise DataError(
                f"{table.place(row.line)}: column day holds {text[:40]!r}; write it as 2024-03-05"
            )
        days[str(row.cells["decision"])] = day
    return days
