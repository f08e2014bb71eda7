"""The mask under arbitrary input: whatever a model writes, handles mean what they meant, and
nothing hidden comes back.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolCall
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.masking.text_normalisation import normalise
from ktdeval.registry import load_plugins
from ktdeval.testing import not_empty, small_market
from support.accept.accept_leaks import Scanner
from support.tasks.ktdfin_play import Play, Scripted

pytestmark = pytest.mark.slow

MASKS = ("stock_blind", "date_blind", "blinded")
MARKET = small_market()
SCANNER = Scanner(MARKET)
TOOLS = (
    "get_market_context",
    "screen_candidates",
    "get_stock_snapshot",
    "compare_candidates",
    "portfolio_state",
    "risk_check",
)
NAMES = (
    "stock_id",
    "stock_ids",
    "lookback",
    "factors",
    "k",
    "dims",
    "target_weights",
    "orders",
    "side",
    "reason",
    "shares",
)


@cache
def play_of(mask: str) -> Play:
    return Play(load_plugins().make_task(f"{mask}_open_research"), Scripted(), MARKET)


def wide(text: str) -> str:
    """The same text in full-width characters, which fold to the plain ones."""
    return "".join(
        chr(ord(character) + 0xFEE0) if "!" <= character <= "~" else character for character in text
    )


def spoilt(text: str) -> str:
    """Look-alikes that do not fold to the plain text: Cyrillic letters in the place of Latin
    ones.
    """
    return text.replace("a", "а").replace("e", "е").replace("o", "о")


HANDLES = [f"asset_{number:04d}" for number in (0, 1, 2, 17, 48, 49, 9999)]
HANDLES += ["day_+0", "day_-5", "day_+999", "sector_01", "asset_1"]
IDENTITIES = [
    *MARKET.codes[:6],
    *MARKET.names[:4],
    *MARKET.industries[:2],
    *map(str, MARKET.days[[5, 100]]),
]
IDENTITIES += ["600519", "2024年3月1日"]
WORDS = st.one_of(
    st.sampled_from(
        HANDLES + IDENTITIES + ["MOM_12_1", "-RV_60", "return_1d_pct", "BUY", "no such thing", ""]
    ),
    st.sampled_from(HANDLES + IDENTITIES).map(wide),
    st.sampled_from(HANDLES + IDENTITIES).map(spoilt),
    st.sampled_from(HANDLES + IDENTITIES).map(lambda text: f" {text.upper()}\u200b"),
    st.text(max_size=12),
)
VALUES = st.recursive(
    st.one_of(
        WORDS,
        st.none(),
        st.booleans(),
        st.integers(-(10**20), 10**20),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.one_of(st.sampled_from(NAMES), WORDS), VALUES, max_size=5)


def leaks(mask: str, *texts: str) -> set[str]:
    lens = play_of(mask).scene.lens
    return SCANNER.leaks(texts, lens.hides_assets, lens.hides_dates)


def session_of(mask: str) -> tuple[GuardedSession, Scripted]:
    play = play_of(mask)
    model = Scripted(Reply("fine"), Reply("fine"))
    play.parts = replace(play.parts, model=model)
    return play.session(0)[1], model


@pytest.mark.exhaustive
@pytest.mark.parametrize("mask", MASKS)
@given(tool=st.one_of(st.sampled_from(TOOLS), WORDS), arguments=ARGUMENTS, value=VALUES)
@settings(max_examples=120, deadline=None)
def test_no_tool_request_returns_or_resends_anything_hidden(
    mask: str, tool: str, arguments: dict[str, Any], value: Any
) -> None:
    session, model = session_of(mask)
    call = ToolCall(f"call_{value!r}", tool, json.dumps(arguments))
    answer = session.call_tool(call)
    json.loads(answer.text)

    assert leaks(mask, answer.text) == set()

    history = Message("assistant", json.dumps(value, ensure_ascii=False), (call,))
    session.ask(
        ModelRequest((history, Message("tool", answer.text, tool_call_id=call.id)), session.tools)
    )
    sent = model.requests[0].messages

    assert (
        leaks(mask, *(json.dumps(message.to_json(), ensure_ascii=False) for message in sent))
        == set()
    )


@pytest.mark.parametrize("mask", MASKS)
@given(
    submitted=st.one_of(
        ARGUMENTS,
        st.fixed_dictionaries({"orders": st.lists(ARGUMENTS, max_size=3), "overall_reason": WORDS}),
    )
)
@settings(max_examples=120, deadline=None)
def test_no_submission_gets_feedback_with_anything_hidden(
    mask: str, submitted: dict[str, Any]
) -> None:
    session, _ = session_of(mask)
    submission = session.parse_submission(json.dumps(submitted))

    assert (
        leaks(mask, submission.feedback, submission.overall_reason, *submission.stock_ids) == set()
    )


@pytest.mark.parametrize("mask", MASKS)
def test_a_tool_that_is_asked_for_a_handle_answers_of_the_asset_behind_it(mask: str) -> None:
    lens = play_of(mask).scene.lens
    for asset in not_empty(range(0, len(MARKET.codes), 7)):
        session, _ = session_of(mask)
        for spelling in (lens.asset_handle(asset), wide(lens.asset_handle(asset))):
            answer = session.call_tool(
                ToolCall(
                    "call_1",
                    "get_stock_snapshot",
                    json.dumps({"stock_id": spelling, "lookback": 1}),
                )
            )
            assert answer.failure is None
            shown = json.loads(answer.text)
            assert shown["stock_id"] == lens.asset_handle(asset)
            assert shown["board"] == str(MARKET.boards[asset])


@given(text=st.one_of(WORDS, st.text(max_size=30)))
@settings(max_examples=300, deadline=None)
def test_an_invalid_handle_is_not_an_asset_under_a_hiding_mask(text: str) -> None:
    lens = play_of("blinded").scene.lens
    asset = lens.parse_asset(text)
    assert asset is None or normalise(text).strip().lower() == lens.asset_handle(asset)
