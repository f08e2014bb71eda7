"""Chats on disk: `CHATS/ID/chat.json`, a task file for each turn, and the run folder.

chat.json     model, clock and data of the chat
turn-01.yaml  task file of the first turn, and so on
run.yaml      options of the run, for `ktdeval run --config`
run/          the run folder
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import structs

from ktdeval.errors import StoreError
from ktdeval.runner import RunConfig, RunFolder
from ktdeval.task_api import AnswerRecord
from ktdeval.values import (
    Address,
    Value,
    decode_json,
    dumps_pretty,
    from_plain,
    load_yaml,
    make_folder,
    read_plain,
    to_plain,
    write_atomic,
)
from ktdeval_qfinzero.chat.question import ChatAnswer
from ktdeval_qfinzero.errors import ServiceError, conflict, not_found
from ktdeval_qfinzero.live.tool_use_config import MAX_TURNS, ChatCall, ChatTurn

_ID: Final = re.compile(r"[0-9a-f]{16}")
_CHAT: Final = "chat.json"
_RUN: Final = "run"
_OPTIONS: Final = "run.yaml"
_MAX_FILE_BYTES: Final = 4 << 20
_BASE: Final = "qfinzero_planning_live"


class ChatHead(Value, frozen=True):
    """A chat without its turns."""

    id: str
    model: str  #: model as chosen, with its parameters
    as_of: str  #: start of the first turn's clock
    content_id: str  #: id of the dataset
    data: Address | None  #: folder of the dataset; None for the embedded one
    seed: int  #: seed of the embedded dataset
    created_at: str
    max_tokens: int
    max_cost: float | None = None


class RecordedTurn(Value, frozen=True):
    """One turn: the user's text, and the record of the answer."""

    number: int  #: from 1
    task: str
    instruction: str
    record: AnswerRecord | None = None  #: None until the answer is recorded
    exchanges: tuple[dict[str, Any], ...] = ()

    @property
    def answer(self) -> ChatAnswer | None:
        """Recorded answer; None if the model gave none."""
        record = self.record
        if record is None or record.answer is None:
            return None
        return from_plain(dict(record.answer), ChatAnswer, record.sample)


class ChatStore:
    """All chats in a folder. `most`: maximum number of chats."""

    def __init__(self, folder: Path, most: int) -> None:
        self.folder = folder
        self._most = most

    def ids(self) -> list[str]:
        """Return the ids of all chats, newest first."""
        if not self.folder.is_dir():
            return []

        found = [path for path in self.folder.iterdir() if _ID.fullmatch(path.name)]
        chats = [path for path in found if not path.is_symlink() and (path / _CHAT).is_file()]
        return [path.name for path in sorted(chats, key=_read_made_time, reverse=True)]

    def create(self, head: ChatHead) -> None:
        """Write a new chat. Raises ServiceError `unavailable` if there are too many chats;
        StoreError if the folder can't be written.
        """
        if len(self.ids()) >= self._most:
            raise ServiceError(
                "unavailable",
                f"there are {self._most} chats; delete some in {self.folder}",
            )

        path = self.folder / head.id
        make_folder(path, "choose another --chats")
        write_atomic(path / _CHAT, dumps_pretty(to_plain(head)))

    def path_of(self, chat_id: str) -> Path:
        """Return the folder of a chat. Raises ServiceError `not_found` if it does not exist."""
        if not _ID.fullmatch(chat_id):
            raise not_found("chat", "there is no such chat")

        path = self.folder / chat_id
        if path.is_symlink() or not (path / _CHAT).is_file():
            raise not_found("chat", "there is no such chat")
        return path

    def run_of(self, chat_id: str) -> Path:
        """Return the run folder of a chat, which need not exist yet."""
        return self.path_of(chat_id) / _RUN

    def head(self, chat_id: str) -> ChatHead:
        """Return the head of a chat. Raises ServiceError if the chat does not exist; StoreError if
        its file is malformed.
        """
        path = self.path_of(chat_id) / _CHAT
        return decode_json(read_plain(path, _MAX_FILE_BYTES), ChatHead, str(path), StoreError)

    def delete(self, chat_id: str) -> None:
        """Remove a chat with its run."""
        shutil.rmtree(self.path_of(chat_id))

    def turns(self, chat_id: str) -> list[RecordedTurn]:
        """Return a chat's recorded turns, in order."""
        path = self.run_of(chat_id)
        run = RunFolder.load(path) if (path / "manifest.json").is_file() else None
        turns = []
        for number, instruction in enumerate(self.instructions(chat_id), 1):
            turn = RecordedTurn(
                number=number, task=_task_name(chat_id, number), instruction=instruction
            )
            turns.append(turn if run is None else _with_record(turn, run))

        return turns

    def instructions(self, chat_id: str) -> list[str]:
        """Return the user's texts, turn by turn. Raises StoreError if a file is not the task file
        of a turn.
        """
        texts = []
        for number, path in enumerate(self._turn_files(chat_id), 1):
            content = load_yaml(path)
            try:
                variant = content["variants"][_task_name(chat_id, number)]
                texts.append(str(variant["conversation"]["instruction"]))
            except (KeyError, TypeError) as error:
                raise StoreError(f"{path}: is not the task file of a turn; restore it") from error

        return texts

    def add_turn(self, chat_id: str, instruction: str) -> int:
        """Write another turn durably and return its number. Raises ServiceError if the previous
        turn is not finished, or if there are too many turns.
        """
        head = self.head(chat_id)
        before = self.turns(chat_id)
        if before and before[-1].record is None:
            raise conflict("the turn before is not finished; resume it first")
        if len(before) >= MAX_TURNS:
            raise conflict(f"a chat has at most {MAX_TURNS} turns; begin another")

        number = len(before) + 1
        conversation = {
            "as_of": head.as_of,
            "instruction": instruction,
            "content_id": head.content_id,
            "data": head.data,
            "turns": [to_plain(_as_past(turn)) for turn in before],
        }
        variant: dict[str, Any] = {"extends": _BASE, "conversation": conversation}
        if head.data is None:
            variant["data_seed"] = head.seed

        content = {
            "family": "qfinzero_chat",
            "version": "2",
            "summary": "One turn of a chat of the playground",
            "variants": {_task_name(chat_id, number): variant},
        }
        path = self.path_of(chat_id) / f"turn-{number:02d}.yaml"
        write_atomic(path, yaml.safe_dump(content, sort_keys=False))
        return number

    def keep_options(self, chat_id: str) -> RunConfig:
        """Write the options of a chat's run with all of its turns, and return the options. The
        stored options may lack a turn if the process was killed after the turn was written.
        """
        config = self._config_of(chat_id)
        write_atomic(self.path_of(chat_id) / _OPTIONS, _options_text(config))
        return config

    def _config_of(self, chat_id: str) -> RunConfig:
        head = self.head(chat_id)
        return RunConfig(
            model=head.model,
            tasks=tuple(str(path.resolve()) for path in self._turn_files(chat_id)),
            agent="chat",
            out=str(self.run_of(chat_id).resolve()),
            extend=True,  # a chat's run gains a task with each turn
            cache="run",
            canary=0,
            max_failures=1,
            max_tokens=head.max_tokens,
            max_cost=head.max_cost,
            quiet=True,
        )

    def _turn_files(self, chat_id: str) -> list[Path]:
        return sorted(self.path_of(chat_id).glob("turn-[0-9][0-9].yaml"))


def new_id() -> str:
    """Return the id of a new chat."""
    return secrets.token_hex(8)


def _task_name(chat_id: str, number: int) -> str:
    return f"chat_{chat_id}_{number}"


def _read_made_time(path: Path) -> int:
    return (path / _CHAT).stat().st_mtime_ns


def _with_record(turn: RecordedTurn, run: RunFolder) -> RecordedTurn:
    for spec in run.manifest.specs:
        if spec.task == turn.task and run.is_complete(spec):
            (record,) = run.load_answers(spec)
            (entry,) = run.load_transcript(spec)
            return structs.replace(turn, record=record, exchanges=entry.exchanges)

    return turn


def _as_past(turn: RecordedTurn) -> ChatTurn:
    """Return a recorded turn in the form in which later turns show it."""
    answer = turn.answer
    if answer is None:
        return ChatTurn(instruction=turn.instruction, answer="")

    calls = tuple(ChatCall(tool=each.tool, arguments=each.arguments) for each in answer.calls)
    return ChatTurn(instruction=turn.instruction, answer=answer.answer, calls=calls)


def _options_text(config: RunConfig) -> str:
    """Return a run's options as YAML, without defaults."""
    usual = RunConfig(model=config.model, tasks=config.tasks)
    changed: dict[str, Any] = {"model": config.model, "tasks": list(config.tasks)}
    for name, value in vars(config).items():
        if value != getattr(usual, name):
            changed[name] = dict(value) if isinstance(value, Mapping) else value

    changed["tasks"] = list(config.tasks)
    return yaml.safe_dump(changed, sort_keys=False)
