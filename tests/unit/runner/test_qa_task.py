"""Tasks that score answers: questions and their choices, and tools whose state is a part of the
answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError, PluginError, StoreError
from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.chat_messages import ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.harness.tools.tool_definition import Tool, json_tool
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.masking.payload_types import Exact
from ktdeval.runner.episodes.episode_parts import ScoringParts
from ktdeval.runner.episodes.scoring_episode import ScoringEpisodeRun
from ktdeval.task_api import AnswerRecord, EpisodeSpec
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.qa import QATask
from ktdeval.task_api.scoring import Sample, Score, ScoreDefinition
from ktdeval.testing import (
    ConformanceError,
    check_scoring_task,
    errors_with,
    on_each_row,
    random_snapshot,
)
from ktdeval.values import from_plain
from ktdeval_builtin.react import ReactAgent
from support.figures.scoring_cases import record as answer_record

SAMPLES = [
    {"question": "2 + 3?", "gold": "5"},
    {"question": "Larger?", "choices": ["3", "4"], "gold": "4", "id": "larger"},
]
SPEC = EpisodeSpec("sums", "1", "", None, None, None, None, "m/x", {}, "react", {})


def task_of(score: Any = lambda answer, sample: answer == sample["gold"], **more: Any) -> QATask:
    return QATask(more.pop("samples", SAMPLES), score, name="sums", **more)


def record(
    scores: dict[str, Any] | None, sample: str = "0", provenance: str = "fallback"
) -> AnswerRecord:
    """Answer with these scores; without any, a sample without a valid answer."""
    if scores is None:
        return answer_record(0, provenance, sample=sample)

    return answer_record(0, sample=sample, answer={"answer": "x"}, scores=scores)


ANY_NUMBER = {"accuracy": ScoreDefinition("a number", "1", (None, None), "higher", "a test")}


def accuracy(*answers: tuple[str, bool | float]) -> Score:
    """Score of answers, each with the sample that it is to."""
    return task_of(scores=ANY_NUMBER).summarise(
        [record({"accuracy": value}, sample) for sample, value in answers]
    )["accuracy"]


def test_a_question_is_shown_with_its_choices_and_without_its_gold() -> None:
    samples = task_of().samples(SPEC, None, None)
    first = samples.sample(0)
    second = samples.sample(1)

    assert (first.id, first.user, first.facts) == ("0", "2 + 3?", {"gold": "5"})
    assert (second.id, second.user) == ("larger", "Larger?\n\nAnswer with one of: 3; 4")
    assert second.form.parameters["properties"]["answer"]["enum"] == ["3", "4"]
    assert samples.score(1, {"answer": "4"}) == {"accuracy": True}


def test_a_spec_without_a_market_has_unchanged_records_and_id() -> None:
    assert SPEC.id == "0788350a57a7770f29db"

    recorded = SPEC.to_json()
    assert [recorded[name] for name in ("snapshot", "mask", "mode")] == ["", "", ""]
    assert recorded["window"] == {"name": "", "first": "", "last": ""}
    assert from_plain(recorded, EpisodeSpec, "spec") == SPEC
    assert (SPEC.window_name, SPEC.label) == (None, "sums seed 0")

    with pytest.raises(StoreError, match="has no window, and its task asks about a market"):
        SPEC.span  # noqa: B018


def test_it_fulfils_the_contract_of_a_scoring_task() -> None:
    check_scoring_task(task_of())


def test_truth_values_get_wilsons_interval_and_numbers_students() -> None:
    score = accuracy(("a", True), ("b", False))
    assert (score.value, score.n, score.detail) == (0.5, 2, {"successes": 1})
    assert score.interval is not None
    # by hand: (0.5 + z²/4 ± z √(1/8 + z²/16)) / (1 + z²/2), z = 1.96
    assert score.interval.low == pytest.approx(0.0945, abs=1e-4)

    score = accuracy(("a", 1.0), ("b", 2.0), ("c", 3.0))
    assert score.interval is not None
    assert (score.value, score.interval.low) == (
        2.0,
        pytest.approx(2 - 4.302653 / 3**0.5, abs=1e-6),
    )


@pytest.mark.parametrize(
    ("samples", "reason"),
    [("a", "a single sample has no spread"), ("abc", "all samples have the same")],
)
def test_equal_sample_scores_have_no_interval(samples: str, reason: str) -> None:
    score = accuracy(*((sample, 0.25) for sample in samples))
    assert score.interval is not None
    assert (score.value, score.interval.low) == (0.25, None)
    assert reason in str(score.interval.reason)


def test_answers_to_one_sample_in_several_seeds_count_as_one_by_their_mean() -> None:
    assert accuracy(("a", True), ("b", False), ("a", True), ("b", False)) == accuracy(
        ("a", True), ("b", False)
    )

    score = accuracy(("a", True), ("a", False), ("b", True), ("b", True), ("c", 0.0), ("c", 0.0))
    # the mean of 0.5, 1 and 0, whose standard deviation is 0.5
    assert (score.value, score.n) == (0.5, 3)
    assert score.interval is not None
    assert score.interval.high == pytest.approx(0.5 + 4.302653 * 0.5 / 3**0.5, abs=1e-6)

    shares = accuracy(("a", True), ("a", False), ("b", True), ("b", True), ("c", False)).interval
    assert shares is not None
    # a share is never outside of 0 and 1
    assert (shares.low, shares.high, shares.n) == (0.0, 1.0, 3)


@pytest.mark.parametrize(
    "records", [[], [record(None, provenance="error")], [record({"accuracy": None})]]
)
def test_without_a_scored_answer_there_is_a_reason_in_place_of_a_value(
    records: list[AnswerRecord],
) -> None:
    score = task_of().summarise(records)["accuracy"]
    assert (score.value, score.n) == (None, 0)
    assert "no sample has an answer that can be scored" in score.reason


# -- samples without a valid answer


def test_a_sample_without_a_valid_answer_counts_as_wrong() -> None:
    """One right answer and two replies in plain text: a third, and not all."""
    right = record({"accuracy": True}, "a")
    summary = task_of().summarise([right, record(None, "b"), record(None, "c")])

    assert (summary["accuracy"].value, summary["accuracy"].n) == (1 / 3, 3)
    assert summary["accuracy"].detail == {"successes": 1}
    assert summary["unanswered"].value == 2 / 3
    assert summary["unanswered"].detail == {"count": 2, "by_provenance": {"fallback": 2}}


def test_the_worst_figure_is_that_of_the_range_and_direction() -> None:
    error = ScoreDefinition("distance", "days", (0.0, 30.0), "lower", "a test")
    points = ScoreDefinition("points", "points", (-1.0, 4.0), "higher", "a test")
    task = task_of(scores={"error": error, "points": points})
    summary = task.summarise([record({"error": 2.0, "points": 4.0}, "a"), record(None, "b")])

    assert summary["error"].value == (2.0 + 30.0) / 2
    assert summary["points"].value == (4.0 - 1.0) / 2


def test_without_a_worst_figure_silence_leaves_no_score() -> None:
    task = task_of(scores=ANY_NUMBER)
    score = task.summarise([record({"accuracy": 7.0}, "a"), record(None, "b")])["accuracy"]

    assert score.value is None
    assert score.reason == (
        "1 of 2 samples have no valid answer, and the score has no worst figure: its definition"
        " names no direction, or no end of its range"
    )


def test_a_failed_call_is_missing_and_bounds_the_score() -> None:
    """Right, wrong and a failed call: a half of two; a third to two thirds of all three."""
    failed = record(None, "c", "error")
    summary = task_of().summarise([record({"accuracy": True}, "a"), record(None, "b"), failed])
    score = summary["accuracy"]

    assert (score.value, score.n) == (0.5, 2)

    bounds = {"n": 3, "missing": 1, "low": pytest.approx(1 / 3), "high": pytest.approx(2 / 3)}
    assert score.detail == {"successes": 1, "with_failed_calls": bounds}

    counted = {"count": 2, "by_provenance": {"error": 1, "fallback": 1}}
    assert summary["unanswered"].detail == counted


def test_of_a_sample_in_two_seeds_the_failed_call_leaves_half_open() -> None:
    records = [record({"accuracy": True}, "a"), record(None, "a", "error")]
    score = task_of().summarise(records)["accuracy"]
    bounds = {"n": 1, "missing": 1, "low": 0.5, "high": 1.0}
    assert (score.value, score.detail["with_failed_calls"]) == (1.0, bounds)


def test_a_figure_outside_its_range_is_the_plugins_error_and_names_the_fix() -> None:
    samples = task_of(lambda answer, sample: 2.0).samples(SPEC, None, None)
    with pytest.raises(PluginError, match=r"2.0 lies outside its range 0.0 … 1.0; declare its"):
        samples.score(0, {"answer": "5"})


@on_each_row(
    "samples, problem",
    ([], "has no samples"),
    ([{"gold": "5"}], "sample 0: question: expected text"),
    ([{"question": "?", "choices": [1]}], "sample 0: choices: expected a list of texts"),
    ([{"question": "?", "choices": ["a", "b", "a"]}], "sample 0: choices: a value appears twice"),
    ([{"question": "?", "gold": math.nan}], "sample 0: not plain JSON: Out of range float"),
    (
        [{"question": "?", "id": "a"}, {"question": "?", "id": "a"}],
        "sample 1: id 'a' is also that of another sample",
    ),
    (["What?"], "sample 0: expected a mapping with a question, was str"),
    (
        [{"question": "?", "choices": ["a", ""]}],
        "sample 0: choices: expected a list of texts, none of them empty",
    ),
)
def test_samples_that_are_no_questions_are_refused_by_their_place(
    samples: Any, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        task_of(samples=samples)


@pytest.mark.parametrize(
    ("sample", "problem"),
    [({"gold": {"5"}}, "Object of type set"), ({"question": "\ud800?"}, "surrogates not allowed")],
)
def test_samples_that_cannot_be_recorded_are_refused(sample: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=f"sample 0: not plain JSON: .*{problem}"):
        task_of(samples=[{"question": "?", **sample}])


def test_scores_are_names_and_score_is_a_function() -> None:
    wrong: list[dict[str, Any]] = [
        {"scores": "accuracy"},
        {"scores": ()},
        {"scores": (1,)},
        {"scores": ("accuracy", "unanswered")},
        {"scores": {"error": (0.0, 1.0)}},
        {"score": 0.5},
        {"score": lambda answer: True},
    ]
    assert errors_with(task_of, *wrong) == snapshot("""\
ConfigError: task sums: scores: expected names such as ('accuracy',), was 'accuracy'
ConfigError: task sums: scores: expected names such as ('accuracy',), was ()
ConfigError: task sums: scores: expected names such as ('accuracy',), was (1,)
ConfigError: task sums: scores: 'unanswered' counts samples without an answer in every task; choose another name
ConfigError: task sums: scores: error: expected a ScoreDefinition, was tuple
ConfigError: task sums: score: expected a function of answer and sample, was float
ConfigError: task sums: score: expected a function of answer and sample: too many positional arguments
""")


def test_a_score_that_changes_its_sample_changes_no_question() -> None:
    task = task_of(
        lambda answer, sample: bool(sample["gold"].append(answer)) or len(sample["gold"]),
        samples=[{**SAMPLES[0], "gold": []}],
        scores=ANY_NUMBER,
    )
    before = task.describe()
    samples = task.samples(SPEC, None, None)

    assert [samples.score(0, {"answer": "5"}) for _ in range(2)] == [{"accuracy": 1}] * 2
    assert task.describe() == before


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({1: 1.0}, "gave 1, expected accuracy"),
        ({"f1": 1.0}, "gave f1, expected accuracy"),
        (float("nan"), "expected a finite number"),
        ("yes", "expected a finite number"),
        (10**400, "expected a finite number"),
        (np.array([True]), "expected a finite number"),
    ],
)
def test_a_score_that_is_no_number_is_the_plugins_error(given: Any, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        task_of(lambda answer, sample: given).samples(SPEC, None, None).score(0, {"answer": "5"})


@pytest.mark.parametrize(
    ("given", "plain"),
    [(np.bool_(True), True), (np.float32(0.5), 0.5), (np.int64(2), 2), (np.array(False), False)],
)
def test_a_scalar_of_numpy_is_the_truth_value_or_number_that_it_holds(
    given: Any, plain: bool | float
) -> None:
    (value,) = (
        task_of(lambda answer, sample: given, scores=ANY_NUMBER)
        .samples(SPEC, None, None)
        .score(0, {"answer": "5"})
        .values()
    )

    assert (value, type(value)) == (plain, type(plain))


# -- tools of a sample


MARKET = random_snapshot()
WINDOW = Window("check", str(MARKET.days[-5]), str(MARKET.days[-1]))
FORM = ToolSpec(
    "submit_answer",
    "Say that you are done.",
    {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]},
)
DEFINITION = ScoreDefinition(
    "presses of the button", "presses", (0.0, None), "higher", "of our own"
)


class Counter:
    """A environment with one button."""

    def __init__(self) -> None:
        self.presses: list[Mapping[str, Any]] = []
        self.tools: tuple[Tool, ...] = (
            json_tool("press", "Press the button.", {"type": "object"}, Counter._press),
        )

    def _press(self, arguments: Mapping[str, Any]) -> Exact:
        self.presses.append(arguments)
        return Exact({"presses": 1_234_567 + len(self.presses)})

    def complete_answer(self, submitted: Mapping[str, Any]) -> Mapping[str, Any]:
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

    def samples(self, spec: EpisodeSpec, snapshot: Any, target_task: Any) -> Buttons:
        return self

    def __len__(self) -> int:
        return 2

    def sample(self, number: int) -> Sample:
        lens = Lens(MaskConfig("bright"), 0, MARKET, len(MARKET.days) - 1)
        return Sample(
            f"sample_{number}", lens, "Press it.", "Twice.", FORM, {}, self.shared or Counter()
        )

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

        return Reply(
            tool_calls=(ToolCall("a", "press", '{"hard": 1}'), ToolCall("b", "press", "{}"))
        )


def episode_of(task: Buttons) -> ScoringEpisodeRun:
    spec = EpisodeSpec(
        task.name,
        "1",
        "",
        MARKET.id,
        "bright",
        "buttons",
        WINDOW,
        model="m",
        model_args={},
        agent="react",
        agent_args={},
    )
    return ScoringEpisodeRun(spec, ScoringParts(task, None, MARKET, Presser(), ReactAgent()))


def test_nothing_goes_from_one_sample_to_the_next() -> None:
    sat = episode_of(Buttons())
    first, second = (sat.run_step(step).step for step in (0, 1))
    assert first.answer == second.answer


def test_conforming_task_needs_a_new_environment_for_each_sample() -> None:
    check_scoring_task(Buttons(), snapshot=MARKET)
    with pytest.raises(ConformanceError, match="environment"):
        check_scoring_task(Buttons(Counter()), snapshot=MARKET)


def test_lone_surrogate_in_an_answer_is_replaced_for_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reply = Reply(tool_calls=(ToolCall("s", "submit_answer", r'{"answer": "5 \ud83d"}'),))
    monkeypatch.setattr(Presser, "reply", lambda *_: reply)
    record = (
        ScoringEpisodeRun(SPEC, ScoringParts(task_of(), None, None, Presser(), ReactAgent()))
        .run_step(0)
        .step
    )

    assert record.answer == {"answer": "5 ?"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"id": 1}, "sample 1: id must be text that is not empty, was 1"),
        ({"id": ""}, "sample 1: id must be text that is not empty, was ''"),
        ({"id": "sample_0"}, "sample 1: id 'sample_0' is already used by sample 0"),
        ({"user": None}, "sample 1: user must be text, was None"),
        ({"system": "\ud800"}, r"sample 1: system must be text, was '\\ud800'"),
        (
            {"form": replace(FORM, name="say it")},
            "sample 1: form must be a ToolSpec with a name of A-Z",
        ),
        (
            {"form": replace(FORM, parameters={"type": "array"})},
            "sample 1: form must be .* and the schema of an object",
        ),
    ],
)
def test_an_invalid_or_duplicate_sample_is_the_plugins_error(
    changes: dict[str, Any], problem: str
) -> None:
    class Odd(Buttons):
        def sample(self, number: int) -> Sample:
            return replace(super().sample(number), **(changes if number else {}))

    sat = episode_of(Odd())
    sat.run_step(0)
    with pytest.raises(PluginError, match=problem):
        sat.run_step(1)
