"""The state that a person's page shows, and the actions that it sends. Both are shared by the run,
which waits for a decision, and the server threads that answer the browser.
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

from ktdeval.harness import ToolSpec
from ktdeval.values import JsonObject, JsonValue, loads_strict
from ktdeval_human.forms import FormError, FormField, Rows, arguments_text, form_of, text_problem
from ktdeval_human.person import Act, Called, PersonWords
from ktdeval_human.shown import ShownRequest

_SLICE_S = 0.5  #: seconds between two checks for an interrupted run


class RefusedInput(Exception):
    """A message from the page that is refused. `is_stale`: whether the moment that it answers is
    over. `place`: the field at fault, as in `FormError`; next to the field, the page shows only
    `problem`.
    """

    def __init__(
        self,
        message: str,
        is_stale: bool = False,
        place: tuple[str | int, ...] = (),
        problem: str = "",
    ) -> None:
        super().__init__(message)
        self.is_stale = is_stale
        self.place = place
        self.problem = problem or message


class Moments:
    """Current state of the page and its last action. Both are shared by the run, which waits, and
    the server threads.
    """

    def __init__(self) -> None:
        self._state = threading.Condition()  # guards all of the following
        self._version = 0
        self._moment: ShownRequest | None = None  # None while the run works
        self._act: Act | None = None
        self._has_left = False
        #: value of the account at each step since the page was opened
        self._worth: dict[int, JsonObject] = {}

    def ask(self, moment: ShownRequest) -> Act:
        """Show a moment, and wait for the person's action.

        Raises KeyboardInterrupt if the person left.
        """
        with self._state:
            self._version += 1
            self._moment = moment
            self._act = None
            self._follow(moment)
            self._state.notify_all()
            while self._act is None and not self._has_left:
                self._state.wait(_SLICE_S)

            self._moment = None
            self._version += 1
            self._state.notify_all()
            if self._act is None:
                raise KeyboardInterrupt
            return self._act

    def _follow(self, moment: ShownRequest) -> None:
        """Store the value of the account at this step. If the step does not follow the latest one,
        drop the earlier values, since another episode has begun.
        """
        if moment.step is None or not moment.worth:
            return

        latest = max(self._worth, default=-1)
        if moment.step not in (latest, latest + 1):
            self._worth = {}
        self._worth[moment.step] = dict(moment.worth)

    def current(self, seen: int, wait_s: float) -> JsonObject:
        """Return the state once it is newer than version `seen`, or after `wait_s` at the latest."""
        with self._state:
            self._state.wait_for(lambda: self._version != seen, wait_s)
            shown_now: JsonValue = None
            if self._moment is not None:
                path: list[JsonValue] = [
                    [step + 1, worth] for step, worth in sorted(self._worth.items())
                ]
                shown_now = {**moment_json(self._moment), "path": path}
            return {"version": self._version, "moment": shown_now, "left": self._has_left}

    def take(self, sent: JsonObject) -> None:
        """Accept a message from the page. Raises RefusedInput if the message is stale or invalid."""
        with self._state:
            if (
                self._moment is None
                or self._act is not None
                or sent.get("version") != self._version
            ):
                raise RefusedInput("this step is over; the page shows the current one", True)
            if sent.get("leave") is True:
                self._has_left = True
            else:
                self._act = act_of(sent, self._moment)

            self._state.notify_all()


def read_message(data: bytes) -> JsonObject:
    """Return the JSON object in a message from the page.

    Raises RefusedInput if the message is not a JSON object.
    """
    try:
        value = loads_strict(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise RefusedInput("the message is not a JSON object")
    return value


def act_of(sent: JsonObject, moment: ShownRequest) -> Act:
    """Return the action in the page's message for a moment.

    Raises RefusedInput if the action is not offered, or if its form is not filled in correctly.
    """
    words = sent.get("text")
    if isinstance(words, str):
        return _describe_moment(words, moment)

    name = sent.get("tool")
    on_offer = {tool.name: tool for tool in moment.tools}
    if moment.submit is not None:
        on_offer[moment.submit.name] = moment.submit
    if not isinstance(name, str) or name not in on_offer:
        raise RefusedInput("this tool is not on offer now")

    fields, rows = sent.get("fields", {}), sent.get("rows", {})
    if not _are_texts(fields) or not _are_rows(rows):
        raise RefusedInput("the form was not sent as texts")

    try:
        value = form_of(on_offer[name].parameters).value(fields, rows)  # type: ignore[arg-type]
    except FormError as error:
        raise RefusedInput(str(error), place=error.place, problem=error.problem) from None
    return Called(name, arguments_text(value))


def _describe_moment(words: str, moment: ShownRequest) -> PersonWords:
    if not words.strip():
        raise RefusedInput("the answer is empty")
    if moment.response_schema is not None:
        problem = text_problem(words, moment.response_schema)
        if problem is not None:
            raise RefusedInput(problem)

    return PersonWords(words)


def _are_texts(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _are_rows(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(
        isinstance(rows, list) and all(map(_are_texts, rows)) for rows in value.values()
    )


# ---- data for the page


def moment_json(moment: ShownRequest) -> JsonObject:
    """Return a moment as data for the page: texts, tables, lines and forms."""
    tools = [_tool_json(tool) for tool in moment.tools]
    return {
        "title": moment.title,
        "step": moment.step,
        "steps": moment.steps,
        "day": moment.day,
        "role": moment.role,
        "rules": moment.rules,
        "task": moment.task,
        "sections": _plain([asdict(section) for section in moment.sections]),
        "results": _plain([asdict(result) for result in moment.results]),
        "notes": list(moment.notes),
        "tools": tools,
        "submit": None if moment.submit is None else _tool_json(moment.submit),
        "wants_text": moment.wants_text,
    }


def _plain(value: Any) -> Any:
    """Return a value with tuples replaced by lists."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _tool_json(tool: ToolSpec) -> JsonObject:
    form = form_of(tool.parameters)
    return {
        "name": tool.name,
        "about": tool.description,
        "fields": [_field_json(field) for field in form.fields],
        "rows": [_rows_json(rows) for rows in form.rows],
    }


def _rows_json(rows: Rows) -> JsonObject:
    return {
        "name": rows.name,
        "about": rows.about,
        "choices": list(rows.choices),
        "fields": [_field_json(field) for field in rows.fields],
    }


def _field_json(field: FormField) -> JsonObject:
    return {
        "name": field.name,
        "hint": field.hint,
        "required": field.is_required,
        "choices": list(field.options),
        "many": field.takes_many,
        "is_text": field.schema.get("type") == "string",
    }
