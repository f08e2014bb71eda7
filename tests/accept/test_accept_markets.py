"""Other markets end to end on real prices: every fill, cost, charge and NAV of a run is what the slow broker makes of the vendor's
files. It imports nothing of the executor; fees, rounding, interest and valuation are written out in Decimals.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktdeval
import reference_broker as slow
from ktdeval.cli.main import main
from ktdeval.runner import RunFolder
from tables import on_each_row

Vendor = tuple[str, dict[str, pd.DataFrame], Callable[[str], slow.House]]
"""An imported market, [days, codes] tables of the vendor's files, and the rules of a code."""
MOST = (40, "0.25")
"""Names at once, and the largest weight of one, of the task."""


def tables_of(bars: pd.DataFrame, splits: dict[tuple[str, str], int]) -> dict[str, pd.DataFrame]:
    """Raw prices and volumes; factors of splits; every asset is a member from its first bar to its last."""
    tables = {name: bars.pivot(index="date", columns="code", values=name) for name in ("open", "close", "volume")}
    factor = pd.DataFrame(1.0, tables["open"].index, tables["open"].columns)
    for (code, day), ratio in splits.items():
        factor.loc[day:, code] *= ratio
    known = tables["close"].notna()
    return {**tables, "factor": factor, "member": known.cummax() & known[::-1].cummax()[::-1]}


@pytest.fixture(scope="module")
def markets(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> dict[str, Vendor]:
    """NASDAQ-100, ten coins, and TSLA with BTC, imported by the command."""
    folder = tmp_path_factory.mktemp("markets")
    us, crypto = shared_data / "us_daily" / "nasdaq100_daily.csv.gz", shared_data / "crypto_daily" / "crypto10_daily.csv.gz"
    stocks, coins = pd.read_csv(us), pd.read_csv(crypto)
    coins = coins[coins["date"] <= "2025-11-15"]
    both = pd.concat(
        [stocks[stocks["code"] == "TSLA"], coins[(coins["code"] == "BTC") & coins["date"].between("2025-06-02", "2025-10-30")]]
    )[["date", "code", "open", "high", "low", "close", "volume"]]
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
    return {
        "nasdaq": (str(folder / "nasdaq"), tables_of(stocks, {("ORLY", "2025-06-10"): 15}), slow.us_stock),
        "coins": (str(folder / "coins"), tables_of(coins, {}), slow.coin),
        "both": (
            str(folder / "both"),
            tables_of(both, {}),
            lambda code: {"TSLA": slow.us_stock, "BTC": slow.coin}[code](code),
        ),
    }


@on_each_row
def test_every_fill_cost_charge_and_nav_of_a_run_follows_from_the_vendors_file(
    market: str, model: str, arguments: dict[str, Any], window: str, markets: dict[str, Vendor], tmp_path: Path
) -> None:
    folder, tables, house_of = markets[market]
    run = ktdeval.evaluate(
        model, "market_blinded", data=folder, windows=window, model_args=arguments, out=str(tmp_path / "run"), quiet=True
    )
    store = RunFolder.load(run.folder)
    (spec,) = store.manifest.specs
    ledger = store.load_ledger(spec)
    assert (ledger.currency, ledger.initial_cash_minor) == ("USD", 10_000_000)
    seen = slow.keep(tables, ledger.steps, house_of, 100_000, MOST)
    assert seen["BUY filled None"] > 20
    assert seen["SELL filled None"] > (5 if market == "both" else 20)
    assert (seen["short"] > 0) == ("short_probability" in arguments or "shorts" in arguments)
    if market == "both":
        assert seen["BUY rejected suspended"] > 0, "the stock's exchange rests while the coin trades"
    assert run.cards[0].task.name == "market_blinded"
    assert main(["card", "verify", str(tmp_path / "run" / "cards" / "market_blinded.json")]) == 0
