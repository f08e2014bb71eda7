"""Reported files whose units or factors were read wrongly, by their right values, and small
copies.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.market.long_imports import Imports

UNITS = "date,code,open,close,high,low,volume,amount\n"
LOT_ROWS = "2024-01-02,sh600000,8.27,8.33,8.37,8.23,378561,31420.64\n2024-01-03,sh600000,8.31,8.4,8.44,8.27,317943,26564.14\n"
SHARE_ROW = "2024-01-03,sh688981,51.14,49.74,51.4,49.49,37601012,189668.9\n"
TURNOVER = """date,code,open,close,high,low,volume,turnover
2024-01-02,sz000001,9.37,9.48,9.5,9.32,37856191,0.001950754950822245
2024-01-03,sz000001,9.41,9.51,9.56,9.36,31794307,0.001638381996440486
"""
FACTORS = """date,code,open,high,low,close,volume,amount,adj_factor
2021-11-01,600018.SH,4.99,5.01,4.95,4.97,12893349,64208878.02,
2021-11-02,600018.SH,4.97,4.99,4.94,4.96,12192524,60535881.66,
2021-11-01,600519.SH,1815,1830,1790,1826,2000000,3640000000,1.5
2021-11-02,600519.SH,1826,1840,1810,1830,2000000,3650000000,1.5
"""


@pytest.fixture
def bars(request: pytest.FixtureRequest) -> str | Path:
    """Return the text of a small copy, or the path of a reported file for its name."""
    given: str = request.param
    if given.endswith(".csv"):
        reported: Path = request.getfixturevalue("reported")
        return reported / given

    return given


def both(copy: str, name: str) -> pytest.MarkDecorator:
    """Run a test on a small copy and on the reported file of a name."""
    original = pytest.param(name, marks=pytest.mark.shared_data, id="reported")
    return pytest.mark.parametrize("bars", [pytest.param(copy, id="copy"), original], indirect=True)


@both(UNITS + LOT_ROWS + SHARE_ROW, "01_units_by_code.csv")
def test_units_by_code_are_refused_with_one_reading_that_works(
    bars: str | Path, imports: Imports
) -> None:
    """688981 is in shares, the others in lots."""
    amounts = ("--amount-unit", "ten_thousand_CNY")
    text = imports.refused(bars, *amounts, "--volume-unit", "lot")

    assert "688981.SH" in text
    assert "0.01 times the price" in text
    assert "--volume-unit lot,688981.SH=share" in text

    market = imports.made(bars, *amounts, "--volume-unit", "lot,688981.SH=share")
    day = market.day_index("2024-01-03")
    code = market.asset_index["688981.SH"]

    assert market.volume[day, code] == 37_601_012
    assert round(market.amount[day, code] / market.volume[day, code], 2) == 50.44
    assert market.volume[day, market.asset_index["600000.SH"]] == 31_794_300

    repaired = imports.made(bars, *amounts, "--repair", "match_units")
    assert repaired.volume[day].tolist() == market.volume[day].tolist()


@both(TURNOVER, "15_turnover_column.csv")
def test_a_turnover_rate_that_is_named_as_amount_is_refused(
    bars: str | Path, imports: Imports
) -> None:
    named = ("--map", "amount=turnover")
    text = imports.refused(bars, *named)

    assert "turnover_rate" in text
    assert "--repair drop_amount" in text

    market = imports.made(bars, *named, "--repair", "drop_amount")
    code = market.asset_index["000001.SZ"]
    assert market.volume[market.day_index("2024-01-03"), code] == 31_794_307
    assert np.isnan(market.amount).all()


@both(FACTORS, "05_one_code_without_factor.csv")
def test_a_code_without_a_factor_is_repaired_by_the_named_option(
    bars: str | Path, imports: Imports
) -> None:
    """600018 has none on any day: the message names a repair that works, and no other."""
    text = imports.refused(bars, "--repair", "fill_factor")

    assert "codes_without_factor (first: 600018.SH)" in text
    assert "--repair factor_of_one" in text
    assert "--repair fill_factor" not in text

    market = imports.made(bars, "--repair", "factor_of_one")
    assert set(market.factor[:, market.asset_index["600018.SH"]]) == {1.0}
    assert any(repair.startswith("factor_of_one: ") for repair in market.meta.repairs)
