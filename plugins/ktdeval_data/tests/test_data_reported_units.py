"""Reported files whose units or factors were read wrongly, by their right values, and small
copies.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from support.terminal import Terminal

UNITS = "date,code,open,close,high,low,volume,amount\n"
LOT_ROWS = "2024-01-02,sh600000,8.27,8.33,8.37,8.23,378561,31420.64\n2024-01-03,sh600000,8.31,8.4,8.44,8.27,317943,26564.14\n"
SHARE_ROW = "2024-01-03,sh688981,51.14,49.74,51.4,49.49,37601012,189668.9\n"
TURNOVER = """date,code,open,close,high,low,volume,turnover
2024-01-02,sz000001,9.37,9.48,9.5,9.32,37856191,0.001950754950822245
2024-01-03,sz000001,9.41,9.51,9.56,9.36,31794307,0.001638381996440486
"""


def units_file(folder: Path) -> Path:
    path = folder / "units.csv"
    path.write_text(UNITS + LOT_ROWS + SHARE_ROW)
    return path


def turnover_file(folder: Path) -> Path:
    path = folder / "turnover.csv"
    path.write_text(TURNOVER)
    return path


def reported(shared_data: Path, name: str) -> Path:
    (path,) = (shared_data / "reported").glob(f"{name}*")
    return path


def imported(path: Path, out: Path, *words: str) -> MarketSnapshot:
    assert main(["data", "make", "long", "--bars", str(path), "--out", str(out), *words]) == 0
    return load_snapshot(out)


def check_units(path: Path, folder: Path, terminal: Terminal) -> None:
    """688981 is in shares, the others in lots: refused with one reading that works."""
    words = ["--volume-unit", "lot", "--amount-unit", "ten_thousand_CNY"]
    text = terminal.error(
        "data", "make", "long", "--bars", str(path), "--out", str(folder / "no"), *words
    )

    assert "688981.SH" in text
    assert "0.01 times the price" in text
    assert "--volume-unit lot,688981.SH=share" in text

    words[1] = "lot,688981.SH=share"
    market = imported(path, folder / "m", *words)
    day = market.day_index("2024-01-03")
    code = market.asset_index["688981.SH"]

    assert market.volume[day, code] == 37_601_012
    assert round(market.amount[day, code] / market.volume[day, code], 2) == 50.44
    assert market.volume[day, market.asset_index["600000.SH"]] == 31_794_300

    repaired = imported(
        path, folder / "r", "--amount-unit", "ten_thousand_CNY", "--repair", "match_units"
    )

    assert repaired.volume[day].tolist() == market.volume[day].tolist()


def check_turnover(path: Path, folder: Path, terminal: Terminal) -> None:
    """`turnover` is a rate: not read as amounts, and refused where it is named as them."""
    named = ("--map", "amount=turnover")
    text = terminal.error(
        "data", "make", "long", "--bars", str(path), *named, "--out", str(folder / "no")
    )

    assert "turnover_rate" in text
    assert "--repair drop_amount" in text

    market = imported(path, folder / "m", *named, "--repair", "drop_amount")
    day = market.day_index("2024-01-03")
    code = market.asset_index["000001.SZ"]

    assert market.volume[day, code] == 31_794_307
    assert str(market.amount[day, code]) == "nan"


def check_factor(path: Path, folder: Path, terminal: Terminal) -> None:
    """600018 has no factor on any day: the message names a repair that works, and no other."""
    words = ["--bars", str(path), "--out", str(folder / "no"), "--repair", "fill_factor"]
    text = terminal.error("data", "make", "long", *words)

    assert "codes_without_factor (first: 600018.SH)" in text
    assert "--repair factor_of_one" in text
    assert "--repair fill_factor" not in text

    market = imported(path, folder / "m", "--repair", "factor_of_one")
    assert set(market.factor[:, market.asset_index["600018.SH"]]) == {1.0}
    assert any(repair.startswith("factor_of_one: ") for repair in market.meta.repairs)


FACTORS = """date,code,open,high,low,close,volume,amount,adj_factor
2021-11-01,600018.SH,4.99,5.01,4.95,4.97,12893349,64208878.02,
2021-11-02,600018.SH,4.97,4.99,4.94,4.96,12192524,60535881.66,
2021-11-01,600519.SH,1815,1830,1790,1826,2000000,3640000000,1.5
2021-11-02,600519.SH,1826,1840,1810,1830,2000000,3650000000,1.5
"""


@pytest.mark.shared_data
def test_a_reported_code_without_a_factor_is_repaired_by_the_named_option(
    shared_data: Path, tmp_path: Path, terminal: Terminal
) -> None:
    check_factor(reported(shared_data, "05"), tmp_path, terminal)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_code_without_a_factor_is_repaired_by_the_named_option(
    tmp_path: Path, terminal: Terminal
) -> None:
    path = tmp_path / "factors.csv"
    path.write_text(FACTORS)
    check_factor(path, tmp_path, terminal)


@pytest.mark.shared_data
def test_a_reported_file_with_units_by_code_is_read_right(
    shared_data: Path, tmp_path: Path, terminal: Terminal
) -> None:
    check_units(reported(shared_data, "01"), tmp_path, terminal)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_file_with_units_by_code_is_read_right(tmp_path: Path, terminal: Terminal) -> None:
    check_units(units_file(tmp_path), tmp_path, terminal)


@pytest.mark.shared_data
def test_a_reported_turnover_rate_is_no_amount(
    shared_data: Path, tmp_path: Path, terminal: Terminal
) -> None:
    check_turnover(reported(shared_data, "15"), tmp_path, terminal)


def test_a_turnover_rate_is_no_amount(tmp_path: Path, terminal: Terminal) -> None:
    check_turnover(turnover_file(tmp_path), tmp_path, terminal)
