"""Other markets end to end on real prices: every fill, cost, charge and NAV of a run recomputed from the vendor's files.

Nothing of the executor is imported: fees, rounding, interest and valuation are written out here in Decimals, from docs/trading.md.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal as D
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import ktdeval
from ktdeval.cli.main import main
from tables import on_each_row

CENT = D("0.01")
STOCK, COIN = {"ticks": 10**4, "steps": 10**4}, {"ticks": 10**8, "steps": 10**8}


def up(amount: D) -> D:
    return amount.quantize(CENT, ROUND_CEILING)


def stock_fee(quantity: D, notional: D, selling: bool) -> D:
    """0.005 a share, at least 1.00, at most 1 %; on sells SEC's 0.278 bps and FINRA's 0.000166 a share, at most 8.30."""
    fee = min(max(up(quantity * D("0.005")), D(1)), up(notional / 100))
    return fee + (up(notional * D("0.0000278")) + min(up(quantity * D("0.000166")), D("8.30")) if selling else 0)


def coin_fee(quantity: D, notional: D, selling: bool) -> D:
    return up(notional / 1000)


@dataclass
class Vendor:
    """Raw prices of a vendor's files by code and day, and the splits known."""

    bars: pd.DataFrame
    coins: frozenset[str]
    splits: dict[tuple[str, str], int]

    def __post_init__(self) -> None:
        self.of = {(row.code, row.date): (D(row.open), D(row.close)) for row in self.bars.itertuples(index=False)}
        self.days = sorted(self.bars["date"].unique())

    def mark(self, code: str, day: str) -> D:
        """Last close on or before a day; asked for only while nothing is split since."""
        return next(self.of[code, past][1] for past in reversed(self.days) if past <= day and (code, past) in self.of)


def text_bars(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str)[["date", "code", "open", "high", "low", "close", "volume"]]


def recompute(run: Path, vendor: Vendor) -> Counter[str]:
    """Check each step of a run's only ledger; returns what was seen."""
    (path,) = run.rglob("ledger.parquet")
    table = pq.read_table(path)
    told = json.loads(table.schema.metadata[b"ktdeval.ledger"])
    assert (told["version"], told["currency"], told["minor_per_unit"], told["initial_cash_minor"]) == (2, "USD", 100, 10_000_000)
    cash, held, seen, before = D(100_000), dict[str, D](), Counter[str](), ""
    for step in table.to_pylist():
        day, before = step["filled_on"], step["decided_on"]
        nights = (date.fromisoformat(day) - date.fromisoformat(before)).days
        owed = {}
        for code, quantity in sorted(held.items()):
            if quantity < 0:
                value = (-quantity * vendor.mark(code, before)).quantize(CENT, ROUND_HALF_UP)
                interest = (value * D("0.005") * nights / 365).quantize(CENT, ROUND_HALF_UP)
                owed |= {code: -interest} if interest else {}
        charged = {charge["code"]: D(charge["cash_minor"]) / 100 for charge in step["charges"]}
        assert charged == owed
        assert {charge["kind"] for charge in step["charges"]} <= {"borrow"}
        cash += sum(owed.values())
        for code in list(held):
            held[code] *= vendor.splits.get((code, day), 1)
        nav = cash + sum(
            (held[code] * vendor.of.get((code, day), (vendor.mark(code, day),))[0]).quantize(CENT, ROUND_HALF_UP) for code in held
        )
        assert D(step["open_nav_minor"]) / 100 == nav
        for order in sorted(step["orders"], key=lambda order: order["side"] == "BUY"):
            seen[f"{order['side']} {order['status']} {order['rule']}"] += 1
            if not order["filled_shares"]:
                continue
            code, selling = order["code"], order["side"] == "SELL"
            scale, fee_of = (COIN, coin_fee) if code in vendor.coins else (STOCK, stock_fee)
            quantity, price = D(order["filled_shares"]) / scale["steps"], vendor.of[code, day][0]
            notional = (quantity * price).quantize(CENT, ROUND_FLOOR if selling else ROUND_CEILING)
            fee = fee_of(quantity, notional, selling)
            assert D(order["price_ticks"]) / scale["ticks"] == price
            assert (D(order["notional_minor"]) / 100, D(order["fee_minor"]) / 100) == (notional, fee), (day, code)
            cash += (notional if selling else -notional) - fee
            held[code] = held.get(code, D(0)) + (-quantity if selling else quantity)
            seen["short opened"] += held[code] < 0
        held = {code: quantity for code, quantity in held.items() if quantity}
        assert {
            one["code"]: D(one["shares"]) / (COIN if one["code"] in vendor.coins else STOCK)["steps"] for one in step["positions"]
        } == held
        values = [(held[code] * vendor.mark(code, day)).quantize(CENT, ROUND_HALF_UP) for code in held]
        assert D(step["cash_minor"]) / 100 == cash
        assert D(step["nav_minor"]) / 100 == cash + sum(values)
    return seen


@pytest.fixture(scope="module")
def markets(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> dict[str, tuple[str, Vendor]]:
    """NASDAQ-100, ten coins, and TSLA with BTC, imported by the command."""
    folder = tmp_path_factory.mktemp("markets")
    us, crypto = shared_data / "us_daily" / "nasdaq100_daily.csv.gz", shared_data / "crypto_daily" / "crypto10_daily.csv.gz"
    stocks, coins = text_bars(us), text_bars(crypto)
    coins = coins[coins["date"] <= "2025-11-15"]
    both = pd.concat(
        [stocks[stocks["code"] == "TSLA"], coins[(coins["code"] == "BTC") & coins["date"].between("2025-06-02", "2025-10-30")]]
    )
    both.to_csv(folder / "both.csv", index=False)
    (folder / "assets.csv").write_text("code,venue\nBTC,crypto_spot\n", encoding="utf-8")
    (folder / "splits.csv").write_text("code,date,ratio\nORLY,2025-06-10,15\n", encoding="utf-8")
    asked = {
        "nasdaq": ["--bars", us, "--venue", "us_equity", "--splits", folder / "splits.csv"],
        "coins": ["--bars", crypto, "--venue", "crypto_spot", "--last", "2025-11-15"],
        "both": ["--bars", folder / "both.csv", "--industry", folder / "assets.csv", "--venue", "us_equity"],
    }
    for name, options in asked.items():
        assert main(["data", "import", "long", *map(str, options), "--out", str(folder / name)]) == 0
    every = frozenset(coins["code"])
    vendors = {
        "nasdaq": Vendor(stocks, frozenset(), {("ORLY", "2025-06-10"): 15}),
        "coins": Vendor(coins, every, {}),
        "both": Vendor(both, every, {}),
    }
    return {name: (str(folder / name), vendor) for name, vendor in vendors.items()}


@on_each_row
def test_every_fill_cost_charge_and_nav_of_a_run_follows_from_the_vendors_file(
    market: str, model: str, arguments: dict[str, Any], window: str, markets: dict[str, tuple[str, Vendor]], tmp_path: Path
) -> None:
    folder, vendor = markets[market]
    run = ktdeval.evaluate(
        model, "market_blinded", data=folder, windows=window, model_args=arguments, out=str(tmp_path / "run"), quiet=True
    )
    seen = recompute(tmp_path / "run", vendor)
    assert seen["BUY filled None"] > 20
    assert seen["SELL filled None"] > (5 if market == "both" else 20)
    assert (seen["short opened"] > 0) == ("short_probability" in arguments or "shorts" in arguments)
    if market == "both":
        assert seen["BUY rejected suspended"] > 0, "the stock's exchange rests while the coin trades"
    (card,) = run.cards
    assert card.plain["task"]["name"] == "market_blinded"
    assert main(["card", "verify", str(tmp_path / "run" / "cards" / "market_blinded.json")]) == 0
