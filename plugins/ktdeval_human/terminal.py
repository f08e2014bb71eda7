"""A person at a terminal: the day as tables, a command for each tool, an order ticket, and a review
before anything is submitted.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from ktdeval.cards import clean, folded_texts
from ktdeval.cli import grid_lines
from ktdeval.errors import ProviderError
from ktdeval.harness import ToolSpec
from ktdeval_human import TerminalParams
from ktdeval_human.forms import (
    Form,
    FormError,
    FormField,
    Rows,
    Texts,
    arguments_text,
    form_of,
    text_problem,
)
from ktdeval_human.person import Act, Called, Person, PersonWords, check_name
from ktdeval_human.shown import DrawnLine, ResearchAnswer, ShownRequest, ShownSection, ShownTable

_BARS = "▁▂▃▄▅▆▇█"
_MAX_POINTS = 60  #: maximum number of points of a line; the latest ones are drawn
_PROMPT = "> "
_COMMANDS = (
    ("show", "show the day again"),
    ("rules", "show the rules of every day"),
    ("results", "list what was looked up in this step"),
    ("tools", "list the research tools; type the number or name of one to call it"),
    ("order", "add a row to the ticket"),
    ("drop N", "remove row N from the ticket"),
    ("ticket", "show the ticket so far"),
    ("submit", "review the ticket and submit it"),
    ("hold", "submit without any row"),
    ("text", "answer in words"),
    ("q", "leave; the same command resumes at this step"),
)


class _Back(Exception):
    """The person cancelled an entry."""


def at_terminal(_name: str, params: TerminalParams) -> Person:
    """Return a person at this process's terminal.

    Raises ConfigError if the name is not valid.
    """
    check_name(params.who)
    return Person(open_terminal)


def open_terminal() -> Terminal:
    """Return the desk at this process's terminal.

    Raises ProviderError if input or output is not a terminal.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ProviderError(
            "human/terminal: a person is asked in a terminal, and there is none here; run it in one, or"
            " use --model human/page"
        )

    return Terminal(sys.stdin, sys.stderr)


class Terminal:
    """Desk of a person who types. A ticket is kept until its step ends."""

    def __init__(self, source: TextIO, out: TextIO, width: int | None = None) -> None:
        """Read lines from `source`, and write to `out`. `width`: number of columns of a line (None:
        the width of the terminal).
        """
        self._source = source
        self._out = out
        self._width = width
        self._step: int | None = None
        self._rules = ""
        self._rows: dict[str, list[Texts]] = {}
        self._results = 0  # number of results of this step that were already shown

    def ask(self, moment: ShownRequest) -> Act:
        """Show a moment and take commands until there is a reply; see `Desk`."""
        self._begin(moment)
        if moment.wants_text:
            return self._text(moment)

        while True:
            try:
                act = self._command(moment, self._line(_PROMPT))
            except FormError as error:
                self._say(f"! {error}")
                continue
            except _Back:
                self._say("given up")
                continue
            if act is not None:
                return act

    # --- output

    def _begin(self, moment: ShownRequest) -> None:
        """Show what is new. For a new step, show everything; otherwise show the latest results and
        notes.
        """
        is_new = moment.step != self._step or moment.step is None
        if is_new:
            self._step = moment.step
            self._rows = {}
            self._results = 0
            self._say("", "=" * min(self._columns, 72))
            self._show(moment)
            if moment.rules != self._rules:
                self._rules = moment.rules
                self._say("", "Type `rules` to read the rules, `help` for all commands.")
        elif moment.wants_text or moment.is_final:
            self._say("", moment.title)

        for result in moment.results[self._results :]:
            self._show_result(result)

        self._results = len(moment.results)
        for note in moment.notes[-1:]:
            self._say("", *(f"! {line}" for line in note.splitlines()))

    def _show(self, moment: ShownRequest) -> None:
        self._say(moment.title, "")
        self._write(folded_texts(moment.task.splitlines(), self._columns))
        self._show_sections(moment.sections)

    def _show_result(self, result: ResearchAnswer) -> None:
        self._say("", f"[{result.tool} {result.arguments}]")
        self._show_sections(result.sections)

    def _show_sections(self, sections: Sequence[ShownSection]) -> None:
        for section in sections:
            if section.title:
                self._say("", section.title)
            facts = [f"{name}: {value}" if name else value for name, value in section.facts]
            if facts:
                self._write(folded_texts([f"  {' · '.join(facts)}"], self._columns))
            for table in section.tables:
                self._write(_table_lines(table, self._columns))

    # --- commands

    def _command(self, moment: ShownRequest, line: str) -> Act | None:
        """Execute a typed line. Return the reply if the command gives one."""
        word, _, rest = line.strip().partition(" ")
        if not word:
            return None
        if word in ("q", "quit", "exit"):
            raise KeyboardInterrupt
        if word in ("order", "drop", "ticket", "submit", "hold"):
            return self._ticket_command(moment, word, rest.strip())

        plain: dict[str, Callable[[], None]] = {
            "help": self._help,
            "?": self._help,
            "show": lambda: self._show(moment),
            "rules": lambda: self._write(folded_texts(moment.rules.splitlines(), self._columns)),
            "results": lambda: self._write_results(moment),
            "tools": lambda: self._write_tools(moment),
        }
        if word in plain:
            plain[word]()
            return None
        if word == "text":
            return self._text(moment)

        tool = _tool_named(moment, word)
        if tool is None:
            self._say(f"! {word[:40]!r} is neither a command nor a tool; type `help` or `tools`")
            return None
        return self._call(tool)

    def _ticket_command(self, moment: ShownRequest, word: str, rest: str) -> Act | None:
        if moment.submit is None:
            self._say("! nothing can be submitted now; type `tools`")
            return None

        form = form_of(moment.submit.parameters)
        if word == "submit":
            return self._submit(moment.submit, form)
        if word == "hold":
            self._rows = {}
            return self._submit(moment.submit, form)

        if not form.rows:
            self._say("! this form has no rows; type `submit` to fill it")
        elif word == "order":
            rows = form.rows[0]
            self._rows.setdefault(rows.name, []).append(self._row(rows))
            self._write_ticket(form)
        elif word == "drop":
            self._drop(form.rows[0], rest)
            self._write_ticket(form)
        else:
            self._write_ticket(form)

        return None

    def _drop(self, rows: Rows, number: str) -> None:
        listed = self._rows.get(rows.name, [])
        if not listed:
            raise FormError("drop: the ticket has no rows yet; add one first")
        if not number.isdecimal() or not 1 <= int(number) <= len(listed):
            raise FormError(f"drop: expected the number of a row, 1 to {len(listed)}")
        del listed[int(number) - 1]

    def _call(self, tool: ToolSpec) -> Act:
        """Ask for the arguments of a research tool, and call it."""
        form = form_of(tool.parameters)
        self._say(tool.description.split("\n\n")[0])
        value = form.value(self._fill(form), {rows.name: self._list(rows) for rows in form.rows})
        return Called(tool.name, arguments_text(value))

    def _submit(self, tool: ToolSpec, form: Form) -> Act | None:
        """Review the ticket, ask for the other fields of the form, and submit if the person
        confirms.
        """
        self._write_ticket(form)
        texts = self._fill(form)
        value = form.value(texts, self._rows)
        if not self._agrees(f"submit this with {tool.name}? [y/n] "):
            return None
        return Called(tool.name, arguments_text(value))

    def _text(self, moment: ShownRequest) -> Act:
        """Read text, up to a line with a single dot."""
        self._say("answer in words; end with a line that holds a single dot")
        while True:
            lines: list[str] = []
            while (line := self._line("")) != ".":
                lines.append(line)

            text = "\n".join(lines)
            schema = moment.response_schema
            problem = None if schema is None else text_problem(text, schema)
            if problem is None:
                return PersonWords(text)
            self._say(f"! {problem}")

    # --- forms

    def _fill(self, form: Form) -> dict[str, str]:
        """Ask for each field, and ask again if a value is wrong."""
        return {field.name: self._field(field) for field in form.fields}

    def _list(self, rows: Rows) -> list[Texts]:
        """Ask for rows until the person is done."""
        listed: list[Texts] = []
        while self._agrees(f"a row for {rows.name}? [y/n] "):
            listed.append(self._row(rows))
        return listed

    def _row(self, rows: Rows) -> Texts:
        """Ask for one row. If fields exclude each other, ask until one of them is given."""
        texts: dict[str, str] = {}
        is_chosen = False
        for field in rows.fields:
            if field.name not in rows.choices:
                texts[field.name] = self._field(field)
            elif not is_chosen:
                texts[field.name] = self._field(field, "; or leave it empty for the next one")
                is_chosen = bool(texts[field.name])

        rows.read(texts)
        return texts

    def _field(self, field: FormField, more: str = "") -> str:
        while True:
            hint = field.hint.splitlines()[0] if field.hint else ""
            self._say(f"  {field.name}: {hint}{more}")
            text = self._line(f"  {field.name}> ").strip()
            if text == "..":
                raise _Back
            if not text:
                if field.is_required and not more:
                    self._say("  ! a value is required (.. cancels)")
                    continue
                return ""

            try:
                field.read(text)
            except FormError as error:
                self._say(f"  ! {error} (.. gives up)")
            else:
                return text

    def _agrees(self, question: str) -> bool:
        while True:
            word = self._line(question).strip().lower()
            if word in ("y", "yes"):
                return True
            if word in ("n", "no"):
                return False

    # --- lists

    def _help(self) -> None:
        self._write(grid_lines(["command", ""], [list(row) for row in _COMMANDS], ["command", ""]))
        self._say("  In a form, .. cancels.")

    def _write_results(self, moment: ShownRequest) -> None:
        if not moment.results:
            self._say("nothing was looked up in this step")
        for result in moment.results:
            self._show_result(result)

    def _write_tools(self, moment: ShownRequest) -> None:
        if not moment.tools:
            self._say("no research tool is on offer now; type `submit`")
        for number, tool in enumerate(moment.tools, start=1):
            about = tool.description.splitlines()[0]
            self._write(folded_texts([f"  {number}  {tool.name}: {about}"], self._columns))

    def _write_ticket(self, form: Form) -> None:
        for rows in form.rows:
            listed = self._rows.get(rows.name, [])
            if not listed:
                self._say(f"{rows.name}: none")
                continue

            names = [field.name for field in rows.fields]
            cells = [
                [str(number), *(row.get(name, "") for name in names)]
                for number, row in enumerate(listed, start=1)
            ]
            self._say(rows.name)
            self._write(grid_lines(["", *names], cells, names, self._columns))

    # --- lines in and out

    @property
    def _columns(self) -> int:
        return self._width or shutil.get_terminal_size().columns

    def _line(self, prompt: str) -> str:
        """Return a typed line.

        Raises KeyboardInterrupt at the end of the input.
        """
        self._out.write(prompt)
        self._out.flush()
        line = self._source.readline()
        if not line:
            raise KeyboardInterrupt
        return line.rstrip("\r\n")

    def _say(self, *lines: str) -> None:
        self._write(lines)

    def _write(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._out.write(f"{clean(line)}\n")
        self._out.flush()


def _tool_named(moment: ShownRequest, word: str) -> ToolSpec | None:
    """Return the tool with the given number or name; None if the tool is unknown."""
    if word.isdecimal() and 1 <= int(word) <= len(moment.tools):
        return moment.tools[int(word) - 1]
    return next((tool for tool in moment.tools if tool.name == word), None)


def _table_lines(table: ShownTable, width: int) -> Iterator[str]:
    if not table.rows:
        yield "  none"
        return

    figures = [
        place
        for place, _ in enumerate(table.columns)
        if all(_is_figure(row[place]) for row in table.rows if place < len(row))
    ]
    left = [name for place, name in enumerate(table.columns) if place not in figures]
    yield from grid_lines(list(table.columns), [list(row) for row in table.rows], left, width)
    for line in table.lines:
        yield f"  {line.title}  {spark(line)}"


def _is_figure(text: str) -> bool:
    plain = text.replace(",", "")
    if plain == "–":
        return True
    try:
        float(plain)
    except ValueError:
        return False
    return True


def spark(line: DrawnLine) -> str:
    """Return a line as a row of bars, with its first and its last value."""
    values = line.values[-_MAX_POINTS:]
    low, high = min(values), max(values)
    spread = high - low
    bars = ""
    for value in values:
        height = 0.5 if spread == 0 else (value - low) / spread
        bars += _BARS[min(int(height * len(_BARS)), len(_BARS) - 1)]

    return f"{values[0]:g} {bars} {values[-1]:g}"
