"""Contexts of genai-prices: a plan names and warns by them, a run holds no prompt back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval.harness.chat_messages import as_remote
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.plans.additional_models import known_context, planned_context
from ktdeval.testing import on_each_row
from support.providers.stub_provider import skip_without_sdks

skip_without_sdks()
pytest.importorskip("genai_prices", reason="needs genai-prices, which is not installed")

TASK = "blinded_open_research"


@on_each_row(
    "name, given, tokens, source",
    ("openai/gpt-4", None, 8192, "openai/gpt-4)"),
    ("openai/gpt-4", 5000, 5000, "(--context-tokens)"),
    ("anthropic/claude-opus-4-7", None, 1_000_000, "anthropic/claude-opus-4-7)"),
    ("moonshot/kimi-k2.6", None, 262_144, "moonshotai/kimi-k2.6)"),
    ("zhipu/glm-5.1", None, 200_000, "zhipuai/GLM-5.1)"),
    ("stepfun/step-3.5-flash", None, None, None),
    ("openai/gpt-none", None, None, None),
)
def test_a_plan_has_the_listed_context_and_a_run_the_given_one(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    given: int | None,
    tokens: int | None,
    source: str | None,
) -> None:
    for variable in ("OPENAI", "ANTHROPIC", "MOONSHOT", "ZHIPUAI", "ZAI", "STEPFUN", "STEP"):
        monkeypatch.delenv(f"{variable}_API_KEY", raising=False)

    config = RunConfig(model=name, tasks=(TASK,), context_tokens=given)
    model = as_remote(load_plugins().make_model(name))
    assert model is not None

    planned = planned_context(config, model)
    assert (None if planned is None else planned.tokens) == tokens
    if planned is not None:
        assert planned.source.endswith(str(source))
        assert planned.is_listed == (given is None)

    known = known_context(config, model)
    assert (None if known is None else known.tokens) == given


@pytest.mark.slow
def test_a_plan_warns_of_prompts_that_a_list_says_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["plan", "--model", "openai/gpt-4", "--tasks", TASK, "--windows", "W1", "--limit", "1"]

    assert main([*words, "--max-output-tokens", "7000", "--json"]) == 0

    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert "the context is 8,192 tokens (genai-prices " in warning
    assert (
        "the context length comes only from a list, so such a prompt is sent, and the server may"
        in warning
    )
    assert "would be refused" not in warning
