"""Contents of a request for a person: the texts and figures that a model would get, as facts,
tables and lines.

Everything here is read from the request, which has passed the leak guard. Nothing else is looked
up, so a person sees no more than a model does: no names, no dates, no later days.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ktdeval.harness import NO_TOOL, Message, ModelRequest, ToolSpec, told_at_a_desk
from ktdeval.observation import ObservedState, first_number
from ktdeval.values import JsonValue, loads_strict

_MAX_LINES = 12  #: maximum number of lines drawn for one table
_MIN_POINTS = 3  #: minimum number of points in a line
_RETURNS = ("portfolio_return_pct", "benchmark_return_pct")
_JSON_BLOCK = "```json\n{}\n```"  #: format of the state in a prompt
_BLANK_LINES = re.compile(r"\n{3,}")
#: format of the step number in prompts; people are shown numbers from 1
_STEP_FROM_0 = " (step {})"
#: columns that identify a row
_LABELS = ("stock_id", "asset_id", "symbol", "index", "sector")


@dataclass(frozen=True, slots=True)
class DrawnLine:
    """Figures in day order, drawn without dates."""

    title: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table as shown. Cells are strings."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[DrawnLine, ...] = ()  #: lines of prices, if the rows are days


@dataclass(frozen=True, slots=True)
class ShownSection:
    """Part of a state or of a tool's result."""

    title: str
    facts: tuple[tuple[str, str], ...] = ()
    tables: tuple[ShownTable, ...] = ()


@dataclass(frozen=True, slots=True)
class ResearchAnswer:
    """Answer to a research call in this step."""

    tool: str
    arguments: str
    sections: tuple[ShownSection, ...]


@dataclass(frozen=True)
class ShownRequest:
    """One request, as shown to a person."""

    step: int | None  #: counted from 0; people see it counted from 1
    steps: int | None  #: number of steps in the episode
    day: str  #: label of the day; empty if a task shows none
    role: str  #: role of the team member that is asked; empty for a single agent
    rules: str  #: rules that apply every day
    task: str  #: the task, without the figures in `sections`
    sections: tuple[ShownSection, ...]  #: state of the day
    results: tuple[ResearchAnswer, ...]  #: answers to the research in this step
    notes: tuple[str, ...]  #: messages after the question, such as why a submission was refused
    tools: tuple[ToolSpec, ...]  #: tools that may be called now, except the submit tool
    submit: ToolSpec | None  #: the submit tool; None if it is not offered
    is_final: bool  #: whether only the submission, or the forced tool, is accepted
    #: True if text is requested, since no tool is offered
    wants_text: bool
    #: schema that the text must follow
    response_schema: Mapping[str, JsonValue] | None = field(default=None)
    #: figures of the account at this step, keyed by name; empty if not shown
    worth: Mapping[str, float] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Title of the moment, in one line."""
        parts = []
        if self.step is not None:
            number = f"Step {self.step + 1}"
            parts.append(number if self.steps is None else f"{number} of {self.steps}")
        if self.day:
            parts.append(self.day)
        if self.role:
            parts.append(f"as {self.role}")

        return " · ".join(parts) or "Question"


def show_request(request: ModelRequest) -> ShownRequest:
    """Return the contents of a request."""
    rules = [message.content for message in request.messages if message.role == "system"]
    rest = [message for message in request.messages if message.role != "system"]
    question = _question_index(request, rest)
    before, after = rest[: question + 1], rest[question + 1 :]
    state = request.state
    texts = [message.content for message in before if message.role == "user"]
    if state is not None:
        number = _STEP_FROM_0.format(request.step)
        texts = [_without_state(text, state.text).replace(number, "") for text in texts]

    offered = () if request.tool_choice == NO_TOOL else request.tools
    forced = request.tool_choice or ""
    if forced:
        offered = tuple(tool for tool in offered if tool.name == forced)

    submits = [tool for tool in offered if tool.name == request.submit_tool]
    tools = tuple(tool for tool in offered if tool.name != request.submit_tool)
    sections: tuple[ShownSection, ...] = ()
    worth: dict[str, float] = {}
    if state is not None:
        sections = tuple(_sections("", state.values))
        worth = _worth(state)

    return ShownRequest(
        step=request.step,
        steps=request.total_steps,
        day="" if state is None else state.day,
        role=request.role or "",
        rules=told_at_a_desk("\n\n".join(rules), request.submit_tool),
        task="\n\n".join(text.strip() for text in texts if text.strip()),
        sections=sections,
        results=tuple(_results(after, request.submit_tool)),
        notes=tuple(_notes(after, request.submit_tool)),
        tools=tools,
        submit=submits[0] if submits else None,
        is_final=bool(forced) or (bool(submits) and not tools),
        wants_text=not offered,
        response_schema=request.response_schema,
        worth=worth,
    )


def _worth(state: ObservedState) -> dict[str, float]:
    """Return the returns of the account and the benchmark since the start, in percent. If they are
    not shown, return the net asset value, if it is shown.
    """
    shown = state.values.get("performance")
    cells = shown if isinstance(shown, Mapping) else {}
    returns = {name: first_number(cells, name) for name in _RETURNS}
    figures = {name: value for name, value in returns.items() if value is not None}
    nav = state.account.nav
    if not figures and nav is not None:
        figures = {"nav": nav}
    return figures


def _question_index(request: ModelRequest, messages: Sequence[Message]) -> int:
    """Return the index of the message that shows the day. If no message does, return the index of
    the first message.
    """
    state = request.state
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if state is not None and message.role == "user" and state.text in message.content:
            return place

    return 0


def _without_state(text: str, state: str) -> str:
    without = text.replace(_JSON_BLOCK.format(state), "").replace(state, "")
    return _BLANK_LINES.sub("\n\n", without)


def _results(messages: Sequence[Message], submit_tool: str) -> Iterator[ResearchAnswer]:
    """Yield the answers to research calls, in order."""
    calls = {}
    for message in messages:
        calls.update({call.id: call for call in message.tool_calls})
        call = calls.get(message.tool_call_id or "")
        if message.role == "tool" and call is not None and call.name != submit_tool:
            yield ResearchAnswer(
                call.name, call.arguments, tuple(sections_of_text(message.content))
            )


def _notes(messages: Sequence[Message], submit_tool: str) -> Iterator[str]:
    """Yield the messages to the person that are not results of research calls, in order."""
    names = {}
    for message in messages:
        names.update({call.id: call.name for call in message.tool_calls})
        is_on_submission = names.get(message.tool_call_id or "") == submit_tool
        if message.role == "user" or (message.role == "tool" and is_on_submission):
            yield in_lines(message.content)


def in_lines(text: str) -> str:
    """Return a text unchanged. Return JSON, such as the answer to a refused submission, as lines."""
    lines = []
    for section in sections_of_text(text.strip()):
        lines += [f"{name}: {value}" if name else value for name, value in section.facts]
        for table in section.tables:
            lines += [": ".join(filter(None, row)) for row in table.rows]

    return "\n".join(lines)


# ---- JSON as facts and tables


def sections_of_text(text: str) -> Iterator[ShownSection]:
    """Yield the parts of a tool's result: JSON as facts and tables, any other text unchanged."""
    try:
        value = loads_strict(text)
    except (ValueError, RecursionError):
        yield ShownSection("", facts=(("", text),))
        return

    yield from _sections("", value)


def _sections(title: str, value: JsonValue) -> Iterator[ShownSection]:
    """Yield a value as sections: first its plain fields, then one or more sections for each nested
    value.
    """
    if is_table(value):
        yield ShownSection(title, tables=(make_table(title, value),))
        return
    if not isinstance(value, dict):
        yield ShownSection(title, facts=(("", cell(value)),))
        return

    facts = []
    nested: list[tuple[str, JsonValue]] = []
    for name, part in value.items():
        if isinstance(part, dict) or _is_rows(part):
            nested.append((name, part))
        else:
            facts.append((name, cell(part)))

    if facts:
        yield ShownSection(title, facts=tuple(facts))
    for name, part in nested:
        yield from _sections(f"{title} · {name}" if title else name, part)


def _is_rows(value: JsonValue) -> bool:
    """Return whether a value is a list of objects. Such a list is shown as a table."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def is_table(value: Any) -> bool:
    """Return whether a value is a table: `columns` and `rows`, or a list of objects."""
    if _is_rows(value):
        return True
    return (
        isinstance(value, dict)
        and isinstance(value.get("columns"), list)
        and isinstance(value.get("rows"), list)
        and all(isinstance(row, list) for row in value["rows"])
    )


def make_table(title: str, value: Any) -> ShownTable:
    """Return the table for a value for which `is_table` is True."""
    if isinstance(value, list):
        names = dict.fromkeys(chain.from_iterable(value))
        columns = tuple(map(str, names))
        rows = [list(map(row.get, names)) for row in value]
    else:
        columns = tuple(map(str, value["columns"]))
        rows = value["rows"]

    cells = []
    for row in rows:
        texts = [cell(part) for part in row[: len(columns)]]
        # a plugin's result may have short rows
        texts += [""] * (len(columns) - len(texts))
        cells.append(tuple(texts))

    return ShownTable(title, columns, tuple(cells), tuple(_lines(columns, rows)))


def _lines(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[DrawnLine]:
    """If the rows of a table are days, yield one line of closes for each name."""
    prices = [place for place, name in enumerate(columns) if name.startswith("close")]
    if "day" not in columns or not prices:
        return

    owners = [place for place, name in enumerate(columns) if name in _LABELS]
    series: dict[str, list[float]] = {}
    for row in rows:
        value = row[prices[0]] if len(row) == len(columns) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            owner = str(row[owners[0]]) if owners else ""
            series.setdefault(owner, []).append(float(value))

    for owner, values in list(series.items())[:_MAX_LINES]:
        if len(values) >= _MIN_POINTS:
            name = columns[prices[0]]
            yield DrawnLine(f"{owner} {name}".strip(), tuple(values))


def cell(value: JsonValue) -> str:
    """Return a value in a readable form."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}"
    if isinstance(value, float) and 10_000 <= abs(value) < 1e12:
        return f"{value:,.2f}".removesuffix(".00")
    if isinstance(value, list) and not any(isinstance(part, dict | list) for part in value):
        return ", ".join(map(cell, value)) or "none"
    return json.dumps(value, ensure_ascii=False)
