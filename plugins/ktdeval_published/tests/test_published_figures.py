"""Figures against planted truths and independent computations; sentences made from them."""

from __future__ import annotations

import math
from datetime import date

import numpy as np
import pytest
from msgspec.structs import replace

from ktdeval_published.cells_board import clustered_mean
from ktdeval_published.closed_board import own_profit
from ktdeval_published.cost_ladder import ladder_of_gains
from ktdeval_published.cutoffs import cutoff_days
from ktdeval_published.estimates import mean_of, power_of, sharpe_of
from ktdeval_published.later_documents import has_later_document, published_day
from ktdeval_published.recipe import find_recipe
from ktdeval_published.report import (
    Beats,
    BoardReport,
    BoardTotals,
    CellEffect,
    EntrantReport,
    IntervalEstimate,
    Live,
)
from ktdeval_published.texts import csv_text, latex_text
from ktdeval_published.verdict import sentence_of


def test_too_few_days_are_not_annualised() -> None:
    found = sharpe_of(np.array([0.01, -0.01, 0.02, 0.0, 0.01, -0.02, 0.01]), 252)
    assert (found.value, found.low) == (None, None)
    assert found.reason == "7 returns are too few to annualise: 20 are needed"


def test_days_without_variance_have_no_ratio_rather_than_zero() -> None:
    assert sharpe_of(np.zeros(30), 252).value is None


def test_the_days_that_a_ratio_needs_follow_from_two_quantiles() -> None:
    power = power_of(50, 252)
    # (1.959964 + 0.841621)^2 = 7.84888; times 252 / S^2, plus half of it per 252
    assert power.days_for_one == math.ceil(7.84888 * 252 * (1 + 1 / 504))
    assert power.days_for_two == math.ceil(7.84888 * 63 * (1 + 4 / 504))
    assert power.detectable == pytest.approx(2.801585 * math.sqrt(252 / 50), abs=1e-5)


def test_the_cost_that_ends_a_gain_is_its_share_of_what_was_traded() -> None:
    ladder = ladder_of_gains("each fill", 100.0, np.array([150000.0, 50000.0]))
    assert ladder.breakeven_bps == pytest.approx(5.0)
    assert [step.gain for step in ladder.steps] == pytest.approx([100, 80, 0, -100])
    assert ladder_of_gains("each fill", -1.0, np.array([1.0])).reason == "no gain before costs"


def test_a_mean_over_clusters_is_wider_where_neighbours_move_together() -> None:
    years = np.repeat(np.arange(2004, 2014), 10)
    waves = np.repeat([1.0] * 5 + [-1.0] * 5, 10)
    together = clustered_mean(waves, years)
    alone = clustered_mean(waves, years * 2)  # the same, with no two years in succession
    assert together.value == pytest.approx(0.0)
    assert together.high > alone.high
    # ten clusters of means 1 or -1: sqrt(10/9 * 10 * 100) / 100 is the error without neighbours
    assert alone.high == pytest.approx(2.262157 * math.sqrt(10 / 9 * 10 * 100) / 100, abs=1e-4)


def test_three_pairs_are_the_least_for_an_interval() -> None:
    assert mean_of([0.1, 0.2]).low is None
    found = mean_of([0.1, 0.2, 0.3])
    assert found.low == pytest.approx(0.2 - 4.302653 * 0.1 / math.sqrt(3), abs=1e-6)


def test_a_short_trade_gains_when_the_price_falls() -> None:
    row = {"side": "short", "quantity": -2, "entry_price": 10.0, "exit_price": 7.0}
    assert own_profit(row) == 6.0
    assert own_profit({**row, "side": "long", "quantity": 2}) == -6.0


def test_days_after_a_lower_bound_are_likely_and_not_certain() -> None:
    days = np.arange("2025-10-01", "2025-10-11", dtype="datetime64[D]")
    certain = cutoff_days("gpt-5", days)
    assert (certain.clean, certain.likely, certain.no) == (10, 0, 0)
    unknown = cutoff_days("no-such-model", days)
    assert (unknown.clean, unknown.unknown) == (0, 10)


@pytest.mark.parametrize(
    ("stated", "day"),
    [
        ("2025-10-01T22:03:49+0000", date(2025, 10, 1)),
        ("Thu, 23 Oct 2025 15:53:23 GMT", None),  # of HTTP: when a server answered
        ("Mon, 10/13/2025 — 12:15", date(2025, 10, 13)),
        ("1762254911", None),  # when a copy was written
        ("unknown", None),
    ],
)
def test_a_time_of_publication_is_read_in_the_forms_of_pages(stated: str, day: date | None) -> None:
    assert published_day(stated) == day


def test_a_page_that_was_not_served_is_no_later_document() -> None:
    def log(content: str) -> bytes:
        text = f"Publish Time: 2025-11-09T15:50:22.000Z\\nContent: {content}"
        return f'{{"new_messages": {{"content": "{text}"}}}}'.encode()

    assert has_later_document(log("Amazon projects doubling capacity"), date(2025, 10, 31))
    assert not has_later_document(log("Something went wrong, but"), date(2025, 10, 31))
    assert not has_later_document(log("Amazon projects doubling"), date(2025, 11, 9))


# ---- sentences


def report(beat: int, before: int, after: int = 0, **fields) -> BoardReport:
    recipe = find_recipe("ai-trader-us")
    entrant = EntrantReport(name="one", live=Live(before=before, after=after, unknown=0))
    return BoardReport(
        published=1, name="x", title="X & co", repository="a/b", commit="0", commit_state="checked",
        commit_note="", licence="MIT", period="2025", currency="USD", claim="", claim_figure="",
        claim_where="", sentence="", findings=(), entrants=(entrant,),
        totals=BoardTotals(entrants=1, unreadable=0),
        beats=(Beats(what="index", name="QQQ", entrants=3, beat=beat, ahead=3),),
        limits=recipe.notes, **fields,
    )  # fmt: skip


def test_an_interval_that_holds_zero_is_no_evidence() -> None:
    sentence = sentence_of(report(beat=0, before=100))
    assert sentence.startswith("No entrant is shown to beat QQQ")


def test_ahead_on_days_that_were_not_live_is_no_evidence_of_skill() -> None:
    sentence = sentence_of(report(beat=2, before=0, after=100))
    assert "so this is no evidence of skill" in sentence
    assert "so this is no evidence of skill" in sentence_of(report(beat=2, before=10, after=100))


def test_ahead_on_live_days_is_said_plainly() -> None:
    sentence = sentence_of(report(beat=2, before=100))
    assert sentence == (
        "2 of 3 entrants are ahead of QQQ after Holm's correction; 100 of 100 entrant-days are"
        " shown to be published before their prices."
    )


def test_a_strategy_is_behind_only_if_its_interval_is_below_zero() -> None:
    cell = CellEffect(
        name="A", cells=9, windows=3, clusters=3, median=-0.1, beats=0.2, equal=0.0,
        mean_without_top=-0.2, stated_gap=0.0, stated_off=0,
        mean=IntervalEstimate(value=-0.1, low=-0.3, high=0.1),
    )  # fmt: skip
    open_ = sentence_of(report(0, 0, cells=(cell,)))
    assert open_.startswith("No strategy is shown to beat holding")
    behind = replace(cell, mean=IntervalEstimate(value=-0.2, low=-0.3, high=-0.1))
    assert sentence_of(report(0, 0, cells=(behind,))).startswith(
        "On average A falls short of holding"
    )


def test_a_name_that_is_a_formula_or_markup_is_plain_text_in_every_form() -> None:
    one = report(0, 0)
    hostile = replace(one, entrants=(EntrantReport(name="=cmd()|x_1"),))
    assert "'=cmd()|x_1" in csv_text([hostile])
    assert "=cmd()|x\\_1" in latex_text([hostile])
    assert "X \\& co" in latex_text([hostile])
