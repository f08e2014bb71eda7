"""Episodes of ktdeval as samples of Inspect: `run_ktdeval_episode`, `task_figures`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="needs inspect-ai: pip install ktdeval-inspect")

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score
from ktdeval_inspect import ktdeval_task
from ktdeval_inspect.scoring import median_defined

from ktdeval.registry.plugin_registry import load_plugins
from ktdeval.runner import verify_card

QUESTIONS = "qfinzero_planning"
USAGE = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
HOLD = {"orders": [], "overall_reason": "nothing to buy today"}


def called(tool: str, arguments: dict[str, Any]) -> ModelOutput:
    """A reply of the model that calls one tool."""
    output = ModelOutput.for_tool_call("mockllm/model", tool, arguments)
    output.usage = USAGE
    return output


def evaluated(replies: Any, folder: Path, **task: Any) -> EvalLog:
    """The log of an evaluation with a model that gives these replies."""
    model = get_model("mockllm/model", custom_outputs=replies, memoize=False)
    given = {"windows": "W1", "limit": 2, "out": str(folder / "run")} | task
    (log,) = inspect_eval(
        ktdeval_task(**given), model=model, log_dir=str(folder / "logs"), display="none"
    )
    return log


def holding(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
    """Look once at the account in each step, then hold."""
    if any(message.role == "tool" for message in messages):
        return called("submit_action", HOLD)

    return called("portfolio_state", {})


def test_a_window_and_a_seed_are_a_sample_whose_figures_are_the_cards(tmp_path: Path) -> None:
    log = evaluated(holding, tmp_path, windows="W1,W2", seeds=1)
    assert log.status == "success", log.error
    assert [sample.id for sample in log.samples] == ["W1/seed-0", "W2/seed-0"]
    (card_file,) = (tmp_path / "run" / "cards").glob("*.json")
    card = json.loads(card_file.read_text())
    figures = {episode["window"]: episode["metrics"] for episode in card["episodes"]}
    for sample in log.samples:
        (score,) = sample.scores.values()
        for name, metric in figures[sample.metadata["window"]].items():
            wanted = metric["value"]
            found = score.value[name]
            assert math.isnan(found) if wanted is None else found == pytest.approx(wanted)

        calls = [event for event in sample.events if event.event == "tool"]
        assert [event.function for event in calls].count("portfolio_state") == 2

    verify_card(card_file, load_plugins(), {})


def test_an_error_of_the_model_is_an_error_of_the_sample_and_no_decision(tmp_path: Path) -> None:
    def failing(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        raise RuntimeError("the provider is down")

    log = evaluated(failing, tmp_path)
    assert log.status == "error"
    assert "the provider is down" in log.samples[0].error.message
    assert not list((tmp_path / "run").glob("cards/*.json"))


def test_a_limit_of_inspect_ends_the_episode_without_a_decision(tmp_path: Path) -> None:
    model = get_model("mockllm/model", custom_outputs=holding, memoize=False)
    task = ktdeval_task(windows="W1", limit=3, out=str(tmp_path / "run"))
    (log,) = inspect_eval(
        task, model=model, log_dir=str(tmp_path / "logs"), display="none", token_limit=150
    )
    assert log.samples[0].limit.type == "token"
    assert not list((tmp_path / "run").glob("cards/*.json"))


def test_a_question_task_is_a_sample_with_its_scores(tmp_path: Path) -> None:
    def answering(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", "I do not know")
        output.usage = USAGE
        return output

    log = evaluated(answering, tmp_path, task=QUESTIONS, windows=None)
    assert log.status == "success", log.error
    (card_file,) = (tmp_path / "run" / "cards").glob("*.json")
    scores = json.loads(card_file.read_text())["scores"]
    (sample,) = log.samples
    (score,) = sample.scores.values()
    assert set(score.value) == set(scores)
    for name, line in scores.items():
        found = score.value[name]
        assert math.isnan(found) if line["value"] is None else found == pytest.approx(line["value"])

    verify_card(card_file, load_plugins(), {})


def test_the_median_over_samples_leaves_out_undefined_figures() -> None:
    def median(values: list[float]) -> float:
        compute = median_defined()
        return compute([SampleScore(score=Score(value=value)) for value in values])

    assert median([1.0, math.nan, 4.0, 2.0]) == 2.0
    assert math.isnan(median([math.nan]))
