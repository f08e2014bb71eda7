"""Factors from files of their own and from columns beside prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError, UsageError
from ktdeval.values import build
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams

DAYS = ["2024-01-22", "2024-01-23", "2024-01-24", "2024-01-25", "2024-01-26"]
CLOSES = [10.5, 10.4, 10.5, 10.0, 10.1]


def bars_file(folder: Path, closes: list[float] = CLOSES, **columns: list[object]) -> str:
    table = pd.DataFrame({"date": DAYS, "code": "000001.SZ", "volume": 100, "close": closes})
    table = table.assign(open=table["close"], high=table["close"], low=table["close"], **columns)
    table.to_csv(folder / "bars.csv", index=False)
    return str(folder / "bars.csv")


def factors(folder: Path, text: str = "", **params: Any) -> list[float]:
    """Factors of the bars, with a file of factors if there is a text."""
    if text:
        (folder / "factors.csv").write_text(text)
        params["factors"] = str(folder / "factors.csv")

    paths = {"bars": params.pop("bars", None) or bars_file(folder)}
    raw = read_long(build(LongParams, {**paths, **params}, "long"))

    return [float(factor) for factor in raw.bars["factor"]]


@pytest.mark.exhaustive
def test_factors_of_a_file_for_each_code_are_read(tmp_path: Path) -> None:
    (tmp_path / "factors").mkdir()
    (tmp_path / "factors" / "sz000001.csv").write_text(
        "date,hfq_factor\n2024-01-25,1.05\n1900-01-01,1.0\n"
    )

    assert factors(tmp_path, factors=str(tmp_path / "factors")) == [1.0, 1.0, 1.0, 1.05, 1.05]

    alone = tmp_path / "factors" / "sz000001.csv"
    # A file of its own without codes is of the bars' only asset.
    assert factors(tmp_path, factors=str(alone)) == [1.0, 1.0, 1.0, 1.05, 1.05]

    (tmp_path / "bars").mkdir()
    one = Path(bars_file(tmp_path / "bars"))
    one.write_text(one.read_text().replace("code,", "").replace("000001.SZ,", ""))

    assert factors(tmp_path, bars=str(one), code="000001", factors=str(alone)) == [
        1.0,
        1.0,
        1.0,
        1.05,
        1.05,
    ]


@pytest.mark.parametrize(
    "text",
    [
        # Every day, newest first, as Tushare's adj_factor.
        "ts_code,trade_date,adj_factor\n"
        + "".join(
            f"000001.SZ,2024012{day},{1.05 if day > 4 else 1.0}\n" for day in (6, 5, 4, 3, 2)
        ),
        # Only days of changes, from before the bars, as Sina's.
        "date,code,hfq_factor\n2024-01-25,sz000001,1.05\n1900-01-01,sz000001,1.0\n",
        # BaoStock's, a column of its own for days.
        "code,dividOperateDate,foreAdjustFactor,backAdjustFactor,adjustFactor\n"
        "sz.000001,2020-01-02,0.9,1.0,1.0\nsz.000001,2024-01-25,1.0,1.05,1.05\n",
        # Only the change: the close moves by it, so the factor was 1.
        "date,code,factor\n2024-01-25,000001,1.05\n",
    ],
)
def test_a_factor_holds_from_its_day_until_the_next_one(tmp_path: Path, text: str) -> None:
    assert factors(tmp_path, text) == [1.0, 1.0, 1.0, 1.05, 1.05]


@pytest.mark.slow
def test_first_factor_unsupported_by_the_close_is_refused_with_advice(
    tmp_path: Path,
) -> None:
    """A file of changes since some later day begins with the factor of all years before: 5.25 after
    5.
    """
    text = "date,code,factor\n2024-01-25,000001.SZ,5.25\n"

    with pytest.raises(
        DataError,
        match=r"000001\.SZ has bars before 2024-01-25, .*--first 2024-01-25",
    ) as refusal:
        factors(tmp_path, text)

    assert "add a row with the factor of its first bar" in str(refusal.value)
    assert factors(tmp_path, text + "2024-01-22,000001.SZ,5\n") == [5, 5, 5, 5.25, 5.25]
    assert factors(tmp_path, text, first="2024-01-25") == [5.25, 5.25]


@pytest.mark.exhaustive
def test_factors_that_do_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the bars have a factor already"):
        factors(
            tmp_path,
            "date,code,factor\n2024-01-02,000001.SZ,1\n",
            bars=bars_file(tmp_path, factor=[1] * 5),
        )

    with pytest.raises(DataError, match="no row has a code of the bars"):
        factors(tmp_path, "date,code,factor\n2024-01-02,600000.SH,1\n")

    with pytest.raises(
        DataError,
        match=r"factor 0: each row has a code, a day of its own and a factor above 0",
    ):
        factors(tmp_path, "date,code,factor\n2024-01-02,000001.SZ,0\n")

    with pytest.raises(DataError, match=r"line 2: code '1' has fewer than six digits"):
        factors(tmp_path, "date,code,factor\n2024-01-02,1,1\n")

    with pytest.raises(DataError, match="no column for 'factor'"):
        factors(tmp_path, "date,code,qfq_factor\n2024-01-02,000001.SZ,1\n")


@pytest.mark.slow
def test_an_adjusted_close_gives_one_factor_between_its_changes(tmp_path: Path) -> None:
    adjusted = [round(close * 0.98, 2) for close in CLOSES[:3]] + CLOSES[3:]
    bars = bars_file(tmp_path, **{"Adj Close": adjusted})
    found = factors(tmp_path, bars=bars)

    assert found[:3] == [found[0]] * 3
    assert found[0] == pytest.approx(0.98, abs=5e-4)
    assert found[3:] == [1.0, 1.0]
    assert np.isnan(factors(tmp_path, bars=bars, adjusted_close="ignore")).all()

    # A factor of its own comes first.
    both = bars_file(tmp_path, **{"Adj Close": adjusted, "factor": [2] * 5})
    assert factors(tmp_path, bars=both) == [2] * 5


@pytest.mark.slow
def test_splits_next_to_prices_give_a_factor_if_the_closes_move_by_them(tmp_path: Path) -> None:
    raw = [20.0, 20.4, 10.1, 10.0, 5.1]
    splits = {"splitFactor": [1.0, 1.0, 2.0, 1.0, 2.0]}

    assert factors(tmp_path, bars=bars_file(tmp_path, raw, **splits)) == [1, 1, 2, 2, 4]
    assert np.isnan(factors(tmp_path, bars=bars_file(tmp_path, **splits))).all()

    with pytest.raises(
        DataError,
        match=r"2024-01-26: the close does not move by the split of 2, .*--splits FILE",
    ):
        factors(tmp_path, bars=bars_file(tmp_path, [20.0, 20.4, 10.1, 10.0, 10.1], **splits))

    (tmp_path / "splits.csv").write_text("code,date,ratio\n000001.SZ,2024-01-24,2\n")
    (tmp_path / "plain").mkdir()
    by_file = bars_file(tmp_path / "plain", [20.0, 20.4, 10.1, 10.0, 10.1], **splits)

    assert factors(tmp_path, bars=by_file, splits=str(tmp_path / "splits.csv")) == [1, 1, 2, 2, 2]
