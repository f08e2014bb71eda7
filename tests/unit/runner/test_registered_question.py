"""Questions fixed beforehand: their terms, their answers, and the error rate of their looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ktdeval.errors import ConfigError
from ktdeval.runner import Question, SequentialRule, answer, last_look, shared_days
from ktdeval.values import from_plain, to_plain

TERMS = {"metric": "total_return", "effect": 0.02, "looks": [6, 8, 10]}
TRIALS = 2_000


def rule_of(**changes: Any) -> SequentialRule:
    return from_plain({**TERMS, **changes}, SequentialRule, "rule", ConfigError)


def test_left_out_terms_are_the_usual_ones() -> None:
    rule = rule_of()

    assert (rule.alpha, rule.spending, rule.test) == (0.05, "obrien-fleming", "signed-rank")
    assert rule.words == (
        "total_return, signed-rank test, looks at 6, 8, 10 windows, obrien-fleming, alpha 0.05,"
        " effect of interest 0.02"
    )


def test_a_question_is_read_back_as_it_was_written() -> None:
    terms = {**TERMS, "windows": [f"W{number}" for number in range(10)], "against": "zero"}
    question = from_plain(terms, Question, "question", ConfigError)

    assert from_plain(to_plain(question), Question, "question", ConfigError) == question


def test_too_few_windows_are_a_reason_and_no_answer() -> None:
    found = answer(rule_of(), [0.1] * 5)

    assert (found.settled_at, found.shift) == (None, None)
    assert found.words == "not answered: the first look is at 6 windows; 5 are available"
    assert last_look(rule_of(), [0.1] * 5) is None


@pytest.mark.parametrize(("sign", "words"), [(1, "above"), (-1, "below")])
def test_a_clear_difference_is_settled_early(sign: int, words: str) -> None:
    found = answer(rule_of(), [sign * 0.01 * place for place in range(1, 11)])

    assert (found.settled_at, found.windows, found.sign) == (2, 8, sign)
    # Hodges-Lehmann of 0.01 … 0.08
    assert found.shift == pytest.approx(sign * 0.045)
    assert found.words == f"settled at look 2 (8 windows): {words}"


def test_a_difference_of_both_signs_is_not_settled() -> None:
    found = answer(rule_of(), [0.01, -0.02, 0.03, -0.04, 0.05, -0.06, 0.07, -0.08, 0.09, -0.1])

    assert (found.settled_at, found.sign, found.windows) == (None, 0, 10)
    assert found.words == "not settled after 10 windows"


def test_anytime_needs_many_windows_and_settles_a_large_difference() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.02, 0.02, 60)
    rule = rule_of(spending="anytime", looks=[10, 60])

    assert answer(rule, values[:10]).settled_at is None
    found = answer(rule, values)
    assert (found.settled_at, found.sign, found.windows) == (2, 1, 60)


@pytest.mark.parametrize(
    ("second", "shares"),
    [(("B", "2024-01-11", "2024-01-20"), False), (("B", "2024-01-10", "2024-01-20"), True)],
)
def test_windows_that_share_a_day_are_named(second: tuple[str, str, str], shares: bool) -> None:
    windows = [second, ("A", "2024-01-01", "2024-01-10")]

    assert list(shared_days(windows)) == ([("A", "B")] if shares else [])


# ---- error rate


def normal(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((TRIALS, 10))


def heavy(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(3, (TRIALS, 10))


def exchangeable(rng: np.random.Generator) -> np.ndarray:
    first, second = rng.lognormal(0.0, 1.0, (2, TRIALS, 10))
    return np.asarray(first - second)


def of_unequal_size(rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((TRIALS, 10)) * np.arange(1.0, 11.0) ** 2


def tied(rng: np.random.Generator) -> np.ndarray:
    return np.asarray(rng.integers(-2, 3, (TRIALS, 10)) * 0.01)


@pytest.mark.exhaustive
@pytest.mark.parametrize("law", [normal, heavy, exchangeable, of_unequal_size, tied])
@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_looks_err_in_at_most_five_per_cent(law: Any, spending: str) -> None:
    rule = rule_of(spending=spending)
    rng = np.random.default_rng(20)

    errors = sum(answer(rule, values).settled_at is not None for values in law(rng))

    # Three standard errors of 2,000 trials above 5 %
    assert errors / TRIALS <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / TRIALS)


@pytest.mark.exhaustive
def test_looking_at_each_window_without_a_rule_errs_more_often() -> None:
    rng = np.random.default_rng(20)
    alone = [rule_of(looks=[count], spending="pocock") for count in (6, 8, 10)]
    errors = 0
    for values in rng.standard_normal((TRIALS, 10)):
        errors += any(answer(rule, values[: rule.looks[0]]).sign for rule in alone)

    assert errors / TRIALS > 0.07
