"""Other markets end to end on real prices: every fill, cost, charge and NAV of a run is what the
slow broker makes of the vendor's files, and pages, frames and a board's documents show them. The
broker imports nothing of the executor; fees, rounding, interest and valuation are written out in
Decimals.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from itertools import chain
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
from ktdeval.testing import on_each_row
from ktdeval.trading import Ledger, MarketRules
from ktdeval.values import encode_canonical, to_plain
from ktdeval_board.derived_documents import make_decisions, make_series
from support.accept.accept_runs import verify
from support.market import reference_broker as slow
from support.pages.view_page import days_of, head_of, pages

Vendor = tuple[str, dict[str, pd.DataFrame], Callable[[str], slow.House]]
"""An imported market, [days, codes] tables of the vendor's files, and the rules of a code."""
MOST = (40, "0.25")
"""Names at once, and the largest weight of one, of the task."""
STOCKS = ("AAPL", "ASML", "COST", "LIN", "PLTR", "TSLA")
COINS = ("ADA", "BTC")
"""Of the market of both."""


def tables_of(bars: pd.DataFrame, splits: dict[tuple[str, str], int]) -> dict[str, pd.DataFrame]:
    """Raw prices and volumes; factors of splits; every asset is a member from its first bar to its
    last.
    """
    tables = {
        name: bars.pivot(index="date", columns="code", values=name)
        for name in ("open", "close", "volume")
    }
    factor = pd.DataFrame(1.0, tables["open"].index, tables["open"].columns)

    for (code, day), ratio in splits.items():
        factor.loc[day:, code] *= ratio

    known = tables["close"].notna()

    return {**tables, "factor": factor, "member": known.cummax() & known[::-1].cummax()[::-1]}


@pytest.fixture(scope="module")
def markets(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> dict[str, Vendor]:
    """NASDAQ-100, ten coins, and some of both, imported by the command."""
    folder = tmp_path_factory.mktemp("markets")
    us = shared_data / "us_daily" / "nasdaq100_daily.csv.gz"
    crypto = shared_data / "crypto_daily" / "crypto10_daily.csv.gz"
    stocks = pd.read_csv(us)
    coins = pd.read_csv(crypto)
    coins = coins[coins["date"] <= "2025-11-15"]
    both = pd.concat([stocks[stocks["code"].isin(STOCKS)], coins[coins["code"].isin(COINS)]])
    both = both.loc[
        both["date"].between("2025-06-02", "2025-10-30"),
        ["date", "code", "open", "high", "low", "close", "volume"],
    ]
    both.to_csv(folder / "both.csv", index=False)
    (folder / "assets.csv").write_text(
        "code,venue\nADA,crypto_spot\nBTC,crypto_spot\n", encoding="utf-8"
    )
    (folder / "splits.csv").write_text("code,date,ratio\nORLY,2025-06-10,15\n", encoding="utf-8")
    asked = {
        "nasdaq": f"--bars {us} --venue us_equity --splits {folder / 'splits.csv'}",
        "coins": f"--bars {crypto} --venue crypto_spot --last 2025-11-15",
        "both": f"--bars {folder / 'both.csv'} --industry {folder / 'assets.csv'} --venue us_equity",
    }

    for name, options in asked.items():
        assert main(f"data make long {options} --out {folder / name}".split()) == 0

    return {
        "nasdaq": (
            str(folder / "nasdaq"),
            tables_of(stocks, {("ORLY", "2025-06-10"): 15}),
            slow.us_stock,
        ),
        "coins": (str(folder / "coins"), tables_of(coins, {}), slow.coin),
        "both": (
            str(folder / "both"),
            tables_of(both, {}),
            lambda code: (slow.coin if code in COINS else slow.us_stock)(code),
        ),
    }


@pytest.mark.exhaustive
@on_each_row(
    "market, model, arguments, window",
    (
        "nasdaq",
        "builtin/momentum",
        {"by": "return_5d_pct", "positions": 10, "keep_rank": 20, "shorts": 10},
        "2025-06-09:2025-10-30",
    ),
    (
        "nasdaq",
        "builtin/random",
        {"short_probability": 0.5, "sell_probability": 0.2},
        "2025-06-04:2025-10-30",
    ),
    (
        "coins",
        "builtin/momentum",
        {"by": "return_20d_pct", "positions": 4, "keep_rank": 5},
        "2024-12-20:2025-11-15",
    ),
    ("coins", "builtin/random", {"sell_probability": 0.2}, "2024-11-23:2025-11-15"),
    (
        "both",
        "builtin/random",
        {"sell_probability": 0.3, "short_probability": 0.3},
        "2025-06-04:2025-10-30",
    ),
)
def test_every_fill_cost_charge_and_nav_follows_from_the_vendors_file(
    market: str,
    model: str,
    arguments: dict[str, Any],
    window: str,
    markets: dict[str, Vendor],
    tmp_path: Path,
) -> None:
    folder, tables, house_of = markets[market]
    run = ktdeval.evaluate(
        model,
        "market_blinded",
        data=folder,
        windows=window,
        model_args=arguments,
        out=str(tmp_path / "run"),
        quiet=True,
    )
    store = RunFolder.load(run.folder)
    (spec,) = store.manifest.specs
    ledger = store.load_ledger(spec)

    assert (ledger.currency, ledger.initial_cash_minor) == ("USD", 10_000_000)

    seen = slow.keep(
        tables, ledger.steps, house_of, 100_000, MOST, 252 if market == "nasdaq" else 365
    )

    assert seen["BUY filled None"] > 20
    assert seen["SELL filled None"] > (5 if market == "both" else 20)
    assert (seen["short"] > 0) == ("short_probability" in arguments or "shorts" in arguments)

    if market == "both":
        assert seen["BUY rejected suspended"] > 0, (
            "the stock's exchange rests while the coin trades"
        )

    assert run.typed_cards[0].task.name == "market_blinded"
    verify(tmp_path / "run")


# ---- records as they are shown and handed on, against the vendor's files


WINDOW = "2025-08-01:2025-09-30"
CARD = "c" * 64


@pytest.fixture(scope="module")
def both(markets: dict[str, Vendor]) -> Path:
    return Path(markets["both"][0])


@pytest.fixture(scope="module")
def prices(markets: dict[str, Vendor]) -> dict[str, pd.DataFrame]:
    return markets["both"][1]


@pytest.fixture(scope="module")
def run(both: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options: dict[str, Any] = {
        "windows": WINDOW,
        "model_args": {"short_probability": 0.5, "sell_probability": 0.3},
    }
    out = str(tmp_path_factory.mktemp("pages") / "run")
    return ktdeval.evaluate(
        "builtin/random", "market_blinded", data=str(both), out=out, quiet=True, **options
    ).folder


@pytest.mark.exhaustive
def test_pages_show_shares_coins_prices_and_dollars(
    run: Path, prices: dict[str, pd.DataFrame]
) -> None:
    assert main(["view", str(run)]) == 0

    (page,) = pages(run / "view")
    head = head_of(page)
    kinds = set()

    assert (head["initial_cash"], head["currency"]) == (100_000.0, "USD")
    assert (head["is_exact"], head["notes"]) == (True, [])

    for row, day in zip(head["rows"], days_of(page), strict=True):
        step = day["step"]
        assert (
            step["nav"]
            == row["nav"]
            == pytest.approx(
                step["cash"] + sum(one["value"] for one in step["positions"]), abs=0.001
            )
        )
        for one in step["positions"]:
            assert one["value"] == pytest.approx(one["shares"] * one["price"], abs=0.006)
            close = prices["close"].at[step["filled_on"], one["code"]]
            assert close == one["price"] or math.isnan(close)
            kinds.add((one["code"] in STOCKS, one["shares"] > 0))

        for order, fact, brief in zip(step["orders"], day["facts"], row["orders"], strict=True):
            if order["filled_shares"]:
                assert (
                    order["price"]
                    == prices["open"].at[step["filled_on"], order["code"]]
                    == fact["open"]
                    == brief[4]
                )
                assert order["notional"] == pytest.approx(
                    order["price"] * order["filled_shares"], abs=0.011
                )

        kinds |= {charge["kind"] for charge in step["charges"]}

    assert kinds == {(True, True), (True, False), (False, True), "borrow"}


def test_a_board_shows_fractions_and_no_random_traders_for_shorts(
    run: Path, both: Path, prices: dict[str, pd.DataFrame]
) -> None:
    folder = RunFolder.load(run)
    evaluation = ktdeval.load_run(run)
    (card,), orders = evaluation.typed_cards, evaluation.orders()
    decisions: Any = to_plain(make_decisions(folder, CARD, card))  # type: ignore[arg-type]  # a trading card
    (episode,) = decisions["episodes"]
    shown = []

    for step in episode["steps"]:
        shown += [(step["day"], order) for order in step["orders"] if order["filled"]]

    assert [order["filled"] for _, order in shown] == pytest.approx(
        orders.filled_shares[orders.filled_shares > 0].tolist(), rel=1e-5
    )
    assert all(
        order["price"] == pytest.approx(prices["open"].at[day, order["code"]], rel=1e-5)
        for day, order in shown
    )
    assert any(order["filled"] % 1 for _, order in shown)

    holdings = chain.from_iterable(step["holdings"] for step in episode["steps"])
    assert min(weight for _, weight in holdings) < -0.001

    series: Any = to_plain(make_series(folder, CARD, card, load_snapshot(both)))  # type: ignore[arg-type]  # as above
    (line,) = series["episodes"]

    assert line["envelope"] is None
    assert line["envelope_reason"] == "the agent sold short, and random traders do not"

    ledger = folder.load_ledger(folder.manifest.specs[0])
    assert line["nav"] == pytest.approx(ledger.nav / 100_000.0, rel=1e-5)
    assert line["gross_nav"][-1] > line["nav"][-1]
    assert evaluation.equity().iloc[-1, 0] == pytest.approx(ledger.nav[-1] / 100_000.0)

    with pytest.raises(
        UsageError, match=r"has no index to compare the NAV with; leave out benchmark=True"
    ):
        evaluation.equity(benchmark=True)


@pytest.mark.exhaustive
def test_a_report_draws_shorts_and_explains_missing_random_traders(
    run: Path, tmp_path: Path
) -> None:
    assert main(["view", "report", str(run), "--out", str(tmp_path / "report.html")]) == 0

    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "No random traders: the agent sold short, and random traders do not." in text
    assert "sold short and" in text
    assert "CNY" not in text


@pytest.mark.exhaustive
def test_an_unfinished_episode_has_the_units_of_its_market_or_none(
    run: Path, both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.load(run)
    (spec,), market = folder.manifest.specs, load_snapshot(both)
    ledger = folder.load_ledger(spec)
    transcript = folder.load_transcript(spec)
    rules = MarketRules.of(market, load_plugins().make_task(spec.task).trading)

    assert (
        Ledger(ledger.spec, ledger.initial_cash_minor, ledger.steps).in_units_of(market, rules)
        == ledger
    )

    shutil.copytree(run, tmp_path / "run")
    episode = RunFolder.load(tmp_path / "run").episode_path(spec)

    for file in episode.iterdir():
        file.unlink()

    entries = [
        JournalEntry(step=step, transcript=transcript_entry, memory=None)
        for step, transcript_entry in zip(ledger.steps, transcript, strict=True)
    ]
    (episode / "journal.jsonl").write_text(
        "".join(f"{encode_canonical(entry)}\n" for entry in entries[:20]), encoding="utf-8"
    )

    assert main(["view", str(tmp_path / "run"), "--data", str(both)]) == 0

    (page,) = pages(tmp_path / "run" / "view")
    assert main(["view", str(run), "--out", str(tmp_path / "whole")]) == 0

    (whole,) = pages(tmp_path / "whole")
    assert [day["step"] for day in days_of(page)] == [day["step"] for day in days_of(whole)][:20]

    shutil.move(both, both.parent / "away")

    try:
        capsys.readouterr()
        assert main(["view", str(tmp_path / "run"), "--out", str(tmp_path / "other")]) != 0
    finally:
        shutil.move(both.parent / "away", both)

    message = capsys.readouterr().err

    assert (
        "the units of an unfinished episode are those of its market: it is not at hand" in message
    )
    assert message.count("\n") == 1
