"""QFinZero's scoring tasks: what is asked, what is recorded, and how it is scored."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from ktdeval.errors import ConfigError, DataError, InvariantError
from ktdeval.stats import wilson
from ktdeval.testing import check_scoring_task, on_each_row
from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.benchmark.items import end_state, open_workspace
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.rows import SymbolRow
from ktdeval_qfinzero.scoring.tasks_file import task_to_row
from ktdeval_qfinzero.scoring.types import GoldCall, GoldTask
from ktdeval_qfinzero.suite.grading import differing_parts, with_defaults
from ktdeval_qfinzero.suite.prompt_texts import clock_words, tools_text
from ktdeval_qfinzero.suite.samples import SuiteSamples, own_material
from ktdeval_qfinzero.suite.scores import interval_of, summarise
from ktdeval_qfinzero.suite.task import SuiteTask
from ktdeval_qfinzero.timestamps import SECOND
from support.qfinzero.qfinzero_scoring_cases import BARS
from support.qfinzero.qfinzero_suite_play import (
    VARIANTS,
    Perfect,
    Scripted,
    Silent,
    calling_items,
    config_of,
    planning_items,
    sample_set_of,
    sit,
    task_of,
    world,
)  # fmt: skip
from support.qfinzero.qfinzero_world import at, small_prices

ROOM = Path(__file__).parents[1]
PROMPTS = {
    str(path.relative_to(ROOM)): path.read_text("utf-8")
    for folder in ("suite/prompts", "chat", "session")
    for path in sorted((ROOM / folder).glob("*.md"))
}
METRICS = ("overall", "tm", "pa", "ta")
DAILY = ("upq_stock_daily", '{"tickers": "AVLN", "start": "2025-01-02", "end": "2025-01-03"}')


def earned(record: Any) -> list[float]:
    return [record.scores[f"paper_{name}"] for name in METRICS]


# ---- whole sittings


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_fulfils_the_contract_and_rewards_silence_only_when_due(
    variant: str,
) -> None:
    task = task_of(variant)
    is_live = "live" in variant
    check_scoring_task(task)

    assert list(task.scores) == list(summarise([], config_of(variant)))

    records = sit(
        task, Perfect(planning_items() if "planning" in variant else calling_items(), live=is_live)
    )

    assert [earned(record) for record in records] == [[100.0, 1.0, 1.0, 1.0]] * len(records)

    perfect = task.summarise(records)
    values = {name: score.value for name, score in perfect.items()}
    full = {
        **dict.fromkeys((*METRICS, "exact", "refusal_accuracy", "call_precision"), 1.0),
        "overall": 100.0,
        "unanswered": 0.0,
    }

    assert values == {**full, **({"end_state_match": 1.0} if is_live else {})}
    assert perfect["overall"].detail["failure_modes"] == {}

    records = sit(task, Silent())
    assert [earned(record)[0] for record in records] == [
        100.0 if record.facts["refusal"] else 0.0 for record in records
    ]

    silent = task.summarise(records)

    for name in (*METRICS, "exact"):
        assert silent[name].baseline == pytest.approx(silent[name].value)

    assert (
        silent["refusal_accuracy"].value
        == silent["refusal_accuracy"].detail["false_refusals"]["value"]
        == 1.0
    )
    assert silent["call_precision"].value is None

    if is_live:
        assert silent["end_state_match"].value == silent["end_state_match"].baseline
        assert silent["end_state_match"].detail["changing"]["value"] == 0.0


def one(variant: str, number: int, model: Any, **changes: Any) -> Any:
    """The record of one sample."""
    return sit(task_of(variant, **changes), model, [number])[0]


def written(number: int, *calls: Any) -> Any:
    """The record of an answer with these calls as text."""
    return one("qfinzero_calling_text", number, Scripted(written=calls))


# ---- what is recorded

DAILY_CALL = {"tool": "UPQ.stock.daily", "arguments": json.loads(DAILY[1])}
STEP_CALL = {"tool": "PMB.session.step", "arguments": {"session_id": "sess-000001", "step": 2}}


def test_calls_are_recorded_under_dotted_names_and_not_made() -> None:
    model = Scripted([DAILY, ("pmb_account_create", "{}")])
    record = one("qfinzero_calling", 0, model)

    assert record.answer["calls"] == [DAILY_CALL, {"tool": "PMB.account.create", "arguments": {}}]
    assert [message.content for message in model.tool_messages] == ['{"recorded":true}'] * 2
    assert record.scores["call_precision"] == 0.5
    assert earned(record) == [100.0, 1.0, 1.0, 1.0]

    # In text both names of a tool are known, and others stay as written.
    record = written(
        0, {**DAILY_CALL, "tool": "upq_stock_daily"}, {"tool": "UPQ.crystal.ball", "arguments": {}}
    )

    assert [call["tool"] for call in record.answer["calls"]] == [
        "UPQ.stock.daily",
        "UPQ.crystal.ball",
    ]
    assert (earned(record)[0], record.scores["failed_unknown_tool"]) == (100.0, True)


def test_arguments_that_are_no_json_object_make_no_call() -> None:
    model = Scripted(
        [("upq_stock_daily", "[1]"), ("upq_stock_daily", "{"), ("upq_no_such_tool", "{}")]
    )
    record = one("qfinzero_calling", 0, model)

    assert (record.answer["calls"], earned(record)[0]) == ([], 0.0)
    assert record.failures == {"bad_arguments": 1, "bad_json": 1, "unknown_tool": 1}


@pytest.mark.parametrize(
    "arguments",
    ['{"a": ' * 40 + "1" + "}" * 40, '{"a": "\\ud800"}', json.dumps({"a": "x" * 30_000})],
)
def test_arguments_that_cannot_be_recorded_make_no_call(arguments: str) -> None:
    native = one("qfinzero_calling", 0, Scripted([("upq_stock_daily", arguments)]))
    assert (native.answer["calls"], native.failures) == ([], {"bad_arguments": 1})

    text = written(0, {"tool": "UPQ.stock.daily", "arguments": json.loads(arguments)})
    assert text.answer["calls"][0]["arguments"].startswith("[left out")
    assert (earned(text)[0], text.scores["failed_malformed_call"]) == (0.0, True)


def test_more_calls_than_the_budget_are_not_made() -> None:
    assert (
        len(
            one("qfinzero_calling", 0, Scripted([DAILY] * 4), harness={"max_tool_calls": 2}).answer[
                "calls"
            ]
        )
        == 2
    )


# ---- what equals what is expected

ORDER = dict(calling_items()[1].gold[0].args)


def placed(**changes: Any) -> dict[str, Any]:
    """The expected order of the second calling item as a written call, with changes; None leaves a
    field of the order out.
    """
    order = {
        name: value for name, value in {**ORDER["order"], **changes}.items() if value is not None
    }
    return {"tool": "PMB.order.place", "arguments": {**ORDER, "order": order}}


FOREIGN = {"tool": "PMB.order.place", "arguments": {**ORDER, "session_id": "sess-000002"}}


def test_leaving_out_a_default_equals_giving_it() -> None:
    assert written(1, placed(time_in_force=None)).scores["paper_pa"] == 1.0
    assert written(1, placed(time_in_force="GTC")).scores["paper_pa"] < 1.0
    assert written(1, placed(side=None)).scores["paper_pa"] < 1.0


@on_each_row(
    "tool, given, filled",
    (
        "PMB.spread.place",
        {"legs": [{"side": "BUY"}, {"side": "SELL", "ratio": 2}, "leg"], "qty": 1},
        {
            "legs": [{"side": "BUY", "ratio": 1}, {"side": "SELL", "ratio": 2}, "leg"],
            "qty": 1,
            "time_in_force": "DAY",
        },
    ),
    ("PMB.order.place", {"order": {"qty": 1}}, {"order": {"qty": 1, "time_in_force": "DAY"}}),
    ("PMB.order.place", {}, {}),
    ("PMB.order.place", {"order": 5}, {"order": 5}),
    ("PMB.order.place", "left out", "left out"),
    ("PMB.session.step", {}, {"step": 1}),
    ("PMB.session.step", {"until_ts": "2025-01-08"}, {"until_ts": "2025-01-08"}),
    (
        "PMB.session.step",
        {"until_ts": "2025-01-08", "step": 2},
        {"until_ts": "2025-01-08", "step": 2},
    ),
    ("PMB.no.such", {"a": 1}, {"a": 1}),
)
def test_defaults_with_an_effect_are_filled_into_arguments(
    tool: str, given: Any, filled: Any
) -> None:
    assert with_defaults(tool, given) == filled


def test_defaults_of_nested_objects_are_those_of_the_service() -> None:
    config = {"execution_config": {"fees": {"stock_per_share_e4": 0}}}
    fees = with_defaults("PMB.session.create", config)["execution_config"]["fees"]

    assert fees == {
        "stock_per_share_e4": 0,
        "option_per_contract_e4": 6500,
        "option_exercise_e4": 0,
    }
    assert "horizon_minutes" not in with_defaults("ESP.events.query", {"mode": "window"})
    assert with_defaults("ESP.events.query", {})["horizon_minutes"] == 60


@pytest.mark.parametrize("name", [operation.name for operation in catalogue().operations])
def test_defaults_of_every_operation_are_those_of_the_service(name: str) -> None:
    schemas = catalogue().find(name).parameters["properties"]
    assert with_defaults(name, {}) == {
        argument: schema["default"] for argument, schema in schemas.items() if "default" in schema
    }


def test_situation_ids_are_counted_beside_the_scores_and_by_public_rules() -> None:
    records = [written(1, call) for call in (placed(), FOREIGN)]
    assert [earned(record)[0] for record in records] == [100.0, 100.0]
    assert [(record.scores["ids_expected"], record.scores["ids_right"]) for record in records] == [
        (2, 2),
        (2, 1),
    ]
    assert [record.scores["reference_pa"] for record in records] == [1.0, pytest.approx(2 / 3)]
    assert task_of("qfinzero_calling_text").summarise(records)["overall"].detail["ids"] == {
        "expected": 4,
        "right": 3,
    }


def test_the_public_rules_see_a_refusal_that_is_spelled_out() -> None:
    refused, idle = (
        one("qfinzero_planning", 2, Scripted(status=status)).scores
        for status in ("refused", "done")
    )

    assert (refused["reference_overall"], refused["paper_overall"]) == (100.0, 100.0)
    assert idle["reference_overall"] < idle["paper_overall"] == 100.0
    assert (
        one("qfinzero_planning", 2, Scripted([DAILY], status="refused")).scores["reference_tm"]
        < 1.0
    )


def test_an_answer_is_exact_where_nothing_is_wrong_absent_or_too_much() -> None:
    exact = [(0, [DAILY_CALL]), (1, [placed(time_in_force=None)]), (3, [])]
    inexact = [(0, [DAILY_CALL, STEP_CALL]), (0, []), (1, [placed(qty=11)]), (3, [STEP_CALL])]

    assert [written(number, *calls).scores["exact"] for number, calls in (*exact, *inexact)] == [
        True
    ] * 3 + [False] * 4
    assert written(0, DAILY_CALL, STEP_CALL).scores["paper_overall"] == 100.0


@pytest.mark.parametrize("rules", ["paper", "reference"])
def test_exact_is_a_share_with_wilsons_interval_by_category_and_difficulty(rules: str) -> None:
    records = sit(task_of("qfinzero_calling_text"), Scripted(written=[DAILY_CALL]))
    exact = task_of("qfinzero_calling_text", rules=rules).summarise(records)["exact"]

    assert (exact.value, exact.n, exact.baseline) == (0.25, 4, 0.25)
    assert exact.interval == wilson(1, 4, 0.95)
    assert exact.detail["by_category"]["order"] == {"n": 2, "value": 0.0}
    assert exact.detail["by_difficulty"] == {
        "easy": {"n": 2, "value": 0.5},
        "hard": {"n": 2, "value": 0.0},
    }


def test_exact_stands_next_to_the_headline() -> None:
    assert list(task_of("qfinzero_calling_text").scores)[:2] == ["overall", "exact"]


# ---- refusals


def test_a_refusal_is_not_a_call_with_any_text() -> None:
    done = one("qfinzero_calling", 3, Scripted(status="done"))
    assert (earned(done)[0], done.scores["no_call"]) == (100.0, True)

    called = one("qfinzero_calling", 3, Scripted([DAILY], status="refused"))
    assert (earned(called)[0], called.scores["no_call"], called.scores["call_precision"]) == (
        0.0,
        False,
        0.0,
    )
    assert called.scores["failed_missed_refusal"]

    task = task_of("qfinzero_calling")
    records = sit(task, Scripted(status="refused"))

    assert [earned(record)[0] for record in records] == [0.0, 0.0, 0.0, 100.0]

    detail = task.summarise(records)["refusal_accuracy"].detail
    assert detail == {"false_refusals": {"n": 3, "count": 3, "value": 1.0}, "said_so": 1}


# ---- calls that are made


def test_a_call_that_fails_counts_as_a_call() -> None:
    model = Scripted([("upq_stock_daily", '{"tickers": "AVLN"}'), DAILY])
    record = one("qfinzero_calling_live", 0, model)

    assert [
        json.loads(message.content).get("error", {}).get("code") for message in model.tool_messages
    ] == [
        "invalid_argument",
        None,
    ]
    assert (len(record.answer["calls"]), earned(record)[0], record.scores["call_precision"]) == (
        2,
        100.0,
        0.5,
    )
    assert record.scores["end_state_match"] is True


def test_what_differs_in_the_end_is_named() -> None:
    task = task_of("qfinzero_calling_live")
    order = json.dumps(placed(qty=11)["arguments"])
    records = sit(
        task,
        Scripted(
            [("pmb_order_place", order), ("pmb_session_step", '{"session_id": "sess-000001"}')]
        ),
        [1],
    )

    assert records[0].scores["end_state_match"] is False

    differing = {name for name in records[0].scores if name.startswith("differs_")}
    assert differing == {"differs_clock", "differs_cash", "differs_positions", "differs_orders"}

    detail = task.summarise(records)["end_state_match"].detail
    assert detail["differing"] == {"cash": 1, "clock": 1, "orders": 1, "positions": 1}
    assert detail["changing"] == {"n": 1, "value": 0.0}


def test_order_with_a_bracket_or_session_with_own_rules_differs_in_state() -> None:
    order = json.dumps(placed(stop_loss_price=0.05)["arguments"])
    item = calling_items()[1]
    (record,) = sit(task_of("qfinzero_calling_live"), Scripted([("pmb_order_place", order)]), [1])

    assert (earned(record)[0], [name for name in record.scores if name.startswith("differs_")]) == (
        100.0,
        ["differs_orders"],
    )

    free: dict[str, Any] = {
        "PMB.session.create": {"execution_config": {"fees": {"stock_per_share_e4": 0}}}
    }
    other = replace(
        item,
        setup=tuple(
            replace(call, args={**call.args, **free.get(call.tool, {})}) for call in item.setup
        ),
    )
    usual, own = (end_state(open_workspace(each, world())) for each in (item, other))

    assert differing_parts(own, usual) == ("sessions",)


def test_session_with_another_end_or_exercise_ban_differs_in_full_state() -> None:
    item = calling_items()[1]
    end = {"PMB.session.create": {"end_ts": "2025-01-17"}}
    other = replace(
        item,
        setup=tuple(
            replace(call, args={**call.args, **end.get(call.tool, {})}) for call in item.setup
        ),
    )
    usual, longer, exempt = (open_workspace(each, world()) for each in (item, other, item))
    exempt.broker.state.do_not_exercise.add(("acct-000001", "O:AVLN250117C00105000"))

    assert end_state(usual) == end_state(longer) == end_state(exempt)  # as they are recorded

    whole, *others = (end_state(each, whole=True) for each in (usual, longer, exempt))
    assert [differing_parts(state, whole) for state in others] == [("sessions",), ("positions",)]


def test_an_end_state_that_the_calls_do_not_lead_to_is_found() -> None:
    task = task_of("qfinzero_calling_live")
    record = sit(task, Perfect(calling_items(), live=True), [1])[0]

    assert sample_set_of(task).score(1, record.answer) == record.scores

    with pytest.raises(InvariantError, match="calling-2"):
        sample_set_of(task).score(1, {**record.answer, "calls": []})


def test_an_answer_too_long_to_be_shown_is_not_passed_on() -> None:
    model = Scripted(
        [("upq_stock_minute", '{"tickers": "AVLN", "start": "2025-01-06", "end": "2025-01-06"}')]
    )
    record = one("qfinzero_calling_live", 0, model, max_answer_chars=1000)

    assert json.loads(model.tool_messages[0].content)["error"]["code"] == "too_large"
    assert (len(record.answer["calls"]), record.failures) == (1, {"too_large": 1})


# ---- what is asked


def test_prompt_names_instruments_listed_by_the_clock_and_no_later_ones() -> None:
    prices = small_prices()
    coming_ns = world().info.default_as_of_ns + 1
    coming = [
        SymbolRow("LATE", "stock", "Late Listing", "energy", coming_ns, has_options=True),
        SymbolRow("LTCX", "crypto", "Late Coin", "coins", coming_ns),
    ]
    dataset = replace(world(), prices=replace(prices, symbol_rows=[*prices.symbol_rows, *coming]))
    first, *_ = calling_items()
    items = [first, replace(first, as_of_ns=coming_ns)]
    config = config_of("qfinzero_calling")
    before, after = map(SuiteSamples(config, own_material(config, dataset, items)).sample, (0, 1))

    assert "AVLN (Avalon Systems)*, BRKT (Bracket Corp), CSTL (Castle Holdings)" in before.system
    assert "BTCX (Bitcoin X)" in before.system
    assert "what was listed after 2025-01-06T21:00:00Z is named with the clock" in before.system
    assert "LATE" not in before.system + before.user

    assert after.system == before.system
    assert (
        "\nListed since 2025-01-06T21:00:00Z: stocks LATE (Late Listing)*; coins LTCX (Late Coin).\n"
        in after.user
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_items_of_all_clocks_share_the_system_prompt_and_the_tools(variant: str) -> None:
    """Prompt caches of providers keep what requests have in common from their beginning on."""
    items = planning_items() if "planning" in variant else calling_items()
    movable = next(item for item in items if not item.setup)
    later = replace(movable, as_of_ns=movable.as_of_ns + 60 * SECOND)
    config = config_of(variant)
    sample_set = SuiteSamples(config, own_material(config, world(), [*items, later]))
    samples = [sample_set.sample(number) for number in range(len(sample_set))]

    assert len({sample.user.partition("\n")[0] for sample in samples}) == 2  # clocks
    assert len({sample.system for sample in samples}) == 1
    assert len({dumps_canonical(sample.form.parameters) for sample in samples}) == 1
    assert "The clock stands at" not in samples[0].system


# of the convention on daylight saving time, which no item asks for
NO_ANSWERS = {"2024-11-03", "2025-03-08", "2025-03-09"}
COPYABLE = re.compile(
    r"\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}Z|(?:acct|sess|ord)-\w*\d\w*|O:[A-Z]+\d{6}[CP]\d{8}"
)


@pytest.mark.parametrize("text", [tools_text(), *PROMPTS.values()], ids=["tools", *PROMPTS])
def test_no_prompt_shows_a_moment_a_ticker_or_an_id_to_copy(text: str) -> None:
    tickers = [row.symbol for row in small_prices().symbol_rows]

    assert set(COPYABLE.findall(text)) <= NO_ANSWERS
    assert [ticker for ticker in tickers if ticker in text] == []


def test_the_prompt_names_the_weekdays_without_a_session_around_the_clocks() -> None:
    """Clock 2025-01-06; the market's first day is later than 90 days before."""
    info = replace(world().info, first_day=date(2024, 11, 29), last_day=date(2025, 12, 31))
    system = (
        sample_set_of(task_of("qfinzero_calling", dataset=replace(world(), info=info)))
        .sample(0)
        .system
    )

    assert (
        "The exchange is closed at weekends and on 2024-12-25, 2025-01-01, 2025-01-09, 2025-01-20,"
        " 2025-02-17. " in system
    )

    brief = replace(info, first_day=date(2025, 1, 2), last_day=date(2025, 1, 8))
    system = (
        sample_set_of(task_of("qfinzero_calling", dataset=replace(world(), info=brief)))
        .sample(0)
        .system
    )

    assert "The exchange is closed at weekends. " in system


def test_the_tools_in_text_tell_no_limits_of_length_and_the_cursor_once() -> None:
    text = tools_text()
    for word in ("minLength", "maxLength", "maxItems", '"pattern"', "additionalProperties"):
        assert word not in text

    assert text.count('"cursor"') == 1
    assert '"cursor"' in text.partition("## ESP.events.stream\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", [operation.name for operation in catalogue().operations])
def test_the_tools_in_text_have_the_arguments_of_their_operation(name: str) -> None:
    operation = catalogue().find(name)
    section = tools_text().partition(f"## {name}\n")[2].partition("\n## ")[0]
    schema = json.loads(section.partition("Arguments: ")[2])

    assert set(schema["properties"]) | {"cursor"} == set(operation.properties) | {"cursor"}
    assert schema["required"] == list(operation.required)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        ("2025-03-07T21:00:00Z", "Friday, 2025-03-07, 4:00 p.m."),
        ("2025-03-10T20:00:00Z", "Monday, 2025-03-10, 4:00 p.m."),
        ("2025-03-10T02:05:00Z", "Sunday, 2025-03-09, 10:05 p.m."),
    ],
)
def test_the_clock_is_shown_in_utc_and_new_york_time(moment: str, words: str) -> None:
    assert clock_words(at(moment)) == f"{moment}, which is {words} in New York"


def test_question_states_session_ids_and_terms_but_not_its_holdings() -> None:
    sample_set = sample_set_of(task_of("qfinzero_calling"))
    assert (
        sample_set.sample(0).user
        == "The clock stands at 2025-01-06T21:00:00Z, which is Monday, 2025-01-06, 4:00 p.m. in New"
        " York.\nThere is no account and no session.\n\nInstruction: Daily bars of AVLN of"
        " January 2 and 3, 2025."
    )
    assert (
        "There is an account, acct-000001, with a session, sess-000001. The session has ticks of"
        " one trading day, ends at 2025-01-29T21:00:00Z, and trades AVLN, BRKT."
        in sample_set.sample(1).user
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_only_text_describes_the_tools_and_only_native_offers_them(variant: str) -> None:
    sample = sample_set_of(task_of(variant)).sample(0)
    operations = catalogue().operations
    described = [each.name for each in operations if f"## {each.name}\n" in sample.system]
    offered = [] if sample.environment is None else [tool.name for tool in sample.environment.tools]
    is_text = variant.endswith("_text")

    assert described == ([each.name for each in operations] if is_text else [])
    assert offered == ([] if is_text else [each.wire_name for each in operations])
    assert ("calls" in sample.form.parameters["properties"]) == is_text
    assert ("<from_step_N>" in sample.system) == ("live" not in variant)


def test_facts_hold_the_expected_calls_in_the_public_format() -> None:
    facts = sample_set_of(task_of("qfinzero_calling")).sample(1).facts
    assert facts["task"] == task_to_row(calling_items()[1].task)
    assert (facts["category"], facts["difficulty"], facts["template"], facts["refusal"]) == (
        "order",
        "easy",
        "order",
        False,
    )
    assert facts["as_of"] == "2025-01-06T21:00:00Z"


def test_item_subset_is_evenly_spaced_and_the_description_pins_its_content() -> None:
    sample_set = sample_set_of(task_of("qfinzero_calling", items=2))
    assert [sample_set.sample(number).id for number in range(len(sample_set))] == [
        "calling-1",
        "calling-3",
    ]
    assert len(sample_set_of(task_of("qfinzero_calling", items=99))) == 4

    task = task_of("qfinzero_calling")
    of_seed_0, of_seed_1 = (sample_set_of(task, seed=seed) for seed in (0, 1))

    for number in range(4):
        assert of_seed_0.sample(number).user == of_seed_1.sample(number).user

    described = task.describe()

    assert described["material"]["dataset"]["content_id"] == world().info.content_id
    assert described["material"]["questions"]["count"] == 4
    assert set(described["service_tools"]) == {each.name for each in catalogue().operations}

    changed = replace(calling_items()[0], as_of_ns=calling_items()[0].as_of_ns + 1)
    other = task_of("qfinzero_calling", [changed, *calling_items()[1:]]).describe()

    assert other["material"]["questions"]["sha256"] != described["material"]["questions"]["sha256"]


# ---- configs


@on_each_row(
    "variant, changes, message",
    ("qfinzero_calling_text", {"execution": "live"}, "submitted as text are not made"),
    ("qfinzero_calling_live", {"tasks_file": "tasks.jsonl"}, "can't be made"),
    ("qfinzero_calling", {"rules": "own"}, "expected one of paper, reference"),
    (
        "qfinzero_calling",
        {"windows": {"Q1": {"first": "2025-01-02", "last": "2025-03-31"}}},
        "unknown field 'windows'",
    ),
    ("qfinzero_calling", {"mask": "bright"}, "unknown field 'mask'"),
)
def test_a_config_that_makes_no_sense_is_refused(
    variant: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config_of(variant, **changes)


# ---- tasks of a file


def public_file(folder: Path) -> Path:
    """Three tasks in the public format: a query, an order by the run's ids, and one to refuse."""
    order = GoldCall(
        "PMB.order.place",
        "/v1/orders",
        "POST",
        {"session_id": "{session_id}", "order": {"side": "BUY", "qty": 5}},
    )
    golds = (
        (BARS, "Daily bars of KO."),
        (order, "Buy 5 in {session_id}."),
        (GoldCall("REFUSE"), "Stream KO live."),
    )
    tasks = [
        GoldTask(f"p-{number}", "calling", "c", "easy", text, (gold,))
        for number, (gold, text) in enumerate(golds, 1)
    ]
    path = folder / "tasks.jsonl"
    path.write_text("".join(json.dumps(task_to_row(one)) + "\n" for one in tasks))

    return path


def file_task(variant: str, path: Path) -> SuiteTask:
    return SuiteTask(variant, config_of(variant, tasks_file=str(path)))


def test_tasks_from_a_file_have_no_clock_and_are_scored_by_both_rule_sets(
    tmp_path: Path,
) -> None:
    task = file_task("qfinzero_calling_text", public_file(tmp_path))
    sample_set = sample_set_of(task)

    assert [sample_set.sample(number).id for number in range(len(sample_set))] == [
        "p-1",
        "p-2",
        "p-3",
    ]
    assert sample_set.sample(1).user == "Instruction: Buy 5 in sess-dryrun-2025."
    assert "The clock stands at" not in sample_set.sample(0).system
    assert sample_set.sample(0).facts["as_of"] is None

    order = {
        "tool": "PMB.order.place",
        "arguments": {"session_id": "sess-dryrun-2025", "order": {"side": "BUY", "qty": "5"}},
    }
    record = sit(task, Scripted(written=[order]), [1])[0]

    # the id takes no part, and "5" is no number
    assert record.scores["paper_pa"] == pytest.approx(1 / 2)
    # the id is compared as it stands, "5" is 5
    assert record.scores["reference_pa"] == pytest.approx((0 + 1) / 2)

    described = task.describe()  # a file is named by its hash and not by its path
    assert described["tasks_file"] == described["material"]["tasks_file"]["name"] == "tasks.jsonl"
    assert len(described["material"]["tasks_file"]["sha256"]) == 64
    assert str(tmp_path) not in json.dumps(described)


def test_a_file_of_the_other_suite_or_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="p-1 is of the calling suite"):
        sample_set_of(file_task("qfinzero_planning", public_file(tmp_path)))

    with pytest.raises(DataError, match="can't read samples"):
        sample_set_of(file_task("qfinzero_planning", tmp_path / "none.jsonl"))


# ---- many answers


class Mumbler:
    """Submits something that is no answer."""

    def reply(self, request: Any) -> Any:
        return (
            Scripted().reply(request)
            if request.tool_choice is None
            else Scripted(status="perhaps").reply(request)
        )


def test_invalid_submission_is_the_models_failure_but_a_failed_call_is_not() -> None:
    task = task_of("qfinzero_calling_live")
    right = sit(task, Perfect(calling_items(), live=True))
    mumbled = sit(task, Mumbler(), [0])[0]

    assert (mumbled.provenance, mumbled.scores) == ("fallback", {})

    failed = structs.replace(right[1], provenance="error", answer=None, scores={})
    summary = task.summarise([mumbled, failed, *right[2:]])
    values = {
        name: summary[name].value
        for name in (*METRICS, "end_state_match", "call_precision", "unanswered")
    }
    shares = {
        **dict.fromkeys(("tm", "pa", "ta", "end_state_match"), 2 / 3),
        "call_precision": 0.5,
        "unanswered": 0.5,
    }

    assert values == pytest.approx({"overall": 200 / 3, **shares})
    assert summary["overall"].detail["failure_modes"] == {"no_submission": 1}
    assert summary["overall"].detail["other_rules"]["overall"] == pytest.approx(200 / 3)

    counted = {"count": 2, "by_provenance": {"error": 1, "fallback": 1}}
    assert summary["unanswered"].detail == counted

    # two of three right, of four with one that failed: between a half and three quarters
    bounds = {"n": 4, "missing": 1}
    of_overall = summary["overall"].detail["with_failed_calls"]

    assert of_overall == {**bounds, "low": pytest.approx(50), "high": pytest.approx(75)}

    of_exact = summary["exact"].detail["with_failed_calls"]
    assert of_exact == {**bounds, "low": pytest.approx(0.5), "high": pytest.approx(0.75)}
    assert summary["overall"].detail["by_difficulty"]["easy"]["n"] == 1


def test_scores_are_none_with_a_reason_where_there_is_nothing_to_score() -> None:
    task = task_of("qfinzero_calling_live")
    failed = structs.replace(
        sit(task, Silent(), [0])[0], provenance="error", answer=None, scores={}
    )
    summary = task.summarise([failed])

    assert all(
        score.value is None and score.reason
        for name, score in summary.items()
        if name != "unanswered"
    )
    assert summary["unanswered"].value == 1.0


@pytest.mark.parametrize("variant", ["qfinzero_planning", "qfinzero_calling"])
def test_both_rule_sets_are_scored_and_one_is_the_headline(variant: str) -> None:
    """The public rules let one call serve two steps, and give TA where a step has no time: the
    paper's rules do not.
    """
    paper, reference = (task_of(variant, rules=rules) for rules in ("paper", "reference"))
    records = sit(paper, Scripted([("pmb_order_get", '{"order_id": "ord-000009"}')]))

    for name in METRICS:
        ours = paper.summarise(records)[name]
        theirs = reference.summarise(records)[name]
        other = theirs.detail["other_rules"]
        assert ours.value == pytest.approx(other[name if name == "overall" else "value"])

    assert reference.summarise(records)["ta"].value > paper.summarise(records)["ta"].value


def test_an_interval_of_means_is_resampled_over_items() -> None:
    """About 1.96 standard errors to either side, for many items; the same at each call; answers to
    one item count as one.
    """
    chance = np.random.default_rng(5)
    marks = chance.uniform(0, 1, 400)
    points = [(f"item {index}", float(mark)) for index, mark in enumerate(marks)]

    # of shares, Wilson's
    assert interval_of("tm", [("a", 1.0), ("b", 0.0), ("c", 1.0), ("d", 0.0)]) == wilson(2, 4, 0.95)

    interval = interval_of("tm", points)
    reach = 1.96 * marks.std() / np.sqrt(400)

    assert (interval.low, interval.high) == pytest.approx(
        (marks.mean() - reach, marks.mean() + reach), abs=0.1 * reach
    )
    assert interval == interval_of("tm", points)
    repeated = interval_of("tm", points * 3)
    assert (repeated.n, repeated.low, repeated.high) == pytest.approx(
        (400, interval.low, interval.high)
    )
    assert interval_of("tm", [("a", 0.5), ("a", 0.25)]).reason == "an interval takes 5 items"
