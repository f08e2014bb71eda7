"""A question answered by tool calls: its prompts, its tools, and the figures of the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any, Final

from ktdeval.harness import ToolSpec
from ktdeval.masking import UNMASKED
from ktdeval.task_api import Sample
from ktdeval.values import JsonValue, Value, dumps_canonical, from_plain, load_yaml
from ktdeval_qfinzero.benchmark.items import refusal_of
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.live.score_summary import Earned
from ktdeval_qfinzero.live.tool_use_config import ChatTurn
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.suite.environment import LiveEnvironment, make_again, make_calls
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.suite.prompt_texts import clock_words
from ktdeval_qfinzero.timestamps import moment_text, parse_moment

_SHOWN_SYMBOLS: Final = 60


def read_form(folder: Path) -> ToolSpec:
    """Read the tool that ends a question from `form.yaml` in its folder."""
    return ToolSpec(**load_yaml(folder / "form.yaml"))


class LiveAnswer(Value, frozen=True):
    """Recorded answer without its text: the calls, and the state that they left."""

    calls: tuple[RecordedCall, ...]
    end_state: Any


def no_figures(workspace: Workspace) -> Mapping[str, JsonValue]:  # noqa: ARG001 - none of it counts
    """Return no figures, since only the calls are counted."""
    return {}


@dataclass(frozen=True, kw_only=True)
class LiveQuestion:
    """One question: the parameters in which chat turns and trading sessions differ."""

    id: str  #: id of the sample
    #: folder of the prompts `system.md` and `user.md`, the form, and the score definitions
    folder: Path
    form: ToolSpec  #: tool that ends the question with a text
    answer_type: type[LiveAnswer]  #: type of the recorded answer, which includes the text
    earned_type: type[Earned] = Earned  #: figures of an answer, as recorded
    as_of: str  #: start of the clock
    words: Mapping[str, str]  #: prompt variables specific to the question
    facts: Mapping[str, JsonValue]
    max_answer_chars: int  #: maximum length of a call's answer that is passed on to the model
    text_field: str = ""  #: as in `Sample`
    turns: tuple[ChatTurn, ...] = ()  #: earlier turns, whose calls are repeated
    #: maximum length of the answer to an earlier call when it is shown again
    most_past_chars: int = 0
    #: figures of the calls, from the workspace in its final state
    figures: Callable[[Workspace], Mapping[str, JsonValue]] = no_figures

    def prompt(self, name: str) -> str:
        """Return the text of a prompt file."""
        return (self.folder / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


class LiveSamples:
    """Sample set with the one question of an episode."""

    def __init__(self, name: str, question: LiveQuestion, dataset: Dataset) -> None:
        self._name = name
        self._question = question
        self._dataset = dataset

    def __len__(self) -> int:
        """Return the number of questions."""
        return 1

    def sample(self, number: int) -> Sample:  # noqa: ARG002 - there is one
        """Return the question. Raises DataError if the clock can't start at the question's time."""
        question = self._question
        workspace, past = self._situation()
        clock_ns = workspace.clock.as_of_ns
        # of the start, so that the system prompt is the same in every turn
        start = DatasetView(self._dataset, parse_moment(question.as_of, "as_of"))
        words = {
            **market_words(self._dataset.info),
            "symbols": symbols_text(start),
            "past": past,
            "clock": clock_words(clock_ns),
            **question.words,
        }
        return Sample(
            question.id,
            UNMASKED,
            Template(question.prompt("system")).substitute(words),
            Template(question.prompt("user")).substitute(words),
            question.form,
            {**question.facts, "as_of": moment_text(clock_ns)},
            LiveEnvironment(lambda: self._situation()[0], question.max_answer_chars),
            question.text_field,
        )

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:  # noqa: ARG002 - there is one
        """Replay an answer's calls, count them and return their figures. Raises InvariantError if
        they lead to a state other than the recorded one.
        """
        recorded = from_plain(dict(answer), self._question.answer_type, self._name)
        workspace, _ = self._situation()
        answers = make_again(workspace, recorded.calls, recorded.end_state, self._name)
        accepted = sum(not refusal_of(each) for each in answers)
        counts: dict[str, JsonValue] = {"calls": len(answers), "accepted": accepted}
        return {**counts, **self._question.figures(workspace)}

    def _situation(self) -> tuple[Workspace, str]:
        """Return a workspace after the earlier turns, and the text of these turns."""
        question = self._question
        workspace = Workspace(self._dataset, parse_moment(question.as_of, "as_of"))
        parts = [_past_text(workspace, turn, question.most_past_chars) for turn in question.turns]
        return workspace, "".join(parts)


def _past_text(workspace: Workspace, turn: ChatTurn, max_chars: int) -> str:
    """Repeat the calls of an earlier turn and return the turn's text for the prompt."""
    calls = [RecordedCall(tool=each.tool, arguments=each.arguments) for each in turn.calls]
    lines = [f"# The user wrote\n\n{turn.instruction}\n"]
    for call, answer in zip(calls, make_calls(workspace, calls), strict=True):
        shown = dumps_canonical(answer)
        if len(shown) > max_chars:
            shown = f"{shown[:max_chars]} … (cut)"

        lines.append(f"You called {call.tool} {dumps_canonical(call.arguments)}\n→ {shown}\n")

    lines.append(f"# You answered\n\n{turn.answer or '(nothing)'}\n")
    return "\n".join(lines) + "\n"


def market_words(info: DatasetInfo) -> dict[str, str]:
    """Return the texts about a market that prompts use."""
    market = f"The market {info.name}"
    if info.synthetic:
        market = "An invented market"
    return {"market": market, "calendar": info.calendar, "currency": info.currency}


def symbols_text(view: DatasetView) -> str:
    """Return the first symbols of a market with their names."""
    named = [f"{row.symbol} ({row.name})" for row in view.symbols()[:_SHOWN_SYMBOLS]]
    return ", ".join(named) or "none is listed yet"
