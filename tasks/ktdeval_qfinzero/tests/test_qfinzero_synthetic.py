"""The embedded market: what its prices, calendars and articles are like, and that equal seeds give
equal markets.
"""

from __future__ import annotations

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import msgspec
import numpy as np
import pytest

from ktdeval.errors import DataError, StoreError
from ktdeval.testing import on_each_row
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.rows import E4
from ktdeval_qfinzero.data.synthetic.cached_dataset import (
    cache_root,
    generated_folder,
    open_generated,
)
from ktdeval_qfinzero.data.synthetic.companies import COINS, STOCKS, Stock, live, log_factor
from ktdeval_qfinzero.data.synthetic.engine import (
    PriceShock,
    RiskMoves,
    TradingTerms,
    make_tape,
    with_shocks,
)
from ktdeval_qfinzero.data.synthetic.macro import draw_readings, market_shocks
from ktdeval_qfinzero.data.synthetic.market import generate
from ktdeval_qfinzero.data.synthetic.minute_grid import new_york, session_grid
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams
from ktdeval_qfinzero.data.synthetic.prices import common_moves
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.instruments import TICKER
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.suite.samples import embedded_dataset
from ktdeval_qfinzero.timestamps import day_of, day_start, moment_text
from support.qfinzero.qfinzero_synthetic import (
    ALL_TIME,
    SMALL,
    bars,
    dataset_of,
    digest_of_bars,
    grid_of,
    small_market,
)

DEFAULT = SyntheticMarketParams()
NEW = "EMBQ"
TINY = dataclasses.replace(
    SMALL, stocks=1, coins=0, option_underlyings=0, option_minute_underlyings=0
)


# Equal seeds, equal markets.


@pytest.mark.exhaustive
def test_parameters_give_the_market_that_they_always_gave(tmp_path: Path) -> None:
    market = small_market()
    info = save_dataset(tmp_path / "small", market.prices, market.events, market.news, market.info)

    # Another id is another market: then GENERATOR_VERSION must grow, and items made before do not
    # fit it.
    assert info.content_id == "6a317bbaf9401790acfb2c75e48781507dfe1b3e748218816393a4c3861c6a40"


@pytest.mark.exhaustive
def test_another_seed_changes_the_market_but_another_size_nothing_else() -> None:
    ours = {key: digest_of_bars(series) for key, series in small_market().prices.bar_table.items()}
    other = generate(dataclasses.replace(SMALL, seed=1, stocks=2)).prices.bar_table
    for key in (
        ("stock", "AVLN", "day"),
        ("option", "O:AVLN241220C00240000", "day"),
        ("crypto", "BTCX", "minute"),
    ):
        assert key not in other or digest_of_bars(other[key]) != ours[key]

    fewer = generate(dataclasses.replace(SMALL, stocks=7, coins=1))

    assert len(fewer.prices.bar_table) > 500
    assert all(
        digest_of_bars(series) == ours[key] for key, series in fewer.prices.bar_table.items()
    )
    assert all(row in small_market().events for row in fewer.events)

    theirs = {row.id: row for row in small_market().news}
    changed = {row.title for row in fewer.news if theirs.get(row.id) != row}

    assert len(changed) < len(fewer.news) / 3, "only articles that look at the whole market"

    shorter = generate(
        dataclasses.replace(SMALL, minute_last="2024-12-20", option_minute_underlyings=0)
    ).prices.bar_table
    days = [key for key in ours if key[2] == "day" and not key[1].startswith("O:AVLN")]

    assert {key: digest_of_bars(shorter[key]) for key in days} == {key: ours[key] for key in days}


# Bars.


def test_a_new_stock_is_unknown_and_has_no_bars_before_its_listing() -> None:
    market = small_market()
    listed_ns = next(row.listed_ns for row in market.prices.symbol_rows if row.symbol == NEW)
    first_day = int(bars("stock", NEW, "day").start_ns[0])

    assert listed_ns == new_york(day_of(first_day), 9, 30)
    assert first_day > day_start(date.fromisoformat(SMALL.first_day))

    before, after = (
        DatasetView(dataset_of(market), moment) for moment in (listed_ns - 1, listed_ns)
    )

    assert NEW not in {row.symbol for row in before.symbols()}
    assert NEW in {row.symbol for row in after.symbols()}
    assert before.borrow(NEW) is None
    assert after.borrow(NEW) is not None


def flat(days: int, width: int = 390) -> RiskMoves:
    return RiskMoves(np.zeros((days, width)), np.zeros((days, width)), np.full(days, 0.01), 0.01)


def test_a_split_divides_the_price_and_a_dividend_comes_off_it_at_the_open() -> None:
    grid = grid_of(SMALL)
    stock = Stock(
        "TEST", "Test", "technology", "tests", 100.0, 1.0, 0.01, "mid", 0.0, "split", 0.5, 2, 1
    )
    life = live(0, stock, grid)
    (split,) = life.splits
    row = grid.row_on_or_after(split.ex_day)

    assert row is not None

    dividends = live(0, msgspec.structs.replace(stock, role="plain", yield_pct=4.0), grid).dividends
    (dividend,) = dividends
    paid = grid.row_on_or_after(dividend.ex_day)

    assert paid is not None

    factor = np.exp(
        log_factor(dataclasses.replace(life, dividends=dividends), grid, flat(len(grid)))
    )

    # 100 dollars; a dividend of about a dollar; two shares for one.
    assert (factor[0], factor[row] / factor[row - 1]) == (1.0, pytest.approx(0.5))

    before = 100.0 * factor[paid - 1]
    assert 100.0 * factor[paid] == pytest.approx(before - dividend.amount_e4 / E4)


def test_news_moves_the_price_before_the_bar_that_starts_at_its_moment() -> None:
    """Whoever reads it at that moment and buys at the next bar's open pays the new price."""
    grid = session_grid(date(2024, 12, 16), date(2024, 12, 17))
    moves = with_shocks(flat(2), [PriceShock(0, 5, 0.1), PriceShock(1, 0, -0.2)])
    traded = TradingTerms(100.0, np.zeros(2), np.ones(2, bool), 1e6, np.ones(2))
    tape = make_tape(
        0, ("test",), grid, dataclasses.replace(moves, volatility=np.full(2, 1e-9)), traded
    )
    minutes = tape.minutes

    assert (minutes.close_e4[4], minutes.open_e4[5]) == (
        1_000_000,
        round(100 * math.exp(0.1) * 100) * 100,
    )
    assert (tape.days.close_e4[0], tape.days.open_e4[1]) == (
        minutes.open_e4[5],
        round(100 * math.exp(-0.1) * 100) * 100,
    )


# Parameters, other uses, the cache.


@on_each_row(
    "changed, message",
    ({"first_day": "yesterday"}, "first_day must be a day"),
    ({"first_day": "2025-02-01"}, "first_day is after last_day"),
    ({"minute_last": "2025-06-01"}, "must lie in first_day"),
    ({"option_minute_first": "2024-11-01"}, "must lie in minute_first"),
    ({"as_of_day": "2026-01-01"}, "as_of_day must lie"),
    ({"first_day": "2016-12-30"}, "must lie in 2017-01-01"),
)
def test_days_that_make_no_market_are_refused_in_one_line(
    changed: dict[str, str], message: str
) -> None:
    with pytest.raises(DataError, match=message) as refused:
        generate(dataclasses.replace(SMALL, **changed))

    assert "\n" not in str(refused.value)

    days = dict.fromkeys(
        ("first_day", "last_day", "minute_first", "minute_last", "as_of_day"), "2024-12-25"
    )

    with pytest.raises(DataError, match="fewer than two trading days"):
        generate(dataclasses.replace(SMALL, option_minute_underlyings=0, **days))


@pytest.mark.parametrize(
    ("first", "last"), [("2017-01-01", "2017-01-31"), ("2034-12-01", "2034-12-31")]
)
def test_market_can_span_the_first_and_last_days_that_the_refusal_names(
    first: str, last: str
) -> None:
    days = dict.fromkeys(("first_day", "minute_first", "as_of_day"), first) | dict.fromkeys(
        ("last_day", "minute_last"), last
    )
    assert generate(dataclasses.replace(TINY, **days)).events


def test_invented_tickers_are_valid_and_unique() -> None:
    tickers = [row.ticker for row in (*STOCKS, *COINS)]
    assert len(set(tickers)) == len(tickers) == 44
    assert all(TICKER.fullmatch(ticker) for ticker in tickers)
    assert {"AVLN", "BRKT", "CSTL", "BTCX"} <= set(tickers)


@pytest.mark.exhaustive
def test_a_market_is_generated_once_and_found_in_the_cache_afterwards(tmp_path: Path) -> None:
    params = dataclasses.replace(SMALL, stocks=3, coins=1)
    lines: list[str] = []
    first = open_generated(tmp_path, params, lines.append)

    assert len(lines) == 2

    again = open_generated(tmp_path, params, lines.append)
    assert (len(lines), first.info) == (2, again.info)

    folder = generated_folder(tmp_path, params)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert folder.name.startswith("synthetic-v2.")
    assert check_dataset(folder) == ()

    stored = first.prices.bars("stock", "AVLN", "minute", ALL_TIME)
    assert digest_of_bars(stored) == digest_of_bars(bars("stock", "AVLN", "minute"))


def test_two_that_generate_at_once_share_one_folder(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        ids = {
            info.content_id
            for info in pool.map(lambda _: open_generated(tmp_path, TINY).info, range(2))
        }

    assert (len(ids), [path.name for path in tmp_path.iterdir()]) == (
        1,
        [generated_folder(tmp_path, TINY).name],
    )


def test_the_cache_may_be_named_from_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KTDEVAL_CACHE_DIR", "~/cache")
    assert cache_root() == tmp_path / "cache" / "qfinzero"


@pytest.mark.exhaustive
def test_a_damaged_or_unwritable_cache_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="set KTDEVAL_CACHE_DIR"):
        open_generated(tmp_path / "file", TINY)

    (tmp_path / "other").mkdir()
    generated_folder(tmp_path / "other", TINY).write_text("")
    with pytest.raises(StoreError, match=r"exists and is not a dataset.*set KTDEVAL_CACHE_DIR"):
        open_generated(tmp_path / "other", TINY)

    open_generated(tmp_path, TINY)
    folder = generated_folder(tmp_path, TINY)
    (folder / "market.duckdb").unlink()

    with pytest.raises(DataError, match=f"delete {folder} to generate it again"):
        open_generated(tmp_path, TINY)


# The embedded market itself, and what was planted in it.


def test_the_embedded_market_is_as_large_as_promised() -> None:
    dataset = embedded_dataset(0)
    info = dataset.info

    assert info.synthetic
    assert (info.first_day, info.last_day) == (date(2024, 1, 2), date(2025, 6, 30))
    assert (info.minute_first_day, info.minute_last_day) == (date(2025, 1, 2), date(2025, 3, 31))
    assert moment_text(info.default_as_of_ns) == "2025-02-14T21:00:00Z"

    folder = generated_folder(cache_root(), DEFAULT)
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 120 * 2**20


def returns(symbol: str) -> tuple[np.ndarray, np.ndarray]:
    """Days and log returns, days of splits left out."""
    days = embedded_dataset(0).prices.bars("stock", symbol, "day", ALL_TIME)
    change = np.diff(np.log(days.close_e4))
    is_ordinary = np.abs(change) < 0.3

    return days.start_ns[1:][is_ordinary], change[is_ordinary]


def test_planted_betas_volatility_clusters_and_fat_tails_are_recovered() -> None:
    grid = grid_of(DEFAULT)
    market = common_moves(0, grid, market_shocks(draw_readings(0, grid), grid)).market
    true = dict(
        zip(
            grid.midnight_ns.tolist(),
            (market.jumps + market.steps).sum(axis=1).tolist(),
            strict=True,
        )
    )
    slopes = []
    planted = []
    clusters = []
    tails = []

    for stock in STOCKS[:36]:
        if stock.role not in ("plain", "split"):
            continue

        days, change = returns(stock.ticker)
        moved = np.array([true[day] for day in days.tolist()])
        slopes.append(float(np.cov(change, moved)[0, 1] / np.var(moved, ddof=1)))
        planted.append(stock.beta)
        if stock.role == "plain":
            size = np.abs(change) - np.abs(change).mean()
            clusters.append(
                np.mean(
                    [np.mean(size[lag:] * size[:-lag]) / np.mean(size**2) for lag in range(1, 6)]
                )
            )
            tails.append(np.mean((change - change.mean()) ** 4) / np.var(change) ** 2)

    assert np.corrcoef(slopes, planted)[0, 1] > 0.85
    assert np.mean(np.abs(np.array(slopes) - np.array(planted))) < 0.2
    assert np.mean(clusters) > 0.04
    assert np.median(tails) > 3.8
