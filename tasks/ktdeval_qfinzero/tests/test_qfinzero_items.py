"""The benchmark's items: enough of every kind, each with executed gold calls; task files in the
public format.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import dumps_canonical, from_plain, sha256_hex
from ktdeval_qfinzero.benchmark.item_generation import (
    CallPattern,
    Chosen,
    SetupPattern,
    Template,
    TemplateFile,
    load_templates,
    make_items,
)
from ktdeval_qfinzero.benchmark.items import (
    BenchmarkItem,
    ItemCall,
    ItemDraft,
    is_empty,
    prove,
    resolve_references,
)
from ktdeval_qfinzero.benchmark.market_facts import DayRange, MomentFacts
from ktdeval_qfinzero.benchmark.template_slots import SlotWording
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.rows import TagFilters
from ktdeval_qfinzero.scoring.paper import score
from ktdeval_qfinzero.scoring.tasks_file import publish_tasks, task_from_row, task_to_row
from ktdeval_qfinzero.scoring.types import FURTHER_TOOLS, REGISTRY, GoldCall, Suite
from ktdeval_qfinzero.suite.samples import embedded_dataset, embedded_items
from ktdeval_qfinzero.timestamps import moment_text, parse_moment
from support.qfinzero.qfinzero_scoring_cases import (
    BARS,
    EVENTS,
    ORDER,
    RUN,
    load_tasks,
    perfect_answer,
    rows_of,
    task,
    tasks_of,
)
from support.tables import beside

pytestmark = pytest.mark.slow

SUITES: tuple[Suite, ...] = ("calling", "planning")
both = pytest.mark.parametrize("suite", SUITES)


def items(suite: Suite) -> tuple[BenchmarkItem, ...]:
    return embedded_items(0, suite, 0)


def text_of(made: Sequence[BenchmarkItem]) -> str:
    rows = []
    for item in made:
        calls = [[call.tool, call.args] for call in (*item.setup, *item.gold)]
        rows.append([task_to_row(item.task), item.as_of_ns, calls])

    return dumps_canonical(rows)


@pytest.mark.exhaustive
@both
def test_items_match_version_1_in_number_and_hash_and_depend_on_the_seed(
    suite: Suite,
) -> None:
    """A change of these hashes changes the benchmark: it takes another version of the task."""
    hashes = {
        "calling": "8abd36f9a940b4b180de039b7f9490075c572189fbee648e295ee874fde7244f",
        "planning": "6c98e3ddda966dff4323f89c0b6d430ee145fa9065b01d51e5662e2d5677fe71",
    }

    assert sha256_hex(text_of(items(suite))) == hashes[suite]
    assert suite == "calling" or text_of(make_items(embedded_dataset(0), suite, 1)) != text_of(
        items(suite)
    )

    templates = chain.from_iterable(file.templates for file in load_templates(suite))
    weight = sum(template.weight for template in templates)

    assert len(items(suite)) == weight >= {"calling": 300, "planning": 100}[suite]


@pytest.mark.exhaustive
def test_chains_of_another_seed_have_contracts_that_were_traded() -> None:
    """Seed 1 draws a far expiry of which nobody traded on the day asked for, and draws again."""
    chains = [
        item for item in embedded_items(0, "calling", 1) if item.template.startswith("chain_")
    ]

    assert {"chain_month", "chain_monthly"} <= {item.template for item in chains}

    for item in chains:
        prove(item, embedded_dataset(0))


def test_monthly_expiries_are_third_fridays_or_the_thursday_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    days = (
        date(2022, 1, 14),
        date(2022, 1, 21),
        date(2022, 4, 14),
        date(2031, 10, 17),
        date(2031, 10, 24),
    )
    monkeypatch.setattr(MomentFacts, "expiries", lambda *_: days)
    monthly = MomentFacts(embedded_dataset(0), 0).monthly_expiries("AVLN")

    assert monthly == (
        date(2022, 1, 21),
        date(2022, 4, 14),
        date(2031, 10, 17),
    ), "15 April 2022 was Good Friday"


@pytest.mark.exhaustive
def test_every_category_and_difficulty_is_there() -> None:
    categories = Counter(item.task.category for item in items("calling"))
    assert set(categories) == {
        "price_query",
        "rates_query",
        "corporate_action_query",
        "option_query",
        "news_query",
        "calendar_query",
        "broker_query",
        "order_types",
        "multi_tool_chain",
        "ambiguous",
        "impossible",
    }
    assert min(categories.values()) >= 9
    assert {item.task.difficulty for item in items("calling")} == {"easy", "medium", "hard"}

    plans = Counter(item.task.category for item in items("planning"))
    assert set(plans) == {
        "option_workflow",
        "order_lifecycle",
        "event_driven",
        "portfolio",
        "impossible",
    }


@pytest.mark.exhaustive
@both
@pytest.mark.parametrize(
    "every",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["one of each template", "all"],
)
def test_gold_is_carried_out_and_what_must_fail_fails(suite: Suite, every: bool) -> None:
    of_each_template = {item.template: item for item in items(suite)}.values()
    for item in items(suite) if every else of_each_template:
        prove(item, embedded_dataset(0))


@both
def test_no_instruction_is_asked_twice_and_no_id_tells_the_kind(suite: Suite) -> None:
    made = items(suite)
    assert len({item.task.instruction for item in made}) == len(made)
    assert [item.task.id[-4:] for item in made] == [
        f"{number:04d}" for number in range(1, len(made) + 1)
    ]

    neighbours = sum(one.template == other.template for one, other in pairwise(made))
    assert neighbours < len(made) / 8


@both
def test_items_can_be_written_in_the_public_format_and_read_back(suite: Suite, tmp_path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(
        "".join(f"{dumps_canonical(task_to_row(item.task))}\n" for item in items(suite))
    )

    assert load_tasks(path) == tuple(item.task for item in items(suite))


def test_the_paper_rules_know_the_tools_that_there_are() -> None:
    assert {operation.name for operation in catalogue().operations} == (
        set(REGISTRY) - {"REFUSE"}
    ) | FURTHER_TOOLS


def test_every_service_is_called_for() -> None:
    calls = chain.from_iterable(item.gold for item in chain(*map(items, SUITES)))
    called = {call.tool for call in calls}
    left_out = {operation.name for operation in catalogue().operations} - called

    assert left_out == {
        "ESP.calendar.coverage",
        "ESP.health.freshness",
        "PMB.account.list",
        "UPQ.health.freshness",
        "UPQ.symbols.list",
    }


def test_references_resolve_to_values_and_empty_lists_are_empty_answers() -> None:
    answers = [{"orders": [{"order_id": "ord-000001"}]}, {"events": []}]
    assert resolve_references({"order_id": "<s1.orders[0].order_id>", "qty": [1]}, answers) == {
        "order_id": "ord-000001",
        "qty": [1],
    }
    assert resolve_references("<from_step_1>", answers) == "<from_step_1>"

    with pytest.raises(LookupError):
        resolve_references("<s2.events[0].event_id>", answers)

    assert is_empty({"bars": [], "unknown": ["QQQQ"], "next_cursor": None})
    assert not is_empty({"bars": [{}], "unknown": []})
    assert not is_empty({"event_id": "earn", "tickers": []})


def test_failing_gold_call_or_working_refusal_is_an_error_naming_the_item() -> None:
    by_name = {item.template: item for item in items("calling")}
    item = by_name["cancel"]
    works = by_name["daily"]
    fails = by_name["future_prices"]
    wrong = replace(
        item, gold=(ItemCall("PMB.order.cancel", {**item.gold[0].args, "order_id": "ord-000099"}),)
    )

    with pytest.raises(DataError, match=rf"{item.task.id} \(cancel\): step 1, PMB.order.cancel: "):
        prove(wrong, embedded_dataset(0))

    with pytest.raises(DataError, match="is to be refused"):
        prove(replace(fails, attempt=works.gold[0], as_of_ns=works.as_of_ns), embedded_dataset(0))


def test_local_times_follow_new_york_clocks_and_facts_never_look_ahead() -> None:
    facts = market_facts()
    assert facts.last_day.isoformat() == "2025-03-14"
    assert moment_text(facts.local_moment(facts.last_day, 9, 30)) == "2025-03-14T13:30:00Z"
    assert moment_text(facts.local_moment(facts.session(-6), 10, 15)) == "2025-03-06T15:15:00Z"

    early = MomentFacts(embedded_dataset(0), parse_moment("2025-02-14T21:00:00Z", "test"))
    assert all(
        row.published_ns <= early.as_of_ns for row in early.news(early.session(-5), TagFilters())
    )
    assert all(
        row.listed_ns <= early.as_of_ns for row in early.contracts_of(early.optionable[0].symbol)
    )


# ---- templates


@cache
def market_facts() -> MomentFacts:
    return MomentFacts(embedded_dataset(0), parse_moment("2025-03-14T20:00:00Z", "test"))


def wording_of(**facts: Any) -> SlotWording:
    return SlotWording(np.random.default_rng(0), {"hello": ("Hi {name}", "Hello {name}")}, facts)


def drafted(**fields: Any) -> ItemDraft:
    file = TemplateFile(
        templates=(Template(name="t", category="kind", difficulty="easy", **fields),),
        phrases={"where": ("here",)},
    )
    return file.draft(file.templates[0], np.random.default_rng(0), market_facts())


@on_each_row(
    "text, written",
    ("{day}", "2025-03-04"),
    ("on {day:%B} {day.day}", "on March 4"),
    (
        "{names:listed}|{names:joined}|{names:commas}|{names:ands}",
        "A, B and C|A,B,C|A, B, C|A and B and C",
    ),
    ("{cents:dollars} {thousand:dollars}", "$4.50 $1,000"),
    ("tick{one:plural} bar{two:plural} {two:02d}", "tick bars 02"),
    ("{ns:moment} {ns:day} {ns:clock}", "2025-03-14T13:30:00Z 2025-03-14 9:30 a.m."),
    ("{right:option} {right:options}", "put puts"),
    ("{days.last}T23:59:59Z", "2025-03-05T23:59:59Z"),
)
def test_slots_are_filled_in_the_way_that_they_name(text: str, written: str) -> None:
    day = date(2025, 3, 4)
    facts = {
        "names": ["A", "B", "C"],
        "cents": 4.5,
        "thousand": 1000.0,
        "one": 1,
        "two": 2,
        "right": "P",
    }
    moment_ns = parse_moment("2025-03-14T13:30:00Z", "test")

    assert (
        wording_of(day=day, days=DayRange(day, date(2025, 3, 5)), ns=moment_ns, **facts).fill(text)
        == written
    )


def test_a_text_that_is_one_slot_keeps_the_type_of_its_fact() -> None:
    wording = wording_of(limit=4.5, names=["A", "B"], on=True)
    assert wording.fill(
        {"limit": "{limit}", "names": "{names}", "on": "{on}", "one": ["{names[0]}", 1]}
    ) == {"limit": 4.5, "names": ["A", "B"], "on": True, "one": ["A", 1]}


def test_wordings_and_spellings_are_drawn() -> None:
    wording = wording_of(name="Ann", day=date(2025, 3, 4))
    assert {wording.fill("{hello:phrase}") for _ in range(20)} == {"Hi Ann", "Hello Ann"}
    assert {wording.fill("{day:spoken}") for _ in range(50)} == {
        "March 4, 2025",
        "Mar 4, 2025",
        "4 March 2025",
        "2025-03-04",
    }
    assert wording.say("one only") == "one only"


def test_a_template_draws_facts_and_gives_text_and_calls() -> None:
    made = drafted(
        draw={"stock": "stock", "kind": Chosen(one_of=({"word": "Buy {stock}", "qty": 5},))},
        say="{kind.word} {where:phrase}.",
        steps=(CallPattern(order={"side": "BUY", "qty": "{kind.qty}"}, may_be_empty=True),),
        setup=SetupPattern(stocks=("{stock}",), held="{kind.qty}"),
        attempt=CallPattern(tool="PMB.order.get", args={"order_id": "ord-000001"}),
    )
    stock = made.instruction.split()[1]

    assert (made.instruction, made.steps[0].call.args["order"]) == (
        f"Buy {stock} here.",
        {"side": "BUY", "qty": 5},
    )
    assert [call.tool.removeprefix("PMB.") for call in made.setup] == [
        "account.create", "session.create", "order.place", "session.step"
    ]  # fmt: skip
    assert (made.setup[1].args["universe"], made.setup[2].args["order"]["qty"]) == (
        {"stocks": [stock]},
        5,
    )
    assert made.attempt == ItemCall("PMB.order.get", {"order_id": "ord-000001"})


@on_each_row(
    "fields, message",
    ({"draw": {"stock": "stok"}}, "template t: no draw 'stok'; did you mean 'stock'"),
    ({"draw": {"limit": "close_times stock 0.9"}}, "template t: no fact 'stock'"),
    ({"say": "{price}"}, "template t: no fact 'price'; known are: account, session, last_day"),
    ({"say": "{last_day.hour}"}, "no fact 'last_day.hour'"),
    ({"say": "{account:dolars}"}, "no formatter 'dolars'; known are: phrase, spoken"),
    ({"steps": ["positions"]}, "template t: no call 'positions'"),
    (
        {"draw": {"far": "item stocks 99"}},
        "template t: item stocks 99: the dataset has no such thing; items need stocks",
    ),
    (
        {"draw": {"many": "stocks 99"}},
        "template t: stocks 99: the dataset has no such thing; items need stocks",
    ),
)
def test_a_template_with_an_unknown_name_is_refused_with_the_name(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        drafted(**fields)


def test_the_benchmark_needs_a_market_of_new_york() -> None:
    dataset = embedded_dataset(0)
    with pytest.raises(DataError, match=r"sessions in New York.*XSHG"):
        make_items(replace(dataset, info=replace(dataset.info, calendar="XSHG")), "calling", 0)


def test_template_with_an_unknown_field_is_an_error_that_names_the_place() -> None:
    row = {"name": "t", "category": "c", "difficulty": "easy", "wieght": 2}
    with pytest.raises(DataError, match=r"x\.yaml: templates\[0\].*wieght"):
        from_plain({"templates": [row]}, TemplateFile, "x.yaml", DataError)


# -- task files in the public format


CALLING_ROW: dict[str, Any] = beside(__file__)["calling_row"]
FILES = [
    "calling_tasks_public.jsonl",
    "calling_tasks_esp_public.jsonl",
    "planning_tasks_public.jsonl",
    "planning_tasks_esp_public.jsonl",
]


def with_call(**changes: Any) -> dict[str, Any]:
    return {
        **CALLING_ROW,
        "expected_tool_calls": [{**CALLING_ROW["expected_tool_calls"][0], **changes}],
    }


@pytest.mark.shared_data
@pytest.mark.parametrize("name", FILES)
def test_public_files_load_and_write_back_the_same(shared_data: Path, name: str) -> None:
    path = shared_data / "qfinzero" / name
    assert [task_to_row(one) for one in tasks_of(path).values()] == list(rows_of(path))


@pytest.mark.shared_data
@pytest.mark.parametrize("name", FILES)
def test_perfect_answers_earn_100_and_empty_ones_only_a_refusal(
    shared_data: Path, name: str
) -> None:
    for one in not_empty(tasks_of(shared_data / "qfinzero" / name).values()):
        best = score(one, perfect_answer(one, RUN), RUN)
        assert (best.overall, best.failure_modes) == (100, ()), one.id
        assert score(one, [], RUN).overall == (100 if one.refuse else 0), one.id


def test_a_calling_row_becomes_a_task() -> None:
    read = task_from_row(CALLING_ROW, "here")
    assert (read.suite, read.id, read.refuse, read.notes) == ("calling", "c-1", False, "Easy.")
    assert read.calls[0].required == {"tickers": "KO", "start": "2024-03-04"}
    assert task_to_row(read) == CALLING_ROW


def test_tasks_survive_a_round_trip_to_a_file_and_a_published_dataset(
    tmp_path: Path,
) -> None:
    planning = replace(
        task(replace(BARS, step_id="s1", notes="n"), EVENTS, ORDER), truth={"a": [1, None]}
    )
    refusal = replace(task(GoldCall("REFUSE"), suite="calling"), id="other")
    path = tmp_path / "tasks.jsonl"
    path.write_text("".join(json.dumps(task_to_row(one)) + "\n\n" for one in (planning, refusal)))

    assert load_tasks(path) == (planning, refusal)
    assert refusal.refuse

    both = (planning, replace(refusal, suite="planning"))
    publish_tasks(tmp_path / "made", "Two tasks", both)

    assert load_tasks(tmp_path / "made") == both


def refused(row: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n" + json.dumps(row) + "\n")
    with pytest.raises(DataError, match=message) as caught:
        load_tasks(path)

    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


# what is changed of `calling_row`, or of its call, and a pattern of the line
@on_each_row(
    "row, call, message",
    ({"expected_tool_calls": None}, {}, "either expected_tool_calls"),
    ({"expected_tool_calls": []}, {}, "expected_tool_calls: expected `array` of length >= 1"),
    ({"expected_tool_calls": {}}, {}, "expected_tool_calls: expected `array"),
    (
        {"expected_tool_calls": [None]},
        {},
        "expected_tool_calls\\[0\\]: expected `object`, was `null`",
    ),
    ({"id": " "}, {}, "id: expected a text that is not empty"),
    ({"dificulty": "easy"}, {}, "unknown field 'dificulty'; did you mean 'difficulty'"),
    ({}, {"tool_name": None}, "\\[0\\]: field 'tool_name' is missing"),
    ({}, {"required_param": {}}, "did you mean 'required_params'"),
    ({}, {"required_params": []}, "required_params: expected `object`, was `array`"),
    ({}, {"method": "PUT"}, "method: invalid enum value 'PUT'; give GET or POST"),
    ({}, {"endpoint": 5}, "endpoint: expected `str . null`, was `int`"),
    (
        {},
        {"time_constraints": {"tolerance": "15min"}},
        "unknown tolerance '15min'; give one of exact, 5min",
    ),
    ({}, {"time_constraints": {"tolerance": 5}}, "unknown tolerance 5"),
    (
        {},
        {"time_constraints": {"start": "March"}},
        "time_constraints.start is 'March'; give an ISO 8601",
    ),
    (
        {},
        {"time_constraints": {"start": 20_240_304}},
        "number of minutes for a name that ends in _minutes",
    ),
    (
        {},
        {"time_constraints": {"horizon_minutes": True}},
        "time_constraints.horizon_minutes is True",
    ),
    ({}, {"time_constraints": {"start": "2024-02-30"}}, "time_constraints.start is '2024-02-30'"),
)
def test_an_error_in_a_row_names_the_problem_and_its_place(
    row: Any, call: Any, message: str, tmp_path: Path
) -> None:
    refused({**with_call(**call), **row}, message, tmp_path)


def test_a_row_that_is_none_of_two_kinds_or_too_long_is_refused(tmp_path: Path) -> None:
    calls = CALLING_ROW["expected_tool_calls"]
    refused([], "expected `object`, was `array`", tmp_path)
    refused(
        {**CALLING_ROW, "expected_steps": calls},
        "either expected_tool_calls .calling. or",
        tmp_path,
    )
    refused({**CALLING_ROW, "expected_tool_calls": calls * 201}, "of length <= 200", tmp_path)
    refused({**CALLING_ROW, "x" * 10_000: 1}, f"unknown field '{'x' * 60}", tmp_path)


def test_ids_are_unique_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    path.write_text(f"{json.dumps(CALLING_ROW)}\n{json.dumps(CALLING_ROW)}\n")
    with pytest.raises(DataError, match=":2: a second task 'c-1'"):
        load_tasks(path)


@pytest.mark.parametrize(
    "value", [None, "<from_step_1>", "2024-03-04T09:30:00+01:00", "2024-03-04"]
)
def test_times_may_be_null_placeholders_or_iso(value: Any) -> None:
    assert task_from_row(with_call(time_constraints={"start": value}), "here").calls[0].times == {
        "start": value
    }
