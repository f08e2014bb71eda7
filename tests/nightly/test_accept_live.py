"""Forward tests whose days come one at a time: what was decided is the ledger of a replay, and what
goes wrong is on record with its cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import in_text
from ktdeval_live.deciding.step import StepReport
from ktdeval_live.record.chain import DecisionKey
from ktdeval_live.record.folder import LiveFolder
from support.live.live_drops import (
    Drops,
    Edit,
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


@pytest.mark.parametrize(("market", "first", "last"), SPANS.values(), ids=SPANS)
def test_days_dropped_one_at_a_time_give_the_ledger_of_a_replay(
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


def day_over(drops: Drops, day: str, edit: Edit | None = None) -> StepReport:
    """Drop a day, changed by `edit`, and take the step after its close."""
    drops.drop(day, edit=edit)
    drops.after_close(day)
    return drops.step_here()


def test_missed_and_late_days_are_gaps_with_their_cause(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, missed, late, after, last = DAYS

    assert day_over(drops, first).decided

    drops.drop(missed)  # nobody steps between the data and the cutoff

    drops.before_cutoff(missed, minutes=-1)

    assert drops.step_here().gaps == [f"momentum/us {missed}: missed"]

    drops.after_close(late)
    assert drops.step_here().gaps == []

    drops.before_cutoff(late, minutes=-1)  # the step found no data in time, and finds them now
    drops.drop(late)

    assert drops.step_here().gaps == [f"momentum/us {late}: no_data"]

    for day in (after, last):
        day_over(drops, day)

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


def malformed(fault: str, rows: list[Row]) -> str:
    """The file of a day with a fault."""
    first, *rest = rows
    whole = as_csv(rows)
    return {
        "cut in half": whole[: len(whole) // 2],
        "a price of nothing": as_csv([{**first, "open": 0.0, "low": 0.0}, *rest]),
        "a code of another market": as_csv([*rows, {**first, "code": "NOBODY"}]),
        "a row twice": as_csv([*rows, first]),
        "no amount": as_csv([{**first, "amount": "nan"}, *rest]),
        "no table": "<html>502 Bad Gateway</html>",
    }[fault]


FAULTS = (
    "cut in half, a price of nothing, a code of another market, a row twice, no amount, no table"
)


@pytest.mark.parametrize("fault", FAULTS.split(", "))
def test_malformed_day_is_not_frozen_until_it_is_corrected(tmp_path: Path, fault: str) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, *_ = DAYS
    for day, is_late in ((first, False), (second, True)):
        rename_into(drops.bars_path(day), malformed(fault, rows_of(drops.markets["us"], day)))
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


def test_day_on_which_nothing_traded_is_a_file_without_rows(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, *_ = DAYS
    for day, edit in ((first, None), (second, lambda _: [])):
        assert day_over(drops, day, edit).problems == []

    filled = ledger(drops.folder, "momentum")[0]
    assert filled.orders
    assert not filled.traded_minor

    assert_sound(drops.folder)


def test_order_does_not_fill_at_a_price_that_is_missing(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, third, *_ = DAYS
    day_over(drops, first)
    bought = [order.code for order in ledger(drops.folder, "momentum")[0].orders]
    missing = bought[0]

    day_over(drops, second, lambda rows: [row for row in rows if row["code"] != missing])
    day_over(drops, third)

    filled = {order.code: order for order in ledger(drops.folder, "momentum")[0].orders}

    assert not filled[missing].notional_minor
    assert any(filled[code].notional_minor for code in bought[1:])

    assert_sound(drops.folder)


def test_bar_that_is_revised_after_the_decision_changes_later_days_alone(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, third, *_ = DAYS
    for day in (first, second):
        day_over(drops, day)

    shown = drops.folder.record(DecisionKey("momentum", "us", second))
    before = ledger(drops.folder, "momentum")[0]
    code = next(order.code for order in before.orders if order.notional_minor)

    def revised(rows: list[Row]) -> list[Row]:
        return [_scaled(row, 1.25) if row["code"] == code else row for row in rows]

    drops.drop(second, edit=revised)
    frozen = day_over(drops, third).frozen

    assert frozen == [f"us {second}: 1 bar revised (revision 1)", f"us {third}: 6 bars"]

    after = ledger(drops.folder, "momentum")[0]
    assert drops.folder.record(DecisionKey("momentum", "us", second)) == shown
    assert [order.code for order in after.orders] == [order.code for order in before.orders]
    assert after.nav_minor != before.nav_minor  # settled at the price as it is known now

    assert_sound(drops.folder)


def _scaled(row: Row, by: float) -> Row:
    scaled = {name: round(row[name] * by, 2) for name in ("open", "high", "low", "close")}
    return {**row, **scaled}


def test_clock_that_was_set_back_stops_the_step_before_anything_is_done(tmp_path: Path) -> None:
    drops = begin_drops(tmp_path, **WEEK)
    first, second, *_ = DAYS
    day_over(drops, first)
    before = drops.folder.chain().entries

    drops.drop(second)
    drops.after_close(first, minutes=10)

    with pytest.raises(StoreError, match="set the clock right"):
        drops.step_here()

    assert drops.folder.chain().entries == before

    drops.after_close(second)
    assert drops.step_here().decided

    assert_sound(drops.folder)
