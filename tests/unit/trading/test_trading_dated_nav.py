"""NAV of whole episodes over days on which duties changed, computed again from raw prices and the
fills of the ledger: fees written out in Decimals, nothing of the executor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.market import Instrument, MarketSnapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate
from ktdeval.testing import snapshot_of_days
from ktdeval.trading import Ledger, OrderRecord
from support.market import reference_broker as slow

D = Decimal
CENT = D("0.01")
Since = list[tuple[str, str]]
STAMP_DUTY: Since = [("2008-09-19", "0.001"), ("2023-08-28", "0.0005")]
TRANSFER_FEE: Since = [("2015-08-01", "0.00002"), ("2022-04-29", "0.00001")]
SEC_FEE: Since = [
    ("2023-02-27", "0.000008"),
    ("2024-05-22", "0.0000278"),
    ("2025-05-14", "0"),
    ("2026-04-04", "0.0000206"),
]
Fee = Callable[[str, str, Decimal, Decimal], tuple[Decimal, dict[str, Decimal]]]
"""Day, side, shares and value at the price -> notional, and the parts of the fee."""


def in_force(rates: Since, day: str) -> Decimal:
    """The last rate that began by a day."""
    return [D(rate) for first, rate in rates if first <= day][-1]


def a_share_fee(
    day: str, side: str, _shares: Decimal, value: Decimal
) -> tuple[Decimal, dict[str, Decimal]]:
    """5 bps of commission, at least 5 yuan, and the duties of the day, each to the fen."""
    notional = value.quantize(CENT, ROUND_HALF_UP)
    parts = {
        "commission": max((notional * D("0.0005")).quantize(CENT, ROUND_HALF_UP), D(5)),
        "transfer_fee": (notional * in_force(TRANSFER_FEE, day)).quantize(CENT, ROUND_HALF_UP),
    }

    if side == "SELL":
        duty = notional * in_force(STAMP_DUTY, day)
        parts["stamp_duty"] = duty.quantize(CENT, ROUND_HALF_UP)

    return notional, parts


def us_fee(
    day: str, side: str, shares: Decimal, value: Decimal
) -> tuple[Decimal, dict[str, Decimal]]:
    """0.005 dollars a share, at least 1, at most 1 %; of sells SEC and FINRA. The account pays the
    rounding.
    """
    notional = value.quantize(CENT, ROUND_FLOOR if side == "SELL" else ROUND_CEILING)

    def up(amount: Decimal) -> Decimal:
        return amount.quantize(CENT, ROUND_CEILING)

    parts = {"commission": min(max(up(shares * D("0.005")), D(1)), up(notional / 100))}
    if side == "SELL":
        parts["sec_fee"] = up(notional * in_force(SEC_FEE, day))
        parts["finra_fee"] = min(up(shares * D("0.000166")), D("8.30"))

    return notional, parts


def number(value: float) -> Decimal | None:
    return None if np.isnan(value) else D(str(value))


def broker_of(market: MarketSnapshot, cash: int, house: slow.House) -> slow.Broker:
    """A slow broker of a market's raw prices: of its rules it has the changes of factors, marks and
    the value of what is held.
    """
    series = []

    for asset in range(len(market.codes)):
        prices = []
        for grid in (market.open, market.close, market.volume):
            prices.append([number(value) for value in grid[:, asset]])

        factors = [D(str(value)) for value in market.factor[:, asset]]
        series.append(slow.Series(house, *prices, factors, [True] * len(market.days)))

    return slow.Broker(series, 252, D(cash), 1000, D(1))


def check_ledger(ledger: Ledger, market: MarketSnapshot, broker: slow.Broker, fee: Fee) -> int:
    """Compare each NAV and each part of each fee; returns how many fills there were."""
    days = list(map(str, market.days))
    fills = 0

    for step in ledger.steps:
        row = days.index(step.filled_on)
        for asset in sorted(broker.held):
            broker.scale(asset, row)

        for order in step.orders:
            if not order.filled_shares or order.code is None:
                continue

            fills += 1
            asset = market.asset_index[order.code]
            shares = D(order.filled_shares) / ledger.scale(order.code).steps_per_unit
            price = broker.market[asset].opens[row]
            assert price is not None
            notional, parts = fee(step.filled_on, order.side, shares, shares * price)
            check_order(order, notional, parts)
            sign = 1 if order.side == "BUY" else -1
            broker.cash -= sign * notional + sum(parts.values())
            broker.put(asset, broker.held.get(asset, D(0)) + sign * shares)

        assert D(step.cash_minor) / 100 == broker.cash
        assert D(step.nav_minor) / 100 == broker.worth(row, False), step.filled_on

    return fills


def check_order(order: OrderRecord, notional: Decimal, parts: Mapping[str, Decimal]) -> None:
    assert D(order.notional_minor) / 100 == notional
    assert D(order.fee_minor) / 100 == sum(parts.values())
    duties = {kind: D(minor) / 100 for kind, minor in order.duties.items()}
    assert duties == {kind: part for kind, part in parts.items() if kind != "commission" and part}


def run_of(market: MarketSnapshot, window: str, folder: Path, **model_args: float) -> Ledger:
    """The ledger of a run of random trades over a window."""
    save_snapshot(market, folder / "market")
    config = RunConfig(
        model="builtin/random",
        model_args=model_args,
        tasks=("market_blinded",),
        windows=(window,),
        data=str(folder / "market"),
        out=str(folder / "run"),
        mask_key="0" * 32,
    )
    run = evaluate(config, load_plugins())

    assert not run.failed

    store = RunFolder.load(run.folder)
    (spec,) = store.manifest.specs

    return store.load_ledger(spec)


@pytest.fixture(scope="module")
def a_shares(shared_data: Path) -> MarketSnapshot:
    """Sixty stocks of all boards in the data, unadjusted, with the factors of their splits."""
    bars = pd.read_parquet(shared_data / "a_share" / "csi300_ever_daily.parquet")
    bars["date"] = bars["date"].astype(str).str[:10]
    bars = bars[bars["traded"] & (bars["date"] < "2025-01-01")]
    codes = sorted(bars["code"].unique())
    bars = bars[bars["code"].isin(codes[::6])]
    wide = {
        name: bars.pivot(index="date", columns="code", values=name)
        for name in ("raw_open", "raw_close", "factor", "volume")
    }
    market = snapshot_of_days(
        list(wide["factor"].columns),
        wide["raw_open"].round(2).to_numpy(),
        wide["raw_close"].round(2).to_numpy(),
        factor=wide["factor"].ffill().fillna(1.0).to_numpy(),
        volume=wide["volume"].to_numpy(),
    )
    days = np.array(wide["factor"].index, dtype="datetime64[D]")

    return dataclasses.replace(market, days=days)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("window", "change"),
    [
        ("2022-04-11:2022-05-31", "2022-04-29"),  # of the transfer fee
        ("2023-08-01:2023-09-22", "2023-08-28"),  # of the stamp duty
        ("2023-08-14:2023-09-08", "2023-08-28"),
        ("2023-06-01:2023-12-29", "2023-08-28"),
        ("2024-09-02:2024-12-31", "2024-11-01"),  # none: a day in the middle
    ],
)
def test_nav_of_an_a_share_episode_follows_from_raw_prices_and_fees(
    window: str, change: str, a_shares: MarketSnapshot, tmp_path: Path
) -> None:
    ledger = run_of(a_shares, window, tmp_path, sell_probability=0.3)
    broker = broker_of(a_shares, 100_000, slow.a_share("600000.SH"))

    assert check_ledger(ledger, a_shares, broker, a_share_fee) > 20

    sold = set()

    for step in ledger.steps:
        sold |= {
            step.filled_on >= change
            for order in step.orders
            if order.side == "SELL" and order.filled_shares
        }

    assert sold == {False, True}, "sells on both sides of the day"


def us_market(first: str) -> MarketSnapshot:
    """Four US stocks on 140 weekdays, some of them dear."""
    chance = np.random.default_rng(7)
    moves = 1 + chance.normal(0, 0.02, size=(140, 4))
    closes = np.round(np.array([8.0, 45.0, 190.0, 1200.0]) * np.cumprod(moves, axis=0), 2)
    opens = np.round(closes * (1 + chance.normal(0, 0.005, size=closes.shape)), 2)
    stock = Instrument("stock", "USD", "us_equity")
    market = snapshot_of_days(
        ["AAA", "BBB", "CCC", "DDD"],
        opens.tolist(),
        closes.tolist(),
        instruments=(stock,) * 4,
    )
    days = np.busday_offset(np.datetime64(first), np.arange(140), roll="forward")

    return dataclasses.replace(market, days=days)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "window"),
    [("2024-01-02", "2024-05-06:2024-06-07"), ("2025-01-02", "2025-05-01:2025-05-30")],
)
def test_the_nav_of_a_us_episode_follows_from_raw_prices_and_dated_fees(
    first: str, window: str, tmp_path: Path
) -> None:
    market = us_market(first)
    ledger = run_of(market, window, tmp_path, sell_probability=0.3)
    broker = broker_of(market, 100_000, slow.us_stock("AAA"))

    assert check_ledger(ledger, market, broker, us_fee) > 20

    orders = chain.from_iterable(step.orders for step in ledger.steps)
    sold = [order for order in orders if order.side == "SELL"]

    assert {"sec_fee" in order.duties for order in sold if order.filled_shares} == (
        {True} if first < "2025" else {True, False}
    )
