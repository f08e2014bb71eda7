"""What `ktdeval published` prints of public boards, against the second computation in
`oracle/published`: two programs that share no code, from the same files.

Where the two take another rule on purpose, the difference is bounded and its reason is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ktdeval_published.all_boards import run_all
from oracle.published import accounts, ai_trader, compute, stock_benchmark

pytestmark = [pytest.mark.exhaustive, pytest.mark.needs("ktdeval_published")]

MODELS = {
    "claude-3.7-sonnet": "claude",
    "deepseek-v3": "deepseek",
    "gemini-2.5-flash": "gemini",
    "gpt-5": "gpt",
    "qwen3-max": "qwen",
}


@pytest.fixture(scope="module")
def archives(shared_data: Path) -> Path:
    folder = shared_data / "published"
    if not folder.is_dir():
        pytest.skip(f"needs the archives in {folder}, which are not there")
    return folder


@pytest.fixture(scope="module")
def boards(archives: Path, shared_data: Path) -> dict[str, Any]:
    """The reports of all boards, by name; logs are not searched."""
    return {one.name: one for one in run_all(archives, (), shared_data, audited=False)}


@pytest.fixture(scope="module")
def work() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_ladders_of_ranks_agree_to_the_cent(
    boards: dict[str, Any], archives: Path, shared_data: Path, work: Path
) -> None:
    folder = compute.common.unpack(archives / "agent-stock-benchmark.tar.zst", work)
    own = stock_benchmark.read(folder)
    closes = own.closes
    repaired = stock_benchmark.split_repaired(own)
    known = stock_benchmark.compute(folder, archives / "agent-stock-benchmark-commits.csv.gz")
    report = boards["agent-stock-benchmark"]

    assert len(report.entrants) == 16
    for entrant in report.entrants:
        (strategy,) = [name for name in own.ranks if f"__{entrant.name}__" in name]
        as_booked = stock_benchmark.gains(own, closes, strategy, "entry")
        with_split = stock_benchmark.gains(own, repaired, strategy, "entry")
        stated = own.stated[strategy]["total_pnl"].sum()
        assert entrant.declared.gain == pytest.approx(stated, abs=0.005)
        assert entrant.unrepaired.gain == pytest.approx(as_booked.sum(), abs=0.005)
        assert entrant.executed.gain == pytest.approx(with_split.sum(), abs=0.005)

    days = known["known_before_split_repaired"]["entrant_days"]
    lives = [entrant.live for entrant in report.entrants]
    assert sum(live.before for live in lives) == days["before"] == 229
    assert sum(live.after for live in lives) == days["after"] == 603


def executed_returns(report: Any) -> dict[str, float]:
    return {entrant.name: entrant.executed.total_return for entrant in report.entrants}


def test_daily_a_shares_agree(boards: dict[str, Any], shared_data: Path, work: Path) -> None:
    own = compute.ai_trader_cn(shared_data, work, hourly=False)["entrants"]
    report = boards["ai-trader-ashare-daily"]
    for entrant in report.entrants:
        other = own[entrant.name]
        declared = other["declared"]["total_return"]
        assert entrant.declared.total_return == pytest.approx(declared, abs=1e-9)
        executed = other["executed"]["total_return"]
        assert entrant.executed.total_return == pytest.approx(executed, abs=1e-9)

    stars = sum(one["violations"]["star_below_200_buys"] for one in own.values())
    assert sum(one.fills.breaches.get("STAR minimum", 0) for one in report.entrants) == stars


def test_hourly_a_shares_agree_at_the_next_bar(
    boards: dict[str, Any], shared_data: Path, work: Path
) -> None:
    """Filled at the open of the first bar that begins at or after the stamp, locked on the day of
    the fill; limits of prices are left out, as in the product.
    """
    folder = compute.common.unpack(shared_data / "published/ai-trader.tar.zst", work) / "data"
    market = ai_trader.cn_hourly(folder, shared_data)
    _, _, bars = ai_trader.cn_tables(folder)
    rules = replace(market.rules, limits=None)
    found = executed_returns(boards["ai-trader-ashare-hourly"])

    listed = ai_trader.accounts_of(folder / "agent_data_astock_hour")
    assert len(listed) == 7
    for name, account in listed.items():
        rows = [at_next_bar(row, bars) for row in account.rows]
        done = accounts.replay(
            accounts.Account(rows), market.days, ai_trader.bar_price(bars, 0), market.close, rules
        )
        assert found[name] == pytest.approx(done.nav[-1] / done.nav[0] - 1, abs=1e-9)


def at_next_bar(row: Any, bars: dict[str, dict[str, Any]]) -> Any:
    later = [stamp for stamp in bars.get(row.symbol, {}) if stamp > row.moment]
    if not row.shares:
        return row
    return replace(row, moment=min(later)) if later else replace(row, shares=0.0)


def test_coins_agree(boards: dict[str, Any], shared_data: Path, work: Path) -> None:
    """The product rounds a buy down to what the cash pays for by another step: 1e-5 of the account."""
    own = compute.ai_trader_coins(shared_data, work)["entrants"]
    for entrant in boards["ai-trader-coins"].entrants:
        other = own[entrant.name]
        declared = other["declared_surviving_chain"]["total_return"]
        assert entrant.declared.total_return == pytest.approx(declared, abs=1e-9)
        executed = other["executed"]["total_return"]
        assert entrant.executed.total_return == pytest.approx(executed, abs=1e-5)


@pytest.mark.parametrize("board", ["ai-trader-us", "tradetrap"])
def test_us_accounts_agree_but_for_levies_on_sells(
    board: str, boards: dict[str, Any], shared_data: Path, work: Path
) -> None:
    """The venue of the product charges regulatory levies on sells, the second computation a broker's
    commission alone; where cash is short, a cent of costs moves the size of a fill.
    """
    if board == "ai-trader-us":
        own = compute.ai_trader_us(shared_data, work)["entrants"]
    else:
        own = compute.trade_trap(shared_data, work)["entrants"]

    for entrant in boards[board].entrants:
        other = own[own_name(entrant, board)]
        declared = other["declared"]["total_return"]
        assert entrant.declared.total_return == pytest.approx(declared, abs=1e-9)
        executed = other["executed"]["total_return"]
        assert entrant.executed.total_return == pytest.approx(executed, abs=0.005)


def own_name(entrant: Any, board: str) -> str:
    if board == "ai-trader-us":
        return str(entrant.name)
    model = next(short for long, short in MODELS.items() if long in entrant.name)
    return f"{entrant.arm.replace('-', '_')}/{model}"


def test_windows_against_holding_agree(boards: dict[str, Any], archives: Path) -> None:
    own = compute.finsaber.compute(
        archives / "finsaber-equity.parquet", archives / "finsaber-claims.csv.gz"
    )["models"]
    cells = boards["finsaber"].cells
    assert len(cells) == 2
    for cell in cells:
        gap = own[cell.name]["gap"]
        assert cell.cells == own[cell.name]["runs"] == 353
        assert cell.mean.value == pytest.approx(gap["mean"], abs=1e-9)
        assert cell.median == pytest.approx(gap["median"], abs=1e-9)
        assert cell.equal == pytest.approx(own[cell.name]["never_traded"] / 353, abs=1e-9)
        assert cell.mean.high < 0


def test_closed_trades_and_one_account_agree(
    boards: dict[str, Any], shared_data: Path, work: Path
) -> None:
    own = compute.arena(shared_data, work)["entrants"]
    for entrant in boards["alpha-arena"].entrants:
        assert entrant.declared.gain == pytest.approx(own[entrant.name]["net"], abs=0.005)

    (account,) = boards["chatgpt-micro-cap"].entrants
    assert account.declared.total_return == pytest.approx(-0.1552, abs=5e-5)
    steps = [one for one in boards["chatgpt-micro-cap"].data if one.kind.startswith("unexplained")]
    assert [one.count for one in steps] == [4]
