"""Minute bars whose times are those at which they begin are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.testing import Terminal

ADVICE = "--minutes-length 30"
# half hours of New York on a usual day, and on 2025-07-03, which closes at 13:00
USUAL = [f"{hour:02}:{minute}" for hour in range(9, 17) for minute in ("00", "30")][1:]
HALF = [time for time in USUAL if time <= "13:00"]
SESSIONS = {"2025-07-02": USUAL[:-1], "2025-07-03": HALF}  # from the open to the close


def imported(terminal: Terminal, folder: Path, times: dict[str, list[str]], *more: object) -> str:
    daily = ["date,code,open,high,low,close,volume"]
    bars = ["time,code,open,high,low,close,volume"]
    for number, (day, of_day) in enumerate(times.items()):
        price = 10 + number
        daily.append(f"{day},AVLN,{price},{price + 1},{price},{price},1300")
        bars += [f"{day}T{time},AVLN,{price},{price},{price},{price},100" for time in of_day]

    (folder / "daily.csv").write_text("\n".join(daily) + "\n")
    (folder / "bars.csv").write_text("\n".join(bars) + "\n")
    words = ("--bars", folder / "daily.csv", "--venue", "us_equity", "--minutes")
    zone = ("--minutes-zone", "America/New_York", "--out", folder / "market")
    code, out, err = terminal.call(
        "data", "make", "long", *words, folder / "bars.csv", *zone, *more
    )
    assert code == 0, err
    return " ".join((out + err).split())


@pytest.mark.parametrize("day", list(SESSIONS))
def test_times_from_the_open_to_before_the_close_are_beginnings(
    day: str, tmp_path: Path, terminal: Terminal
) -> None:
    begins = {each: times[:-1] for each, times in SESSIONS.items() if each == day}
    text = imported(terminal, tmp_path, begins)
    assert "minutes_stamped_at_start" in text
    assert ADVICE in text


def test_times_up_to_the_close_are_ends(tmp_path: Path, terminal: Terminal) -> None:
    ends = {day: times[1:] for day, times in SESSIONS.items()}
    assert "minutes_stamped_at_start" not in imported(terminal, tmp_path, ends)


def test_an_auction_at_the_open_is_no_beginning(tmp_path: Path, terminal: Terminal) -> None:
    assert "minutes_stamped_at_start" not in imported(terminal, tmp_path, SESSIONS)


def test_with_the_length_the_warning_is_gone(tmp_path: Path, terminal: Terminal) -> None:
    begins = {day: times[:-1] for day, times in SESSIONS.items()}
    text = imported(terminal, tmp_path, begins, *ADVICE.split())
    assert "minutes_stamped_at_start" not in text
