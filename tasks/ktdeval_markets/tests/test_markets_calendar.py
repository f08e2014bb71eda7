"""Under a mask that hides days, no shown number distinguishes weekends, holidays or half days from
other days.
"""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.market import Instrument, MarketSnapshot, MinuteBars
from ktdeval.market.rules.calendar import sessions
from ktdeval.market.venues.close_times import Close
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.testing import scene_on, snapshot_of_days

PLUGINS = load_plugins()
HALF_DAYS = ("2024-07-03", "2024-11-29", "2024-12-24")
WHOLE = 7
HALF = 4  # bars of an hour


def hourly_market(hour: int = 60) -> MarketSnapshot:
    """One New York stock at a constant price, in bars of an hour or less, with three half days."""
    days = sessions("2024-06-03", "2025-01-31", "XNYS")
    instruments = (Instrument("stock", "USD", "us_equity"),)
    rows = []

    for day in days:
        is_half = str(day) in HALF_DAYS
        close = (
            Close.parse(f"{'13:00' if is_half else '16:00'} America/New_York").instant(day)
            // 60_000_000
        )
        bars = (HALF if is_half else WHOLE) * 60 // hour
        for index in range(bars):
            # Evenly over the session, which has the same volume on every day.
            rows.append(
                (
                    "TSLA",
                    close - hour * (bars - 1 - index),
                    300.0,
                    300.0,
                    300.0,
                    300.0,
                    8_400.0 / bars,
                )
            )

    table = pd.DataFrame(
        rows, columns=["code", "ends_at", "open", "high", "low", "close", "volume"]
    )
    table["ends_at"] = table["ends_at"].to_numpy().astype("M8[m]").astype("M8[s]")
    made = snapshot_of_days(
        ["TSLA"], [[300.0]] * len(days), instruments=instruments, volume=[[8_400.0]] * len(days)
    )
    meta = dataclasses.replace(made.meta, benchmark="")

    return dataclasses.replace(
        made, meta=meta, indices={}, index_names={}, days=days, minutes=MinuteBars.of(table)
    )


def intraday_of(scene: Any, snapshot: MarketSnapshot, row: int, step: int) -> list[list[Any]]:
    """The session shown at a close, without the label of its day."""
    user = scene.observe(step, snapshot.as_of(row), None, None).user
    match = re.search(r"```json\n(.*?)\n```", user, re.DOTALL)

    assert match is not None

    return [[*bar[:1], *bar[2:]] for bar in json.loads(match[1])["intraday"]["rows"]]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("first", "hour", "parts"),
    [("2024-08-01", 60, 4), ("2024-06-20", 60, 7), ("2024-08-01", 5, 20)],
)
def test_a_half_day_is_shown_in_as_many_parts_as_a_whole_one(
    first: str, hour: int, parts: int
) -> None:
    """Whether a half day came before the episode (4 bars) or none did (7): every session of the
    episode is shown alike.
    """
    snapshot = hourly_market(hour)
    scene = scene_on(
        PLUGINS.make_task("market_minutes_blinded"), snapshot, Window("w", first, "2025-01-31"), 0
    )
    base = scene.lens.base_row
    shown = [
        intraday_of(scene, snapshot, row, row - base) for row in range(base, len(snapshot.days) - 1)
    ]
    half_days = {
        snapshot.day_index(day) - base for day in HALF_DAYS if snapshot.day_index(day) >= base
    }

    assert len(half_days) >= 2
    assert {len(session) for session in shown} == {parts}
    assert {tuple(bar[1] for bar in session) for session in shown} == {
        tuple(bar[1] for bar in shown[0])
    }

    alike = [session == shown[0] for session in shown]
    assert all(alike), "prices and volumes are spread evenly, so nothing else can differ"
    assert np.isclose(sum(bar[-1] for bar in shown[0]), 8_400.0, rtol=1e-3)
