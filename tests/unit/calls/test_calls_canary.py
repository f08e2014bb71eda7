"""The drift sentinel: still where one model answered all, loud where another did, or did in
part.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import BudgetError, ModelError, StoreError
from ktdeval.harness.chat_messages import CallParams, ModelRequest, Reply
from ktdeval.runner.models.model_drift import (
    CANARIES,
    LONGEST_ANSWER,
    REPEATS,
    Canary,
    ask_canaries,
    canary_requests,
    distance,
    drift,
    finish_record,
    read_record,
    start_record,
)
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_canonical, encode_canonical, to_plain
from support.json_places import with_value
from support.tables import number

PARAMS = CallParams(temperature=0.4, max_output_tokens=500, reasoning_effort="low", seed=3)
BY_ID = {canary.id: canary for canary in CANARIES}
BY_QUESTION = {canary.question: canary for canary in CANARIES}

Ask = Callable[[ModelRequest], Reply]


def question_of(request: ModelRequest) -> Canary:
    return BY_QUESTION[request.messages[-1].content]


def habits(model: str, canary: Canary) -> list[str]:
    """Six answers that a simulated model gives to a question, the usual one first."""
    rng = np.random.default_rng([ord(sign) for sign in model + canary.id])
    if canary.kind == "number":
        return [f"{number}" for number in rng.integers(1, 100, 6)]

    if canary.kind == "choice":
        return [str(word) for word in rng.permutation(canary.options)]

    if canary.kind == "ranking":
        return [", ".join(rng.permutation(canary.options)) for _ in range(6)]

    return ["".join(rng.choice(list("aeiouklmnrst "), 12)) for _ in range(6)]


def model(name: str, chance: np.random.Generator, loyalty: float = 0.75) -> Ask:
    """A simulated model: the usual answer with probability `loyalty`, else one of the others."""
    known = {canary.id: habits(name, canary) for canary in CANARIES}

    def ask(request: ModelRequest) -> Reply:
        answers = known[question_of(request).id]
        usual = chance.random() < loyalty
        return Reply(
            answers[0] if usual else answers[int(chance.integers(1, len(answers)))], served_by=name
        )

    return ask


def mixed(one: Ask, other: Ask, share: float, chance: np.random.Generator) -> Ask:
    """`share` of the traffic goes to the other model."""
    return lambda request: (other if chance.random() < share else one)(request)


def run(at_start: Ask, at_end: Ask, count: int = 6) -> dict[str, Any]:
    record = read_record(encode_canonical(start_record(at_start, count, PARAMS)))
    return drift(read_record(encode_canonical(finish_record(record, at_end, PARAMS))))


def excesses(at_start: Ask, at_end: Ask, runs: int = 60) -> np.ndarray:
    return np.array([run(at_start, at_end)["excess"] for _ in range(runs)])


# ---- what it finds


@pytest.mark.parametrize("loyalty", [1.0, 0.85, 0.6])
def test_one_model_twice_shows_no_excess_however_noisy_it_is(loyalty: float) -> None:
    chance = np.random.default_rng(1)
    same = excesses(model("one", chance, loyalty), model("one", chance, loyalty))
    assert abs(same.mean()) < 0.03
    assert np.quantile(np.abs(same), 0.95) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("loyalty", "least"), [(1.0, 0.8), (0.85, 0.5), (0.75, 0.35)])
def test_another_model_is_detected_in_nearly_every_run(loyalty: float, least: float) -> None:
    chance = np.random.default_rng(2)
    one = model("one", chance, loyalty)
    two = model("two", chance, loyalty)
    same = excesses(one, one)
    other = excesses(one, two)

    assert other.mean() > least
    assert (other > np.quantile(same, 0.95)).mean() > 0.95


@pytest.mark.exhaustive
def test_a_changed_share_of_the_answers_shows_the_more_the_larger_it_is() -> None:
    chance = np.random.default_rng(3)
    one = model("one", chance, 0.9)
    two = model("two", chance, 0.9)
    same = excesses(one, one)
    shares = [excesses(one, mixed(one, two, share, chance)) for share in (0.5, 0.75, 1.0)]
    means = [excess.mean() for excess in shares]

    assert same.mean() + 0.1 < means[0] < means[1] < means[2]
    assert [
        (excess > np.quantile(same, 0.95)).mean() > least
        for excess, least in zip(shares, (0.5, 0.85, 0.99))
    ] == [True] * 3


@pytest.mark.exhaustive
def test_a_model_that_heeds_the_seed_is_no_closer_to_itself_at_the_end() -> None:
    def ask(request: ModelRequest) -> Reply:
        answers = habits("one", question_of(request))
        return Reply(
            answers[int(np.random.default_rng(request.params.seed).integers(len(answers)))]
        )

    drifts = [
        drift(finish_record(start_record(ask, 12, params), ask, params))
        for params in (CallParams(seed=seed) for seed in range(40))
    ]

    assert abs(np.mean([one["excess"] for one in drifts])) < 0.04
    assert min(one["noise"] for one in drifts) > 0


def test_a_model_that_never_varies_has_no_noise_and_any_change_shows() -> None:
    chance = np.random.default_rng(5)
    one = model("one", chance, 1.0)

    assert run(one, one) == {
        "value": 0.0,
        "noise": 0.0,
        "excess": 0.0,
        "prompts": 6,
        "served_by_changed": False,
    }

    def changed(request: ModelRequest) -> Reply:
        return Reply("1 to 100") if question_of(request).id == "pick" else one(request)

    assert run(one, changed)["excess"] == pytest.approx(1 / 6, abs=1e-6)


# ---- what is asked


def test_questions_are_short_plain_and_ask_for_nothing_real() -> None:
    assert len(CANARIES) == len(BY_ID) == len(BY_QUESTION) >= 12

    for canary in CANARIES:
        assert len(canary.question) < 400
        assert not any(
            f"{century}{decade}" in canary.question for century in (19, 20) for decade in range(10)
        )
        assert canary.options == () or canary.kind in ("choice", "ranking")
        assert all(option in canary.question for option in canary.options)

    # those of the default
    assert {canary.kind for canary in CANARIES[:6]} == {"number", "choice", "ranking", "text"}


def test_each_canary_question_is_asked_twice_with_its_own_seeds() -> None:
    requests = [
        request
        for round_ in ("start", "end")
        for request in canary_requests(CANARIES[:3], PARAMS, round_)
    ]

    assert [question_of(request).id for request in requests] == [
        "pick",
        "pick",
        "manager",
        "manager",
        "multiple",
        "multiple",
    ] * 2
    assert all(request.tools == () for request in requests)
    assert {
        (request.params.temperature, request.params.reasoning_effort) for request in requests
    } == {(0.4, "low")}
    assert len({request.params.seed for request in requests}) == 12


@pytest.mark.parametrize(("count", "known"), [(1, 1), (2, 2), (12, 12), (99, len(CANARIES))])
def test_run_asks_the_same_chosen_number_of_canary_questions_at_both_ends(
    count: int, known: Any
) -> None:
    asked: list[str] = []

    def ask(request: ModelRequest, asked: list[str] = asked) -> Reply:
        asked.append(question_of(request).id)
        return Reply("7")

    assert run(ask, ask, count)["prompts"] == known
    assert asked == [canary.id for canary in CANARIES[:count] for _ in range(REPEATS)] * 2


def test_without_two_rounds_there_is_a_reason() -> None:
    none = finish_record(start_record(reply_7, 0, PARAMS), reply_7, PARAMS)
    assert drift(none) == {
        "value": None,
        "reason": "no fixed question was answered each time it was asked",
    }
    assert drift(None) == {"value": None, "reason": "no fixed questions were asked"}

    once = start_record(reply_7, 6, PARAMS)
    assert drift(once) == {
        "value": None,
        "reason": "the fixed questions were not asked again at the end",
    }


def reply_7(request: ModelRequest) -> Reply:
    return Reply("7")


def fail_at_pick(request: ModelRequest) -> Reply:
    if question_of(request).id == "pick":
        raise ModelError("server", "down")

    return Reply("7")


def refuse(request: ModelRequest) -> Reply:
    return Reply("", finish_reason="refusal")


# ---- what is recorded


def test_a_canary_record_has_time_questions_answers_and_the_serving_model() -> None:
    replies = iter(
        [
            Reply(" 42\n", served_by="house-2"),
            Reply("**37**", served_by="house-1"),
            Reply("A \ud800 B"),
            Reply("x" * 999),
        ]
    )
    round_ = ask_canaries(lambda request: next(replies), CANARIES[:2], PARAMS, "start")

    assert round_.prompts == ("pick", "manager")
    assert round_.answers == (("42", "**37**"), ("A ? B", "x" * LONGEST_ANSWER))
    assert round_.served_by == ("house-1", "house-2")
    assert datetime.fromisoformat(round_.at).tzinfo is not None


def test_a_reply_without_an_answer_is_recorded_by_its_kind() -> None:
    outcomes: list[Any] = [
        ModelError("timeout", "no reply, with a secret-key"),
        Reply(""),
        Reply("I", finish_reason="length"),
        Reply("no", finish_reason="refusal"),
        Reply("", finish_reason="content_filter"),
        Reply("7"),
    ]

    def ask(request: ModelRequest) -> Reply:
        outcome = outcomes.pop(0)
        if isinstance(outcome, ModelError):
            raise outcome

        return outcome

    round_ = ask_canaries(ask, CANARIES[:3], PARAMS, "start")

    assert round_.answers == (
        ({"failed": "timeout"}, {"outcome": "empty"}),
        ({"outcome": "length"}, {"outcome": "refusal"}),
        ({"outcome": "content_filter"}, "7"),
    )
    assert "secret-key" not in encode_canonical(round_)


def test_unanswered_canary_is_omitted_and_a_new_refusal_counts_as_a_change() -> None:
    same = {"value": 0.0, "noise": 0.0, "excess": 0.0, "prompts": 5, "served_by_changed": False}
    assert run(reply_7, fail_at_pick) == same
    assert (
        run(reply_7, fail_at_pick, 1)["reason"]
        == "no fixed question was answered each time it was asked"
    )
    assert run(refuse, refuse) == same | {"prompts": 6}
    assert run(reply_7, refuse) == same | {"prompts": 6, "value": 1.0, "excess": 1.0}


def test_what_stops_the_run_rises() -> None:
    def ask(request: ModelRequest) -> Reply:
        raise BudgetError("--max-cost is spent")

    with pytest.raises(BudgetError):
        start_record(ask, 6, PARAMS)


@on_each_row(
    "start, end, changed",
    (["a"], ["a"], False),
    (["a", "b"], ["b"], False),
    (["a"], ["b"], True),
    (["a"], ["a", "b"], True),
    ([], ["b"], True),
)
def test_a_name_that_was_not_there_at_the_start_is_a_changed_server(
    start: list[str], end: list[str], changed: bool
) -> None:
    record = to_plain(finish_record(start_record(reply_7, 6, PARAMS), reply_7, PARAMS))
    record["start"]["served_by"] = start
    record["end"]["served_by"] = end
    assert drift(read_record(dumps_canonical(record)))["served_by_changed"] is changed


@on_each_row(
    "path, value",
    (["start"], "(removed)"),
    (["version"], 2),
    (["start", "prompts"], ["pick", "nonsense"]),
    (["end", "answers"], [["7", "7"]]),
    (["end", "answers", 0, 0], 7),
    (["end", "answers", 0, 0], {"why": "x"}),
    (["start", "answers"], "7"),
    (["further"], 1),
)
def test_a_damaged_record_is_named(path: list[str | int], value: Any) -> None:
    record = json.loads(
        encode_canonical(finish_record(start_record(reply_7, 2, PARAMS), reply_7, PARAMS))
    )

    with pytest.raises(StoreError, match=r"canary\.json.*delete it to continue without"):
        read_record(dumps_canonical(with_value(record, tuple(path), value)))


# ---- distances


@on_each_row(
    "name, one, other, expected",
    ("pick", "42", "The number is **42**.", 0),
    ("pick", "42", "37", 1),
    ("growth", "13,390.12", "13390.120", 0),
    ("growth", "13390.12", "13390.13", 1),
    ("pick", "−3", "-3", 0),
    ("pick", "none", "None!", 0),
    ("pick", "none", "42", 1),
    ("desk", "Jade", "I take the jade session.", 0),
    ("desk", "jade", "ivory", 1),
    ("desk", "jade or ivory", "jade", 1),
    ("risk", "A, C, E, B, F, D", "A > C > E > B > F > D", 0),
    ("risk", "A, B, C, D, E, F", "F, E, D, C, B, A", 1),
    ("risk", "A, B, C, D, E, F", "B, A, C, D, E, F", "1/15"),
    ("risk", "A, B, C, D, E, F", "A, B, C", 1),
    ("manager", "Elena Voss", "elena  voss.", 0),
    ("manager", "Elena Voss", "Elena Ross", "1/10"),
    ("manager", "Elena Voss", "", 1),
    ("manager", "abc", "xyz", 1),
    ("manager", "!", "?", 0),
    ("pick", {"outcome": "refusal"}, {"outcome": "refusal"}, 0),
    ("pick", {"outcome": "refusal"}, {"outcome": "length"}, 1),
    ("pick", {"outcome": "refusal"}, "42", 1),
)
def test_distances_follow_the_definition(
    name: str, one: Any, other: Any, expected: int | str
) -> None:
    assert distance(BY_ID[name], one, other) == pytest.approx(number(expected))
    assert distance(BY_ID[name], other, one) == distance(BY_ID[name], one, other)
    assert distance(BY_ID[name], one, one) == 0
