"""Stores in files answer as those in memory do, and say so where a file fails them."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings, strategies as st

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.dataset_storage import open_dataset, save_dataset
from ktdeval_qfinzero.data.layout import load_manifest, path_name
from ktdeval_qfinzero.data.parquet_prices import ParquetPrices
from ktdeval_qfinzero.data.rows import (
    BAR_COLUMNS,
    EventRelease,
    EventRow,
    MomentSpan,
    NewsRow,
    PageBounds,
    TagFilters,
)
from ktdeval_qfinzero.data.sqlite_stores import (
    open_calendars,
    open_news,
    words,
    write_calendars,
    write_news,
)
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.timestamps import DAY
from qfinzero_memory import MemoryCalendars, MemoryNews
from qfinzero_rows import ARTICLE_LISTS, EVENT_LISTS, MOMENTS, PAGES, SPANS, TAGS
from qfinzero_store_play import INFO, equal_bars, long_contracts, long_prices
from qfinzero_world import at, events, news

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
def store(folder: Path) -> ParquetPrices:
    return ParquetPrices(folder)


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
    store: ParquetPrices, asset_class, symbol, resolution, span
) -> None:
    assert equal_bars(
        store.bars(asset_class, symbol, resolution, span),
        MEMORY.bars(asset_class, symbol, resolution, span),
    )


@given(st.sampled_from(["AVLN", "A.B", "AB", "NONE"]), st.sampled_from(["day", "minute"]), spans)
@settings(max_examples=30, deadline=None)
def test_chains_match_those_in_memory(store: ParquetPrices, underlying, resolution, span) -> None:
    chain = store.chain_bars(underlying, resolution, span)
    expected = MEMORY.chain_bars(underlying, resolution, span)
    assert list(chain) == list(expected)
    assert all(equal_bars(chain[symbol], expected[symbol]) for symbol in expected)


@given(st.sampled_from(["AVLN", "A.B", "BRKT", "CSTL", "NONE"]), moments, days, days)
@settings(max_examples=80, deadline=None)
def test_small_tables_match_those_in_memory(
    store: ParquetPrices, symbol, as_of_ns, first, last
) -> None:
    for name in ("contracts", "dividends", "splits"):
        assert list(getattr(store, name)(symbol, as_of_ns)) == list(
            getattr(MEMORY, name)(symbol, as_of_ns)
        )

    assert store.borrow(symbol, as_of_ns) == MEMORY.borrow(symbol, as_of_ns)
    assert list(store.symbols(as_of_ns)) == list(MEMORY.symbols(as_of_ns))
    assert list(store.rates(first, last, as_of_ns)) == list(MEMORY.rates(first, last, as_of_ns))


# ---- years


def test_a_span_over_a_new_year_is_one_series_and_a_year_begins_at_midnight_in_utc(
    folder: Path, store: ParquetPrices
) -> None:
    new_year = at("2025-01-01T00:00:00Z")
    minute = 60_000_000_000
    around = MomentSpan(new_year - 2 * minute, new_year + 2 * minute)
    bars = store.bars("crypto", "COIN", "minute", around)

    assert bars.start_ns.tolist() == list(range(around.start_ns, around.end_ns, minute))
    # 2023-12-01 … 2025-02-28, three years' files
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
def test_a_name_that_is_no_symbol_finds_nothing_and_makes_no_path(
    store: ParquetPrices, symbol: str
) -> None:
    for asset_class in ("stock", "option", "crypto"):
        assert len(store.bars(asset_class, symbol, "day", ALWAYS)) == 0

    assert (store.chain_bars(symbol, "day", ALWAYS), store.borrow(symbol, 2**62)) == ({}, None)

    for ask in (store.contracts, store.dividends, store.splits):
        assert len(ask(symbol, 2**62)) == 0

    with pytest.raises(DataError, match="expected a ticker"):
        path_name(symbol)


def test_tickers_with_and_without_a_dot_are_stored_separately(
    folder: Path, store: ParquetPrices
) -> None:
    assert path_name("A.B") == "A_B"
    assert (folder / "prices/stock/day/A_B/2024.parquet").is_file()
    assert not equal_bars(
        store.bars("stock", "A.B", "day", ALWAYS), store.bars("stock", "AB", "day", ALWAYS)
    )


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
    small = ParquetPrices(folder, cache_bytes=0)
    assert equal_bars(
        small.bars("crypto", "COIN", "minute", ALWAYS),
        MEMORY.bars("crypto", "COIN", "minute", ALWAYS),
    )
    assert list(small.chain_bars("A.B", "day", ALWAYS)) == list(
        MEMORY.chain_bars("A.B", "day", ALWAYS)
    )


def test_threads_get_what_one_gets(folder: Path) -> None:
    shared = ParquetPrices(folder, cache_bytes=300_000)
    start = at("2024-12-20T00:00:00Z")

    def same(seed: int) -> bool:
        span = MomentSpan(*(start + np.random.default_rng(seed).integers(0, 19 * DAY, 2)).tolist())
        return equal_bars(
            shared.bars("crypto", "COIN", "minute", span),
            MEMORY.bars("crypto", "COIN", "minute", span),
        )

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(same, range(40)))


def test_some_hours_are_read_without_the_rest(folder: Path) -> None:
    """Damage in the closes of the first row group is not met by a query about the last hours."""
    path = folder / load_manifest(folder).parts["prices/crypto/minute/COIN/2024"].file
    whole = path.read_bytes()
    metadata = pq.read_metadata(path)
    closes = metadata.row_group(0).column(BAR_COLUMNS.index("close_e4") + 1)
    start = closes.dictionary_page_offset or closes.data_page_offset

    try:
        path.write_bytes(whole[:start] + b"\xff" * 200 + whole[start + 200 :])
        hours = MomentSpan(at("2024-12-31T12:00:00Z"), at("2025-01-01T00:00:00Z"))
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


# -- calendars and news


EVER = MomentSpan(0, 2**62)
ALL = PageBounds(10**6)
LAST = 2**62


def articles_of(path: Path) -> Sequence[NewsRow]:
    return open_news(path).news(EVER, TagFilters(), ALL, LAST)


# ---- the rule for words


def test_words_are_runs_of_letters_and_digits_case_aside() -> None:
    assert words("AT&T's Q4-Results: +3.5%") == ("at", "t", "s", "q4", "results", "3", "5")
    assert words("STRASSE straße ﬁne snake_case") == ("strasse", "strasse", "fine", "snake", "case")
    assert words("re\u0301sume\u0301 Ｑ４") == words("RÉSUMÉ q4") == ("résumé", "q4")
    assert words("… $ %") == ()


# ---- file store ≡ memory store


@pytest.mark.exhaustive
@pytest.mark.slow
@settings(max_examples=25)
@given(rows=EVENT_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
def test_calendars_in_a_file_answer_like_those_in_memory(
    rows: list[EventRow], span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_calendars(path := Path(folder) / "calendars.sqlite", rows)
        file = open_calendars(path)
        memory = MemoryCalendars(rows)
        assert file.events(span, tags, page, as_of_ns) == memory.events(span, tags, page, as_of_ns)
        assert file.events(EVER, tags, ALL, LAST) == memory.events(EVER, tags, ALL, LAST)
        for row in rows:
            assert file.event(row.event_id, as_of_ns) == memory.event(row.event_id, as_of_ns)

        assert file.updates(tags, page, as_of_ns) == memory.updates(tags, page, as_of_ns)


@pytest.mark.exhaustive
@pytest.mark.slow
@settings(max_examples=25)
@given(rows=ARTICLE_LISTS, span=SPANS, tags=TAGS, page=PAGES, as_of_ns=MOMENTS)
@example([replace(news()[0], body="AND or 'near'")], EVER, TagFilters(text="and"), ALL, LAST)
@example(
    [replace(news()[0], body="resume"), replace(news()[0], id="n1", body="résumé")],
    EVER,
    TagFilters(text="résumé"),
    ALL,
    LAST,
)
@example(
    [replace(news()[0], body="word " * 3)], EVER, TagFilters(text='word" OR "other'), ALL, LAST
)
def test_news_in_a_file_answer_like_those_in_memory(
    rows: list[NewsRow], span: MomentSpan, tags: TagFilters, page: PageBounds, as_of_ns: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_news(path := Path(folder) / "news.sqlite", rows)
        file = open_news(path)
        memory = MemoryNews(rows)
        assert file.news(span, tags, page, as_of_ns) == memory.news(span, tags, page, as_of_ns)
        assert file.news(EVER, tags, ALL, LAST) == memory.news(EVER, tags, ALL, LAST)
        for row in rows:
            assert file.article(row.id, as_of_ns) == memory.article(row.id, as_of_ns)


# ---- writing


def test_all_rows_of_a_file_are_written_or_none(tmp_path: Path) -> None:
    """A broken row refuses the whole call, and so does an id that stands in the file already."""
    path = tmp_path / "news.sqlite"
    calendars = tmp_path / "calendars.sqlite"
    write_news(path, news()[:1])
    write_calendars(calendars, events())
    broken = replace(news()[2], published_ns=-1)

    with pytest.raises(DataError, match="news_2"):
        write_news(path, [news()[1], broken])

    with pytest.raises(DataError, match="the news store can't be written"):
        write_news(path, [news()[1], replace(news()[0], title="Another")])

    with pytest.raises(DataError, match="the calendar store can't be written"):
        write_calendars(calendars, [replace(events()[0], event_id="econ_new"), events()[1]])

    assert [row.id for row in articles_of(path)] == ["news_0"]
    assert len(open_calendars(calendars).events(EVER, TagFilters(), ALL, LAST)) == 4


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"event_id": "a/b"}, "an id has 1 to 200 letters"),
        ({"event_id": ""}, "an id has 1 to 200 letters"),
        ({"event_type": "daily_news"}, "its type is none of macro_calendar, earnings"),
        ({"importance": "huge"}, "its importance is none of"),
        ({"time_ns": 2**63}, "not a whole number of nanoseconds"),
        (
            {"releases": (EventRelease(5, {}), EventRelease(4, {}))},
            "not in the order of their moments",
        ),
        ({"expected": {"eps": float("nan")}}, r"can't be written as JSON \(ValueError\)"),
        ({"expected": {1: 2}}, "not plain JSON"),
        ({"title": "half \ud800"}, r"can't be written as JSON \(UnicodeEncodeError\)"),
    ],
)
def test_an_event_that_could_not_be_served_is_not_stored(
    tmp_path: Path, changes: dict[str, object], problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        write_calendars(tmp_path / "calendars.sqlite", [replace(events()[0], **changes)])


def test_a_file_of_another_kind_is_not_taken_for_a_store(tmp_path: Path) -> None:
    path = tmp_path / "news.sqlite"
    write_news(path, news())
    with pytest.raises(DataError, match="not a calendar store of layout 1"):
        write_calendars(path, events())

    with pytest.raises(DataError, match="not a calendar store"):
        open_calendars(path)

    with sqlite3.connect(tmp_path / "other.sqlite") as connection:
        connection.execute("CREATE TABLE mine (x)")

    connection.close()
    with pytest.raises(DataError, match="not a news store"):
        write_news(tmp_path / "other.sqlite", news())

    with pytest.raises(DataError, match="there is no such file"):
        open_news(tmp_path / "none.sqlite")


# ---- serving


def test_a_serving_store_writes_nothing_into_or_next_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "odd name #1?%.sqlite"
    write_news(path, news())
    before = path.read_bytes()
    path.chmod(0o400)

    assert (len(articles_of(path)), path.read_bytes(), list(tmp_path.iterdir())) == (
        4,
        before,
        [path],
    )


def test_a_file_that_breaks_while_it_is_served_makes_the_store_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "calendars.sqlite"
    write_calendars(path, events())
    store = open_calendars(path)
    path.write_bytes(path.read_bytes()[:4096] + bytes(50_000))

    with pytest.raises(ServiceError, match="the calendar store can't be read") as caught:
        store.events(EVER, TagFilters(), ALL, LAST)

    assert caught.value.code == "unavailable"

    path.unlink()
    with pytest.raises(ServiceError) as caught:
        store.event("econ_cpi_2025_01", LAST)

    assert caught.value.code == "unavailable"
    assert str(tmp_path) not in str(caught.value)


def test_several_threads_read_one_store(tmp_path: Path) -> None:
    write_news(
        tmp_path / "news.sqlite", [replace(news()[0], id=f"n{number}") for number in range(50)]
    )
    store = open_news(tmp_path / "news.sqlite")

    with ThreadPoolExecutor(8) as pool:
        counts = list(
            pool.map(
                lambda _: len(store.news(EVER, TagFilters(text="plant"), ALL, LAST)), range(64)
            )
        )

    assert counts == [50] * 64


def test_the_indexes_carry_the_usual_queries(tmp_path: Path) -> None:
    path = tmp_path / "calendars.sqlite"
    write_calendars(path, events())
    with sqlite3.connect(path) as connection:
        indexes = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
        }
        (plan,) = connection.execute(
            "EXPLAIN QUERY PLAN SELECT record FROM events WHERE time_ns >= 0 AND time_ns < 9 ORDER"
            " BY time_ns, event_id"
        ).fetchall()

    connection.close()

    assert {"events_by_date", "events_by_type", "events_by_country"} <= indexes
    assert "USING INDEX events_by_date" in plan[-1]
