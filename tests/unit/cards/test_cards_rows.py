"""Fields of a card one by one: the words that each shows, and the contradictions that each names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot
from msgspec import UNSET, structs

from ktdeval.calls.costs.prices import FREE, Price, PriceEntry, PriceTier
from ktdeval.cards.fields.activity import (
    calibration_text,
    drift_text,
    is_untraded,
    order_rows,
    usage_rows,
)
from ktdeval.cards.fields.episode_parts import Orders, StepMaker, UsageCounts
from ktdeval.cards.fields.knowledge.cutoff import (
    cutoff_problems,
    cutoff_words,
    latest_cutoff,
    sides,
    window_words,
)
from ktdeval.cards.fields.knowledge.listed_cutoffs import parse_cutoff, parse_cutoff_or_state
from ktdeval.cards.fields.origin.fact_types import (
    CutoffEntry,
    Drift,
    FurtherModelPart,
    KnowledgeCutoff,
    SideDays,
    TaskPart,
    WindowPart,
)
from ktdeval.cards.fields.origin.plan import (
    call_text,
    costs_row,
    derive_target,
    further_problems,
    further_rows,
    target_rows,
    unsent_rows,
    window_problems,
    window_rows,
)
from ktdeval.cards.fields.origin.provenance import made_at, provenance_problems, unknown_version
from ktdeval.cards.fields.origin.recorded_facts import DerivationBasis
from ktdeval.cards.fields.origin.software_versions import maker_problems, maker_rows
from ktdeval.cards.fields.replies.calls import (
    Calls,
    batch_problem,
    call_count_rows,
    call_problems,
    several_models_problem,
    uncounted_problems,
    unpaid_problems,
)
from ktdeval.cards.fields.replies.cost import (
    TokenCost,
    TradingCost,
    cost_problems,
    cost_rows,
    derive_cost,
)
from ktdeval.cards.fields.returns.attribution import derive_attribution
from ktdeval.cards.fields.returns.medians import EpisodeMetric, Line, aggregate
from ktdeval.cards.fields.scores import score_problems
from ktdeval.errors import UsageError
from ktdeval.stats.intervals import clopper_pearson_upper, wilson
from ktdeval.task_api.unanswered import BOUNDS
from ktdeval.values import content_hash, from_plain
from support.figures.card_cases import CALLS, card, lines_below, lines_of, remote_card, typed
from support.figures.metric_cases import spec
from support.figures.scoring_cases import scoring_card

# ---- windows


def window(name: str, days: int = 5, first: str = "2024-01-03", last: str = "2024-01-09") -> Any:
    """A window of a card."""
    return WindowPart(name=name, first=first, last=last, days=days)


def test_windows_and_a_market_go_together() -> None:
    facts = typed(card())
    without = structs.replace(facts, snapshot=None)

    def problems(case: tuple[str, bool]) -> Iterable[Any]:
        names, has_market = case
        return window_problems([window(name) for name in names], facts if has_market else without)

    cases = (("AB", True), ("", False), ("A", False), ("", True), ("ABA", True), ("AA", False))
    assert lines_below(problems, *cases) == snapshot("""\
('AB', True)
('', False)
('A', False)
  windows: are given, but the card has no market
('', True)
  windows: are missing
('ABA', True)
  windows: one appears twice
('AA', False)
  windows: are given, but the card has no market
  windows: one appears twice
""")


def test_the_first_two_windows_are_named_with_the_limit() -> None:
    facts = typed(card())

    def rows(case: tuple[str, int | None]) -> Iterable[Any]:
        names, limit = case
        return window_rows([window(name) for name in names], structs.replace(facts, limit=limit))

    cases = (("A", None), ("AB", None), ("ABC", None), ("ABCD", 3), ("", 1), ("", None))
    assert lines_below(rows, *cases) == snapshot("""\
('A', None)
  windows: A 2024-01-03…2024-01-09
('AB', None)
  windows: A 2024-01-03…2024-01-09, B 2024-01-03…2024-01-09
('ABC', None)
  windows: A 2024-01-03…2024-01-09, B 2024-01-03…2024-01-09 and 1 more
('ABCD', 3)
  windows: A 2024-01-03…2024-01-09, B 2024-01-03…2024-01-09 and 2 more, the first 3 steps of each
('', 1)
  episodes: the first 1 step of each
('', None)
""")


# ---- makers


def maker(code: str, steps: int, version: str = "0.1.0") -> StepMaker:
    """What made some steps; the code's hash is one digit, repeated."""
    return StepMaker(ktdeval=version, code=code * 16, python="3.11.9", steps=steps)


MADE = ("episodes", 4, "made_by")


@pytest.mark.parametrize(
    ("made_by", "problems"),
    [
        ([], []),
        ([maker("1", 3), maker("2", 2)], []),
        ([maker("1", 2)], []),
        ([maker("1", 3), maker("2", 3)], [(MADE, "the episode has 5 steps, 6 are listed")]),
        ([maker("1", 2), maker("1", 1)], [((*MADE, 1), "appears twice")]),
        (
            [maker("1", 2), maker("2", 2, "new")],
            [((*MADE, 1, "ktdeval"), "is not a version, such as 0.1.0")],
        ),
    ],
)
def test_makers_stand_once_and_made_no_more_steps_than_there_are(
    made_by: list[StepMaker], problems: Any
) -> None:
    assert list(maker_problems(4, 5, made_by)) == problems


def test_several_makers_of_a_card_are_rows_with_their_steps() -> None:
    first, second = typed(card((0, 1))).episodes
    first = structs.replace(first, made_by=[maker("1", 3), maker("2", 2)])
    second = structs.replace(second, made_by=[maker("2", 4)])

    assert list(maker_rows([first, second])) == [
        ("made by", f"ktdeval 0.1.0, code {'1' * 16}, Python 3.11.9: 3 steps"),
        ("made by", f"ktdeval 0.1.0, code {'2' * 16}, Python 3.11.9: 6 steps"),
    ]
    assert list(maker_rows([second])) == []


# ---- models, call and target


def further(**changes: Any) -> FurtherModelPart:
    """A further model behind a network, with a price."""
    fields: dict[str, Any] = {
        "asked_as": "quick",
        "name": "acme/quick",
        "args": {},
        "tool_protocol": "native",
        "request_settings": {},
        "price": Price(1.0, 4.0),
        "knowledge_cutoff": "unknown",
    }
    return FurtherModelPart(**fields | changes)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (further(), "acme/quick, asked as quick"),
        (further(name="quick"), "quick"),
        (further(price=None), "acme/quick, asked as quick; its price is not known"),
    ],
)
def test_a_further_model_is_a_row(model: FurtherModelPart, words: str) -> None:
    assert list(further_rows([model], None)) == [("further model", words)]


WHERE = ("further_models", 1)


@pytest.mark.parametrize(
    ("is_remote", "change", "problems"),
    [
        (True, {}, []),
        (True, {"price": None}, []),
        (
            True,
            {"request_settings": None},
            [
                (
                    (*WHERE, "sent_as"),
                    "one model of a run is behind a network, the other is not",
                )
            ],
        ),
        (
            True,
            {"price": FREE},
            [((*WHERE, "price"), f"is that of {FREE.source}, though sent_as says otherwise")],
        ),
        (False, {"request_settings": None, "price": FREE}, []),
        (
            False,
            {},
            [
                (
                    (*WHERE, "sent_as"),
                    "one model of a run is behind a network, the other is not",
                )
            ],
        ),
    ],
)
def test_all_models_of_a_card_are_asked_alike(
    is_remote: bool, change: dict[str, Any], problems: Any
) -> None:
    settings = {} if is_remote else None
    facts = structs.replace(typed(card()), request_settings=settings)
    models = [further(request_settings=settings), further(**change)]

    assert list(further_problems(models, facts)) == problems


def test_settings_of_calls_are_listed_and_those_that_are_not_sent() -> None:
    facts = typed(card())
    assert call_text({"top_p": 1.0, "seed": 3}, facts) == "seed 3, top_p 1.0"
    assert list(unsent_rows(None, None)) == []
    repeats = (
        "repeats",
        "a seed repeats its reply only in an equal state of the server's prompt cache",
    )
    assert list(unsent_rows({"omit": None}, None)) == [repeats]
    assert list(unsent_rows({"omit": ["b"], "not_sent": ["a"]}, None)) == [
        ("not sent", "a, b: the provider does not take it"),
        repeats,
    ]
    (row,) = unsent_rows({"repeatable": True}, None)
    assert row[1].startswith("each call left the server's prompt cache out")


def test_a_parameter_that_was_not_sent_has_no_value_on_the_card() -> None:
    facts = structs.replace(typed(card()), request_settings={"not_sent": ["top_p"]})
    call = {"top_p": 1.0, "seed": 3, "temperature": None}

    assert call_text(call, facts) == (
        "seed 3; left to the provider or to the agent's own program: temperature"
    )
    assert call_text({"temperature": None}, facts) == (
        "left to the provider or to the agent's own program: temperature"
    )


@pytest.mark.parametrize("config", [{}, {"subject_config": None}, {"subject_config": "x"}])
def test_a_task_that_asks_about_no_other_has_no_target(config: dict[str, Any]) -> None:
    facts = typed(scoring_card())
    facts = structs.replace(facts, task=structs.replace(facts.task, config=config))

    target = derive_target(DerivationBasis(facts, None))

    assert target is None
    assert list(target_rows(target, facts)) == []


def test_the_target_task_is_named_with_the_hash_of_its_config() -> None:
    facts = typed(scoring_card())
    config = {"name": "mine", "version": "1"}
    task = structs.replace(facts.task, config={"subject_config": config})

    target = derive_target(DerivationBasis(structs.replace(facts, task=task), None))

    assert target is not None
    assert (target.name, target.hash) == ("mine", content_hash(config))
    assert list(target_rows(target, facts)) == [("subject", f"mine ({content_hash(config)[:12]})")]


# ---- scores


def score_of(**changes: Any) -> Any:
    """The facts of a card with one share of 1 of 19 among 20 samples."""
    facts = typed(scoring_card())
    line = structs.replace(facts.scores["right_name"], **changes)
    return structs.replace(facts, scores={"right_name": line})


def bounds(**changes: Any) -> dict[str, Any]:
    """Bounds over 20 samples, of which one is missing."""
    return {"n": 20, "missing": 1, "low": 0.1, "high": 0.15} | changes


def test_bounds_over_all_samples_lie_in_the_range_in_order() -> None:
    line = score_of().scores["right_name"]

    def problems(given: Any) -> Iterable[Any]:
        facts = score_of(detail={**line.detail, BOUNDS: given})
        return score_problems(facts.scores, facts)

    named = lines_below(
        problems,
        bounds(),
        bounds(low=0.15),
        bounds(missing=20, n=20),
        bounds(low=0.2),
        bounds(missing=0),
        bounds(missing=21),
        bounds(n=21),
        bounds(n=True),
        bounds(missing=1.0),
        bounds(low=-0.1),
        bounds(high=1.1),
        bounds(high=None),
        {"n": 20, "missing": 1},
        [1],
    )
    assert named == snapshot("""\
{'n': 20, 'missing': 1, 'low': 0.1, 'high': 0.15}
{'n': 20, 'missing': 1, 'low': 0.15, 'high': 0.15}
{'n': 20, 'missing': 20, 'low': 0.1, 'high': 0.15}
{'n': 20, 'missing': 1, 'low': 0.2, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: the low end is above the high one
{'n': 20, 'missing': 0, 'low': 0.1, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: the finished episodes have 20 samples
{'n': 20, 'missing': 21, 'low': 0.1, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: the finished episodes have 20 samples
{'n': 21, 'missing': 1, 'low': 0.1, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: the finished episodes have 20 samples
{'n': True, 'missing': 1, 'low': 0.1, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: the finished episodes have 20 samples
{'n': 20, 'missing': 1.0, 'low': 0.1, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: the finished episodes have 20 samples
{'n': 20, 'missing': 1, 'low': -0.1, 'high': 0.15}
  scores.right_name.detail.with_failed_calls: -0.1 lies outside its range 0.0 … 1.0
{'n': 20, 'missing': 1, 'low': 0.1, 'high': 1.1}
  scores.right_name.detail.with_failed_calls: 1.1 lies outside its range 0.0 … 1.0
{'n': 20, 'missing': 1, 'low': 0.1, 'high': None}
  scores.right_name.detail.with_failed_calls: an end is null although the range has it, or the other way round
{'n': 20, 'missing': 1}
  scores.right_name.detail.with_failed_calls: expected n, missing, low and high
[1]
  scores.right_name.detail.with_failed_calls: expected n, missing, low and high
""")


@pytest.mark.parametrize("high", [None, 30.0])
def test_a_bound_is_open_exactly_where_the_range_is(high: float | None) -> None:
    """The distance of a day has no largest value."""
    facts = typed(scoring_card())
    given = {"n": 20, "missing": 1, "low": 12.0, "high": high}
    line = structs.replace(facts.scores["distance"], detail={BOUNDS: given})
    facts = structs.replace(facts, scores={"distance": line})

    assert len(list(score_problems(facts.scores, facts))) == (high is not None)


@pytest.mark.parametrize(
    ("successes", "n", "is_right"),
    [(0, 5, True), (5, 5, True), (6, 5, False), (-1, 5, False), (0, 0, False)],
)
def test_successes_are_of_the_trials(successes: int, n: int, is_right: bool) -> None:
    share = successes / n if n else 0.0
    facts = score_of(value=share, n=n, interval=None, detail={"successes": successes})

    found = [text for _, text in score_problems(facts.scores, facts)]

    if is_right:
        assert found == []
    else:
        assert f"of {n} trials" in found


@pytest.mark.parametrize(
    ("level", "end"), [(UNSET, "low"), (UNSET, "high"), (0.8, "low"), (0.8, "high")]
)
def test_the_interval_of_a_share_is_wilsons_of_its_level(level: Any, end: str) -> None:
    exact = wilson(1, 19, level or 0.95)
    interval = structs.replace(
        score_of().scores["right_name"].interval, level=level, low=exact.low, high=exact.high
    )
    right = score_of(interval=interval)
    wrong = score_of(interval=structs.replace(interval, **{end: 0.5}))

    assert list(score_problems(right.scores, right)) == []

    ((path, text),) = score_problems(wrong.scores, wrong)
    assert path == ("scores", "right_name", "interval", end)
    assert text == f"recorded 0.5, 1 successes of 19 give {getattr(exact, end)}"


def test_another_interval_and_a_share_without_a_bound_are_not_recomputed() -> None:
    interval = structs.replace(score_of().scores["right_name"].interval, kind="bootstrap", low=0.0)
    facts = score_of(interval=interval, detail={"successes": 1})

    assert list(score_problems(facts.scores, facts)) == []

    facts = score_of(detail={"successes": 1, "upper_95": 0.5})
    ((path, text),) = score_problems(facts.scores, facts)

    assert path[-1] == "upper_95"
    assert text == f"recorded 0.5, 1 successes of 19 give {clopper_pearson_upper(1, 19)}"


# ---- cutoff


def block(**windows: tuple[int, int, int]) -> KnowledgeCutoff:
    """A cutoff on 5 January with the days before, across and after of windows."""
    days = {name: SideDays(*counts) for name, counts in windows.items()}
    return KnowledgeCutoff(date="2024-01-05", confidence="given", source="a test", windows=days)


@pytest.mark.parametrize(
    ("given", "words", "by_side"),
    [
        (block(), "2024-01-05 (given: a test)", ""),
        (
            block(W1=(5, 0, 0), W2=(3, 0, 2), W3=(0, 1_000, 1), W4=(4, 0, 0)),
            "2024-01-05 (given: a test); days: 12 before, 1,000 across, 3 after; windows before"
            " W1, W4; across W2, W3",
            "before W1, W4; across W2, W3",
        ),
        ("none", "none: nothing was trained", ""),
        ("unknown", "unknown: the end of its training data is not known", ""),
    ],
)
def test_a_cutoff_is_shown_with_the_sides_of_days_and_windows(
    given: Any, words: str, by_side: str
) -> None:
    facts = typed(card())
    model = structs.replace(facts.model, name="house/nobody")
    facts = structs.replace(facts, model=model, knowledge_cutoff=given)

    assert (cutoff_words(facts), window_words(facts)) == (words, by_side)


def test_a_listed_cutoff_is_shown_next_to_an_unknown_one_of_a_single_model() -> None:
    facts = typed(card())
    model = structs.replace(facts.model, name="openai/gpt-4o", args={})
    facts = structs.replace(facts, model=model, knowledge_cutoff="unknown")
    several = structs.replace(facts, further_models=[further()])

    assert cutoff_words(facts).startswith(
        "unknown: the end of its training data is not known; the list has 2023-"
    )
    assert cutoff_words(several) == "unknown: the end of its training data is not known"


@pytest.mark.parametrize(
    ("dates", "latest"),
    [
        (["2024-01-05", "2024-01"], "2024-01"),
        (["2024-02-01", "2024-01"], "2024-02-01"),
        (["2024-01-05", "none"], "2024-01-05"),
        (["none", "none"], "none"),
        ([], "none"),
        (["2024-01-05", "unknown"], "unknown"),
    ],
)
def test_the_cutoff_of_several_models_is_the_latest(dates: list[str], latest: str) -> None:
    """A month ends with its last day."""
    cutoffs: list[Any] = []
    for date in dates:
        is_state = date in ("none", "unknown")
        cutoffs.append(date if is_state else CutoffEntry(date, "given", "a test"))

    found = latest_cutoff(cutoffs)

    assert (found if isinstance(found, str) else found.date) == latest


def test_of_several_models_one_lower_bound_makes_a_lower_bound() -> None:
    """What is known of all: the latest date that any is said to reach."""
    bound = CutoffEntry("2024-01", "reported_lower_bound", "a list")
    later = CutoffEntry("2024-06-01", "vendor", "a page")
    earlier = CutoffEntry("2023-06", "vendor", "a page")

    assert latest_cutoff([later, bound]) == CutoffEntry(
        "2024-06-01", "reported_lower_bound", "a page; a list"
    )
    assert latest_cutoff([earlier, bound, "none"]) == bound
    assert latest_cutoff([bound, "unknown"]) == "unknown"


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2024-01-01", ["across", "across", "across"]),
        ("2024-01-03", ["before", "across", "across"]),
        ("2024-01-07", ["before", "before", "before"]),
        ("2023-12", ["across", "across", "across"]),
    ],
)
def test_no_return_is_known_to_lie_after_a_lower_bound(date: str, expected: list[str]) -> None:
    days = np.array(["2024-01-03", "2024-01-06", "2024-01-07"], dtype="datetime64[D]")
    cutoff = parse_cutoff(date, "reported_lower_bound")

    assert sides(days, np.datetime64("2024-01-02"), cutoff) == expected


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("2024-01-01", ["after", "after", "after"]),
        ("2024-01-02", ["after", "after", "after"]),
        ("2024-01-03", ["before", "after", "after"]),
        ("2024-01-04", ["before", "across", "after"]),
        ("2024-01-06", ["before", "before", "after"]),
        ("2024-01", ["across", "across", "across"]),
    ],
)
def test_a_return_is_on_the_side_where_it_lies_whole(date: str, expected: list[str]) -> None:
    """Returns from 2 to 3 January, on to the 6th, and on to the 7th."""
    days = np.array(["2024-01-03", "2024-01-06", "2024-01-07"], dtype="datetime64[D]")

    assert sides(days, np.datetime64("2024-01-02"), parse_cutoff(date)) == expected


def test_days_by_side_are_those_of_the_window() -> None:
    def problems(case: tuple[str, tuple[int, int, int], int | None]) -> Iterable[Any]:
        date, counts, limit = case
        facts = structs.replace(typed(card()), limit=limit, windows=[window("long")])
        return cutoff_problems(structs.replace(block(long=counts), date=date), facts)

    named = lines_below(
        problems,
        ("2024-01-09", (5, 0, 0), None),
        ("2024-01-09", (4, 1, 0), None),
        ("2024-01-02", (0, 0, 5), None),
        ("2024-01-02", (0, 1, 4), None),
        ("2024-01-02", (0, 2, 3), None),
        ("2024-01-05", (3, 0, 2), None),
        ("2024-01-05", (3, 0, 1), None),
        ("2024-01-05", (3, 0, 0), 3),
        ("2024-01-05", (3, 0, 2), 3),
        ("2024-01-05", (3, 0, 2), 9),
    )
    assert named == snapshot("""\
('2024-01-09', (5, 0, 0), None)
('2024-01-09', (4, 1, 0), None)
  knowledge_cutoff.windows.long: its days lie on other sides of 2024-01-09
('2024-01-02', (0, 0, 5), None)
('2024-01-02', (0, 1, 4), None)
('2024-01-02', (0, 2, 3), None)
  knowledge_cutoff.windows.long: its days lie on other sides of 2024-01-02
('2024-01-05', (3, 0, 2), None)
('2024-01-05', (3, 0, 1), None)
  knowledge_cutoff.windows.long: do not add up to the 5 days of the window with no limit
('2024-01-05', (3, 0, 0), 3)
('2024-01-05', (3, 0, 2), 3)
  knowledge_cutoff.windows.long: do not add up to the 3 days of the window with the limit 3
('2024-01-05', (3, 0, 2), 9)
""")


@pytest.mark.parametrize(
    ("counts", "is_wrong"), [((0, 5, 0), False), ((0, 0, 5), True), ((0, 4, 1), True)]
)
def test_a_card_claims_no_day_after_a_lower_bound(
    counts: tuple[int, int, int], is_wrong: bool
) -> None:
    facts = structs.replace(typed(card()), limit=None, windows=[window("long")])
    given = structs.replace(
        block(long=counts), date="2023-01-05", confidence="reported_lower_bound", source="a list"
    )

    assert bool(list(cutoff_problems(given, facts))) == is_wrong
    words = cutoff_words(structs.replace(facts, knowledge_cutoff=given))
    assert words.startswith("2023-01-05 (reported, lower bound: a list)")


# ---- drift, tokens, orders and missing episodes


@pytest.mark.parametrize(
    ("changes", "end"),
    [
        ({}, ""),
        ({"served_by_changed": True}, "; the provider named another model at the end"),
    ],
)
def test_a_drift_is_a_row_with_its_noise(changes: dict[str, Any], end: str) -> None:
    fields = {
        "value": 0.25,
        "noise": 0.125,
        "excess": 0.125,
        "prompts": 1,
        "served_by_changed": False,
    }

    shown = drift_text(Drift(**{**fields, **changes}), None)

    words = "0.250 between start and end over 1 question, 0.125 within one round"

    assert shown == f"{words} (0 equal, 1 different){end}"


def counts(**given: int) -> UsageCounts:
    """Counts of tokens and calls that are 0 where not given."""
    return UsageCounts(**dict.fromkeys(UsageCounts.__struct_fields__, 0) | given)


@pytest.mark.parametrize(
    ("usage", "uncounted", "words"),
    [
        (counts(input_tokens=1_234, output_tokens=5), 0, "1,234 in, 5 out"),
        (
            counts(input_tokens=10, cache_read_tokens=4, cache_write_tokens=3, reasoning_tokens=2),
            0,
            "10 in (4 read from the provider's cache, 3 written to it), 0 out (2 reasoning)",
        ),
        (
            counts(cache_write_tokens=3),
            2,
            "0 in (3 written to it), 0 out; the provider did not count the tokens of 2 replies",
        ),
    ],
)
def test_tokens_are_shown_with_their_parts(usage: UsageCounts, uncounted: int, words: str) -> None:
    facts = typed(card())
    episode = structs.replace(facts.episodes[0], uncounted=uncounted)
    facts = structs.replace(facts, episodes=[episode])

    assert list(usage_rows(usage, facts))[1] == ("tokens", words)


def orders(filled: int, partially: int) -> Orders:
    """Three orders, of which some were filled."""
    return Orders(submitted=3, filled=filled, partially_filled=partially, rejected=0, rules={})


@pytest.mark.parametrize(
    ("of_episodes", "expected"),
    [
        ([], False),
        ([orders(0, 0)], True),
        ([orders(0, 0), orders(1, 0)], False),
        ([orders(0, 1), orders(0, 0)], False),
    ],
)
def test_an_account_is_untraded_where_no_order_was_filled(
    of_episodes: list[Orders], expected: bool
) -> None:
    assert is_untraded(of_episodes) is expected


@pytest.mark.parametrize("is_short", [True, False])
def test_counts_of_all_episodes_say_so_where_figures_rest_on_fewer(is_short: bool) -> None:
    """A window of three days does not mix with one of three months."""
    first, second = typed(card((0, 1))).episodes
    long = structs.replace(first, window="long", first_day="2024-01-03", last_day="2024-03-29")
    last_day = "2024-04-03" if is_short else "2024-06-28"
    other = structs.replace(second, window="other", first_day="2024-04-01", last_day=last_day)
    facts = structs.replace(typed(card()), episodes=[long, other])
    calibration = structs.replace(facts.calibration, n=1_234, no_fill=2, no_next_open=0)

    (submitted, rules) = order_rows(structs.replace(orders(2, 1), rules={"cash": 4}), facts)
    judged = calibration_text(calibration, facts)

    of_all = ", in all 2 episodes" if is_short else ""
    of_pooled = ", in the 1 of 2 episodes that figures rest on" if is_short else ""

    assert submitted == ("orders", f"3 submitted: filled 2, partially_filled 1{of_all}")
    assert rules == ("order rules", "cash 4")
    assert judged == f"1,234 orders judged; left out: no_fill 2{of_pooled}"


@pytest.mark.parametrize(
    ("spelled", "expected"), [("none", "none"), ("unknown", "unknown"), ("2024-06", "2024-06")]
)
def test_a_cutoff_is_spelled_as_a_date_or_a_state(spelled: str, expected: str) -> None:
    found = parse_cutoff_or_state(spelled, "--x")

    assert (found if isinstance(found, str) else found.date) == expected

    with pytest.raises(UsageError, match=r"^--x: 'soon' is neither a day"):
        parse_cutoff_or_state("soon", "--x")


@pytest.mark.parametrize(
    ("config", "venues", "words"),
    [
        ({}, ["a_share"], "a_share flat"),
        ({"trading": {"board_rules": "paper"}}, ["a_share", "hk"], "a_share flat (paper), hk flat"),
        ({"trading": {"board_rules": "exchange"}}, ["a_share"], "a_share flat"),
        ({"duties": "f" * 64}, ["a_share"], f"a_share dated (duties {'f' * 12})"),
        ({"duties": "f" * 64}, ["nowhere"], "nowhere flat"),
        ({"venue_rules": {"name": "mine"}}, ["a_share", "hk"], "mine flat"),
    ],
)
def test_costs_of_fills_are_those_of_the_venues(
    config: dict[str, Any], venues: list[str], words: str
) -> None:
    task = TaskPart(name="t", version="1", hash="a" * 64, config=config)

    assert costs_row(task, venues) == ("trading costs", words)


# ---- provenance


@pytest.mark.parametrize(
    ("created_at", "moment"),
    [
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
        ("2026-01-02T03:04:05+02:00", datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("2026-13-02T03:04:05", None),
    ],
)
def test_the_time_of_a_card_is_utc_unless_it_says_otherwise(
    created_at: str, moment: datetime | None
) -> None:
    provenance = structs.replace(typed(card()).provenance, created_at=created_at)

    assert made_at(provenance) == moment


REMOTE = typed(remote_card())


def test_provenance_states_times_versions_and_calls_that_can_be() -> None:
    named = lines_below(
        lambda changes: provenance_problems(structs.replace(REMOTE.provenance, **changes), REMOTE),
        {},
        {"calls": None},
        {"created_at": "2026-13-02T03:04:05"},
        {"suite_version": "new"},
        {"suite_version": "0.1.0rc1.post2.dev3+local.1"},
        {"source_revision": "a" * 40},
        {"source_revision": "a" * 39},
    )
    assert named == snapshot("""\
{}
{'calls': None}
  provenance.calls: is null, though the model is one behind a network
{'created_at': '2026-13-02T03:04:05'}
  provenance.created_at: is not a time (ISO 8601)
{'suite_version': 'new'}
  provenance.suite_version: is not a version, such as 0.1.0
{'suite_version': '0.1.0rc1.post2.dev3+local.1'}
{'source_revision': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}
{'source_revision': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'}
  provenance.source_revision: is not a revision of the source (40 hexadecimal digits)
""")


@pytest.mark.parametrize("value", [3, "", " "])
def test_an_environment_names_versions(value: Any) -> None:
    environment = {**REMOTE.provenance.environment, "python": value}
    provenance = structs.replace(REMOTE.provenance, environment=environment)

    assert list(provenance_problems(provenance, REMOTE)) == [
        (("provenance", "environment", "python"), "is not a version, platform or plugin")
    ]


def test_calls_of_a_model_of_this_machine_are_refused() -> None:
    facts = structs.replace(REMOTE, request_settings=None)

    assert list(provenance_problems(REMOTE.provenance, facts)) == [
        (("provenance", "calls"), "are counted, though sent_as is that of no provider")
    ]


@pytest.mark.parametrize(
    ("made_by", "installed", "is_known"),
    [
        ("0.1.0", "0.1.0", True),
        ("0.1", "0.1.0", True),
        ("0.1.0.dev1", "0.1.0", True),
        ("0.1.1", "0.1.0", False),
        ("0.10", "0.9", False),
        ("1.0", "0.9.9", False),
        ("new", "0.1.0", True),
        ("0.2", "new", True),
    ],
)
def test_a_later_version_than_the_installed_one_is_not_known(
    made_by: str, installed: str, is_known: bool
) -> None:
    provenance = structs.replace(REMOTE.provenance, suite_version=made_by)

    problem = unknown_version(provenance, installed)

    words = f"provenance.suite_version: {made_by} is later than the installed ktdeval {installed},"

    assert (problem is None) is is_known
    assert problem is None or problem.startswith(words)


# ---- calls


def calls_of(**changes: Any) -> Calls:
    """Calls of one episode: three requests, four attempts of which one was answered."""
    return from_plain({**(CALLS or {}), **changes}, Calls, "calls")


IN_CALLS = ("provenance", "calls")


def test_counts_that_contradict_each_other_are_named() -> None:
    named = lines_below(
        lambda changes: call_problems(calls_of(**changes), {}),
        {"attempts": 9},
        {"tokens": {"input_tokens": 9}},
        {"failed_attempts": {"timeout": 1}},
        {"requests": 0},
        {"batched": 2},
        {"latency_s": {"median": None, "p90": 1.0, "p99": 1.0, "longest": 1.0}},
        {"latency_s": {"median": 2.0, "p90": 1.0, "p99": 3.0, "longest": 4.0}},
    )
    assert named == snapshot("""\
{'attempts': 9}
  provenance.calls.attempts: is not the sum over its episodes
{'tokens': {'input_tokens': 9}}
  provenance.calls.tokens: is not the sum over its episodes
{'failed_attempts': {'timeout': 1}}
  provenance.calls.failed_attempts: is not the sum over its episodes
{'requests': 0}
  provenance.calls.requests: is 0 with 3 attempts
{'batched': 2}
  provenance.calls.batched: are more than the 1 that were answered
{'latency_s': {'median': None, 'p90': 1.0, 'p99': 1.0, 'longest': 1.0}}
  provenance.calls.latency_s: must be given if a call was answered, and null otherwise
{'latency_s': {'median': 2.0, 'p90': 1.0, 'p99': 3.0, 'longest': 4.0}}
  provenance.calls.latency_s: must rise from median to longest
""")


def test_calls_of_which_none_was_answered_have_no_response_time() -> None:
    none = {"median": None, "p90": None, "p99": None, "longest": None}
    found = call_problems(calls_of(answered=0, latency_s=none), {})
    assert "latency_s" not in {place[-1] for place, _ in found}


@pytest.mark.parametrize(
    ("changes", "totals", "place", "text"),
    [
        ({"openings": 0}, {}, "openings", "is 0 for an episode with calls"),
        (
            {"attempts": 9},
            {"attempts": 9},
            "attempts",
            "are not the sum of answered and failed attempts",
        ),
        ({"unused": 9}, {"unused": 9}, "unused", "are more than the answers"),
    ],
)
def test_counts_of_an_episode_that_contradict_each_other_are_named(
    changes: dict[str, Any], totals: dict[str, Any], place: str, text: str
) -> None:
    (identity,) = calls_of().episodes
    own = structs.replace(calls_of().episodes[identity], **changes)
    calls = structs.replace(calls_of(), episodes={identity: own}, **totals)

    found = list(call_problems(calls, {}))

    assert found == [((*IN_CALLS, "episodes", identity, place), text)]


@pytest.mark.parametrize(
    ("cached", "unused", "has_problem"),
    [(0, 0, True), (1, 0, False), (0, 1, False), (1, 1, False)],
)
def test_episode_tokens_may_differ_only_if_a_reply_was_cached_or_dropped(
    cached: int, unused: int, has_problem: bool
) -> None:
    """Its answered call read 10 tokens and wrote 2; the episode reports 11 and 2."""
    ((identity, own),) = calls_of().episodes.items()
    own = structs.replace(own, cached=cached, unused=unused)
    calls = structs.replace(calls_of(), episodes={identity: own}, cached=cached, unused=unused)

    found = list(call_problems(calls, {identity: counts(input_tokens=11, output_tokens=2)}))

    text = "input_tokens: 10 were answered and no reply was cached, but the episode reports 11"
    where = (*IN_CALLS, "episodes", identity, "tokens")

    assert found == ([(where, text)] if has_problem else [])


def split_calls(**changes: Any) -> Calls:
    """The calls of a card by two models, the second of which made none; changes are of the first."""
    calls = calls_of()
    whole = {
        "requests": calls.requests,
        "attempts": calls.attempts,
        "answered": calls.answered,
        "tokens": calls.tokens,
        "paid_usd": calls.paid_usd,
        "possibly_paid_usd": 0.0,
        "served_by": calls.served_by,
    }
    none = dict.fromkeys(("requests", "attempts", "answered"), 0)
    none |= {"tokens": {}, "paid_usd": 0.0, "possibly_paid_usd": 0.0, "served_by": {}}

    return calls_of(models={"house/one": whole | changes, "house/two": none})


def test_counts_by_model_add_up_to_those_of_the_card() -> None:
    named = lines_below(
        lambda changes: call_problems(split_calls(**changes), {}),
        {},
        {"paid_usd": 1.0},
        {"paid_usd": None},
        {"answered": 2},
        {"served_by": {"x": 1}},
    )
    assert named == snapshot("""\
{}
{'paid_usd': 1.0}
  provenance.calls.paid_usd: is not the sum over its models
{'paid_usd': None}
  provenance.calls.paid_usd: is not the sum over its models
{'answered': 2}
  provenance.calls.models: answered do not add up to answered of the card
{'served_by': {'x': 1}}
  provenance.calls.models: served_by do not add up to served_by of the card
""")


def test_several_models_have_counts_each() -> None:
    words = "provenance.calls.models: are missing, but 2 models were asked"

    assert several_models_problem(calls_of(), ["", "quick"]) == words
    assert several_models_problem(calls_of(), [""]) is None
    assert several_models_problem(split_calls(), ["", "quick"]) is None


@pytest.mark.parametrize(
    ("price", "paid", "is_named"),
    [
        (Price(2.0, 8.0), 0.0, True),
        (Price(2.0, 8.0), 0.5, False),
        (Price(2.0, 8.0), None, False),
        (Price(0.0, 0.0), 0.0, False),
        (None, 0.0, False),
    ],
)
def test_answers_with_a_price_were_not_free(
    price: PriceEntry | None, paid: float | None, is_named: bool
) -> None:
    calls = structs.replace(calls_of(), paid_usd=paid)

    found = list(unpaid_problems(calls, "house/one", {"house/one": price}))

    words = (
        "provenance.calls.paid_usd: is 0 for house/one, but the tokens of its answers have a price"
    )

    assert found == ([words] if is_named else [])


BATCH = Price(1.0, 4.0, batch=True)


@pytest.mark.parametrize(
    ("price", "batched", "problem"),
    [
        (None, 1, None),
        (BATCH, 1, None),
        (Price(2.0, 8.0), 0, None),
        (BATCH, 0, "are 0 of 1 answers, though the price is that of a batch"),
        (Price(2.0, 8.0), 1, "are 1, though the price is that of ordinary calls"),
    ],
)
def test_a_batch_price_is_of_all_answers_or_of_none(
    price: PriceEntry | None, batched: int, problem: str | None
) -> None:
    assert batch_problem(structs.replace(calls_of(), batched=batched), price) == problem


@pytest.mark.parametrize(
    ("identity", "tokens", "is_named"),
    [("b" * 20, 5, True), ("b" * 20, 0, False), (spec().id, 5, False)],
)
def test_tokens_of_an_episode_came_from_calls(identity: str, tokens: int, is_named: bool) -> None:
    usage = {identity: counts(output_tokens=tokens)}

    found = list(uncounted_problems(calls_of(), usage))

    words = (
        f"provenance.calls.episodes: no calls are counted for episode {identity}, which used tokens"
    )

    assert found == ([words] if is_named else [])


def test_calls_are_shown_with_what_failed_and_what_was_paid() -> None:
    checks = (CALLS or {})["checks"]
    bare = calls_of(
        batched=1,
        repeated=1_000,
        failed_attempts={},
        unused=1,
        lost_s=0.0,
        paid_usd=None,
        possibly_paid_usd=0.0,
        checks={**checks, "paid_usd": None},
    )
    unanswered = calls_of(
        latency_s=dict.fromkeys(("median", "p90", "p99", "longest")),
        served_by={"a": 1_000, "b": 2},
        checks={**checks, "paid_usd": 0.0},
    )
    shown = [lines_of(call_count_rows(calls)) for calls in (calls_of(), bare, unanswered)]
    assert "\n".join(shown) == snapshot("""\
requests: 3: 1 answered by the provider, 1 from the cache; 2 failed attempts: rate_limited 1, timeout 1
latency: median 2.00 s, 99 % within 2.00 s, longest 2.00 s; 120.5 s in failed attempts
paid: 1.50 USD, possibly 0.2500 USD more; checks of the run 0.1250 USD

requests: 3: 1 answered by the provider (1 by batch), 1 from the cache, 1,000 answered again from the record after an interruption; 0 failed attempts
unused answers: 1 answer that no transcript holds: an episode was opened 1 times, and its last answers differ
latency: median 2.00 s, 99 % within 2.00 s, longest 2.00 s
paid: not known

requests: 3: 1 answered by the provider, 1 from the cache; 2 failed attempts: rate_limited 1, timeout 1
paid: 1.50 USD, possibly 0.2500 USD more
served by: a (1,000), b (2)
""")


# ---- cost


def line(value: float | None, n: int = 1, reason: Any = UNSET) -> Line:
    """A figure over episodes."""
    return Line(value=value, n=n, undefined={}, reason=reason)


def cost(**changes: Any) -> TradingCost:
    """A cost of 3 USD over two episodes at a price."""
    fields: dict[str, Any] = {
        "value": 3.0,
        "currency": "USD",
        "price": Price(2.0, 8.0),
        "per_episode": line(1.5, 2),
        "return_per_usd": line(0.25, 2),
    }
    return TradingCost(**fields | changes)


TIER = PriceTier(above=1_000, input=4.0, output=16.0, cache_read=None, cache_write=None)


def test_a_cost_is_shown_with_its_price_and_what_it_bought() -> None:
    costs = (
        cost(),
        cost(
            per_episode=line(3.0),
            return_per_usd=line(-0.5),
            price=Price(2.0, 8.0, 0.5, 2.5, "2026-01-02", "a list", batch=True),
        ),
        cost(
            return_per_usd=line(None, 0, "the episode cost nothing"),
            price=Price(2.0, 8.0, source="a list", tiers=(TIER,)),
        ),
        cost(value=0.0, per_episode=line(0.0)),
        TokenCost(value=None, reason="no price"),
    )
    shown = [lines_of(cost_rows(given, typed(card()))) for given in costs]
    assert "\n".join(shown) == snapshot("""\
cost: 3.00 USD, 1.50 USD an episode (median)
price: 2 in, 8 out USD a million tokens
return per USD: +25 % (median over episodes)

cost: 3.00 USD
price: batch: 2 in, 8 out, 0.5 cache read, 2.5 cache write USD a million tokens (as of 2026-01-02, a list)
return per USD: -50 %

cost: 3.00 USD, 1.50 USD an episode (median)
price: 2 in, 8 out USD a million tokens of prompts of up to 1,000 tokens; longer ones cost more (a list)
return per USD: not defined: the episode cost nothing

cost: 0.00 USD

cost: not known: no price
""")


@pytest.mark.parametrize(
    ("paid", "is_least"),
    [(0.000036, False), (0.0000361, True), (None, True)],
)
def test_a_cost_is_the_least_where_prompts_were_long_or_not_counted(
    paid: float | None, is_least: bool
) -> None:
    """The answered 10 and 2 tokens cost 0.000036 USD at the rates of short prompts."""
    calls = structs.replace(REMOTE.provenance.calls, paid_usd=paid)
    facts = structs.replace(REMOTE, provenance=structs.replace(REMOTE.provenance, calls=calls))
    given = cost(price=Price(2.0, 8.0, tiers=(TIER,)))

    (words, _, gain) = cost_rows(given, facts)

    reason = "prompts of over 1,000 tokens cost more"

    if paid is None:
        reason = "the provider did not count the tokens of every reply"

    usual = "3.00 USD, 1.50 USD an episode (median)"

    assert words[1] == (f"at least {usual}: {reason}" if is_least else usual)
    assert (gain[1] == f"not known: {reason}") is is_least


@pytest.mark.parametrize(
    ("price", "is_remote", "has_problem"),
    [(FREE, True, True), (FREE, False, False), (Price(2.0, 8.0), True, False)],
)
def test_a_model_behind_a_network_is_not_free(
    price: PriceEntry, is_remote: bool, has_problem: bool
) -> None:
    facts = REMOTE if is_remote else typed(card())

    problems = list(cost_problems(cost(price=price), facts))

    expected = [
        (("cost", "price"), f"is that of {FREE.source}, though sent_as says that one is asked")
    ]

    assert problems == (expected if has_problem else [])


@pytest.mark.parametrize(
    ("total_return", "price", "value", "reason"),
    [
        (0.25, Price(100_000.0, 0.0), 0.25 / 5, None),
        (0.25, FREE, None, "the episode cost nothing"),
        (None, FREE, None, "total_return is not defined: no steps"),
    ],
)
def test_what_a_dollar_bought_is_the_return_by_the_cost_of_the_episode(
    total_return: float | None, price: Any, value: float | None, reason: str | None
) -> None:
    """Each of five steps read 10 tokens: 50 of them at 100,000 USD a million are 5 USD."""
    facts = typed(card())
    entry = EpisodeMetric(
        value=total_return, n=5, reason=UNSET if total_return is not None else "no steps"
    )
    episode = structs.replace(facts.episodes[0], metrics={"total_return": entry})
    facts = structs.replace(facts, episodes=[episode])

    made = derive_cost(DerivationBasis(facts, price))

    assert isinstance(made, TradingCost)

    gains = made.return_per_usd
    assert isinstance(gains, Line)
    assert gains.value == (None if value is None else pytest.approx(value))
    assert gains.reason == (UNSET if reason is None else reason)


# ---- medians and attribution


@pytest.mark.parametrize(
    ("values", "middle", "low", "high"),
    [
        ([3.0, 1.0], 2.0, 1.5, 2.5),
        ([4.0, 1.0, 2.0], 2.0, 1.5, 3.0),
        ([1.0, 2.0, 3.0, 4.0], 2.5, 1.75, 3.25),
        ([1.0, 2.0, 3.0, 4.0, 10.0], 3.0, 2.0, 4.0),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3.0, 1.5, 4.5),
    ],
)
def test_quartiles_lie_between_order_statistics(
    values: list[float], middle: float, low: float, high: float
) -> None:
    made = aggregate(EpisodeMetric(value=value, n=1) for value in values)

    assert (made.value, made.n) == (middle, len(values))
    assert made.quartiles is not UNSET
    assert (made.quartiles.low, made.quartiles.high) == (low, high)


def attributed(*entries: dict[str, Any] | None) -> Any:
    """The attribution of a card whose episodes have these details; None: no metric of that name."""
    facts = typed(card(range(len(entries))))
    episodes = []

    for episode, entry in zip(facts.episodes, entries, strict=True):
        metrics = {}
        if entry is not None:
            fields = {"value": 0.02, "n": 5} | entry
            metrics = {"selection_alpha": EpisodeMetric(**fields)}

        episodes.append(structs.replace(episode, metrics=metrics))

    return derive_attribution(DerivationBasis(structs.replace(facts, episodes=episodes), None))


def linked(**lines: Any) -> dict[str, Any]:
    """An entry with these linked lines."""
    return {"detail": {"linked": lines}}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([None], "metric selection_alpha was not asked for"),
        (
            [{"value": None, "reason": "b"}, {"value": None, "reason": "a"}],
            "a; b",
        ),
        ([{"detail": {}}], "metric selection_alpha has no linked lines in its detail"),
        ([{"detail": "x"}], "metric selection_alpha has no linked lines in its detail"),
        ([{"detail": {"linked": [1]}}], "metric selection_alpha has no linked lines in its detail"),
    ],
)
def test_a_card_says_why_it_has_no_attribution(entries: list[Any], reason: str) -> None:
    made = attributed(*entries)

    assert (made.value, made.reason) == (None, reason)


def test_linked_lines_are_medians_over_the_episodes_that_have_them() -> None:
    made = attributed(
        linked(style=0.01, selection=0.02),
        linked(selection=0.04, trading=-0.01, words="x"),
        {"value": None, "reason": "no steps"},
    )

    lines = made.value.lines

    assert list(lines) == ["style", "selection", "trading"]
    assert (lines["selection"].value, lines["selection"].n) == (pytest.approx(0.03), 2)
    assert (lines["style"].value, lines["style"].n) == (0.01, 1)
    assert lines["style"].undefined == {"the episode has no such line": 1, "no steps": 1}


def test_a_line_of_the_only_episode_has_its_own_interval() -> None:
    interval = {"kind": "bootstrap", "low": -0.5, "high": 0.5, "level": 0.95}
    detail = {"linked": {"style": 0.01}, "intervals": {"style": interval}}

    made = attributed({"detail": detail})

    line_of = made.value.lines["style"]

    assert (line_of.interval.low, line_of.interval.high) == (-0.5, 0.5)
    assert line_of.quartiles is UNSET
    assert math.isclose(line_of.value, 0.01)
