"""Files beside the checkout whose columns stood unread or whose series break in place: each has the
right value, or is refused with advice that works.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from support.terminal import Terminal

pytestmark = pytest.mark.shared_data


def words(file: Path, *options: str) -> list[object]:
    return ["data", "make", "long", "--bars", file, *options]


def imported(
    terminal: Terminal, folder: Path, file: Path, *options: str
) -> tuple[MarketSnapshot, str]:
    """The market of a file, and what its import prints."""
    printed = terminal.out(*words(file, *options), "--out", folder / "market")
    return load_snapshot(folder / "market"), printed


def factor_before(snapshot: MarketSnapshot, day: str) -> tuple[set[float], set[float]]:
    """Factors of the only asset before a day, and from it on."""
    is_later = snapshot.days >= np.datetime64(day)
    factor = np.round(snapshot.factor[:, 0], 6)
    return set(factor[~is_later].tolist()), set(factor[is_later].tolist())


def test_a_bar_that_was_not_over_is_left_out(
    reported: Path, tmp_path: Path, terminal: Terminal
) -> None:
    options = ("--venue", "crypto_spot", "--code", "BTC-USDT")
    file = reported / "n02_last_bar_unconfirmed.csv"
    snapshot, printed = imported(terminal, tmp_path, file, *options)

    assert (len(snapshot.days), str(snapshot.days[-1])) == (29, "2024-01-29")
    assert "not over by column 'confirm' are left out: BTC-USDT 2024-01-30" in printed


def test_a_divisor_is_a_factor(reported: Path, tmp_path: Path, terminal: Terminal) -> None:
    file = reported / "n04_divisor_beside_prices.csv"
    snapshot, printed = imported(terminal, tmp_path, file, "--venue", "us_equity")

    assert factor_before(snapshot, "2024-01-23") == ({round(1 / 1.5, 6)}, {1.0})
    assert "the factor is 1 / CFACPR" in printed
    assert "known but not read: 'CFACSHR' (factor of share counts)" in printed


def test_a_reference_price_gives_ex_days(
    reported: Path, tmp_path: Path, terminal: Terminal
) -> None:
    file = reported / "n22_reference_price_beside.csv"
    snapshot, printed = imported(terminal, tmp_path, file)
    before, after = factor_before(snapshot, "2024-01-23")

    assert before == {1.0}

    (rise,) = after
    assert rise == pytest.approx(1 / 0.93, rel=1e-3)
    assert "1 ex-days on which column 'pre_close' differs" in printed


def test_an_average_price_is_not_advised_as_a_volume(
    reported: Path, tmp_path: Path, terminal: Terminal
) -> None:
    file = reported / "n07_average_price_before_volume.csv"
    options = ("--venue", "crypto_spot", "--code", "BTC-USD")
    message = terminal.refusal(*words(file, *options), "--out", tmp_path / "market")
    columns = message.partition("--columns ")[2].split()[0]

    assert columns == "date,open,high,low,close,-,volume,-"

    snapshot, _ = imported(terminal, tmp_path, file, *options, "--columns", columns)
    assert snapshot.volume[snapshot.day_index("2024-01-02"), 0] == 8.134741

    wrong = (*options, "--columns", "date,open,high,low,close,volume,-,-")
    message = terminal.refusal(*words(file, *wrong), "--out", tmp_path / "wrong")

    assert "volume_is_price" in message


@pytest.mark.parametrize(
    ("name", "options", "found", "repair"),
    [
        (
            "n01_ticker_reused.csv",
            ("--venue", "us_equity"),
            "reused_tickers (first: META ends 2022-01-28, begins 2022-06-09: close 12.48 to",
            "drop_before_gap",
        ),
        (
            "n08_three_days_in_pence.csv",
            ("--venue", "us_equity"),
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
    name: str,
    options: tuple[str, ...],
    found: str,
    repair: str,
    reported: Path,
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    file = reported / name
    message = terminal.refusal(*words(file, *options), "--out", tmp_path / "wrong")

    assert found in message
    assert f"--repair {repair}" in message
    assert "--splits" not in message

    snapshot, printed = imported(terminal, tmp_path, file, *options, "--repair", repair)
    assert "wrong_units" not in printed

    moves = np.abs(np.diff(np.log(snapshot.close), axis=0))
    assert np.nanmax(moves) < np.log(1.2)


def test_a_weekly_code_among_daily_ones_is_refused(
    reported: Path, tmp_path: Path, terminal: Terminal
) -> None:
    file = reported / "n20_one_code_weekly.csv"
    command = words(file, "--venue", "crypto_spot")
    message = terminal.refusal(*command, "--out", tmp_path / "market")
    assert "1 other_intervals (first: ETH: bars of weeks)" in message
