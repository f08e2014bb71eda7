"""Files beside the checkout whose columns stood unread or whose series break in place: each has the
right value, or is refused with advice that works.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support.market.long_imports import Imports

pytestmark = pytest.mark.shared_data


US = ("--venue", "us_equity")
COIN = ("--venue", "crypto_spot", "--code")


@pytest.mark.parametrize(
    ("name", "options", "noted", "before", "after", "tolerance"),
    [
        (
            "n02_last_bar_unconfirmed.csv",
            (*COIN, "BTC-USDT"),
            "not over by column 'confirm' are left out: BTC-USDT 2024-01-30",
            1.0,
            1.0,
            0,
        ),
        ("n04_divisor_beside_prices.csv", US, "the factor is 1 / CFACPR", 1 / 1.5, 1.0, 1e-6),
        (
            "n22_reference_price_beside.csv",
            (),
            "1 ex-days on which column 'pre_close' differs",
            1.0,
            1 / 0.93,
            1e-3,
        ),
    ],
)
def test_a_column_beside_prices_is_read(
    name: str,
    options: tuple[str, ...],
    noted: str,
    before: float,
    after: float,
    tolerance: float,
    reported: Path,
    imports: Imports,
) -> None:
    snapshot = imports.made(reported / name, *options)
    is_later = snapshot.days >= np.datetime64("2024-01-23")

    assert noted in imports.printed
    assert snapshot.factor[~is_later, 0] == pytest.approx(before, rel=tolerance)
    assert snapshot.factor[is_later, 0] == pytest.approx(after, rel=tolerance)


def test_an_average_price_is_not_advised_as_a_volume(reported: Path, imports: Imports) -> None:
    file = reported / "n07_average_price_before_volume.csv"
    options = (*COIN, "BTC-USD")
    message = imports.refused(file, *options)
    columns = message.partition("--columns ")[2].split()[0]

    assert columns == "date,open,high,low,close,-,volume,-"

    snapshot = imports.made(file, *options, "--columns", columns)
    assert snapshot.volume[snapshot.day_index("2024-01-02"), 0] == 8.134741

    wrong = (*options, "--columns", "date,open,high,low,close,volume,-,-")
    message = imports.refused(file, *wrong)

    assert "volume_is_price" in message


@pytest.mark.parametrize(
    ("name", "options", "found", "repair"),
    [
        (
            "n01_ticker_reused.csv",
            US,
            "reused_tickers (first: META ends 2022-01-28, begins 2022-06-09: close 12.48 to",
            "drop_before_gap",
        ),
        (
            "n08_three_days_in_pence.csv",
            US,
            "3 misplaced_prices (first: VOD 2024-01-18…2024-01-22: prices are 100 times those",
            "match_prices",
        ),
        (
            "n19_two_days_of_sixty_in_lots.csv",
            (),
            "2 wrong_units (first: 000001.SZ 2024-01-11: amount / volume is 100 times the price)",
            "match_units",
        ),
    ],
)
def test_a_series_that_breaks_is_refused_and_repaired(
    name: str, options: tuple[str, ...], found: str, repair: str, reported: Path, imports: Imports
) -> None:
    file = reported / name
    message = imports.refused(file, *options)

    assert found in message
    assert f"--repair {repair}" in message
    assert "--splits" not in message

    snapshot = imports.made(file, *options, "--repair", repair)
    assert "wrong_units" not in imports.printed

    moves = np.abs(np.diff(np.log(snapshot.close), axis=0))
    assert np.nanmax(moves) < np.log(1.2)


def test_a_weekly_code_among_daily_ones_is_refused(reported: Path, imports: Imports) -> None:
    file = reported / "n20_one_code_weekly.csv"
    message = imports.refused(file, "--venue", "crypto_spot")
    assert "1 other_intervals (first: ETH: bars of weeks)" in message
