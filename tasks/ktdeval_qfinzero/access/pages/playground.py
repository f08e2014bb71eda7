"""Playground: chats with models that call the tools. Each chat is a run on disk."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from ktdeval.cards import load_card
from ktdeval.errors import CardError, KtdevalError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig
from ktdeval.secrets import redact_secrets
from ktdeval.values import JsonValue
from ktdeval_qfinzero.access.pages.chat_runs import ChatRuns
from ktdeval_qfinzero.access.pages.chat_samples import SUITES, add_sample, gold_calls, gold_task
from ktdeval_qfinzero.access.pages.chat_store import ChatHead, ChatStore, RecordedTurn, new_id
from ktdeval_qfinzero.access.pages.models import check_choice, offered_models
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.workspaces import Workspaces, first_moment
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import conflict, invalid
from ktdeval_qfinzero.scoring.tasks_file import task_to_row
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.timestamps import moment_text, parse_moment

MAX_CHARS: Final = 20_000  #: maximum length of a shown text
_MAX_TITLE: Final = 80
_VISIBLE: Final = "".join(map(chr, range(0x21, 0x7F)))


class Playground:
    """Chats on a server. Methods return JSON. `workspaces`: the server's workspaces, for their
    dataset and limits.
    """

    def __init__(self, workspaces: Workspaces, settings: PageSettings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self.store = ChatStore(settings.chats, settings.max_chats)
        self.runs = ChatRuns(settings.max_running)

    @cached_property
    def plugins(self) -> Plugins:
        """Plugins that check a chosen model; each run loads its own."""
        return load_plugins()

    def choices(self) -> dict[str, Any]:
        """Return the models and days from which to choose."""
        info = self._workspaces.dataset.info
        limits = self._workspaces.limits
        last = str(info.last_day) if limits.as_of_ns is None else moment_text(limits.as_of_ns)
        return {
            "models": offered_models(self.plugins, self._settings.models),
            "own": list(self._settings.models),
            "as_of": moment_text(first_moment(self._workspaces.dataset, limits, None)),
            "first": str(info.first_day),
            "last": last,
        }

    def chats(self) -> list[dict[str, str]]:
        """Return all chats, newest first; an unreadable chat is replaced by its error."""
        listed = []
        for chat_id in self.store.ids():
            try:
                title = _title(self.store.instructions(chat_id))
                model = self.store.head(chat_id).model
                listed.append({"id": chat_id, "title": title, "model": model})
            except KtdevalError as error:
                listed.append({"id": chat_id, "title": str(error), "model": ""})

        return listed

    def show(self, chat: str) -> dict[str, Any]:
        """Return a chat with its turns, and shell commands for its run. Raises ServiceError if the
        chat does not exist; StoreError if it can't be read.
        """
        latest = self.runs.latest(chat)
        is_running = not latest.is_over  # read first, so that the last records are not missed
        head = self.store.head(chat)
        turns = self.store.turns(chat)
        run = self.store.run_of(chat).resolve()
        shown = [_shown_turn(turn, run) for turn in turns]
        state = "ready" if turns else "new"
        if turns and turns[-1].record is None:
            state = "running" if is_running else "unfinished"
            shown[-1]["exchanges"] = _shown_json(list(latest.exchanges))

        return {
            "id": head.id,
            "title": _title([turn.instruction for turn in turns]),
            "model": head.model,
            "as_of": head.as_of,
            "state": state,
            "message": _redact_text(latest.message) if state == "unfinished" else "",
            "coming": coming_text(latest.coming) if state == "running" else "",
            "turns": shown,
            "commands": _commands(run),
        }

    def create(self, model: str, as_of: str) -> dict[str, str]:
        """Begin a chat without a turn. Raises ServiceError if the model or the start of the clock
        is invalid.
        """
        settings = self._settings
        dataset = self._workspaces.dataset
        as_of_ns = first_moment(dataset, self._workspaces.limits, as_of or None)
        head = ChatHead(
            id=new_id(),
            model=check_choice(self.plugins, settings.models, model),
            as_of=moment_text(as_of_ns),
            content_id=dataset.info.content_id,
            data=None if settings.data is None else str(settings.data.resolve()),
            seed=settings.seed,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            max_tokens=settings.max_tokens,
            max_cost=settings.max_cost,
        )
        self.store.create(head)
        return {"id": head.id}

    def ask(self, chat: str, instruction: str) -> dict[str, bool]:
        """Write a turn and begin to answer it. Raises ServiceError if the turn can't be added or
        answered.
        """
        if not instruction.strip():
            raise invalid("instruction", "expected some words")

        def prepare() -> RunConfig:
            self.store.add_turn(chat, instruction)
            return self.store.keep_options(chat)

        self.store.path_of(chat)
        self.runs.begin(chat, prepare)
        return {"asked": True}

    def resume(self, chat: str) -> dict[str, bool]:
        """Resume a turn that is not finished. Raises ServiceError if every turn is finished."""
        turns = self.store.turns(chat)
        if not turns or turns[-1].record is not None:
            raise conflict("every turn of this chat is finished")

        self.runs.begin(chat, partial(self.store.keep_options, chat))
        return {"resumed": True}

    def stop(self, chat: str) -> dict[str, bool]:
        """Ask a running chat to end between two calls. Raises ServiceError if it is not running."""
        latest = self.runs.latest(chat)
        if latest.is_over:
            raise conflict("no model is answering in this chat")

        latest.stop.interrupt()
        return {"stopping": True}

    def delete(self, chat: str) -> dict[str, bool]:
        """Remove a chat. Raises ServiceError if it is running or does not exist."""
        if not self.runs.latest(chat).is_over:
            raise conflict("the model is answering in this chat; stop it first")

        self.store.delete(chat)
        return {"deleted": True}

    def keep_sample(
        self, chat: str, turn: str, suite: str, item_id: str, instruction: str
    ) -> dict[str, Any]:
        """Keep a turn as an item. Raises ServiceError if the turn does not exist or is not
        finished, or if a text is malformed.
        """
        if suite not in SUITES:
            raise invalid("suite", f"expected {' or '.join(SUITES)}")
        if not instruction.strip():
            raise invalid("instruction", "expected some words")

        calls = self._expected_calls(chat, turn)
        task = gold_task(item_id, suite, instruction.strip(), calls)
        path = add_sample(self._settings.chats / "samples", task)
        command = f"ktdeval run --model MODEL --tasks {path.resolve()}"
        return {"file": str(path), "command": command, "row": task_to_row(task)}

    def _expected_calls(self, chat: str, turn: str) -> Sequence[Any]:
        """Return the successful calls of a turn, made again in the workspace that the earlier turns
        left. Raises ServiceError if the turn does not exist or is not finished.
        """
        turns = self.store.turns(chat)
        number = int(turn) if turn.isdecimal() else 0
        if not 1 <= number <= len(turns) or turns[number - 1].record is None:
            raise invalid("turn", "there is no finished turn of this number")

        head = self.store.head(chat)
        dataset = self._workspaces.dataset
        if dataset.info.content_id != head.content_id:
            raise conflict("this chat is about another dataset than the one that is served")

        workspace = Workspace(dataset, parse_moment(head.as_of, "as_of"))
        made = [gold_calls(workspace, _recorded_calls(each)) for each in turns[:number]]
        return made[-1]


def _recorded_calls(turn: RecordedTurn) -> Sequence[RecordedCall]:
    answer = turn.answer
    return () if answer is None else answer.calls


def _title(instructions: Sequence[str]) -> str:
    """Return the first words of a chat as its title."""
    return _redact_text(" ".join("".join(instructions[:1]).split()))[:_MAX_TITLE]


def _commands(run: Path) -> list[str]:
    path = shlex.quote(str(run))
    options = shlex.quote(str(run.parent / "run.yaml"))
    return [
        f"ktdeval view {path} --open",
        f"ktdeval score {path}",
        f"ktdeval card verify {path}",
        f"ktdeval run --config {options}",
    ]


def _shown_turn(turn: RecordedTurn, run: Path) -> dict[str, Any]:
    """Return a turn with its model calls in transcript form, without the question."""
    exchanges: list[JsonValue] = []
    for number, exchange in enumerate(turn.exchanges):
        sent = exchange["sent"] if number else []
        exchanges.append({**exchange, "sent": sent, "schemas": None})

    record = turn.record
    return {
        "number": turn.number,
        "instruction": _redact_text(turn.instruction),
        "is_complete": record is not None,
        "exchanges": _shown_json(exchanges),
        "failures": {} if record is None else dict(record.failures),
        "calls": 0 if record is None else record.tool_calls,
        "scores": _card_scores(run / "cards" / f"{turn.task}.json"),
    }


def _card_scores(path: Path) -> dict[str, JsonValue]:
    """Return the figures on a card; empty if the card is not written yet."""
    try:
        scores = load_card(path, "scoring").plain["scores"] if path.is_file() else {}
    except CardError:
        return {}
    return {name: score["value"] for name, score in scores.items()}


def coming_text(text: str) -> str:
    """Return an incomplete reply without secrets. A run of visible ASCII at its end is held back,
    since it may be the beginning of a secret and only whole secrets are found.
    """
    # two pieces may each hold half of a character, so the halves are joined
    joined = (
        text.rstrip(_VISIBLE).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )
    return _redact_text(joined)


def _shown_json(value: JsonValue) -> JsonValue:
    """Return JSON without the secrets in the environment, with long texts cut."""
    if isinstance(value, str):
        return _redact_text(value)
    if isinstance(value, Mapping):
        return {name: _shown_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown_json(item) for item in value]
    return value


def _redact_text(text: str) -> str:
    shown = redact_secrets(text, os.environ)
    more = len(shown) - MAX_CHARS
    return shown if more <= 0 else f"{shown[:MAX_CHARS]} … ({more} further characters)"
