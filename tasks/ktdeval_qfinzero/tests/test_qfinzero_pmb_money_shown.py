"""Amounts shown by the broker for accounts, positions, orders, trades, days and sessions, checked
by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from qfinzero_plays import Line, on_each_play, run_play


@on_each_play
def test_money_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)
