"""Records of other markets as they are shown and handed on: pages, frames and a board's documents against the vendor's files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.errors import UsageError
from ktdeval.market import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import JournalEntry, RunFolder
from ktdeval.trading import Ledger, MarketRules
from ktdeval.typed import encode_canonical, to_plain
from ktdeval_board.series import make_decisions, make_series
from view_page import days_of, head_of, pages

STOCKS = ("AAPL", "ASML", "COST", "LIN", "PLTR", "TSLA")
WINDOW = "2025-08-01:2025-09-30"
CARD = "c" * 64


@pytest.fixture(scope="module")
def bars(shared_data: Path) -> pd.DataFrame:
    stocks = pd.read_csv(shared_data / "us_daily" / "nasdaq100_daily.csv.gz")
    coins = pd.read_csv(shared_data / "crypto_daily" / "crypto10_daily.csv.gz")
    chosen = [stocks[stocks["code"].isin(STOCKS)], coins[coins["code"].isin(["ADA", "BTC"])]]
    both = pd.concat(chosen)[["date", "code", "open", "high", "low", "close", "volume"]]
    return both[both["date"].between("2025-06-02", "2025-10-30")]


@pytest.fixture(scope="module")
def run(bars: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    bars.to_csv(folder / "bars.csv", index=False)
    (folder / "assets.csv").write_text("code,venue\nADA,crypto_spot\nBTC,crypto_spot\n", encoding="utf-8")
    asked = ["--bars", "bars.csv", "--industry", "assets.csv", "--venue", "us_equity", "--out", "market"]
    asked = [str(folder / word) if word in ("bars.csv", "assets.csv", "market") else word for word in asked]
    assert main(["data", "import", "long", *asked]) == 0
    options: dict[str, Any] = {"windows": WINDOW, "model_args": {"short_probability": 0.5, "sell_probability": 0.3}}
    ktdeval.evaluate(
        "builtin/random", "market_blinded", data=str(folder / "market"), out=str(folder / "run"), quiet=True, **options
    )
    return folder / "run"


@pytest.fixture(scope="module")
def opens(bars: pd.DataFrame) -> dict[tuple[str, str], float]:
    return {(row.date, row.code): row.open for row in bars.itertuples(index=False)}


@pytest.fixture(scope="module")
def closes(bars: pd.DataFrame) -> dict[tuple[str, str], float]:
    return {(row.date, row.code): row.close for row in bars.itertuples(index=False)}


def test_pages_show_shares_coins_prices_and_dollars(
    run: Path, opens: dict[tuple[str, str], float], closes: dict[tuple[str, str], float]
) -> None:
    assert main(["view", str(run)]) == 0
    (page,) = pages(run / "view")
    head, kinds = head_of(page), set()
    assert (head["initial_cash"], head["currency"], head["is_exact"], head["notes"]) == (100_000.0, "USD", True, [])
    for row, day in zip(head["rows"], days_of(page), strict=True):
        step = day["step"]
        assert step["nav"] == row["nav"] == pytest.approx(step["cash"] + sum(one["value"] for one in step["positions"]), abs=0.001)
        for one in step["positions"]:
            assert one["value"] == pytest.approx(one["shares"] * one["price"], abs=0.006)
            assert closes.get((step["filled_on"], one["code"]), one["price"]) == one["price"]
            kinds.add((one["code"] in STOCKS, one["shares"] > 0))
        for order, fact, brief in zip(step["orders"], day["facts"], row["orders"], strict=True):
            if order["filled_shares"]:
                assert order["price"] == opens[step["filled_on"], order["code"]] == fact["open"] == brief[4]
                assert order["notional"] == pytest.approx(order["price"] * order["filled_shares"], abs=0.011)
        kinds |= {charge["kind"] for charge in step["charges"]}
    assert kinds == {(True, True), (True, False), (False, True), "borrow"}


def test_a_board_shows_fractions_and_no_random_traders_beside_shorts(run: Path, opens: dict[tuple[str, str], float]) -> None:
    folder, evaluation = RunFolder.load(run), ktdeval.load_run(run)
    (card,), orders = evaluation.cards, evaluation.orders()
    decisions: Any = to_plain(make_decisions(folder, CARD, card))  # type: ignore[arg-type]  # a trading card
    (episode,) = decisions["episodes"]
    told = [(step["day"], order) for step in episode["steps"] for order in step["orders"] if order["filled"]]
    assert [order["filled"] for _, order in told] == pytest.approx(
        orders.filled_shares[orders.filled_shares > 0].tolist(), rel=1e-5
    )
    assert all(order["price"] == pytest.approx(opens[day, order["code"]], rel=1e-5) for day, order in told)
    assert any(order["filled"] % 1 for _, order in told)
    assert min(weight for step in episode["steps"] for _, weight in step["holdings"]) < -0.001
    series: Any = to_plain(make_series(folder, CARD, card, load_snapshot(run.parent / "market")))  # type: ignore[arg-type]  # as above
    (line,) = series["episodes"]
    assert (line["envelope"], line["envelope_reason"]) == (None, "the agent sold short, and random traders do not")
    ledger = folder.load_ledger(folder.manifest.specs[0])
    assert line["nav"] == pytest.approx(ledger.nav / 100_000.0, rel=1e-5)
    assert line["gross_nav"][-1] > line["nav"][-1]
    assert evaluation.equity().iloc[-1, 0] == pytest.approx(ledger.nav[-1] / 100_000.0)
    with pytest.raises(UsageError, match=r"has no index to set beside the NAV; leave out benchmark=True"):
        evaluation.equity(benchmark=True)


def test_a_report_draws_shorts_below_zero_and_says_why_there_are_no_random_traders(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "--out", str(tmp_path / "report.html")]) == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No random traders: the agent sold short, and random traders do not." in text
    assert "sold short and" in text
    assert "CNY" not in text


def test_an_unfinished_episode_has_the_units_of_its_market_or_none(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.load(run)
    (spec,), market = folder.manifest.specs, load_snapshot(run.parent / "market")
    ledger, transcript = folder.load_ledger(spec), folder.load_transcript(spec)
    rules = MarketRules.of(market, load_plugins().make_task(spec.task).trading)
    assert Ledger(ledger.spec, ledger.initial_cash_minor, ledger.steps).in_units_of(market, rules) == ledger
    shutil.copytree(run, tmp_path / "run")
    episode = RunFolder.load(tmp_path / "run").episode_path(spec)
    for file in episode.iterdir():
        file.unlink()
    entries = [JournalEntry(step=step, transcript=said, memory=None) for step, said in zip(ledger.steps, transcript, strict=True)]
    (episode / "journal.jsonl").write_text("".join(f"{encode_canonical(entry)}\n" for entry in entries[:20]), encoding="utf-8")
    assert main(["view", str(tmp_path / "run"), "--data", str(run.parent / "market")]) == 0
    (page,) = pages(tmp_path / "run" / "view")
    whole = [day["step"] for day in days_of(pages(run / "view")[0])]
    assert [day["step"] for day in days_of(page)] == whole[:20]
    shutil.move(run.parent / "market", run.parent / "away")
    try:
        capsys.readouterr()
        assert main(["view", str(tmp_path / "run"), "--out", str(tmp_path / "other")]) != 0
    finally:
        shutil.move(run.parent / "away", run.parent / "market")
    told = capsys.readouterr().err
    assert "the units of an unfinished episode that is not in A-shares are those of its market: it is not at hand" in told
    assert told.count("\n") == 1
