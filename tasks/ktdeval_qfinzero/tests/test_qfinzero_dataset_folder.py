"""Datasets as folders: atomic writes, the same identity for the same content, consistent updates,
and checks that find defects.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import DataError, StoreError
from ktdeval.testing import not_empty
from ktdeval.values import file_sha256, lock_folder
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.dataset import open_dataset
from ktdeval_qfinzero.data.manifest import load_manifest, manifest_text
from ktdeval_qfinzero.data.problems import DatasetRefused
from ktdeval_qfinzero.data.rows import (
    DealRow,
    EventRelease,
    MomentSpan,
    PageBounds,
    SplitRow,
    TagFilters,
)
from ktdeval_qfinzero.data.writing import DatasetAddition, save_dataset, update_dataset
from qfinzero_store_play import (
    INFO,
    disk_full,
    equal_bars,
    failing_at,
    files_of,
    more_prices,
    save_tiny,
    tiny_prices,
    together,
)
from support.qfinzero.qfinzero_memory import MemoryPrices
from support.qfinzero.qfinzero_world import at, events, news, small_dataset, small_prices

ALWAYS = MomentSpan(0, 2**62)
NEVER_LATER = 2**62
EVERY_EVENT = (ALWAYS, TagFilters(), PageBounds(1_000), NEVER_LATER)


@pytest.fixture(autouse=True)
def _disk_that_need_not_be_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def ram() -> Iterator[Path]:
    """A folder in memory where there is one: these tests write thousands of files, and SQLite waits
    for the disk at each.
    """
    memory = Path("/dev/shm")

    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(ram: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=ram))


def addition(prices: MemoryPrices | None = None, **others: Any) -> DatasetAddition:
    return DatasetAddition(MemoryPrices() if prices is None else prices, **others)


def later() -> DatasetAddition:
    return DatasetAddition(more_prices(), events()[2:], news()[2:])


# ---- saving and opening


def test_a_saved_dataset_answers_what_memory_does(tmp_path: Path) -> None:
    small = small_dataset()
    info = save_dataset(tmp_path / "small", small.prices, events(), news(), small.info)
    opened = open_dataset(tmp_path / "small")

    assert opened.info == info == replace(small.info, content_id=info.content_id)

    for (asset_class, symbol, resolution), bars in small_prices().bar_table.items():
        assert equal_bars(opened.prices.bars(asset_class, symbol, resolution, ALWAYS), bars)

    assert list(opened.calendars.events(*EVERY_EVENT)) == list(small.calendars.events(*EVERY_EVENT))
    assert list(opened.news.news(*EVERY_EVENT)) == list(small.news.news(*EVERY_EVENT))
    assert list(opened.prices.contracts("AVLN", NEVER_LATER)) == list(
        small.prices.contracts("AVLN", NEVER_LATER)
    )
    assert check_dataset(tmp_path / "small") == ()


def test_days_are_found_out_and_identity_is_not_taken_from_the_caller(tmp_path: Path) -> None:
    """Without minutes their first day is after the last."""
    info = save_dataset(
        tmp_path / "tiny",
        tiny_prices(),
        [],
        [],
        replace(INFO, content_id="mine", last_day=date(2040, 1, 1)),
    )

    assert (info.first_day, info.last_day) == (date(2025, 1, 2), date(2025, 1, 6))
    assert ((info.minute_first_day, info.minute_last_day), len(info.content_id)) == (
        (date(2025, 1, 6), date(2025, 1, 6)),
        64,
    )

    days = {key: bars for key, bars in tiny_prices().bar_table.items() if key[2] == "day"}
    info = save_dataset(tmp_path / "days", replace(tiny_prices(), bar_table=days), [], [], INFO)

    assert info.minute_first_day > info.minute_last_day


def test_saving_again_changes_nothing_and_another_market_is_refused(tiny: Path) -> None:
    before = files_of(tiny)
    assert save_tiny(tiny) == open_dataset(tiny).info

    with pytest.raises(StoreError, match="holds another dataset"):
        save_dataset(tiny, tiny_prices(), [], [], INFO)

    assert (files_of(tiny), [path.name for path in tiny.parent.iterdir()]) == (before, [tiny.name])


def test_nonempty_folder_or_dataset_without_day_bars_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(StoreError, match="is not a dataset"):
        save_tiny(tmp_path / "mine")

    with pytest.raises(DataError, match="needs bars of days"):
        save_dataset(tmp_path / "none", MemoryPrices(), [], [], INFO)

    assert files_of(tmp_path) == {"mine/thesis.txt": b"years of work"}


def test_wrong_rows_are_all_named_and_nothing_is_written(tmp_path: Path) -> None:
    prices = tiny_prices()
    bars = prices.bar_table["stock", "AVLN", "day"]
    table = dict(prices.bar_table)
    table["stock", "AVLN", "day"] = replace(bars, high_e4=bars.low_e4 - 1, volume=bars.volume + 0.5)
    table["stock", "../evil", "day"] = bars
    table["stock", "AB", "day"] = replace(bars, start_ns=bars.start_ns[::-1])
    table["stock", "ABC", "day"] = replace(bars, close_e4=bars.close_e4 / 10_000)
    table["stock", "ABCD", "day"] = bars
    splits = [
        SplitRow("AVLN", date(2025, 1, 13), 2, 2, 0),
        SplitRow("NONE", date(2025, 1, 13), 2, 1, 0),
    ]
    deals = [
        DealRow(symbol, date(2025, 1, day), 0, into, 1, 1, 0)
        for symbol, day, into in (("AVLN", 9, "AB"), ("AB", 8, "ABC"), ("ABC", 9, "AB"))
    ]

    with pytest.raises(DatasetRefused) as caught:
        save_dataset(
            tmp_path / "bad",
            replace(prices, bar_table=table, split_rows=splits, deal_rows=deals),
            [],
            [],
            INFO,
        )

    assert caught.value.count == len(caught.value.problems)
    assert sorted(caught.value.problems) == [
        (
            "prices/stock/day/AVLN/2025: high: expected the highest price of the bar, up to 10^10:"
            " 3 bars of another kind, first AVLN at 2025-01-02T00:00:00Z"
        ),
        (
            "prices/stock/day/AVLN/2025: volume: expected a whole number: 3 bars of another kind,"
            " first AVLN at 2025-01-02T00:00:00Z"
        ),
        "stock ABCD: has bars, but is not in symbols",
        "stock day bars of '../evil': expected a ticker in capitals",
        "stock day bars of AB: time: expected bars in the order of their starts, each once",
        "stock day bars of ABC: close_e4: expected an array of 3 int64, as many as start_ns",
        "tables/deals: AB is not a stock in symbols",
        "tables/deals: ABC is not a stock in symbols",
        "tables/deals: a share of AB becomes ABC, and that in the end AB again",
        "tables/deals: a share of ABC becomes AB, and that in the end ABC again",
        "tables/splits: AVLN 2025-01-13: new: expected a whole number above 0, not that of old",
        "tables/splits: NONE is not a stock in symbols",
    ]
    assert list(tmp_path.iterdir()) == []


# ---- identity


def test_equal_content_gives_equal_parts_and_identity(saved: Path, tmp_path: Path) -> None:
    prices = tiny_prices()
    turned = replace(
        prices,
        bar_table=dict(reversed(prices.bar_table.items())),
        symbol_rows=list(reversed(prices.symbol_rows)),
    )
    info = save_dataset(
        tmp_path / "again",
        turned,
        events()[1::-1],
        news()[1::-1],
        replace(INFO, name="another name"),
    )

    assert info.content_id == open_dataset(saved).info.content_id

    assert contents_of(tmp_path / "again") == contents_of(saved), "only the manifest has the name"


def test_every_change_of_content_changes_the_identity(saved: Path, tmp_path: Path) -> None:
    prices = tiny_prices()
    bars = prices.bar_table["stock", "AVLN", "day"]
    table = {
        **prices.bar_table,
        ("stock", "AVLN", "day"): replace(bars, high_e4=bars.high_e4 + np.array([0, 0, 1])),
    }
    variants = [
        (replace(prices, bar_table=table), INFO),
        (
            replace(
                prices, symbol_rows=[replace(row, sector="Other") for row in prices.symbol_rows]
            ),
            INFO,
        ),
        (
            replace(
                prices,
                rate_rows=[replace(row, yields_pct={"1M": 4.25}) for row in prices.rate_rows],
            ),
            INFO,
        ),
        (prices, replace(INFO, default_as_of_ns=INFO.default_as_of_ns + 1)),
        (prices, replace(INFO, synthetic=False)),
    ]
    ids = {open_dataset(saved).info.content_id}

    for number, (variant, info) in enumerate(variants):
        ids.add(
            save_dataset(tmp_path / str(number), variant, events()[:2], news()[:2], info).content_id
        )

    assert len(ids) == 1 + len(variants)


def test_the_file_is_read_by_the_oldest_duckdb_that_is_needed(tiny: Path) -> None:
    """Its header says the version of storage: DuckDB 1.5 reads those up to 68."""
    header = (tiny / "market.duckdb").read_bytes()[:20]
    assert header[8:12] == b"DUCK"
    assert int.from_bytes(header[12:], "little") <= 68


def test_identity_does_not_depend_on_how_the_file_was_written(tiny: Path) -> None:
    manifest = load_manifest(tiny)
    path = tiny / manifest.file.name
    copy = tiny.parent / "copy.duckdb"
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS old (READ_ONLY)")
        connection.execute(f"ATTACH '{copy}' AS new (BLOCK_SIZE 16384)")
        connection.execute("COPY FROM DATABASE old TO new")

    copy.replace(path)
    file = msgspec.structs.replace(
        manifest.file, bytes=path.stat().st_size, sha256=file_sha256(path)
    )

    assert file.sha256 != manifest.file.sha256

    (tiny / "manifest.json").write_text(manifest_text(replace(manifest, file=file)))

    assert check_dataset(tiny) == ()


# ---- crashes


@pytest.mark.exhaustive
def test_a_full_disk_while_saving_leaves_nothing(tmp_path: Path) -> None:
    with failing_at(10**9, disk_full) as calls:
        save_tiny(tmp_path / "whole")

    shutil.rmtree(tmp_path / "whole")
    for step in (*range(1, len(calls) - 4, 10), *range(len(calls) - 4, len(calls))):
        with failing_at(step, disk_full) as made, pytest.raises(StoreError, match="No space left"):
            save_tiny(tmp_path / "dataset")

        # After the rename the folder is there, and whole; what failed is making the rename durable.
        renamed = "rename" in made[: step - 1]
        assert (tmp_path / "dataset").exists() == renamed
        assert not renamed or check_dataset(tmp_path / "dataset") == ()
        shutil.rmtree(tmp_path / "dataset", ignore_errors=True)

    save_tiny(tmp_path / "dataset")

    assert [path.name for path in tmp_path.iterdir()] == ["dataset"]


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do work in a process that dies before its step-th call of the system; whether it died."""
    child = os.fork()
    if child == 0:
        try:
            with failing_at(step, lambda: os._exit(9)):
                work()
        finally:
            os._exit(0)

    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.exhaustive
def test_a_process_killed_while_saving_leaves_nothing_that_opens(tmp_path: Path) -> None:
    step = 1
    whole = []
    while killed_at(step, lambda: save_tiny(tmp_path / "dataset")):
        if (tmp_path / "dataset").exists():
            whole.append(check_dataset(tmp_path / "dataset") == ())
            shutil.rmtree(tmp_path / "dataset")

        step += 1

    assert step > 5
    assert all(whole)

    save_tiny(tmp_path / "dataset")
    assert [path.name for path in tmp_path.iterdir()] == ["dataset"], (
        "what the killed left is swept"
    )


@pytest.mark.exhaustive
def test_a_full_disk_during_an_update_leaves_the_old_or_the_new(
    saved: Path, tmp_path: Path
) -> None:
    shutil.copytree(saved, tmp_path / "whole")
    with failing_at(10**9, disk_full) as calls:
        new = update_dataset(tmp_path / "whole", later()).info.content_id

    old = open_dataset(saved).info.content_id
    swapped = calls.index("replace") + 1
    for step in not_empty((*range(1, swapped - 1, 9), *range(swapped - 1, len(calls) + 1, 2))):
        folder = shutil.copytree(saved, tmp_path / str(step))
        with failing_at(step, disk_full), pytest.raises(StoreError):
            update_dataset(folder, later())

        assert open_dataset(folder).info.content_id == (old if step <= swapped else new)
        # Nothing can be removed from a disk that fails on and on; then the next update does it.
        assert (update_dataset(folder, later()).info.content_id, check_dataset(folder)) == (new, ())


@pytest.mark.slow
def test_a_process_killed_during_an_update_leaves_the_old_or_the_new(
    saved: Path, tmp_path: Path
) -> None:
    states = []
    for step in range(1, 100):
        folder = shutil.copytree(saved, tmp_path / str(step))
        died = killed_at(step, partial(update_dataset, folder, later()))
        states.append(open_dataset(folder).info.content_id)
        assert [finding for finding in check_dataset(folder) if finding.level == "error"] == []
        if not died:
            break

    old = open_dataset(saved).info.content_id
    new = states[-1]

    assert old != new
    assert states == sorted(states, key=[old, new].index), "old until the swap, new from then on"
    assert states.count(old) > 1


def test_leftovers_of_a_killed_update_are_reported_and_removed_by_the_next(tiny: Path) -> None:
    for name in (
        "market-0002.duckdb",
        "market-0002.duckdb.wal",
        ".manifest.json.x1y2",
    ):
        (tiny / name).write_bytes(b"half")

    (tiny / "notes.txt").write_text("the user's own")

    assert [finding.level for finding in check_dataset(tiny)] == ["warning"] * 3

    update_dataset(tiny, addition())
    assert check_dataset(tiny) == ()
    assert (tiny / "notes.txt").exists()


# ---- updates


def contents_of(folder: Path) -> dict[Any, str]:
    return {key: part.content for key, part in load_manifest(folder).parts.items()}


def test_an_update_gives_what_all_rows_at_once_give(tiny: Path, tmp_path: Path) -> None:
    report = update_dataset(tiny, later())
    whole = together(tiny_prices(), more_prices())
    info = save_dataset(tmp_path / "whole", whole, events(), news(), INFO)

    assert report.info == info == open_dataset(tiny).info
    assert report.before != info.content_id
    assert contents_of(tiny) == contents_of(tmp_path / "whole")
    assert check_dataset(tiny) == ()
    assert {kind: (tally.new, tally.same) for kind, tally in report.tallies.items()} == {
        "symbols": (1, 0),
        "contracts": (1, 0),
        "rates": (1, 0),
        "stock day": (7, 0),
        "option day": (3, 0),
        "events": (2, 0),
        "news": (2, 0),
    }


@pytest.mark.exhaustive
@given(st.data())
@settings(max_examples=3, deadline=None)
def test_however_bars_are_dealt_out_to_updates_the_identity_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, data: Any
) -> None:
    base = tmp_path_factory.mktemp("dealt")
    whole = together(tiny_prices(), more_prices())
    first = {}
    second = {}

    for key, bars in whole.bar_table.items():
        dealt = np.array(
            data.draw(st.lists(st.integers(0, 2), min_size=len(bars), max_size=len(bars)))
        )
        dealt[:1] = 0  # at least one bar of each at first, so that the first dataset can be one
        first[key], second[key] = bars.take(dealt != 1), bars.take(dealt != 0)

    save_dataset(base / "parts", replace(whole, bar_table=first), [], [], INFO)
    report = update_dataset(base / "parts", addition(MemoryPrices(second)))

    assert report.info == save_dataset(base / "whole", whole, [], [], INFO)


def test_rows_that_are_there_already_change_nothing(tiny: Path) -> None:
    before = files_of(tiny)
    report = update_dataset(tiny, addition(tiny_prices(), events=events()[:2], news=news()[:2]))

    assert (report.info.content_id, report.replaced) == (report.before, ())
    assert (
        {tally.new + tally.other for tally in report.tallies.values()},
        report.tallies["stock minute"].same,
    ) == ({0}, 30)
    assert files_of(tiny) == before


def contradicting() -> DatasetAddition:
    prices = tiny_prices()
    bars = prices.bar_table["stock", "AVLN", "day"]
    table = {("stock", "AVLN", "day"): replace(bars, volume=bars.volume + np.array([0, 5, 0]))}
    symbols = [replace(prices.symbol_rows[0], sector="Mining")]
    articles = [replace(news()[0], title="Another title")]

    return addition(
        MemoryPrices(table, symbols),
        events=[replace(events()[0], title="Prices of consumers")],
        news=articles,
    )


CONTRADICTIONS = (
    (
        "events: econ_cpi_2025_01: title is Consumer Price Index (December), the new row says"
        " Prices of consumers"
    ),
    "news: news_0: title is Avalon opens a plant, the new row says Another title",
    "stock day: AVLN at 2025-01-03T00:00:00Z: volume is 4000000.0, the new row says 4000005.0",
    "symbols: AVLN stock: sector is technology, the new row says Mining",
)


def test_contradicting_rows_are_refused_and_named_or_replaced_on_request(
    tiny: Path,
) -> None:
    before = files_of(tiny)
    with pytest.raises(DatasetRefused) as caught:
        update_dataset(tiny, contradicting())

    assert sorted(caught.value.problems) == [
        f"{line}; --replace (in Python replace=True) lets the new row replace it"
        for line in CONTRADICTIONS
    ]
    assert (caught.value.count, files_of(tiny)) == (4, before)

    report = update_dataset(tiny, contradicting(), replace=True)
    assert sorted(report.replaced) == list(CONTRADICTIONS)

    opened = open_dataset(tiny)
    assert opened.prices.bars("stock", "AVLN", "day", ALWAYS).volume.tolist() == [4e6, 4e6 + 5, 4e6]
    assert opened.prices.symbols(NEVER_LATER)[0].sector == "Mining"

    article = opened.news.article("news_0", NEVER_LATER)
    assert article is not None
    assert (article.title, check_dataset(tiny)) == ("Another title", ())


@pytest.mark.slow
def test_an_event_may_gain_releases_but_not_lose_or_change_them(tiny: Path) -> None:
    grown = replace(
        events()[0],
        releases=(*events()[0].releases, EventRelease(at("2025-03-12T12:30:00Z"), {"actual": 3.1})),
    )

    assert update_dataset(tiny, addition(events=[grown])).tallies["events"].grown == 1
    assert open_dataset(tiny).calendars.event(grown.event_id, NEVER_LATER) == grown

    for other in (
        events()[0],
        replace(grown, releases=grown.releases[1:]),
        replace(grown, title="Another"),
    ):
        with pytest.raises(DatasetRefused, match="the new row says"):
            update_dataset(tiny, addition(events=[other]))


def test_bars_need_their_symbol_and_contract_which_is_listed_before_them(tiny: Path) -> None:
    with pytest.raises(DatasetRefused) as caught:
        update_dataset(tiny, addition(MemoryPrices(more_prices().bar_table)))

    assert caught.value.problems == (
        "option O:AVLN250117C00105000: has bars, but is not in contracts",
        "stock BRKT: has bars, but is not in symbols",
    )

    row = replace(tiny_prices().contract_rows[0], listed_ns=at("2025-01-10T00:00:00Z"))

    with pytest.raises(
        DatasetRefused, match="was listed at 2025-01-10T00:00:00Z, after its first bar"
    ):
        update_dataset(tiny, addition(MemoryPrices(contract_rows=[row])), replace=True)


def test_update_can_move_the_clock_start_and_excludes_another_update(tiny: Path) -> None:
    report = update_dataset(tiny, addition(default_as_of_ns=at("2025-01-07T21:00:00Z")))
    assert (
        report.info.default_as_of_ns
        == open_dataset(tiny).info.default_as_of_ns
        == at("2025-01-07T21:00:00Z")
    )
    assert report.info.content_id != report.before

    with lock_folder(tiny), pytest.raises(StoreError, match="another process"):
        update_dataset(tiny, later())


def test_an_open_dataset_survives_an_update(tiny: Path) -> None:
    opened = open_dataset(tiny)
    update_dataset(tiny, later())

    assert (
        len(opened.prices.bars("stock", "AVLN", "day", ALWAYS)),
        len(opened.calendars.events(*EVERY_EVENT)),
    ) == (3, 2)
    assert len(open_dataset(tiny).prices.bars("stock", "AVLN", "day", ALWAYS)) == 5

    # the file of the first is removed by the second update after, and stays readable where it is open
    update_dataset(tiny, addition(default_as_of_ns=0))

    assert len(opened.prices.chain_bars("AVLN", "day", ALWAYS)) == 1
