"""On the synthetic market the truth is known: planted factor returns, no alpha but what a test plants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ktdeval.attribution.fit import Fit, fit_factors
from ktdeval.market.snapshot import FloatArray, MarketSnapshot
from ktdeval_data.params import SyntheticParams
from ktdeval_data.synthetic import Truth, build
from portfolios import decompose

PRICES = ("open", "high", "low", "close")


@pytest.fixture(scope="module")
def planted() -> tuple[MarketSnapshot, Truth]:
    return build(SyntheticParams())


@pytest.fixture(scope="module")
def rows(planted: tuple[MarketSnapshot, Truth]) -> range:
    snapshot = planted[0]
    return range(snapshot.day_index("2024-01-02"), snapshot.day_index("2026-04-10") + 1)


@pytest.fixture(scope="module")
def fitted(planted: tuple[MarketSnapshot, Truth], rows: range) -> Fit:
    return fit_factors(planted[0], rows.start, rows.stop - 1)


def test_planted_factor_returns_are_recovered(planted: tuple[MarketSnapshot, Truth], rows: range, fitted: Fit) -> None:
    for factor, name in enumerate(fitted.factor_names):
        truth = planted[1].factor_returns[name][rows.start : rows.stop]
        slope = np.polyfit(truth, fitted.style[:, factor], 1)[0]
        assert np.corrcoef(truth, fitted.style[:, factor])[0, 1] > 0.92, name
        assert slope == pytest.approx(1.0, abs=0.05), name
        # The mean error is within its own noise.
        error = fitted.style[:, factor] - truth
        assert abs(error.mean()) < 3.0 * error.std() / np.sqrt(len(error)), name


def test_intervals_cover_the_planted_factor_returns_at_their_nominal_rate(
    planted: tuple[MarketSnapshot, Truth], rows: range, fitted: Fit
) -> None:
    errors = fitted.standard_errors("HC3")[:, 1:]
    truth = np.column_stack([planted[1].factor_returns[name][rows.start : rows.stop] for name in fitted.factor_names])
    covered = np.abs(fitted.style - truth) < 1.96 * errors
    assert 0.93 < covered.mean() < 0.97
    assert covered.mean(axis=0).min() > 0.92


def test_planted_industry_returns_are_recovered(planted: tuple[MarketSnapshot, Truth], rows: range, fitted: Fit) -> None:
    correlations = [
        np.corrcoef(planted[1].industry_returns[name][rows.start : rows.stop], fitted.industry[:, column])[0, 1]
        for column, name in enumerate(fitted.industry_names[:-1])
        if (fitted.industry_of == column).any()  # not always pooled
    ]
    # A dozen names an industry leave noise of 0.4 % a day beside industry returns of 0.45 %.
    assert np.median(correlations) > 0.6


def equal_weights(fitted: Fit) -> FloatArray:
    investable = fitted.exposures.investable
    weights: FloatArray = investable / investable.sum(axis=1, keepdims=True)
    return weights


def test_pure_factor_tilts_have_selection_within_noise_of_zero(fitted: Fit) -> None:
    index = equal_weights(fitted)
    tilts = np.stack([index * (1.0 + 0.5 * fitted.exposures.z[:, :, factor]) for factor in range(9)])
    result = decompose(tilts, fitted)
    t = result.selection.mean(axis=1) / (result.selection.std(axis=1, ddof=1) / np.sqrt(result.selection.shape[1]))
    assert np.abs(t).max() < 3.0
    # And the tilt is seen as what it is: half a standard deviation of exposure more than the index has.
    extra = result.exposures.mean(axis=1) - decompose(index, fitted).exposures.mean(axis=0)
    assert (np.diag(extra) > 0.35).all()
    style = result.style.sum(axis=-1) - decompose(index, fitted).style.sum(axis=-1)
    own = np.stack([result.style[factor, :, factor] for factor in range(9)])
    assert all(np.corrcoef(style[factor], own[factor])[0, 1] > 0.5 for factor in range(9))


def with_extra_returns(snapshot: MarketSnapshot, extra: FloatArray) -> MarketSnapshot:
    """The market with [T, N] returns multiplied onto its prices."""
    growth = np.cumprod(1.0 + extra, axis=0)
    return replace(snapshot, **{name: getattr(snapshot, name) * growth for name in PRICES})


def test_alpha_planted_in_names_picked_anew_each_day_comes_out_as_selection(
    planted: tuple[MarketSnapshot, Truth], rows: range
) -> None:
    snapshot, alpha, names = planted[0], 0.002, 15
    rng = np.random.default_rng(1)
    weights = np.zeros((len(rows), len(snapshot.codes)))
    for day, row in enumerate(rows):
        weights[day, rng.choice(np.flatnonzero(snapshot.member[row - 1]), names, replace=False)] = 1.0 / names
    extra = np.zeros(snapshot.close.shape)
    extra[rows.start : rows.stop] = (weights > 0) * alpha
    better = decompose(weights, fit_factors(with_extra_returns(snapshot, extra), rows.start, rows.stop - 1, "paper"))
    before = decompose(weights, fit_factors(snapshot, rows.start, rows.stop - 1, "paper"))
    # Of any shock to 15 of 300 names the intercept takes 15 / 300 and each of nine styles 1 / 300: the leverage of a regression.
    gain = (better.selection - before.selection).mean()
    assert gain == pytest.approx(alpha * (1.0 - (names + 9) / 300), rel=0.02)
    noise = better.selection.std(ddof=1) / np.sqrt(len(rows))
    assert abs(better.selection.mean() - alpha) < 3.0 * noise
    assert better.selection.mean() > 5.0 * noise


def test_alpha_of_names_held_throughout_comes_out_as_selection_until_it_becomes_momentum(
    planted: tuple[MarketSnapshot, Truth], rows: range
) -> None:
    snapshot, alpha = planted[0], 0.0005
    always = np.flatnonzero(snapshot.member.all(axis=0))
    chosen = np.random.default_rng(0).choice(always, 15, replace=False)
    weights = np.zeros((len(rows), len(snapshot.codes)))
    weights[:, chosen] = 1.0 / 15
    extra = np.zeros(snapshot.close.shape)
    extra[rows.start : rows.stop, chosen] = alpha
    better = decompose(weights, fit_factors(with_extra_returns(snapshot, extra), rows.start, rows.stop - 1))
    before = decompose(weights, fit_factors(snapshot, rows.start, rows.stop - 1))
    # An industry takes its share of the alpha of its own names.
    assert (better.selection - before.selection).mean() > 0.85 * alpha
    assert abs(better.selection.mean() - alpha) < 3.0 * better.selection.std(ddof=1) / np.sqrt(len(rows))


def test_moves_of_an_industry_are_no_selection_and_alpha_inside_it_is_found_again(
    planted: tuple[MarketSnapshot, Truth], rows: range
) -> None:
    """An industry moves by 1 % a day on its own, two of its names, drawn anew each day, by 20 bp more; a portfolio holds these."""
    snapshot, alpha, rng = planted[0], 0.002, np.random.default_rng(4)
    industries = np.array(snapshot.industries)
    names, sizes = np.unique(industries[snapshot.member[rows.start]], return_counts=True)
    own = industries == names[sizes.argmax()]
    move = rng.normal(0.0, 0.01, len(rows))
    weights, extra = np.zeros((len(rows), len(snapshot.codes))), np.zeros(snapshot.close.shape)
    for day, row in enumerate(rows):
        chosen = rng.choice(np.flatnonzero(snapshot.member[row - 1] & own), 2, replace=False)
        weights[day, chosen] = 0.5
        extra[row, own] = move[day]
        extra[row, chosen] += alpha
    better = with_extra_returns(snapshot, extra)
    gain = {}
    for scheme in ("strict", "paper"):
        after, before = (decompose(weights, fit_factors(one, rows.start, rows.stop - 1, scheme)) for one in (better, snapshot))
        gain[scheme] = after.selection - before.selection
    strict, paper = np.polyfit(move, gain["strict"], 1), np.polyfit(move, gain["paper"], 1)
    # Selection takes nothing of the move where industries are fitted, and most of it where they are not.
    assert strict[0] == pytest.approx(0.0, abs=0.05)
    assert paper[0] > 0.6
    assert strict[1] == pytest.approx(alpha * (1 - 2 / sizes.max()), rel=0.1)
