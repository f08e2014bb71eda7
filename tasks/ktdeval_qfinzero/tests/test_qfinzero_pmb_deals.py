"""Stocks that are acquired or delisted, and the one pool of shares that all accounts of a workspace
borrow from.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.dataset import open_dataset
from ktdeval_qfinzero.data.manifest import load_manifest
from ktdeval_qfinzero.data.rows import BorrowRow, DealRow
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.holding_events import PositionEnded
from ktdeval_qfinzero.timestamps import DAY
from qfinzero_plays import Line, on_each_play, run_play
from support.qfinzero.qfinzero_broker_play import EARLY, FLAT, Play, daily, market, table
from support.qfinzero.qfinzero_calls import refused
from support.qfinzero.qfinzero_invariants import check_invariants
from support.qfinzero.qfinzero_margin import e4
from support.qfinzero.qfinzero_memory import MemoryPrices
from support.qfinzero.qfinzero_world import at, small_dataset, with_prices

MIDNIGHT = at("2025-01-03T00:00:00Z")
CALL = "O:AVLN250117C00090000"
PUT = "O:AVLN250117P00120000"
DAYS = [MIDNIGHT, MIDNIGHT + 3 * DAY]  # the 3rd and the 6th; from the 7th on AVLN is gone


def deal(cash: float = 0.0, into: str = "", new: int = 1, old: int = 1) -> DealRow:
    return DealRow("AVLN", date(2025, 1, 7), e4(cash), into, new, old, EARLY)


def ended(
    row: DealRow | None, qty: int = 101, symbol: str = "AVLN", into: float = 40.0
) -> tuple[Play, list[PositionEnded]]:
    """A position at the end of the stock that it is in or about: bought (negative: sold) at the
    open of the 6th.
    """
    brkt = (into, into, into, into, 1_000_000)
    bars = {"AVLN": table(DAYS, [FLAT] * 2), "BRKT": table([*DAYS, DAYS[1] + DAY], [brkt] * 3)}
    bars |= {option: table(DAYS, [(15, 15, 15, 15, 1_000)] * 2) for option in (CALL, PUT)}
    play = daily(bars, deal_rows=[] if row is None else [row])
    play.order("BUY" if qty > 0 else "SELL", "MARKET", abs(qty), symbol=symbol)
    play.order("SELL", "LIMIT", 1, limit_price=150.0, time_in_force="GTC")
    play.step()
    endings = [event.data for event in play.step() if isinstance(event.data, PositionEnded)]
    check_invariants(play.broker)
    verify(play.broker.log.to_lines(), play.dataset)

    return play, endings


@on_each_play
def test_deals_as_played(lines: Sequence[Line]) -> None:
    run_play(lines)


# A position bought (negative: sold) at 100; BRKT is at 40.
@on_each_row(
    "terms, qty, cash, into, realized, by",
    ({"cash": 124}, 101, 12524, 0, 2424, "DEAL"),
    ({"cash": 124}, -101, -12524, 0, -2424, "DEAL"),
    ({"into": "BRKT", "new": 3}, 101, 0, 303, 0, "DEAL"),
    # 151.5 shares: half of one is 20
    ({"into": "BRKT", "new": 3, "old": 2}, 101, 20, 151, 0, "DEAL"),
    ({"into": "BRKT", "new": 3, "old": 2}, -101, -20, -151, 0, "DEAL"),
    # the cash lowers what the new shares cost
    ({"cash": 50, "into": "BRKT"}, 101, 5050, 101, 0, "DEAL"),
    ({}, 101, 10100, 0, 0, "LAST_PRICE"),
)
def test_a_stock_that_ends_is_closed_at_the_terms_of_its_deal(
    terms: dict[str, Any], qty: int, cash: float, into: int, realized: float, by: str
) -> None:
    play, (event,) = ended(deal(**terms), qty)
    assert (event.cash_e4, event.realized_e4, event.terms) == (e4(cash), e4(realized), by)
    assert (play.held(), play.held("BRKT")) == (0, into)

    if into:
        assert play.account.positions["STOCK:BRKT"].cost_e4 == qty * 1_000_000 - event.cash_e4

    assert [order.reason for order in play.state.orders.values()][1:] == [
        "DELISTED: the stock trades no more"
    ]
    assert "AVLN trades no more since 2025-01-07" in str(refused(play.order, "BUY", "MARKET"))


# A call struck at 90 and a put at 120.
@on_each_row(
    "terms, right, qty, cash",
    ({"cash": 124}, "CALL", 2, 6800),
    ({"cash": 124}, "PUT", 2, 0),
    # 10 and twice 40 are 90
    ({"cash": 10, "into": "BRKT", "new": 2}, "PUT", -2, -6000),
    ({}, "CALL", 1, 1000),
)
def test_its_options_are_closed_at_what_they_are_worth_at_these_terms(
    terms: dict[str, Any], right: str, qty: int, cash: float
) -> None:
    symbol = {"CALL": CALL, "PUT": PUT}[right]
    play, (event,) = ended(deal(**terms), qty, symbol)
    assert (event.cash_e4, event.terms, play.held(symbol)) == (e4(cash), "INTRINSIC", 0)


def test_without_a_row_a_position_stays_at_its_last_price() -> None:
    play, endings = ended(None)
    assert (endings, play.held(), play.broker.engine.marks()["STOCK:AVLN"]) == ([], 101, 1_000_000)


@pytest.mark.parametrize(
    ("rows", "warnings"),
    [
        ([], ["AVLN has no bars after 2025-01-06, and no row says"]),
        ([deal(124.0)], []),
    ],
    ids=["without a row", "with a row"],
)
def test_the_check_reports_a_stock_that_ends_without_a_row(
    tmp_path: Path, rows: list[DealRow], warnings: list[str]
) -> None:
    bars = {
        "AVLN": table(DAYS, [FLAT] * 2),
        "BRKT": table([*DAYS, MIDNIGHT + 46 * DAY], [FLAT] * 3),
    }
    dataset = market(bars, "day", deal_rows=rows)
    prices = dataset.prices

    assert isinstance(prices, MemoryPrices)

    save_dataset(tmp_path / "saved", prices, [], [], dataset.info)
    assert [finding.message[:50] for finding in check_dataset(tmp_path / "saved")] == warnings
    assert list(open_dataset(tmp_path / "saved").prices.deals("AVLN", EARLY)) == rows
    # a dataset without deals is as it was
    assert ("tables/deals" in load_manifest(tmp_path / "saved").parts) == bool(rows)


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [(600, 400, "FILLED"), (600, 401, "REJECTED"), (0, 1_000, "FILLED")],
)
def test_all_accounts_of_a_workspace_borrow_from_one_pool(
    first: int, second: int, status: str
) -> None:
    lent = with_prices(small_dataset(), borrow_rows=[BorrowRow("AVLN", EARLY, 1_000, 0)])
    all_of_it = {"fills": {"max_volume_pct": 100}}
    play = Play(
        lent, config=all_of_it, frequency="1d", start="2025-01-06T00:00:00Z", end_ts="2025-01-07"
    )

    if first:
        play.order("SELL", "MARKET", first)

    play.step(2)
    play.account_id = play.broker.execute("account.create", {"initial_cash": 1_000_000}).id
    play.begin("2025-01-08", "2025-01-13", frequency="1d")
    order = play.order("SELL", "MARKET", second)
    play.step()

    assert (order.status, order.reason[:9]) == (status, "NO_LOCATE" if status == "REJECTED" else "")
