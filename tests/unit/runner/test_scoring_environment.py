"""A sample may bring tools that remember what was done with them; what was done is part of the answer that is scored."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ktdeval.contracts.scoring import Sample, Score, ScoreDefinition
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.messages import ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.tools import Tool, json_tool
from ktdeval.masking.lens import Lens, MaskConfig
from ktdeval.masking.payload import Exact
from ktdeval.runner.scoring_episode import ScoringEpisode, ScoringParts
from ktdeval.testing import ConformanceError, check_scoring_task, random_snapshot
from ktdeval_builtin.react import ReactAgent

MARKET = random_snapshot()
WINDOW = Window("check", str(MARKET.days[-5]), str(MARKET.days[-1]))
FORM = ToolSpec(
    "submit_answer", "Say that you are done.", {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
)
DEFINITION = ScoreDefinition("presses of the button", "presses", (0.0, None), "higher", "of our own")


class Counter:
    """A environment with one button."""

    def __init__(self) -> None:
        self.presses: list[Mapping[str, Any]] = []
        self.tools: tuple[Tool, ...] = (json_tool("press", "Press the button.", {"type": "object"}, Counter._press),)

    def _press(self, arguments: Mapping[str, Any]) -> Exact:
        self.presses.append(arguments)
        return Exact({"presses": 1_234_567 + len(self.presses)})

    def completed(self, submitted: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**submitted, "presses": list(self.presses)}


class Buttons:
    name, version, mask, mode, tools, target_task = "buttons", "1", "bright", "buttons", (), None
    harness = HarnessConfig(max_tool_calls=3)
    windows, default_windows = {"check": WINDOW}, ("check",)
    scores: Mapping[str, ScoreDefinition] = {"presses": DEFINITION}

    def __init__(self, shared: Counter | None = None) -> None:
        self.shared = shared

    def describe(self) -> Mapping[str, Any]:
        return {"name": self.name}

    def samples(self, spec: EpisodeSpec, snapshot: Any, target_task: Any) -> "Buttons":
        return self

    def __len__(self) -> int:
        return 2

    def sample(self, number: int) -> Sample:
        lens = Lens(MaskConfig("bright"), 0, MARKET, len(MARKET.days) - 1)
        return Sample(f"sample_{number}", lens, "Press it.", "Twice.", FORM, {}, self.shared or Counter())

    def score(self, number: int, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"presses": len(answer["presses"])}

    def summarise(self, records: Sequence[Mapping[str, Any]]) -> Mapping[str, Score]:
        return {"presses": Score(None, 0, reason="not asked for")}


class Presser:
    """Presses twice, then submits."""

    def reply(self, request: ModelRequest) -> Reply:
        if request.tool_choice is not None:
            return Reply(tool_calls=(ToolCall("s", FORM.name, '{"done": true}'),))
        if any(message.role == "tool" for message in request.messages):
            return Reply(content="Done.")
        return Reply(tool_calls=(ToolCall("a", "press", '{"hard": 1}'), ToolCall("b", "press", "{}")))


def sitting(task: Buttons) -> ScoringEpisode:
    spec = EpisodeSpec(
        task.name, "1", "", MARKET.id, "bright", "buttons", WINDOW, model="m", model_args={}, agent="react", agent_args={}
    )  # fmt: skip
    return ScoringEpisode(spec, ScoringParts(task, None, MARKET, Presser(), ReactAgent()))


def test_what_was_done_with_the_tools_is_part_of_the_answer_that_is_scored() -> None:
    entry = sitting(Buttons()).run_step(0)
    record = entry.step
    assert record.answer == {"done": True, "presses": [{"hard": 1}, {}]}
    assert record.scores == {"presses": 2}
    assert (record.tool_calls, record.tool_calls_valid) == (2, 2)
    sent = [message for exchange in entry.transcript.exchanges for message in exchange["sent"]]
    told = [message["content"] for message in sent if message["role"] == "tool"]
    assert told == ['{"presses":1234568}', '{"presses":1234569}']


def test_nothing_goes_from_one_sample_to_the_next() -> None:
    sat = sitting(Buttons())
    first, second = (sat.run_step(step).step for step in (0, 1))
    assert first.answer == second.answer


def test_a_task_keeps_the_contract_only_with_a_new_bench_for_each_sample() -> None:
    check_scoring_task(Buttons(), snapshot=MARKET)
    with pytest.raises(ConformanceError, match="environment"):
        check_scoring_task(Buttons(Counter()), snapshot=MARKET)
