"""Rates with intervals, and differences between masks: worked by hand, against an oracle, and by
simulation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from statsmodels.stats.proportion import confint_proportions_2indep

from ktdeval.task_api.episode_spec import Window
from ktdeval_rationale.category_counts import (
    ROWS,
    CategoryCounter,
    EpisodeCounts,
    ModelText,
    StepTexts,
    subject_key,
    subject_label,
)
from ktdeval_rationale.category_rates import (
    Share,
    difference,
    factorial_effects,
    hiding_effects,
    mask_rates,
    newcombe,
    share,
)
from ktdeval_rationale.leak_linter import RationaleLinter
from support.masking.masking_market import MARKET
from support.tasks.ktdfin_market import spec_of

SPANS = {
    f"W{number}": (f"2024-{number:02d}-01", f"2024-{number:02d}-25") for number in range(1, 13)
}


def episode(mask: str, window: str, named: int, steps: int = 20, seed: int = 0) -> EpisodeCounts:
    """An episode of which `named` steps name a company."""
    spec = replace(
        spec_of(f"{mask}_x", mask, "open_research", seed), window=Window(window, *SPANS[window])
    )
    counts = EpisodeCounts(spec, SPANS[window], reasons=2 * steps, steps=steps)

    for row in ("company", "stock", "any"):
        counts.steps_with[row] = counts.reasons_with[row] = named

    return counts


def less(first: Sequence[EpisodeCounts], second: Sequence[EpisodeCounts]) -> Any:
    return difference(first, second, "company")


def test_reasons_and_steps_are_counted_separately() -> None:
    """Two reasons name a company, one text of research a date; a step without a text does not
    count.
    """
    texts = (
        [
            ModelText("reason", "Quillmark leads."),
            ModelText("reason", "Quillmark again."),
            ModelText("overall_reason", "Low volatility."),
        ],
        [ModelText("research", "In March it rose.")],
        [],
        [ModelText("overall_reason", "Momentum.")],
    )
    steps = [
        StepTexts(number, f"2024-03-{number + 1:02d}", step, ["Here is QUILLMARK."])
        for number, step in enumerate(texts)
    ]
    counts = CategoryCounter(RationaleLinter(MARKET), examples=1).count(
        spec_of("t", "bright", "open_research"), steps
    )

    assert (counts.reasons, counts.steps, counts.span) == (4, 3, ("2024-03-01", "2024-03-04"))

    nothing = dict.fromkeys(ROWS, 0)
    assert counts.reasons_with == {**nothing, "company": 2, "stock": 2, "any": 2}
    assert counts.steps_with == {
        **nothing,
        "company": 1,
        "date": 1,
        "stock": 1,
        "calendar": 1,
        "any": 2,
    }
    assert counts.unsent_with == {**nothing, "date": 1, "calendar": 1, "any": 1}
    assert counts.by_source["research"] == {
        "texts": 1,
        **nothing,
        "date": 1,
        "calendar": 1,
        "any": 1,
    }

    [example] = counts.examples["date"]
    assert (example.before, example.text, example.after) == ("In ", "March", " it rose.")
    assert not example.was_sent
    assert example.where == "t W seed 0 step 1, research"
    assert len(counts.examples["company"]) == 1


def test_a_mask_pools_its_episodes_and_a_share_of_nothing_is_not_defined() -> None:
    rates = mask_rates([episode("bright", "W1", 5), episode("bright", "W2", 15)])
    assert (rates.episodes, rates.steps, rates.reasons) == (2, 40, 80)
    assert rates.step_rates["company"] == share(20, 40)
    assert rates.step_rates["company"].share == 0.5
    assert rates.reason_rates["company"].share == 0.25
    assert rates.step_rates["brand"].share == 0.0
    assert share(0, 0) == Share(0, 0, None, None, None)


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1))
def test_the_difference_of_two_shares_is_newcombes(n1: int, n2: int, p1: float, p2: float) -> None:
    x1 = round(p1 * n1)
    x2 = round(p2 * n2)
    interval = newcombe((x1, n1), (x2, n2))
    expected = confint_proportions_2indep(x1, n1, x2, n2, method="newcomb", compare="diff")

    assert (interval.low, interval.high) == pytest.approx(expected, abs=1e-9)


def test_pairs_are_windows_and_seeds_are_averaged_within() -> None:
    """Differences 0.2, 0.3, 0.4 by window, the first from seeds 0.1 and 0.3: mean 0.3, t interval
    with two degrees of freedom.
    """
    named = {("W1", 0): 4, ("W1", 1): 8, ("W2", 0): 8, ("W3", 0): 10}
    first = [
        episode("bright", window, number, seed=seed) for (window, seed), number in named.items()
    ]
    second = [episode("blinded", window, 2, seed=seed) for window, seed in named]
    alone = episode("bright", "W4", 20)  # not in the other: not paired
    effect = less([*first, alone], second)

    assert (effect.value, effect.pairs, effect.interval.kind) == (
        pytest.approx(0.3),
        3,
        "t over windows",
    )

    half = 4.302652729911275 * 0.1 / np.sqrt(3)
    assert (effect.interval.low, effect.interval.high) == pytest.approx((0.3 - half, 0.3 + half))


@pytest.mark.parametrize("windows", [["W1"], ["W1", "W2"]], ids=["one", "two that agree"])
def test_if_windows_give_no_interval_steps_do(windows: list[str]) -> None:
    effect = less(
        [episode("bright", window, 10) for window in windows],
        [episode("blinded", window, 0) for window in windows],
    )
    steps = 20 * len(windows)

    assert (effect.value, effect.pairs) == (0.5, 0)
    assert effect.interval == newcombe((steps // 2, steps), (0, steps))


def test_no_common_windows_give_no_pairs_and_no_steps_no_difference() -> None:
    assert less([episode("bright", "W1", 10)], [episode("blinded", "W2", 0)]).pairs == 0
    assert (
        difference([episode("bright", "W1", 0, steps=0)], [episode("blinded", "W2", 0)], "company")
        is None
    )


def test_windows_that_share_days_widen_the_interval() -> None:
    def width(spans: dict[str, tuple[str, str]]) -> float:
        sides = []
        for mask, named in (("bright", (6, 8, 10)), ("blinded", (2, 2, 2))):
            counts = zip(("W1", "W2", "W3"), named, strict=True)
            sides.append([replace(episode(mask, w, n), span=spans[w]) for w, n in counts])

        interval = less(*sides).interval

        return interval.high - interval.low  # type: ignore[operator]

    overlapping = {
        "W1": ("2024-01-01", "2024-02-01"),
        "W2": ("2024-01-10", "2024-02-10"),
        "W3": ("2024-01-20", "2024-02-20"),
    }

    assert width(overlapping) > 1.5 * width(SPANS)


def planted(
    rng: np.random.Generator, rates: dict[str, float], windows: int
) -> dict[str, list[EpisodeCounts]]:
    """Episodes whose windows differ in how much they tempt a model to tell stories."""
    tempting = rng.beta(8, 8, windows) * 2
    by_mask = {}

    for mask, rate in rates.items():
        named = rng.binomial(20, np.minimum(1.0, rate * tempting))
        by_mask[mask] = [episode(mask, f"W{number + 1}", int(n)) for number, n in enumerate(named)]

    return by_mask


@pytest.mark.exhaustive
def test_the_interval_covers_the_true_difference() -> None:
    """300 studies of ten windows in which 30 % of steps name a company, and 10 % when it is
    hidden.
    """
    rng = np.random.default_rng(7)
    covered = 0

    for _ in range(300):
        interval = less(*planted(rng, {"bright": 0.3, "stock_blind": 0.1}, 10).values()).interval
        covered += interval.low <= 0.2 <= interval.high  # type: ignore[operator]

    assert covered / 300 == pytest.approx(0.95, abs=0.025)


def test_appendix_a_is_distinguished_from_contradicting_results() -> None:
    def verdicts(by_mask: dict[str, list[EpisodeCounts]]) -> dict[tuple[str, str], str]:
        return {
            (row.hidden, row.row): row.verdict
            for row in hiding_effects(by_mask)
            if row.before == "bright"
        }

    rng = np.random.default_rng(3)
    verdict = verdicts(
        planted(rng, {"bright": 0.5, "stock_blind": 0.02, "date_blind": 0.5, "blinded": 0.02}, 8)
    )

    assert verdict["stock", "stock"] == "removed (predicted)"
    assert verdict["date", "stock"] == verdict["stock", "calendar"] == "no change shown (predicted)"
    assert verdict["date", "calendar"] == "no change shown"
    assert verdict["stock", "company"] is None

    backwards = verdicts(
        planted(rng, {"bright": 0.02, "stock_blind": 0.5, "date_blind": 0.5, "blinded": 0.02}, 8)
    )

    assert backwards["stock", "stock"] == "more of it, against the prediction"
    assert backwards["date", "stock"] == "more of it, not predicted"


def test_four_masks_give_a_factorial_and_fewer_do_not() -> None:
    by_mask = {}
    for mask, named in (("bright", 12), ("stock_blind", 2), ("date_blind", 10), ("blinded", 4)):
        by_mask[mask] = [episode(mask, "W1", named), episode(mask, "W2", named + 2)]

    rows = {row.effect: row for row in factorial_effects(by_mask) if row.row == "stock"}
    # Stock in sight: (12 - 2 + 10 - 4) / 2 of 20 steps; date in sight: (12 - 10 + 2 - 4) / 2.
    values = [rows[name].value for name in ("stock_effect", "date_effect", "memory_premium")]

    assert values == pytest.approx([8 / 20, 0.0, 8 / 20])
    assert rows["stock_effect"].reason == "every window gives the same value"

    ends = {mask: by_mask[mask] for mask in ("bright", "blinded")}
    assert factorial_effects(ends) == hiding_effects(ends) == []


def test_subjects_are_labelled_by_their_differences() -> None:
    one = spec_of("a", "bright", "open_research")
    other = replace(one, mask="blinded", task="b", seed=3)
    hotter = replace(one, call={"temperature": 1.0})

    assert subject_key(one) == subject_key(other) != subject_key(hotter)
    assert subject_label(one, [one, other]) == "builtin/momentum, react, open_research"
    assert '"temperature":1.0' in subject_label(hotter, [one, hotter])
