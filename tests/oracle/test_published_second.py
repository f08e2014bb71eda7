"""The second computation of published boards: its parts by hand, and a few figures of the real files."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from oracle.published import (
    accounts,
    ai_trader,
    alpha_arena,
    common,
    compute,
    finsaber,
    log_scan,
    micro_cap,
    stock_benchmark,
    tradetrap,
)
from oracle.published.accounts import Account, Rules


def account(folder: Path, rows: list[tuple[Any, ...]], cash: float = 1000.0) -> Account:
    """Write a position file: (date, id, action, symbol, amount, positions with CASH) after the start."""
    start = {"date": "2025-01-01", "id": 0, "positions": {"CASH": cash}}
    lines = [json.dumps(start)]
    for date, number, action, symbol, amount, positions in rows:
        done = {"action": action, "symbol": symbol, "amount": amount}
        lines.append(
            json.dumps({"date": date, "id": number, "this_action": done, "positions": positions})
        )
    path = folder / "position.jsonl"
    path.write_text("\n".join(lines))
    return accounts.read_account(path)


def fixed(prices: dict[tuple[str, str], float]) -> accounts.Price:
    """Prices by symbol and moment."""
    return lambda symbol, moment: prices.get((symbol, moment))


def test_ratios_by_hand() -> None:
    """Returns 1, 2, 3 %: mean 2, deviation 1; drawdown 25 % from 120 to 90."""
    assert common.sharpe([0.01, 0.02, 0.03], 1) == pytest.approx(2.0)
    assert common.sharpe([0.01, 0.01], 252) is None
    assert common.max_drawdown([100, 120, 90, 130]) == pytest.approx(0.25)
    assert common.money_drawdown([5, -8, 2]) == pytest.approx(-8)
    assert common.psr([0.01, -0.01, 0.01, -0.01]) == pytest.approx(0.5)
    assert common.best_of(10) == pytest.approx(1.5746, abs=1e-4)
    assert common.days_needed(1.0, 252) == pytest.approx(6.18256 * (252 + 0.5), rel=1e-4)
    assert common.holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


def board() -> stock_benchmark.Board:
    """Three names over five days; KLAC splits 10:1 on the fourth day, BNY has no last close."""
    days = ["20260608", "20260609", "20260610", "20260611", "20260612"]
    names = ["AAA", "KLAC", "BNY"]
    closes = np.array(
        [[10, 1000, 5], [10, 1000, 5], [11, 1000, 5], [11, 110, 5], [11, 110, 0]], dtype=float
    )
    ranks = {"s": {day: ["KLAC", "AAA", "BNY"] for day in days[:3]}}
    empty = pd.DataFrame()
    return stock_benchmark.Board(days, names, closes, closes, ranks, {}, empty, {})


def test_ladder_split_and_missing_exit() -> None:
    """KLAC is worth +250 USD, so its split costs 222.50 as booked and gains 25 when undone."""
    toy = board()
    booked = stock_benchmark.gains(toy, toy.closes, "s")
    assert booked.to_dict() == pytest.approx({"20260608": 0.0, "20260609": -222.5, "20260610": 0.0})
    undone = stock_benchmark.gains(toy, stock_benchmark.split_repaired(toy), "s")
    assert undone["20260609"] == pytest.approx(25.0)
    lost = stock_benchmark.gains(toy, toy.closes, "s", "entry", "loss")
    assert lost["20260610"] == pytest.approx(250.0), "the short of BNY, booked as -100 %"


def test_traded_money_of_a_ladder() -> None:
    """Held unchanged: opened with 500, KLAC grown to 275 is cut to 250, the last day drops to two names."""
    toy = board()
    toy.closes[4, 2] = 5.0
    repaired = stock_benchmark.split_repaired(toy)
    volume = stock_benchmark.traded(toy, repaired, "s")
    assert volume["changed"] == pytest.approx(500 + 0 + 25 + 500)
    assert volume["targets"] == pytest.approx(1000)
    assert volume["round_trip"] == pytest.approx(1000 + 1025 + 1000)


def test_deadline_is_the_close_of_the_entry_day() -> None:
    """Also where the entry day is not in the files: Friday's rank enters on Monday."""
    toy = board()
    assert stock_benchmark.deadline(toy, "20260608") == dt.datetime(2026, 6, 9, 20, tzinfo=dt.UTC)
    assert stock_benchmark.deadline(toy, "20260612").date() == dt.date(2026, 6, 15)


def test_forked_rows_follow_their_ids(tmp_path: Path) -> None:
    """A second row 2 begins from row 1: the first row 2 is abandoned, though later in no file order."""
    forked = account(
        tmp_path,
        [
            ("2025-01-02", 1, "buy", "X", 10, {"X": 10, "CASH": 900}),
            ("2025-01-03", 2, "buy", "X", 10, {"X": 20, "CASH": 790}),
            ("2025-01-04", 2, "sell", "X", 5, {"X": 5, "CASH": 960}),
        ],
    )
    assert forked.chain == [0, 1, 3]
    assert accounts.fill_price(forked, 3) == pytest.approx(12.0)
    assert accounts.fill_price(forked, 3, by_id=False) == pytest.approx(34.0)
    assert accounts.consistency(forked) == {"file_order": 1, "by_id": 0}
    close = fixed({("X", f"2025-01-0{day}"): 12.0 for day in (2, 3, 4)})
    days = ["2025-01-02", "2025-01-03", "2025-01-04"]
    assert accounts.declared_nav(forked, days, close) == [1000, 1020, 1030, 1020]
    assert accounts.declared_nav(forked, days, close, chain=True) == [1000, 1020, 1020, 1020]


def test_convention_and_same_day_sale(tmp_path: Path) -> None:
    """Bought 100 at the open, 60 of them sold on the same day with 40 held before."""
    traded = account(
        tmp_path,
        [
            ("2025-01-02 10:30:00", 1, "buy", "600000.SH", 40, {"600000.SH": 40, "CASH": 600}),
            ("2025-01-03 10:30:00", 2, "buy", "600000.SH", 100, {"600000.SH": 140, "CASH": -400}),
            ("2025-01-03 11:30:00", 3, "sell", "600000.SH", 100, {"600000.SH": 40, "CASH": 700}),
        ],
    )
    opens = fixed({("600000.SH", row.moment): 10.0 for row in traded.rows[:3]})
    found = accounts.conventions(traded, {"open": opens})
    assert found["matches"] == {"open": 2}
    assert found["unmatched"] == [["2025-01-03 11:30:00", "600000.SH", -100.0, 11.0]]
    broken = accounts.violations(traded)
    assert (broken["t1_rows"], broken["t1_shares"]) == (1, 60.0)
    assert broken["lot_rows"] == 1, "a buy of 40"


def test_gap_by_cause(tmp_path: Path) -> None:
    """Declared buys 200 at 4, honest price 5: cash allows 100 with the fee of 5. All end at 6."""
    bought = account(
        tmp_path, [("2025-01-02", 1, "buy", "600000.SH", 200, {"600000.SH": 200, "CASH": 200})]
    )
    day = "2025-01-02"
    honest = fixed({("600000.SH", day): 5.0})
    close = fixed({("600000.SH", day): 6.0})
    rules = Rules(lot=100, t_plus_1=True, buy_fee=ai_trader.buy_cn, sell_fee=ai_trader.sell_cn)
    found = accounts.gap(bought, [day], honest, close, rules)
    assert found["declared"] == pytest.approx(0.4)
    assert found["gap"] == pytest.approx(
        {"rows_left_out": 0.0, "price": -0.2, "rules": 0.0, "fees": -0.105, "residual": 0.0}
    )
    assert found["executed"] == pytest.approx(0.095)
    assert found["cut"] == {"cash": 1}


@pytest.mark.parametrize(
    ("symbol", "shares", "allowed", "cause"),
    [
        ("600000.SH", 150, 100, "lot"),
        ("688981.SH", 100, 0, "star_minimum"),
        ("688981.SH", 201, 201, ""),
        ("600000.SH", -200, -100, "t_plus_1"),
        ("600000.SH", -500, -100, "t_plus_1"),
        ("600000.SH", -100, -100, ""),
        ("600009.SH", -60, -60, ""),
        ("600009.SH", -50, 0, "lot"),
    ],
)
def test_rules_cut_orders(symbol: str, shares: float, allowed: float, cause: str) -> None:
    """260 are held, 100 of them bought today; an odd lot of 60 is sold whole or not at all."""
    held = {"600000.SH": 260.0, "600009.SH": 60.0}
    state = accounts._State(1e6, held, {"600000.SH": 100.0})
    rules = Rules(lot=100, star_minimum=200, t_plus_1=True)
    assert accounts._allowed(state, symbol, shares, 10.0, rules) == (allowed, cause)


def test_random_symbols_spend_the_same_share_of_cash(tmp_path: Path) -> None:
    """Half the cash in X, which doubles; in Y, which stays, nothing is gained."""
    bought = account(tmp_path, [("2025-01-02", 1, "buy", "X", 5, {"X": 5, "CASH": 500})])
    steps = compute.ai_trader.random_symbols.steps_of(bought)
    assert [(step.symbol, step.share) for step in steps] == [("X", 0.5)]


def write_log(folder: Path, moment: str, texts: list[tuple[str, str]]) -> None:
    """Write one log: role and text of each message."""
    place = folder / "log" / moment
    place.mkdir(parents=True)
    rows = [{"new_messages": [{"role": role, "content": text}]} for role, text in texts]
    (place / "log.jsonl").write_text(" ".join(json.dumps(row) for row in rows))


def test_later_news_and_errors_are_different_kinds(tmp_path: Path) -> None:
    """News published after the day was shown; an error of the service only dates the run."""
    write_log(
        tmp_path,
        "2025-10-01 13_00_00",
        [
            ("user", "Tool results: Publish Time: 2025-10-30T20:05:49.919Z\nContent: up"),
            ("assistant", "Tool results: Publish Time: 2025-12-30T20:05:49.919Z"),
        ],
    )
    error = "Tool results: 'end_time' must be on or after 2025-10-31T12:45Z"
    write_log(tmp_path, "2025-10-02 10:00:00", [("user", error)])
    write_log(tmp_path, "2025-10-03 10:00:00", [("user", "Tool results: 2025-10-03")])
    today = "Tool results: Publish Time: 2025-10-06T16:00:00Z"
    write_log(tmp_path, "2025-10-06 11:00:00", [("user", today)])
    found = log_scan.scan(tmp_path)
    assert found["logs_by_kind"] == {"error": 1, "publish": 1}
    assert found["logs_only_error"] == 1
    assert found["logs_published_after_moment"] == 2, "12:00 in New York is after 11:00"
    assert found["proven_run_on_later_day"] == {"logs": 1, "days": 1}
    assert found["late_days"] == ["2025-10-02"]


def test_paired_effects() -> None:
    """Arm less base: -0.1 and 0.3, mean 0.1, half width 12.706 × 0.2."""
    values = {"base": {"a": 0.2, "b": 0.1}, "news": {"a": 0.1, "b": 0.4}}
    found = tradetrap.effects(values)["news"]
    assert found["mean"] == pytest.approx(0.1)
    assert found["interval95"] == pytest.approx(
        [0.1 - 12.7062 * 0.2, 0.1 + 12.7062 * 0.2], rel=1e-4
    )
    assert found["negative"] == 1


def test_clustered_error_is_that_of_statsmodels() -> None:
    """CR1 of a mean is the cluster-robust error of a regression on a constant."""
    random = np.random.default_rng(1)
    values = pd.Series(random.normal(size=60))
    clusters = pd.Series(random.integers(0, 7, size=60))
    fit = sm.OLS(values, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert finsaber.clustered_mean(values, clusters)["error"] == pytest.approx(fit.bse.iloc[0])


def test_sums_of_round_trips() -> None:
    """A short of two coins from 100 to 90 gains 20; fees of 1 and 1 are in entry and exit results."""
    trade = {
        "id": "t",
        "model_id": "m",
        "side": "short",
        "quantity": -2.0,
        "entry_price": 100.0,
        "exit_price": 90.0,
        "entry_time": 1.0,
        "exit_time": 2.0,
        "entry_tid": 1,
        "entry_commission_dollars": 1.0,
        "exit_commission_dollars": 1.0,
        "total_commission_dollars": 2.0,
        "entry_closed_pnl": -1.0,
        "exit_closed_pnl": 19.5,
        "realized_gross_pnl": 20.0,
        "realized_net_pnl": 18.5,
        "leverage": 1,
    }
    found = alpha_arena.checks(pd.DataFrame([trade]))
    wrong = {name for name, count in found.items() if count}
    assert wrong == {"net_is_not_gross_less_fees"}, "0.50 USD are in the exit result but no fee"


def test_cash_steps_explained_by_the_log() -> None:
    """A sale of 10 listed twice explains 20; once, it explains the step."""
    totals = pd.DataFrame({"Cash Balance": [110.0]}, index=["2025-07-01"])
    sale = {"Date": "2025-07-01", "Shares Bought": np.nan, "Cost Basis": 9.0}
    log = pd.DataFrame([sale | {"Shares Sold": 5.0, "Sell Price": 2.0}] * 2)
    step = micro_cap.cash_steps(totals, log, 100.0)[0]
    assert step["unexplained"] == pytest.approx(-10.0)
    assert step["unexplained_without_repeats"] == pytest.approx(0.0)


@pytest.mark.slow
@pytest.mark.shared_data
def test_figures_of_the_real_files(shared_data: Path, tmp_path: Path) -> None:
    """Cheap figures that any computation of these files must meet."""
    archives = shared_data / "published"
    if not archives.is_dir():
        pytest.skip(f"needs the archives in {archives}")
    folder = common.unpack(archives / "agent-stock-benchmark.tar.zst", tmp_path)
    board = stock_benchmark.read(folder)
    stated = {
        name: frame.set_index("ranking_date")["total_pnl"] for name, frame in board.stated.items()
    }
    commits = archives / "agent-stock-benchmark-commits.csv.gz"
    known = stock_benchmark.known_before(board, commits, stated)
    assert known["entrant_days"] == {"before": 229, "after": 603, "unknown": 0}
    assert known["entrant_days_scored"]["before"] == 213
    priced = stock_benchmark.costs(board, board.closes, stated)["entrants_with_gain_left"]
    assert priced["changed"] == {"0": 12, "1": 11, "5": 6, "10": 1}
    assert priced["round_trip"] == {"0": 12, "1": 10, "5": 0, "10": 0}

    base = common.unpack(archives / "tradetrap.tar.zst", tmp_path) / "data/agent_data"
    logs = log_scan.scan(base / tradetrap.ARMS["base"]["gpt"])
    assert (logs["logs"], logs["logs_shown_later_published"]) == (137, 61)

    trips = alpha_arena.compute(
        next((common.unpack(archives / "alpha-arena.tar.zst", tmp_path) / "snapshot").iterdir())
    )
    assert trips["trades"] == 253
    assert [name for name, figures in trips["entrants"].items() if figures["cut_list"]] == [
        "gemini-2.5-pro"
    ]

    small = micro_cap.compute(common.unpack(archives / "chatgpt-micro-cap.tar.zst", tmp_path))
    assert small["declared"]["total_return"] == pytest.approx(-0.1552)
    assert small["missing_days"] == ["2025-11-04"]
    assert len(small["cash_steps_unexplained_without_repeats"]) == 4
