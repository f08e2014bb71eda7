"""Figures of other markets than A-shares: days a year of the venue, no index, few assets; each
worked by hand.
"""

from __future__ import annotations

import dataclasses
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.attribution import FEW_ASSETS, attribute, attribution_problem, fit_factors
from ktdeval.cards.assembly import build_card
from ktdeval.cards.card_reading import validate_card
from ktdeval.errors import CardError
from ktdeval.market import Document, Documents, FillRule, Instrument, MarketSnapshot, with_id
from ktdeval.market.snapshots.documents import Entity
from ktdeval.market.venues.close_times import Close
from ktdeval.stats import episode_intervals, panel_metric
from ktdeval.stats.calibration import judged_orders
from ktdeval.task_api.episode_spec import Window
from ktdeval.testing import on_each_row, tiny_snapshot
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.trading.ledger import Ledger
from ktdeval.trading.types import Scale
from ktdeval_builtin.attribution_metrics import ATTRIBUTION, attribution_metric
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import assemble
from support.figures.card_cases import inputs
from support.figures.metric_cases import ledger, market, nav_ledger, order, spec, step

COIN = Instrument("crypto", "USD", "crypto_spot")
STOCK = Instrument("stock", "USD", "us_equity")


def other(
    snapshot: MarketSnapshot, *instruments: Instrument, index: bool = False
) -> MarketSnapshot:
    """The same numbers as a market of these instruments, or of coins."""
    meta = snapshot.meta if index else dataclasses.replace(snapshot.meta, benchmark="")
    given = instruments or (COIN,) * len(snapshot.codes)

    return with_id(
        dataclasses.replace(
            snapshot, meta=meta, instruments=given, indices=snapshot.indices if index else {}
        )
    )


COINS = other(market())
MIXED = other(market(), COIN, STOCK)


def of(snapshot: MarketSnapshot, ledger: Ledger) -> Ledger:
    return dataclasses.replace(ledger, **snapshot.units_of(ledger.days))


@pytest.mark.parametrize(
    ("snapshot", "days"),
    [(market(), 252), (COINS, 365), (MIXED, 365), (other(market(), STOCK, STOCK), 252)],
)
def test_years_have_the_days_of_the_venue(snapshot: MarketSnapshot, days: int) -> None:
    # Returns of 2, 0 and 1 %: mean and deviation are both 1 %.
    sharpe = panel_metric("sharpe").compute(
        of(snapshot, nav_ledger([10_200, 10_200, 10_302], 10_000)), snapshot, "strict"
    )

    assert sharpe.value == pytest.approx(math.sqrt(days), rel=1e-12)

    interval = episode_intervals(
        of(snapshot, nav_ledger([1010, 1030, 1020, 1040, 1050])), snapshot
    )["sharpe"]
    plain = episode_intervals(nav_ledger([1010, 1030, 1020, 1040, 1050]), market())["sharpe"]

    if interval.low is not None and plain.low is not None:
        assert interval.low / plain.low == pytest.approx(math.sqrt(days / 252), rel=1e-12)

    # 600 of 1,000 traded in one of two steps: 0.3 a day.
    traded = of(
        snapshot,
        ledger([step(0, 1000, orders=[order(filled=60, notional_minor=600)]), step(1, 1000)]),
    )

    assert panel_metric("turnover").compute(traded, snapshot, "strict").value == pytest.approx(
        0.3 * days, rel=1e-12
    )


def test_a_window_in_which_only_the_stock_trades_has_the_days_of_stocks() -> None:
    base = market()
    coin_later = base.close.copy()
    coin_later[:4, 0] = math.nan
    mixed = other(dataclasses.replace(base, close=coin_later), COIN, STOCK)
    stock = Window("stock", "2024-01-03", "2024-01-05")
    both = Window("both", "2024-01-08", "2024-01-09")
    plans = [spec(snapshot=mixed.id, window=window) for window in (stock, both)]
    paths = [
        ledger([step(k, nav) for k, nav in enumerate((10_200, 10_200, 10_302))], 10_000, plans[0]),
        ledger([step(k, nav) for k, nav in ((3, 10_200), (4, 10_200))], 10_000, plans[1]),
    ]
    figures = [of(mixed, path) for path in paths]

    assert [path.days_a_year for path in figures] == [252, 365]

    metrics = [panel_metric("sharpe")]

    for specs, year in ((plans[:1], 252), (plans[1:], 365), (plans, 365)):
        chosen = figures if len(specs) == 2 else [figures[plans.index(specs[0])]]
        card = build_card(
            dataclasses.replace(
                inputs(), snapshot=mixed, specs=specs, ledgers=chosen, metrics=metrics
            )
        ).plain
        named = "252 or 365" if len(specs) == 2 else str(year)
        assert (
            card["snapshot"]["days_a_year"],
            card["metrics"]["sharpe"]["formula"][:40].split("*")[0],
        ) == (
            year,
            f"sharpe/1: sqrt({named})",
        )

    assert panel_metric("sharpe").compute(figures[0], mixed, "strict").value == pytest.approx(
        math.sqrt(252), rel=1e-12
    )


def test_without_an_index_relative_figures_have_a_reason() -> None:
    ledger = of(COINS, nav_ledger([10_200, 10_200, 10_302, 10_302, 10_302], 10_000))
    ratio = panel_metric("information_ratio").compute(ledger, COINS, "strict")

    assert (ratio.value, ratio.reason) == (None, "benchmark: the market has no index")
    assert (
        episode_intervals(ledger, COINS)["information_ratio"].reason
        == "benchmark: the market has no index"
    )

    with_index = other(market(), index=True)
    assert (
        panel_metric("information_ratio")
        .compute(of(with_index, ledger), with_index, "strict")
        .value
        is not None
    )


def test_a_card_names_the_venues_and_refuses_a_ledger_of_other_units() -> None:
    own = spec(snapshot=COINS.id)
    ledger = dataclasses.replace(
        nav_ledger([10_200, 10_200, 10_302, 10_302, 10_302], 10_000), spec=own.to_json()
    )
    metrics = [
        *map(panel_metric, ("total_return", "sharpe", "information_ratio")),
        *map(attribution_metric, ATTRIBUTION),
    ]
    given = dataclasses.replace(
        inputs(), snapshot=COINS, specs=[own], ledgers=[of(COINS, ledger)], metrics=metrics
    )
    card = build_card(given).plain
    validate_card(card, "card")

    assert card["episodes"][0]["final_nav_minor"] == 10_302

    expected = {
        "benchmark": "none",
        "benchmark_name": "no index",
        "venues": ["crypto_spot"],
        "currency": "USD",
        "days_a_year": 365,
    }

    assert {name: card["snapshot"][name] for name in expected} == expected
    assert card["metrics"]["sharpe"]["formula"].startswith("sharpe/1: sqrt(365)*mean/std")

    held = card["reference"]["benchmark_buy_and_hold"]["long"]["metrics"]
    assert {entry["reason"] for entry in held.values()} == {"the market has no index"}
    assert card["episodes"][0]["metrics"]["industry_return"]["reason"] == FEW_ASSETS
    assert set(card["attribution"]["value"]["lines"]) == {
        "common",
        "selection",
        "timing",
        "fees",
        "rounding",
    }

    with pytest.raises(CardError, match=r"'currency': 'CNY'.*'currency': 'USD'"):
        build_card(dataclasses.replace(given, ledgers=[ledger]))


@pytest.mark.parametrize(
    ("values", "cash", "strict", "paper", "free"),
    [
        ((600, -200), 600, 0.625, 0.4, 0.2),  # NAV 1,000, gross 800
        ((1200, -600), 400, 180 / 324, 180 / 324, 0.0),  # gross 1,800
        ((600, 200), 200, 0.625, 0.4, 0.2),  # long only
        # shorts were bought back on credit, what is held can't be sold: no free cash
        ((900, 300), -200, 0.625, 0.625, 0.0),
    ],
)
def test_shorts_count_by_their_size(
    values: tuple[int, int], cash: int, strict: float, paper: float, free: float
) -> None:
    held = of(
        COINS, ledger([step(0, cash, dict(zip(("009001.SZ", "609001.SH"), values, strict=True)))])
    )

    assert held.nav[-1] == 10.0

    hhi = [panel_metric("hhi").compute(held, COINS, rules).value for rules in ("strict", "paper")]
    assert hhi == pytest.approx([strict, paper], rel=1e-15)
    assert panel_metric("cash_ratio").compute(held, COINS, "strict").value == pytest.approx(
        free, abs=1e-15
    )


def test_margin_calls_are_turnover() -> None:
    call = {
        "kind": "margin_call",
        "code": "609001.SH",
        "shares": 1,
        "price_ticks": 1,
        "cash_minor": -510,
        "fee_minor": 10,
    }
    interest = call | {"kind": "borrow", "cash_minor": -3, "fee_minor": 0}
    traded = of(
        COINS,
        ledger(
            [step(0, 1000, charges=[call, interest], orders=[order(filled=60, notional_minor=600)])]
        ),
    )

    assert panel_metric("turnover").compute(traded, COINS, "strict").value == pytest.approx(
        1.1 * 365, rel=1e-12
    )


@on_each_row(
    "fill, outcomes",
    # 21 to 23; 28 to 25, the second having no bar for two days
    ("next_open", [True, False]),
    # 11 to 13; 18 to 15
    ("next_close", [True, False]),
    # filled at the close before: 12 to 11; 17 to 18
    ("same_close", [False, True]),
)
def test_an_order_is_judged_from_its_fill_to_the_next_price_of_that_kind(
    fill: FillRule, outcomes: list[bool]
) -> None:
    nan = math.nan
    closes = np.array([[10.0, 20], [12, 17], [11, 18], [13, nan], [14, nan], [15, 15]])
    orders = [order("009001.SZ"), order("609001.SH")]  # both bought on the third day

    # unsplit, and split each day
    for factor in (np.ones_like(closes), 2.0 ** np.arange(len(closes))[:, None].repeat(2, axis=1)):
        low = closes / factor
        high = (closes + 10.0) / factor
        base = dataclasses.replace(
            market(), close=low, open=high, high=high.copy(), low=low.copy(), factor=factor
        )
        snapshot = other(base)
        traded = of(
            snapshot, ledger([step(0, 1000, charges=[]), step(1, 1000, charges=[], orders=orders)])
        )
        # as the task's own rules may have it, whatever the assets' venue
        scales = dict.fromkeys(snapshot.codes, Scale(fill=fill))
        judged = judged_orders(dataclasses.replace(traded, scales=scales), snapshot)
        assert [forecast.success for forecast in judged.forecasts] == outcomes


# ---- few assets

M = [0.01, -0.01] * 15  # what the market made each day before


def coins(last: tuple[float, float], index: bool = False) -> MarketSnapshot:
    """Two coins that moved by 1.5 and 0.5 times the market, and a last day of their own; an index
    that moved as the market.
    """
    moves = {
        "609001.SH": [1.5 * m for m in M] + [last[0]],
        "609002.SH": [0.5 * m for m in M] + [last[1]],
    }
    closes = {
        code: (100 * np.cumprod([1.0, *(1 + np.array(own))])).tolist()
        for code, own in moves.items()
    }
    snapshot = tiny_snapshot(closes)
    levels = 1000 * np.cumprod([1.0, *(1 + np.array([*M, 0.03]))])

    return other(
        dataclasses.replace(snapshot, indices={snapshot.meta.benchmark: levels}), index=index
    )


def half_in_the_first(snapshot: MarketSnapshot, gain: float) -> Ledger:
    """Half of the NAV in the first coin over the last day, and half in cash."""
    last = len(snapshot.days) - 1
    position = {
        "code": "609001.SH",
        "shares": 1,
        "locked": 0,
        "price_ticks": 1,
        "value_minor": 50_000_000,
    }
    steps = [
        step_record(
            snapshot,
            0,
            last - 1,
            positions=[position],
            cash_minor=50_000_000,
            holdings_minor=50_000_000,
        ),
        step_record(snapshot, 1, last, nav_minor=round(100_000_000 * (1 + gain))),
    ]

    return of(snapshot, ledger_of(steps))


def test_a_fill_at_the_decision_close_is_held_over_the_whole_day() -> None:
    # All of the NAV is moved from the second coin to the first at the close before the last day, on
    # which they make 10 and -20 %.
    snapshot = coins((0.1, -0.2))
    last = len(M) + 1
    first, second = snapshot.codes
    worth = 100_000_000
    position = {"code": second, "shares": 1, "locked": 0, "price_ticks": 1, "value_minor": worth}
    bought = {"notional_minor": worth, "filled": 100, "fee_minor": 0}
    orders = [order(second, "SELL", **bought), order(first, "BUY", **bought)]
    steps = [
        step_record(
            snapshot, 0, last - 1, positions=[position], cash_minor=0, holdings_minor=worth
        ),
        step_record(snapshot, 1, last, orders=orders, nav_minor=round(worth * 1.1)),
    ]
    made = of(snapshot, ledger_of(steps))
    filled = dataclasses.replace(
        made, scales=dict.fromkeys(snapshot.codes, Scale(fill="same_close"))
    )
    parts = attribute(filled, snapshot)
    np.testing.assert_allclose(
        [parts.timing[1], parts.returns[1], parts.invested[1]], [0.0, 0.1, 1.0], atol=1e-12
    )
    np.testing.assert_allclose(parts.lines[1].sum(), 0.1, atol=1e-12)
    np.testing.assert_allclose(parts.rounding[1], 0.0, atol=1e-12)
    # The market made -5 % and the coin moves 1.5 times as much; the rest is selection.
    np.testing.assert_allclose(parts.lines[1][:2], [1.5 * -0.05, 0.1 + 0.075], atol=1e-9)

    assert panel_metric("total_return").compute(filled, snapshot, "strict").value == pytest.approx(
        0.1
    )
    assert attribution_metric("trading_effect").compute(
        filled, snapshot, "strict"
    ).value == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("index", "common", "selection"),
    [
        (False, 0.5 * 1.5 * 0.01, 0.5 * 0.02 - 0.0075),  # the market made (2 % + 0 %) / 2
        (True, 0.5 * 1.5 * 0.03, 0.5 * 0.02 - 0.0225),
    ],
)
def test_few_assets_are_split_into_market_and_rest(
    index: bool, common: float, selection: float
) -> None:
    snapshot = coins((0.02, 0.0), index)
    ledger = half_in_the_first(snapshot, 0.01)
    attribution = attribute(ledger, snapshot)

    assert attribution.line_names == ("common", "selection", "timing", "fees", "rounding")

    np.testing.assert_allclose(
        attribution.lines[1], [common, selection, 0, 0, 0], rtol=0, atol=1e-12
    )

    assert attribution.invested.tolist() == [0.0, 0.5]

    subject = snapshot.meta.benchmark or "equal weights"
    assert [(note.kind, note.subject, note.days) for note in attribution.notes] == [
        ("market_model", subject, 2)
    ]

    values = {
        metric.name: metric.compute(ledger, snapshot, "strict")
        for metric in map(attribution_metric, ATTRIBUTION)
    }
    total = (
        values["common_return"].value
        + values["selection_alpha"].value
        + values["trading_effect"].value
    )

    assert total == pytest.approx(0.01, abs=1e-12)
    assert (
        values["paper_common_return"].value
        == values["common_return"].value
        == pytest.approx(common, abs=1e-12)
    )

    for name in ("style_return", "industry_return", "paper_style_return"):
        assert (values[name].value, values[name].reason) == (None, FEW_ASSETS)


def test_a_beta_needs_twenty_returns_and_a_market_that_moved() -> None:
    snapshot = coins((0.02, 0.0))
    fitted = fit_factors(snapshot, 1, 31)
    betas = fitted.exposures.design[:, 0, 0]
    np.testing.assert_allclose(betas, [1.0] * 20 + [1.5] * 11, rtol=0, atol=1e-9)

    assert [(note.kind, note.count, note.days) for note in fitted.notes] == [
        ("market_model", 31, 31),
        ("beta_assumed", 40, 20),
    ]

    np.testing.assert_allclose(
        fitted.explained + fitted.residuals, fitted.returns, rtol=0, atol=1e-15
    )


def test_one_asset_needs_an_index() -> None:
    closes = {"609001.SH": [10.0, 10.1, 10.2]}
    alone = other(tiny_snapshot(closes))
    beside = other(tiny_snapshot(closes), index=True)
    ledger = ledger_of([step_record(alone, number, number + 1) for number in range(2)])

    assert (
        attribution_problem(of(alone, ledger), alone)
        == "one asset and no index: there is no market to compare it with"
    )
    assert (
        attribution_metric("selection_alpha").compute(of(alone, ledger), alone, "strict").value
        is None
    )
    assert attribution_problem(of(beside, ledger), beside) is None


@pytest.mark.shared_data
def test_real_coins_and_a_stock_against_least_squares(shared_data: Path, tmp_path: Path) -> None:
    tables = [pd.read_csv(shared_data / path, dtype={"date": str}) for path in (
        "us_daily/nasdaq100_daily.csv.gz", "crypto_daily/crypto10_daily.csv.gz")]  # fmt: skip
    rows = pd.concat(
        [tables[0][tables[0]["code"] == "TSLA"], tables[1][tables[1]["code"].isin(["BTC", "ETH"])]]
    )
    rows[rows["date"].between("2025-06-02", "2025-10-30")].to_csv(
        tmp_path / "bars.csv", index=False
    )
    (tmp_path / "assets.csv").write_text("code,venue\nBTC,crypto_spot\nETH,crypto_spot\n")
    snapshot = assemble(
        read_long(
            LongParams(
                bars=str(tmp_path / "bars.csv"),
                industry=str(tmp_path / "assets.csv"),
                venue="us_equity",
            )
        )
    )
    row = len(snapshot.days) - 1
    fitted = fit_factors(snapshot, row, row)
    closes = pd.DataFrame(snapshot.close, columns=snapshot.codes)
    returns = (closes / closes.ffill().shift() - 1)[1:row]  # of the days before the last
    level = (1.0 + returns.fillna(0.0).mean(axis=1)).cumprod()

    for column, code in enumerate(snapshot.codes):
        own = returns[code].dropna()
        # of the stock: what the market did since its last session
        market_since = level[own.index].pct_change()
        market_since.iloc[0] = level[own.index[0]] - 1.0
        slope = np.polyfit(market_since, own, 1)[0]
        assert fitted.exposures.design[0, 0, column] == pytest.approx(slope, rel=1e-9), code

    weekend = fit_factors(
        snapshot, snapshot.day_index("2025-08-02"), snapshot.day_index("2025-08-03")
    )

    # TSLA
    assert weekend.explained[:, 2].tolist() == weekend.residuals[:, 2].tolist() == [0.0, 0.0]


def test_documents_the_mask_cannot_show_are_counted_at_their_known_close() -> None:
    days, (first, second) = market().days, market().codes

    def item(day: np.datetime64, hour: int, title: str, *codes: str) -> Document:
        moment = datetime.fromisoformat(f"{day}T{hour:02}:00+00:00")
        return Document(moment, moment, "wire", "news", codes, title, "")

    # `Alpha` is a word of both assets: filed under one of them it means that one, under none it
    # can't be told.
    entities = (Entity(first, "name", "Alpha Foods"), Entity(second, "name", "Alpha Foods"))
    items = [
        item(days[0], 1, "Alpha Foods before the first decision's day"),
        item(days[1], 1, "Alpha Foods rose", first),
        item(days[1], 2, "Alpha Foods fell"),
        item(days[1], 20, "Alpha Foods after the close of the first decision"),
        item(days[3], 1, "Alpha Foods after the last decision"),
    ]
    snapshot = dataclasses.replace(
        market(), documents=Documents.of(items, Close(15, 0, "UTC"), entities)
    )
    blinded = dataclasses.replace(
        ledger_of([step_record(snapshot, at, at + 2) for at in (0, 1)]), spec={"mask": "blinded"}
    )
    share = panel_metric("documents_withheld").compute(blinded, snapshot, "strict")

    assert (share.value, share.n, share.detail) == (2 / 3, 3, {"known": 3, "withheld": 2})

    bright = dataclasses.replace(blinded, spec={"mask": "bright"})
    assert panel_metric("documents_withheld").compute(bright, snapshot, "strict").detail == {
        "known": 3,
        "withheld": 0,
    }

    none = panel_metric("documents_withheld").compute(blinded, market(), "strict")
    assert (none.value, none.reason) == (None, "the market has no documents")
