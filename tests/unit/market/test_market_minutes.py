"""Bars within days: which day they belong to, when they are known, what is wrong with them, and how they are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, LookAheadError
from ktdeval.market import Instrument, MarketSnapshot, MinuteBars, load_snapshot, save_snapshot
from ktdeval.market.quality import check, raw_from_snapshot
from ktdeval.market.storage import differences, load_manifest, snapshot_id
from searching import examples
from tables import on_each_row
from trading_market import make_market

DAYS = np.array(["2024-03-08", "2024-03-09", "2024-03-11"], "M8[D]")  # a Friday, a Saturday, a Monday after clocks went forward
COINS_AND_STOCKS = (Instrument("crypto", "USD", "crypto_spot"), Instrument("stock", "USD", "us_equity"))
COLUMNS = ("code", "ends_at", "open", "high", "low", "close", "volume")
# By hand: three minutes of each asset on Friday and Monday. New York closes at 21:00 UTC on Friday, at 20:00 UTC on Monday.
ROWS = [
    ("BTC", "2024-03-08T23:59", 9.9, 10.2, 9.8, 10.1, 1.5),
    ("BTC", "2024-03-09T00:00", 10.1, 10.1, 10.0, 10.0, 2.5),  # the last minute of Friday
    ("BTC", "2024-03-09T00:01", 10.0, 10.0, 9.9, 9.9, 0.5),
    ("TSLA", "2024-03-08T14:31", 19.8, 20.0, 19.7, 20.0, 300.0),
    ("TSLA", "2024-03-08T21:00", 20.0, 20.2, 20.0, 20.0, 100.0),
    ("TSLA", "2024-03-08T21:01", 20.1, 20.1, 20.1, 20.1, 7.0),  # after the close
    ("TSLA", "2024-03-11T13:31", 20.0, 20.1, 20.0, 20.1, 50.0),
    ("TSLA", "2024-03-11T20:00", 20.1, 20.1, 19.9, 20.0, float("nan")),
    ("TSLA", "2024-03-11T20:01", 20.0, 20.0, 19.8, 19.8, 9.0),  # after the close of Monday
]


def frame(rows: list[Any]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=COLUMNS)
    return table.assign(ends_at=pd.to_datetime(table["ends_at"]))


def market(rows: list[Any] = ROWS) -> MarketSnapshot:
    """A coin of every day at 10, a stock of Friday and Monday at 20; low and high are 2 % off."""
    closes = [[10.0, 20.0], [10.0, None], [10.0, 20.0]]
    made = make_market(("BTC", "TSLA"), closes, instruments=COINS_AND_STOCKS)
    meta = replace(made.meta, benchmark="")
    wide = {"high": made.close * 1.02, "low": made.close * 0.98}
    return replace(made, meta=meta, indices={}, index_names={}, days=DAYS, minutes=MinuteBars.of(frame(rows)), **wide)


def told(rows: Any) -> list[str]:
    return [str(end)[5:] for end in rows["ends_at"]]


def test_bars_belong_to_the_local_day_before_their_end_and_are_known_at_the_close_of_their_venue() -> None:
    snapshot = market()
    at_friday, at_saturday, at_monday = (snapshot.as_of(row).minutes for row in range(3))
    assert told(at_friday("BTC", 0)) == ["03-08T23:59", "03-09T00:00"]
    assert told(at_friday("TSLA", 0)) == ["03-08T14:31", "03-08T21:00"]
    assert told(at_saturday("TSLA", 0)) == ["03-08T14:31", "03-08T21:00", "03-08T21:01"], "trades after the close, a day later"
    assert (told(at_saturday("BTC", 1)), told(at_saturday("TSLA", 1))) == (["03-09T00:01"], [])
    assert told(at_monday("TSLA", 2)) == ["03-11T13:31", "03-11T20:00"], "an hour earlier, since clocks went forward"
    assert at_monday("TSLA", 2)["close"].tolist() == [20.1, 20.0]
    assert len(at_monday("ETH", 2)) == 0
    with pytest.raises(LookAheadError, match="minutes of day 1 asked for at the close of day 0"):
        at_friday("BTC", 1)
    zones = {"BTC": "UTC", "TSLA": "America/New_York"}
    assert [str(day) for day in snapshot.minutes.days(zones.__getitem__)] == [
        *["2024-03-08"] * 2, "2024-03-09", *["2024-03-08"] * 3, *["2024-03-11"] * 3,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="read-only"):
        snapshot.minutes.rows["close"][0] = 1.0


BARS = st.lists(st.tuples(st.sampled_from(["BTC", "TSLA"]), st.integers(0, 5 * 1440), st.floats(1, 99)), max_size=30)


@given(past=BARS, future=BARS, row=st.integers(0, 2))
@examples(25)
def test_nothing_of_a_view_depends_on_bars_that_end_later(past: Any, future: Any, row: int) -> None:
    start = np.datetime64("2024-03-07T12:00", "m")
    closes = {"BTC": [1, 2, 4], "TSLA": ["2024-03-08T21:00", "2024-03-09T21:00", "2024-03-11T20:00"]}
    limit = {
        "BTC": np.datetime64("2024-03-08", "m") + np.timedelta64(1440 * int(closes["BTC"][row]), "m"),
        "TSLA": np.datetime64(closes["TSLA"][row], "m"),
    }
    bars = [
        [(code, start + np.timedelta64(shift, "m"), *[price] * 4, 1.0) for code, shift, price in listed]
        for listed in (past, future)
    ]
    known = [bar for bar in bars[0] if bar[1] <= limit[bar[0]]]
    later = [bar for listed in bars for bar in listed if bar[1] > limit[bar[0]]]
    views = [market(rows).as_of(row).minutes for rows in (known or ROWS[:0], [*known, *later])]
    for code in ("BTC", "TSLA"):
        for day in range(row + 1):
            assert views[0](code, day)[["ends_at", "close"]].tolist() == views[1](code, day)[["ends_at", "close"]].tolist()


def test_they_are_part_of_the_identity_where_there_are_some_and_come_back_as_they_were(tmp_path: Path) -> None:
    snapshot, plain = market(), market([])
    # As it was before snapshots had minutes.
    assert snapshot_id(plain) == "822a9dd1c83c0737617c5e6952a2d55f83c21539e5c4add12d2b46a69d27e416"
    assert snapshot_id(market(ROWS[::-1])) == snapshot_id(snapshot) != snapshot_id(plain)
    others = [ROWS[1:], [(*ROWS[0][:6], 1.25), *ROWS[1:]], [("BTC", "2024-03-08T23:58", *ROWS[0][2:]), *ROWS[1:]]]
    assert len({snapshot_id(snapshot), *(snapshot_id(market(rows)) for rows in others)}) == 4
    minus = [(*ROWS[0][:6], -0.0), *ROWS[1:]]
    assert snapshot_id(market(minus)) == snapshot_id(market([(*ROWS[0][:6], 0.0), *ROWS[1:]]))
    saved = save_snapshot(snapshot, tmp_path / "market")
    loaded = load_snapshot(tmp_path / "market")
    assert saved.id == loaded.id == snapshot_id(snapshot)
    assert (loaded.minutes.codes, loaded.minutes.rows.tobytes()) == (snapshot.minutes.codes, snapshot.minutes.rows.tobytes())
    save_snapshot(plain, tmp_path / "plain")
    assert not (tmp_path / "plain" / "minutes.parquet").exists()
    assert differences(load_manifest(tmp_path / "market"), plain) == ["minutes.parquet: minutes differ"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda table: table.assign(close=table["close"] + 0.01), r"minutes\.parquet: minutes differ"),
        (lambda table: table.assign(ends_at=table["ends_at"] - pd.Timedelta("1D")), r"minutes\.parquet: minutes differ"),
        (lambda table: table[:0], r"minutes\.parquet: minutes differ"),
        (lambda table: table.drop(columns="ends_at"), "can't read the snapshot: 'ends_at'"),
        (lambda table: table.assign(high="much"), "can't read the snapshot"),
        (lambda table: table.assign(ends_at="soon"), "can't read the snapshot"),
        (lambda table: table.assign(code=None), "changed after it was stored|can't read"),
        (None, r"can't read the snapshot: .*minutes\.parquet"),
    ],
)
def test_a_hostile_file_is_refused_in_a_line(change: Any, says: str, tmp_path: Path) -> None:
    save_snapshot(market(), tmp_path / "market")
    path = tmp_path / "market" / "minutes.parquet"
    table = pd.read_parquet(path)
    path.unlink()
    if change is not None:
        change(table).to_parquet(path)
    with pytest.raises(DataError, match=says) as caught:
        load_snapshot(tmp_path / "market")
    assert "\n" not in str(caught.value)


def test_a_manifest_that_hides_its_minutes_is_refused(tmp_path: Path) -> None:
    save_snapshot(market(), tmp_path / "market")
    manifest = load_manifest(tmp_path / "market")
    del manifest["statics"]["minutes"]
    (tmp_path / "market" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="id differs"):
        load_snapshot(tmp_path / "market")


@on_each_row
def test_a_fault_is_found_and_named(row: int, cells: dict[str, Any], kind: str | None, example: str) -> None:
    rows: list[Any] = [*ROWS]
    rows[row] = tuple({**dict(zip(COLUMNS, ROWS[row], strict=True)), **cells}.values())
    daily = replace(market(rows), volume=np.array([[4.0, 407.0], [0.5, 0.0], [1.0, 59.0]]))  # as the minutes add up
    findings = {finding.kind: finding for finding in check(raw_from_snapshot(daily)) if finding.kind.startswith("minutes")}
    assert findings.pop("minutes").count == 9
    if kind != "minutes_outside_bar":  # a price of 0 is outside, too
        findings.pop("minutes_outside_bar", None)
    assert list(findings) == ([] if kind is None else [kind])
    if kind is not None:
        assert (findings[kind].count, findings[kind].examples) == (1, (example,))
        assert findings[kind].severity == ("warning" if kind in ("minutes_outside_bar", "minutes_volume") else "error")
