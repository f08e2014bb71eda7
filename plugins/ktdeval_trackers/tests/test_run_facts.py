"""What trackers are given: parameters without a mask key, defined figures, sums of calls."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from ktdeval.task_api import RunFinished
from ktdeval_trackers.run_facts import (
    CallSums,
    card_figures,
    cards_of,
    episode_figures,
    keep_finite,
    parameters,
)
from support.figures.metric_cases import spec
from tracked_run import DONE, call, whole_run


def test_parameters_are_what_the_episodes_share_or_have_between_them() -> None:
    facts = parameters([spec(0, model_args={"positions": 5}), spec(1)])

    assert facts["model"] == "builtin/momentum"
    assert facts["seeds"] == "0,1"
    assert facts["windows"] == "long"
    assert facts["model_args.positions"] == "5"
    assert facts["call.temperature"] == "0.7"
    assert facts["episodes"] == "2"
    assert "limit" not in facts, "there is none"


def test_no_parameter_holds_the_mask_key() -> None:
    key = "0123456789abcdef" * 2
    facts = parameters([spec(0, mask_key=key)])

    assert not [name for name, value in facts.items() if key in value]


def test_many_names_are_counted() -> None:
    assert parameters([spec(seed) for seed in range(30)])["seeds"] == "30 of them"


def test_figures_of_a_card_are_its_defined_ones(tmp_path: Path) -> None:
    *_, last = whole_run(tmp_path)
    assert isinstance(last, RunFinished)
    (card,) = cards_of(last.cards)
    figures = card_figures(card)
    values = {name: line.value for name, line in card.metrics.items()}  # type: ignore[union-attr]

    assert figures == {
        f"blinded_open_research/{name}": value
        for name, value in values.items()
        if value is not None
    }
    assert None in values.values(), "an undefined figure is left out, not 0"
    assert [episode for episode, _ in episode_figures(card)] == [DONE.id]


def test_non_finite_figures_are_omitted_and_odd_names_replaced() -> None:
    assert keep_finite({"a@b/c": 1.0, "nan": math.nan, "none": None}) == {"a_b/c": 1.0}


def test_sums_count_attempts_kept_replies_and_failures() -> None:
    sums = CallSums()
    for outcome in ("cached", "answered", "answered", "rate_limited"):
        sums.add(call(0, outcome))

    assert sums.figures() == {
        "calls": 3.0,
        "calls_cached": 1.0,
        "calls_failed": 1.0,
        "input_tokens": 200.0,
        "output_tokens": 40.0,
        "cost_usd": 0.5,
    }


def test_an_unknown_price_makes_the_cost_unknown_not_zero() -> None:
    sums = CallSums()
    sums.add(replace(call(0), cost_usd=None))

    assert "cost_usd" not in sums.figures()
    assert CallSums().figures() == {}, "no call at all"
