"""Files that were read wrongly, beside the checkout: each has the right value, or is refused with
advice that works.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from ktdeval.testing import Terminal
from support.market.long_imports import Imports

pytestmark = pytest.mark.shared_data

US = ("--venue", "us_equity")


def test_codes_that_lost_their_zeros_are_named_and_read(reported: Path, imports: Imports) -> None:
    names = "date=日期,code=股票代码,open=开盘,close=收盘,high=最高,low=最低,volume=成交量,amount=成交额"
    words = [reported / "04_codes_as_numbers.csv", "--map", names, "--volume-unit", "lot"]
    message = imports.refused(*words)

    assert "line 2: code '1' has fewer than six digits" in message
    assert "--code-width 6" in message

    snapshot = imports.made(*words, "--code-width", "6")
    assert snapshot.codes == ("000001.SZ", "600519.SH")
    assert snapshot.volume[0, 0] == 2523700


def test_a_header_of_two_rows_is_read(reported: Path, imports: Imports) -> None:
    snapshot = imports.made(reported / "06_two_header_rows.csv", *US)

    assert (snapshot.codes, len(snapshot.days)) == (("AAPL", "TSLA"), 10)
    assert snapshot.close[0].tolist() == [240.83, 350.66]


def test_a_terminals_export_is_read(reported: Path, imports: Imports) -> None:
    snapshot = imports.made(reported / "07_terminal_export.txt")
    assert (snapshot.codes, len(snapshot.days)) == (("600000.SH",), 10)
    assert str(snapshot.days[0]) == "2024-01-02"
    assert (snapshot.open[0, 0], snapshot.volume[0, 0]) == (8.27, 37856191)


def test_an_adjusted_close_next_to_the_close_gives_a_factor(
    reported: Path, tmp_path: Path, imports: Imports
) -> None:
    name = "08_adjusted_close_beside.csv"
    by_name = imports.made(reported / name, *US, "--code", "AAPL")

    assert by_name.factor[:10, 0].tolist() == pytest.approx([0.99] * 10, abs=1e-6)
    assert by_name.factor[10:, 0].tolist() == [1.0] * 10
    assert any("Adj Close / Close" in note for note in by_name.meta.notes)

    folder = tmp_path / "bars"
    folder.mkdir()
    shutil.copy(reported / name, folder / "AAPL.csv")
    ignored = imports.made(folder, *US, "--adjusted-close", "ignore")

    assert not ignored.meta.has_factor
    assert any("'Adj Close' is not read" in note for note in ignored.meta.notes)


def test_renumbered_codes_are_reported_until_the_names_state_them(
    reported: Path, tmp_path: Path, terminal: Terminal, imports: Imports
) -> None:
    words = ["data", "make", "long", "--check-only", "--bars", reported / "09_renumbered.csv"]
    printed = terminal.out(*words)

    assert "430047.BJ ends 2025-09-30, 920047.BJ begins 2025-10-09" in printed

    row = printed.partition("such as ")[2].split()[0]
    names = tmp_path / "names.csv"
    names.write_text(f"code,name,in_date,out_date,code_then\n{row}\n920047.BJ,NAME,2025-10-01,,\n")

    assert "renumbered_codes" not in terminal.out(*words, "--names", names)

    snapshot = imports.made(*words[5:], "--names", names)
    assert snapshot.codes == ("920002.BJ", "920047.BJ")


def test_factors_in_a_file_of_their_own_are_held_from_their_days_on(
    reported: Path, imports: Imports
) -> None:
    units = ["--volume-unit", "lot", "--amount-unit", "thousand_CNY"]
    files = [reported / "10_daily.csv", "--factors", reported / "10_factors_apart.csv"]
    snapshot = imports.made(*files, *units)
    column = snapshot.codes.index("000001.SZ")
    factor = snapshot.factor[:, column]
    is_later = snapshot.days >= np.datetime64("2024-01-25")

    assert is_later.any()
    assert factor[is_later].tolist() == [1.05] * int(is_later.sum())
    assert factor[~is_later].tolist() == [1.0] * int((~is_later).sum())


def test_a_rate_of_turnover_is_no_amount(reported: Path, imports: Imports) -> None:
    snapshot = imports.made(reported / "15_turnover_column.csv")
    assert snapshot.volume[1, snapshot.codes.index("000001.SZ")] == 31794307
    assert np.isnan(snapshot.amount).all()
    assert any("'turnover' is not read" in note for note in snapshot.meta.notes)
