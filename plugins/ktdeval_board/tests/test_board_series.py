"""Series, decisions, markets and curves of a board: what stands in them follows from ledgers and
market, and nothing else does.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.attribution import attribute
from ktdeval.errors import DataError, StoreError
from ktdeval.harness import SIGNAL_FORM, TranscriptEntry
from ktdeval.market import MarketSnapshot, load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, open_snapshot
from ktdeval.stats import random_envelope
from ktdeval.testing import not_empty, on_each_row
from ktdeval.trading import Ledger
from ktdeval.trading.ledger import OrderRecord
from ktdeval.values import from_plain, to_plain
from ktdeval_board.derived_documents import (
    describe_order,
    make_decisions,
    make_market,
    make_series,
    plain_line,
    signal_counts,
    windows_of,
)
from ktdeval_board.document_types import Decisions, Series
from ktdeval_board.rules import Division, Rules, SnapshotRule, WindowRule, load_rules
from ktdeval_board.site.build import build_site
from ktdeval_board.site.files import render_pages
from ktdeval_board.site.return_curves import curves
from support.board.board_arena import Frame, arena_board, play_ama, run_frame
from support.board.board_cards import card_of
from support.board.board_checked import make_run
from support.figures.card_cases import typed
from support.figures.metric_cases import order as order_dict
from support.pages.site_pages import read_data_file

CARD = "a" * 64
WINDOWS = ("2024-03-01:2024-03-08", "2024-03-06:2024-03-15")
TOLERANCE = 2e-5  # of a sum of four figures near 1 with six significant digits each


@pytest.fixture(scope="module")
def snapshot(market: Path) -> MarketSnapshot:
    return load_snapshot(market)


@pytest.fixture(scope="module")
def run(market: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    path = tmp_path_factory.mktemp("series") / "run"
    return RunFolder.load(
        make_run(path, market, "builtin/chaos", windows=WINDOWS, seeds=2, mask_key="0" * 32)
    )


@pytest.fixture(scope="module")
def series(run: RunFolder, snapshot: MarketSnapshot) -> Any:
    return to_plain(make_series(run, CARD, typed(card_of(run.path)), snapshot))


@pytest.fixture(scope="module")
def decisions(run: RunFolder) -> Any:
    return to_plain(make_decisions(run, CARD, typed(card_of(run.path))))


@pytest.fixture(scope="module")
def ledgers(run: RunFolder) -> dict[str, Ledger]:
    return {spec.id: run.load_ledger(spec) for spec in run.manifest.specs}


@pytest.mark.exhaustive
def test_episodes_follow_the_order_of_the_card(series: Any, decisions: Any, run: RunFolder) -> None:
    wanted = [
        (entry["id"], entry["window"], entry["seed"]) for entry in card_of(run.path)["episodes"]
    ]

    assert "asset" not in series["episodes"][0], (
        "only tasks with figures against the Buy & Hold of one asset have its price"
    )

    for document in (series, decisions):
        assert [
            (entry["id"], entry["window"], entry["seed"]) for entry in document["episodes"]
        ] == wanted

    assert len(wanted) == 4


def test_levels_and_lines_match_the_ledger_and_the_card(
    series: Any, run: RunFolder, ledgers: dict[str, Ledger]
) -> None:
    card = card_of(run.path)
    paid = 0
    metrics = {entry["id"]: entry["metrics"] for entry in card["episodes"]}

    for episode in series["episodes"]:
        ledger = ledgers[episode["id"]]
        assert episode["nav"] == pytest.approx(ledger.nav / ledger.nav[0], rel=1e-5)
        assert episode["days"] == [step.filled_on for step in ledger.steps]
        assert episode["base_day"] == ledger.steps[0].decided_on
        assert episode["names"] == [len(step.positions) for step in ledger.steps]
        assert episode["invested"] == pytest.approx(
            [s.holdings_minor / s.nav_minor for s in ledger.steps], rel=1e-5
        )
        gross = 1.0
        before = ledger.initial_cash_minor
        # earns each day what was earned before fees
        for number, step in enumerate(ledger.steps, start=1):
            fees = sum(order.fee_minor for order in step.orders)
            paid = paid + fees
            gross = gross * (step.nav_minor + fees) / before
            before = step.nav_minor
            assert episode["gross_nav"][number] == pytest.approx(gross, rel=1e-5)

        assert episode["gross_nav"][-1] > episode["nav"][-1]
        reference = card["reference"]["benchmark_buy_and_hold"][episode["window"]]["metrics"][
            "total_return"
        ]["value"]
        assert (episode["benchmark"][0], episode["benchmark_reason"]) == (1.0, None)
        assert episode["benchmark"][-1] - 1.0 == pytest.approx(reference, abs=1e-5)
        annual = sum(episode["turnover"]) * 252 / len(episode["days"])
        assert annual == pytest.approx(metrics[episode["id"]]["turnover"]["value"], rel=1e-4)
        lines = [episode[name] for name in ("common", "industry", "style", "selection", "trading")]
        assert {len(line) for line in lines} == {len(episode["days"])}
        assert sum(line[-1] for line in lines) == pytest.approx(
            episode["nav"][-1] - 1.0, abs=TOLERANCE
        )

    assert paid > 0


def test_lines_match_the_attribution(
    series: Any, ledgers: dict[str, Ledger], snapshot: MarketSnapshot
) -> None:
    for episode in not_empty(series["episodes"]):
        split = attribute(ledgers[episode["id"]], snapshot)
        column = split.line_names.index("selection")
        assert episode["selection"] == pytest.approx(
            np.cumsum(split.linked_lines[:, column]).tolist(), rel=1e-5
        )
        assert episode["selection_daily"] == pytest.approx(split.selection.tolist(), rel=1e-5)
        assert list(episode["exposures"]) == list(split.factor_names)
        assert list(episode["exposures"].values()) == pytest.approx(
            split.mean_exposures().tolist(), rel=1e-5
        )


def test_envelope_is_the_one_that_anyone_gets(
    series: Any, ledgers: dict[str, Ledger], snapshot: MarketSnapshot
) -> None:
    episode = series["episodes"][0]
    ledger = ledgers[episode["id"]]
    trading = load_plugins().make_task("blinded_open_research").trading
    wanted = random_envelope(ledger, snapshot, trading)

    assert episode["envelope"]["rank"] == pytest.approx(wanted.rank)
    assert episode["envelope"]["p_value"] == pytest.approx(wanted.p_value, rel=1e-5)
    assert episode["envelope"]["paths"] == 200
    assert len(episode["envelope"]["bands"]) == len(episode["envelope"]["levels"]) == 5

    for shown, band in zip(episode["envelope"]["bands"], wanted.bands, strict=True):
        assert shown == pytest.approx((band / ledger.nav[0]).tolist(), rel=1e-5)


@pytest.mark.exhaustive
def test_a_model_that_never_trades_has_reasons_in_the_place_of_figures(
    market: Path, snapshot: MarketSnapshot, tmp_path: Path
) -> None:
    run = RunFolder.load(make_run(tmp_path / "run", market, "builtin/hold"))
    series = to_plain(make_series(run, CARD, typed(card_of(run.path)), snapshot))
    (episode,) = series["episodes"]

    assert episode["envelope"] is None
    assert episode["envelope_reason"] == "no order was filled"
    assert set(episode["exposures"].values()) == {None}
    assert set(episode["nav"]) == {1.0}
    assert {*episode["selection"], *episode["turnover"], *episode["invested"]} == {0.0}


def test_market_without_a_benchmark_has_no_benchmark_curve_or_figures(
    run: RunFolder, snapshot: MarketSnapshot
) -> None:
    levels = snapshot.benchmark.copy()
    levels[snapshot.day_index("2024-03-04")] = np.nan
    holed = dataclasses.replace(snapshot, indices={snapshot.meta.benchmark: levels})
    series = to_plain(make_series(run, CARD, typed(card_of(run.path)), holed))
    by_window = {episode["window"]: episode for episode in series["episodes"]}
    first, other = (by_window[window] for window in WINDOWS)

    assert (first["benchmark"], first["benchmark_reason"]) == (
        None,
        "the market lacks a level of the benchmark",
    )
    assert other["benchmark_reason"] is None

    rules = rules_of([WindowRule("W1", "2024-03-01", "2024-03-08")], snapshot)
    market = to_plain(make_market(rules, rules.snapshots[0], holed))
    (window,) = market["windows"]

    assert (window["regime"], window["sharpe"], window["total_return"]) == ("unknown", None, None)
    assert None in market["benchmark"]


def test_a_card_of_another_run_is_refused(run: RunFolder, snapshot: MarketSnapshot) -> None:
    card = card_of(run.path)
    card["episodes"][0]["id"] = "0" * 20
    with pytest.raises(StoreError, match="no episode 00000000000000000000"):
        make_series(run, CARD, typed(card), snapshot)

    with pytest.raises(StoreError, match="its card belongs to another run"):
        make_decisions(run, CARD, typed(card))


def test_decisions_tell_every_step_and_order_of_the_ledger(
    decisions: Any, ledgers: dict[str, Ledger]
) -> None:
    providers = set()
    for episode in decisions["episodes"]:
        for shown, step in zip(episode["steps"], ledgers[episode["id"]].steps, strict=True):
            providers.add(shown["by"])
            assert (shown["day"], shown["decided_on"], shown["by"]) == (
                step.filled_on,
                step.decided_on,
                step.provenance,
            )
            for order, recorded in zip(shown["orders"], step.orders, strict=True):
                assert (order["side"], order["status"], order["rule"]) == (
                    recorded.side, recorded.status, recorded.rule,
                )  # fmt: skip
                assert order["filled"] == recorded.filled_shares
                assert order["code"] == (recorded.code or recorded.stock_id)[:40]
                assert order["price"] == (
                    recorded.price_ticks / 10_000 if recorded.filled_shares else None
                )

    assert {"model", "fallback"} <= providers  # chaos does both


def test_an_order_states_the_requested_weight_or_shares() -> None:
    cases = (
        (0.08, None, "8 %"),
        (0.0, None, "0 %"),
        (0.04999, None, "4.999 %"),
        (None, 300, "300 shares"),
        (None, 1, "1 share"),
    )

    for weight, shares, words in cases:
        assert (
            describe_order(
                from_plain(order_dict(target_weight=weight, shares=shares), OrderRecord, "order")
            )
            == words
        )


@on_each_row(
    "text, shown",
    (("buy\nnow\ttoday"), "buy now today"),
    ("\u202eevil\u202c text", "evil text"),
    ("zero\u200bwidth\ufeff", "zero width"),
    ("\x1b[31mred", "[31mred"),
    ("\u2028line\u2029", "line"),
    # shown as text, never as markup
    ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("市场 上涨 é", "市场 上涨 é"),
    ("", ""),
    ("xxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxxx"),
    ("xxxxxxxxxxxxxxxxxxxxx", "xxxxxxxxxxxxxxxxxxx…"),
)
def test_a_models_words_become_one_plain_line(text: str, shown: str) -> None:
    assert plain_line(text, 20 if set(text) == {"x"} else 160) == shown


def test_holdings_are_weights_at_the_close_largest_first(decisions: Any, series: Any) -> None:
    for episode, lines in not_empty(zip(decisions["episodes"], series["episodes"], strict=True)):
        for step, invested in not_empty(zip(episode["steps"], lines["invested"], strict=True)):
            weights = [weight for _, weight in step["holdings"]]
            assert weights == sorted(weights, reverse=True)
            assert sum(weights) == pytest.approx(invested, abs=1e-5)


def rules_of(
    windows: list[WindowRule], snapshot: MarketSnapshot, others: tuple[WindowRule, ...] = ()
) -> Rules:
    market = SnapshotRule("small", snapshot.id)
    asked = {"one": tuple(windows), "two": others}
    divisions = [
        Division(
            id=name,
            task="t",
            version="1",
            hash="f" * 64,
            snapshot="small",
            windows=windows,
            seeds=(0,),
        )
        for name, windows in asked.items()
        if windows
    ]

    return Rules("small", "Small", "synthetic", (market,), tuple(divisions))


def test_figures_of_a_market_match_the_cards_reference(
    run: RunFolder, snapshot: MarketSnapshot
) -> None:
    windows = [
        WindowRule(window["name"], window["first"], window["last"])
        for window in card_of(run.path)["windows"]
    ]
    rules = rules_of(windows, snapshot)
    market = to_plain(make_market(rules, rules.snapshots[0], snapshot))
    reference = card_of(run.path)["reference"]["benchmark_buy_and_hold"]

    for window in market["windows"]:
        for name in ("total_return", "sharpe", "max_drawdown"):
            assert window[name] == pytest.approx(
                reference[window["name"]]["metrics"][name]["value"], rel=1e-5
            ), name

    assert (market["days"][0], market["days"][-1]) == (
        reference[WINDOWS[0]]["base_day"],
        "2024-03-15",
    )

    whole = slice(snapshot.day_index(market["days"][0]), snapshot.day_index("2024-03-15") + 1)
    assert market["benchmark"] == pytest.approx(snapshot.benchmark[whole].tolist(), rel=1e-5)
    assert market["snapshot"]["synthetic"] is True

    levels = np.array(market["benchmark"])
    stop = market["days"].index("2024-03-08") + 1
    returns = np.diff(levels[:stop]) / levels[: stop - 1]

    assert market["windows"][0]["volatility"] == pytest.approx(
        np.std(returns, ddof=1) * np.sqrt(252), rel=1e-3
    ), "annualised"


def test_a_window_of_two_divisions_is_listed_once_and_all_are_in_order(
    snapshot: MarketSnapshot,
) -> None:
    early = WindowRule("W1", "2024-01-02", "2024-01-31")
    late = WindowRule("W2", "2024-02-01", "2024-02-29")
    other = WindowRule("W1", "2024-01-02", "2024-02-15")
    rules = rules_of([late, early], snapshot, (early, other))

    assert windows_of(rules, rules.snapshots[0]) == [early, other, late]

    market = make_market(rules, SnapshotRule("of no division", snapshot.id), snapshot)
    assert (list(market.days), list(market.windows)) == ([], [])

    rules = rules_of([WindowRule("W9", "2031-01-02", "2031-02-01")], snapshot)

    with pytest.raises(DataError, match="lies outside the data"):
        make_market(rules, rules.snapshots[0], snapshot)


# ==== curves of the cards of arenas, and which boards have their pages


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


@pytest.mark.exhaustive
def test_series_of_an_asset_have_its_adjusted_price(frame: Frame) -> None:
    market = open_snapshot(load_plugins(()), "synthetic_arena", {})
    for episode in not_empty(frame[1]["episodes"]):
        rows = [market.day_index(day) for day in (episode["base_day"], *episode["days"])]
        prices = (market.close * market.factor)[rows, market.asset_index["TSLA"]]
        known = np.isfinite(prices)
        assert known[0]
        np.testing.assert_allclose(
            np.array(episode["asset"])[known], prices[known] / prices[0], rtol=1e-5
        )
        assert all(
            now == before
            for now, before, fresh in zip(
                episode["asset"][1:], episode["asset"], known[1:], strict=False
            )
            if not fresh
        )


def invested_by_step(episode: Any) -> list[float]:
    return [sum(weight for _, weight in step.holdings) for step in episode.steps]


def has_sold(step: Any) -> bool:
    return any(order.side == "SELL" and order.filled for order in step.orders)


def test_curves_are_medians_and_ranges_over_seeds(frame: Frame, board: Path) -> None:
    series = from_plain(frame[1], Series, "series")
    decisions = from_plain(frame[2], Decisions, "decisions")
    (division,) = load_rules(board).divisions
    drawn: Any = curves(division, [(series, decisions)])
    first, second = (np.array(episode.nav) - 1 for episode in series.episodes)
    card = drawn["cards"][series.card]["live"]
    middle, low, high = (np.array(line) for line in card["after"])
    np.testing.assert_allclose(middle, (first + second) / 2, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(
        [low, high], [np.minimum(first, second), np.maximum(first, second)], rtol=1e-5, atol=1e-12
    )

    assert card["seeds"] == 2
    assert len(card["before"]) == 3

    weights = np.array([invested_by_step(episode) for episode in decisions.episodes])
    assert card["long"] == (weights > 0).sum(axis=0).tolist()
    assert card["short"] == (weights < 0).sum(axis=0).tolist()
    assert max(card["short"]) > 0

    steps = chain.from_iterable(episode.steps for episode in decisions.episodes)
    assert sum(card["sell"]) == sum(has_sold(step) for step in steps)
    assert drawn["windows"]["live"]["days"][0] == "2025-08-01"
    assert drawn["windows"]["live"]["benchmark"] is None
    assert curves(division, [])["cards"] == {}


def exchange(role: str, system: str, reply: str) -> dict[str, Any]:
    state = {"candidates": {"columns": ["stock_id"], "rows": [["asset_1"], ["asset_2"]]}}
    sent = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"```json\n{json.dumps(state)}\n```"},
    ]
    return {
        "kept": 0,
        "sent": sent,
        "reply": {"content": reply, "finish_reason": "stop"},
        "role": role,
    }


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

    assert signal_counts([talk, talk]) == counts, (
        "the manager is no analyst, and nothing turns the text round"
    )
    assert signal_counts([]) == {}

    many = TranscriptEntry(
        step=0, exchanges=tuple(exchange(f"r{n:03}", asked, "") for n in range(50)), submission=None
    )

    assert list(signal_counts([many])) == [f"r{n:03}" for n in range(40)]


@pytest.mark.exhaustive
def test_curves_of_a_fund_sum_orders_weights_and_signals(fund: Frame, board: Path) -> None:
    series = fund[1]
    decisions = copy.deepcopy(fund[2])

    assert all(
        "signals" not in episode and "asset" not in days
        for episode, days in zip(decisions["episodes"], series["episodes"], strict=True)
    )

    decisions["episodes"][0]["signals"] = {"news": {"Bullish": 3, "no_signal": 1}}
    (division,) = load_rules(board).divisions
    given = from_plain(series, Series, "series"), from_plain(decisions, Decisions, "decisions")
    card = curves(division, [given])["cards"][series["card"]]["live"]  # type: ignore[index,call-overload]  # JSON
    steps = list(chain.from_iterable(episode["steps"] for episode in decisions["episodes"]))
    orders = Counter[str]()

    for step in steps:
        orders.update(order["side"] if order["filled"] else "unfilled" for order in step["orders"])

    assert card["orders"] == orders
    assert sum(orders.values()) > 10

    weights = []

    for step in steps:
        weights += [weight for _, weight in step["holdings"]]

    assert sum(card["held"].values()) == pytest.approx(sum(weights) / len(steps), rel=1e-5)
    assert card["signals"] == {"news": {"Bullish": 3, "Bearish": 0, "Neutral": 0, "no_signal": 1}}


@pytest.mark.exhaustive
def test_only_boards_with_figures_of_an_arena_have_its_page_and_files(
    board: Path, tmp_path: Path
) -> None:
    build_site(board, tmp_path / "site", workers=1)
    files = {
        path.relative_to(tmp_path / "site").as_posix() for path in (tmp_path / "site").rglob("*")
    }

    assert files >= ARENA | {"data/curves/division-0.js", "data/curves/division-0.json"}
    assert (
        len(
            read_data_file((tmp_path / "site" / "data" / "curves" / "division-0.js").read_bytes())[
                "cards"
            ]
        )
        == 6
    )

    practice = Path(__file__).parents[3] / "leaderboards" / "practice"
    build_site(practice, tmp_path / "other", workers=1)
    others = {
        path.relative_to(tmp_path / "other").as_posix() for path in (tmp_path / "other").rglob("*")
    }

    assert not others & ARENA
    assert not others & {"deepfund.html", "assets/deepfund.js"}
    assert "data/curves" not in others
    assert "assets/choices.js" in others

    rules = Rules(name="b", title="Board", market="real", snapshots=(), divisions=())
    assert "ama.html" not in render_pages(rules)
    assert "market.html" not in render_pages(rules)
