"""A column of dividends next to unadjusted US prices gives the factor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.market import load_snapshot
from ktdeval.testing import Terminal

DAYS = ("2024-03-04", "2024-03-05", "2024-03-06", "2024-03-07")
HEADER = "date,code,open,high,low,close,volume,dividends,stock splits"


def made(
    terminal: Terminal,
    folder: Path,
    closes: tuple[float, ...],
    dividends: tuple[float, ...],
    *words: object,
    splits: tuple[float, ...] = (0, 0, 0, 0),
) -> Any:
    rows = [HEADER]
    for day, close, paid, split in zip(DAYS, closes, dividends, splits, strict=True):
        rows.append(f"{day},AVLN,{close},{close},{close},{close},1000000,{paid},{split}")

    path = folder / "bars.csv"
    path.write_text("\n".join(rows) + "\n")
    venue = words or ("--venue", "us_equity")
    terminal.out("data", "make", "long", "--bars", path, *venue, "--out", folder / "market")
    return load_snapshot(folder / "market")


def test_a_dividend_raises_the_factor_by_its_share_of_the_last_close(
    tmp_path: Path, terminal: Terminal
) -> None:
    """$2 of $100: the price falls to 98 and the total return is 0."""
    market = made(terminal, tmp_path, (100.0, 98.0, 98.0, 99.0), (0, 2.0, 0, 0))
    expected = [1.0, 1 / 0.98, 1 / 0.98, 1 / 0.98]
    assert market.factor[:, 0].tolist() == pytest.approx(expected)
    assert np.log(market.adjusted_close[1, 0] / market.adjusted_close[0, 0]) == pytest.approx(0.0)
    assert "the factor has the 1 dividends in column 'dividends'" in " ".join(market.meta.notes)


def test_each_of_several_dividends_raises_the_factor_from_its_day_on(
    tmp_path: Path, terminal: Terminal
) -> None:
    """$2 of $100, then $1 of $98 and $7 of $97: the price falls by each, and no return is lost."""
    market = made(terminal, tmp_path, (100.0, 98.0, 97.0, 90.0), (0, 2.0, 1.0, 7.0))
    assert market.adjusted_close[:, 0].tolist() == pytest.approx([100.0] * 4)
    assert "the factor has the 3 dividends in column 'dividends'" in " ".join(market.meta.notes)


def test_on_a_day_of_a_split_the_dividend_is_per_new_share(
    tmp_path: Path, terminal: Terminal
) -> None:
    """2 for 1, and $1 of a new share of $50: 49 after 100 is a total return of 0."""
    market = made(
        terminal, tmp_path, (100.0, 49.0, 49.5, 49.0), (0, 1.0, 0, 0), splits=(0, 2.0, 0, 0)
    )
    assert market.factor[:, 0].tolist() == pytest.approx([1.0, *[2 / 0.98] * 3])
    assert market.adjusted_close[1, 0] == pytest.approx(100.0)


def test_adjusted_prices_are_not_adjusted_twice(tmp_path: Path, terminal: Terminal) -> None:
    """Closes as yfinance adjusts them are not in whole cents."""
    closes = (97.98765, 98.01234, 98.34567, 99.12345)
    market = made(terminal, tmp_path, closes, (0, 2.0, 0, 0))
    assert (market.factor == 1.0).all()
    assert "closes are not in whole cents" in " ".join(market.meta.notes)


def test_prices_that_are_adjusted_for_splits_leave_the_column_unread(
    tmp_path: Path, terminal: Terminal
) -> None:
    market = made(
        terminal, tmp_path, (50.0, 50.0, 49.0, 49.0), (0, 0, 1.0, 0), splits=(0, 2.0, 0, 0)
    )
    assert (market.factor == 1.0).all()
    assert "column 'dividends' is not read: prices are adjusted" in " ".join(market.meta.notes)


def test_a_dividend_above_the_last_close_is_refused(tmp_path: Path, terminal: Terminal) -> None:
    path = tmp_path / "bars.csv"
    rows = [f"{day},AVLN,10,10,10,10,1000,{paid},0" for day, paid in zip(DAYS, (0, 12, 0, 0))]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    error = terminal.refusal(
        "data", "make", "long", "--bars", path, "--venue", "us_equity", "--out", tmp_path / "m"
    )
    assert "AVLN 2024-03-05: a dividend of 12 is not below the previous close" in error
