"""Rows from hand-made steps: which steps become rows, in which format, and with which figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from export_steps import (
    ASKED,
    MARKET,
    SPEC,
    SUBMIT,
    SYSTEM,
    episode_of,
    model_call,
    traced,
)
from ktdeval.api import QATask
from ktdeval.errors import UsageError
from ktdeval.harness import Message, Reply, ToolCall, ToolSpec
from ktdeval.registry import load_plugins
from ktdeval.task_api import EpisodeSpec, ScoreDefinition, Window
from ktdeval.values import loads_strict
from ktdeval_export.conversations import conversations_of
from ktdeval_export.held_out_episodes import evaluation_use
from ktdeval_export.replayed_steps import TracedEpisode, TracedStep
from ktdeval_export.row_figures import (
    Measure,
    measure_of,
    value_of_episode,
    value_of_step,
)
from ktdeval_export.training_rows import (
    PreferencePairs,
    RowConversation,
    RowWriter,
    exclusion,
    lines_of,
    talk_of_episode,
    talks_of_step,
)
from support.figures.scoring_cases import record

BARS = ToolSpec("get_bars", "Shows bars.", {"type": "object"})
CALL = ToolCall("c1", "get_bars", '{"b": 1, "a": [2.5]}')


# ---- steps that are no rows


@pytest.mark.parametrize(
    ("fields", "without_retries", "with_retries"),
    [
        ({}, "", ""),
        ({"provenance": "error"}, "a model call failed", "a model call failed"),
        ({"failures": {"model_timeout": 1}}, "a model call failed", "a model call failed"),
        ({"provenance": "fallback"}, "no valid submission", "no valid submission"),
        (
            {"provenance": "elected"},
            "elected by several voters",
            "elected by several voters",
        ),
        (
            {"provenance": "model_after_retry"},
            "decided after retries or after a refused call",
            "",
        ),
        (
            {"failures": {"bad_arguments": 1}},
            "decided after retries or after a refused call",
            "",
        ),
    ],
)
def test_a_step_that_was_not_decided_at_once_is_no_row_for_a_stated_reason(
    fields: Mapping[str, Any], without_retries: str, with_retries: str
) -> None:
    step = traced(**fields)

    assert exclusion(step, with_retries=False) == without_retries
    assert exclusion(step, with_retries=True) == with_retries


def test_a_step_that_asked_no_model_is_no_row() -> None:
    step = replace(traced(), calls=())

    assert exclusion(step, with_retries=True) == "decided without a model call"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("I hold."), ""),
        (Reply(""), "a reply is empty"),
        (Reply(" \n"), "a reply is empty"),
        (Reply("", (CALL,)), ""),
        (Reply("I look.", (CALL,)), ""),
        (Reply("", (replace(CALL, arguments="[1]"),)), "arguments of a call are not a JSON object"),
        (Reply("", (replace(CALL, arguments="{"),)), "arguments of a call are not a JSON object"),
        (
            Reply("", (CALL, replace(CALL, arguments="1"))),
            "arguments of a call are not a JSON object",
        ),
    ],
)
def test_a_reply_that_a_trainer_can_not_read_is_no_row(reply: Reply, reason: str) -> None:
    assert exclusion(traced(0, model_call(reply)), with_retries=False) == reason


# ---- conversations


def test_calls_that_repeat_what_was_sent_before_form_one_conversation() -> None:
    asked = Message("assistant", "", (CALL,))
    told = Message("tool", "10.0", (), "c1")
    first = model_call(Reply("", (CALL,)), tools=(BARS, SUBMIT))
    second = model_call(Reply("I hold."), SYSTEM, ASKED, asked, told)

    (made,) = conversations_of([first, second])

    assert made.opening == (SYSTEM, ASKED)
    assert made.continuation == (asked, told, Message("assistant", "I hold."))
    assert made.tools == (SUBMIT,)
    assert made.role == ""


def test_a_call_continues_the_latest_conversation_that_it_repeats() -> None:
    first = model_call(Reply("One."))
    again = model_call(Reply("Two."))
    more = model_call(Reply("Three."), SYSTEM, ASKED, Message("assistant", "Two."), ASKED)

    made = conversations_of([first, again, more])

    assert [each.messages[-1].content for each in made] == ["One.", "Three."]


def test_an_episode_says_its_system_prompt_once_and_offers_all_tools() -> None:
    note = Message("system", "Dates are hidden.")
    tomorrow = Message("user", "And now?")
    steps = [
        traced(0, model_call(Reply("I hold."), SYSTEM, note, ASKED, tools=(BARS,))),
        traced(1, model_call(Reply("Still."), SYSTEM, note, tomorrow, tools=(BARS, SUBMIT))),
    ]

    talk = talk_of_episode(episode_of(*steps), 0.25)

    assert talk.opening == (SYSTEM, note, ASKED)
    assert talk.continuation == (
        Message("assistant", "I hold."),
        tomorrow,
        Message("assistant", "Still."),
    )
    assert talk.tools == (BARS, SUBMIT)
    assert (talk.steps, talk.role, talk.value) == ((0, 1), "", 0.25)


def test_steps_with_several_conversations_or_system_prompts_are_refused() -> None:
    several = traced(1, model_call(Reply("Yes.")), model_call(Reply("No."), role="critic"))
    renamed = traced(1, model_call(Reply("Yes."), Message("system", "You hold."), ASKED))

    with pytest.raises(UsageError, match="step 1: has 2 conversations, which can't be joined"):
        talk_of_episode(episode_of(traced(), several), None)

    with pytest.raises(UsageError, match="step 1: has another system prompt than step 0"):
        talk_of_episode(episode_of(traced(), renamed), None)


# ---- pairs


def talk(value: float | None, spec: EpisodeSpec = SPEC, **changes: Any) -> RowConversation:
    step = traced()
    (made,) = talks_of_step(episode_of(step, spec=spec), step, value)
    return replace(made, **changes)


def paired(
    one: RowConversation, other: RowConversation, better: Any = "higher"
) -> tuple[list[tuple[float | None, float | None]], dict[str, int]]:
    pairs = PreferencePairs(Measure("m", "m/1", better))
    pairs.form([one, other])
    formed = [(chosen.value, rejected.value) for chosen, rejected in pairs.formed]
    return formed, dict(pairs.counts)


@pytest.mark.parametrize(
    ("values", "better", "formed", "counts"),
    [
        ((0.2, 0.1), "higher", [(0.2, 0.1)], {}),
        ((0.1, 0.2), "higher", [(0.2, 0.1)], {}),
        ((0.2, 0.1), "lower", [(0.1, 0.2)], {}),
        ((0.1, 0.2), "lower", [(0.1, 0.2)], {}),
        ((0.1, 0.1), "higher", [], {"tied": 1}),
        ((None, 0.1), "higher", [], {"undefined": 1}),
        ((0.1, None), "higher", [], {"undefined": 1}),
        ((None, None), "higher", [], {"undefined": 1}),
    ],
)
def test_the_better_of_two_talks_is_chosen(
    values: tuple[float | None, float | None],
    better: str,
    formed: list[tuple[float, float]],
    counts: dict[str, int],
) -> None:
    assert paired(talk(values[0]), talk(values[1]), better) == (formed, counts)


@pytest.mark.parametrize("change", [{"opening": (SYSTEM,)}, {"tools": (BARS,)}])
def test_talks_that_were_shown_different_things_are_no_pair(change: dict[str, Any]) -> None:
    assert paired(talk(0.1), talk(0.2, **change)) == ([], {"another prompt": 1})


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC, task="blinded_memory_only"),
        replace(SPEC, task_hash="cd"),
        replace(SPEC, snapshot="other"),
        replace(SPEC, window=Window("W1", "2024-01-03", "2024-01-04")),
        replace(SPEC, window=Window("W1", "2024-01-02", "2024-01-05")),
        replace(SPEC, window=None),
        replace(SPEC, seed=1),
    ],
)
def test_talks_about_different_things_are_not_compared(other: EpisodeSpec) -> None:
    assert paired(talk(0.1), talk(0.2, spec=other)) == ([], {})


# ---- the form of rows


TALK = RowConversation(
    episode=episode_of(traced()),
    steps=(0,),
    role="",
    opening=(SYSTEM, ASKED),
    continuation=(
        Message("assistant", "I look.", (CALL,)),
        Message("tool", "10.0", (), "c1"),
        Message("assistant", "I hold."),
    ),
    tools=(BARS,),
)
OPENING_ROWS = [
    {"role": "system", "content": "You trade."},
    {"role": "user", "content": "What now?"},
]
TOOL_ROWS = [
    {
        "type": "function",
        "function": {
            "name": "get_bars",
            "description": "Shows bars.",
            "parameters": {"type": "object"},
        },
    }
]


def continued(arguments: Any, named: Mapping[str, str]) -> list[Any]:
    """The messages after the opening, in a dialect."""
    function = {"name": "get_bars", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}

    return [
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "content": "10.0", "tool_call_id": "c1", **named},
        {"role": "assistant", "content": "I hold."},
    ]


TRL_ROWS = continued({"b": 1, "a": [2.5]}, {"name": "get_bars"})
OPENAI_ROWS = continued('{"a":[2.5],"b":1}', {})


@pytest.mark.parametrize(
    ("dialect", "expected"), [("trl", TRL_ROWS), ("openai", OPENAI_ROWS)], ids=["trl", "openai"]
)
def test_a_chat_row_is_the_conversation_in_the_dialect(dialect: Any, expected: list[Any]) -> None:
    row = RowWriter(dialect).chat_row(TALK)

    assert row == {"messages": [*OPENING_ROWS, *expected], "tools": TOOL_ROWS}


def test_a_preference_row_has_the_opening_once() -> None:
    rejected = replace(TALK, continuation=(Message("assistant", "I sell."),))

    row = RowWriter("trl").preference_row(TALK, rejected)

    assert row == {
        "prompt": OPENING_ROWS,
        "chosen": TRL_ROWS,
        "rejected": [{"role": "assistant", "content": "I sell."}],
        "tools": TOOL_ROWS,
    }


def test_an_answer_to_no_call_has_an_empty_name() -> None:
    stray = replace(TALK, opening=(), continuation=(Message("tool", "?", (), "c9"),))

    assert RowWriter("trl").chat_row(stray)["messages"] == [
        {"role": "tool", "content": "?", "tool_call_id": "c9", "name": ""}
    ]


def test_rows_are_lines_of_compact_json_in_the_order_of_the_format() -> None:
    text = lines_of([{"role": "user", "content": "é"}, {"b": 1}])

    assert text == '{"role":"user","content":"é"}\n{"b":1}\n'
    assert [loads_strict(line) for line in text.splitlines()] == [
        {"role": "user", "content": "é"},
        {"b": 1},
    ]


# ---- figures


def test_the_return_of_a_step_is_from_the_nav_before_it() -> None:
    """NAV is CNY 1,000,000, then 1,100,000, 990,000, nothing, and 10."""
    navs = [110_000_000, 99_000_000, 0, 1_000]
    steps = [traced(step, nav_minor=nav) for step, nav in enumerate(navs)]
    episode = episode_of(*steps)
    measure = measure_of("step_return", episode, "step", load_plugins())

    values = [value_of_step(measure, step, episode) for step in steps]

    assert values[:3] == pytest.approx([0.1, -0.1, -1.0])
    assert values[3] is None
    assert measure == Measure(
        "step_return",
        "step_return/1: NAV at the close of the fill day / NAV before it - 1",
        "higher",
    )


def test_the_figure_of_an_episode_is_the_metrics() -> None:
    steps = [traced(0, nav_minor=110_000_000), traced(1, nav_minor=99_000_000)]
    episode = episode_of(*steps)
    plugins = load_plugins()
    total = measure_of("total_return", episode, "episode", plugins)
    fall = measure_of("max_drawdown", episode, "episode", plugins)

    assert (total.name, total.better) == ("total_return", "higher")
    assert (fall.name, fall.better) == ("max_drawdown", "lower")
    assert fall.formula == plugins.make_metric("max_drawdown").formula
    assert value_of_episode(total, episode, plugins) == pytest.approx(-0.01)
    assert value_of_episode(fall, episode, plugins) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("better", "expected"), [("higher", (True, False, False)), ("lower", (False, True, False))]
)
def test_a_better_value_lies_on_the_better_side(
    better: Any, expected: tuple[bool, bool, bool]
) -> None:
    measure = Measure("m", "m/1", better)

    compared = (
        measure.is_better(0.2, 0.1),
        measure.is_better(0.1, 0.2),
        measure.is_better(0.1, 0.1),
    )

    assert compared == expected


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "total_return",
            "step",
            "total_return: is not a figure of a trading step; step_return is. Other metrics are of an"
            " episode: add --rows episode",
        ),
        ("turnover", "episode", "turnover: has no better direction"),
    ],
)
def test_a_figure_that_can_not_choose_between_rows_is_refused(
    name: str, rows: Any, message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        measure_of(name, episode_of(traced()), rows, load_plugins())

    assert str(refused.value) == message


def definition(better: Any) -> ScoreDefinition:
    return ScoreDefinition("errors / words", "1", (0.0, 1.0), better, "a test")


QUESTIONS = QATask(
    [{"question": "Why?"}],
    lambda answer, sample: {"accuracy": 1.0, "errors": 0.0},
    name="todo",
    scores={"accuracy": definition("higher"), "errors": definition("lower")},
)


def answered(**scores: Any) -> TracedStep:
    return replace(traced(), record=record(0, scores=scores))


def questioned(*steps: TracedStep) -> TracedEpisode:
    spec = replace(SPEC, task="todo", snapshot=None, window=None)
    return episode_of(traced(), spec=spec, task=QUESTIONS, ledger=None, trace=lambda: steps)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [(True, 1.0), (False, 0.0), (0.25, 0.25), (2, 2.0), (None, None), ("good", None)],
)
def test_the_figure_of_a_question_is_its_recorded_score(
    recorded: Any, expected: float | None
) -> None:
    step = answered(accuracy=recorded)
    episode = questioned(step)

    measure = measure_of("accuracy", episode, "step", load_plugins())

    assert (measure.better, measure.formula) == ("higher", "errors / words")

    value = value_of_step(measure, step, episode)
    assert (value, type(value)) == (expected, type(expected))


def test_a_score_that_the_task_does_not_define_is_as_recorded() -> None:
    episode = questioned(answered(speed=0.5))

    measure = measure_of("speed", episode, "step", load_plugins())

    assert measure == Measure("speed", "speed, as recorded with each answer", "higher")


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        (
            "acuracy",
            "step",
            "acuracy: todo records no such score of a question",
        ),
        ("accuracy", "episode", "todo: its questions are independent; leave out --rows episode"),
    ],
)
def test_a_figure_that_no_question_has_is_refused(name: str, rows: Any, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        measure_of(name, questioned(answered(accuracy=1.0)), rows, load_plugins())

    assert str(refused.value).startswith(message)


# ---- episodes that serve evaluation


REAL = replace(MARKET, meta=replace(MARKET.meta, synthetic=False))


EVALUATES = "a window that blinded_open_research evaluates on"


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        ("2023-12-20", "2023-12-31", ""),
        ("2023-12-20", "2024-01-01", f"its days are in long, {EVALUATES}"),
        ("2026-04-10", "2026-04-20", f"its days are in W10, {EVALUATES}"),
        ("2026-04-11", "2026-04-20", ""),
    ],
)
def test_an_episode_is_evaluation_data_if_it_shares_a_day_with_a_window(
    first: str, last: str, expected: str
) -> None:
    """The first window begins on 2024-01-01, and the last ones end on 2026-04-10."""
    spec = replace(SPEC, window=Window("own", first, last))

    assert evaluation_use(episode_of(traced(), spec=spec, market=REAL)) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"market": None},
        {"market": MARKET},
        {"market": REAL, "spec": replace(SPEC, window=None)},
    ],
    ids=["no market", "synthetic", "no window"],
)
def test_days_of_no_real_market_are_no_evaluation_data(changes: dict[str, Any]) -> None:
    evaluated = episode_of(traced(), market=REAL)

    assert evaluation_use(evaluated) == f"its days are in long, {EVALUATES}"
    assert evaluation_use(replace(evaluated, **changes)) == ""


def test_questions_of_a_task_are_evaluation_data() -> None:
    used = evaluation_use(questioned(answered()))

    assert used == "its questions are those that todo evaluates with"
