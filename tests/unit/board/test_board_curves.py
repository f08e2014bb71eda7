"""Curves of the cards of arenas, and which boards have their pages."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from board_arena import Frame, arena_board, play_ama, run_frame
from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.typed import from_plain
from ktdeval_board.documents import Decisions, Series
from ktdeval_board.rules import Rules, load_rules
from ktdeval_board.series import signal_counts
from ktdeval_board.site.build import build_site
from ktdeval_board.site.curves import curves
from ktdeval_board.site.files import render_pages
from site_data import read_data_file

ARENA = {"ama.html", "assets/ama.js", "assets/arena.js", "assets/arena.css"}


@pytest.fixture(scope="module")
def frame() -> Frame:
    return run_frame("ama_tsla", "synthetic_arena", seeds=2)


@pytest.fixture(scope="module")
def fund() -> Frame:
    return run_frame("deepfund_berkshire", "synthetic_deepfund", seeds=1)


@pytest.fixture(scope="module")
def board(frame: Frame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return arena_board(tmp_path_factory.mktemp("arena") / "board", [(frame, play_ama)], models=1)


def test_series_of_an_asset_have_its_adjusted_price(frame: Frame) -> None:
    market = open_snapshot(load_plugins(()), "synthetic_arena", {})
    for episode in frame[1]["episodes"]:
        rows = [market.day_index(day) for day in (episode["base_day"], *episode["days"])]
        prices = (market.close * market.factor)[rows, market.asset_index["TSLA"]]
        known = np.isfinite(prices)
        assert known[0]
        np.testing.assert_allclose(np.array(episode["asset"])[known], prices[known] / prices[0], rtol=1e-5)
        assert all(
            now == before
            for now, before, fresh in zip(episode["asset"][1:], episode["asset"], known[1:], strict=False)
            if not fresh
        )


def test_curves_are_medians_and_ranges_over_seeds_and_count_what_is_held_and_ordered(frame: Frame, board: Path) -> None:
    series, decisions = from_plain(frame[1], Series, "series"), from_plain(frame[2], Decisions, "decisions")
    (division,) = load_rules(board).divisions
    drawn: Any = curves(division, [(series, decisions)])
    first, second = (np.array(episode.nav) - 1 for episode in series.episodes)
    card = drawn["cards"][series.card]["live"]
    middle, low, high = (np.array(line) for line in card["after"])
    np.testing.assert_allclose(middle, (first + second) / 2, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose([low, high], [np.minimum(first, second), np.maximum(first, second)], rtol=1e-5, atol=1e-12)
    assert card["seeds"] == 2
    assert len(card["before"]) == 3
    weights = np.array([[sum(weight for _, weight in step.holdings) for step in episode.steps] for episode in decisions.episodes])
    assert card["long"] == (weights > 0).sum(axis=0).tolist()
    assert card["short"] == (weights < 0).sum(axis=0).tolist()
    assert max(card["short"]) > 0
    assert sum(card["sell"]) == sum(
        any(order.side == "SELL" and order.filled for order in step.orders)
        for episode in decisions.episodes
        for step in episode.steps
    )
    assert drawn["windows"]["live"]["days"][0] == "2025-08-01"
    assert drawn["windows"]["live"]["benchmark"] is None
    assert curves(division, [])["cards"] == {}


def exchange(role: str, system: str, reply: str) -> dict[str, Any]:
    state = {"candidates": {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]}}
    sent = [{"role": "system", "content": system}, {"role": "user", "content": f"```json\n{json.dumps(state)}\n```"}]
    return {"kept": 0, "sent": sent, "reply": {"content": reply, "finish_reason": "stop"}, "role": role}


def test_signals_are_counted_by_analyst_where_a_transcript_has_any() -> None:
    asked = f"Judge. {SIGNAL_FORM}"
    talk = TranscriptEntry(
        step=0,
        exchanges=(
            exchange("news\u202e", asked, '{"asset_1": "Bullish", "OTHERS": "Neutral"}'),
            exchange("macro", asked, '{"asset_2": "Bearish"}'),
            exchange("manager", "Decide.", '{"OTHERS": "Bullish"}'),
        ),
        submission=None,
    )
    counts = {"macro": {"Bearish": 2, "no_signal": 2}, "news": {"Bullish": 2, "Neutral": 2}}
    assert signal_counts([talk, talk]) == counts, "the manager is no analyst, and nothing turns the text round"
    assert signal_counts([]) == {}
    many = TranscriptEntry(step=0, exchanges=tuple(exchange(f"r{n:03}", asked, "") for n in range(50)), submission=None)
    assert list(signal_counts([many])) == [f"r{n:03}" for n in range(40)]


def test_curves_of_a_fund_sum_orders_weights_and_signals(fund: Frame, board: Path) -> None:
    series, decisions = fund[1], copy.deepcopy(fund[2])
    assert all(
        "signals" not in episode and "asset" not in days
        for episode, days in zip(decisions["episodes"], series["episodes"], strict=True)
    )
    decisions["episodes"][0]["signals"] = {"news": {"Bullish": 3, "no_signal": 1}}
    (division,) = load_rules(board).divisions
    given = from_plain(series, Series, "series"), from_plain(decisions, Decisions, "decisions")
    card = curves(division, [given])["cards"][series["card"]]["live"]  # type: ignore[index,call-overload]  # JSON
    steps = [step for episode in decisions["episodes"] for step in episode["steps"]]
    orders = Counter(order["side"] if order["filled"] else "unfilled" for step in steps for order in step["orders"])
    assert card["orders"] == orders
    assert sum(orders.values()) > 10
    weights = [weight for step in steps for _, weight in step["holdings"]]
    assert sum(card["held"].values()) == pytest.approx(sum(weights) / len(steps), rel=1e-5)
    assert card["signals"] == {"news": {"Bullish": 3, "Bearish": 0, "Neutral": 0, "no_signal": 1}}


def test_only_boards_with_figures_of_an_arena_have_its_page_and_files(board: Path, tmp_path: Path) -> None:
    build_site(board, tmp_path / "site", workers=1)
    files = {path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*")}
    assert files >= ARENA | {"data/curves/division-0.js", "data/curves/division-0.json"}
    assert len(read_data_file((tmp_path / "site" / "data" / "curves" / "division-0.js").read_bytes())["cards"]) == 6
    practice = Path(__file__).parents[3] / "leaderboards" / "practice"
    build_site(practice, tmp_path / "other", workers=1)
    others = {path.relative_to(tmp_path / "other").as_posix() for path in (tmp_path / "other").rglob("*")}
    assert not others & ARENA
    assert not others & {"deepfund.html", "assets/deepfund.js"}
    assert "data/curves" not in others
    assert "assets/choices.js" in others
    rules = Rules(name="b", title="Board", market="real", snapshots=(), divisions=())
    assert "ama.html" not in render_pages(rules)
    assert "market.html" not in render_pages(rules)
