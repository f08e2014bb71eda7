"""Results of forward tests: a gap by hand, days that count, comparisons, figures that are not known."""

from __future__ import annotations

import dataclasses
import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from msgspec import UNSET

from ktdeval.market import Instrument, MarketSnapshot, save_snapshot
from ktdeval.testing.markets import Rows, SnapshotDetails, tiny_snapshot
from ktdeval_live import commands
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.consistency_runs import RepeatAgreement
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import LiveStep
from ktdeval_live.page.series import sharpe_ends
from ktdeval_live.record.entrant_episode import EntrantMarket
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.card_kind import can_be_ranked
from ktdeval_live.results.card_labels import has_wide_bounds, labels_of, wide_words
from ktdeval_live.results.card_types import Excess, LiveCard, LiveFigure, LiveInterval
from ktdeval_live.results.daily_results import EntryResult, buy_and_hold, entry_result
from ktdeval_live.results.settled_cards import (
    difference,
    excess_over,
    results_part,
    settle_test,
    shown_in_a_year,
)
from ktdeval_live.results.shown_excess import shown_excess
from ktdeval_live.status import (
    agreement_row,
    excess_row,
    market_rows,
    pair_row,
    settled_row,
    short_records,
    status_rows,
)
from support.live.live_drops import plugins
from support.live.live_plans import plan_of
from support.paths import REPOSITORY

# May 30 and 31, then the four days of the test, 3 to 6 June 2024
CLOSES = {"AA": [10.0, 10.0, 10.0, 11.0, 12.0, 12.0], "BB": [20.0, 20.0, 20.0, 19.0, 18.0, 19.0]}
OPENS = {"AA": [10.0, 10.0, 10.0, 10.0, 12.1, 12.0], "BB": [20.0, 20.0, 20.0, 20.0, 17.1, 18.0]}
INDEX = [1000.0, 1000.0, 1010.0, 1020.0, 1010.0, 1030.0]
CLOSE_TIMES = tuple(
    f"2024-{day}T20:15:00Z" for day in ("05-31", "06-03", "06-04", "06-05", "06-06")
)


def market(details: SnapshotDetails | None = None, closes: Rows = CLOSES) -> MarketSnapshot:
    """Return six days of two US stocks."""
    details = details or SnapshotDetails(opens=OPENS, benchmark=INDEX)
    bare = tiny_snapshot(closes, details, first_day="2024-05-30")
    return dataclasses.replace(bare, instruments=(Instrument("stock", "USD", "us_equity"),) * 2)


def stepped(
    folder: Path,
    skipped: tuple[str, ...] = (),
    details: SnapshotDetails | None = None,
    closes: Rows = CLOSES,
    **changes: Any,
) -> LiveFolder:
    """Run a test on the market, with a step after each close that is not skipped."""
    save_snapshot(market(details, closes), folder / "market")
    planned = {"data": str(folder / "market"), "task": "market_bright", "source": "stored"}
    fields = {
        "last": "2024-06-06",
        "markets": {"us": planned},
        "entrants": [{"name": "parts", "model": "builtin/buy_and_hold"}],
        **changes,
    }
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    test = begin(plan_of(**fields), folder / "test", plugins(), clock)

    for time in CLOSE_TIMES:
        if time not in skipped:
            clock.time = of_text(time)
            now = LiveFolder(test.path)
            with now.lock():
                LiveStep(now, plugins(), clock, InlineAsker(now, plugins(), clock)).run()

    return LiveFolder(test.path)


def result_of(test: LiveFolder, entrant: str = "parts") -> EntryResult:
    """Return the results of an entrant as known now."""
    entry = EntrantMarket(test.plan, test.plan.entrant(entrant), "us")
    return entry_result(test, test.chain(), entry, plugins(), test.market("us"))


@pytest.fixture(scope="module")
def gapped(tmp_path_factory: pytest.TempPathFactory) -> LiveFolder:
    """Return a test without a step between the close of 3 June and the cutoff of 4 June."""
    return stepped(tmp_path_factory.mktemp("results"), skipped=(CLOSE_TIMES[1],))


@pytest.fixture(scope="module")
def gapless(tmp_path_factory: pytest.TempPathFactory) -> LiveFolder:
    """Return a test with a step after each close."""
    return stepped(tmp_path_factory.mktemp("results"))


@pytest.mark.exhaustive
def test_gap_by_hand(gapped: LiveFolder) -> None:
    found = result_of(gapped)
    assert found.days == ("2024-06-03", "2024-06-04", "2024-06-05", "2024-06-06")
    assert found.decided.tolist() == [True, False, True, True]
    assert found.counted.all()

    # A quarter in each: 2,500 shares at 10 for 12.50 and 1,250 shares at 20 for 6.25. They stay.
    nav = [99981.25, 101231.25, 102481.25, 103731.25]
    np.testing.assert_allclose(found.nav, nav, rtol=1e-12)
    held = [-0.0001875, 101231.25 / 99981.25 - 1, 102481.25 / 101231.25 - 1, 1250 / 102481.25]
    np.testing.assert_allclose(found.held, held, atol=1e-12)
    np.testing.assert_allclose(found.flat, [held[0], 0.0, held[2], held[3]], atol=1e-12)

    # 4 June: the account until the open, at which nothing moved and it holds a part of each that is
    # a little more than a quarter. Then A + 10 % and B - 5 %; shorts are a quarter at most.
    part = 25000 / 99981.25
    low_day = -(0.25 * 0.10 + part * 0.05)
    high_day = part * 0.10 + 0.25 * 0.05
    # 5 June: A + 10 % and B - 10 % until the open, then the account. By the close before, what is
    # held has drifted, at most so far as if all else had lost as much as it could.
    low_night = -0.10 * (part * 0.95 + 0.25 * 1.10) / (1 + low_day)
    long = part * 1.10 / (1 + part * 0.10 - part * 0.05)
    short = 0.25 * 0.95 / (1 + 0.25 * 0.05 - 0.25 * 0.10)
    high_night = 0.10 * (long + short)
    after_open = 102481.25 / (2500 * 12.1 + 1250 * 17.1 + 49981.25)
    low = [held[0], low_day, (1 + low_night) * after_open - 1, held[3]]
    high = [held[0], high_day, (1 + high_night) * after_open - 1, held[3]]
    np.testing.assert_allclose(found.low, low, atol=1e-12)
    np.testing.assert_allclose(found.high, high, atol=1e-12)

    results = results_part(gapped.plan, found)

    assert results.held.value == pytest.approx(0.0373125)
    assert results.flat.value == pytest.approx(0.9998125 * 103731.25 / 101231.25 - 1)

    whole_low = 0.9998125 * (1 + low_day) * (1 + low_night) * after_open * (1 + held[3]) - 1
    assert results.low.value == pytest.approx(whole_low)
    assert results.index.value == pytest.approx(0.03)
    assert results.buy_and_hold.value == pytest.approx(0.075)  # A + 20 % and B - 5 %, half each
    assert results.over_index.symmetric.n == 3  # not the day of the gap

    mean = np.mean([held[0] - 0.01, held[2] - (1010 / 1020 - 1), held[3] - (1030 / 1010 - 1)])
    assert results.over_index.symmetric.mean == pytest.approx(100 * 252 * mean)


@pytest.mark.slow
def test_bounds_that_say_nothing_are_named_on_the_card_and_by_verify(tmp_path: Path) -> None:
    # A goes to three times its price on the day of the gap: a quarter of it, long or short, is 100
    # points between the bounds.
    opens = {"AA": [10.0, 10.0, 10.0, 10.0, 30.0, 30.0], "BB": [20.0] * 6}
    closes = {"AA": [10.0, 10.0, 10.0, 30.0, 30.0, 30.0], "BB": [20.0] * 6}
    details = SnapshotDetails(opens=opens, benchmark=INDEX)
    test = stepped(tmp_path, skipped=(CLOSE_TIMES[1],), details=details, closes=closes)
    (card,) = settle_test(test, plugins(), of_text("2024-06-07T00:00:00Z")).cards

    assert {"gaps", "wide bounds"} <= set(card.labels)

    result = verify_test(test, plugins())
    assert result.findings == ()

    (line,) = result.wide
    assert line.startswith("parts/us: bounds of its gaps from -50.0 % to +50.0 %")


@pytest.mark.exhaustive
def test_without_gaps_all_answers_are_the_same(gapless: LiveFolder) -> None:
    found = result_of(gapless)
    for other in (found.flat, found.low, found.high):
        np.testing.assert_array_equal(other, found.held)


@pytest.mark.exhaustive
def test_shadow_days_are_recorded_and_not_counted(tmp_path: Path) -> None:
    test = stepped(tmp_path, skipped=(CLOSE_TIMES[1],), shadow_days=2)
    found = result_of(test)

    assert found.counted.tolist() == [False, False, True, True]
    assert results_part(test.plan, found).held.value == pytest.approx(103731.25 / 101231.25 - 1)

    days = settle_test(test, plugins(), of_text("2024-06-07T00:00:00Z")).cards[0].days
    assert (days.settled, days.shadow, days.counted, days.decided) == (4, 2, 2, 2)
    assert days.gaps == {}  # the only one was on a shadow day


@pytest.mark.exhaustive
def test_position_without_a_bar_keeps_its_last_price(tmp_path: Path) -> None:
    closes = {**CLOSES, "AA": [10.0, 10.0, 10.0, 11.0, None, 12.0]}
    details = SnapshotDetails(opens={**OPENS, "AA": [10.0, 10.0, 10.0, 10.0, None, 12.0]})
    found = result_of(stepped(tmp_path, closes=closes, details=details))

    assert found.nav[2] == pytest.approx(2500 * 11 + 1250 * 18 + 49981.25)
    assert found.buy_and_hold[2] == pytest.approx((1.1 + 0.9) / (1.1 + 0.95) - 1)
    assert found.nav[3] == pytest.approx(2500 * 12 + 1250 * 19 + 49981.25)


@pytest.mark.exhaustive
def test_missing_level_of_the_index_is_null_with_its_reason_and_never_0(tmp_path: Path) -> None:
    details = SnapshotDetails(opens=OPENS, benchmark=[*INDEX[:3], np.nan, *INDEX[4:]])
    test = stepped(tmp_path, details=details)
    part = results_part(test.plan, result_of(test))

    assert (part.index.value, part.index.reason) == (None, "a day has no price")
    assert part.over_index.symmetric.n == 2  # neither the day without it nor the day after
    assert part.held.value is not None


def test_index_that_never_came_has_no_interval(gapped: LiveFolder) -> None:
    found = result_of(gapped)
    unknown = excess_over(gapped.plan, found, np.full(4, np.nan), "")

    assert unknown.symmetric.n is None
    assert unknown.symmetric.reason == "no counted day on which both are known"

    absent = excess_over(gapped.plan, found, None, "the market has no index")
    assert (absent.asymptotic.n, absent.asymptotic.reason) == (None, "the market has no index")


def test_equal_parts_leave_out_what_had_no_price_on_the_first_day() -> None:
    closes = {"AA": [10.0, 11.0, 12.1], "BB": [None, 5.0, 50.0]}
    np.testing.assert_allclose(buy_and_hold(market(SnapshotDetails(), closes), 0, 2), [0.1, 0.1])


# ---- who is compared with whom


@pytest.mark.exhaustive
def test_entrant_without_orders_and_positions_has_no_rank(tmp_path: Path) -> None:
    entrants = [
        {"name": "parts", "model": "builtin/buy_and_hold"},
        {"name": "idle", "model": "builtin/hold"},
    ]
    test = stepped(tmp_path, entrants=entrants, least_activity=1.0)
    cards = {
        card.entrant: card
        for card in settle_test(test, plugins(), of_text("2024-06-07T00:00:00Z")).cards
    }

    assert cards["idle"].results.activity.value == 0.0
    assert "inactive" in cards["idle"].labels
    assert not can_be_ranked(cards["idle"])
    assert cards["parts"].results.activity.value == 1.0  # not below the least that is asked for
    assert "inactive" not in cards["parts"].labels


def days_of(
    one: EntryResult, decided: list[bool], held: list[float], counted: list[bool]
) -> EntryResult:
    """Return results of the same days with other decisions."""
    return dataclasses.replace(
        one, decided=np.array(decided), held=np.array(held), counted=np.array(counted)
    )


def test_difference_counts_days_alone_on_which_both_decided(gapped: LiveFolder) -> None:
    base = result_of(gapped)
    one = days_of(base, [True, True, False, True], [0.01, 0.02, 0.9, 0.03], [True] * 4)
    other = days_of(base, [False, True, True, True], [0.9, 0.01, 0.9, 0.00], [True] * 4)
    found = difference(gapped.plan, one, other)

    assert found.symmetric.n == 2
    assert found.symmetric.mean == pytest.approx(100 * 252 * (0.01 + 0.03) / 2)

    turned = difference(gapped.plan, other, one)
    assert turned.symmetric.mean == pytest.approx(-100 * 252 * (0.01 + 0.03) / 2)


def test_difference_to_a_joiner_leaves_out_the_days_before_it(gapped: LiveFolder) -> None:
    base = result_of(gapped)
    one = days_of(base, [True] * 4, [0.9, 0.9, 0.02, 0.03], [True] * 4)
    joiner = days_of(
        base, [False, False, True, True], [0.0, 0.0, 0.01, 0.01], [False, False, True, True]
    )
    found = difference(gapped.plan, one, joiner)

    assert found.symmetric.n == 2
    assert found.symmetric.mean == pytest.approx(100 * 252 * 0.015)


def test_entrants_without_a_shared_day_have_no_difference(gapped: LiveFolder) -> None:
    base = result_of(gapped)
    one = days_of(base, [True, True, False, False], [0.0] * 4, [True] * 4)
    other = days_of(base, [False, False, True, True], [0.0] * 4, [True] * 4)
    found = difference(gapped.plan, one, other)

    assert (found.symmetric.n, found.symmetric.mean) == (None, None)
    assert found.symmetric.reason == "no counted day on which both are known"
    assert found.skewness.value is None


@pytest.mark.parametrize(("days_a_year", "width"), [(252, "±28 % a year wide"), (365, "±27 %)")])
def test_docs_give_the_width_after_a_year_that_init_prints(days_a_year: int, width: str) -> None:
    found = shown_in_a_year(plan_of(tracking_error_pct=10.0), days_a_year)
    assert width.startswith(f"±{found:.0f} %")
    assert width in (REPOSITORY / "docs" / "live.md").read_text("utf-8")


# ---- what `live status`, `settle` and `repeat` print

AFTER = of_text("2024-06-07T00:00:00Z")


@pytest.fixture(scope="module")
def card(gapped: LiveFolder) -> LiveCard:
    (made,) = settle_test(gapped, plugins(), AFTER).cards
    return made


def interval_of(excess: LiveInterval) -> Excess:
    unknown = LiveFigure(value=None, reason="few days")
    return Excess(excess, excess, unknown, unknown)


@pytest.mark.parametrize(
    ("now", "close", "cutoff"),
    [
        ("2024-06-04T21:00:00Z", "2024-06-05T20:00:00Z", "2024-06-05T13:20:00Z"),
        # what has come by the second is past, not next
        ("2024-06-05T13:20:00Z", "2024-06-05T20:00:00Z", "2024-06-06T13:20:00Z"),
        ("2024-06-05T20:00:00Z", "2024-06-06T20:00:00Z", "2024-06-06T13:20:00Z"),
        ("2024-06-06T13:20:00Z", "2024-06-06T20:00:00Z", "-"),
        ("2024-06-06T20:00:00Z", "-", "-"),
    ],
)
def test_status_of_a_market_is_its_sessions_and_what_comes_next(
    gapped: LiveFolder, now: str, close: str, cutoff: str
) -> None:
    (row,) = market_rows(gapped, of_text(now))

    assert row == ("us", "5", "5", close, cutoff)


def test_status_of_an_entry_counts_its_days_and_names_the_latest_gap(gapped: LiveFolder) -> None:
    (row,) = status_rows(gapped)

    assert row == ("parts", "us", "3", "1", "2024-06-03: missed")


def test_status_of_an_entry_without_gaps_names_none(gapless: LiveFolder) -> None:
    assert status_rows(gapless) == [("parts", "us", "4", "0", "-")]


def test_settled_row_has_the_returns_of_the_gap_by_hand_in_per_cent(card: LiveCard) -> None:
    """As worked out in `test_gap_by_hand`: 0.0373125; 0.9998125 × 103731.25 / 101231.25 − 1; and
    the bounds of the day of the gap.
    """
    assert settled_row(card) == ("parts", "us", "4", "1", "+3.73", "+2.45", "-6.99 … +11.32")


def test_settled_row_of_an_entry_without_days_has_no_figures(card: LiveCard) -> None:
    unknown = LiveFigure(value=None, reason="no counted day")
    results = msgspec.structs.replace(
        card.results, held=unknown, flat=unknown, low=unknown, high=unknown
    )

    row = settled_row(msgspec.structs.replace(card, results=results))

    assert row[4:] == ("-", "-", "- … -")


@pytest.mark.parametrize(
    ("interval", "days", "text"),
    [
        # a year's mean, in per cent, times the days over 252
        (LiveInterval(n=3, mean=8.4, low=-25.2, high=42.0), "3", "+0.10 (-0.30 … +0.50)"),
        (LiveInterval(n=3, mean=-8.4, low=None, high=42.0), "3", "-0.10 (- … +0.50)"),
        (LiveInterval(n=3, mean=8.4, low=-25.2, high=None), "3", "+0.10 (-0.30 … -)"),
        (LiveInterval(n=1, mean=0.0), "1", "+0.00 (- … -)"),
        (LiveInterval(n=None, reason="no counted day"), "0", "-"),
    ],
)
def test_excess_row_of_a_short_test_is_over_its_days(
    gapped: LiveFolder, card: LiveCard, interval: LiveInterval, days: str, text: str
) -> None:
    excess = interval_of(interval)
    results = msgspec.structs.replace(card.results, over_index=excess)
    result = result_of(gapped)

    of_index = excess_row(msgspec.structs.replace(card, results=results))
    of_pair = pair_row(result, result, excess)

    per = {"3": "3 days", "1": "1 day", "0": "-"}[days]
    assert of_index == ("parts", "us", days, text, per)
    assert of_pair == ("parts", "parts", "us", days, text, per)
    reasons = short_records([msgspec.structs.replace(card, results=results)])
    assert reasons == ["4 of a year's 252 days: a return over less than a year is not annualised"]


def test_excess_of_a_test_of_a_year_is_a_years() -> None:
    interval = LiveInterval(n=230, mean=17.64, low=-10.0, high=45.3)
    year = shown_excess(interval, 242, 252)
    assert (year.mean_text, year.ends_text, year.per) == ("+17.6", "-10.0 … +45.3", "year")

    # the same pace after ten days: 17.64 % x 10 / 252
    short = shown_excess(msgspec.structs.replace(interval, n=10), 10, 252)
    assert (short.mean_text, short.per) == ("+0.70", "10 days")
    assert short.no_year.startswith("10 of a year's 252 days")


@pytest.mark.parametrize(
    ("counts", "shown"),
    [
        ((4, 12, 1, 9, 3), ("4", "12", "1", "75", "25")),
        ((1, 0, 3, 0, 0), ("1", "0", "3", "-", "-")),
    ],
)
def test_row_of_repeats_has_the_shares_of_those_that_agree(
    gapped: LiveFolder, counts: tuple[int, ...], shown: tuple[str, ...]
) -> None:
    entry = EntrantMarket(gapped.plan, gapped.plan.entrant("parts"), "us")

    row = agreement_row(RepeatAgreement(entry, *counts))

    assert row == ("parts", "us", *shown)


# ---- labels


def bounded(card: LiveCard, low: float | None, high: float | None) -> LiveCard:
    """Return a card with other bounds; null where nothing bounds a return."""
    ends = []
    for value in (low, high):
        ends.append(LiveFigure(value=value, reason="no bound" if value is None else UNSET))

    results = msgspec.structs.replace(card.results, low=ends[0], high=ends[1])

    return msgspec.structs.replace(card, results=results)


@pytest.mark.parametrize(
    ("low", "high", "is_wide", "words"),
    [
        (0.0, 0.5, False, "from +0.0 % to +50.0 %"),
        (-0.40, 0.80, True, "from -40.0 % to +80.0 %"),
        (-0.10, None, True, "from -10.0 % to no end"),
        (None, 0.20, True, "from no end to +20.0 %"),
    ],
)
def test_bounds_too_wide_to_mean_anything_are_named(
    card: LiveCard, low: float | None, high: float | None, is_wide: bool, words: str
) -> None:
    results = bounded(card, low, high).results

    assert has_wide_bounds(results) is is_wide
    assert f"bounds of its gaps {words}, more than" in wide_words(results)


def test_entry_without_a_counted_day_has_no_wide_bounds(card: LiveCard) -> None:
    unknown = LiveFigure(value=None, reason="no counted day")
    results = msgspec.structs.replace(card.results, held=unknown, low=unknown, high=unknown)

    assert not has_wide_bounds(results)


@pytest.mark.parametrize(
    ("counted", "is_few"),
    [(0, True), (19, True), (20, False)],
)
def test_fewer_than_20_counted_days_are_few(card: LiveCard, counted: int, is_few: bool) -> None:
    days = msgspec.structs.replace(card.days, counted=counted)

    labels = labels_of(msgspec.structs.replace(card, days=days))

    assert ("few days" in labels) is is_few


def test_labels_of_a_rehearsal_with_a_gap(card: LiveCard) -> None:
    assert labels_of(card) == card.labels
    assert set(card.labels) == {"rehearsal", "synthetic", "not stamped", "gaps", "few days"}


def test_a_sharpe_ratio_of_few_days_has_a_wide_interval(gapped: LiveFolder) -> None:
    counted = np.ones(20, dtype=np.bool_)
    # a mean of 0 and no skewness: the error of a day's ratio is 1 / sqrt(19)
    held = np.tile([0.01, -0.01], 10)
    result = dataclasses.replace(result_of(gapped), held=held, counted=counted)

    reach = 1.959964 * math.sqrt(result.days_a_year / 19)
    assert sharpe_ends(result, 0.0) == (round(-reach, 4), round(reach, 4))
    assert sharpe_ends(result, None) is None


@pytest.mark.parametrize("has_clock", [True, False])
def test_who_is_asked_by_a_step_has_the_clock_of_the_step(
    has_clock: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("2024-06-03T20:15:00Z")
    words = ["--clock", str(clock)] if has_clock else []
    asked: list[list[str]] = []
    test = SimpleNamespace(plan=SimpleNamespace(kind="rehearsal"), lock=nullcontext)
    report = SimpleNamespace(frozen=(), decided=(), gaps=(), problems=())
    monkeypatch.setattr(commands, "LiveFolder", lambda _: test)
    monkeypatch.setattr(commands, "ProcessAsker", lambda _, options: asked.append(options))
    monkeypatch.setattr(commands, "LiveStep", lambda *_: SimpleNamespace(run=lambda: report))

    done = CliRunner().invoke(commands.live, ["step", str(tmp_path), *words])

    assert done.exit_code == 0, done.output
    assert asked == [words]
