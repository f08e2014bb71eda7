"""Broker terminal in a real browser: by keyboard alone, light and dark, on a laptop and on a
telephone; random sessions as by the API; and nothing of the future on the page.
"""

from __future__ import annotations

import pytest

from browser_pages import Reader, axe_violations, needs_browser, press, scrolls_sideways
from ktdeval_qfinzero.data.rows import Dataset, SymbolRow
from qfinzero_broker_play import EARLY, by_day, market
from qfinzero_server import serving
from qfinzero_terminal_play import terminal_catalogue
from terminal_page import TerminalPage, open_terminal

pytestmark = [needs_browser, pytest.mark.slow]

MARKUP = "<img src=x onerror=alert(1)>"
FIGURES = ("Price, about", "Value", "Fee")


def flat_market() -> Dataset:
    """A stock at 100 dollars for three weeks, whose name is markup."""
    named = SymbolRow("AVLN", "stock", MARKUP, "technology", EARLY)
    return market({"AVLN": by_day([100.0] * 15)}, resolution="day", symbol_rows=[named])


def check_readable(page: TerminalPage) -> None:
    """No violation, and no page wider than the window, on both screens in both schemes."""
    for width, scheme in ((390, "dark"), (390, "light"), (1280, "dark"), (1280, "light")):
        page.tab.set_viewport_size({"width": width, "height": 900})
        page.tab.emulate_media(color_scheme=scheme)
        page.rest()
        assert not scrolls_sideways(page.tab)
        assert axe_violations(page.tab) == []


def test_an_account_is_traded_by_keyboard_and_the_preview_is_what_happens(session: Reader) -> None:
    with serving(terminal_catalogue(), dataset=flat_market()) as served:
        page = open_terminal(session, served.address)
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
        check_readable(page)

        _flatten(page)
        page.act("#step-bar", "Shift+Tab")
        assert page.rows("positions") == []
        assert page.figure("#account", "Buying power") == page.figure("#account", "Buying power")

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
        check_readable(page)
        assert page.tab.evaluate("document.querySelector('main img')") is None


def _flatten(page: TerminalPage) -> None:
    page.reach("#tab-positions")
    for name in ("orders", "history", "trades", "log"):
        press(page.tab, "ArrowRight")
        assert page.tab.evaluate("document.activeElement.id") == f"tab-{name}"
        assert axe_violations(page.tab) == []
    page.reach("#flatten")
    press(page.tab, "Enter")
    page.act("#flatten-yes")
