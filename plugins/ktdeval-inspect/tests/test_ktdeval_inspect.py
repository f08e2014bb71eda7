"""Episodes of ktdeval as samples of Inspect: `run_ktdeval_episode`, `task_figures`."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="needs inspect-ai: pip install ./plugins/ktdeval-inspect")

from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore, Score
from ktdeval_inspect import ktdeval_task
from ktdeval_inspect.agent import agent_maker
from ktdeval_inspect.scoring import median_defined

from ktdeval.errors import UsageError
from ktdeval.registry import load_plugins
from ktdeval.runner import verify_card

sys.path.insert(0, str(Path(__file__).parent))  # as of a user's own module
import bridged_agents

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
    options = {name: given.pop(name) for name in ("sandbox", "token_limit") if name in given}
    (log,) = inspect_eval(
        ktdeval_task(**given),
        model=model,
        log_dir=str(folder / "logs"),
        display="none",
        **options,
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


# --- agents of Inspect


def decided(log: EvalLog, folder: Path) -> dict[str, Any]:
    """The card of a run whose agent decided; it is verified without Inspect."""
    assert log.status == "success", log.error or log.samples[0].error
    (card_file,) = (folder / "run" / "cards").glob("*.json")
    verify_card(card_file, load_plugins(), {})
    card: dict[str, Any] = json.loads(card_file.read_text())
    return card


def asks(log: EvalLog) -> list[Any]:
    """Calls of the evaluation's own model, in order; those of agents pass it on the way."""
    events = [event for event in log.samples[0].events if event.event == "model"]
    return [event for event in events if event.model == "mockllm/model"]


@pytest.mark.parametrize("agent", ["react", "bridged_agents:openai_client"])
def test_an_agent_of_inspect_decides_with_the_figures_of_ktdevals_own(
    tmp_path: Path, agent: str
) -> None:
    log = evaluated(holding, tmp_path / "inspect", agent=agent)
    card = decided(log, tmp_path / "inspect")
    own = decided(evaluated(holding, tmp_path / "own"), tmp_path / "own")

    assert card["agent"] == {"name": "inspect", "args": {"agent": agent}}
    assert card["usage"]["tool_calls"] == own["usage"]["tool_calls"] == 2
    assert card["metrics"] == own["metrics"]
    assert "not isolated" in card["labels"]

    # Tokens are counted once, though the agent's own model stands before the evaluation's.
    assert log.stats.model_usage["mockllm/model"].input_tokens == card["usage"]["input_tokens"]


def test_a_program_in_a_sandbox_asks_through_inspects_bridge(tmp_path: Path) -> None:
    def telling(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/model", "hold today")
        output.usage = USAGE
        return output

    bridged_agents.SEEN.clear()
    log = evaluated(telling, tmp_path, agent="bridged_agents:program", sandbox="local")
    card = decided(log, tmp_path)
    assert card["decisions"]["model"] == 2
    assert card["usage"]["input_tokens"] == 2 * USAGE.input_tokens
    said = [json.loads(answer)["choices"][0]["message"] for answer in bridged_agents.SEEN]
    assert [message["content"] for message in said] == ["hold today", "hold today"]


def submitting(messages: Any, tools: Any, choice: Any, config: Any) -> ModelOutput:
    """Submit at once, by whatever name an agent gives the tool."""
    (submit,) = (tool.name for tool in tools if tool.name.endswith("submit_action"))
    return called(submit, HOLD)


@pytest.mark.parametrize(("agent", "command"), [("codex_cli", "codex"), ("claude_code", "claude")])
def test_a_program_of_inspect_swe_decides(
    tmp_path: Path, agent: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("inspect_swe", reason="needs inspect-swe")
    if shutil.which(command) is None:
        pytest.skip(f"needs {command}: npm install @openai/codex @anthropic-ai/claude-code")

    monkeypatch.setenv("HOME", str(tmp_path))
    log = evaluated(submitting, tmp_path, agent=agent, sandbox="local")
    card = decided(log, tmp_path)
    assert card["decisions"]["model"] == 2
    assert card["usage"]["submissions"] == 2
    assert card["usage"]["input_tokens"] == 2 * USAGE.input_tokens


def test_an_identity_that_an_agent_writes_is_withheld_from_the_model(tmp_path: Path) -> None:
    log = evaluated(holding, tmp_path, agent="bridged_agents:naming", limit=1)
    card = decided(log, tmp_path)
    (asked, *_) = asks(log)
    sent = " ".join(message.text for message in asked.input)
    assert "Is it" in sent
    assert bridged_agents.IDENTITY not in sent
    assert card["failures"]["identity_withheld"] > 0


def test_an_agent_that_submits_nothing_holds(tmp_path: Path) -> None:
    card = decided(evaluated([], tmp_path, agent="bridged_agents:silent"), tmp_path)
    assert card["decisions"] == {"error": 0, "fallback": 2, "model": 0, "model_after_retry": 0}


def test_an_error_of_an_agent_is_an_error_of_the_sample_and_no_decision(tmp_path: Path) -> None:
    log = evaluated([], tmp_path, agent="bridged_agents:failing")
    assert log.status == "error"
    assert "the agent broke" in log.samples[0].error.message
    assert not list((tmp_path / "run").glob("cards/*.json"))


def test_a_limit_of_inspect_ends_an_agent_without_a_decision(tmp_path: Path) -> None:
    log = evaluated(holding, tmp_path, agent="react", token_limit=150)
    assert log.samples[0].limit.type == "token"
    assert not list((tmp_path / "run").glob("cards/*.json"))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nothing", "expected one of react, antigravity, claude_code, codex_cli"),
        ("no_such_module:agent", "No module named 'no_such_module'"),
        ("bridged_agents:absent", "no attribute 'absent'"),
    ],
)
def test_an_agent_that_is_none_is_named(name: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        agent_maker(name)
