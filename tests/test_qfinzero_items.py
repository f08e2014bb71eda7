"""The benchmark's items: enough of every kind, each with a gold that was carried out, the same at every making."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
from qfinzero_synthetic import synthetic_dataset

from ktdeval.api import DataError, dumps_canonical
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.generate import TEMPLATES, make_items
from ktdeval_qfinzero.bench.items import Call, Item
from ktdeval_qfinzero.bench.prove import is_empty, prove
from ktdeval_qfinzero.bench.scenario import end_state, open_workspace, resolved, run_calls
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.stores import Tags
from ktdeval_qfinzero.moments import moment_text, parse_moment
from ktdeval_qfinzero.scoring import paper
from ktdeval_qfinzero.scoring.families import FURTHER_TOOLS, REGISTRY
from ktdeval_qfinzero.scoring.tasks_file import load_tasks, task_to_row
from ktdeval_qfinzero.scoring.types import Suite

SUITES: tuple[Suite, ...] = ("calling", "planning")
both = pytest.mark.parametrize("suite", SUITES)


@cache
def items(suite: Suite, seed: int = 0) -> tuple[Item, ...]:
    return make_items(synthetic_dataset(), suite, seed)


def text_of(made: Sequence[Item]) -> str:
    return dumps_canonical(
        [[task_to_row(item.task), item.as_of_ns, [[call.tool, call.args] for call in (*item.setup, *item.gold)]] for item in made]
    )


def test_there_are_more_than_three_hundred_calls_and_a_hundred_plans() -> None:
    assert len(items("calling")) >= 300
    assert len(items("planning")) >= 100


def test_every_category_and_difficulty_is_there() -> None:
    categories = Counter(item.task.category for item in items("calling"))
    assert set(categories) == {
        "price_query", "rates_query", "corporate_action_query", "option_query", "news_query", "calendar_query", "broker_query",
        "order_types", "multi_tool_chain", "ambiguous", "impossible",
    }  # fmt: skip
    assert min(categories.values()) >= 9
    assert {item.task.difficulty for item in items("calling")} == {"easy", "medium", "hard"}
    plans = Counter(item.task.category for item in items("planning"))
    assert set(plans) == {"option_workflow", "order_lifecycle", "event_driven", "portfolio", "impossible"}


@both
def test_every_gold_is_carried_out_and_what_must_fail_fails(suite: Suite) -> None:
    for item in items(suite):
        prove(item, synthetic_dataset())


@both
def test_a_perfect_answer_earns_everything_and_an_empty_one_nothing_but_where_refusing_is_right(suite: Suite) -> None:
    for item in items(suite):
        perfect = [{"tool": call.tool, "args": call.args} for call in item.gold]
        assert paper.score(item.task, perfect, {}).overall == 100.0, item.task.id
        assert paper.score(item.task, [], {}).overall == (100.0 if item.task.refuse else 0.0), item.task.id


@both
def test_what_gold_leaves_behind_is_the_same_every_time(suite: Suite) -> None:
    for item in items(suite)[::7]:
        states = []
        for _ in range(2):
            workspace = open_workspace(item, synthetic_dataset())
            run_calls(workspace, item.gold)
            states.append(dumps_canonical(end_state(workspace)))
        assert states[0] == states[1]


@both
def test_items_are_a_pure_function_of_dataset_and_seed(suite: Suite) -> None:
    again = make_items(synthetic_dataset(), suite, 0)
    assert text_of(again) == text_of(items(suite))
    assert text_of(items(suite, 1)) != text_of(items(suite))


@both
def test_no_instruction_is_asked_twice_and_no_id_tells_the_kind(suite: Suite) -> None:
    made = items(suite)
    assert len({item.task.instruction for item in made}) == len(made)
    assert [item.task.id[-4:] for item in made] == [f"{number:04d}" for number in range(1, len(made) + 1)]
    neighbours = sum(one.template == other.template for one, other in pairwise(made))
    assert neighbours < len(made) / 8


@both
def test_items_can_be_written_in_the_public_format_and_read_back(suite: Suite, tmp_path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(f"{dumps_canonical(task_to_row(item.task))}\n" for item in items(suite)))
    assert load_tasks(path) == tuple(item.task for item in items(suite))


def test_the_paper_rules_know_the_tools_that_there_are() -> None:
    assert {operation.name for operation in catalogue().operations} == (set(REGISTRY) - {"REFUSE"}) | FURTHER_TOOLS


def test_every_service_is_called_for() -> None:
    called = {call.tool for suite in SUITES for item in items(suite) for call in item.gold}
    left_out = {operation.name for operation in catalogue().operations} - called
    assert left_out == {
        "ESP.calendar.coverage", "ESP.health.freshness", "PMB.account.list", "UPQ.health.freshness", "UPQ.symbols.list",
    }  # fmt: skip


def test_a_reference_is_the_place_that_it_names() -> None:
    answers = [{"orders": [{"order_id": "ord-000001"}]}, {"events": []}]
    assert resolved({"order_id": "<s1.orders[0].order_id>", "qty": [1]}, answers) == {"order_id": "ord-000001", "qty": [1]}
    with pytest.raises(LookupError):
        resolved("<s2.events[0].event_id>", answers)
    assert resolved("<from_step_1>", answers) == "<from_step_1>"


def test_an_answer_is_empty_where_its_lists_are() -> None:
    assert is_empty({"bars": [], "unknown": ["QQQQ"], "next_cursor": None})
    assert not is_empty({"bars": [{}], "unknown": []})
    assert not is_empty({"event_id": "earn", "tickers": []})


def test_a_gold_that_is_refused_is_an_error_that_names_item_and_step() -> None:
    item = next(item for item in items("calling") if item.template == "cancel")
    wrong = replace(item, gold=(Call("PMB.order.cancel", {**item.gold[0].args, "order_id": "ord-000099"}),))
    with pytest.raises(DataError, match=rf"{item.task.id} \(cancel\): step 1, PMB.order.cancel: "):
        prove(wrong, synthetic_dataset())


def test_an_item_to_refuse_whose_call_works_is_an_error() -> None:
    item = next(item for item in items("calling") if item.template == "future_prices")
    works = next(other for other in items("calling") if other.template == "daily")
    with pytest.raises(DataError, match="is to be refused"):
        prove(replace(item, attempt=works.gold[0], as_of_ns=works.as_of_ns), synthetic_dataset())


def test_local_times_follow_the_clocks_of_new_york() -> None:
    facts = Facts(synthetic_dataset(), parse_moment("2025-03-14T20:00:00Z", "test"))
    assert facts.last_day.isoformat() == "2025-03-14"
    assert moment_text(facts.local_moment(facts.last_day, 9, 30)) == "2025-03-14T13:30:00Z"
    assert moment_text(facts.local_moment(facts.session(-6), 10, 15)) == "2025-03-06T15:15:00Z"


def test_facts_never_reach_beyond_their_moment() -> None:
    early = Facts(synthetic_dataset(), parse_moment("2025-02-14T21:00:00Z", "test"))
    assert all(row.published_ns <= early.as_of_ns for row in early.news(early.session(-5), Tags()))
    assert all(row.listed_ns <= early.as_of_ns for row in early.contracts_of(early.optionable[0].symbol))


def test_weights_add_up() -> None:
    for suite in SUITES:
        assert sum(template.weight for template in TEMPLATES[suite]) == len(items(suite))
