"""A person's page in a real browser: what is shown, what its forms send, and that it asks nobody
else.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.harness import NO_TOOL, Message, ModelRequest, ToolCall, ToolSpec
from ktdeval.observation import state_of_values
from ktdeval_human.page import PageDesk
from ktdeval_human.person import Act, Called, PersonWords
from ktdeval_human.shown import show_request
from support.pages.browser_pages import (
    Reader,
    every_screen,
    is_shown,
    needs_browser,
    page_troubles,
    wait_until,
)

pytestmark = needs_browser

MARKUP = "<img src=x onerror=\"document.title='owned'\">"
REFUSED = ("Failed to load resource: the server responded with a status of 4",)
GONE = ("Failed to load resource: net::ERR",)
BARS = [[f"day_-{19 - day}", 10.0 + day % 7] for day in range(20)]
SNAPSHOT = ToolSpec(
    "snapshot",
    "One stock.",
    {
        "type": "object",
        "properties": {"stock_id": {"type": "string"}, "lookback": {"type": "integer"}},
        "required": ["stock_id"],
        "additionalProperties": False,
    },
)
SUBMIT = ToolSpec(
    "submit_action",
    "Submits.",
    {
        "type": "object",
        "properties": {
            "orders": {
                "type": "array",
                "description": "Orders for the next open.",
                "items": {
                    "type": "object",
                    "properties": {
                        "stock_id": {"type": "string"},
                        "side": {"type": "string", "enum": ["BUY", "SELL"]},
                        "target_weight": {"type": "number", "minimum": 0, "maximum": 0.1},
                        "reason": {"type": "string", "minLength": 5},
                    },
                    "required": ["stock_id", "side", "target_weight", "reason"],
                    "additionalProperties": False,
                },
            },
            "overall_reason": {"type": "string"},
        },
        "required": ["orders", "overall_reason"],
        "additionalProperties": False,
    },
)
STATE = state_of_values(
    {
        "day": "day_+3",
        "account": {"cash_cny": 12500},
        "candidates": {
            "columns": ["stock_id", "return_1d_pct", "news"],
            "rows": [["asset_7", 1.25, MARKUP], ["asset_8", -0.5, "none"]],
        },
    }
)
REQUEST = ModelRequest(
    (
        Message("system", "Hold at most 20 stocks."),
        Message("user", f"Day three.\n\n```json\n{STATE.text}\n```"),
    ),
    tools=(SNAPSHOT, SUBMIT),
    submit_tool="submit_action",
    step=3,
    total_steps=9,
    state=STATE,
)
HELD = state_of_values(
    {
        "day": "day_+3",
        "positions": {"columns": ["stock_id", "weight"], "rows": [["asset_9", 0.05]]},
        "candidates": STATE.values["candidates"],
        "last_step": {"orders": {"columns": ["stock_id", "side"], "rows": [["asset_9", "BUY"]]}},
    }
)
HOLDING = replace(REQUEST, state=HELD)
CHOOSING = ToolSpec(
    "compare",
    "Fields of stocks.",
    {
        "type": "object",
        "properties": {
            "fields": {
                "type": "array",
                "items": {"type": "string", "enum": ["price", "volume", "news"]},
            },
            "adjusted": {"type": "boolean"},
        },
        "required": ["fields", "adjusted"],
        "additionalProperties": False,
    },
)
LOOKED_UP = replace(
    REQUEST,
    messages=(
        *REQUEST.messages,
        Message("assistant", "", (ToolCall("1", "snapshot", '{"stock_id": "asset_7"}'),)),
        Message(
            "tool",
            json.dumps({"bars": {"columns": ["day", "close"], "rows": BARS}}),
            tool_call_id="1",
        ),
    ),
)
SUBMITTED = replace(
    REQUEST,
    messages=(
        *REQUEST.messages,
        Message("assistant", "", (ToolCall("2", "submit_action", "{}"),)),
        Message("tool", "orders[0]: no stock has this label", tool_call_id="2"),
    ),
    tool_choice="submit_action",
)


class Game:
    """A run of some requests at a page, on a thread; what the person did at each."""

    def __init__(self, page: PageDesk, requests: tuple[ModelRequest, ...]) -> None:
        self.acts: list[Act] = []
        self.has_left = False
        self._page = page
        self._requests = requests
        self._thread = threading.Thread(target=self._play, daemon=True)

    def _play(self) -> None:
        try:
            for request in self._requests:
                self.acts.append(self._page.ask(show_request(request)))
        except KeyboardInterrupt:
            self.has_left = True

    def start(self) -> None:
        self._thread.start()

    def done(self) -> list[Act]:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.acts


@pytest.fixture
def page() -> Iterator[PageDesk]:
    page = PageDesk(0, lambda _: None)
    yield page
    page.close()


def play(
    session: Reader, page: PageDesk, *requests: ModelRequest, **screen: Any
) -> tuple[Game, Any]:
    """A game at its first moment, and the tab that shows it."""
    game = Game(page, requests)
    game.start()
    tab = session.open(
        page.address, ready="document.querySelector('.desk')", expected=(*REFUSED, *GONE), **screen
    )
    return game, tab


def leave(tab: Any, game: Game) -> None:
    tab.click("button:has-text('Leave the run')")
    game.done()
    wait_until(tab, "document.body.dataset.over")


def order(tab: Any, **fields: str) -> None:
    """Fill a row of the ticket."""
    tab.click("button:has-text('Add order')")
    for name, value in fields.items():
        if name == "side":
            tab.check(f".row input[value={value}]")
        elif name == "stock_id":
            name_stock(tab, ".row", value)
        else:
            tab.fill(f".row [name={name}]", value)


def name_stock(tab: Any, within: str, name: str) -> None:
    """Choose a stock that the page shows, or type another one."""
    known = tab.evaluate(
        f"[...document.querySelectorAll('{within} select[name=stock_id] option')]"
        ".map(option => option.value)"
    )
    if name in known:
        tab.select_option(f"{within} select[name=stock_id]", name)
    else:
        tab.select_option(f"{within} select[name=stock_id]", label="another …")
        tab.fill(f"{within} input[name=stock_id]", name)


@every_screen
def test_a_day_is_readable_and_reachable_on_every_screen(
    session: Reader, page: PageDesk, width: int, scheme: str
) -> None:
    game, tab = play(session, page, LOOKED_UP, width=width, color_scheme=scheme)

    assert tab.title() == "Step 4 of 9 · day_+3 – ktdeval"
    assert tab.evaluate("document.querySelector('progress').value / 9") == pytest.approx(3 / 9)
    assert tab.evaluate("location.pathname") == "/"  # without the token
    assert is_shown(tab, "asset_7")
    assert is_shown(tab, MARKUP)  # as text
    wait_until(tab, "document.querySelector('.chart-plot svg')")
    assert tab.evaluate("document.querySelectorAll('.chart-plot .mark-symbol path').length") == 20
    tab.click("button:has-text('Add order')")
    assert page_troubles(tab) == []

    leave(tab, game)
    assert game.has_left


def test_research_then_a_ticket_become_the_acts_of_a_run(session: Reader, page: PageDesk) -> None:
    game, tab = play(session, page, REQUEST, LOOKED_UP)

    tab.click("summary:has-text('Snapshot')")
    name_stock(tab, "details[open]", "asset_7")
    tab.click("button:has-text('Look up')")
    wait_until(tab, "document.querySelector('.chart-plot svg')")
    order(tab, stock_id="asset_7", side="BUY", target_weight="5 %", reason="it rises")
    tab.fill("[name=overall_reason]", "one purchase")
    tab.click("button:has-text('Submit')")

    first, second = game.done()
    assert first == Called("snapshot", '{"stock_id": "asset_7"}')
    assert second == Called(
        "submit_action",
        '{"orders": [{"stock_id": "asset_7", "side": "BUY", "target_weight": 0.05, "reason": "it'
        ' rises"}], "overall_reason": "one purchase"}',
    )


def test_what_is_wrong_in_a_form_is_told_beside_it_and_nothing_is_sent(
    session: Reader, page: PageDesk
) -> None:
    game, tab = play(session, page, REQUEST)

    order(tab, stock_id="asset_7", side="BUY", target_weight="0.5", reason="it rises")
    tab.fill("[name=overall_reason]", "one purchase")
    tab.click("button:has-text('Submit')")
    wait_until(tab, "[...document.querySelectorAll('.problem')].some(one => !one.hidden)")

    assert is_shown(
        tab, "Order 1, Target share of the account: 0.5 is greater than the maximum of 0.1"
    )
    assert tab.evaluate("document.activeElement.name") == "target_weight"
    assert tab.get_attribute("[aria-invalid]", "name") == "target_weight"
    tab.fill(".row [name=target_weight]", "0.05")
    assert tab.query_selector("[aria-invalid]") is None
    assert game.acts == []
    leave(tab, game)


def test_a_button_beside_a_candidate_makes_the_order_without_typing_its_name(
    session: Reader, page: PageDesk
) -> None:
    game, tab = play(session, page, HOLDING, width=390)
    picks = "[...document.querySelectorAll('.pick')].map(one => one.ariaLabel)"

    assert tab.evaluate(picks) == ["Sell asset_9", "Buy asset_9", "Buy asset_7", "Buy asset_8"]

    tab.click("[aria-label='Buy asset_8']")
    assert tab.evaluate("document.activeElement.name") == "target_weight"
    tab.keyboard.type("5 %")
    tab.fill(".row [name=reason]", "it falls")
    tab.click("[aria-label='Sell asset_9']")
    tab.keyboard.type("0")
    tab.fill("fieldset.row:nth-of-type(2) [name=reason]", "enough of it")
    tab.fill("[name=overall_reason]", "one for another")
    tab.click("button:has-text('Submit')")

    (done,) = game.done()
    assert isinstance(done, Called)
    assert json.loads(done.arguments) == {
        "orders": [
            {"stock_id": "asset_8", "side": "BUY", "target_weight": 0.05, "reason": "it falls"},
            {"stock_id": "asset_9", "side": "SELL", "target_weight": 0, "reason": "enough of it"},
        ],
        "overall_reason": "one for another",
    }


def test_lists_and_truth_values_are_ticked_not_typed(session: Reader, page: PageDesk) -> None:
    game, tab = play(session, page, replace(REQUEST, tools=(CHOOSING, SUBMIT)))

    tab.click("summary:has-text('Compare')")
    tab.check("input[value=price]")
    tab.check("input[value=volume]")
    tab.check("input[value=no]")
    tab.click("button:has-text('Look up')")

    assert game.done() == [Called("compare", '{"fields": ["price", "volume"], "adjusted": false}')]


@pytest.mark.exhaustive
def test_a_refused_submission_is_told_and_the_ticket_is_still_there(
    session: Reader, page: PageDesk
) -> None:
    game, tab = play(session, page, REQUEST, SUBMITTED)
    order(tab, stock_id="asset_0", side="BUY", target_weight="0.05", reason="it rises")
    tab.fill("[name=overall_reason]", "one purchase")
    tab.click("button:has-text('Submit')")
    wait_until(tab, "document.querySelector('p.problem')")

    assert is_shown(tab, "orders[0]: no stock has this label")
    assert tab.input_value(".row input[name=stock_id]") == "asset_0"
    tab.click("button:has-text('Remove order 1')")
    tab.click("button:has-text('Hold')")

    assert game.done()[1] == Called(
        "submit_action", '{"orders": [], "overall_reason": "one purchase"}'
    )


def test_the_account_is_drawn_from_the_first_step_that_the_page_showed(
    session: Reader, page: PageDesk
) -> None:
    """A page that is loaded again has the same chart; a step has one number, from 1."""

    def at_step(step: int, result: float) -> ModelRequest:
        state = state_of_values(
            {"day": f"day_+{step}", "performance": {"portfolio_return_pct": result}}
        )
        text = f"Day day_+{step} has closed (step {step}).\n\n```json\n{state.text}\n```"
        return replace(REQUEST, messages=(Message("user", text),), step=step, state=state)

    game, tab = play(session, page, at_step(0, 0.0), at_step(1, -1.5), at_step(2, 2.5))
    for step in (2, 3):
        tab.fill("[name=overall_reason]", "nothing to do")
        tab.click("button:has-text('Hold')")
        wait_until(tab, f"document.title.startsWith('Step {step} of 9')")

    tab.reload()
    wait_until(tab, "document.querySelector('.chart-plot svg')")
    tab.click("[aria-label='Table of the figures: Your account so far']")

    cells = "[...document.querySelectorAll('.chart-table tbody :is(th, td)')].map(one => one.textContent)"
    assert tab.evaluate(cells) == ["1", "0.0000", "2", "−1.5000", "3", "2.5000"]
    assert is_shown(tab, "Day day_+2 has closed.")
    assert "(step" not in tab.inner_text("body")
    leave(tab, game)


@pytest.mark.exhaustive
def test_a_page_that_is_opened_again_shows_the_same_moment(session: Reader, page: PageDesk) -> None:
    game, tab = play(session, page, REQUEST)

    tab.reload()
    wait_until(tab, "document.querySelector('.desk')")

    assert is_shown(tab, "asset_7")
    leave(tab, game)


@pytest.mark.exhaustive
def test_words_are_asked_for_where_no_tool_is_on_offer(session: Reader, page: PageDesk) -> None:
    game, tab = play(session, page, replace(REQUEST, tool_choice=NO_TOOL))

    tab.fill("textarea", "It rises.")
    tab.click("button:has-text('Answer')")

    assert game.done() == [PersonWords("It rises.")]
