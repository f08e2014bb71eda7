"""Markets on which `informed_families.py` attacks tasks, and which task on which market."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from played_episodes import PLUGINS

from ktdeval.cli.main import main as ktdeval
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.task_api.episode_spec import Window
from ktdeval.task_api.scoring import is_scoring
from ktdeval_markets.task import MarketTask


@dataclass(frozen=True)
class Market:
    """A market that tasks are run on."""

    name: str
    snapshot: MarketSnapshot
    windows: Sequence[Window] = ()  #: episodes; empty: those of each task


def months(first: str, last: str) -> list[Window]:
    """Return calendar months as windows; the first begins on `first`, the last ends on `last`."""
    starts = np.arange(np.datetime64(first, "M"), np.datetime64(last, "M") + 1)
    windows = []
    for start in starts:
        begin = max(start.astype("datetime64[D]"), np.datetime64(first))
        end = min((start + 1).astype("datetime64[D]") - 1, np.datetime64(last))
        windows.append(Window(f"{begin}:{end}", str(begin), str(end)))

    return windows


def imported(*words: object) -> MarketSnapshot:
    """Return the market that `ktdeval data make` makes."""
    with TemporaryDirectory(prefix="informed-families-") as folder:
        out = Path(folder) / "market"
        printed = StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            code = ktdeval(["data", "make", *map(str, words), "--out", str(out)])
        if code:
            sys.exit(f"ktdeval data make {' '.join(map(str, words))}: {printed.getvalue()}")
        return open_snapshot(PLUGINS, str(out), {})


def us_stocks(data: Path, *more: object) -> MarketSnapshot:
    """Return the NASDAQ-100 of June to October 2025."""
    bars = data / "us_daily" / "nasdaq100_daily.csv.gz"
    with TemporaryDirectory(prefix="informed-families-") as folder:
        splits = Path(folder) / "splits.csv"
        splits.write_text("code,date,ratio\nORLY,2025-06-10,15\n", encoding="utf-8")
        words = ("long", "--bars", bars, "--venue", "us_equity", "--splits", splits)
        return imported(*words, *more)


def nasdaq(data: Path) -> Market:
    """Return the NASDAQ-100 by day, in months."""
    return Market("Nasdaq", us_stocks(data), months("2025-06-03", "2025-10-30"))


def nasdaq_hours(data: Path) -> Market:
    """Return the NASDAQ-100 with hours within the day, in weeks of October 2025."""
    hours = data / "us_daily" / "nasdaq100_60min.csv.gz"
    zone = ("--minutes-zone", "America/New_York", "--minutes-length", 60)
    spans = (
        ("2025-09-30", "2025-10-03"),
        ("2025-10-06", "2025-10-10"),
        ("2025-10-13", "2025-10-17"),
        ("2025-10-20", "2025-10-24"),
        ("2025-10-27", "2025-10-30"),
    )
    weeks = [Window(f"{first}:{last}", first, last) for first, last in spans]
    return Market("Nasdaq, hours", us_stocks(data, "--minutes", hours, *zone), weeks)


def coins(data: Path) -> Market:
    """Return ten coins of November 2024 to November 2025."""
    bars = data / "crypto_daily" / "crypto10_daily.csv.gz"
    words = ("long", "--bars", bars, "--venue", "crypto_spot", "--last", "2025-11-15")
    return Market("coins", imported(*words), months("2025-01-01", "2025-10-31"))


def investorbench_stocks(data: Path) -> Market:
    """Return the public files of InvestorBench, in months of the paper's test period of stocks."""
    market = imported("investorbench", "--folder", data / "investorbench")
    return Market("InvestorBench's files", market, months("2020-10-02", "2021-05-05"))


def investorbench_coins(data: Path) -> Market:
    """Return the same files, in months of the paper's test period of coins."""
    market = imported("investorbench", "--folder", data / "investorbench")
    return Market("InvestorBench's files", market, months("2023-04-06", "2023-11-05"))


def generated(name: str, *windows: Window) -> Callable[[Path], Market]:
    """Return a function that opens a generated market."""
    return lambda _: Market(name, open_snapshot(PLUGINS, name, {}), windows)


MARKETS: Mapping[str, Callable[[Path], Market]] = {
    "nasdaq": nasdaq,
    "nasdaq_hours": nasdaq_hours,
    "coins": coins,
    "investorbench_stocks": investorbench_stocks,
    "investorbench_coins": investorbench_coins,
    "synthetic_arena": generated("synthetic_arena", *months("2025-08-02", "2026-01-31")),
    "synthetic_deepfund": generated("synthetic_deepfund", *months("2025-03-03", "2025-08-29")),
    "synthetic_investorbench_stocks": generated(
        "synthetic_investorbench", *months("2020-10-02", "2021-05-05")
    ),
    "synthetic_investorbench_coins": generated(
        "synthetic_investorbench", *months("2023-04-06", "2023-11-05")
    ),
    "synthetic_investorbench_funds": generated(
        "synthetic_investorbench", *months("2020-01-03", "2020-09-21")
    ),
    "synthetic_views": generated("synthetic_views"),
}


@dataclass(frozen=True)
class Run:
    """A task on a market; `change` are options of its config that are set otherwise."""

    task: str
    market: str
    change: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""  #: what `change` or `window` means
    window: str = ""  #: the only episode, a window of the task; empty: those of the market

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.task}, {self.note}" if self.note else self.task


FUND = ("AAPL", "AMZN", "COST", "NVDA", "PEP")
WHOLE = "the paper's whole window"
COARSE = {"round_digits": 3, "rebase_prices": True}
FURTHER = (
    Run("market_blinded", "coins"),
    Run("market_blinded", "nasdaq", COARSE, "rebased, three digits"),
    Run("market_blinded", "coins", COARSE, "rebased, three digits"),
    Run("investorbench_msft", "investorbench_stocks", {}, WHOLE, "stock"),
    Run("investorbench_jnj", "investorbench_stocks", {}, WHOLE, "stock"),
    Run("investorbench_btc", "investorbench_coins", {}, WHOLE, "crypto"),
    Run("ama_tsla", "nasdaq", {}, WHOLE, "live"),
    Run("ama_btc", "coins", {}, WHOLE, "live"),
    Run("ama_eth", "coins", {}, WHOLE, "live"),
    Run("deepfund_berkshire", "nasdaq", {"assets": FUND}, f"with {', '.join(FUND)}"),
)
"""Runs besides one of each masked task."""


def masked_tasks() -> list[str]:
    """Return the trading tasks of any market that hide something, from the registry."""
    names = []
    for name in sorted(PLUGINS.specs("tasks")):
        task = PLUGINS.make_task(name)
        if not is_scoring(task) and isinstance(task, MarketTask) and task.mask != "bright":
            names.append(name)

    return names


def market_of(name: str) -> str:
    """Return the market that has the assets of a task: a real one where there is one."""
    family = PLUGINS.spec("tasks", name).groups[0]
    assets = PLUGINS.make_task(name)._config.assets
    if family == "views":
        return "synthetic_views"
    if family == "deepfund":
        return "synthetic_deepfund"
    if name == "market_minutes_blinded":
        return "nasdaq_hours"
    if name == "market_news_blinded":
        return "investorbench_stocks"
    if family == "markets" or (assets == ("TSLA",) and family == "ama"):
        return "nasdaq"
    if family == "ama":
        return "synthetic_arena" if assets == ("BMRN",) else "coins"

    kind = "coins" if assets[0] in ("BTC", "ETH") else "stocks"
    if set(assets) <= {"MSFT", "JNJ", "BTC"}:
        return f"investorbench_{kind}"
    return f"synthetic_investorbench_{'funds' if assets == ('SPY',) else kind}"


def runs() -> list[Run]:
    """Return a run of every masked task, and the further ones."""
    return [Run(name, market_of(name)) for name in masked_tasks()] + list(FURTHER)
