"""Broker terminal in a real browser: by keyboard alone, light and dark, on a laptop and on a
telephone; random sessions as by the API; and nothing of the future on the page.
"""

from __future__ import annotations

import os
import re
from datetime import datetime
from random import Random
from typing import Any

import pytest

from browser_pages import Reader, axe_violations, needs_browser, press, scrolls_sideways, wait_until
from ktdeval.values import sha256_hex
from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import SymbolRow
from qfinzero_broker_play import EARLY, by_day, market
from qfinzero_poison import poison, small_world
from qfinzero_server import Served, serving
from qfinzero_terminal_commands import ENDS, OPENED, ByApi, Command, drawn_order, earlier, opening
from qfinzero_terminal_play import seen, terminal_catalogue
from qfinzero_world import at
from terminal_page import TerminalPage, open_terminal

pytestmark = [needs_browser, pytest.mark.slow]

TOKEN = "token-of-the-tests"
MARKUP = "<img src=x onerror=alert(1)>"
UNKNOWN = "–"
SESSIONS = int(os.environ.get("KTDEVAL_TERMINAL_PAGE_SESSIONS", "1"))
"""Random sessions to compare; 200 by hand."""
COMMANDS = 12
KNOWN_TO = "2025-01-15T21:00:00Z"
"""Moment up to which the poisoned twins are equal: the close of a day."""
TURNS = int(os.environ.get("KTDEVAL_TERMINAL_PAGE_TURNS", "8"))
HAS_ENDED = "document.getElementById('time').textContent.includes('finished')"
FIGURES = ("Price, about", "Value", "Fee")


def flat_market() -> Dataset:
    """A stock at 100 dollars for three weeks, whose name is markup."""
    named = SymbolRow("AVLN", "stock", MARKUP, "technology", EARLY)
    return market({"AVLN": by_day([100.0] * 15)}, resolution="day", symbol_rows=[named])


def check_readable(page: TerminalPage, *screens: tuple[int, str]) -> None:
    """No violation, and no page wider than the window, on screens of a width and a scheme."""
    for width, scheme in screens:
        page.tab.set_viewport_size({"width": width, "height": 900})
        page.tab.emulate_media(color_scheme=scheme)
        page.rest()
        assert not scrolls_sideways(page.tab)
        assert axe_violations(page.tab) == []

    page.tab.set_viewport_size({"width": 1280, "height": 900})
    page.tab.emulate_media(color_scheme="null")


@pytest.mark.exhaustive
def test_an_account_is_traded_by_keyboard_and_the_preview_is_what_happens(session: Reader) -> None:
    guarded = AccessRules(None, TOKEN)
    with serving(terminal_catalogue(), security=guarded, dataset=flat_market()) as served:
        page = open_terminal(session, served.address)
        page.tab.keyboard.type("wrong" + TOKEN)
        press(page.tab, "Enter")
        page.rest()
        assert "token" in page.error()
        page.type("#token", TOKEN, "Shift+Tab")
        press(page.tab, "Enter")
        page.rest()
        assert TOKEN not in page.shown()

        page.type("#open-as-of", "2025-01-06T14:30:00Z")
        page.reach("#open-frequency")
        page.tab.keyboard.type("days")
        page.act("#open-send")
        assert page.error() == ""
        assert page.tab.evaluate("document.activeElement.id") == "session-title"
        assert MARKUP in page.text("#ticket-about")

        page.type("#ticket-qty", "25")
        page.rest()
        previewed = [page.figure("#ticket-after", term) for term in FIGURES]
        power_after = page.figure("#ticket-after", "Buying power after")
        press(page.tab, "Enter")
        page.rest()
        assert page.text("#ticket .said") == "ord-000001: BUY 25 AVLN MARKET is accepted"

        page.act("#step-bar", "Shift+Tab")
        assert page.text("#notice") == "Bought 25 AVLN at 100.01"
        assert page.rows("trades")[0][5:8] == previewed
        assert page.figure("#account", "Buying power") == power_after
        assert page.rows("positions")[0][:3] == ["AVLN", "25", "100.01"]
        check_readable(page, (390, "dark"), (1280, "light"))

        _flatten(page)
        page.act("#step-bar", "Shift+Tab")
        assert page.rows("positions") == []

        page.reach("#back-slider")
        press(page.tab, "ArrowLeft")
        page.act("#back-open")
        branch = "branch 1 of main at 2025-01-06 16:00 EST"
        assert page.text("#session-title") == branch
        assert page.text("#time .said") == f"{branch} is open; main stays as it is."
        assert page.rows("positions")[0][1] == "25"
        assert "2025-01-07" in page.text("#sessions li")

        page.type("#ticket-qty", "2000000")
        press(page.tab, "Enter")
        page.rest()
        assert "order.qty" in page.error()
        assert page.tab.input_value("#ticket-qty") == "2000000"
        check_readable(page, (390, "light"), (1280, "dark"))

        page.reach("#speed", "Shift+Tab")
        page.tab.keyboard.type("60")
        page.reach("#play", "Shift+Tab")
        press(page.tab, "Enter")
        wait_until(page.tab, HAS_ENDED)
        page.rest()
        assert page.text("#time .error") == ""
        assert page.text("#time .clock") == "Fri 2025-01-17 16:00 EST"
        for command in ("#ticket-send", "#cancel-all", "#flatten"):
            assert page.tab.is_disabled(command)  # of a session that has ended

        assert page.tab.evaluate("document.querySelector('main img')") is None


def _flatten(page: TerminalPage) -> None:
    page.reach("#tab-positions")
    for name in ("orders", "history", "trades", "log"):
        press(page.tab, "ArrowRight")
        assert page.tab.evaluate("document.activeElement.id") == f"tab-{name}"

    page.reach("#flatten")
    press(page.tab, "Enter")
    page.act("#flatten-yes")


def enter(page: TerminalPage, command: Command) -> None:
    """Do what a command says through the page's controls."""
    if command.kind == "order":
        page.send(command.given)
    elif command.kind == "cancel":
        page.cancel(command.given)
    elif command.kind == "flatten":
        page.flatten()
    elif command.kind == "branch":
        page.branch(command.given)
    else:
        page.click(f"#{command.kind}")


def check_a_random_session(page: TerminalPage, served: Served, seed: int) -> None:
    """Commands drawn at random leave the same state and log whether a reader enters them on the
    page or a client sends them, in the workspaces that they branch from too.
    """
    random = Random(seed)
    terms = opening(random)
    client = ByApi(served, terms)
    by_page = [
        page.open_session(
            as_of=OPENED,
            end=ENDS,
            frequency=terms.frequency,
            account=terms.account_type,
            options="AVLN",
        )
    ]
    commands = []

    for _ in range(COMMANDS):
        if not client.is_running:
            break

        command = client.draw(random)
        commands.append(command)
        client.do(command)
        enter(page, command)
        if command.kind == "branch":
            by_page.append(page.workspace)

    for of_page, of_client in zip(by_page, client.all, strict=True):
        on_page = seen(lambda path, workspace=of_page: served.get(path, workspace))
        sent = seen(lambda path, workspace=of_client: served.get(path, workspace))
        assert on_page == sent, f"seed {seed}: {commands}"

    page.close_all()
    for workspace in client.all:
        served.send("DELETE", f"/workspaces/{workspace}")


def check_averages(page: TerminalPage, served: Served) -> None:
    """Bars of the chart and their averages are those of the API."""
    moment = "2025-02-21T21:00:00Z"
    workspace = page.open_session(as_of=moment, end="2025-02-28", frequency="1d", options="AVLN")
    query = "tickers=AVLN&start=2025-01-02&end=2025-02-28&indicators=ma_20,ma_50"
    bars = served.get(f"/stock/daily?{query}", workspace).body["bars"]
    page.click("#chart button:has-text('Table')")
    drawn = page.rows_of("#chart .chart-table")

    assert [row[0] for row in reversed(drawn)] == [bar["date"] for bar in bars]

    for row, bar in zip(reversed(drawn), bars, strict=True):
        prices = [float(text) for text in row[1:5]]
        assert prices == [bar[name] for name in ("open", "high", "low", "close")]
        if bar["ma_20"] is None:
            assert row[6] == UNKNOWN
        else:
            assert float(row[6]) == pytest.approx(bar["ma_20"], abs=5e-5)

        assert row[7] == UNKNOWN  # of 34 bars

    page.close_all()


def check_late_chain(page: TerminalPage) -> None:
    """A chain that comes after another stock is chosen is not taken for that of the other."""
    page.open_session(as_of="2025-01-08T21:00:00Z", end="2025-01-31", frequency="1d")
    page.click("[data-key='choose BRKT']")

    assert page.rows_of("#chain") == []

    held: list[Any] = []
    chains = re.compile(r"/option/chain_query\?")
    page.tab.route(chains, lambda route: held.append(route))
    page.tab.click("[data-key='choose AVLN']")

    while not held:
        page.tab.wait_for_timeout(10)

    with page.tab.expect_response(re.compile(r"/health/freshness$")):
        page.tab.click("[data-key='choose BRKT']")

    page.tab.unroute(chains)  # lets what is held go on
    page.rest()

    assert page.rows_of("#chain") == []

    page.click("[data-key='choose AVLN']")
    shown = page.rows_of("#chain")
    page.click("[data-key='choose BRKT']")

    assert page.rows_of("#chain") == []
    assert shown != []

    page.close_all()


@pytest.mark.exhaustive
def test_random_sessions_on_the_page_are_those_of_the_same_commands_by_api(
    session: Reader,
) -> None:
    with serving(terminal_catalogue()) as served:
        page = open_terminal(session, served.address)
        check_averages(page, served)
        check_late_chain(page)
        for seed in range(SESSIONS):
            check_a_random_session(page, served, seed)

        assert len(served.workspaces) <= 1  # closed sessions are given back


def turn(page: TerminalPage, random: Random, *, is_branching: bool) -> None:
    """Do something that does not lead beyond the moment. `is_branching`: go back whatever is
    drawn.
    """
    lot = 1.0 if is_branching else random.random()
    is_at_end = page.clock == KNOWN_TO

    if lot < 0.3:
        page.send(drawn_order(random))
    elif lot < 0.65 and not is_at_end:
        page.click("#step-bar")
    elif lot < 0.7:
        page.flatten()
    elif lot < 0.76:
        page.click(f".switch.\\31 {random.choice(('d', 'm'))}")
    elif lot < 0.85:
        page.click(f"[data-key='choose {random.choice(('AVLN', 'BRKT', 'CSTL'))}']")
    else:
        page.branch(earlier(random, datetime.fromisoformat(page.clock)))


@pytest.mark.exhaustive
def test_the_page_shows_nothing_of_the_future_whatever_a_reader_does_branches_too(
    session: Reader,
) -> None:
    world = small_world()
    twin = poison(world, at(KNOWN_TO))
    with (
        serving(terminal_catalogue(), dataset=world) as served,
        serving(terminal_catalogue(), dataset=twin) as poisoned,
    ):
        pages = [open_terminal(session, each.address) for each in (served, poisoned)]
        for page in pages:
            page.open_session(as_of=OPENED, end=ENDS, frequency="1d", options="AVLN")

        heard = "a reader who decides by all that the page shows"
        for number in range(TURNS):
            shown = [page.shown() for page in pages]
            assert shown[0] == shown[1]
            heard = sha256_hex(heard + shown[0])
            for page in pages:
                turn(page, Random(heard), is_branching=number == TURNS // 2)

        while pages[0].clock <= KNOWN_TO:  # the twins differ from then on
            for page in pages:
                page.click("#step-bar")

        assert pages[0].shown() != pages[1].shown()
