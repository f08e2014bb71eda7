"""Collections of results of AI models get what a language model decided, or helped to decide: who is
one is what plugins say, not a name or a card.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from ktdeval.registry import Plugins, load_plugins
from ktdeval.testing import on_each_row
from ktdeval_board.board_entries import Card
from ktdeval_board.exchange.eval_results_export import NO_LANGUAGE_MODEL, used_language_model
from support.board.board_runs import printed
from support.paths import REPOSITORY

PRACTICE = REPOSITORY / "leaderboards" / "practice"


@cache
def plugins() -> Plugins:
    return load_plugins(())


def card(model: str, *further: str) -> Card:
    """The fields of a card that name its models."""
    named = [SimpleNamespace(name=name) for name in (model, *further)]
    return cast("Card", SimpleNamespace(model=named[0], further_models=named[1:]))


@on_each_row(
    "models, is_language_model",
    (["openai/gpt-4.1"], True),
    (["vllm/my-model"], True),
    (["builtin/momentum", "anthropic/claude-sonnet-4-5"], True),
    (["builtin/momentum"], False),
    (["builtin/memory", "builtin/hold"], False),
    (["qlib/lstm"], False),
    (["rl/policy"], False),
    (["human/page"], False),
    (["declared/decisions"], False),
    (["replay/openai"], False),
    (["remote/claude_code"], False),
    # an agent elsewhere, which may be a rule
    (["trading_action/agent"], False),
    # of no plugin that is installed
    (["openai-labs/gpt-4.1"], False),
    (["lab.module:function"], False),
    (["gpt-4.1"], False),
)
def test_language_models_are_those_that_plugins_say_are_behind_a_network(
    models: tuple[str, ...], is_language_model: bool
) -> None:
    assert used_language_model(card(*models), plugins()) == is_language_model


def test_no_model_of_rules_that_ships_with_ktdeval_is_one() -> None:
    rules = [name for name in plugins().specs("models") if "/" in name]
    assert {"builtin/momentum", "qlib/lstm", "planted/memory", "rl/policy"} <= set(rules)
    assert [name for name in rules if used_language_model(card(name), plugins())] == []


def test_a_board_of_rules_has_nothing_for_collections_of_ai_models(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = printed("export", PRACTICE, "--to", "every-eval-ever", "--out", out)
    assert f"left out: 4 cards ({NO_LANGUAGE_MODEL})" in text
    assert f"{out}: nothing to write" in text
    assert list(out.iterdir()) == []


def test_a_board_of_rules_has_a_benchmark_dataset_and_no_results_of_models(tmp_path: Path) -> None:
    out = tmp_path / "out"
    text = printed(
        "export", PRACTICE, "--to", "eval-results", "--out", out, "--dataset", "acme/board"
    )
    assert f"left out: 3 cards ({NO_LANGUAGE_MODEL})" in text
    assert [path.name for path in out.iterdir()] == ["datasets"]
