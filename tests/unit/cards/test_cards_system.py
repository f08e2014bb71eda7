"""Systems: what makes two cards one system, what tells systems apart in words, and which patterns
match them.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from ktdeval.cards import System, check_match, parse_card, split_patterns, system_labels
from ktdeval.cards.fields.replies.cost import NO_PRICE
from ktdeval.errors import UsageError
from ktdeval.testing import not_empty
from ktdeval.values import dumps_pretty
from support.figures.card_cases import CALLS, PROVENANCE
from support.figures.compare_cards import make_card


def system(
    model: str = "house/one", args: dict[str, Any] | None = None, agent: str = "react", **more: Any
) -> System:
    """The system of a card; `more`: other fields of the card, and arguments of its agent."""
    own_agent = {"name": agent, "args": more.pop("agent_args", {})}
    card = make_card({("A1", 0): 0.1}, model, args=args or {}, agent=own_agent, **more)
    return System.of(parse_card(dumps_pretty(card), "card"))  # type: ignore[arg-type]


PLAIN = system()
UNPRICED = {"value": None, "reason": NO_PRICE}
BEHIND_A_NETWORK = {**PROVENANCE, "calls": CALLS}
OTHERS = {
    "model": system("house/two"),
    "parameters": system(args={"positions": 3}),
    "agent": system(agent="vote"),
    "parameters of the agent": system(agent_args={"rounds": 2}),
    "settings of calls": system(call={"temperature": 0.0}),
    "how calls were put": system(
        sent_as={"not_sent": ["temperature"]}, provenance=BEHIND_A_NETWORK, cost=UNPRICED
    ),
}


def test_seeds_among_the_parameters_are_those_of_repeats() -> None:
    repeats = [
        system(args={"depth": 3, name: seed})
        for name, seed in (("seed", 1), ("training_seed", 2), ("seed", 3))
    ]

    assert {each.without_seed() for each in repeats} == {system(args={"depth": 3})}


@pytest.mark.parametrize(
    ("one", "other"), list(itertools.combinations([PLAIN, *OTHERS.values()], 2))
)
def test_any_two_systems_have_two_labels_in_any_company(one: System, other: System) -> None:
    for others in ((one, other), (PLAIN, *OTHERS.values())):
        labels = system_labels(others)
        assert labels[one] != labels[other]


@pytest.mark.slow
def test_a_label_is_the_name_with_what_distinguishes_it() -> None:
    tuned = system(args={"positions": 3, "top": 5})
    other = system(args={"positions": 4, "top": 5}, agent="vote", agent_args={"rounds": 2})

    assert PLAIN.label([PLAIN, system("house/two")]) == "house/one"
    assert tuned.label([tuned, other]) == "house/one(positions=3)@react"
    assert other.label([tuned, other]) == "house/one(positions=4)@vote(rounds=2)"
    assert (
        OTHERS["settings of calls"].label([PLAIN, OTHERS["settings of calls"]])
        == "house/one{temperature=0.0}"
    )
    assert [
        each.label([system(args={"x": 1}), system(args={"x": "1"})])
        for each in (system(args={"x": 1}), system(args={"x": "1"}))
    ] == [
        "house/one(x=1)",
        'house/one(x="1")',
    ]

    named_like_it = [system("house/one@vote"), PLAIN, OTHERS["agent"]]
    assert len(set(system_labels(named_like_it).values())) == 3

    long = [system(args={"words": "a" * 60 + end}) for end in "bc"]
    assert len({each.label(long) for each in long}) == 2


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("house/one", "plain tuned vote"),
        ("house/*", "plain tuned vote two"),
        ("*", "plain tuned vote two"),
        ("house/one()", "plain vote"),
        ("house/one(positions=3)", "tuned"),
        ("house/one(positions=*)", "tuned"),
        ("house/one(positions=3,top=5)", "tuned"),
        ("house/one(positions=4)", ""),
        ("*@vote", "vote"),
        ("*@vote(rounds=2)", "vote"),
        ("*@vote()", ""),
        ("*(positions=3)@react", "tuned"),
        ("*{temperature=0.0}", "two"),
        ("house/two@react{temperature=*}", "two"),
        ("house", ""),
        ("house/one react", ""),
    ],
)
def test_patterns_match_systems(pattern: str, matched: str) -> None:
    systems = {
        "plain": PLAIN,
        "tuned": system(args={"positions": 3, "top": 5}),
        "vote": system(agent="vote", agent_args={"rounds": 2}),
        "two": system("house/two", call={"temperature": 0.0}),
    }

    assert " ".join(name for name, each in systems.items() if each.matches(pattern)) == matched


def test_a_name_of_a_model_may_have_an_at_sign_or_parentheses() -> None:
    dated = system("cloud/model@20250514")
    assert dated.matches("cloud/model@20250514")
    assert dated.matches("cloud/model@20250514@react")
    assert not dated.matches("cloud/model@20250514@vote")
    assert system("house/lite (15.7B)").matches("house/lite (15.7B)")


def test_a_full_name_is_a_pattern_of_its_system_alone() -> None:
    systems = not_empty(each for name, each in OTHERS.items() if "calls" not in name)
    for each in systems:
        assert [other for other in systems if other.matches(each.name)] == [each]


def test_commas_inside_a_pattern_do_not_end_it() -> None:
    assert split_patterns("a/b(x=1,y=2)@c{t=0,u=1}, d/* ,,") == ("a/b(x=1,y=2)@c{t=0,u=1}", "d/*")
    assert split_patterns("") == ()


@pytest.mark.parametrize(("count", "more"), [(12, ""), (13, " and 1 more"), (15, " and 3 more")])
def test_a_pattern_without_a_match_is_refused_with_twelve_systems_at_most(
    count: int, more: str
) -> None:
    known = [system(f"house/model-{number:02}") for number in range(count)]
    listed = ", ".join(f"house/model-{number:02}" for number in range(12))
    with pytest.raises(UsageError) as caught:
        check_match("0/none", known, "--model")

    assert str(caught.value).startswith(
        f"--model: '0/none' matches no system here; there are {listed}{more}"
    )
    assert ("more" in str(caught.value)) == bool(more)
    assert "house/model-12" not in str(caught.value)


def test_a_pattern_without_a_match_is_refused_with_what_there_is() -> None:
    known = [PLAIN, OTHERS["parameters"]]
    check_match("house/*", known, "--cohort A")
    with pytest.raises(UsageError) as caught:
        check_match("house/ones", known, "--cohort A")

    there = "there are house/one, house/one(positions=3)"

    assert str(caught.value).startswith(
        f"--cohort A: 'house/ones' matches no system here; {there}; did you mean 'house/one'"
    )
