"""The broker terminal in a browser: what a reader does on it, through its controls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from browser_pages import Reader, press, wait_until

IS_LOADED = "!document.getElementById('content').hasAttribute('aria-busy')"
IS_AT_REST = "document.body.dataset.pending === undefined"
IS_DRAWN = "!document.querySelector('.chart-plot:not([data-drawn])')"
REFUSED = ("Failed to load resource: the server responded with a status of 4",)
"""What a browser writes into its console where a call is refused, as the page shows in its place."""
HEADER = "qfinzero-workspace"
_MOST_TABS = 80
_OF_DRAWING = re.compile(r"(?:clip|gradient_)\d+|data-drawn=\"\d+\"")


class TerminalPage:
    """The page in a tab. `workspace`: id of the one that the page asked about last."""

    def __init__(self, tab: Any) -> None:
        self.tab = tab
        self.workspace = ""
        tab.on("request", self._hear)

    def _hear(self, request: Any) -> None:
        self.workspace = request.headers.get(HEADER, self.workspace)

    def rest(self) -> None:
        """Wait until everything that the page asked for has come."""
        wait_until(self.tab, IS_AT_REST)

    def text(self, selector: str) -> str:
        """Text of an element."""
        return str(self.tab.evaluate(f"document.querySelector({json.dumps(selector)}).innerText"))

    def figure(self, place: str, term: str) -> str:
        """A figure of a list, by its term."""
        return self.text(f"{place} [data-figure='{term}'] dd")

    def rows(self, part: str) -> list[list[str]]:
        """Cells of a table behind a tab."""
        return self.rows_of(f"#part-{part}")

    def rows_of(self, place: str) -> list[list[str]]:
        """Cells of the tables in an element."""
        return list(
            self.tab.evaluate(
                f"[...document.querySelectorAll('{place} tbody tr')]"
                ".map(row => [...row.cells].map(cell => cell.textContent))"
            )
        )

    def error(self) -> str:
        """All that the page says went wrong."""
        return str(
            self.tab.evaluate(
                "[...document.querySelectorAll('.error')].map(one => one.textContent).join('')"
            )
        )

    def shown(self) -> str:
        """All that the page holds, fields and drawings too, without the numbers that drawings give
        their parts and without the notice, which goes after some seconds.
        """
        self.tab.evaluate("document.getElementById('chart')?.scrollIntoView()")
        wait_until(self.tab, IS_DRAWN)
        held = self.tab.evaluate(
            "[document.title, document.getElementById('content').outerHTML, ...[...document.querySelectorAll('input, select')]"
            ".map(field => field.value)].join('\\n')"
        )

        return _OF_DRAWING.sub("", str(held))

    @property
    def clock(self) -> str:
        """Moment of the session's clock, which is where going back begins."""
        return str(self.tab.input_value("#back-moment"))

    # ---- by pointer

    def click(self, selector: str) -> None:
        """Press a button or a link, and wait for what it brings about."""
        self.tab.click(selector)
        self.rest()

    def open_session(self, **fields: str) -> str:
        """Open a session; `fields`: content of the form by the ends of its fields' ids. Returns the
        id of its workspace.
        """
        if self.tab.evaluate("!document.querySelector('details.open').open"):
            self.tab.click("details.open > summary")

        for name, value in fields.items():
            _fill(self.tab, f"#open-{name.replace('_', '-')}", value)

        self.click("#open-send")

        return self.workspace

    def send(self, order: Mapping[str, Any]) -> None:
        """Enter an order of the API into the ticket, and send it."""
        instrument = order["instrument"]
        self.tab.evaluate("document.querySelector('#ticket details').open = true")
        side = "buy" if order["side"] == "BUY" else "sell"
        self.tab.click(f"#ticket .switch.{side}")
        _fill(self.tab, "#ticket-type", order["order_type"])
        _fill(self.tab, "#ticket-force", order["time_in_force"])
        fields = {
            "symbol": instrument.get("symbol") or instrument["contract"],
            "qty": order["qty"],
            "stop": order.get("stop_price"),
            "limit": order.get("limit_price"),
            "expire": order.get("expire_ts"),
            "profit": order.get("take_profit_price"),
            "loss": order.get("stop_loss_price"),
        }

        for name, value in fields.items():
            if value is not None:
                _fill(self.tab, f"#ticket-{name}", str(value))
            elif name in ("profit", "loss"):
                _fill(self.tab, f"#ticket-{name}", "")

        self.tab.press("#ticket-qty", "Enter")
        self.rest()

    def cancel(self, order_id: str) -> None:
        """Cancel an order by its button."""
        self.tab.click("#tab-orders")
        self.click(f"[data-key='cancel {order_id}']")

    def flatten(self) -> None:
        """Flatten the account, and say yes."""
        self.tab.click("#flatten")
        self.click("#flatten-yes")

    def branch(self, moment: str) -> str:
        """Open a branch; returns the id of its workspace."""
        _fill(self.tab, "#back-moment", moment)
        self.click("#back-open")
        return self.workspace

    def close_all(self) -> None:
        """Close all sessions of the page."""
        while self.tab.evaluate("document.querySelectorAll('#sessions li').length"):
            self.click("#sessions [data-key^=close] >> nth=0")

    # ---- by keyboard

    def reach(self, selector: str, key: str = "Tab") -> None:
        """Press Tab, or another key, until an element has the focus."""
        for _ in range(_MOST_TABS):
            if self.tab.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
                return

            press(self.tab, key)

        pytest.fail(f"{selector} is not reached by {key}")

    def type(self, selector: str, text: str, key: str = "Tab") -> None:
        """Reach a field and write into it, instead of what stands in it."""
        self.reach(selector, key)
        press(self.tab, "Control+A")
        self.tab.keyboard.type(text)

    def act(self, selector: str, key: str = "Tab") -> None:
        """Reach a button and press it; wait for what it brings about."""
        self.reach(selector, key)
        press(self.tab, "Enter")
        self.rest()


def _fill(tab: Any, selector: str, value: str) -> None:
    if tab.evaluate(f"document.querySelector({json.dumps(selector)}).tagName === 'SELECT'"):
        tab.select_option(selector, value)
    else:
        tab.fill(selector, value)


def open_terminal(session: Reader, address: str, **screen: Any) -> TerminalPage:
    """Open the page of a server. Refused calls are no trouble: the page shows them."""
    tab = session.open(f"{address}/terminal/", ready=IS_LOADED, expected=REFUSED, **screen)
    page = TerminalPage(tab)
    page.rest()

    return page
