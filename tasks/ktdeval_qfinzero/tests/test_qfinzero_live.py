"""A question that calls answer: a turn of a chat and a traded session are put, recorded and counted
by the same code, each with its own words.
"""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError, InvariantError, StoreError
from ktdeval.task_api import Sample
from ktdeval.testing import on_each_row
from ktdeval_qfinzero.chat.question import turn_question
from ktdeval_qfinzero.chat.task import ChatTask
from ktdeval_qfinzero.live.tool_use_config import LiveConfig
from ktdeval_qfinzero.live.tool_use_question import LiveSamples
from ktdeval_qfinzero.session.trading_question import session_question
from ktdeval_qfinzero.session.trading_task import SessionTask
from support.qfinzero.qfinzero_calls import DATASET
from support.tables import beside

AS_OF = "2025-01-06T21:00:00Z"
CHAT = beside(__file__)["chat"]
SESSION = beside(__file__)["session"]


def config(**fields: Any) -> LiveConfig:
    return LiveConfig.load({"family": "live", "version": "1", **fields}, "task")


def chat(**fields: Any) -> LiveSamples:
    return LiveSamples("chat", turn_question(config(conversation=CHAT, **fields)), DATASET)


def session() -> LiveSamples:
    return LiveSamples("session", session_question(config(session=SESSION)), DATASET)


def called(sample: Sample, name: str, **arguments: Any) -> Any:
    """What a tool of a sample answers."""
    environment: Any = sample.environment
    (tool,) = [each for each in environment.tools if each.name == name]
    return tool.function(environment, arguments)


# ---- how it is put


def test_chat_turn_retells_earlier_turns_and_ends_with_the_users_text() -> None:
    sample = chat(most_past_chars=100).sample(0)

    assert sample.user == snapshot("""\
# The user wrote

Open an account.

You called PMB.account.create {"initial_cash":5000}
→ {"account":{"account_id":"acct-000001","account_type":"MARGIN","base_currency":"USD","borrow_fees":0 … (cut)

# You answered

Done.

# The user wrote

Hm.

# You answered

(nothing)

# Now

The clock stands at 2025-01-06T21:00:00Z, which is Monday, 2025-01-06, 4:00 p.m. in New York.

And now?\
""")
    assert "An invented market on the calendar XNYS, in USD." in sample.system
    assert "AVLN (" in sample.system
    assert (sample.id, sample.text_field) == ("turn", "answer")
    assert sample.facts == {"turn": 3, "as_of": AS_OF}


def test_a_session_names_its_money_stocks_days_and_calls() -> None:
    sample = session().sample(0)

    assert sample.user == snapshot("""\
The clock stands at 2025-01-06T21:00:00Z, which is Monday, 2025-01-06, 4:00 p.m. in New York.

1. Open one account with 50,000.00 dollars.
2. Begin one session of frequency 1d on the stocks AVLN, BRKT, and no options. End it no earlier than 3 trading days from now.
3. Trade these stocks for 3 trading days: step the session by so many days, neither fewer nor more. Make as much of the money as you can, at as little risk.
4. Then call finish_session.\
""")
    assert sample.system.endswith("- You have 200 calls.")
    assert (sample.id, sample.text_field) == ("session", "")
    assert sample.facts == {"as_of": AS_OF, "stocks": ["AVLN", "BRKT"], "days": 3, "cash": 50_000.0}


def test_a_turns_calls_find_what_the_turns_before_have_left() -> None:
    answer = called(chat().sample(0), "pmb_account_get", account_id="acct-000001")
    assert answer.value["account"]["cash"] == 5000.0
    refusal = called(session().sample(0), "pmb_account_get", account_id="acct-000001")
    assert refusal.failure == "not_found"


# ---- what is recorded and counted


@pytest.mark.parametrize(
    ("samples", "field", "counts"),
    [
        (chat(), "answer", {"calls": 2, "accepted": 1}),
        (
            session(),
            "summary",
            {"calls": 2, "accepted": 1, "trades": 0, "days": 0}
            | {"problem": "1 accounts and 0 sessions, not one of each"}
            | dict.fromkeys(("total_return", "sharpe", "max_drawdown")),
        ),
    ],
    ids=["chat", "session"],
)
def test_live_calls_are_recorded_with_text_and_state_and_replayed_to_score(
    samples: LiveSamples, field: str, counts: dict[str, Any]
) -> None:
    sample = samples.sample(0)
    called(sample, "pmb_account_create", initial_cash=50_000)
    called(sample, "pmb_account_get", account_id="acct-000009")
    environment: Any = sample.environment
    answer = environment.complete_answer({field: "Half \ud800 done"})

    assert answer[field] == "Half ? done"
    assert [call["tool"] for call in answer["calls"]] == ["PMB.account.create", "PMB.account.get"]
    assert samples.score(0, answer) == counts

    with pytest.raises(InvariantError, match="leave another state than the recorded one"):
        samples.score(0, {**answer, "calls": []})


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"calls": [], "end_state": {}}, "field 'answer' is missing"),
        ({"answer": "", "summary": "", "calls": [], "end_state": {}}, "unknown field 'summary'"),
    ],
)
def test_an_answer_of_another_form_is_refused(answer: dict[str, Any], problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        chat().score(0, answer)


# ---- config


@on_each_row(
    "fields, limits",
    (
        {
            "conversation": {
                "as_of": "2025-01-06T21:00:00Z",
                "instruction": "And now?",
                "content_id": "0000000000000000000000000000000000000000000000000000000000000000",
                "turns": [
                    {
                        "instruction": "Open an account.",
                        "answer": "Done.",
                        "calls": [
                            {"tool": "PMB.account.create", "arguments": {"initial_cash": 5000}}
                        ],
                    },
                    {"instruction": "Hm.", "answer": ""},
                ],
            }
        },
        [20000, 4000, 24],
    ),
    (
        {
            "session": {
                "as_of": "2025-01-06T21:00:00Z",
                "stocks": ["AVLN", "BRKT"],
                "days": 3,
                "cash": 50000.0,
            }
        },
        [100_000, None, 200],
    ),
    (
        {
            "session": {
                "as_of": "2025-01-06T21:00:00Z",
                "stocks": ["AVLN", "BRKT"],
                "days": 3,
                "cash": 50000.0,
            },
            "harness": {"max_tool_calls": 9},
        },
        [100_000, None, 9],
    ),
    (
        {
            "conversation": {
                "as_of": "2025-01-06T21:00:00Z",
                "instruction": "And now?",
                "content_id": "0000000000000000000000000000000000000000000000000000000000000000",
                "turns": [
                    {
                        "instruction": "Open an account.",
                        "answer": "Done.",
                        "calls": [
                            {"tool": "PMB.account.create", "arguments": {"initial_cash": 5000}}
                        ],
                    },
                    {"instruction": "Hm.", "answer": ""},
                ],
            },
            "rules": "paper",
            "items_seed": 3,
        },
        [20000, 4000, 24],
    ),
)
def test_each_kind_has_usual_limits_and_none_of_the_suites_fields(
    fields: dict[str, Any], limits: list[int | None]
) -> None:
    loaded = config(**fields)
    calls = loaded.harness.max_tool_calls
    assert [loaded.max_answer_chars, loaded.most_past_chars, calls] == limits


@on_each_row(
    "fields, problem",
    (
        {
            "conversation": {
                "as_of": "2025-01-06T21:00:00Z",
                "instruction": "And now?",
                "content_id": "0000000000000000000000000000000000000000000000000000000000000000",
                "turns": [
                    {
                        "instruction": "Open an account.",
                        "answer": "Done.",
                        "calls": [
                            {"tool": "PMB.account.create", "arguments": {"initial_cash": 5000}}
                        ],
                    },
                    {"instruction": "Hm.", "answer": ""},
                ],
            },
            "session": {
                "as_of": "2025-01-06T21:00:00Z",
                "stocks": ["AVLN", "BRKT"],
                "days": 3,
                "cash": 50000.0,
            },
        },
        "conversation, session: give one of the two",
    ),
    ({"session": None}, "conversation, session: give one of the two"),
    (
        {
            "session": {
                "as_of": "2025-01-06T21:00:00Z",
                "stocks": ["AVLN", "BRKT"],
                "days": 3,
                "cash": 50000.0,
            },
            "most_past_chars": 500,
        },
        "most_past_chars: a session has no turns; leave it out",
    ),
    (
        {"session": {"as_of": "2025-01-06T21:00:00Z", "stocks": ["AVLN", "AVLN"]}},
        "session.stocks: name at least one stock, each once",
    ),
    (
        {"session": {"as_of": "2025-01-06T21:00:00Z", "stocks": []}},
        "session.stocks: name at least one stock, each once",
    ),
    (
        {
            "session": {
                "as_of": "2025-01-06T21:00:00Z",
                "stocks": ["AVLN", "BRKT"],
                "days": 3,
                "cash": 50000.0,
            },
            "rule": "paper",
        },
        "unknown field 'rule'",
    ),
)
def test_a_config_that_asks_no_one_question_is_refused(
    fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=f"task: {problem}"):
        config(**fields)


@pytest.mark.parametrize(
    ("task", "kept"),
    [
        (ChatTask("chat", config(conversation=CHAT)), {"conversation", "most_past_chars"}),
        (SessionTask("session", config(session=SESSION)), {"session", "dataset"}),
    ],
    ids=["chat", "session"],
)
def test_a_task_describes_only_its_own_kind_of_question(task: Any, kept: set[str]) -> None:
    task.__dict__["dataset"] = DATASET
    described = task.describe()
    of_kinds = {"conversation", "most_past_chars", "session", "dataset"}

    assert described.keys() & of_kinds == kept
    assert "data" not in described.get("conversation", {})
