from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import DataError
from ktdeval_data.params import QlibParams
from ktdeval_data.qlib_binary import read_bin, read_qlib
from ktdeval_raw_markets.assembly import assemble
from ktdeval_raw_markets.checks.quality import raw_from_snapshot
from qlib_writer import write_qlib
from support.market.raw_market import findings_of

CALENDAR = ["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08"]
NAN = float("nan")
RAW = {
    "open": [10.0, 10.1, 10.2, 5.2],
    "high": [10.3, 10.3, 10.4, 5.3],
    "low": [9.9, 10.0, 10.1, 5.0],
    "close": [10.1, 10.2, 10.3, 5.1],
}
FACTOR = [3.7, 3.7, 3.7, 7.4]
VOLUME = [1201.0, 34567.0, 890.0, 2103.0]


def adjusted(values: list[float]) -> list[float]:
    return [value * factor for value, factor in zip(values, FACTOR)]


def features() -> dict[str, dict[str, tuple[int, list[float]]]]:
    """One code from the second day on, adjusted as Qlib's data are, with a suspended day; one over
    the whole calendar; an index.
    """
    moutai = {
        **{name: (1, adjusted(values)) for name, values in RAW.items()},
        "factor": (1, FACTOR),
        "volume": (1, [volume / factor for volume, factor in zip(VOLUME, FACTOR)]),
        "amount": (1, [12_000.0, 350_000.0, 9_100.0, 10_800.0]),
    }

    for name, (start, values) in list(moutai.items()):
        moutai[name] = (start, [*values[:2], NAN, values[3]])

    bank = {name: (0, [10.0] * 5) for name in ("open", "high", "low", "close", "amount")}
    bank |= {"factor": (0, [1.0] * 5), "volume": (0, [1.0] * 5)}

    return {
        "SH600519": moutai,
        "SZ000001": bank,
        "SH000688": {"close": (0, [3300.0, 3310, 3320, 3330, 3340])},
    }


def instruments() -> dict[str, list[tuple[str, str, str]]]:
    return {
        "csi300": [
            ("SH600519", "2024-01-03", "2024-01-05"),
            ("SH600519", "2024-01-08", "2030-01-01"),
            ("SZ000001", "2020-01-01", "2024-01-04"),
        ]
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_qlib(tmp_path / "cn_data", CALENDAR, features(), instruments())


def read(folder: Path, **changes: Any) -> Any:
    return read_qlib(
        dataclasses.replace(QlibParams(folder=str(folder), benchmark_code="000688"), **changes)
    )


def test_prices_come_back_to_whole_fen_with_membership_and_benchmark(folder: Path) -> None:
    # Prices come back to whole fen and volumes to whole shares.
    snapshot = assemble(read(folder))
    assert snapshot.codes == ("000001.SZ", "600519.SH")

    for name, values in RAW.items():
        expected = [NAN, values[0], values[1], NAN, values[3]]
        assert np.array_equal(getattr(snapshot, name)[:, 1], expected, equal_nan=True), name

    assert snapshot.volume[1:3, 1].tolist() == VOLUME[:2]
    assert snapshot.factor[:, 1] == pytest.approx([1, 3.7, 3.7, 3.7, 7.4])
    assert snapshot.amount[4, 1] == pytest.approx(10_800)
    assert snapshot.adjusted_close[4, 1] == pytest.approx(5.1 * 7.4)

    # Membership and benchmark are read.
    snapshot = assemble(read(folder))
    assert snapshot.member[:, 1].tolist() == [False, True, True, True, True]
    assert snapshot.member[:, 0].tolist() == [True, True, True, False, False]
    assert snapshot.benchmark.tolist() == [3300, 3310, 3320, 3330, 3340]
    assert snapshot.meta.benchmark == "000688.SH"
    # The factor of an asset that stands for an index doubles on its last day, at half the price.
    assert read(folder, benchmark_code="600519").indices["close"].tolist() == pytest.approx(
        [10.1, 10.2, 10.2]
    )
    assert snapshot.meta.name == "cn_data"


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["raw", "divided"])
def test_volume_unit_is_inferred_from_whole_shares_and_reported(
    tmp_path: Path, stored: str
) -> None:
    fields = features()
    if stored == "raw":
        fields["SH600519"]["volume"] = (1, [*VOLUME[:2], NAN, VOLUME[3]])

    raw = read(write_qlib(tmp_path / "q", CALENDAR, fields, instruments()))

    assert assemble(raw).volume[[1, 2, 4], 1].tolist() == [*VOLUME[:2], VOLUME[3]]

    note = findings_of(raw_from_snapshot(assemble(raw)))["import_notes"]

    assert ("divided by the factor" in note.examples[0]) == (stored == "divided")

    with pytest.raises(DataError, match="wrong_units"):
        assemble(read(tmp_path / "q", volume="raw" if stored == "divided" else "divided"))


def test_uninformative_volumes_are_an_error_until_the_unit_is_named(tmp_path: Path) -> None:
    fields = features()
    fields["SH600519"] |= {
        "volume": (1, [3000.5, 7000.25, 500.125, 900.0]),
        "amount": (1, [NAN] * 4),
    }
    folder = write_qlib(tmp_path / "q", CALENDAR, fields, instruments())

    with pytest.raises(DataError, match="give --volume raw or --volume divided"):
        read(folder)

    moutai = [
        read(folder, volume=kind).bars.query("code == '600519.SH'")["volume"].tolist()[0]
        for kind in ("raw", "divided")
    ]

    assert moutai == [3000.5, round(3000.5 * 3.7)]
    assert read(folder, prices="unadjusted").bars["volume"].max() == 7000.25, (
        "unadjusted prices come with unadjusted volumes"
    )


def test_unadjusted_data_and_a_range_of_days_can_be_read(folder: Path) -> None:
    # Unadjusted data are taken as they are.
    bars = read(folder, prices="unadjusted").bars
    assert bars[bars["code"] == "600519.SH"]["close"].iloc[0] == pytest.approx(10.1 * 3.7)
    # A range of days can be read.
    assert (
        assemble(read(folder, first="2024-01-03", last="2024-01-06")).days.astype(str).tolist()
        == CALENDAR[1:4]
    )

    with pytest.raises(
        DataError,
        match="no days from 2025-01-01 to 2024-01-08; its calendar is 2024-01-02…2024-01-08",
    ):
        read(folder, first="2025-01-01")


def test_members_without_features_are_found_by_the_check(tmp_path: Path) -> None:
    universe = {"csi300": [*instruments()["csi300"], ("SH600837", "2024-01-01", "2024-12-31")]}
    raw = read(write_qlib(tmp_path / "q", CALENDAR, features(), universe))
    assert findings_of(raw)["unpriced_members"].examples == (
        "600837.SH member 2024-01-02…2024-01-08",
    )


def test_values_match_their_days_and_unknown_calendar_fields_are_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "close.day.bin"
    path.write_bytes(np.array([2, 7.5, 8.5], dtype="<f4").tobytes())

    assert np.array_equal(read_bin(path, 6), [NAN, NAN, 7.5, 8.5, NAN, NAN], equal_nan=True)
    assert np.isnan(read_bin(None, 6)).all()

    odd = [b"", b"\x00\x00\x00", *(np.array([first, 1.0], "<f4").tobytes() for first in (-1, NAN))]
    late = np.array([5, 1.0, 2.0], dtype="<f4").tobytes()

    for content, message in [
        *((content, "not a Qlib field") for content in odd),
        (late, "belongs to another calendar"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_bin(path, 6)


def test_missing_parts_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"day\.txt: can't read"):
        read(tmp_path / "nowhere")

    with pytest.raises(DataError, match=r"csi500\.txt: can't read"):
        read(folder, universe="csi500")

    with pytest.raises(DataError, match=r"no close.day.bin of benchmark 000905\.SH"):
        read(folder, benchmark_code="000905")

    (folder / "instruments" / "csi300.txt").write_text("\nSH600519 2024-01-01\n")
    with pytest.raises(
        DataError,
        match=(
            r"csi300\.txt: expected lines of code, first day and last day, was 'SH600519"
            r" 2024-01-01'"
        ),
    ):
        read(folder)

    (folder / "calendars" / "day.txt").write_text("2024-01-03\n2024-01-02\n")
    with pytest.raises(DataError, match="ascending order"):
        read(folder)


def test_missing_column_that_no_option_maps_must_be_renamed(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "industry.csv"
    path.write_text("who,industry\n600519.SH,drinks\n")
    with pytest.raises(DataError, match=r"name it: rename 'who' to 'code'$"):
        read(folder, industry=str(path))
