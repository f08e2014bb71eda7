"""A day on which one exchange is closed: what is shown for its assets, and what happens to a
decision on them.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from test_markets_state import CODES, EMPTY, N_DAYS, ROW, market, rows_of, scene_of, state_of


def with_gap(**changes: Any) -> Any:
    """The market of `market`, without a bar of AAA on the day of the decision and the day
    before.
    """
    made = market()
    gap = {name: getattr(made, name).copy() for name in ("open", "high", "low", "close")}

    for values in gap.values():
        values[ROW - 1 : ROW + 1, 0] = np.nan

    volume = made.volume.copy()
    volume[ROW - 1 : ROW + 1, 0] = 0.0

    return dataclasses.replace(made, **{**gap, "volume": volume, **changes})


def shown(snapshot: Any, **options: Any) -> list[dict[str, Any]]:
    """The rows of the assets, AAA first."""
    scene = scene_of(snapshot, mask="bright", **options)
    return sorted(rows_of(state_of(scene, snapshot)["candidates"]), key=lambda row: row["stock_id"])


def test_the_last_close_is_shown_where_one_of_the_assets_has_none() -> None:
    first, *others = shown(with_gap())
    assert (first["stock_id"], first["status"], first["close"]) == ("AAA", "closed", None)
    assert first["last_close"] == 100.0 + ROW - 2
    assert len(others) == len(CODES) - 1
    assert [row["last_close"] for row in others] == [row["close"] for row in others]


def test_a_split_on_a_closed_day_counts_in_shares_of_today() -> None:
    factor = np.ones((N_DAYS, len(CODES)))
    factor[ROW:, 0] = 2.0
    first, *_ = shown(with_gap(factor=factor))
    assert first["last_close"] == (100.0 + ROW - 2) / 2


def test_an_asset_without_any_bar_has_no_last_close() -> None:
    made = market()
    unlisted = {name: getattr(made, name).copy() for name in ("open", "high", "low", "close")}
    for values in unlisted.values():
        values[:, 0] = np.nan

    first, *_ = shown(dataclasses.replace(made, **unlisted))

    assert (first["status"], first["last_close"]) == ("not_listed", None)


# ---- decisions


def orders_of(fill: str) -> list[int]:
    """The assets of the orders that BUY of each of two assets makes, of which AAA is closed at this
    close.
    """
    snapshot = with_gap()
    trading = {
        "venue": "frictionless",
        "max_positions": 2,
        "max_weight": 0.5,
        "initial_cash": 100_000,
        "fill": fill,
    }
    scene = scene_of(
        snapshot, mask="bright", answers="stances", assets=["AAA", "BBB"], trading=trading
    )
    scene.observe(0, snapshot.as_of(ROW), EMPTY, None)
    decisions = [
        {
            "stock_id": code,
            "decision": "BUY",
            "confidence": 0.5,
            "reason": "It is cheap, and nobody has seen it yet.",
        }
        for code in ("AAA", "BBB")
    ]
    reading = scene.form.read(
        json.dumps({"decisions": decisions, "overall_reason": "Both are cheap."})
    )

    assert reading.submission.failure is None

    return [order.asset for order in reading.submission.action]


def test_same_close_decision_makes_no_order_on_a_closed_day() -> None:
    assert orders_of("same_close") == [CODES.index("BBB")]
