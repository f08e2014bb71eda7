"""Write the figures of the nine boards: `python -m oracle.published.compute SHARED OUT [BOARD …]`.

Run from `tests`. SHARED holds `published`, `us_daily`, `a_share_sse50`, `crypto_daily`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from oracle.published import (
    accounts,
    ai_trader,
    alpha_arena,
    common,
    finsaber,
    log_scan,
    micro_cap,
    stock_benchmark,
    tradetrap,
)


def with_logs(
    figures: dict[str, Any],
    listed: dict[str, accounts.Account],
    folder: Path,
    bars: ai_trader.Bars | None,
) -> dict[str, Any]:
    """Figures of a board of AI-Trader with the scan of its logs."""
    closes = log_scan.daily_closes(bars) if bars else None
    scans = {name: log_scan.scan(folder / name, closes) for name in listed}
    figures["logs"] = scans
    figures["known_before"] = log_scan.known_before(scans, accounts.moments_of(listed))
    return figures


def ai_trader_us(shared: Path, work: Path) -> dict[str, Any]:
    """US, hourly."""
    folder = common.unpack(shared / "published/ai-trader.tar.zst", work) / "data"
    earlier = common.unpack(shared / "published/tradetrap.tar.zst", work) / "data"
    market = ai_trader.us_market(folder, shared, "2025-11-07")
    listed = ai_trader.accounts_of(folder / "agent_data")
    figures = ai_trader.board(listed, market)
    figures["convention_by_period"] = ai_trader.convention_by_period(listed, market, "2025-11-01")
    adjusted = ai_trader.adjusted_files(folder, earlier, shared)
    figures["adjusted_files"] = adjusted
    figures["valued_too_low_usd"] = {
        name: ai_trader.valued_too_low(account, market, adjusted["against_earlier"])
        for name, account in listed.items()
    }
    return with_logs(figures, listed, folder / "agent_data", ai_trader.hourly_us(folder))


def ai_trader_cn(shared: Path, work: Path, hourly: bool) -> dict[str, Any]:
    """A-shares, daily or hourly."""
    folder = common.unpack(shared / "published/ai-trader.tar.zst", work) / "data"
    raw, before, _ = ai_trader.cn_tables(folder)
    base = folder / ("agent_data_astock_hour" if hourly else "agent_data_astock")
    market = (ai_trader.cn_hourly if hourly else ai_trader.cn_daily)(folder, shared)
    listed = ai_trader.accounts_of(base)
    figures = ai_trader.board(listed, market, a_shares=True)
    paid = ai_trader.dividends_cn(raw, before)
    figures["dividends"] = {
        "ex_days": [[symbol, day, cash] for (symbol, day), cash in sorted(paid.items())],
        "not_credited_cny": {
            name: ai_trader.missed_dividends(account, paid) for name, account in listed.items()
        },
    }
    return with_logs(figures, listed, base, None)


def ai_trader_coins(shared: Path, work: Path) -> dict[str, Any]:
    """Ten coins, daily."""
    folder = common.unpack(shared / "published/ai-trader.tar.zst", work) / "data"
    listed = ai_trader.accounts_of(folder / "agent_data_crypto")
    figures = ai_trader.board(listed, ai_trader.coins(folder))
    return with_logs(figures, listed, folder / "agent_data_crypto", None)


def trade_trap(shared: Path, work: Path) -> dict[str, Any]:
    """17 runs of TradeTrap."""
    folder = common.unpack(shared / "published/tradetrap.tar.zst", work) / "data"
    other = common.unpack(shared / "published/ai-trader.tar.zst", work) / "data"
    return tradetrap.compute(folder, other, shared)


def stocks(shared: Path, work: Path) -> dict[str, Any]:
    """agent-stock-benchmark."""
    folder = common.unpack(shared / "published/agent-stock-benchmark.tar.zst", work)
    commits = shared / "published/agent-stock-benchmark-commits.csv.gz"
    return stock_benchmark.compute(folder, commits)


def arena(shared: Path, work: Path) -> dict[str, Any]:
    """Alpha Arena."""
    folder = common.unpack(shared / "published/alpha-arena.tar.zst", work)
    snapshot = next((folder / "snapshot").iterdir())
    return alpha_arena.compute(snapshot, shared / "crypto_daily/crypto10_daily.csv.gz")


BOARDS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {
    "agent-stock-benchmark": stocks,
    "ai-trader-us-hourly": ai_trader_us,
    "ai-trader-a-daily": lambda shared, work: ai_trader_cn(shared, work, hourly=False),
    "ai-trader-a-hourly": lambda shared, work: ai_trader_cn(shared, work, hourly=True),
    "ai-trader-coins": ai_trader_coins,
    "tradetrap": trade_trap,
    "finsaber": lambda shared, _: finsaber.compute(
        shared / "published/finsaber-equity.parquet", shared / "published/finsaber-claims.csv.gz"
    ),
    "alpha-arena": arena,
    "chatgpt-micro-cap": lambda shared, work: micro_cap.compute(
        common.unpack(shared / "published/chatgpt-micro-cap.tar.zst", work)
    ),
}


def main() -> None:
    """Compute the boards named, or all."""
    shared, out, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        for name in names or BOARDS:
            begun = time.monotonic()
            common.write_figures(Path(out), name, BOARDS[name](Path(shared), Path(work)))
            sys.stdout.write(f"{name} {time.monotonic() - begun:.1f} s\n")


if __name__ == "__main__":
    main()
