"""The nine boards, from the archives beside the checkout; each trap of their README is met here."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval_published.boards import BoardRunOptions, run_board
from ktdeval_published.clone import open_clone
from ktdeval_published.fills import OPEN_OF_BAR, OPEN_OF_DAY
from ktdeval_published.recipe import find_recipe
from ktdeval_published.report import BoardReport, DataFinding, EntrantReport

pytestmark = [pytest.mark.shared_data, pytest.mark.slow]


@pytest.fixture(scope="module")
def report(boards_folder: Path, shared_data: Path):
    """Run a board once, without the search of its logs."""
    done: dict[str, BoardReport] = {}

    def run(name: str) -> BoardReport:
        if name not in done:
            recipe = find_recipe(name)
            archives = shared_data / "published"
            folder = boards_folder / recipe.archive if recipe.archive else archives
            commits = archives / f"{recipe.archive}-commits.csv.gz"
            options = BoardRunOptions(
                shared_data, commits if commits.is_file() else None, audited=False
            )
            done[name] = run_board(recipe, open_clone(folder, recipe.source.commit), options)
        return done[name]

    return run


def finding(board: BoardReport, kind: str) -> DataFinding:
    return next(one for one in board.data if one.kind == kind)


def entrant(board: BoardReport, name: str) -> EntrantReport:
    return next(one for one in board.entrants if one.name == name)


# ---- AgentStockBenchmark


def test_the_ladder_is_that_of_the_board_to_a_few_dollars(report) -> None:
    """Prices and names were revised after the accounting, by at most 7 USD in 50 days."""
    board = report("agent-stock-benchmark")
    assert len(board.entrants) == 16
    assert all(abs(one.residual) < 7 for one in board.entrants)
    assert {one.declared.days for one in board.entrants} == {50}


def test_stated_sharpe_ratios_follow_from_the_stated_days(report) -> None:
    best = entrant(report("agent-stock-benchmark"), "OpenAI__GPT5_5")
    assert round(best.declared.sharpe.value, 3) == 3.897
    assert round(best.declared.gain, 2) == 2924.12


def test_a_day_counts_as_live_before_the_close_of_its_entry_day(report) -> None:
    board = report("agent-stock-benchmark")
    assert board.totals.before == 229
    assert board.totals.after == 603
    assert board.totals.unknown == 0


def test_closes_of_zero_are_missing_and_not_prices(report) -> None:
    zeros = finding(report("agent-stock-benchmark"), "closes of zero")
    assert zeros.count == 959
    assert "would move a Sharpe ratio" in zeros.effect


def test_a_split_is_shown_with_and_without_its_repair(report) -> None:
    board = report("agent-stock-benchmark")
    assert "KLAC -88.7% on 2026-06-11" in finding(board, "moves of 40 % or more").detail
    for one in board.entrants:
        repaired, raw = one.executed.gain, one.unrepaired.gain
        assert one.causes[0].amount == pytest.approx(repaired - raw, abs=1e-9)


def test_files_without_entry_and_exit_take_the_next_days(report) -> None:
    board = report("agent-stock-benchmark")
    assert finding(board, "files without entry or exit").count > 0
    assert {one.counts["ranked days"] for one in board.entrants} == {52}
    assert {one.counts["days with a gain"] for one in board.entrants} == {50}


def test_an_entrant_that_joined_late_has_its_own_live_days(report) -> None:
    board = report("agent-stock-benchmark")
    late = entrant(board, "Anthropic__Opus4_8").live
    assert late.before == 5
    assert late.sharpe_before.low is None  # four gains: no interval
    assert late.sharpe_before.reason


def test_live_ratios_have_intervals_that_hold_zero(report) -> None:
    for one in report("agent-stock-benchmark").entrants:
        if one.live.sharpe_before.low is not None:
            assert one.live.sharpe_before.low < 0 < one.live.sharpe_before.high


def test_costs_name_how_the_ladder_is_traded(report) -> None:
    board = report("agent-stock-benchmark")
    names = [ladder.name for ladder in board.entrants[0].costs]
    assert names[:2] == ["ladder changed each day", "ladder closed and opened each day"]
    unrepaired = [one.costs[2].steps for one in board.entrants]
    assert sum(steps[0].gain > 0 for steps in unrepaired) == 12
    assert sum(steps[2].gain > 0 for steps in unrepaired) == 6  # half are gone at 5 bp


def test_the_sentence_claims_no_skill(report) -> None:
    assert report("agent-stock-benchmark").sentence.startswith(
        "No entrant is shown to beat cash in 50 days"
    )


# ---- AI-Trader


def test_october_was_filled_at_the_open_of_the_day_whatever_the_hour(report) -> None:
    board = report("ai-trader-us")
    gpt = entrant(board, "gpt-5")
    assert gpt.fills.counts == {OPEN_OF_DAY: 45}
    october = finding(board, "one price a day")
    assert october.detail.startswith("2025-10: of 28 pairs")
    assert "28 have a single price" in october.detail


def test_a_clock_that_is_missing_leaves_days_unknown(report) -> None:
    board = report("ai-trader-us")
    assert board.totals.before is None
    assert board.totals.unknown == 168


def test_rows_of_amount_zero_are_no_trades(report) -> None:
    assert finding(report("ai-trader-us"), "rows of amount 0").count == 6


def test_own_rows_yield_each_declared_account_to_the_cent(report) -> None:
    for name in ("ai-trader-us", "ai-trader-ashare-daily", "ai-trader-ashare-hourly"):
        for one in report(name).entrants:
            assert abs(one.residual) < 0.005


def test_a_share_logs_were_written_after_the_days_they_trade(report) -> None:
    board = report("ai-trader-ashare-daily")
    assert board.totals.before == 0
    assert board.totals.after == 203
    assert board.totals.unknown == 7  # the last day, on which a zone decides


def test_daily_rows_are_filled_at_the_open_of_their_day(report) -> None:
    for one in report("ai-trader-ashare-daily").entrants:
        assert one.fills.counts == {OPEN_OF_DAY: one.fills.orders}
        assert one.fills.stale_worth == pytest.approx(0, abs=1e-6)


def test_hourly_rows_are_filled_an_hour_before_their_stamp(report) -> None:
    board = report("ai-trader-ashare-hourly")
    for one in board.entrants:
        opens = sum(count for name, count in one.fills.counts.items() if "open" in name)
        assert opens == one.fills.orders
        assert one.fills.counts[OPEN_OF_BAR] > 0
    assert any(abs(one.fills.stale_worth) > 1000 for one in board.entrants)


def test_shares_are_sold_on_the_day_they_were_bought(report) -> None:
    board = report("ai-trader-ashare-hourly")
    assert all(one.fills.breaches["T+1"] > 0 for one in board.entrants)


def test_hourly_prices_are_adjusted_and_daily_ones_are_not(report) -> None:
    found = finding(report("ai-trader-ashare-hourly"), "adjusted beside raw prices")
    assert found.count == 12


def test_days_that_were_run_again_are_no_account(report) -> None:
    board = report("ai-trader-coins")
    assert finding(board, "forked rows").count == 28
    assert all(abs(one.residual) < 3 for one in board.entrants)


# ---- the others


def test_the_arms_of_an_attack_are_paired(report) -> None:
    board = report("tradetrap")
    assert [(one.arm, one.pairs) for one in board.arms] == [
        ("news", 5),
        ("reversed", 5),
        ("fake-news", 2),
    ]
    assert len(board.entrants) == 17
    assert not any(one.problem for one in board.entrants)
    assert any("copies of AI-Trader" in text for text in board.limits)


def test_accounts_of_windows_are_paired_with_holding(report) -> None:
    board = report("finsaber")
    for one in board.cells:
        assert one.cells == 353
        assert one.mean.high < 0
        assert one.equal > 0  # runs that never traded
        assert one.stated_off > 0
    assert finding(board, "windows that overlap").count > 0


def test_stated_profits_are_compared_with_prices_and_fees(report) -> None:
    board = report("alpha-arena")
    assert sum(one.counts["trades"] for one in board.entrants) == 253
    assert finding(board, "cut lists").detail.startswith("gemini-2.5-pro: exactly 100 trades")
    assert finding(board, "empty files").detail.startswith("account-totals.json")
    assert all(one.executed is None for one in board.entrants)


def test_the_micro_cap_account_has_a_missing_day_and_steps_of_cash(report) -> None:
    board = report("chatgpt-micro-cap")
    assert finding(board, "missing days").detail.endswith("2025-11-04")
    steps = finding(board, "unexplained steps of cash")
    assert steps.count == 4
    assert "2025-07-08 +30.00; 2025-07-09 -29.81; 2025-07-22 +1.55" in steps.detail
    assert board.totals.clean is None
