"""Statistics of the comparing commands: checked by hand, against other libraries, and by error
rates.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.stats.factorial_effects import (
    MASK_FACTORS,
    MODE_PIECES,
    blocks_of,
    effective_count,
    left_out_windows,
    mask_contrasts,
    mean_with_interval,
    order_averaged,
    overlap_correlation,
    shared_days,
)
from ktdeval.stats.paired import (
    EXACT_UP_TO,
    correlated_null,
    hodges_lehmann,
    level_sizes,
    rank_null,
    sign_flip,
    signed_rank,
)
from ktdeval.stats.random_traders import EnvelopeSettings, random_envelope
from ktdeval.trading.types import TradingConfig

DIFFERENCES = st.lists(st.integers(-6, 6), min_size=1, max_size=11).map(
    lambda values: np.array(values, dtype=float)
)
W1_TO_W10 = [
    ("2024-04-01", "2024-06-05"),
    ("2024-05-27", "2024-07-25"),
    ("2024-07-25", "2024-09-25"),
    ("2024-09-09", "2024-11-15"),
    ("2024-10-21", "2024-12-13"),
    ("2024-12-06", "2025-02-14"),
    ("2025-03-03", "2025-05-09"),
    ("2025-07-14", "2025-09-19"),
    ("2025-10-13", "2025-12-19"),
    ("2026-02-02", "2026-04-10"),
]


def test_a_hand_worked_case() -> None:
    # |d| ranks: 1 -> 1, 2 -> 2, 3 -> 3, 4 -> 4, 5 -> 5; negative: 2 -> W- = 2, W+ = 13. P(W <= 2) =
    # 3/32, doubled.
    ranks = signed_rank(np.array([1.0, -2.0, 3.0, 4.0, 5.0]))
    assert (ranks.positive_ranks, ranks.negative_ranks, ranks.method) == (13.0, 2.0, "exact")
    assert ranks.p == pytest.approx(2 * 3 / 32)
    assert ranks.rank_biserial == pytest.approx((13 - 2) / 15)
    assert ranks.smallest_p == pytest.approx(2 / 32)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 5, 10, 25, 50, 80, 200, 300])
def test_without_ties_it_equals_the_exact_test_of_scipy(n: int) -> None:
    for seed in range(5):
        sample = np.random.default_rng(seed).normal(0.1 * seed, 1.0, n)
        expected = stats.wilcoxon(sample, method="exact")
        ranks = signed_rank(sample)
        assert ranks.p == pytest.approx(float(expected.pvalue), rel=1e-9, abs=1e-15)
        assert min(ranks.positive_ranks, ranks.negative_ranks) == expected.statistic


@pytest.mark.exhaustive
@settings(max_examples=60)
@given(DIFFERENCES.filter(lambda sample: len(sample) > 1))
def test_with_zeros_and_ties_it_equals_the_permutation_of_scipy(sample: np.ndarray) -> None:
    ranks = signed_rank(sample)
    if ranks.n_nonzero == 0:
        assert (ranks.p, ranks.rank_biserial) == (1.0, None)
        return

    expected = stats.wilcoxon(sample, method=stats.PermutationMethod(n_resamples=np.inf))

    assert ranks.p == pytest.approx(float(expected.pvalue), rel=1e-9)


@pytest.mark.parametrize("decimals", [1, 8])
def test_beyond_the_exact_range_it_equals_the_normal_test_of_scipy(decimals: int) -> None:
    sample = np.round(np.random.default_rng(decimals).normal(0.05, 1.0, 500), decimals)
    expected = stats.wilcoxon(sample, method="asymptotic")
    ranks = signed_rank(sample)

    assert ranks.method == "normal"
    assert ranks.p == pytest.approx(float(expected.pvalue), rel=1e-9)


def test_too_few_pairs_give_a_reason_and_identical_pairs_are_tied() -> None:
    assert signed_rank(np.array([])).reason == "no pair"
    assert signed_rank(np.zeros(4)).p == sign_flip(np.zeros(4)).p == 1.0
    assert sign_flip(np.array([])).p is None
    assert hodges_lehmann(np.array([])).value is None

    few = hodges_lehmann(np.arange(1.0, 6.0))
    assert (few.low, few.high, few.reason) == (
        None,
        None,
        "5 pairs: the highest possible level of an interval is 93.75 %",
    )


@pytest.mark.exhaustive
@given(DIFFERENCES, st.floats(0.1, 1000.0))
def test_scale_changes_no_p_and_sign_changes_only_the_direction(
    sample: np.ndarray, scale: float
) -> None:
    ranks = signed_rank(sample)
    turned = signed_rank(-sample)

    assert signed_rank(sample * 2.0 ** round(np.log2(scale))).p == ranks.p
    assert turned.p == pytest.approx(ranks.p)
    assert turned.positive_ranks == ranks.negative_ranks
    assert hodges_lehmann(-sample).value == pytest.approx(-hodges_lehmann(sample).value, abs=1e-12)  # type: ignore[operator]


@pytest.mark.exhaustive
@given(st.lists(st.tuples(st.integers(0, 43), st.integers(0, 43)), min_size=1, max_size=12))
def test_differences_of_shares_have_the_ties_and_zeros_of_their_counts(
    pairs: list[tuple[int, int]],
) -> None:
    first, second = np.array(pairs, dtype=float).T
    shares = first / 43 - second / 43
    counts = first - second

    # 5/43 - 3/43 and 12/43 - 10/43 differ in their last bits
    assert signed_rank(shares) == signed_rank(counts)
    assert level_sizes(np.array([*(shares - counts / 43), -1.0])).tolist() == [0.0] * len(pairs) + [
        -1.0
    ]

    gap = level_sizes(np.array([*shares, np.nan]))
    assert np.array_equal(gap[:-1], level_sizes(shares))
    assert np.isnan(gap[-1])
    assert shares == pytest.approx(level_sizes(shares), abs=1e-12)


@pytest.mark.exhaustive
@given(DIFFERENCES)
def test_sign_flips_equal_their_enumeration(sample: np.ndarray) -> None:
    sums = [
        abs(float(np.dot(signs, sample)))
        for signs in itertools.product((1, -1), repeat=len(sample))
    ]
    expected = np.mean([total >= abs(sample.sum()) for total in sums])

    assert sign_flip(sample).p == pytest.approx(expected)


def test_differences_of_one_block_change_sign_together() -> None:
    flips = sign_flip(np.array([3.0, 3.0, 1.0]), np.array([7, 7, 9]))
    # Block sums 6 and 1: |±6 ± 1| is 7 twice and 5 twice.
    assert (flips.blocks, flips.p, flips.smallest_p) == (2, 0.5, 0.5)


def test_sampled_sign_flips_agree_with_all_of_them_and_are_never_zero() -> None:
    sample = np.random.default_rng(5).normal(0.5, 1.0, 16)
    padded = np.concatenate([sample, np.full(1, 1e-13)])

    assert sign_flip(padded, draws=40_000, seed=1).method == "sampled"
    assert sign_flip(padded, draws=40_000, seed=1).p == pytest.approx(sign_flip(sample).p, abs=0.01)
    assert sign_flip(np.ones(40), draws=100).p == pytest.approx(1 / 101)


def test_the_shift_and_its_interval_are_those_of_walsh_averages_and_tables() -> None:
    """n = 10: the 95 % interval runs from the 9th smallest to the 9th largest Walsh average, with
    coverage 95.1 %.
    """
    # of 1, 1.5, 2, 3.5, 4, 6
    assert hodges_lehmann(np.array([1.0, 2.0, 6.0])).value == pytest.approx(2.75)

    sample, (rows, columns) = np.random.default_rng(0).normal(size=10), np.triu_indices(10)
    walsh = np.sort((sample[rows] + sample[columns]) / 2)
    shift = hodges_lehmann(sample)

    assert (shift.value, shift.low, shift.high) == pytest.approx(
        (np.median(walsh), walsh[8], walsh[-9])
    )
    assert shift.confidence == pytest.approx(1 - 2 * 25 / 1024, abs=2e-3)


@pytest.mark.exhaustive
@given(st.lists(st.floats(-5, 5), min_size=6, max_size=12, unique=True))
def test_the_interval_holds_zero_exactly_when_the_test_is_not_significant(
    values: list[float],
) -> None:
    sample = level_sizes(np.array(values))
    if len(np.unique(np.abs(sample))) < len(sample) or (sample == 0).any():
        return

    rows, columns = np.triu_indices(len(sample))
    if (sample[rows] + sample[columns] == 0).any():
        return

    shift = hodges_lehmann(sample)
    p = signed_rank(sample).p

    assert (shift.low < 0 < shift.high) == (p > 0.05)  # type: ignore[operator]


def test_the_null_of_mid_ranks_is_that_of_all_sign_patterns() -> None:
    ranks = np.array([1.5, 1.5, 3.0, 4.0])
    sums = sorted(
        sum(rank for rank, taken in zip(ranks, signs) if taken)
        for signs in itertools.product((0, 1), repeat=4)
    )
    null = rank_null(ranks)
    expected = [sums.count(value) / 16 for value in null.support]

    assert null.probabilities.tolist() == pytest.approx(expected)


def averages(sample: np.ndarray) -> np.ndarray:
    """Walsh averages: the means of all pairs of differences, and each difference itself."""
    rows, columns = np.tril_indices(len(sample))
    return np.asarray((sample[rows] + sample[columns]) / 2)


def test_shared_days_and_their_correlation() -> None:
    assert shared_days(("2024-01-01", "2024-01-12"), ("2024-01-08", "2024-01-31")) == 5
    assert shared_days(("2024-01-01", "2024-01-05"), ("2024-01-08", "2024-01-12")) == 0
    assert shared_days(("2024-01-12", "2024-01-01"), ("2024-01-01", "2024-01-12")) == 0

    weekend = ("2024-01-06", "2024-01-07")
    week = ("2024-01-01", "2024-01-12")

    assert overlap_correlation([weekend, week]).tolist() == [[1.0, 0.0], [0.0, 1.0]]

    correlation = overlap_correlation([("2024-01-01", "2024-01-12"), ("2024-01-08", "2024-01-19")])
    assert (correlation[0, 1], effective_count(correlation)) == pytest.approx((0.5, 4 / 3))

    papers = overlap_correlation(W1_TO_W10)
    assert papers[3, 4] == pytest.approx(0.447, abs=0.001)
    assert effective_count(papers) == pytest.approx(8.26, abs=0.01)
    assert blocks_of(papers).tolist() == [0, 0, 1, 1, 1, 1, 2, 3, 4, 5]


def test_normal_interval_nearly_equals_the_exact_one_for_many_pairs() -> None:
    n = EXACT_UP_TO + 20
    sample = np.random.default_rng(5).standard_normal(n) + 0.1
    normal = hodges_lehmann(sample)
    exact = hodges_lehmann(sample, null=rank_null(np.arange(1.0, n + 1.0)))

    assert (normal.value, normal.confidence) == (exact.value, 0.95)
    assert normal.low is not None
    assert normal.high is not None
    assert exact.low is not None

    walsh = averages(sample)
    fewer = sample[:EXACT_UP_TO]

    assert abs(np.searchsorted(walsh, normal.low) - np.searchsorted(walsh, exact.low)) <= 30, (
        "of 51,360 averages"
    )

    mirrored = hodges_lehmann(-sample)
    assert (mirrored.low, mirrored.high) == (-normal.high, -normal.low)

    for of, shift in ((walsh, normal), (walsh, exact), (averages(fewer), hodges_lehmann(fewer))):
        below = (of < shift.low).sum()
        above = (of > shift.high).sum()
        assert below == above > 0, "as many averages lie below the interval as above it"


# ---- windows that share days


@pytest.mark.exhaustive
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90)), min_size=1, max_size=8))
def test_the_overlap_correlation_is_one(spans: list[tuple[int, int]]) -> None:
    days = [str(day) for day in np.datetime64("2024-01-01") + np.arange(491).astype("m8[D]")]
    correlation = overlap_correlation(
        [(days[first], days[first + length]) for first, length in spans]
    )

    assert np.linalg.eigvalsh(correlation).min() > -1e-9
    assert np.allclose(np.diag(correlation), 1.0)
    assert (correlation == correlation.T).all()


def test_a_window_of_one_day_shares_that_day() -> None:
    """1 / sqrt(4 * 1), of Monday to Thursday and its Monday."""
    correlation = overlap_correlation([("2024-01-01", "2024-01-04"), ("2024-01-01", "2024-01-01")])
    assert correlation.tolist() == [[1.0, 0.5], [0.5, 1.0]]


def test_correlated_null_equals_the_exact_null_for_separate_windows() -> None:
    for draws in (1000, 25_001):
        assert correlated_null(
            overlap_correlation(W1_TO_W10), draws, 0
        ).probabilities.sum() == pytest.approx(1.0, abs=1e-12)

    simulated = correlated_null(np.eye(8), 100_000, 1)
    exact = rank_null(np.arange(1.0, 9.0))

    assert np.abs(simulated.at_or_below - exact.at_or_below).max() < 0.005
    assert simulated.kind == "simulated"
    assert simulated.probabilities.tolist() == simulated.probabilities[::-1].tolist()


PAPER = {f"W{place}": span for place, span in enumerate(W1_TO_W10, 1)}
LONG = ("2024-01-01", "2026-04-10")
MIXED: list[tuple[dict[str, tuple[str, str]], dict[str, str]]] = [
    ({}, {}),
    ({"long": LONG}, {}),
    # they overlap, but each has some days of its own: the overlap is allowed for, and no window is
    # omitted
    (PAPER, {}),
    (
        {**PAPER, "long": LONG},
        {"long": "has 595 weekdays, the others 40 to 51: the lengths differ too much"},
    ),
    (
        {"W1": PAPER["W1"], "long": LONG},
        {"W1": "has 48 weekdays, the others 595 to 595: the lengths differ too much"},
    ),
    ({"a": PAPER["W1"], "b": PAPER["W1"]}, {"b": "has no day outside a"}),
    (
        {
            "a": ("2024-01-01", "2024-01-12"),
            "b": ("2024-01-15", "2024-01-26"),
            "both": ("2024-01-08", "2024-01-19"),
        },
        {"both": "has no day outside a, b"},
    ),
    (
        {
            "a": ("2024-01-01", "2024-01-05"),
            "b": ("2024-02-05", "2024-02-16"),
            "c": ("2024-03-04", "2024-03-18"),
        },
        {"c": "has 11 weekdays, the others 5 to 10: the lengths differ too much"},
    ),
    # The first days of a market that never closes.
    ({"live": ("2024-01-06", "2024-01-07")}, {}),
    ({"live": ("2024-01-06", "2024-01-06"), "next": ("2024-01-07", "2024-01-07")}, {}),
]


@pytest.mark.parametrize(("spans", "out"), MIXED)
def test_windows_of_other_lengths_or_without_own_days_enter_no_figure(
    spans: dict[str, tuple[str, str]], out: dict[str, str]
) -> None:
    assert left_out_windows(spans) == out


def test_days_of_the_weekend_count_at_a_market_that_trades_them() -> None:
    # Friday to Sunday, Monday to Wednesday
    spans = {"weekend": ("2024-01-05", "2024-01-07"), "week": ("2024-01-08", "2024-01-10")}
    assert left_out_windows(spans, 365) == {}

    reason = "has 14 days, the others 3 to 3: the lengths differ too much"
    assert left_out_windows({**spans, "long": ("2024-01-11", "2024-01-24")}, 365) == {
        "long": reason
    }


@pytest.mark.exhaustive
@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.integers(1, 28), st.integers(0, 60)), min_size=1
    )
)
def test_compared_windows_have_similar_length_and_days_of_their_own(
    drawn: dict[str, tuple[int, int]],
) -> None:
    days = {
        name: np.arange(first, first + length + 7) + np.datetime64("2024-01-01")
        for name, (first, length) in drawn.items()
    }
    held = {name: set(span[np.is_busday(span)].tolist()) for name, span in days.items()}
    out = left_out_windows({name: (str(span[0]), str(span[-1])) for name, span in days.items()})
    stand = [name for name in drawn if name not in out]

    assert stand
    assert max(len(held[name]) for name in stand) <= 2 * min(len(held[name]) for name in stand)

    for name in stand:
        assert held[name] - set().union(*(held[other] for other in stand if other != name))


def test_mean_over_overlapping_windows_uses_the_effective_count() -> None:
    sample = np.array([0.01, 0.03, -0.02, 0.05])
    correlation = np.eye(4)
    plain = mean_with_interval(sample).detail
    t_test = stats.ttest_1samp(sample, 0.0)
    expected = (t_test.pvalue, *t_test.confidence_interval(0.95))

    assert (plain["t_p"], plain["low"], plain["high"]) == pytest.approx(expected)

    correlation[0, 1] = correlation[1, 0] = 0.5
    assert mean_with_interval(sample, correlation).detail["se"] > plain["se"]
    # Means that don't generalise to other windows have a reason.
    assert mean_with_interval(np.array([])).value is None
    assert (
        mean_with_interval(np.array([0.1])).detail["reason"]
        == "a single window does not show how windows vary"
    )
    assert (
        mean_with_interval(np.array([0.1, 0.1]), np.ones((2, 2))).detail["reason"]
        == "all windows cover the same days"
    )
    assert mean_with_interval(np.zeros(3)).detail["t_p"] == 1.0


# ---- false positives


def _rates(make: object, correlation: np.ndarray | None, comparisons: int) -> dict[str, float]:
    null = None if correlation is None else correlated_null(correlation, 100_000, 0)
    blocks = None if correlation is None else blocks_of(correlation)
    hits = {"wilcoxon": 0, "sign_flip": 0, "interval": 0, "t": 0}

    for number in range(comparisons):
        sample = make(np.random.default_rng([11, number]))  # type: ignore[operator]
        shift = hodges_lehmann(sample, null=null)
        mean = mean_with_interval(sample, correlation).detail
        hits["wilcoxon"] += signed_rank(sample, null=null).p <= 0.05  # type: ignore[operator]
        hits["sign_flip"] += sign_flip(sample, blocks, draws=1999).p <= 0.05  # type: ignore[operator]
        hits["interval"] += not shift.low <= 0 <= shift.high  # type: ignore[operator]
        hits["t"] += not mean["low"] <= 0 <= mean["high"]

    return {name: count / comparisons for name, count in hits.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("windows", [9, 10, 12, 20])
def test_placebo_comparisons_are_significant_one_time_in_twenty(windows: int) -> None:
    """Two agents without skill whose daily returns differ by fat-tailed noise: 5 % ± 1.5 % of 2,000
    comparisons.
    """
    rates = _rates(lambda chance: chance.standard_t(4, (windows, 43)).sum(axis=1), None, 2000)

    assert set(rates) == {"wilcoxon", "sign_flip", "interval", "t"}
    assert all(0.035 <= rate <= 0.065 for rate in rates.values()), rates


@pytest.mark.exhaustive
def test_placebo_comparisons_over_overlapping_paper_windows_keep_the_level() -> None:
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2026-05-01"))
    days = days[np.is_busday(days)]
    inside = np.array(
        [
            (days >= np.datetime64(first)) & (days <= np.datetime64(last))
            for first, last in W1_TO_W10
        ],
        dtype=float,
    )

    def sample(chance: np.random.Generator) -> np.ndarray:
        return inside @ chance.standard_t(4, len(days))

    rates = _rates(sample, overlap_correlation(W1_TO_W10), 4000)

    assert all(0.035 <= rates[name] <= 0.065 for name in ("wilcoxon", "interval", "t")), rates
    # six blocks only allow levels of 1/32 and 2/32: the test is conservative
    assert rates["sign_flip"] <= 0.065

    naive = _rates(sample, None, 4000)
    assert naive["wilcoxon"] > 0.055  # the error rate if windows were treated as independent


# ==== the 2x2 of masks and the information ladder


WINDOWS = arrays(float, 5, elements=st.floats(-1, 1))
GRID = {
    frozenset(MASK_FACTORS[mask] | MODE_PIECES[mode]): place
    for place, (mask, mode) in enumerate(itertools.product(MASK_FACTORS, MODE_PIECES))
}


def test_a_hand_worked_design() -> None:
    cells = {"bright": 10.0, "stock_blind": 4.0, "date_blind": 7.0, "blinded": 3.0}
    contrasts = mask_contrasts({mask: np.array([value]) for mask, value in cells.items()})

    # Stock in sight: 10 - 4 = 6 with the date, 7 - 3 = 4 without. Date in sight: 10 - 7 = 3 with
    # the stock, 4 - 3 = 1 without.
    assert contrasts == {
        "memory_premium": 7.0,
        "stock_effect": 5.0,
        "date_effect": 2.0,
        "interaction": 2.0,
    }
    # With fewer masks, fewer effects can be computed.
    assert list(mask_contrasts({"bright": np.ones(2), "blinded": np.ones(2)})) == ["memory_premium"]
    assert mask_contrasts({"bright": np.ones(2), "stock_blind": np.ones(2)}) == {}


@pytest.mark.exhaustive
@given(WINDOWS, WINDOWS, WINDOWS, WINDOWS)
def test_stock_and_date_effect_add_up_to_the_memory_premium(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray
) -> None:
    contrasts = mask_contrasts({"bright": a, "stock_blind": b, "date_blind": c, "blinded": d})
    assert contrasts["stock_effect"] + contrasts["date_effect"] == pytest.approx(
        contrasts["memory_premium"], abs=1e-12
    )


def test_a_chain_of_modes_has_one_order() -> None:
    """Tools work on data, so the marginal steps are the contributions."""
    results = {"memory_only": 1.0, "fixed_candidate": 4.0, "open_research": 9.0}
    values = {MODE_PIECES[mode]: np.array([value]) for mode, value in results.items()}
    contributions = order_averaged(values)

    assert {piece: float(part[0]) for piece, part in contributions.items()} == {
        "data": 3.0,
        "tools": 5.0,
    }


def test_without_precedence_it_is_the_shapley_value() -> None:
    """Glove game of Shapley: one left glove (a), two right gloves (b, c); a pair is worth 1. Values
    2/3, 1/6, 1/6.
    """
    coalitions = [
        coalition for size in range(4) for coalition in itertools.combinations("abc", size)
    ]
    contributions = order_averaged(
        {frozenset(each): np.array([float("a" in each and len(each) > 1)]) for each in coalitions},
        {},
    )

    assert [float(contributions[player][0]) for player in "abc"] == pytest.approx(
        [2 / 3, 1 / 6, 1 / 6]
    )


@pytest.mark.exhaustive
@given(arrays(float, (12, 4), elements=st.floats(-1, 1)))
def test_contributions_add_up_exactly(table: np.ndarray) -> None:
    values = {given: table[cell] for given, cell in GRID.items()}
    parts = order_averaged(values)
    whole = values[frozenset({"stock", "date", "data", "tools"})] - values[frozenset()]

    assert list(parts) == ["data", "date", "stock", "tools"]
    assert sum(parts.values()) == pytest.approx(whole, abs=1e-12)


@pytest.mark.slow
@given(arrays(float, 4, elements=st.floats(-1, 1)))
def test_separate_effects_are_given_back(worth: np.ndarray) -> None:
    names = ("stock", "date", "data", "tools")
    of = dict(zip(names, worth))
    values = {given: np.array([sum(of[name] for name in given)]) for given in GRID}

    assert {name: float(part[0]) for name, part in order_averaged(values).items()} == pytest.approx(
        of, abs=1e-12
    )


def test_a_set_that_was_not_run_is_named() -> None:
    with pytest.raises(ValueError, match="no results with data given"):
        order_averaged({frozenset(): np.zeros(1), frozenset({"data", "tools"}): np.zeros(1)})


@pytest.mark.exhaustive
def test_effect_intervals_cover_the_planted_effect() -> None:
    """Ten windows, three seeds, shared market noise that cancels; 2,000 experiments, nominal 95
    %.
    """
    planted = {
        "memory_premium": 0.02,
        "stock_effect": 0.015,
        "date_effect": 0.005,
        "interaction": 0.004,
    }
    covered = dict.fromkeys(planted, 0)
    worths = {
        "bright": (0.02, 1),
        "stock_blind": (0.003, 0),
        "date_blind": (0.013, 1),
        "blinded": (0.0, 0),
    }

    for number in range(2000):
        chance = np.random.default_rng([5, number])
        market = 0.1 * chance.normal(size=(10, 1))
        # the effect of the stock differs between windows
        slope = 0.01 * chance.normal(size=(10, 1))
        noise = {mask: 0.02 * chance.normal(size=(10, 3)) for mask in MASK_FACTORS}
        cells = {
            mask: market + noise[mask] + worth + slope * has_stock
            for mask, (worth, has_stock) in worths.items()
        }
        for name, values in mask_contrasts(cells).items():
            interval = mean_with_interval(values.mean(axis=1)).detail
            covered[name] += interval["low"] <= planted[name] <= interval["high"]

    assert all(0.93 <= count / 2000 <= 0.97 for count in covered.values()), covered


# ==== agents without skill on a market without alpha


TRADERS = 250
APART = (1, 2, 3, 4)
LEVEL = 0.05
MARGIN = 0.015


@pytest.mark.exhaustive
def test_random_traders_differ_as_often_as_the_level_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pairs of random traders over 20 days of W1…W10: same market and rules, other names. Selection
    is zero by construction.
    """
    out = tmp_path / "run"
    words = [
        "--model",
        "builtin/reversal",
        "--tasks",
        "blinded_open_research",
        "--windows",
        "W*",
        "--limit",
        "20",
    ]

    assert main([*words, "--out", str(out), "--quiet"]) == 0

    capsys.readouterr()
    folder = RunFolder.load(out)
    market = open_snapshot(load_plugins(), "synthetic", {})

    assert market.meta.synthetic

    config = TradingConfig()
    returns = np.array(
        [
            random_envelope(
                folder.load_ledger(spec), market, config, EnvelopeSettings(TRADERS, seed)
            ).returns
            for seed, spec in enumerate(folder.manifest.specs)
        ]
    )

    assert returns.shape == (10, TRADERS)

    # Each trader is compared with the four before it: a thousand comparisons.
    differences = np.concatenate(
        [returns - np.roll(returns, apart, axis=1) for apart in APART], axis=1
    )
    by_rank = np.mean([(signed_rank(column).p or 1.0) <= LEVEL for column in differences.T])
    by_flip = np.mean([(sign_flip(column).p or 1.0) <= LEVEL for column in differences.T])

    assert (by_rank, by_flip) == pytest.approx((LEVEL, LEVEL), abs=MARGIN)
