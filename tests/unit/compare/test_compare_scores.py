"""`ktdeval compare` on scoring cards: what answers other questions is refused before any
p-value.
"""

from __future__ import annotations

from typing import Any

import pytest

from compare_cards import CardTerminal
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.scoring import ScoreDefinition
from ktdeval.values.hashes import content_hash
from ktdeval_compare.score_comparison import sample_of
from metric_cases import market
from scoring_cases import DEFINITIONS, TASK, score_spec, scoring_card

OTHER_MARKET = market([[11.0 + day, 21.0] for day in range(6)])
OTHER_FORMULA = ScoreDefinition(
    "the name or the board is right", "fraction of answers", (0.0, 1.0), "lower", "a test"
)


def named(model: str, config: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A card of a model; `config`: of its task; `changes`: of the plan of its episode, or of the
    card.
    """
    task = {**TASK, **(config or {})}
    own = {name: changes.pop(name) for name in ("definitions", "snapshot") if name in changes}
    if "snapshot" in own:
        changes["snapshot"] = own["snapshot"].id
    spec = score_spec(
        model=model, task_hash=content_hash(task), task_version=task["version"], **changes
    )
    return scoring_card(task=task, specs=[spec], **own)


def test_cards_of_one_task_are_compared(terminal: CardTerminal) -> None:
    report = terminal.report("compare", *terminal.cards(named("house/one"), named("house/two")))
    assert {row["card"] for row in report["scores"]} == {"house/one", "house/two"}


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (
            {"config": {"version": "2"}},
            "have different task versions: 2 and 1; they can't be compared",
        ),
        ({"config": {"questions": "others"}}, "have different task configs (hash)"),
        ({"limit": 3}, "have different limits of steps: 3 and null"),
        ({"snapshot": OTHER_MARKET}, "have different snapshots: "),
        ({"seed": 1}, "have different seeds: [1] and [0]"),
        (
            {"window": Window("long", "2024-01-04", "2024-01-09")},
            "window long is 2024-01-04 … 2024-01-09 on one and 2024-01-03",
        ),
        (
            {"definitions": {**DEFINITIONS, "right_name": OTHER_FORMULA}},
            "have different formulas of right_name",
        ),
    ],
)
def test_cards_that_answer_other_questions_get_no_p_value(
    change: dict[str, Any], refusal: str, terminal: CardTerminal
) -> None:
    one, other = terminal.cards(named("house/one"), named("house/two", **change))
    assert refusal in terminal.refusal("compare", one, other)


def test_one_number_of_a_probe_in_two_windows_is_two_questions() -> None:
    first, second = (
        score_spec(window=Window(name, "2024-01-03", "2024-01-09")) for name in ("W1", "W2")
    )
    assert sample_of(first, "probe_0000") != sample_of(second, "probe_0000")
    assert sample_of(first, "probe_0000") == sample_of(
        score_spec(seed=1, window=first.window), "probe_0000"
    )
