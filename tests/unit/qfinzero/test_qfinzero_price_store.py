"""The price store on disk: the same answers as from memory, whatever is asked, and nothing outside its folder."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.folder import open_dataset, save_dataset
from ktdeval_qfinzero.data.layout import load_manifest, path_name
from ktdeval_qfinzero.data.parquet_prices import ParquetPrices
from ktdeval_qfinzero.data.rows import BAR_COLUMNS
from ktdeval_qfinzero.data.stores import Span
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import DAY
from qfinzero_store_play import INFO, equal_bars, long_contracts, long_prices, save_tiny
from qfinzero_world import at

ALWAYS = Span(-(2**80), 2**80)
MEMORY = long_prices()
SYMBOLS = ["AVLN", "A.B", "AB", "COIN", "A_B", "NONE", "O:NONE250117C00100000", *(one.symbol for one in long_contracts()[::7])]
EVIL = ["..", ".", "", "/", "/etc/passwd", "../AVLN", "AVLN/..", "AVLN/2025", "AVLN\0", "A_B", "avln", "*", "O:../250117C00100000",
        "A" * 9_999]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("long") / "dataset"
    save_dataset(place, MEMORY, [], [], INFO)
    return place


@pytest.fixture(scope="module")
def saved_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tiny") / "dataset"
    save_tiny(place)
    return place


@pytest.fixture
def tiny(saved_tiny: Path, tmp_path: Path) -> Path:
    return shutil.copytree(saved_tiny, tmp_path / "dataset")


@pytest.fixture(scope="module")
def store(folder: Path) -> ParquetPrices:
    return ParquetPrices(folder)


moments = st.integers(at("2023-11-01T00:00:00Z"), at("2025-04-01T00:00:00Z")) | st.sampled_from(
    [0, 2**80, -(2**80), at("2025-01-01T00:00:00Z"), at("2024-01-01T00:00:00Z"), at("2024-12-31T23:59:00Z")]
)
spans = st.builds(Span, moments, moments)
days = st.dates(date(2024, 12, 1), date(2025, 4, 1))


@given(st.sampled_from(["stock", "option", "crypto"]), st.sampled_from(SYMBOLS), st.sampled_from(["day", "minute"]), spans)
@settings(max_examples=80, deadline=None)
def test_bars_are_those_in_memory(store: ParquetPrices, asset_class, symbol, resolution, span) -> None:
    assert equal_bars(store.bars(asset_class, symbol, resolution, span), MEMORY.bars(asset_class, symbol, resolution, span))


@given(st.sampled_from(["AVLN", "A.B", "AB", "NONE"]), st.sampled_from(["day", "minute"]), spans)
@settings(max_examples=30, deadline=None)
def test_chains_are_those_in_memory(store: ParquetPrices, underlying, resolution, span) -> None:
    found, expected = store.chain_bars(underlying, resolution, span), MEMORY.chain_bars(underlying, resolution, span)
    assert list(found) == list(expected)
    assert all(equal_bars(found[symbol], expected[symbol]) for symbol in expected)


@given(st.sampled_from(["AVLN", "A.B", "BRKT", "CSTL", "NONE"]), moments, days, days)
@settings(max_examples=80, deadline=None)
def test_small_tables_are_those_in_memory(store: ParquetPrices, symbol, as_of_ns, first, last) -> None:
    for name in ("contracts", "dividends", "splits"):
        assert list(getattr(store, name)(symbol, as_of_ns)) == list(getattr(MEMORY, name)(symbol, as_of_ns))
    assert store.borrow(symbol, as_of_ns) == MEMORY.borrow(symbol, as_of_ns)
    assert list(store.symbols(as_of_ns)) == list(MEMORY.symbols(as_of_ns))
    assert list(store.rates(first, last, as_of_ns)) == list(MEMORY.rates(first, last, as_of_ns))


# ---- years


def test_a_span_over_a_new_year_is_one_series_and_a_year_begins_at_midnight_in_utc(folder: Path, store: ParquetPrices) -> None:
    new_year, minute = at("2025-01-01T00:00:00Z"), 60_000_000_000
    around = Span(new_year - 2 * minute, new_year + 2 * minute)
    found = store.bars("crypto", "COIN", "minute", around)
    assert found.start_ns.tolist() == list(range(around.start_ns, around.end_ns, minute))
    assert len(store.bars("stock", "AVLN", "day", ALWAYS)) == 456  # 2023-12-01 … 2025-02-28, three years' files
    parts = load_manifest(folder).parts
    ends = parts["prices/crypto/minute/COIN/2024"].last_ns, parts["prices/crypto/minute/COIN/2025"].first_ns
    assert ends == (new_year - minute, new_year)
    assert int(store.bars("crypto", "COIN", "minute", Span(0, new_year)).start_ns[-1]) == new_year - minute


# ---- names


def test_a_name_that_is_no_symbol_finds_nothing_and_makes_no_path(store: ParquetPrices) -> None:
    for symbol in EVIL:
        assert [len(store.bars(asset_class, symbol, "day", ALWAYS)) for asset_class in ("stock", "option", "crypto")] == [0, 0, 0]
        assert (store.chain_bars(symbol, "day", ALWAYS), store.borrow(symbol, 2**62)) == ({}, None)
        assert [len(ask(symbol, 2**62)) for ask in (store.contracts, store.dividends, store.splits)] == [0, 0, 0]
        with pytest.raises(DataError, match="expected a ticker"):
            path_name(symbol)


def test_a_ticker_with_a_dot_and_one_without_lie_apart(folder: Path, store: ParquetPrices) -> None:
    assert path_name("A.B") == "A_B"
    assert (folder / "prices/stock/day/A_B/2024.parquet").is_file()
    assert not equal_bars(store.bars("stock", "A.B", "day", ALWAYS), store.bars("stock", "AB", "day", ALWAYS))


def test_a_file_that_is_a_link_is_refused(tiny: Path) -> None:
    path = tiny / "prices/stock/day/AVLN/2025.parquet"
    path.rename(tiny.parent / "elsewhere.parquet")
    path.symlink_to(tiny.parent / "elsewhere.parquet")
    with pytest.raises(DataError, match="not a plain file"):
        open_dataset(tiny)


# ---- memory


def test_answers_are_read_only(store: ParquetPrices) -> None:
    symbol = long_contracts()[0].symbol
    answers = [
        store.bars("stock", "AVLN", "day", ALWAYS),
        store.bars("crypto", "COIN", "minute", Span(at("2025-01-02T00:00:00Z"), at("2025-01-03T00:00:00Z"))),
        store.bars("option", symbol, "day", ALWAYS),
        store.chain_bars("AVLN", "day", ALWAYS)[symbol],
    ]
    for bars in answers:
        assert len(bars)
        for name in BAR_COLUMNS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(bars, name)[0] = 1


def test_a_cache_too_small_for_anything_changes_no_answer(folder: Path) -> None:
    small = ParquetPrices(folder, cache_bytes=0)
    assert equal_bars(small.bars("crypto", "COIN", "minute", ALWAYS), MEMORY.bars("crypto", "COIN", "minute", ALWAYS))
    assert list(small.chain_bars("A.B", "day", ALWAYS)) == list(MEMORY.chain_bars("A.B", "day", ALWAYS))


def test_threads_get_what_one_gets(folder: Path) -> None:
    shared, start = ParquetPrices(folder, cache_bytes=300_000), at("2024-12-20T00:00:00Z")

    def same(seed: int) -> bool:
        span = Span(*(start + np.random.default_rng(seed).integers(0, 19 * DAY, 2)).tolist())
        return equal_bars(shared.bars("crypto", "COIN", "minute", span), MEMORY.bars("crypto", "COIN", "minute", span))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(same, range(40)))


def test_some_hours_are_read_without_the_rest(folder: Path) -> None:
    """Damage in the first row group of a file is not met by a query about its last hours."""
    path = folder / load_manifest(folder).parts["prices/crypto/minute/COIN/2024"].file
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
        hours = Span(at("2024-12-31T12:00:00Z"), at("2025-01-01T00:00:00Z"))
        assert len(ParquetPrices(folder).bars("crypto", "COIN", "minute", hours)) == 720
        with pytest.raises(ServiceError, match="can't be read"):
            ParquetPrices(folder).bars("crypto", "COIN", "minute", ALWAYS)
    finally:
        path.write_bytes(whole)


def test_a_file_that_went_away_makes_its_data_unavailable(tiny: Path) -> None:
    dataset = open_dataset(tiny)
    for path in tiny.rglob("*.parquet"):
        path.unlink()
    for ask in (
        lambda: dataset.prices.bars("stock", "AVLN", "day", ALWAYS),
        lambda: dataset.prices.chain_bars("AVLN", "day", ALWAYS),
        lambda: dataset.prices.contracts("AVLN", 2**62),
        lambda: dataset.prices.rates(date(2025, 1, 1), date(2025, 1, 1) + timedelta(9), 2**62),
    ):
        with pytest.raises(ServiceError) as caught:
            ask()
        assert caught.value.code == "unavailable"
        assert str(tiny) not in str(caught.value)
