"""State of a day: what it holds is what the prompt shows, under every mask, and nothing else; and a
model's request has the state that its messages show.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from ktdeval.errors import PluginError
from ktdeval.harness import (
    CallParams,
    Decision,
    HarnessConfig,
    Lesson,
    Message,
    ModelRequest,
    Observation,
    Reply,
)
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.masking import AssetRef, DayRef, OwnFigure, Price, Shares, table
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.observation import ObservedState, observe, state_of_values
from ktdeval.registry import load_plugins
from ktdeval.testing import small_market, step_record
from ktdeval.trading.types import Account, Position
from support.figures.metric_cases import order
from support.json_places import texts_in
from support.masking.masking_market import BASE_ROW, CODES, guard_of, lens_of
from support.tasks.ktdfin_market import spec_of
from support.tasks.ktdfin_play import Scripted

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")
MARKET = small_market()
PLUGINS = load_plugins()
ACCOUNT = Account(50_000_000, {4: Position(1200, 100), 0: Position(700)})
RECORD = step_record(
    MARKET,
    2,
    300,
    orders=[
        order(MARKET.codes[4], filled=1200, price_ticks=123_400, fee_minor=740),
        order(None, filled=0, stock_id="600519", target_weight=None, shares=100, rule="universe"),
    ],
)


def ktdfin(mask: str, mode: str) -> tuple[Any, Observation]:
    """Scene and observation of a step with positions and orders."""
    name = f"{mask}_{mode}"
    task = PLUGINS.make_task(name)
    scene = task.scene(spec_of(name, task.mask, task.mode, 0), MARKET)
    view = MARKET.as_of(scene.lens.base_row + 3)

    return scene, scene.observe(3, view, ACCOUNT, RECORD)


def entries_of(state: ObservedState) -> list[Any]:
    """All that an agent can read, as plain values."""
    entries = [
        state.account,
        state.limits,
        *state.positions.values(),
        *state.candidates.values(),
        *state.assets.values(),
        *state.documents,
        *state.last_orders,
        *state.outcomes.values(),
        *chain.from_iterable(state.history.values()),
    ]
    labels = [state.day, *state.universe, *state.prices, *state.history]
    fields = []

    for entry in entries:
        fields.append([getattr(entry, name) for name in entry.__slots__])

    return [state.values, fields, labels]


def without_limits(state: ObservedState) -> ObservedState:
    """The state without its limits, which the prompt has in the words of the rules."""
    return ObservedState({
        name: text for name, text in state.sections.items() if name != "constraints"
    })  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mask", MASKS)
def test_a_state_is_the_json_block_of_its_prompt_and_names_nothing_hidden(
    mask: str, mode: str
) -> None:
    scene, observation = ktdfin(mask, mode)
    state = observation.state

    assert state is not None
    assert f"```json\n{state.text}\n```" in observation.user
    assert state.limits.max_positions == 20

    state = without_limits(state)
    assert state.values == json.loads(state.text)

    guard = LeakGuard(scene.lens, MARKET)
    shown = list(texts_in(entries_of(state)))

    assert len(shown) > 50

    for text in shown:
        guard.check(text, "a text of the state")
        assert text in observation.user

    hidden = {"stock_blind", "blinded"} & {mask}
    codes = set(MARKET.codes)

    assert bool(codes & set(shown)) == (not hidden)


# ---- what a state holds


def test_the_same_numbers_are_in_the_prompt_and_in_the_state() -> None:
    lens = lens_of("blinded")
    state = observe(
        lens,
        {
            "day": DayRef(BASE_ROW),
            "account": {"cash": OwnFigure(1234567.891), "nav": OwnFigure(0.1234567)},
            "candidates": table(
                ("stock_id", "close", "volume"),
                [(AssetRef(1), Price(1, 12.3456789, BASE_ROW), Shares(1, 7654321.0))],
            ),
        },
    )

    assert state.text == (
        '{"day":"day_+0","account":{"cash":1234570.0,"nav":0.12346},"candidates":{"columns":'
        f'["stock_id","close","volume"],"rows":[["{lens.asset_handle(1)}",12.3457,7.654321e6]]}}}}'
    )
    assert (state.account.cash, state.account.nav) == (1_234_570.0, 0.12346)
    assert dict(state.prices) == {lens.asset_handle(1): 12.3457}


def test_entries_read_both_money_spellings_and_are_empty_without_a_section() -> None:
    state = state_of_values(
        {
            "account": {"nav_cny": 100.0, "cash_cny": 40.0, "cash_weight": 0.4},
            "constraints": {"max_positions": 3, "hold": "keep"},
            "positions": {
                "columns": ["stock_id", "shares", "last_close_cny", "weight", "status"],
                "rows": [["b", 10, 6.0, 0.6, "suspended"]],
            },
            "candidates": {
                "columns": ["stock_id", "close_cny", "status"],
                "rows": [["a", 2.0, "trading"], ["b", None, "trading"]],
            },
        }
    )

    assert (state.account.nav, state.account.cash) == (100.0, 40.0)
    assert (state.limits.max_positions, state.limits.asks_decisions) == (3, True)
    assert list(state.assets) == ["a", "b"]
    assert state.assets["b"].status == "trading"  # a candidate's cells count
    assert state.assets["b"].figure("weight") == 0.6
    assert dict(state.prices) == {"a": 2.0, "b": 6.0}

    nothing = ObservedState({})
    assert (nothing.text, nothing.day, nothing.account.nav) == ("{}", "", None)
    assert not nothing.assets
    assert not nothing.documents
    assert not nothing.history


# ---- what a model is given


STATE = state_of_values({"day": "day_+0", "account": {}, "positions": {}, "constraints": {}})
NARROWER = state_of_values({"day": "day_+0", "account": {}})
LESSON = state_of_values({"day": "day_-1", "outcomes": {}})


class Asking:
    """Agent that asks as it is told to, and holds."""

    def __init__(self, *requests: ModelRequest, learns: bool = False) -> None:
        self.requests = requests
        self.learns = learns

    def decide(self, observation: Observation, session: Any, memory: Any) -> Decision:
        assert len(session.lessons) == 1 if self.learns else True
        for request in self.requests:
            session.ask(request)

        return Decision((), "fallback", memory=memory)


def states_sent(agent: Asking) -> list[ObservedState | None]:
    """States of the requests that reach the model."""
    lens = lens_of("blinded")
    model = Scripted(*(Reply("a") for _ in agent.requests))
    parts = SessionParts(
        model,
        lens,
        guard_of("blinded"),
        (),
        ActionForm(HarnessConfig(), lens),
        HarnessConfig(),
        CallParams(),
        1,
    )
    session = GuardedSession(parts, 0, None, teach=lambda: [Lesson("day_-1", LESSON.text, LESSON)])
    observation = Observation(0, "You trade.", f"```json\n{STATE.text}\n```", STATE)
    session.decide(agent, observation, None)

    return [request.state for request in model.requests]


def says(*texts: str, state: ObservedState | None = None) -> ModelRequest:
    return ModelRequest(tuple(Message("user", text) for text in texts), state=state)


def test_a_request_has_the_state_that_its_latest_message_with_one_shows() -> None:
    prompt = f"Today:\n```json\n{STATE.text}\n```"
    requests = (
        says(prompt, "Decide now."),
        says("What do you think of the market?"),
        says(f"{NARROWER.text} is all", state=NARROWER),
        says("Nothing of this is shown.", state=NARROWER),
        says(prompt, LESSON.text),
    )

    assert states_sent(Asking(*requests, learns=True)) == [STATE, None, NARROWER, None, LESSON]
    # lessons are not put into words for an agent that doesn't ask for them
    assert states_sent(Asking(says(LESSON.text))) == [None]


def test_a_state_that_the_prompt_does_not_show_is_refused() -> None:
    lens = lens_of("blinded")
    parts = SessionParts(
        Scripted(),
        lens,
        guard_of("blinded"),
        (),
        ActionForm(HarnessConfig(), lens),
        HarnessConfig(),
        CallParams(),
        1,
    )
    hidden = state_of_values({"candidates": {"columns": ["stock_id"], "rows": [[CODES[0]]]}})
    observation = Observation(0, "You trade.", "Decide.", hidden)

    with pytest.raises(PluginError, match="must be what its prompt shows"):
        GuardedSession(parts, 0, None).decide(Asking(), observation, None)

    # without a state, an agent sees the prompt and nothing else
    GuardedSession(parts, 0, None).decide(Asking(), replace(observation, state=None), None)
