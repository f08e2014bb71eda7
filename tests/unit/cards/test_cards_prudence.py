"""No card on which something was refused, repaired or failed reads as prudence: a model that could not
order anything is not one that chose to hold.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.cards import parse_card
from ktdeval.cards.fields.activity import gather_usage
from ktdeval.cards.fields.episode_parts import RoleUsage
from ktdeval.cards.show import card_lines, plain_text
from ktdeval.values import dumps_pretty
from support.figures.card_cases import card as made_card
from support.figures.metric_cases import CODES, ledger, order, spec, step

PRUDENCE = re.compile(r"\bno orders?\b|\bheld by choice\b|chose to hold", re.IGNORECASE)
"""Words that read an empty day as a decision."""
QUIET: dict[str, Any] = {}
#: what may happen on a day: fields of its record that the words on top must show
DAYS: dict[str, dict[str, Any]] = {
    "quiet": QUIET,
    "refused": {"provenance": "model_after_retry", "failures": {"constraint": 3}},
    "broken tool": {"failures": {"bad_arguments": 1}},
    "no submission": {"provenance": "fallback", "failures": {"no_submission": 4}},
    "outage": {"provenance": "error", "failures": {"model_timeout": 1}},
    "silent": {"failures": {"silent_role": 2}},
    "rejected": {"orders": [order(CODES[0], "SELL", filled=0, rule="universe")]},
}


def card_of(*days: str) -> Any:
    """A card of an account that never held anything."""
    steps = [step(number, 1000, {}, **DAYS[name]) for number, name in enumerate(days)]
    silent = sum(DAYS[name].get("failures", {}).get("silent_role", 0) for name in days)
    of = spec(limit=len(days))
    played = ledger(steps, 1000, of)
    tokens: Any = gather_usage(played.steps).tokens.to_json()
    roles = (RoleUsage(role="bull", calls=40, turns=40, silent=silent, **tokens),)
    made = made_card(
        limit=len(days),
        ledgers=[played],
        roles={of.id: roles} if silent else {},
    )
    return parse_card(dumps_pretty(made), "card")


def first_lines(card: Any) -> str:
    return plain_text(card_lines(card, whole=True)).partition("\nMetrics\n")[0]


@pytest.mark.parametrize("days", list(product(DAYS, DAYS)), ids="-".join)
def test_no_card_with_a_failure_or_refusal_reads_as_prudence(days: tuple[str, str]) -> None:
    card = card_of(*days)
    is_quiet = set(days) == {"quiet"}

    for text in (plain_text(card_lines(card, whole=True)), repr(card)):
        assert bool(PRUDENCE.search(text)) <= is_quiet

    said = " ".join(first_lines(card).split())
    for name in days:
        for kind in DAYS[name].get("failures", {}):
            words = {"silent_role": "roles without an answer", "model_timeout": "timeout"}
            if not card.coverage.is_undecided:
                assert words.get(kind, kind.replace("_", " ")) in said
        if "orders" in DAYS[name]:
            assert "universe" in said


def test_an_account_that_its_model_left_empty_says_so() -> None:
    said = first_lines(card_of("quiet", "quiet"))
    assert "No trade: no order in 2 decisions." in said
    assert "Failures" not in said


def test_three_refused_sells_are_no_decision_to_hold() -> None:
    sentences = " ".join(first_lines(card_of("refused", "quiet")).partition("\n\n")[2].split())
    assert sentences.partition(" Memory:")[0] == snapshot(
        "No trade: 2 decisions without an order, but not by choice alone. `ktdeval view RUN` shows each step. Failures and repairs: 1 of 2 steps decided after a retry; 3 failures: constraint 3."
    )
    assert repr(card_of("refused", "quiet")).splitlines()[6] == snapshot(
        "  failures         1 of 2 steps decided after a retry; 3 failures: constraint 3"
    )
