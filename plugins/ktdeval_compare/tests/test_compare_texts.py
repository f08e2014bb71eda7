"""Reports of the comparing commands as text: each figure in its column, and the notes below."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktdeval_compare.cohort_words import BASELINE
from ktdeval_compare.cohorts.cohort_comparison import (
    BaselineRow,
    CohortReport,
    HeldFigure,
    SeedFigure,
)
from ktdeval_compare.cohorts.cohort_texts import cohort_parts
from ktdeval_compare.cutoffs import compute as cutoff
from ktdeval_compare.cutoffs.texts import cutoff_parts
from ktdeval_compare.masks.declined_trades import DeclinedShare, Declines
from ktdeval_compare.plans import power
from ktdeval_compare.plans.power import PowerPlan, plan_report
from ktdeval_compare.plans.power_texts import power_parts
from ktdeval_compare.ranking.luck import LuckReport, LuckRow, RankCorrelation
from ktdeval_compare.ranking.luck_texts import luck_parts
from ktdeval_compare.style_exposures import (
    CohortDifference,
    CohortMean,
    CohortSummary,
    FactorMeans,
    FactorRow,
    SignAgreement,
)
from ktdeval_compare.table_columns import Part, lines_of
from support.figures.compare_cards import APART, CardTerminal, make_card


def texts(parts: Any) -> list[str]:
    """The lines of a report, with single spaces."""
    given: list[Part] = list(parts)
    return [" ".join(line.split()) for line in lines_of(given)]


# -- two cards

SIX = {(f"A{k}", 0): 0.01 * k for k in range(1, 7)}
NONE = dict.fromkeys(SIX, 0.0)


@pytest.mark.parametrize(
    ("words", "over"),
    [
        ((), "windows, each the median over its seeds"),
        (("--pairs", "episode"), "(window, seed) pairs"),
    ],
)
def test_a_comparison_is_a_row_of_its_figures(
    words: tuple[str, ...], over: str, terminal: CardTerminal
) -> None:
    """By hand: six differences of 1 to 6 %, all of one sign: p is 2 of 64; the median of their
    Walsh averages is 3.5 %, and the interval runs from the first to the last average.
    """
    paths = terminal.pair(SIX, NONE)

    lines = [
        " ".join(line.split()) for line in terminal.text("compare", *paths, *words).splitlines()
    ]

    assert lines[0] == f"Paired differences, first - second, over {over}"
    assert lines[1].startswith("metric first second n shift 95 % interval effect p flip p Holm p")

    p = " ".join(["0.0312"] * 4)
    assert lines[2] == (
        f"total_return house/one house/two 6 +3.500 % +1.000 … +6.000 +1.00 {p} house/one better"
    )

    at = lines.index("Daily returns (mean over seeds): difference of annualised Sharpe ratios")
    reason = "house/one: no ledgers next to the card"

    assert lines[at + 1] == f"house/one, house/two: not tested: {reason}"

    at = lines.index("Tied with the best by mean daily return (model confidence set, 95 %)")
    assert lines[at + 1] == f"not tested: {reason}"
    assert lines[lines.index("Notes") + 1] == "synthetic: every card"


@pytest.mark.slow
def test_tasks_are_named_where_there_are_several(terminal: CardTerminal) -> None:
    cards = terminal.cards(
        make_card(SIX, windows=APART),
        make_card(NONE, "house/two"),
        make_card(SIX, mode="memory_only"),
        make_card(NONE, "house/two", mode="memory_only"),
    )

    lines = terminal.text("compare", *cards).splitlines()

    assert lines[1].split()[0] == "task"
    assert [line.split()[0] for line in lines[2:4]] == [
        "blinded_open_research",
        "blinded_memory_only",
    ]

    words = "house/one, house/two: not tested: house/one: no ledgers next to the card"
    assert f"  blinded_memory_only: {words}" in lines


# -- luck


def luck_row(**changes: Any) -> LuckRow:
    """A card for which all figures are known."""
    fields: dict[str, Any] = {
        "card": "house/one",
        "total_return": 0.1,
        "selection": -0.02,
        "paper_selection": 0.03,
        "return_rank": 1.0,
        "selection_rank": 2.5,
        "psr": 0.9,
        "dsr": 0.25,
        "episodes": 3,
        "trials": (4, 4),
        "reason": None,
    }
    return LuckRow(**fields | changes)


def test_luck_is_a_row_a_card_and_the_agreement_of_both_rankings() -> None:
    bare = luck_row(
        card="house/two",
        total_return=None,
        return_rank=None,
        dsr=None,
        trials=(4, 9),
        reason="too few days",
    )
    report = LuckReport(
        cards=[luck_row(), bare],
        ranks=RankCorrelation(spearman=0.5, kendall=-0.001),
        exposures=[],
        notes=["synthetic: every card"],
    )

    lines = texts(luck_parts(report))

    assert lines[1] == (
        "card return % rank selection % rank as KTD-Fin % psr dsr trials a window note"
    )
    assert lines[2:] == [
        "house/one +10.00 1 -2.000 2.5 +3.000 0.9000 0.2500 4",
        "house/two - - -2.000 2.5 +3.000 0.9000 - 4 … 9 too few days",
        "rank by return against rank by selection: Spearman +0.50, Kendall +0.00",
        "synthetic: every card",
    ]


@pytest.mark.parametrize(("length", "is_numbered"), [(23, False), (24, True)])
def test_cards_with_long_names_are_numbered_above_their_exposures(
    length: int, is_numbered: bool
) -> None:
    """Two columns of 50 characters, each with the two preceding spaces, still fit."""
    one = "a" * length
    other = "b" * length
    row = FactorMeans("SIZE", {one: 0.5, other: None}, 0.5, 1, 1)
    report = LuckReport(
        cards=[luck_row()],
        ranks=RankCorrelation(reason="one card has no order"),
        exposures=[row],
        notes=[],
    )

    lines = texts(luck_parts(report))

    assert lines[3] == "rank by return against rank by selection: one card has no order"

    heads = "factor 1 2 mean same sign" if is_numbered else f"factor {one} {other} mean same sign"
    assert lines[-2:] == [heads, "SIZE +0.500 - +0.500 1 of 1"]
    assert (f"1: {one}" in lines) is is_numbered


# -- cohorts


def seed_figure(value: float, low: float | None = None, high: float | None = None) -> SeedFigure:
    """A figure over two seeds."""
    return SeedFigure(value=value, mean=value, low=low, high=high, n=2, reason=None)


def cohort_report(cohorts: int = 2, **changes: Any) -> CohortReport:
    """Cohorts with one model each, which differ in one factor."""
    names = ["ML", "LLM", "rules"][:cohorts]
    means = {}

    for name in names:
        means[name] = CohortMean(mean=0.5, members=2, same_sign=1, low=0.1, high=0.9)

    row = FactorRow(factor="SIZE", cohorts=means, models={}, agree=True, agreement_shown=False)
    difference = CohortDifference(
        factor="SIZE",
        unit="ratio",
        first="ML",
        second="LLM",
        value=0.25,
        low=-0.5,
        high=1.0,
        p=0.2,
        reason=None,
        p_holm=0.4,
        verdict="not shown",
    )
    fields: dict[str, Any] = {
        "alpha": 0.1,
        "task": "t",
        "cards": [],
        "cohorts": [CohortSummary(name, ["x"], 2, 1) for name in names],
        "exposures": [row],
        "agreement": SignAgreement(["SIZE"], [], 3),
        "differences": [difference],
        "baseline": [],
        "declines": [],
        "notes": ["synthetic: every card"],
    }

    return CohortReport(**fields | changes)


def test_several_cohorts_name_the_pair_in_each_row() -> None:
    three = texts(cohort_parts(cohort_report(3)))
    one = texts(cohort_parts(cohort_report(1)))

    at = three.index("factor first second difference 90 % interval p Holm p higher")

    assert three[at + 1] == "SIZE ML LLM +0.250 -0.500 … +1.000 0.2000 0.4000 not shown"
    assert not any(line.startswith("cohorts agree") for line in one)


def test_returns_stand_above_their_intervals_and_the_benchmark_has_none() -> None:
    figures: dict[str, Any] = {}
    held: dict[str, Any] = {}
    for column in BASELINE:
        figures[column.metric] = seed_figure(0.5)
        held[column.metric] = HeldFigure(value=None)

    figures["total_return"] = seed_figure(0.01, -0.02, 0.04)
    held["total_return"] = HeldFigure(value=0.03)
    rows = [
        BaselineRow("house/one", "ML", 2, figures),
        BaselineRow("CSI300 buy-and-hold", "", None, held),
    ]

    lines = texts(cohort_parts(cohort_report(exposures=[], baseline=rows)))

    assert lines[1] == ("model cohort seeds return % excess % Sharpe MDD % IR turnover selection %")
    assert lines[2:5] == [
        "house/one ML 2 1.000 50.00 0.500 50.00 0.500 0.500 50.00",
        "90 % interval -2.000 … 4.000 - - - - - -",
        "CSI300 buy-and-hold 3.000 - - - - - -",
    ]


def test_declines_are_shown_with_the_interval_of_their_share() -> None:
    share = DeclinedShare(declined=1, share=0.25, low=0.05, high=0.7)
    unknown = DeclinedShare(declined=0, share=None, low=None, high=None)
    row = Declines(
        model="house/one",
        cohort="",
        mode="open_research",
        n=4,
        not_known=2,
        unmatched=0,
        bright=share,
        blinded=unknown,
        only_bright=1,
        only_blinded=0,
        p=1.0,
        reason=None,
        cells=[],
    )

    lines = texts(cohort_parts(cohort_report(declines=[row])))

    at = lines.index("model mode n bright blinded p not known")

    assert lines[at + 1] == "house/one open_research 4 1 of 4 [0.05, 0.70] 0 of 4 1.0000 2"


# -- plans as text


@pytest.fixture(autouse=True)
def few_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are simulated with a small number of windows."""
    monkeypatch.setattr(power, "_REACH", (5, 6, 10, 20))


def plan_text(**fields: Any) -> list[str]:
    """The lines of a plan's report, with single spaces."""
    pair = fields.pop("pair", "")
    return texts(power_parts([plan_report(PowerPlan(**fields), pair)]))


def test_a_plan_of_several_tests_shares_the_level() -> None:
    """2 / 2**10 is 0.00195, and 0.05 / 25 is 0.002."""
    lines = plan_text(windows=10, seeds=3, comparisons=25, pair="a, b", problem="too few cards")

    assert "a, b: The plan: 10 windows, 3 seeds, level 0.05 / 25" in lines
    assert (
        "a result is possible: the smallest p is 0.001953; 10 windows are the fewest that allow one"
    ) in lines
    assert lines[-1] == "too few cards"


def test_a_plan_states_its_noise_and_what_it_finds() -> None:
    lines = plan_text(windows=6, window_sd=0.0, effect=0.02)

    assert lines[-6:] == [
        "a result is possible: the smallest p is 0.03125; 6 windows are the fewest that allow one",
        "noise: SD 0 % over windows; variation over seeds is unknown, and is included in that"
        " over windows",
        "it finds a difference of 2 % with probability 1.00",
        "seeds SD of a window's difference 6 windows find a year z test a year windows to find"
        " +2.000 %",
        "1 0.000 0.000 % 0.000 0.000 6",
        "z test: the same by the normal approximation, which few windows do not justify",
    ]


def test_a_plan_of_windows_that_share_days_allows_for_them() -> None:
    """Three pairs of windows, each with half of its days in common: 6 ** 2 / (6 + 3) is 4."""
    lines = plan_text(windows=6, pattern=((1.0, 0.5), (0.5, 1.0)))

    assert (
        "windows share days as the cards' do: 6 overlapping windows = 4.0 effective windows; all figures account for it"
    ) in lines
    assert any(line.startswith("6 windows can't reach it") for line in lines)


def test_seeds_of_a_plan_cut_their_own_noise_alone() -> None:
    """With unlimited seeds only the noise of windows is left: 3 %."""
    lines = plan_text(windows=5, window_sd=0.03, seed_sd=0.01, window_days=None)

    noise = "noise: SD 3 % over windows, 1 % over seeds; more seeds reduce only the second"

    assert any(line.startswith(noise) for line in lines)
    assert [line for line in lines if line.startswith("unlimited")] == ["unlimited 3.000 nothing %"]


@pytest.mark.parametrize("variance", [-0.0001, 0.0, None])
def test_a_negative_variance_of_a_plan_is_stated(variance: float | None) -> None:
    lines = plan_text(windows=5, window_sd=0.03, window_variance=variance)

    stated = (
        "the variance over windows is estimated at -0.0001 (squared unit of the metric), less than"
        " seeds alone explain; it is set to 0"
    )

    assert (stated in lines) is (variance == -0.0001)


# -- comparisons as text


def test_days_before_and_after_a_cutoff_are_a_table_with_reasons_below() -> None:
    row = cutoff.CutoffRow(
        card="house/one",
        model="house/one",
        cutoff="2024-01-05",
        confidence="given",
        source="a test",
        figure="excess",
        days_before=61,
        days_across=1,
        days_after=59,
        mean_before=0.1,
        mean_after=-0.02,
        value=0.12,
        unit="fraction",
        low=0.01,
        high=0.23,
        reason=None,
    )
    bare = replace(row, card="house/two", figure=None, reason="its cutoff is unknown")
    report = cutoff.CutoffReport(alpha=0.05, cards=[row, bare], notes=["synthetic: every card"])

    lines = texts(cutoff_parts(report))

    assert lines[1] == (
        "card cutoff of figure before across after mean before mean after decay 95 % interval"
    )
    assert lines[2] == (
        "house/one 2024-01-05 given excess 61 1 59 +10.00 -2.000 +12.00 +1.000 … +23.00"
    )
    assert lines[-4:] == [
        "Notes",
        "house/two: cutoff: its cutoff is unknown",
        "house/one: a test",
        "synthetic: every card",
    ]
