"""Rules of the A-share boards in force on each day: limit prices, listings, special treatment,
sizes of orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given as having, strategies as st

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError
from ktdeval.market import MarketSnapshot, NameSpell, load_snapshot
from ktdeval.market.rules.board_rules import (
    RuleName,
    board_rules,
    daily_limits,
    limit_prices,
    order_sizes,
    rounds_inward,
)
from ktdeval.market.snapshots.manifest import snapshot_id
from ktdeval.market.snapshots.snapshot import Board
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.market.snapshots.vendor_price_limits import PriceLimits
from ktdeval.testing import on_each_row, snapshot_of_days
from ktdeval.trading import Account, AccountConfig, MarketTape, Order, TradingConfig
from ktdeval.trading.executor import execute
from ktdeval.trading.types import Position
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import raw_from_snapshot

RULES = AccountConfig(initial_cash=1_000_000, max_weight=1.0).rules("test")
FEN = np.array([100])
CENT = Decimal("0.01")
NEAREST = np.array([False])


def market(
    prices: list[float | None], code: str = "600001.SH", first_day: str = "2024-01-02"
) -> MarketSnapshot:
    """A market of one stock whose opens are its closes, on days that follow each other."""
    volume = [[None if price is None else 1e6] for price in prices]
    return snapshot_of_days([code], [[price] for price in prices], volume=volume, first=first_day)


def tape(snapshot: MarketSnapshot) -> MarketTape:
    return MarketTape.from_snapshot(snapshot, RULES)


def buys(snapshot: MarketSnapshot, shares: int = 100) -> list[str | None]:
    """Rule that stops a buy on each day after the first; None where it is filled."""
    days = tape(snapshot)
    found = []

    for row in range(1, len(snapshot.days)):
        account = Account(100_000_000, {})
        _, (outcome,) = execute(account, days.day(row), (order("BUY", shares),))
        found.append(outcome.rule)

    return found


def sells(snapshot: MarketSnapshot) -> list[str | None]:
    """Rule that stops a sell of all on each day after the first; None where it is filled."""
    days = tape(snapshot)
    found = []

    for row in range(1, len(snapshot.days)):
        _, (outcome,) = execute(
            Account(0, {0: Position(1000)}), days.day(row), (order("SELL", 1000),)
        )
        found.append(outcome.rule)

    return found


def order(side: str, shares: int) -> Order:
    return Order(0, side, 0.5, "test", None, shares)  # type: ignore[arg-type]


# -- limit prices


@pytest.mark.parametrize(
    ("reference", "limit", "lower", "upper"),
    [
        (10.00, 100, 9.00, 11.00),
        (10.50, 50, 9.98, 11.03),  # 9.975 and 11.025, halves up
        (1.05, 50, 1.00, 1.10),  # 0.9975 and 1.1025
        (1.00, 100, 0.90, 1.10),
        (0.99, 50, 0.94, 1.04),  # 0.9405 and 1.0395
        (0.05, 50, 0.04, 0.06),  # 5 % is less than a fen, and the limit is one away
        (23.45, 200, 18.76, 28.14),
    ],
)
def test_limit_prices_are_rounded_half_up_to_a_fen(
    reference: float, limit: int, lower: float, upper: float
) -> None:
    ticks = np.array([round(reference * 10_000)])
    low, high = limit_prices(ticks, np.array([limit]), FEN, NEAREST)
    assert (low[0], high[0]) == (round(lower * 10_000), round(upper * 10_000))


@pytest.mark.parametrize(
    ("reference", "lower", "upper"),
    [
        # published by the Beijing exchange
        (84.63, 59.25, 110.01),  # 110.019
        (17.09, 11.97, 22.21),  # 22.217
        (31.46, 22.03, 40.89),  # 22.022 and 40.898
        (2.85, 2.00, 3.70),  # 1.995 and 3.705
        (36.17, 25.32, 47.02),  # 25.319 and 47.021
        (0.69, 0.49, 0.89),  # 0.483 and 0.897
        (0.70, 0.49, 0.91),  # exact
    ],
)
def test_limit_prices_in_beijing_stay_within_the_limit(
    reference: float, lower: float, upper: float
) -> None:
    at = market([reference, upper], code="830001.BJ")
    below = market([reference, round(upper - 0.01, 2)], code="830001.BJ")

    assert buys(at) == ["price_limit"]
    assert buys(below) == [None]

    assert sells(market([reference, lower], code="830001.BJ")) == ["price_limit"]
    assert sells(market([reference, round(lower + 0.01, 2)], code="830001.BJ")) == [None]


def exact_limits(code: str, percent: int, reference: Decimal) -> tuple[Decimal, Decimal]:
    """Lower and upper limit price in decimals, by the words of the exchanges."""
    part = Decimal(percent) / 100
    roundings = (ROUND_HALF_UP, ROUND_HALF_UP)

    if code.endswith("BJ"):
        roundings = (ROUND_CEILING, ROUND_FLOOR)

    lower = (reference * (1 - part)).quantize(CENT, roundings[0])
    upper = (reference * (1 + part)).quantize(CENT, roundings[1])

    return min(lower, reference - CENT), max(upper, reference + CENT)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("code", "first_day", "special", "percent"),
    [
        ("600001.SH", "2024-01-02", False, 10),
        ("600001.SH", "2024-01-02", True, 5),
        ("600001.SH", "2026-07-06", True, 10),
        ("300001.SZ", "2019-01-02", False, 10),
        ("300001.SZ", "2024-01-02", True, 20),
        ("688001.SH", "2024-01-02", False, 20),
        ("830001.BJ", "2024-01-02", False, 30),
    ],
)
@having(cents=st.integers(2, 500_000), offset=st.integers(-2, 2), upwards=st.booleans())
def test_opens_around_a_limit_are_judged_as_decimals_judge_them(
    code: str,
    first_day: str,
    special: bool,
    percent: int,
    cents: int,
    offset: int,
    upwards: bool,
) -> None:
    reference = Decimal(cents) / 100
    lower, upper = exact_limits(code, percent, reference)
    limit = upper if upwards else lower
    price = max(limit + offset * CENT, CENT)
    snapshot = market([float(reference), float(price)], code=code, first_day=first_day)
    marked = np.full((2, 1), special)
    day = tape(replace(snapshot, price_limits=PriceLimits(special=marked))).day(1)

    assert bool(day.limit_up[0]) is (price >= upper)
    assert bool(day.limit_down[0]) is (price <= lower)


def test_adjusted_prices_are_stopped_half_a_point_before_the_limit() -> None:
    # 10.00 and 11.00 times 0.3336: whole fen before, none after the adjustment
    assert buys(market([3.336, 3.6696])) == ["price_limit"]
    assert buys(market([3.336, 3.6512])) == [None]
    assert sells(market([3.336, 3.0024])) == ["price_limit"]
    assert sells(market([3.336, 3.0224])) == [None]


# -- boards and days


@pytest.mark.parametrize(
    ("code", "first_day", "percent"),
    [
        ("600001.SH", "2024-01-02", 10),
        ("000001.SZ", "2024-01-02", 10),
        ("300001.SZ", "2020-08-22", 10),  # the second day is the last of the old limit
        ("300001.SZ", "2020-08-23", 20),
        ("688001.SH", "2024-01-02", 20),
        ("830001.BJ", "2024-01-02", 30),
    ],
)
def test_the_limit_of_a_board_is_that_of_the_day(code: str, first_day: str, percent: int) -> None:
    up = 10.0 * (1 + percent / 100)
    assert buys(market([10.0, up], code=code, first_day=first_day), 200) == ["price_limit"]
    assert buys(market([10.0, up - 0.01], code=code, first_day=first_day), 200) == [None]


@pytest.mark.parametrize(
    "rules", board_rules().values(), ids=[f"{board} {name}" for board, name in board_rules()]
)
def test_every_rule_has_a_source_and_at_most_one_applies_on_a_day(rules: Any) -> None:
    assert all(rule.source for rule in rules)
    ends = [rule.last for rule in rules[:-1]]
    starts = [rule.first for rule in rules[1:]]
    assert all(end < start for end, start in zip(ends, starts, strict=True))


def test_every_name_of_a_rule_has_rows() -> None:
    names = {name for _, name in board_rules()}
    assert names == set(get_args(RuleName))


# -- listings


@pytest.mark.parametrize(
    ("code", "free_days"), [("603999.SH", 5), ("301999.SZ", 5), ("688999.SH", 5), ("830001.BJ", 1)]
)
def test_a_listing_has_no_limit_on_its_first_days(code: str, free_days: int) -> None:
    rises = [10.0 * 1.5**number for number in range(8)]
    closes = [None, *(round(price, 2) for price in rises)]
    snapshot = market(closes, code=code, first_day="2024-03-01")
    stopped = buys(snapshot, 200)

    # The first day of trade has no close before it; the free days follow from it on.
    assert stopped == [None] * free_days + ["price_limit"] * (8 - free_days)


def test_bar_on_the_first_day_is_no_listing_unless_its_date_is_given() -> None:
    snapshot = market([10.0, 15.0], code="603999.SH", first_day="2024-03-01")
    assert buys(snapshot) == ["price_limit"]
    day_before = replace(snapshot, price_limits=PriceLimits(listed=("2024-02-29",)))
    assert buys(day_before) == [None]


@on_each_row(
    "code, first_day, fact, closes, limits, stopped",
    # 44 % on the first day of trade alone, until the reform of 2023-04-10
    (
        "603999.SH",
        "2023-03-01",
        "a main-board listing before the reform",
        [None, 10.0, 15.0],
        {},
        [None, "price_limit"],
    ),
    (
        "603999.SH",
        "2024-03-01",
        "a given listing before the first bar",
        [None, 10.0, 15.0],
        {"listed": ("2019-05-06",)},
        [None, "price_limit"],
    ),
    (
        "830001.BJ",
        "2024-03-01",
        "bars before the given listing",
        [10.0, 10.0, 15.0, 30.0],
        {"listed": ("2024-03-03",)},
        [None, None, "price_limit"],
    ),
    (
        "603999.SH",
        "2024-03-01",
        "a listing whose first bars are missing",
        [*[None] * 7, 20.0, 30.0],
        {"listed": ("2024-03-01",)},
        [*["suspended"] * 6, None, "price_limit"],
    ),
    (
        "600001.SH",
        "2024-01-02",
        "special treatment",
        [10.0, 10.5, 11.02],
        {"special": [[False], [True], [False]]},
        ["price_limit", None],
    ),
    (
        "600001.SH",
        "2026-07-04",
        "special treatment before 2026-07-06",
        [10.0, 10.5],
        {"special": [[True]] * 2},
        ["price_limit"],
    ),
    (
        "600001.SH",
        "2026-07-05",
        "special treatment from 2026-07-06 on",
        [10.0, 10.5],
        {"special": [[True]] * 2},
        [None],
    ),
    (
        "688001.SH",
        "2024-01-02",
        "special treatment on STAR",
        [10.0, 11.0],
        {"special": [[True]] * 2},
        [None],
    ),
)
def test_a_buy_is_stopped_by_the_limit_of_its_listing_and_treatment(
    code: str,
    first_day: str,
    fact: str,
    closes: list[float | None],
    limits: dict[str, Any],
    stopped: list[str | None],
) -> None:
    given = {name: np.array(one) if name == "special" else one for name, one in limits.items()}
    snapshot = market(closes, code=code, first_day=first_day)
    dated = replace(snapshot, price_limits=PriceLimits(**given))

    assert buys(dated, 200) == stopped, fact


def test_a_suspended_day_before_the_first_bar_is_of_an_older_stock() -> None:
    volume = [[0.0], [1e6], [1e6]]
    prices = [[None], [10.0], [15.0]]
    snapshot = snapshot_of_days(["603999.SH"], prices, volume=volume, first="2024-01-02")
    assert buys(snapshot) == [None, "price_limit"]


# -- special treatment


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("ST华微", "price_limit"),
        ("*ST信威", "price_limit"),
        ("S*ST昌鱼", "price_limit"),
        ("XDST云维", "price_limit"),
        ("＊ＳＴ金泰", "price_limit"),
        ("STAR Cement", None),
        ("Stone Mining", None),
        ("中国中铁", None),
    ],
)
def test_a_name_tells_special_treatment_by_its_mark_alone(name: str, rule: str | None) -> None:
    snapshot = market([10.0, 10.5], code="600001.SH", first_day="2024-01-02")
    spells = (NameSpell("600001.SH", "2000-01-01", "2200-01-01", name, "600001.SH"),)
    assert buys(replace(snapshot, spells=spells)) == [rule]


@pytest.mark.parametrize(("code", "name"), [("600001.SH", "退市海润"), ("000001.SZ", "国华退")])
def test_the_first_day_of_the_delisting_period_has_no_limit(code: str, name: str) -> None:
    snapshot = market([10.0, 10.5, 3.0, 3.3, 3.45], code=code, first_day="2024-01-02")
    spells = (
        NameSpell(code, "2000-01-01", "2024-01-03", "*ST Test", code),
        NameSpell(code, "2024-01-04", "2200-01-01", name, code),
    )
    named = replace(snapshot, spells=spells)

    assert buys(named) == ["price_limit", None, "price_limit", None]
    assert sells(named) == [None, None, None, None]

    # A flag that goes on gives the period no narrower limit.
    flagged = PriceLimits(special=np.ones((5, 1), dtype=bool))
    assert buys(replace(named, price_limits=flagged)) == buys(named)


def test_limit_prices_of_the_data_count_before_the_rules_of_the_board() -> None:
    snapshot = market([10.0, 10.5, 11.6], code="600001.SH")
    upper = np.array([[np.nan], [10.5], [11.61]])
    lower = np.array([[np.nan], [9.5], [9.98]])
    limits = PriceLimits(upper=upper, lower=lower)

    assert buys(snapshot) == [None, "price_limit"]
    assert buys(replace(snapshot, price_limits=limits)) == ["price_limit", None]


def test_marks_of_vendors_for_days_without_a_limit_are_no_limit_prices() -> None:
    snapshot = market([10.0, 3.0, 3.0], code="830001.BJ")
    limits = PriceLimits(
        upper=np.array([[np.nan], [99_999.99], [3.9]]),
        lower=np.array([[np.nan], [0.0], [2.1]]),
    )

    assert sells(snapshot) == ["price_limit", None]
    assert sells(replace(snapshot, price_limits=limits)) == [None, None]

    # Zeros in both columns are days that the vendor does not know.
    unknown = PriceLimits(upper=np.zeros((3, 1)), lower=np.zeros((3, 1)))
    assert sells(replace(snapshot, price_limits=unknown)) == ["price_limit", None]


# -- sizes of orders


@pytest.mark.parametrize(
    ("code", "shares", "rule"),
    [
        ("600001.SH", 100, None),
        ("600001.SH", 150, "lot"),
        ("688001.SH", 199, "lot"),
        ("688001.SH", 200, None),
        ("688001.SH", 201, None),
        ("830001.BJ", 99, "lot"),
        ("830001.BJ", 101, None),
    ],
)
def test_a_buy_has_the_size_of_its_board(code: str, shares: int, rule: str | None) -> None:
    assert buys(market([10.0, 10.0], code=code), shares) == [rule]


@pytest.mark.parametrize(
    ("held", "sold", "rule"),
    [(350, 150, "lot"), (350, 200, None), (150, 150, None), (350, 201, None)],
)
def test_a_sell_on_star_is_at_least_200_shares_or_all(
    held: int, sold: int, rule: str | None
) -> None:
    day = tape(market([10.0, 10.0], code="688001.SH")).day(1)
    _, (outcome,) = execute(Account(0, {0: Position(held)}), day, (order("SELL", sold),))
    assert outcome.rule == rule


def test_each_board_has_one_size_of_orders() -> None:
    assert {board: astuple(order_sizes(board)) for board in Board} == {
        Board.MAIN: (100, 100),
        Board.CHINEXT: (100, 100),
        Board.STAR: (200, 1),
        Board.BSE: (100, 1),
    }


def test_options_of_the_papers_rules_are_refused_under_the_exchanges() -> None:
    with pytest.raises(ConfigError, match="lot_shares applies only to board_rules paper"):
        TradingConfig(board_rules="exchange", lot_shares=10)


# -- reported files


def imported(folder: Path, source: Path) -> MarketSnapshot:
    """Import a file of bars as it is: those that repeat the bar before are meant."""
    words = ["data", "make", "long", "--bars", str(source), "--repair", "accept_breaks"]
    assert main([*words, "--out", str(folder / "m")]) == 0
    return load_snapshot(folder / "m")


def outcome_of(snapshot: MarketSnapshot, code: str, decided: str, side: str) -> str | float:
    """Rule that stops an order which is decided at a close; the price where it is filled."""
    asset = snapshot.asset_index[code]
    row = snapshot.day_index(decided) + 1
    account = Account(100_000_000, {asset: Position(100)} if side == "SELL" else {})
    wish = Order(asset, side, 0.5, "test", None, 100)  # type: ignore[arg-type]
    _, (outcome,) = execute(account, tape(snapshot).day(row), (wish,))

    return outcome.rule or outcome.price_ticks / 10_000


@pytest.mark.shared_data
def test_the_reported_listing_trades_without_a_limit_for_five_days(
    shared_data: Path, tmp_path: Path
) -> None:
    snapshot = imported(tmp_path, shared_data / "reported/02_new_listing.csv")
    assert outcome_of(snapshot, "603999.SH", "2024-03-15", "BUY") == 23.40
    assert outcome_of(snapshot, "603999.SH", "2024-03-19", "SELL") == 19.60
    assert outcome_of(snapshot, "603999.SH", "2024-03-22", "BUY") == "price_limit"


@pytest.mark.shared_data
@pytest.mark.parametrize("column", ["isST", "limits"])
def test_the_reported_special_treatment_is_read_from_either_column(
    shared_data: Path, tmp_path: Path, column: str
) -> None:
    source = shared_data / "reported/03_special_treatment.csv"
    header, *rows = source.read_text().splitlines()
    before = {"600001.SH": 10.0, "600002.SH": 10.0}
    lines = [f"{header},isST" if column == "isST" else f"{header},up_limit,down_limit"]

    for row in rows:
        _, code, *_, close, _, _ = row.split(",")
        is_special = code == "600001.SH"
        part = 0.05 if is_special else 0.10
        upper = int(before[code] * (1 + part) * 100 + 0.5) / 100
        lower = int(before[code] * (1 - part) * 100 + 0.5) / 100
        lines.append(f"{row},{int(is_special)}" if column == "isST" else f"{row},{upper},{lower}")
        before[code] = float(close)

    bars = tmp_path / "st.csv"
    bars.write_text("\n".join(lines) + "\n")
    snapshot = imported(tmp_path, bars)

    assert outcome_of(snapshot, "600001.SH", "2024-03-28", "BUY") == "price_limit"
    assert outcome_of(snapshot, "600001.SH", "2024-04-15", "SELL") == "price_limit"
    assert outcome_of(snapshot, "600001.SH", "2024-04-01", "BUY") == 10.50


@pytest.mark.shared_data
def test_no_bar_of_a_real_market_is_beyond_the_limit_prices(
    shared_data: Path, tmp_path: Path
) -> None:
    folder = shared_data / "a_share_sse50"
    snapshot = imported(tmp_path, folder / "sse50_daily.csv.gz")
    everyone = range(len(snapshot.codes))
    days = tape(snapshot)
    references = np.vstack([days.close_ticks[:1] * 0, days.close_ticks[:-1]])

    for changed, events in days.events.items():
        for asset, event in events.items():
            references[changed, asset] = event.ex_ticks

    lower, upper = limit_prices(
        references,
        daily_limits(snapshot, everyone),
        np.full(len(everyone), 100),
        rounds_inward(snapshot.codes),
    )
    judged = (references > 0) & (snapshot.volume > 0)
    highs = np.rint(snapshot.high * 10_000)
    lows = np.rint(snapshot.low * 10_000)

    assert judged.sum() > 10_000
    assert not (judged & (highs > upper)).any()
    assert not (judged & (lows < lower)).any()
    assert (judged & (highs == upper)).sum() == 35


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "marks"), [("isST", "01"), ("is_st", ("False", "True")), ("是否ST", "否是")]
)
def test_flags_of_special_treatment_are_read_as_vendors_write_them(
    tmp_path: Path, column: str, marks: Sequence[str]
) -> None:
    bars = tmp_path / "bars.csv"
    bars.write_text(
        f"date,code,open,high,low,close,volume,{column}\n"
        f"2024-01-02,600001.SH,10,10,10,10,1000,{marks[0]}\n"
        f"2024-01-03,600001.SH,10.5,10.5,10,10.5,1000,{marks[1]}\n"
        f"2024-01-04,600001.SH,11.02,11.03,11,11.03,1000,{marks[0]}\n",
        encoding="utf-8",
    )

    assert buys(imported(tmp_path, bars)) == ["price_limit", None]


# -- storage and checks


def test_price_limits_are_stored_as_part_of_the_identity_if_present(
    tmp_path: Path,
) -> None:
    plain = market([10.0, 10.5])
    limits = PriceLimits(
        special=np.array([[False], [True]]),
        upper=np.array([[np.nan], [10.5]]),
        lower=np.array([[np.nan], [9.5]]),
        listed=("2019-05-06",),
    )
    limited = replace(plain, price_limits=limits)

    assert snapshot_id(limited) != snapshot_id(plain)
    assert snapshot_id(replace(plain, price_limits=PriceLimits())) == snapshot_id(plain)

    save_snapshot(limited, tmp_path / "m")
    stored = load_snapshot(tmp_path / "m")

    assert stored.price_limits.listed == ("2019-05-06",)

    for name, array in limits.arrays.items():
        np.testing.assert_array_equal(getattr(stored.price_limits, name), array)

    again = assemble(raw_from_snapshot(stored), ["accept_member_count"])
    again = replace(again, meta=stored.meta)

    assert snapshot_id(again) == snapshot_id(stored)
