"""Chats as the page shows them, from their records."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

from ktdeval.cards import load_card
from ktdeval.errors import CardError, KtdevalError
from ktdeval.values import JsonValue, Value
from ktdeval_qfinzero.access.pages.playground.chat_store import (
    ChatStore,
    RecordedTurn,
    answer_of_record,
    short,
)
from ktdeval_qfinzero.access.pages.playground.conversation_view import (
    TalkPart,
    redact_text,
    redacted_part,
    told_exchanges,
)
from ktdeval_qfinzero.access.pages.playground.runs import ChatRuns


class ScoreShown(Value, frozen=True):
    """A figure of a turn's card."""

    name: str
    value: float | None
    unit: str


class TurnShown(Value, frozen=True):
    """A turn of a chat."""

    number: int
    instruction: str
    is_complete: bool
    parts: tuple[TalkPart, ...]
    answer: str | None
    provenance: str
    failures: dict[str, int]
    calls: int
    scores: tuple[ScoreShown, ...]


class ChatShown(Value, frozen=True):
    """A chat with its turns, and commands on its run."""

    id: str
    title: str
    model: str
    as_of: str
    created_at: str
    state: Literal["new", "running", "unfinished", "ready"]
    message: str  #: why the last run did not finish
    turns: tuple[TurnShown, ...]
    run: str
    commands: dict[str, str]


class ChatListed(Value, frozen=True):
    """A chat in the list of all."""

    id: str
    title: str
    model: str
    created_at: str
    turns: int
    problem: str = ""  #: why it can't be read


def shown_chat(store: ChatStore, runs: ChatRuns, chat_id: str) -> ChatShown:
    """Return a chat. Raises ServiceError: there is none; StoreError: it can't be read."""
    head = store.head(chat_id)
    turns = store.turns(chat_id)
    run = store.run_of(chat_id)
    state: Literal["new", "running", "unfinished", "ready"] = "ready"
    if runs.is_running(chat_id):
        state = "running"
    elif not turns:
        state = "new"
    elif not turns[-1].is_complete:
        state = "unfinished"

    last = runs.running(chat_id)
    message = ""
    if last is not None and state == "unfinished":
        message = last.message

    return ChatShown(
        id=head.id,
        title=redact_text(short(turns[0].instruction)) if turns else "",
        model=head.model,
        as_of=head.as_of,
        created_at=head.created_at,
        state=state,
        message=message,
        turns=tuple(_shown_turn(turn, run) for turn in turns),
        run=str(run.resolve()),
        commands=_commands(run.resolve()),
    )


def _commands(run: Path) -> dict[str, str]:
    path = shlex.quote(str(run))
    options = shlex.quote(str(run.parent / "run.yaml"))
    return {
        "view": f"ktdeval view {path} --open",
        "score": f"ktdeval score {path}",
        "verify": f"ktdeval card verify {path}",
        "resume": f"ktdeval run --config {options}",
    }


def _shown_turn(turn: RecordedTurn, run: Path) -> TurnShown:
    record = turn.record
    answer = None
    if record is not None and record.answer is not None:
        answer = redact_text(answer_of_record(record).answer)

    parts = [redacted_part(part) for part in told_exchanges(turn.exchanges)]
    return TurnShown(
        number=turn.number,
        instruction=redact_text(turn.instruction),
        is_complete=turn.is_complete,
        parts=tuple(parts),
        answer=answer,
        provenance="" if record is None else record.provenance,
        failures={} if record is None else dict(record.failures),
        calls=0 if record is None else record.tool_calls,
        scores=_card_scores(run / "cards" / f"{turn.task}.json"),
    )


def _card_scores(path: Path) -> tuple[ScoreShown, ...]:
    """Return the figures of a card; none where it is not written yet."""
    if not path.is_file():
        return ()

    try:
        card = load_card(path, "scoring")
    except CardError:
        return ()

    scores = []
    for name, score in card.plain["scores"].items():
        scores.append(
            ScoreShown(name=name, value=_number_or_none(score["value"]), unit=str(score["unit"]))
        )
    return tuple(scores)


def _number_or_none(value: JsonValue) -> float | None:
    if isinstance(value, int | float):
        return float(value)
    return None


def listed_chats(store: ChatStore) -> list[ChatListed]:
    """Return all chats, newest first; one that can't be read says why."""
    listed = []
    for chat_id in store.ids():
        try:
            listed.append(_listed_chat(store, chat_id))
        except KtdevalError as error:
            listed.append(
                ChatListed(
                    id=chat_id, title="", model="", created_at="", turns=0, problem=str(error)
                )
            )

    return listed


def _listed_chat(store: ChatStore, chat_id: str) -> ChatListed:
    head = store.head(chat_id)
    instructions = store.instructions(chat_id)
    title = ""
    if instructions:
        title = redact_text(short(instructions[0]))
    return ChatListed(
        id=chat_id,
        title=title,
        model=head.model,
        created_at=head.created_at,
        turns=len(instructions),
    )
