"""`ktdeval compare` on scoring cards: cards with different questions are refused before any p-value
is computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from scipy import stats

from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.scoring import ScoreDefinition
from ktdeval.values import content_hash
from ktdeval_compare.pairs import score_comparison
from ktdeval_compare.pairs.compare import CompareOptions
from ktdeval_compare.pairs.compared_cards import ScoringEntrant
from ktdeval_compare.pairs.score_comparison import sample_of
from ktdeval_compare.pairs.verdicts import with_verdicts
from support.figures.card_cases import typed
from support.figures.compare_cards import CardTerminal
from support.figures.metric_cases import market
from support.figures.scoring_cases import DEFINITIONS, TASK, record, score_spec, scoring_card

OTHER_MARKET = market([[11.0 + day, 21.0] for day in range(6)])
OTHER_FORMULA = ScoreDefinition(
    "the name or the board is right", "fraction of answers", (0.0, 1.0), "lower", "a test"
)


def named(model: str, config: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A card of a model; `config`: config of its task; `changes`: changes to the plan of its
    episode, or to the card.
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
        (
            {"config": {"questions": "others"}},
            "have different task configs (questions): others and null",
        ),
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


# ---- figures of samples


def scored(model: str = "house/one", label: str = "", **changed: Any) -> ScoringEntrant:
    """A card of a scoring task, with a label."""
    card = typed(named(model))
    for name, changes in changed.items():
        card.scores[name] = structs.replace(card.scores[name], **changes)

    return ScoringEntrant(Path(f"{model}.json"), card, label or model)


def answer(number: int, provenance: str = "model", **values: Any) -> Any:
    """An answer to the sample with this number, with the given scores."""
    return record(number, provenance, scores=values)


def test_unanswered_sample_scores_worst_and_a_failed_call_scores_none() -> None:
    """Of `right_name` a lower score is better; `distance` has no worst value."""
    spec = score_spec(window=Window("W1", "2024-01-03", "2024-01-09"))
    answers = [
        answer(0, right_name=True, distance=3),
        answer(1, right_name=False, distance=None),
        answer(2, "fallback"),
        answer(3, "error"),
        answer(0, "model_after_retry", right_name=0.5),
    ]

    figures = score_comparison._figures_of(scored().card, spec, answers)

    assert figures == {
        "right_name": {
            "W1 probe_0000": [1.0, 0.5],
            "W1 probe_0001": [0.0],
            "W1 probe_0002": [1.0],
        },
        "distance": {"W1 probe_0000": [3.0]},
    }


def test_a_score_is_recorded_under_the_rule_set_of_its_task() -> None:
    card = scored().card
    task = structs.replace(card.task, config={**card.task.config, "rules": "paper"})
    ruled = structs.replace(card, task=task)

    figures = score_comparison._figures_of(ruled, score_spec(), [answer(0, paper_right_name=0.25)])

    assert figures == {"right_name": {"long probe_0000": [0.25]}}


def answered(
    label: str, figures: Any, absent: Any = None, entrant: ScoringEntrant | None = None
) -> Any:
    """A card with its figures for right names, or the reason why it has none."""
    answers = figures
    if not isinstance(figures, str):
        answers = score_comparison._CardAnswers({"right_name": figures}, absent or {})

    return score_comparison._AnsweredCard(entrant or scored(label), answers)


RIGHT = {f"s{number}": [1.0] for number in range(5)} | {"s5": [1.0, 0.0]}
WRONG = {f"s{number}": [0.0] for number in range(6)}


def test_cards_are_paired_by_sample_and_seeds_of_one_are_its_mean() -> None:
    """By hand: five differences of 1 and one of 0.5, all with the same sign: p is 2 of 64."""
    test = score_comparison._test_score(
        "right_name", answered("one", RIGHT), answered("two", WRONG), CompareOptions()
    )

    assert isinstance(test, score_comparison.ScoreTest)
    assert (test.first, test.second, test.n, test.differing) == ("one", "two", 6, 6)
    assert (test.value, test.p) == (pytest.approx(5.5 / 6), 2 / 2**6)

    differences = [1.0] * 5 + [0.5]
    low, high = stats.t.interval(0.95, 5, np.mean(differences), stats.sem(differences))

    assert (test.low, test.high) == pytest.approx((low, high))
    assert (test.unit, test.better) == ("fraction of answers", "lower")


def test_equal_differences_have_no_interval() -> None:
    same = {f"s{number}": [1.0] for number in range(6)}

    test = score_comparison._test_score(
        "right_name", answered("one", same), answered("two", WRONG), CompareOptions(alpha=0.1)
    )

    assert isinstance(test, score_comparison.ScoreTest)
    assert (test.value, test.low, test.high, test.p) == (1.0, None, None, 2 / 2**6)


FEWER = {name: values for name, values in WRONG.items() if name != "s0"}


@pytest.mark.parametrize(
    ("second", "absent", "reason"),
    [
        ("two: no answers next to the card", {}, "two: no answers next to the card"),
        ({}, {}, "single answers do not have this figure"),
        (
            FEWER,
            {"error": 1},
            "one and two do not have a figure of the same samples (two: 1 model call failed);"
            " --common compares the 5 that both have",
        ),
        (
            FEWER,
            {"fallback": 2},
            "one and two do not have a figure of the same samples (of some the score is not"
            " defined); --common compares the 5 that both have",
        ),
    ],
)
def test_cards_without_figures_of_the_same_samples_are_not_tested(
    second: Any, absent: dict[str, int], reason: str
) -> None:
    pair = answered("one", RIGHT), answered("two", second, absent)

    assert score_comparison._test_score("right_name", *pair, CompareOptions()) == reason


def test_a_failed_card_is_not_tested_on_either_side() -> None:
    pair = answered("one", "one: no answers"), answered("two", WRONG)

    assert score_comparison._test_score("right_name", *pair, CompareOptions()) == "one: no answers"


def test_answers_that_do_not_count_as_the_worst_are_counted() -> None:
    left_out = scored("two", right_name={"unanswered": "left_out"})
    second = answered("two", FEWER, {"fallback": 1, "error": 2}, left_out)

    reason = score_comparison._test_score(
        "right_name", answered("one", RIGHT), second, CompareOptions()
    )

    assert isinstance(reason, str)
    assert "(two: 2 model calls failed, 1 answer not valid)" in reason


def test_cards_of_two_mask_keys_have_other_samples() -> None:
    card = structs.replace(scored("two").card, mask_key="b" * 32)
    other = ScoringEntrant(Path("two.json"), card, "two")

    reason = score_comparison._test_score(
        "right_name", answered("one", RIGHT), answered("two", WRONG, None, other), CompareOptions()
    )

    assert reason == (
        "their mask keys and hence their samples differ; run both models with the same --mask-key"
    )


def test_a_score_that_is_not_a_headline_is_compared_where_it_is_named(
    terminal: CardTerminal,
) -> None:
    cards = terminal.cards(named("house/one"), named("house/two"))

    report = terminal.report("compare", *cards, "--metric", "unparsable_rate")

    assert [row["score"] for row in report["scores"]] == ["unparsable_rate"] * 2
    assert "no score 'right_nam' on this card; did you mean 'right_name'" in terminal.refusal(
        "compare", *cards, "--metric", "right_nam"
    )
    assert "needs at least two cards" in terminal.refusal("compare", cards[0])


def test_a_side_of_a_cutoff_is_of_trading_tasks(terminal: CardTerminal) -> None:
    cards = terminal.cards(named("house/one"), named("house/two"))

    assert "--side applies to trading tasks" in terminal.refusal(
        "compare", *cards, "--side", "before"
    )


# ---- verdicts


def row_of(
    value: float | None, p: float | None, better: str = "higher"
) -> score_comparison.ScoreTest:
    """A test of cards one and two."""
    return score_comparison.ScoreTest(
        task="t",
        score="s",
        unit="ratio",
        better=better,
        first="one",
        second="two",
        n=9,
        differing=9,
        value=value,
        low=None,
        high=None,
        p=p,
        reason=None,
    )


@pytest.mark.parametrize(
    ("value", "p", "better", "verdict"),
    [
        (0.1, 0.05, "higher", "one better"),
        (-0.1, 0.05, "higher", "two better"),
        (0.1, 0.05, "lower", "two better"),
        (-0.1, 0.05, "lower", "one better"),
        (0.1, 0.05, "neither", "one higher"),
        (-0.1, 0.05, "neither", "two higher"),
        (0.1, 0.0501, "higher", "tied"),
        (0.0, 0.01, "higher", "tied"),
        (None, 0.01, "higher", "tied"),
        (0.1, None, "higher", None),
    ],
)
def test_a_verdict_names_the_better_card_by_the_direction_of_the_figure(
    value: float | None, p: float | None, better: str, verdict: str | None
) -> None:
    (row,) = with_verdicts([row_of(value, p, better)], 0.05)

    assert row.verdict == verdict
