"""The one question of a chat's turn: how it is put, the tools that answer it, and its figures."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Final

from ktdeval.errors import DataError
from ktdeval.harness import ToolSpec
from ktdeval.masking import UNMASKED
from ktdeval.tasks import Sample
from ktdeval.values.jsonio import JsonValue, dumps_canonical
from ktdeval.values.typed import Value, from_plain, to_plain
from ktdeval_qfinzero.benchmark.items import end_state
from ktdeval_qfinzero.chat.config import ChatConfig, ChatTurn
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.moments import moment_text, parse_moment
from ktdeval_qfinzero.suite.brief import clock_words
from ktdeval_qfinzero.suite.environment import LiveEnvironment, encodable
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.suite.one_question import accepted_again, make_again, market_words
from ktdeval_qfinzero.view import View
from ktdeval_qfinzero.workspace import Workspace

PROMPTS: Final = ("system", "user")
_SHOWN_SYMBOLS: Final = 60
_MOST_ANSWER_CHARS: Final = 20_000

FORM: Final = ToolSpec(
    "reply_to_user",
    "Answer the user. A reply in plain text, without a call, does the same.",
    {
        "type": "object",
        "properties": {
            "answer": {
                "type": "string",
                "minLength": 1,
                "maxLength": _MOST_ANSWER_CHARS,
                "description": "the answer, in plain text",
            }
        },
        "required": ["answer"],
        "additionalProperties": False,
    },
)
"""Form of an answer; its field is what a reply in plain text fills."""


class ChatAnswer(Value, frozen=True):
    """Recorded answer of a turn: the text, the calls, and the state that they left."""

    answer: str
    calls: tuple[RecordedCall, ...]
    end_state: Any


class ChatEnvironment(LiveEnvironment):
    """Tools of a turn. Its calls act on the workspace that the turns before have left."""

    def completed(self, submitted: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """Return the answer, together with the calls and the state that they left."""
        recorded = ChatAnswer(
            answer=encodable(str(submitted["answer"])),
            calls=tuple(self.calls),
            end_state=to_plain(end_state(self.workspace)),
        )
        plain = to_plain(recorded)
        assert isinstance(plain, dict)
        return plain


class ChatSamples:
    """The question of one turn."""

    def __init__(self, name: str, config: ChatConfig, dataset: Dataset) -> None:
        self._name = name
        self._config = config
        self._dataset = dataset

    def __len__(self) -> int:
        """How many there are."""
        return 1

    def sample(self, number: int) -> Sample:  # noqa: ARG002 - there is one
        """Return the question. Raises DataError: the clock can't stand where the chat says."""
        conversation = self._config.conversation
        workspace, past = self._situation()
        clock_ns = workspace.clock.as_of_ns
        user = Template(prompt_text("user")).substitute(
            past=past, clock=clock_words(clock_ns), instruction=conversation.instruction
        )
        return Sample(
            "turn",
            UNMASKED,
            self._system(View(self._dataset, clock_ns)),
            user,
            FORM,
            {"turn": 1 + len(conversation.turns), "as_of": moment_text(clock_ns)},
            ChatEnvironment(lambda: self._situation()[0], self._config.max_answer_chars),
            text_field="answer",
        )

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:  # noqa: ARG002 - there is one
        """Count the calls of an answer, which are made again. Raises InvariantError: they leave
        another state than the recorded one.
        """
        recorded = from_plain(dict(answer), ChatAnswer, self._name)
        workspace, _ = self._situation()
        accepted = accepted_again(workspace, recorded.calls, recorded.end_state, self._name)
        return {"calls": len(recorded.calls), "accepted": accepted}

    def _situation(self) -> tuple[Workspace, str]:
        """Return a workspace as the turns before have left it, and these turns in words."""
        conversation = self._config.conversation
        workspace = Workspace(self._dataset, parse_moment(conversation.as_of, "as_of"))
        parts = [self._told(workspace, turn) for turn in conversation.turns]
        return workspace, "".join(parts)

    def _told(self, workspace: Workspace, turn: ChatTurn) -> str:
        """Make the calls of an earlier turn and put it into words."""
        calls = [RecordedCall(tool=each.tool, arguments=each.arguments) for each in turn.calls]
        lines = [f"# The user wrote\n\n{turn.instruction}\n"]
        for call, answer in zip(calls, make_again(workspace, calls), strict=True):
            shown = dumps_canonical(answer)
            if len(shown) > self._config.most_past_chars:
                shown = f"{shown[: self._config.most_past_chars]} … (cut)"

            lines.append(f"You called {call.tool} {dumps_canonical(call.arguments)}\n→ {shown}\n")

        lines.append(f"# You answered\n\n{turn.answer or '(nothing)'}\n")
        return "\n".join(lines) + "\n"

    def _system(self, view: View) -> str:
        info = self._dataset.info
        rows = view.symbols()
        named = [f"{row.symbol} ({row.name})" for row in rows[:_SHOWN_SYMBOLS]]
        return Template(prompt_text("system")).substitute(
            market=market_words(info),
            calendar=info.calendar,
            currency=info.currency,
            symbols=", ".join(named) or "none is listed yet",
        )


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file that ships with the package."""
    return (Path(__file__).with_name(f"{name}.md")).read_text(encoding="utf-8").rstrip("\n")


def check_dataset_of(dataset: Dataset, config: ChatConfig, name: str) -> None:
    """Raise DataError if a dataset is not the one that a chat is about."""
    expected = config.conversation.content_id
    if dataset.info.content_id != expected:
        raise DataError(
            f"{name}: the chat is about the dataset {expected[:12]}…, and the one there is"
            f" {dataset.info.content_id[:12]}…: it was changed since; restore it"
        )
