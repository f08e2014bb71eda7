"""What a card's parts say of it: the side of a window, the length of a year, and which systems
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from msgspec import structs

from ktdeval.calls.costs.prices import Price, PriceEntry
from ktdeval.calls.records.call_counts import call_figures
from ktdeval.calls.records.record import ANSWERED, CallRecord
from ktdeval.cards import System, parse_card
from ktdeval.cards.card_reading import attached_block
from ktdeval.cards.fields.activity import episode_tokens
from ktdeval.cards.fields.coverage import Coverage
from ktdeval.cards.fields.episode_parts import RoleUsage, Served
from ktdeval.cards.fields.knowledge.certificate import NOTHING_HIDDEN
from ktdeval.cards.fields.knowledge.cutoff import _count_sides
from ktdeval.cards.fields.origin.fact_types import (
    CutoffEntry,
    FurtherModelPart,
    SideDays,
    TaskPart,
    WindowPart,
)
from ktdeval.cards.fields.origin.recorded_facts import DerivationBasis
from ktdeval.cards.fields.origin.task import (
    identity_problems,
    never_ranked,
    task_problems,
    task_rows,
)
from ktdeval.cards.fields.replies.calls import call_problems
from ktdeval.cards.fields.replies.cost import CardPrices
from ktdeval.cards.fields.replies.roles import derive_roles, role_problems, role_rows, sum_known
from ktdeval.cards.fields.replies.served import served_problems
from ktdeval.cards.fields.returns.medians import EpisodeMetric
from ktdeval.cards.fields.returns.metrics import metrics_of
from ktdeval.errors import CardError
from ktdeval.harness.chat_messages import Usage
from ktdeval.market import Document, Documents
from ktdeval.registry import load_plugins
from ktdeval.stats.metric import RecordedTranscript, metric
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_pretty
from support.figures.card_cases import PROVENANCE, card, lines_below, typed
from support.figures.compare_cards import make_card
from support.figures.metric_cases import market, spec


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
    assert SideDays(before, across, after).side == side


@pytest.mark.parametrize("is_placebo", [True, False])
def test_card_of_a_placebo_market_is_labelled_and_not_ranked(
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


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        ("human/alice", {"human"}),
        ("declared/orders", {"declared"}),
        ("house/human", set()),
        ("house/declared/one", set()),
    ],
)
def test_a_card_of_a_person_or_of_declared_decisions_says_so(model: str, labels: set[str]) -> None:
    made = make_card({("A1", 0): 0.1}, model)
    assert set(made["labels"]) & {"human", "declared"} == labels


def test_a_metric_that_reads_conversations_gets_those_of_its_episode() -> None:
    transcript = RecordedTranscript(lambda: ())

    @metric("talk", formula="talk/1: steps", unit="count", better="neither", source="a test")
    def talk(transcript: RecordedTranscript) -> float:
        return len(transcript.entries)

    of_alone, of_episode = metrics_of([talk], None), metrics_of([talk], transcript)

    assert [each.transcript for each in (*of_alone, *of_episode)] == [None, transcript]  # type: ignore[attr-defined]


def systems(*models: str) -> list[System]:
    cards = [make_card({("A1", 0): 0.1}, model) for model in models]
    return [System.of(parse_card(dumps_pretty(each), "card")) for each in cards]  # type: ignore[arg-type]


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
        card() | {"provenance": {**PROVENANCE, "calls": call_figures([record], {spec().id})}}
    )

    assert [words for _, words in problems_of(made)] == ([] if problem is None else [problem])


def test_masked_card_names_document_scripts_without_stock_names() -> None:
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


# ---- roles: calls, tokens and cost by who asked which model

OWN = Price(2.0, 8.0, cache_read=0.5)
QUICK = Price(1.0, 4.0)


def further(asked_as: str, price: PriceEntry | None = QUICK) -> FurtherModelPart:
    """A model besides the card's own."""
    return FurtherModelPart(
        asked_as=asked_as,
        name=f"acme/{asked_as}",
        args={},
        tool_protocol="native",
        request_settings={},
        price=price,
        knowledge_cutoff="unknown",
    )


def role_usage(role: str, model: str = "", **counts: int) -> RoleUsage:
    """Calls of a role: one, in which 1,000,000 tokens were read and 100,000 written, unless said
    otherwise.
    """
    usual = {"calls": 1, "input_tokens": 1_000_000, "output_tokens": 100_000}
    return RoleUsage(role=role, model=model, **usual | counts)


def roled(*episodes: Sequence[RoleUsage], models: Sequence[FurtherModelPart] = ()) -> Any:
    """A card of these calls by role, whose episodes report their sums."""
    made = typed(card(range(len(episodes))))
    used = []

    for episode, roles in zip(made.episodes, episodes, strict=True):
        tokens = sum((usage.tokens for usage in roles), Usage())
        usage = structs.replace(episode.usage, **asdict(tokens))
        uncounted = sum(usage.uncounted for usage in roles)
        used.append(structs.replace(episode, roles=list(roles), usage=usage, uncounted=uncounted))

    return structs.replace(made, episodes=used, further_models=list(models))


@pytest.mark.parametrize(
    ("usage", "usd"),
    [
        # a million read, and a hundred thousand written: at 2 and 8, and at 1 and 4 USD a million
        (role_usage("trader"), 2.8),
        (role_usage("trader", "quick"), 1.4),
        (role_usage("trader", cache_read_tokens=500_000), 0.5 * 2 + 0.5 * 0.5 + 0.8),
        (role_usage("trader", "dark"), None),
        (role_usage("trader", "of another card"), None),
        (role_usage("trader", uncounted=1), None),
        (role_usage("trader", "quick", uncounted=1), None),
        (role_usage("trader", "quick", empty=1, failed=2), 1.4),
    ],
)
def test_tokens_of_a_role_cost_what_the_model_costs_that_it_asked(
    usage: RoleUsage, usd: float | None
) -> None:
    facts = roled([usage], models=[further("quick"), further("dark", None)])

    (cost,) = derive_roles(DerivationBasis(facts, OWN))

    assert cost.usd == (None if usd is None else pytest.approx(usd))
    assert cost.tokens == usage.tokens


def test_tokens_of_a_further_model_are_not_paid_at_the_own_price() -> None:
    """Two million are read and 200,000 written, half of each by model quick."""
    usage = Usage(input_tokens=2_000_000, output_tokens=200_000)
    prices = CardPrices(OWN, {"quick": QUICK})

    assert prices.cost(usage, [role_usage("critic", "quick")]) == pytest.approx(2.8 + 1.4)


@on_each_row(
    "model, looked_up, problem",
    ("", 3, ""),
    ("", 4, "are more than its 3 replies"),
    ("quick", 3, ""),
    ("slow", 3, "is not a model of this card"),
)
def test_replies_are_of_models_on_the_card_and_no_more_looked_up(
    model: str, looked_up: int, problem: str
) -> None:
    (episode,) = typed(card()).episodes
    served = Served(name="momentum", model=model, replies=3, looked_up=looked_up)

    found = served_problems(0, structs.replace(episode, served=[served]), {"quick"})

    assert [words for _, words in found] == list(filter(None, [problem]))


def test_tokens_that_no_provider_counted_are_none_with_the_reason() -> None:
    (episode,) = typed(card()).episodes
    assert episode_tokens(structs.replace(episode, uncounted=2)) == EpisodeMetric(
        value=None, n=0, reason="the provider did not count the tokens of 2 replies"
    )


def test_a_window_without_days_lies_on_no_side() -> None:
    cutoff = CutoffEntry(date="2024-01", confidence="given", source="given")
    none = np.array([], dtype="datetime64[D]")
    assert _count_sides(none, None, cutoff) == SideDays(before=0, across=0, after=0)


def test_a_page_in_place_of_a_card_is_known_by_its_first_letters() -> None:
    with pytest.raises(CardError, match=r"^c\.json: by its first bytes it is a web page"):
        parse_card("<!DOCTYPE html><html><body>404</body></html>", "c.json")


def test_a_card_of_a_task_that_hides_nothing_has_nothing_to_certify() -> None:
    attached = attached_block("bright", {}, "", None, load_plugins())
    assert (attached.value, attached.reason) == (None, NOTHING_HIDDEN)


def test_tokens_and_cost_of_each_model_of_a_team_are_rows() -> None:
    """The own model answered two roles; one call of model dark has no price."""
    usages = [
        role_usage("trader"),
        role_usage("critic", input_tokens=500, output_tokens=0),
        role_usage("trader", "quick"),
        role_usage("trader", "dark", input_tokens=7, output_tokens=5),
    ]
    facts = roled(usages, models=[further("quick"), further("dark", None)])

    rows = list(role_rows(derive_roles(DerivationBasis(facts, OWN)), facts))

    assert rows == [
        ("tokens of builtin/momentum", "1,000,500 in, 100,000 out, 2.80 USD"),
        ("tokens of quick", "1,000,000 in, 100,000 out, 1.40 USD"),
        ("tokens of dark", "7 in, 5 out, cost not known"),
    ]


def test_roles_that_all_asked_the_cards_model_have_no_rows_of_models() -> None:
    facts = roled([role_usage("trader"), role_usage("critic")])

    assert list(role_rows(derive_roles(DerivationBasis(facts, OWN)), facts)) == []


def test_a_sum_with_an_unknown_part_is_not_known() -> None:
    assert sum_known([1.0, 0.5]) == 1.5
    assert sum_known([]) == 0.0
    assert sum_known([1.0, None, 0.5]) is None


WHERE = ("episodes", 1, "roles")


@pytest.mark.parametrize(
    ("usage", "changes", "problems"),
    [
        (role_usage("trader", "quick"), {}, []),
        (role_usage("trader"), {}, []),
        (role_usage("trader", "slow"), {}, [((*WHERE, 1, "model"), "is not a model of the card")]),
        (
            role_usage("trader"),
            {"output_tokens": 1},
            [(WHERE, "do not add up to the tokens of the episode")],
        ),
        (
            role_usage("trader", uncounted=2),
            {"uncounted": 1},
            [(WHERE, "do not add up to the uncounted replies of the episode")],
        ),
    ],
)
def test_roles_are_of_models_of_the_card_and_add_up_to_their_episode(
    usage: RoleUsage, changes: dict[str, int], problems: list[Any]
) -> None:
    """The first episode reports tokens and no role, as of an agent without roles."""
    facts = roled([], [role_usage("critic"), usage], models=[further("quick")])
    first, second = facts.episodes
    first = structs.replace(first, usage=structs.replace(first.usage, input_tokens=9))

    if "output_tokens" in changes:
        second = structs.replace(second, usage=structs.replace(second.usage, **changes))
    else:
        second = structs.replace(second, **changes)

    stated = structs.replace(facts, episodes=[first, second])

    assert list(role_problems(derive_roles(DerivationBasis(stated, OWN)), stated)) == problems


# ---- coverage


def coverage(decided: int, planned: int = 100, steps: int = 100) -> Coverage:
    """The coverage of 3 of 4 planned episodes."""
    return Coverage(
        episodes_planned=4,
        episodes_finished=3,
        steps_planned=planned,
        steps=steps,
        steps_decided=decided,
    )


@pytest.mark.parametrize(
    ("decided", "planned", "is_low", "percent"),
    [
        (95, 100, False, "95.0"),
        (94, 100, True, "94.0"),
        (9_496, 10_000, True, "94.9"),
        (9_499, 10_000, True, "94.9"),
        (9_500, 10_000, False, "95.0"),
        (0, 100, True, "0.0"),
        (100, 100, False, "100.0"),
        (0, 0, False, "0.0"),
        (1, 1, False, "100.0"),
    ],
)
def test_coverage_is_low_below_95_percent_of_the_planned_steps(
    decided: int, planned: int, is_low: bool, percent: str
) -> None:
    made = coverage(decided, planned)

    assert (made.is_low, made.decided_percent, made.missing) == (is_low, percent, 1)


@pytest.mark.parametrize(
    ("decided", "steps", "is_undecided"), [(0, 5, True), (0, 1, True), (1, 5, False), (0, 0, False)]
)
def test_a_model_decided_nothing_where_there_were_steps_to_decide(
    decided: int, steps: int, is_undecided: bool
) -> None:
    assert coverage(decided, steps=steps).is_undecided is is_undecided


@pytest.mark.parametrize(
    ("seeds", "failed", "limit", "expected"),
    [
        ((0, 1, 2), (), None, (3, 3, 15, 15, 15)),
        ((0, 1, 2), (1,), None, (3, 2, 15, 10, 10)),
        ((0, 1), (1,), 3, (2, 1, 6, 3, 3)),
        ((0, 1), (0, 1), None, (2, 0, 10, 0, 0)),
    ],
)
def test_coverage_counts_the_steps_of_the_plan_and_of_finished_episodes(
    seeds: tuple[int, ...],
    failed: tuple[int, ...],
    limit: int | None,
    expected: tuple[int, ...],
) -> None:
    made = typed(card(seeds, failed, limit)).coverage

    assert structs.astuple(made) == expected


# ---- task


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({}, ""),
        ({"never_ranked": None}, ""),
        ({"never_ranked": ""}, ""),
        ({"never_ranked": "a person\nsteers it"}, "a person steers it"),
    ],
)
def test_a_config_may_say_why_its_cards_are_never_ranked(
    config: dict[str, Any], reason: str
) -> None:
    assert never_ranked(config) == reason


JULY = {"first": "2024-07-01", "last": "2024-07-31"}


def test_task_and_windows_of_a_card_follow_from_the_tasks_config() -> None:
    window = WindowPart(name="July", **JULY, days=23)
    problems = lines_below(
        lambda config: task_problems(typed(card()).task, [window], config),
        {},
        {"name": "blinded_open_research", "version": "1"},
        {"mask": "blinded", "mode": "open_research", "windows": {"July": JULY}},
        {"name": "bright"},
        {"version": "2"},
        {"mask": "bright"},
        {"mode": ""},
        {"windows": {}},
        {"windows": {"July": {**JULY, "last": "2024-07-30"}}},
        {"windows": {"July": 3}},
        {"windows": ["July"]},
    )
    assert problems == snapshot("""\
{}
{'name': 'blinded_open_research', 'version': '1'}
{'mask': 'blinded', 'mode': 'open_research', 'windows': {'July': {'first': '2024-07-01', 'last': '2024-07-31'}}}
{'name': 'bright'}
  task.name: is 'blinded_open_research', the task's config says 'bright'
{'version': '2'}
  task.version: is '1', the task's config says '2'
{'mask': 'bright'}
  task.mask: is 'blinded', the task's config says 'bright'
{'mode': ''}
  task.mode: is 'open_research', the task's config says ''
{'windows': {}}
  windows.0.first: is 2024-07-01, window 'July' of the task's config has no such day
  windows.0.last: is 2024-07-31, window 'July' of the task's config has no such day
{'windows': {'July': {'first': '2024-07-01', 'last': '2024-07-30'}}}
  windows.0.last: is 2024-07-31, window 'July' of the task's config says 2024-07-30
{'windows': {'July': 3}}
  windows.0.first: is 2024-07-01, window 'July' of the task's config has no such day
  windows.0.last: is 2024-07-31, window 'July' of the task's config has no such day
{'windows': ['July']}
""")


def test_a_window_that_the_config_does_not_list_is_named_by_its_days() -> None:
    names = (
        "2024-07-01:2024-07-31",
        "2024-07-01:2024-07-30",
        "2024-07-01:2024-07-31:x",
        "2024-07-01",
    )

    def problems(name: str) -> Iterable[Any]:
        window = WindowPart(name=name, **JULY, days=23)
        return task_problems(typed(card()).task, [window], {"windows": {"August": JULY}})

    assert lines_below(problems, *names) == snapshot("""\
2024-07-01:2024-07-31
2024-07-01:2024-07-30
  windows.0.last: is 2024-07-31, window '2024-07-01:2024-07-30' of the task's config says 2024-07-30
2024-07-01:2024-07-31:x
  windows.0.last: is 2024-07-31, window '2024-07-01:2024-07-31:x' of the task's config says 2024-07-31:x
2024-07-01
  windows.0.first: is 2024-07-01, window '2024-07-01' of the task's config has no such day
  windows.0.last: is 2024-07-31, window '2024-07-01' of the task's config has no such day
""")


@pytest.mark.parametrize("is_of_config", [True, False])
def test_the_hash_of_a_task_is_that_of_its_config(is_of_config: bool) -> None:
    facts = typed(card())
    task = facts.task
    if not is_of_config:
        task = structs.replace(task, config={**task.config, "sources": []})

    problems = list(identity_problems(task, facts))

    expected = [(("task", "hash"), "is not the hash of the task's config")]

    assert problems == ([] if is_of_config else expected)


def test_card_shows_its_task_with_prompt_omissions_and_identifiers() -> None:
    def rows(part: dict[str, Any]) -> Iterable[Any]:
        given = {"name": "sums", "version": "3", "hash": "a" * 64, "config": {}} | part
        return task_rows(TaskPart(**given), typed(card()))

    shown = lines_below(
        rows,
        {"mask": "blinded", "mode": "open_research"},
        {"mask": "blinded"},
        {},
        {"config": {"left_out": []}},
        {"config": {"left_out": "news"}},
        {"config": {"left_out": ["news", 3]}},
        {"config": {"data_card": {}}},
        {"config": {"data_card": {"identifiable": "by prices,\nat least"}}},
    )
    assert shown == snapshot("""\
{'mask': 'blinded', 'mode': 'open_research'}
  task: sums, version 3 (blinded, open_research)
{'mask': 'blinded'}
  task: sums, version 3 (blinded)
{}
  task: sums, version 3
{'config': {'left_out': []}}
  task: sums, version 3
{'config': {'left_out': 'news'}}
  task: sums, version 3
{'config': {'left_out': ['news', 3]}}
  task: sums, version 3
  left out: news, 3
{'config': {'data_card': {}}}
  task: sums, version 3
{'config': {'data_card': {'identifiable': 'by prices,\\nat least'}}}
  task: sums, version 3
  identifiable: by prices, at least
""")
