"""What a card's parts say of it: the side of a window, the length of a year, and which systems
there are.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from card_cases import PROVENANCE, card, typed
from compare_cards import make_card
from ktdeval.calls.record import ANSWERED, CallRecord, summarise_calls
from ktdeval.cards import System, parse_card
from ktdeval.cards.fields.calls import call_problems
from ktdeval.cards.fields.cutoff import window_side
from ktdeval.cards.fields.fact_types import SideDays
from ktdeval.cards.system import no_match
from ktdeval.harness.chat_messages import Usage
from ktdeval.market import Document, Documents
from ktdeval.values.strict_json import dumps_pretty
from metric_cases import market, spec


@pytest.mark.parametrize(
    ("before", "across", "after", "side"),
    [
        (5, 0, 0, "before"),
        (0, 5, 0, "across"),
        (0, 0, 5, "after"),
        (5, 1, 0, "across"),
        (5, 0, 1, "across"),
        (0, 1, 5, "across"),
        (1, 0, 5, "across"),
        (5, 5, 5, "across"),
        (5, 0, 5, "across"),
        (2, 1, 1, "across"),
    ],
)
def test_a_window_is_on_a_side_where_all_its_days_are(
    before: int, across: int, after: int, side: str
) -> None:
    assert window_side(SideDays(before, across, after)) == side


@pytest.mark.parametrize("is_placebo", [True, False])
def test_a_card_of_a_placebo_market_is_labelled_and_not_ranked_for_any_source(
    is_placebo: bool,
) -> None:
    snapshot = market()
    meta = replace(snapshot.meta, source="placebo of snapshot 0123", placebo=is_placebo)
    made = card(snapshot=replace(snapshot, meta=meta))
    reason = "the market is a placebo, on which there is nothing to select"
    assert ("placebo" in made["labels"], reason in made["rankable"]["reasons"]) == (
        is_placebo,
        is_placebo,
    )


def systems(*models: str) -> list[System]:
    cards = [make_card({("A1", 0): 0.1}, model) for model in models]
    return [System.of(parse_card(dumps_pretty(each), "card")) for each in cards]  # type: ignore[arg-type]


def test_a_pattern_without_a_match_is_reported_with_the_existing_systems() -> None:
    one, two, three = systems("house/c", "house/a", "house/b")
    assert (
        no_match("other/*", [], "--model")
        == "--model: 'other/*' matches no system here; there are none"
    )
    words = "--model: 'other/*' matches no system here; there are house/a, house/b, house/c"
    assert no_match("other/*", [one, two, three], "--model") == words
    assert no_match("other/*", [three, two, one, one], "--model") == words


def problems_of(made: Any) -> list[Any]:
    """Contradictions in a card's counts of calls."""
    usage = {episode.id: episode.usage for episode in made.episodes}
    return list(call_problems(made.provenance.calls, usage))


@pytest.mark.parametrize(
    ("usage", "problem"),
    [
        (Usage(50, 10), None),
        (
            Usage(50, 11),
            "output_tokens: 11 were answered and no reply was cached, but the episode reports 10",
        ),
        (
            Usage(49, 10),
            "input_tokens: 49 were answered and no reply was cached, but the episode reports 50",
        ),
        (
            Usage(50, 10, 1),
            "reasoning_tokens: 1 were answered and no reply was cached, but the episode reports 0",
        ),
    ],
)
def test_the_tokens_of_an_episode_count_answered_calls(usage: Usage, problem: str | None) -> None:
    record = CallRecord("2026-01-02T03:04:05Z", spec().id, "k", ANSWERED, 1, 2.0, usage, 0.1)
    made = typed(
        card() | {"provenance": {**PROVENANCE, "calls": summarise_calls([record], {spec().id})}}
    )
    assert [words for _, words in problems_of(made)] == ([] if problem is None else [problem])


def test_tokens_that_are_not_named_are_none() -> None:
    record = CallRecord(
        "2026-01-02T03:04:05Z", spec().id, "k", ANSWERED, 1, 2.0, Usage(50, 10), 0.1
    )
    calls = summarise_calls([record], {spec().id})
    assert calls is not None
    few = {"input_tokens": 50, "output_tokens": 10}
    calls["episodes"][spec().id]["tokens"] = few
    made = typed(card() | {"provenance": {**PROVENANCE, "calls": calls}})
    assert problems_of(made) == []


def test_a_masked_card_says_in_which_scripts_of_the_documents_stocks_have_no_name() -> None:
    snapshot = market()
    known = datetime(2024, 1, 2, 9, tzinfo=UTC)
    named = replace(snapshot, names=tuple(f"Lunthra {code}" for code in snapshot.codes))
    found = {}
    for text in ("Lunthra sales rose", "公司的销售额上升"):
        item = Document(known, known, "wire", "news", (), "", text)
        made = card(snapshot=replace(named, documents=Documents.of([item])))
        found[text] = (
            made["snapshot"].get("unnamed_scripts"),
            "script without names" in made["labels"],
        )

    assert found == {
        "Lunthra sales rose": (None, False),
        "公司的销售额上升": (["Han"], True),
    }
