"""Compact prompts: trading decisions of every family within 8,000 tokens, under the same rules; the
card says what they leave out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.costs.prompt_size import MAX_TOKENS, prompt_bytes
from ktdeval.errors import ConfigError, UsageError
from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.runner import RunConfig
from ktdeval.runner.rehearsals.rehearsal import rehearse
from ktdeval.testing import not_empty
from ktdeval.values import dumps_canonical
from support.llm.real_tokenizers import counters, needs_tokenizers
from support.runs.run_support import ktdeval
from support.tasks.planned_tasks import PLUGINS, TASKS, planned

MOST = 8_000
DECISIONS = [name for name in TASKS if not name.startswith(("deanon", "memory_floor", "qfinzero"))]
FAMILIES = {PLUGINS.spec("tasks", name).groups[0]: name for name in reversed(DECISIONS)}


def first_prompt(task: str) -> ModelRequest:
    """The longest request of a task's first step."""
    plan = planned(task)
    (first,) = rehearse(plan.specs[:1], lambda: plan.factory)
    requests = first.play_shown(with_lessons=False).requests

    return max(requests, key=lambda request: prompt_bytes(request).tokens(MAX_TOKENS))


def config_of(task: str) -> Any:
    return PLUGINS.make_task(task).describe()


@pytest.mark.parametrize("task", DECISIONS)
def test_the_first_prompt_of_every_task_fits_8000_tokens(task: str) -> None:
    assert prompt_bytes(first_prompt(f"{task}_compact")).tokens(MAX_TOKENS) <= MOST


@needs_tokenizers
@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_tokenizers_count_8000_tokens_at_most(task: str) -> None:
    request = first_prompt(f"{task}_compact")
    texts = [message.content for message in request.messages]
    texts += [dumps_canonical([tool.description, tool.parameters]) for tool in request.tools]

    for count in not_empty(counters().values()):
        assert sum(map(count, texts)) <= MOST


#: what a rule of trading depends on
RULES = ("trading", "mask", "windows", "answers", "hold", "sell", "exit", "weights", "metrics")


@pytest.mark.parametrize("task", FAMILIES.values(), ids=FAMILIES)
def test_no_rule_changes_and_the_version_is_another(task: str) -> None:
    full = config_of(task)
    compact = config_of(f"{task}_compact")

    assert {name: compact.get(name) for name in RULES} == {name: full.get(name) for name in RULES}
    assert compact["harness"] == {
        **full["harness"],
        "max_candidates": compact["harness"]["max_candidates"],
    }
    assert (full["prompt"], compact["prompt"]) == ("full", "compact")
    assert compact["version"] == f"{full['version']}-compact"


def test_the_config_says_what_is_left_out() -> None:
    assert config_of("deepfund_berkshire_compact")["left_out"] == [
        "news 10 of 60",
        "news_each 2 of 10",
        "news_characters 300 of 2000",
        "history 20 of 100",
        "open, high and low",
        "digits beyond three",
    ]
    assert config_of("blinded_fixed_candidate_compact")["left_out"][0] == "max_candidates 16 of 30"
    assert config_of("blinded_fixed_candidate")["left_out"] == []


def test_set_names_the_tasks_once_and_takes_nothing_else() -> None:
    config = RunConfig("builtin/hold", ("ama", "views_*"), set={"prompt": "compact"})
    assert (config.tasks, config.set) == (("ama_compact", "views_*_compact"), {})

    again = RunConfig("builtin/hold", config.tasks, set={"prompt": "compact"})
    assert again.tasks == config.tasks
    assert PLUGINS.resolve_tasks(("views_*_compact",)) == ["views_blinded_compact"]

    with pytest.raises(ConfigError, match="--set shown=3: tasks take prompt=full or compact"):
        RunConfig("builtin/hold", ("ama",), set={"shown": 3})


@pytest.mark.parametrize("task", ["deanon_probe", "qfinzero_calling"])
def test_a_probe_has_no_compact_prompt(task: str) -> None:
    with pytest.raises(UsageError, match=f"task {task} has no compact prompt"):
        PLUGINS.resolve_tasks((f"{task}_compact",))


@pytest.mark.slow
def test_a_run_by_the_command_verifies_and_its_card_says_what_was_left_out(tmp_path: Path) -> None:
    words = ("--tasks", "market_blinded", "--set", "prompt=compact", "--model", "builtin/momentum")
    where = ("--windows", "2024-04-01:2024-04-03", "--out", "run", "--quiet")
    done = ktdeval("run", *words, *where, cwd=tmp_path)

    assert done.code == 0, done.err

    (card,) = (tmp_path / "run" / "cards").glob("market_blinded_compact*.json")
    shown = ktdeval("card", "show", card, "--all", cwd=tmp_path).out

    assert "left out" in shown
    assert "shown 30 of 120" in shown
    assert ktdeval("card", "verify", "run", cwd=tmp_path).code == 0


def test_set_names_an_execution_and_a_prompt_in_one_order() -> None:
    both = RunConfig("builtin/hold", ("ama_compact",), set={"execution": "sqrt"})
    assert both.tasks == ("ama_sqrt_compact",)

    again = RunConfig("builtin/hold", both.tasks, set={"execution": "sqrt", "prompt": "compact"})
    assert again.tasks == both.tasks

    plain = RunConfig("builtin/hold", ("ama",), set={"execution": None})
    assert plain.tasks == ("ama",)
    assert PLUGINS.resolve_tasks(("bright_*_research_sqrt",)) == ["bright_open_research_sqrt"]


def test_a_question_takes_no_execution() -> None:
    with pytest.raises(UsageError, match="executes no orders"):
        PLUGINS.make_task("deanon_probe_bright_sqrt")
