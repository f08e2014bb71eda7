"""File stores answer like in-memory stores, and report file failures."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.manifest import load_manifest
from ktdeval_qfinzero.data.problems import DatasetRefused
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    EventRelease,
    EventRow,
    MomentSpan,
    NewsRow,
    PageBounds,
    TagFilters,
    words,
)
from ktdeval_qfinzero.data.stored_market import StoredPrices
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.timestamps import DAY
from qfinzero_rows import (
    ARTICLE_LISTS,
    EVENT_LISTS,
    MOMENTS,
    PAGES,
    SPANS,
    TAGS,
    storable,
)
from qfinzero_store_play import (
    INFO,
    equal_bars,
    long_contracts,
    long_prices,
    tiny_prices,
)
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews
from support.qfinzero.qfinzero_world import at, events, news

ALWAYS = MomentSpan(-(2**80), 2**80)
MEMORY = long_prices()
SYMBOLS = [
    "AVLN",
    "A.B",
    "AB",
    "COIN",
    "A_B",
    "NONE",
    "O:NONE250117C00100000",
    *(one.symbol for one in long_contracts()[::7]),
]
EVIL = [
    "..",
    ".",
    "",
    "/",
    "/etc/passwd",
    "../AVLN",
    "AVLN/..",
    "AVLN/2025",
    "AVLN\0",
    "A_B",
    "avln",
    "*",
    "O:../250117C00100000",
    "A" * 9_999,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "dataset"
    save_dataset(folder, MEMORY, [], [], INFO)
    return folder


@pytest.fixture(scope="module")
def store(folder: Path) -> StoredPrices:
    return open_dataset(folder).prices


moments = st.integers(at("2023-11-01T00:00:00Z"), at("2025-04-01T00:00:00Z")) | st.sampled_from(
    [
        0,
        2**80,
        -(2**80),
        at("2025-01-01T00:00:00Z"),
        at("2024-01-01T00:00:00Z"),
        at("2024-12-31T23:59:00Z"),
    ]
)
spans = st.builds(MomentSpan, moments, moments)
days = st.dates(date(2024, 12, 1), date(2025, 4, 1))


@pytest.mark.slow
@given(
    st.sampled_from(["stock", "option", "crypto"]),
    st.sampled_from(SYMBOLS),
    st.sampled_from(["day", "minute"]),
    spans,
)
@settings(max_examples=80, deadline=None)
def test_bars_match_those_in_memory(
    store: StoredPrices, asset_class, symbol, resolution, span
) -> None:
    assert equal_bars(
        store.bars(asset_class, symbol, resolution, span),
        MEMORY.bars(asset_class, symbol, resolution, span),
    )


@given(st.sampled_from(["AVLN", "A.B", "AB", "NONE"]), st.sampled_from(["day", "minute"]), spans)
@settings(max_examples=30, deadline=None)
def test_chains_match_those_in_memory(store: StoredPrices, underlying, resolution, span) -> None:
    chain = store.chain_bars(underlying, resolution, span)
    expected = MEMORY.chain_bars(underlying, resolution, span)
    assert list(chain) == list(expected)
    assert all(equal_bars(chain[symbol], expected[symbol]) for symbol in expected)


@given(st.sampled_from(["AVLN", "A.B", "BRKT", "CSTL", "NONE"]), moments, days, days)
@settings(max_examples=80, deadline=None)
def test_small_tables_match_those_in_memory(
    store: StoredPrices, symbol, as_of_ns, first, last
) -> None:
    for name in ("contracts", "dividends", "splits"):
        assert list(getattr(store, name)(symbol, as_of_ns)) == list(
            getattr(MEMORY, name)(symbol, as_of_ns)
        )

    assert store.borrow(symbol, as_of_ns) == MEMORY.borrow(symbol, as_of_ns)
    assert list(store.symbols(as_of_ns)) == list(MEMORY.symbols(as_of_ns))
    assert list(store.rates(first, last, as_of_ns)) == list(MEMORY.rates(first, last, as_of_ns))


# ---- years


def test_span_over_new_year_is_one_series_and_years_split_at_utc_midnight(
    folder: Path, store: StoredPrices
) -> None:
    new_year = at("2025-01-01T00:00:00Z")
    minute = 60_000_000_000
    around = MomentSpan(new_year - 2 * minute, new_year + 2 * minute)
    bars = store.bars("crypto", "COIN", "minute", around)

    assert bars.start_ns.tolist() == list(range(around.start_ns, around.end_ns, minute))
    # 2023-12-01 … 2025-02-28, parts of three years
    assert len(store.bars("stock", "AVLN", "day", ALWAYS)) == 456

    parts = load_manifest(folder).parts
    ends = (
        parts["prices/crypto/minute/COIN/2024"].last_ns,
        parts["prices/crypto/minute/COIN/2025"].first_ns,
    )

    assert ends == (new_year - minute, new_year)
    assert (
        int(store.bars("crypto", "COIN", "minute", MomentSpan(0, new_year)).start_ns[-1])
        == new_year - minute
    )


# ---- names


@pytest.mark.parametrize("symbol", EVIL, ids=lambda symbol: ascii(symbol)[:30])
def test_a_name_that_is_no_symbol_finds_nothing(store: StoredPrices, symbol: str) -> None:
    for asset_class in ("stock", "option", "crypto"):
        assert len(store.bars(asset_class, symbol, "day", ALWAYS)) == 0

    assert (store.chain_bars(symbol, "day", ALWAYS), store.borrow(symbol, 2**62)) == ({}, None)

    for ask in (store.contracts, store.dividends, store.splits):
        assert len(ask(symbol, 2**62)) == 0


def test_tickers_with_and_without_a_dot_are_stored_separately(
    folder: Path, store: StoredPrices
) -> None:
    assert "prices/stock/day/A_B/2024" in load_manifest(folder).parts
    assert not equal_bars(
        store.bars("stock", "A.B", "day", ALWAYS), store.bars("stock", "AB", "day", ALWAYS)
    )


def test_a_file_that_is_a_link_is_refused(tiny: Path) -> None:
    path = tiny / "market.duckdb"
    path.rename(tiny.parent / "elsewhere.duckdb")
    path.symlink_to(tiny.parent / "elsewhere.duckdb")

    with pytest.raises(DataError, match="not a plain file"):
        open_dataset(tiny)


# ---- memory


def test_answers_are_read_only(store: StoredPrices) -> None:
    symbol = long_contracts()[0].symbol
    answers = [
        store.bars("stock", "AVLN", "day", ALWAYS),
        store.bars(
            "crypto",
            "COIN",
            "minute",
            MomentSpan(at("2025-01-02T00:00:00Z"), at("2025-01-03T00:00:00Z")),
        ),
        store.bars("option", symbol, "day", ALWAYS),
        store.chain_bars("AVLN", "day", ALWAYS)[symbol],
    ]

    for bars in answers:
        assert len(bars)
        for name in BAR_COLUMNS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(bars, name)[0] = 1


def test_a_cache_too_small_for_anything_changes_no_answer(folder: Path) -> None:
    small = open_dataset(folder, cache_bytes=0).prices
    assert equal_bars(
        small.bars("crypto", "COIN", "minute", ALWAYS),
        MEMORY.bars("crypto", "COIN", "minute", ALWAYS),
    )
    assert list(small.chain_bars("A.B", "day", ALWAYS)) == list(
        MEMORY.chain_bars("A.B", "day", ALWAYS)
    )


def test_threads_get_what_one_gets(folder: Path) -> None:
    shared = open_dataset(folder, cache_bytes=300_000).prices
    start = at("2024-12-20T00:00:00Z")

    def same(seed: int) -> bool:
        span = MomentSpan(*(start + np.random.default_rng(seed).integers(0, 19 * DAY, 2)).tolist())
        return equal_bars(
            shared.bars("crypto", "COIN", "minute", span),
            MEMORY.bars("crypto", "COIN", "minute", span),
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(same, range(40)))


def test_processes_that_fork_read_on(folder: Path, store: StoredPrices) -> None:
    expected = len(store.bars("stock", "AVLN", "day", ALWAYS))
    child = os.fork()
    if child == 0:
        read = open_dataset(folder).prices.bars("stock", "AVLN", "day", ALWAYS)
        chain = store.chain_bars("AVLN", "day", ALWAYS)
        os._exit(0 if len(read) == expected and chain else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


QUERIES: list[Callable[[Dataset], object]] = [
    lambda dataset: dataset.prices.bars("stock", "AVLN", "day", ALWAYS),
    lambda dataset: dataset.prices.chain_bars("AVLN", "day", ALWAYS),
    lambda dataset: dataset.prices.contracts("AVLN", 2**62),
    lambda dataset: dataset.prices.rates(date(2025, 1, 1), date(2025, 1, 1) + timedelta(9), 2**62),
    lambda dataset: dataset.calendars.events(EVER, TagFilters(), ALL, LAST),
    lambda dataset: dataset.calendars.event("econ_cpi_2025_01", LAST),
    lambda dataset: dataset.news.news(EVER, TagFilters(), ALL, LAST),
]


def gone(path: Path) -> None:
    path.unlink()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40_000])


@pytest.mark.parametrize("damage", [gone, torn])
def test_a_file_that_breaks_makes_its_data_unavailable(
    tiny: Path, damage: Callable[[Path], None]
) -> None:
    dataset = open_dataset(tiny)
    damage(tiny / "market.duckdb")
    for ask in QUERIES:
        with pytest.raises(ServiceError, match="can't be read") as caught:
            ask(dataset)

        assert caught.value.code == "unavailable"
        assert str(tiny) not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "column"),
    [("events", "expected"), ("events", "releases"), ("news", "publisher"), ("news", "keywords")],
)
def test_a_column_of_another_type_makes_its_rows_unavailable(
    tiny: Path, table: str, column: str
) -> None:
    dataset = open_dataset(tiny)
    with duckdb.connect(tiny / "market.duckdb") as connection:
        connection.execute(
            f"CREATE TABLE changed AS SELECT * REPLACE (7 AS {column}) FROM {table};"
            f" DROP TABLE {table}; ALTER TABLE changed RENAME TO {table}"
        )

    ask = {"events": dataset.calendars.events, "news": dataset.news.news}[table]
    with pytest.raises(ServiceError, match="can't be read"):
        ask(EVER, TagFilters(), ALL, LAST)


# -- calendars and news


EVER = MomentSpan(0, 2**62)
ALL = PageBounds(10**6)
LAST = 2**62


def stored(folder: Path, rows: Any = (), articles: Any = ()) -> Dataset:
    """A dataset with these events and articles."""
    save_dataset(folder, tiny_prices(), rows, articles, INFO)
    return open_dataset(folder)


# ---- the rule for words


def test_words_are_runs_of_letters_and_digits_case_aside() -> None:
    assert words("AT&T's Q4-Results: +3.5%") == ("at", "t", "s", "q4", "results", "3", "5")
    assert words("STRASSE straße ﬁne snake_case") == ("strasse", "strasse", "fine", "snake", "case")
    assert words("re\u0301sume\u0301 Ｑ４") == words("RÉSUMÉ q4") == ("résumé", "q4")
    assert words("… $ %") == ()


# ---- file store ≡ memory store


@pytest.mark.exhaustive
@settings(max_examples=25, deadline=None)
@given(rows=EVENT_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
def test_calendars_in_a_file_answer_like_those_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[EventRow],
    span: MomentSpan,
    tags: TagFilters,
    page: PageBounds,
    as_of_ns: int,
) -> None:
    rows = list(map(storable, rows))
    file = stored(tmp_path_factory.mktemp("events") / "dataset", rows).calendars
    memory = MemoryCalendars(rows)
    assert file.events(span, tags, page, as_of_ns) == memory.events(span, tags, page, as_of_ns)
    assert file.events(EVER, tags, ALL, LAST) == memory.events(EVER, tags, ALL, LAST)
    for row in rows:
        assert file.event(row.event_id, as_of_ns) == memory.event(row.event_id, as_of_ns)

    assert file.updates(tags, page, as_of_ns) == memory.updates(tags, page, as_of_ns)


@pytest.mark.exhaustive
@settings(max_examples=25, deadline=None)
@given(rows=ARTICLE_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
@example([replace(news()[0], body="AND or 'near'")], EVER, TagFilters(text="and"), ALL, LAST)
@example(
    [replace(news()[0], body="resume"), replace(news()[0], id="news_n1", body="résumé")],
    EVER,
    TagFilters(text="résumé"),
    ALL,
    LAST,
)
@example(
    [replace(news()[0], body="word " * 3)], EVER, TagFilters(text='word" OR "other'), ALL, LAST
)
def test_news_in_a_file_answer_like_those_in_memory(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[NewsRow],
    span: MomentSpan,
    tags: TagFilters,
    page: PageBounds,
    as_of_ns: int,
) -> None:
    rows = list(map(storable, rows))
    file = stored(tmp_path_factory.mktemp("news") / "dataset", (), rows).news
    memory = MemoryNews(rows)
    assert file.news(span, tags, page, as_of_ns) == memory.news(span, tags, page, as_of_ns)
    assert file.news(EVER, tags, ALL, LAST) == memory.news(EVER, tags, ALL, LAST)
    for row in rows:
        assert file.article(row.id, as_of_ns) == memory.article(row.id, as_of_ns)


# ---- writing


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"event_id": "a/b"}, "event_id: expected 1 to 200 letters"),
        ({"event_id": ""}, "event_id: expected 1 to 200 letters"),
        ({"event_type": "daily_news"}, "event_type: expected one of macro_calendar, earnings"),
        ({"importance": "huge"}, "importance: expected one of low"),
        ({"time_ns": 2**63}, "time: expected moments from 1970 to 2115"),
        (
            {"releases": (EventRelease(5, {}), EventRelease(4, {}))},
            "releases: expected moments from 1970 to 2115 in their order",
        ),
        ({"expected": {"eps": float("nan")}}, "expected: expected Out of range float"),
        ({"expected": {1: 2}}, "expected: expected plain JSON"),
        ({"title": "half \ud800"}, "title: expected text without half a surrogate"),
    ],
)
def test_an_event_that_could_not_be_served_is_not_stored(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(DatasetRefused, match=problem):
        stored(tmp_path / "dataset", [replace(events()[0], **changes)])


# ---- serving


def test_a_serving_store_writes_nothing_into_or_next_to_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "odd name #1%'; x"
    dataset = stored(folder, (), news())
    path = folder / "market.duckdb"
    before = path.read_bytes()
    path.chmod(0o400)
    folder.chmod(0o500)
    articles = dataset.news.news(EVER, TagFilters(), ALL, LAST)
    names = sorted(each.name for each in folder.iterdir())
    folder.chmod(0o700)

    assert (len(articles), path.read_bytes()) == (4, before)
    assert names == ["manifest.json", "market.duckdb"]


def test_several_threads_read_one_store(tmp_path: Path) -> None:
    rows = [replace(news()[0], id=f"news_n{number}") for number in range(50)]
    store = stored(tmp_path / "dataset", (), rows).news

    with ThreadPoolExecutor(8) as pool:
        counts = list(
            pool.map(
                lambda _: len(store.news(EVER, TagFilters(text="plant"), ALL, LAST)), range(64)
            )
        )

    assert counts == [50] * 64
