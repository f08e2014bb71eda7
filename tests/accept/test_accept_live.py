"""Forward tests whose days come one at a time: what was decided is the ledger of a replay, and what
goes wrong is on record with its cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import in_text
from ktdeval_live.record.chain import DecisionKey
from ktdeval_live.record.folder import LiveFolder
from support.live.live_drops import (
    Row,
    as_csv,
    begin_drops,
    ends,
    ledger,
    plugins,
    rename_into,
    replayed,
    rows_of,
)

TWO = [
    {"name": "momentum", "model": "builtin/momentum"},
    {"name": "chance", "model": "builtin/random"},
]

SPANS = {
    "holidays and a half day": ("us", "2024-06-11", "2024-07-12"),  # 19 June, 3 July, 4 July
    "summer time begins": ("us", "2024-03-05", "2024-03-15"),  # 10 March
    "summer time ends": ("us", "2024-10-30", "2024-11-08"),  # 3 November
    "half day after a holiday": ("us", "2024-11-25", "2024-12-04"),  # 28 and 29 November
    "days without a close": ("coins", "2024-03-08", "2024-03-20"),  # weekends and nights
}


def closes(test: LiveFolder) -> Iterator[tuple[str, str]]:
    """Yield each session of each market, and the moment at which its data are asked for."""
    for market, planned in test.plan.markets.items():
        delay = timedelta(minutes=planned.delay_minutes)
        for session in test.schedule(market).sessions:
            yield session.day, in_text(session.complete_at + delay)


def assert_sound(test: LiveFolder) -> None:
    """Everything that is on record holds."""
    assert [str(finding) for finding in verify_test(test, plugins()).findings] == []


# ---- days as they should come


QUICK_SPANS = ("half day after a holiday", "days without a close")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("market", "first", "last"),
    [
        pytest.param(*span, id=name, marks=[] if name in QUICK_SPANS else [pytest.mark.exhaustive])
        for name, span in SPANS.items()
    ],
)
def test_days_that_are_dropped_one_at_a_time_give_the_ledger_of_a_replay(
    tmp_path: Path, market: str, first: str, last: str
) -> None:
    fields: dict[str, Any] = {"first": first, "last": last, "entrants": TWO}
    drops = begin_drops(tmp_path, (market,), **fields)
    for day, time in closes(drops.folder):
        drops.at(time)
        assert drops.step_here().frozen == []  # the file is not there yet
        drops.drop(day, market)
        assert drops.step_here().problems == []

    replay = replayed(tmp_path, (market,), **fields)
    for entrant in ("momentum", "chance"):
        assert ledger(drops.folder, entrant, market) == ledger(replay, entrant, market)
        assert set(ends(drops.folder, entrant, market).values()) == {"decided"}
        assert any(record.traded_minor for record in ledger(replay, entrant, market))

    assert_sound(drops.folder)


# ---- a week in which something goes wrong

WEEK = {"first": "2024-06-03", "last": "2024-06-07"}
DAYS = ("2024-05-31", "2024-06-03", "2024-06-04", "2024-06-05", "2024-06-06")  # to decide on
"""Sessions of the week on which is decided; the day after the last one only fills."""


@pytest.mark.exhaustive
def test_missed_and_late_days_are_gaps_with_their_cause(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, missed, late, after, last = DAYS

    drops.drop(first)
    drops.after_close(first)

    assert drops.step_here().decided

    drops.drop(missed)  # nobody steps between the data and the cutoff

    drops.before_cutoff(missed, minutes=-1)

    assert drops.step_here().gaps == [f"momentum/us {missed}: missed"]

    drops.after_close(late)
    assert drops.step_here().gaps == []

    drops.before_cutoff(late, minutes=-1)  # the step found no data in time, and finds them now
    drops.drop(late)

    assert drops.step_here().gaps == [f"momentum/us {late}: no_data"]

    for day in (after, last):
        drops.drop(day)
        drops.after_close(day)
        drops.step_here()

    assert ends(drops.folder) == {
        first: "decided", missed: "missed", late: "no_data", after: "decided", last: "decided",
    }  # fmt: skip

    assert_sound(drops.folder)

    records = {record.decided_on: record for record in ledger(drops.folder, "momentum")}
    replay = {
        record.decided_on: record for record in ledger(replayed(tmp_path, **WEEK), "momentum")
    }

    assert records[first] == replay[first]
    assert not records[missed].orders
    assert not records[late].orders
    assert records[late].nav_minor != records[first].nav_minor  # what is held moves on


def _cut_in_half(rows: list[Row]) -> str:
    return as_csv(rows)[: len(as_csv(rows)) // 2]


def _with_a_price_of_nothing(rows: list[Row]) -> str:
    return as_csv([{**rows[0], "open": 0.0, "low": 0.0}, *rows[1:]])


def _with_a_code_of_another_market(rows: list[Row]) -> str:
    return as_csv([*rows, {**rows[0], "code": "NOBODY"}])


def _with_a_row_twice(rows: list[Row]) -> str:
    return as_csv([*rows, rows[0]])


def _with_no_amount(rows: list[Row]) -> str:
    return as_csv([{**rows[0], "amount": "nan"}, *rows[1:]])


def _that_is_no_table(rows: list[Row]) -> str:
    return "<html>502 Bad Gateway</html>"


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "malformed",
    [
        _cut_in_half, _with_a_price_of_nothing, _with_a_code_of_another_market, _with_a_row_twice,
        _with_no_amount, _that_is_no_table,
    ],
)  # fmt: skip
def test_malformed_day_is_not_frozen_until_it_is_corrected(
    tmp_path: Path, malformed: Callable[[list[Row]], str]
) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, *_ = DAYS
    for day, is_late in ((first, False), (second, True)):
        rename_into(drops.bars_path(day), malformed(rows_of(drops.markets["us"], day)))
        drops.after_close(day)
        report = drops.step_here()
        assert len(report.problems) == 1
        assert (report.frozen, report.decided) == ([], [])

        if is_late:
            drops.before_cutoff(day, minutes=-1)

        drops.drop(day)
        assert drops.step_here().problems == []

    assert ends(drops.folder) == {first: "decided", second: "no_data"}

    assert_sound(drops.folder)


@pytest.mark.exhaustive
def test_day_on_which_nothing_traded_is_a_file_without_rows(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, *_ = DAYS
    for day, edit in ((first, None), (second, lambda _: [])):
        drops.drop(day, edit=edit)
        drops.after_close(day)
        assert drops.step_here().problems == []

    filled = ledger(drops.folder, "momentum")[0]

    assert filled.orders
    assert not filled.traded_minor

    assert_sound(drops.folder)


@pytest.mark.exhaustive
def test_order_does_not_fill_at_a_price_that_is_missing(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, third, *_ = DAYS
    drops.drop(first)
    drops.after_close(first)
    drops.step_here()
    bought = [order.code for order in ledger(drops.folder, "momentum")[0].orders]
    missing = bought[0]

    drops.drop(second, edit=lambda rows: [row for row in rows if row["code"] != missing])
    drops.after_close(second)
    drops.step_here()
    drops.drop(third)
    drops.after_close(third)
    drops.step_here()

    filled = {order.code: order for order in ledger(drops.folder, "momentum")[0].orders}

    assert not filled[missing].notional_minor
    assert any(filled[code].notional_minor for code in bought[1:])

    assert_sound(drops.folder)


@pytest.mark.exhaustive
def test_bar_that_is_revised_after_the_decision_changes_later_days_alone(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, third, *_ = DAYS
    for day in (first, second):
        drops.drop(day)
        drops.after_close(day)
        drops.step_here()

    shown = drops.folder.record(DecisionKey("momentum", "us", second))
    before = ledger(drops.folder, "momentum")[0]
    code = next(order.code for order in before.orders if order.notional_minor)

    def revised(rows: list[Row]) -> list[Row]:
        return [_scaled(row, 1.25) if row["code"] == code else row for row in rows]

    drops.drop(second, edit=revised)
    drops.drop(third)
    drops.after_close(third)
    report = drops.step_here()

    assert report.frozen == [f"us {second}: 1 bar revised (revision 1)", f"us {third}: 6 bars"]

    after = ledger(drops.folder, "momentum")[0]
    assert drops.folder.record(DecisionKey("momentum", "us", second)) == shown
    assert [order.code for order in after.orders] == [order.code for order in before.orders]
    assert after.nav_minor != before.nav_minor  # settled at the price as it is known now

    assert_sound(drops.folder)


def _scaled(row: Row, by: float) -> Row:
    scaled = {name: round(row[name] * by, 2) for name in ("open", "high", "low", "close")}
    return {**row, **scaled}


@pytest.mark.exhaustive
def test_clock_that_was_set_back_stops_the_step_before_anything_is_done(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, *_ = DAYS
    drops.drop(first)
    drops.after_close(first)
    drops.step_here()
    before = drops.folder.chain().entries

    drops.drop(second)
    drops.after_close(first, minutes=10)

    with pytest.raises(StoreError, match="set the clock right"):
        drops.step_here()

    assert drops.folder.chain().entries == before

    drops.after_close(second)
    assert drops.step_here().decided

    assert_sound(drops.folder)


def test_drop_folder_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    drops.bars_path(DAYS[0]).parent.rmdir()
    drops.after_close(DAYS[0])
    assert "is not there; create it" in drops.step_here().problems[0]
