"""Half spreads of a market's own quotes, from a file of bars to the price of a fill."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError, DataError
from ktdeval.market import Execution, MarketSnapshot, execution_words, load_snapshot
from ktdeval.market.snapshots.quotes import NO_QUOTES, Quotes
from ktdeval.market.snapshots.snapshot import FloatArray
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.testing import Terminal, snapshot_of_days
from ktdeval.trading import Account, AccountConfig, MarketTape, Order
from ktdeval.trading.execution_costs import UNQUOTED, trailing_half_spread_ppb
from ktdeval.trading.executor import execute
from ktdeval.trading.types import Outcome, Position
from ktdeval_data.placebo import PlaceboRecipe, placebo_of
from ktdeval_live.days.market_increments import days_before, market_as_known
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot

CODES = ("600001.SH", "600002.SH")
DAYS = 8
PRICE = 100_000  # ticks of 10 CNY
QUOTED = Execution(spread="quotes", tick=0)
RULES = AccountConfig(initial_cash=1_000_000, max_weight=1.0, execution=QUOTED).rules("test")


def column(*values: float) -> FloatArray:
    return np.array(values, dtype=np.float64)[:, None]


def market(quotes: Quotes = NO_QUOTES, days: int = DAYS) -> MarketSnapshot:
    """Two stocks that open at 10.00 each day and close at 10.00 and 10.10 in turn."""
    closes = [[10.0 + row % 2 / 10] * len(CODES) for row in range(days)]
    return snapshot_of_days(CODES, [[10.0] * len(CODES)] * days, closes, quotes=quotes)


def quoted(bid: float = 9.99, ask: float = 10.01, days: int = DAYS) -> Quotes:
    """The same quotes of the first stock on all days, and none of the second."""
    none = np.full(days, np.nan)
    return Quotes(
        np.stack([np.full(days, bid), none], axis=1), np.stack([np.full(days, ask), none], axis=1)
    )


def fill(snapshot: MarketSnapshot, side: str = "BUY", asset: int = 0, row: int = 6) -> Outcome:
    """What becomes of an order of 100 shares that fills on the day of a row."""
    held = {asset: Position(1000)} if side == "SELL" else {}
    wish = Order(asset, side, 0.5, "test", None, 100)  # type: ignore[arg-type]
    day = MarketTape.from_snapshot(snapshot, RULES).day(row)
    _, (outcome,) = execute(Account(100_000_000, held), day, (wish,))
    return outcome


# -- by hand


def test_a_fill_pays_half_of_the_mean_spread_of_the_days_before() -> None:
    # (10.01 - 9.99) / (10.01 + 9.99) are 10 bps, 0.01 CNY of 10
    snapshot = market(quoted())

    assert fill(snapshot, "BUY").price_ticks == PRICE + 100
    assert fill(snapshot, "SELL").price_ticks == PRICE - 100


def test_the_mean_is_of_the_days_with_both_quotes_up_to_the_decision() -> None:
    # half spreads of 10, 20, -, 30, -, -, 40, 50 bps; one-sided, crossed and no quotes are none
    bid = column(9.99, 9.98, 9.99, 9.97, 10.02, 0.0, 9.96, 9.95, 1.0)
    ask = column(10.01, 10.02, 0.0, 10.03, 10.0, 0.0, 10.04, 10.05, 9.0)
    snapshot = snapshot_of_days(CODES[:1], [[10.0]] * 9, quotes=Quotes(bid, ask))

    spreads = trailing_half_spread_ppb(snapshot, 20)[:, 0]

    assert spreads.tolist() == [UNQUOTED] * 8 + [3_000_000]
    # Of the last five days, three have quotes.
    assert trailing_half_spread_ppb(snapshot, 5)[-1, 0] == UNQUOTED


def test_equal_quotes_are_a_spread_of_zero_and_no_unknown_one() -> None:
    snapshot = market(quoted(10.0, 10.0))

    assert trailing_half_spread_ppb(snapshot, 20)[-1].tolist() == [0, UNQUOTED]
    assert fill(snapshot).price_ticks == PRICE


@pytest.mark.parametrize("side", ["BUY", "SELL"])
def test_an_asset_without_quotes_is_not_traded(side: str) -> None:
    outcome = fill(market(quoted()), side, asset=1)

    assert (outcome.status, outcome.rule) == ("rejected", "volume")


def test_five_days_with_quotes_are_enough() -> None:
    quotes = quoted()
    assert quotes.ask is not None
    quotes.ask[:2, 0] = np.nan

    assert fill(market(quotes), row=6).rule == "volume"
    assert fill(market(quotes), row=7).price_ticks == PRICE + 100


def test_half_a_tick_of_the_venue_is_the_least_spread() -> None:
    config = replace(RULES, execution=Execution(spread="quotes"))
    day = MarketTape.from_snapshot(market(quoted(9.9999, 10.0001)), config).day(6)
    wish = Order(0, "BUY", 0.5, "test", None, 100)
    _, (outcome,) = execute(Account(100_000_000, {}), day, (wish,))

    assert outcome.price_ticks == PRICE + 50  # of 0.01 CNY


@pytest.mark.parametrize("row", [6, 7])
def test_quotes_of_the_fill_day_and_later_change_no_fill(row: int) -> None:
    later = quoted()
    assert later.ask is not None
    later.ask[row:, 0] = 12.0
    before = quoted()
    assert before.ask is not None
    before.ask[row - 1, 0] = 12.0

    paid = fill(market(quoted()), row=row).price_ticks

    assert fill(market(later), row=row).price_ticks == paid
    assert fill(market(before), row=row).price_ticks > paid


# -- what must not be


_ANY = st.sampled_from([np.nan, np.inf, -np.inf, -5.0, 0.0, 1e-300, 9.99, 10.0, 10.01, 1e300])


@pytest.mark.slow
@given(st.lists(st.tuples(_ANY, _ANY), min_size=DAYS, max_size=DAYS))
def test_forged_quotes_make_no_price_better_than_without_them(
    pairs: list[tuple[float, float]],
) -> None:
    bid, ask = np.array(pairs).T
    one = Quotes(np.stack([bid, bid], axis=1), np.stack([ask, ask], axis=1))
    if not one:
        return

    bought = fill(market(one))
    sold = fill(market(one), "SELL")

    assert bought.rule == "volume" or PRICE <= bought.price_ticks <= 2 * PRICE
    assert sold.rule == "volume" or 1 <= sold.price_ticks <= PRICE


@pytest.mark.parametrize(
    "quotes", [NO_QUOTES, quoted(9.99, 0.0), quoted(10.01, 9.99), Quotes(bid=np.ones((DAYS, 2)))]
)
def test_a_market_without_both_quotes_of_a_day_is_refused_in_a_line(quotes: Quotes) -> None:
    expected = (
        "snapshot tiny: execution at venue a_share takes the spread from quotes, but"
        " no day of the market has a bid and an ask; import bars with columns bid and ask, or"
        " choose spread: fixed or spread: liquidity"
    )
    with pytest.raises(DataError) as caught:
        MarketTape.from_snapshot(market(quotes), RULES)
    assert str(caught.value) == expected


def test_a_run_on_a_market_without_quotes_ends_before_its_first_episode(
    terminal: Terminal, tmp_path: Path
) -> None:
    task = tmp_path / "quoted.yaml"
    task.write_text(
        "family: own\nversion: '1'\nvariants:\n  quoted:\n    extends: blinded_open_research\n"
        "    trading: {execution: {spread: quotes}}\n",
        encoding="utf-8",
    )
    command = ("--model", "builtin/momentum", "--tasks", task, "--limit", 1, "--windows", "W1")
    refusal = terminal.refusal(*command, "--out", tmp_path / "run")

    assert "takes the spread from quotes, but no day of the market has a bid and an ask" in refusal
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_half_spread_beside_that_of_quotes_is_refused() -> None:
    with pytest.raises(ConfigError, match="omit half_spread_bps"):
        Execution(spread="quotes", half_spread_bps=5)


def test_a_spread_by_quotes_is_told_and_not_free() -> None:
    assert not QUOTED.is_free
    assert execution_words(QUOTED) == (
        "A fill is at a worse price than the one named above. A buy pays and a sell gives up half"
        " the bid-ask spread, that of the asset's last quotes of a day, on average of the 20 days"
        " up to your decision. An asset that traded, or had a bid and an ask, on fewer than 5 of"
        " these days can't be traded (`volume`)."
    )


# -- from a file to a stored market


def test_changed_quotes_of_a_stored_market_are_refused(tmp_path: Path) -> None:
    save_snapshot(market(quoted()), tmp_path / "m")
    path = tmp_path / "m/quotes.parquet"
    table = pd.read_parquet(path)
    table.loc[4, "ask"] = 10.02
    table.to_parquet(path)

    with pytest.raises(DataError, match=r"quotes\.parquet: ask differs, first on 1970-01-03"):
        load_snapshot(tmp_path / "m")


def test_quotes_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"bid .* has shape \(3, 2\), expected \(8, 2\)"):
        market(quoted(days=3))


HEADER = "date,code,open,high,low,close,volume,{bid},{ask}\n"
ROWS = (
    "2024-01-02,600001.SH,10,10.1,9.9,10,1000,9.99,10.01",
    "2024-01-03,600001.SH,10,10.1,9.9,10.1,1000,10.08,10.12",
    "2024-01-04,600001.SH,10,10.1,9.9,10,1000,,10.01",
    "2024-01-05,600001.SH,10,10,10,10,0,9.98,10.02",
)


def bars_file(folder: Path, *rows: str, bid: str = "bid", ask: str = "ask") -> list[str]:
    """Write a file of bars; return the command that imports it."""
    path = folder / "bars.csv"
    path.write_text(HEADER.format(bid=bid, ask=ask) + "\n".join(rows) + "\n", encoding="utf-8")
    return ["data", "make", "long", "--bars", str(path), "--out", str(folder / "m")]


@pytest.mark.parametrize(("bid", "ask"), [("bid", "ask"), ("BID", "ASK"), ("买一价", "卖一价")])
def test_quotes_are_read_from_the_bars(tmp_path: Path, bid: str, ask: str) -> None:
    assert main(bars_file(tmp_path, *ROWS, bid=bid, ask=ask)) == 0
    snapshot = load_snapshot(tmp_path / "m")
    spreads = snapshot.quotes.half_spreads
    assert spreads is not None

    # A day with one quote, and a day without trade, have no spread.
    np.testing.assert_allclose(spreads[:, 0], [0.001, 0.02 / 10.1, np.nan, np.nan])
    # They go nowhere else: what is shown of a day has no quotes.
    assert not hasattr(snapshot.as_of(1), "quotes")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "row",
    [
        "2024-01-03,600001.SH,10,10.1,9.9,10.1,1000,10.12,10.08",
        "2024-01-03,600001.SH,10,10.1,9.9,10.1,1000,-10.08,10.12",
        "2024-01-03,600001.SH,10,10.1,9.9,10.1,1000,10.08,inf",
    ],
)
def test_impossible_quotes_are_an_error_that_a_repair_drops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str
) -> None:
    command = bars_file(tmp_path, ROWS[0], row)

    assert main(command) == 2
    error = capsys.readouterr().err
    assert "1 impossible_quotes (first: 600001.SH 2024-01-03)" in error
    assert "--repair drop_quotes" in error

    assert main([*command, "--repair", "drop_quotes"]) == 0
    snapshot = load_snapshot(tmp_path / "m")
    assert snapshot.meta.repairs == ("drop_quotes: 1 rows",)
    assert snapshot.quotes.bid is not None
    assert snapshot.quotes.bid[:, 0].tolist() == pytest.approx([9.99, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("bid", "ask", "kind"),
    [
        (10.0, 10.0, None),  # equal
        (9.0, 11.0, None),
        (9.1, 9.2, None),  # the close of 10 is 8.7 % above the ask
        (9.0, 9.05, "quotes_far_from_close"),  # 10.5 % above
        (11.2, 11.3, "quotes_far_from_close"),
        (999.0, 1001.0, "quotes_far_from_close"),  # in fen
        (0.01, 10.01, "quotes_far_from_close"),  # a bid that nobody meant
        (9.99, 199_999.0, "quotes_far_from_close"),
        (9.99, 0.0, "one_sided_quotes"),
        (np.nan, 10.0, "one_sided_quotes"),
        (0.0, 0.0, None),  # none
        (10.01, 9.99, "impossible_quotes"),
        (-1.0, np.nan, "impossible_quotes"),
    ],
)
def test_each_fault_of_quotes_is_one_finding(bid: float, ask: float, kind: str | None) -> None:
    one = quoted()
    assert one.bid is not None
    assert one.ask is not None
    one.bid[2, 0] = bid
    one.ask[2, 0] = ask

    found = [each for each in check(raw_from_snapshot(market(one))) if "quotes" in each.rule]

    assert [(each.rule, each.count) for each in found] == ([(kind, 1)] if kind else [])
    assert all(each.examples == ("600001.SH 1970-01-03",) for each in found)


def test_a_column_of_bids_alone_is_no_market_of_quotes(tmp_path: Path) -> None:
    assert main(bars_file(tmp_path, *ROWS, ask="other")) == 0
    assert not load_snapshot(tmp_path / "m").quotes
    assert not (tmp_path / "m/quotes.parquet").exists()


# -- markets made of others


def test_a_live_test_knows_the_quotes_before_its_first_day() -> None:
    snapshot = market(quoted())
    known = market_as_known(days_before(snapshot, 6), ["1970-01-07", "1970-01-08"], ())
    spreads = known.quotes.half_spreads
    assert spreads is not None

    assert np.isfinite(spreads[:, 0]).tolist() == [True] * 6 + [False] * 2


def test_a_placebo_has_the_spreads_of_its_source() -> None:
    generator = np.random.default_rng(3)
    opens = 10 + generator.uniform(-0.2, 0.2, (40, 2)).cumsum(axis=0).round(2)
    source = snapshot_of_days(CODES, opens.tolist(), quotes=Quotes(opens * 0.999, opens * 1.001))
    made = placebo_of(source, PlaceboRecipe("shuffle", 0, 1))

    assert (made.close != source.close).any()
    assert made.quotes.half_spreads is not None
    np.testing.assert_allclose(made.quotes.half_spreads, 0.001)
