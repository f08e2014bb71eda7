"""What a report page says of tokens, cost and calls, and of whether a card may be ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from card_cases import card, remote_card, typed

pytest.importorskip("matplotlib")

from ktdeval_report.inputs import Evaluation
from ktdeval_report.page import Options, make_report
from report_page import Page


def facts(shown: dict[str, Any]) -> dict[str, str]:
    """What the page of one card says of it, by name."""
    page = Page(make_report([Evaluation(Path(__file__), typed(shown))], Options()).html)
    return {row[0]: row[1] for table in ("What was evaluated", "Activity and failures") for row in page.table(table)}


def test_cost_calls_and_drift_stand_in_words() -> None:
    found = facts(remote_card())
    assert (found["cost"], found["return per USD"][:1]) == ("0.00018 USD", "+")
    assert found["price"] == "input 2, output 8, cache read 0.5 USD a million tokens (as of 2026-01-02, a price list)"
    assert found["requests"] == "3: 1 answered by the provider, 1 from the cache"
    assert found["failed attempts"] == "rate_limited 1, timeout 1"
    assert found["paid"] == "1.50 USD, possibly 0.25 USD more"
    assert found["served by"] == "gpt-4.1-2025-04-14 2"
    drift = {"value": 0.25, "noise": 0.125, "excess": 0.125, "prompts": 6, "served_by_changed": True}
    words = facts(remote_card(drift=drift))["drift"]
    assert words.startswith("0.250 between the answers to 6 questions at the start and at the end, within one sitting 0.125")
    assert words.endswith("the provider named another model at the end")


def test_what_is_not_known_or_not_there_is_not_nothing() -> None:
    found = facts(remote_card(price=None))
    assert found["cost"].startswith("not known: no price of the model is known")
    assert "price" not in found
    found = facts(card())  # a model of this machine
    assert found["cost"] == "0.00 USD"
    assert not {"drift", "requests", "paid", "price"} & set(found)
    assert found["ranking"] == "rankable"
    assert facts(card(limit=3))["ranking"] == "not rankable: every episode was cut after 3 steps"
