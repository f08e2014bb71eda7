"""Which fields of a task's config can change a result: of every installed task."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.cards import facts_besides_variant, facts_of_mode, task_facts
from ktdeval.registry import load_plugins

#: Fields that say what is asked, shown, allowed or charged. A new field of a config is added here
#: or to a list of `ktdeval.cards.task_identity`
RESULT_FIELDS = frozenset(
    [
        "account",
        "answers",
        "assets",
        "calls",
        "controls",
        "data_seed",
        "duties",
        "execution",
        "exit",
        "family",
        "form",
        "forms",
        "full_bars",
        "harness",
        "history",
        "hold",
        "intraday",
        "items",
        "items_seed",
        "labels",
        "lookback",
        "material",
        "max_answer_chars",
        "max_probes_per_stock",
        "news",
        "news_characters",
        "news_days",
        "news_each",
        "noise_pct",
        "probes_per_window",
        "prompt",
        "questions",
        "rebase_prices",
        "round_digits",
        "rules",
        "screen_factors",
        "sell",
        "service_tools",
        "shown",
        "subject",
        "suite",
        "tasks_file",
        "trading",
        "venue_rules",
        "warm_up",
        "weights",
    ]
)


def config(**changes: Any) -> dict[str, Any]:
    plain = {
        "family": "ktdfin",
        "name": "bright_open_research",
        "mask": "bright",
        "mode": "open_research",
        "version": "8",
        "data_card": {"observed": "prices"},
        "sources": ["a paper"],
        "metrics": ["total_return"],
        "default_windows": ["W1"],
        "windows": {"W1": {"first": "2024-04-01", "last": "2024-06-05"}},
        "prompts": {"system": "a hash"},
        "tools": ["portfolio_state"],
        "harness": {"max_tool_calls": 12, "submission": "any_time"},
        "trading": {"initial_cash": 1_000_000},
    }
    return plain | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"data_card": {"observed": "labels", "identifiable": "by its account"}},
        {"sources": []},
        {"metrics": ["sharpe"]},
        {"default_windows": ["W2"]},
        {"summary": "Other words"},
    ],
)
def test_words_about_a_task_make_no_other_task(changes: dict[str, Any]) -> None:
    assert task_facts(config(**changes)) == task_facts(config())


@pytest.mark.parametrize(
    "changes",
    [
        {"trading": {"initial_cash": 100_000}},
        {"harness": {"max_tool_calls": 6, "submission": "any_time"}},
        {"rebase_prices": True},
        {"a_field_of_another_author": 1},
    ],
)
def test_what_can_change_a_result_makes_another_task(changes: dict[str, Any]) -> None:
    assert task_facts(config(**changes)) != task_facts(config())
    assert facts_besides_variant(config(**changes)) != facts_besides_variant(config())


def test_another_mode_differs_in_its_own_fields_alone() -> None:
    other = config(
        name="blinded_memory_only",
        mask="blinded",
        mode="memory_only",
        prompts={"system": "another hash"},
        tools=[],
        harness={"max_tool_calls": 12},
    )
    assert facts_besides_variant(other) == facts_besides_variant(config())
    assert facts_of_mode(other) != facts_of_mode(config())


def test_masks_of_one_mode_ask_the_same() -> None:
    other = config(name="blinded_open_research", mask="blinded")
    assert facts_of_mode(other) == facts_of_mode(config())


def test_each_family_has_one_version_for_all_masks_and_modes() -> None:
    plugins = load_plugins()
    versions: dict[str, dict[str, list[str]]] = {}
    for name in plugins.specs("tasks"):
        task = plugins.make_task(name)
        described = task.describe()
        if "mask" in described and "mode" in described:
            family = versions.setdefault(str(described["family"]), {})
            family.setdefault(task.version, []).append(name)

    assert "ktdfin" in versions
    assert {family: sorted(found) for family, found in versions.items() if len(found) > 1} == {}


def test_each_field_of_each_task_is_on_a_list() -> None:
    plugins = load_plugins()
    unknown: dict[str, str] = {}
    for name in plugins.specs("tasks"):
        described = dict(plugins.make_task(name).describe())
        for field in task_facts(described):
            is_of_variant = field not in facts_besides_variant(described)
            if not is_of_variant and field not in RESULT_FIELDS:
                unknown[field] = name

    assert unknown == {}
