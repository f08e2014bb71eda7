"""Everything that shows or counts records of other markets, on a hand-computed ledger: fractions, a
short, interest, a margin call.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from ktdeval.errors import DataError
from ktdeval.stats import envelope_problem, random_envelope
from ktdeval.testing import tiny_snapshot
from ktdeval.trading import TradingConfig
from ktdeval.values import to_plain
from ktdeval_board.derived_documents import make_decisions
from ktdeval_report.card_figures import WindowStudy
from ktdeval_report.card_plots import weights_plot
from support.figures.ledger_cases import short_ledger


def test_a_step_counts_margin_calls_as_traded_and_interest_as_paid() -> None:
    first, second = short_ledger().steps
    assert (first.traded_minor, first.costs_minor) == (45_000, 100)
    assert (second.traded_minor, second.costs_minor) == (15_000 + 3_000, 100 + 12 + 100)


def test_random_traders_are_not_compared_with_shorts() -> None:
    ledger = short_ledger()
    assert envelope_problem(ledger) == "the agent sold short, and random traders do not"
    with pytest.raises(DataError, match=r"^no random traders: the agent sold short"):
        random_envelope(ledger, tiny_snapshot({"609001.SH": [10.0, 10.5]}), TradingConfig())


def test_decisions_of_a_board_are_in_shares_and_dollars() -> None:
    ledger = short_ledger()
    entry = SimpleNamespace(id="a" * 20, window="W1", seed=0)
    run: Any = SimpleNamespace(
        manifest=SimpleNamespace(specs=[entry]), load_ledger=lambda spec: ledger
    )
    card: Any = SimpleNamespace(episodes=[entry], metrics={})
    decisions: Any = to_plain(make_decisions(run, "c" * 64, card))
    steps = decisions["episodes"][0]["steps"]
    shown = [
        [order[name] for name in ("side", "asked", "filled", "price")]
        for step in steps
        for order in step["orders"]
    ]

    assert shown == [["SELL", "-45 %", 1.5, 300.0], ["BUY", "0.5 shares", 0.5, 300.0]]
    assert [step["holdings"] for step in steps] == [
        [["TSLA", pytest.approx(-0.45045)]],
        [["TSLA", -0.28125]],
    ]


def test_a_plot_of_weights_shows_short_sales() -> None:
    text = weights_plot(WindowStudy("W1", True, [], 0, short_ledger())).text
    # 450 of 999 and 270 of 960; 1,449 of 999 and 1,230 of 960 in cash; 450 of 1,000 and 180 of 965
    # traded.
    assert (
        re.sub(r"36\.5[89]", "36.585", text.replace("\u202f", " "))
        == "At most 1 name at once, 36.585 % sold short and 136.585 % cash on average; 31.83 % of"
        " the NAV is traded on an average day."
    )
