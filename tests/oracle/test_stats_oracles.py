"""Every metric of the panel to 1e-10 against a library that is not ours, or a form of its own;
differing conventions are stated.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy import stats
from statsmodels.regression.linear_model import OLS

from ktdeval.market import Document, Documents
from ktdeval.market.snapshots.documents import Entity
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats.calibration import judged_orders
from ktdeval.stats.factorial_effects import estimate_mean
from ktdeval.stats.metric_panel import panel_metric, panel_metrics
from ktdeval.stats.paired import signed_rank
from ktdeval.stats.series import automatic_lags, newey_west_mean
from ktdeval.testing.markets import random_snapshot
from ktdeval.trading.ledger import Ledger
from ktdeval.values import to_plain
from support.figures.metric_cases import CODES, ledger, market, order, step
from support.figures.stats_play import play, rotation

CLOSE = {"rel": 1e-10, "abs": 1e-12}
CHECKED: set[str] = set()


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return random_snapshot(seed=9, n_assets=50, n_days=320)


@pytest.fixture(scope="module")
def played(snapshot: MarketSnapshot) -> Ledger:
    return play(snapshot, rotation(snapshot, 2, names=10, swaps=2), range(10, 310))


def check(
    name: str, of: Ledger, on: MarketSnapshot, expected: float, rules: Any = "strict"
) -> None:
    CHECKED.add(name)
    assert panel_metric(name).compute(of, on, rules).value == pytest.approx(
        float(expected), **CLOSE
    )


def daily(played: Ledger, snapshot: MarketSnapshot) -> tuple[pd.Series, pd.Series]:
    """Daily returns of the NAV and of the benchmark, from pandas."""
    nav = pd.Series(
        [played.initial_cash_minor, *(record.nav_minor for record in played.steps)], dtype=float
    )
    days = [played.steps[0].decided_on, *(record.filled_on for record in played.steps)]
    levels = pd.Series(snapshot.benchmark, index=snapshot.days.astype(str))[days].reset_index(
        drop=True
    )

    return nav.pct_change().dropna(), levels.pct_change().dropna()


@pytest.mark.slow
def test_returns_and_risk_equal_empyrical(played: Ledger, snapshot: MarketSnapshot) -> None:
    empyrical = pytest.importorskip("empyrical")
    own, index = daily(played, snapshot)
    check("total_return", played, snapshot, empyrical.cum_returns_final(own))
    check("sharpe", played, snapshot, empyrical.sharpe_ratio(own))
    check("sortino", played, snapshot, empyrical.sortino_ratio(own))
    # empyrical's drawdown is negative.
    check("max_drawdown", played, snapshot, -empyrical.max_drawdown(own))
    # excess_sharpe is a day's; ours is annualised.
    check(
        "information_ratio", played, snapshot, empyrical.excess_sharpe(own, index) * math.sqrt(252)
    )


def entries_by_step(rows: Any, name: str) -> pd.DataFrame:
    """Orders or positions of all steps, each with its step."""
    entries = []
    for row in rows:
        entries += [{"step": row["step"], **entry} for entry in row[name]]

    return pd.DataFrame(entries)


def test_behaviour_equals_pandas_forms(played: Ledger, snapshot: MarketSnapshot) -> None:
    rows = to_plain(played.steps)
    steps = pd.DataFrame(rows)
    orders = entries_by_step(rows, "orders")
    held = entries_by_step(rows, "positions")
    traded = orders.groupby("step")["notional_minor"].sum().reindex(steps["step"], fill_value=0)
    check("turnover", played, snapshot, (traded.to_numpy() / steps["open_nav_minor"]).mean() * 252)
    values = held.pivot_table(
        index="step", columns="code", values="value_minor", fill_value=0.0
    ).reindex(steps["step"], fill_value=0.0)
    inside = values.div(values.sum(axis=1), axis=0)
    check("hhi", played, snapshot, (inside**2).sum(axis=1).mean())
    weights = values.div(steps["nav_minor"].to_numpy(), axis=0)
    check("hhi", played, snapshot, (weights**2).sum(axis=1).mean(), "paper")
    check(
        "turnover",
        played,
        snapshot,
        (weights.diff().abs().sum(axis=1).iloc[1:].sum() + weights.iloc[0].sum()) * 252 / 300,
        "paper",
    )
    check("cash_ratio", played, snapshot, (steps["cash_minor"] / steps["nav_minor"]).mean())
    check("abstention_rate", played, snapshot, 1 - orders["step"].nunique() / len(steps))


@pytest.mark.exhaustive
def test_calibration_equals_scikit_learn(played: Ledger, snapshot: MarketSnapshot) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    calibration = pytest.importorskip("sklearn.calibration")
    forecasts = judged_orders(played, snapshot).forecasts
    confidence = np.array([forecast.confidence for forecast in forecasts])
    success = np.array([forecast.success for forecast in forecasts])

    assert len(forecasts) > 900

    check("brier", played, snapshot, metrics.brier_score_loss(success, confidence))
    # scikit-learn's bins hold their upper edge, ours their lower: confidences of two decimals are
    # moved off the edges of both.
    accuracy, stated = calibration.calibration_curve(
        success, np.minimum(confidence + 1e-9, 1.0), n_bins=10
    )
    counts = np.unique(np.minimum((confidence + 1e-9) // 0.1, 9), return_counts=True)[1] / len(
        success
    )

    assert panel_metric("ece").compute(played, snapshot, "strict").value == pytest.approx(
        counts @ abs(accuracy - stated), abs=2e-9
    )

    places = np.minimum(np.floor(confidence * 100 + 1e-6) // 10, 9)
    frame = pd.DataFrame(
        {"place": places, "confidence": confidence, "success": success.astype(float)}
    )
    bins = frame.groupby("place").agg(
        n=("success", "size"), accuracy=("success", "mean"), stated=("confidence", "mean")
    )
    share = bins["n"] / len(frame)
    base = success.mean()
    check("ece", played, snapshot, share @ (bins["accuracy"] - bins["stated"]).abs())
    check("brier_reliability", played, snapshot, share @ (bins["accuracy"] - bins["stated"]) ** 2)
    check("brier_resolution", played, snapshot, share @ (bins["accuracy"] - base) ** 2)
    check("brier_uncertainty", played, snapshot, np.var(success.astype(float)))
    noise = bins["accuracy"] * (1 - bins["accuracy"])
    check(
        "reliability_debiased",
        played,
        snapshot,
        share @ ((bins["accuracy"] - bins["stated"]) ** 2 - noise / (bins["n"] - 1)),
    )
    gaps = (bins["accuracy"] - bins["stated"]).abs()
    spreads = np.sqrt(noise / bins["n"])
    folded = stats.foldnorm.mean(gaps / spreads, scale=spreads)
    check("ece_debiased", played, snapshot, max(share @ (2 * gaps - folded), 0.0))


def test_luck_equals_scipy_forms(played: Ledger, snapshot: MarketSnapshot) -> None:
    own, _ = daily(played, snapshot)
    ratio = own.mean() / own.std()
    error = math.sqrt(
        (1 - stats.skew(own) * ratio + (stats.kurtosis(own, fisher=False) - 1) / 4 * ratio**2)
        / (len(own) - 1)
    )
    check("psr", played, snapshot, stats.norm.cdf(ratio / error))
    up = play(snapshot, rotation(snapshot, 5, names=10, swaps=1), range(10, 100))
    gains, _ = daily(up, snapshot)
    ratio = abs(gains.mean()) / gains.std()
    years = panel_metric("min_track_record").compute(up, snapshot, "strict")
    variance = (
        1 - stats.skew(gains) * ratio + (stats.kurtosis(gains, fisher=False) - 1) / 4 * ratio**2
    )

    if gains.mean() > 0:
        assert years.value == pytest.approx(
            (1 + variance * (stats.norm.ppf(0.95) / ratio) ** 2) / 252, rel=1e-10
        )
    else:
        assert years.reason == "never: the Sharpe ratio is not positive"

    CHECKED.add("min_track_record")


def test_counts_by_hand() -> None:
    provenances = ["model", "model", "model_after_retry", "fallback", "error"]
    steps = [
        step(
            number,
            1000,
            provenance=provenance,
            tool_calls=number,
            tool_calls_valid=number // 2,
            unmask_attempts=number,
        )
        for number, provenance in enumerate(provenances)
    ]
    steps[0]["orders"] = [order(CODES[0])]
    of = ledger(steps)
    on = market()
    check("parse_failure_rate", of, on, 1 / 4)  # among steps whose model calls worked
    check("decision_coverage", of, on, 3 / 5)
    check("abstention_rate", of, on, 2 / 3)  # a failed step is no decision
    check("abstention_rate", of, on, 4 / 5, "paper")
    check("tool_validity_rate", of, on, (0 + 0 + 1 + 1 + 2) / 10)
    check("unmask_attempts", of, on, 10)


def test_documents_withheld_equals_a_count_by_the_calendar(
    played: Ledger, snapshot: MarketSnapshot
) -> None:
    # Two assets share a name: in a text that is filed under neither of them it can't be told which
    # is meant.
    chance, (first, second, *_) = np.random.default_rng(4), snapshot.codes
    stamps = pd.to_datetime(snapshot.days[0]) + pd.to_timedelta(
        chance.uniform(0, 450, 400), unit="D"
    ).floor("s")
    rows = pd.DataFrame(
        {"at": stamps.tz_localize("Asia/Shanghai"), "is_named": chance.random(400) < 0.4}
    )
    items = [
        Document(at, at, "wire", "news", (), f"{'Alpha Foods' if named else 'Rain'} came", "")
        for at, named in rows.values
    ]
    entities = (Entity(first, "name", "Alpha Foods"), Entity(second, "name", "Alpha Foods"))
    market = dataclasses.replace(snapshot, documents=Documents.of(items, entities=entities))
    before = snapshot.days[snapshot.day_index(played.steps[0].decided_on) - 1]
    begin = pd.Timestamp(f"{before} 15:00", tz="Asia/Shanghai")
    known = rows[
        (rows["at"] > begin)
        & (rows["at"] <= pd.Timestamp(f"{played.steps[-1].decided_on} 15:00", tz="Asia/Shanghai"))
    ]

    assert 0 < known["is_named"].sum() < len(known)

    of = dataclasses.replace(played, spec={**played.spec, "mask": "blinded"})
    check("documents_withheld", of, market, known["is_named"].mean())
    share = panel_metric("documents_withheld").compute(of, market, "strict")

    assert share.detail == {"known": len(known), "withheld": int(known["is_named"].sum())}


@pytest.mark.slow
def test_no_metric_of_the_panel_is_without_an_oracle(
    played: Ledger, snapshot: MarketSnapshot
) -> None:
    pytest.importorskip("empyrical")
    pytest.importorskip("sklearn")
    CHECKED.clear()
    test_returns_and_risk_equal_empyrical(played, snapshot)
    test_behaviour_equals_pandas_forms(played, snapshot)
    test_calibration_equals_scikit_learn(played, snapshot)
    test_luck_equals_scipy_forms(played, snapshot)
    test_counts_by_hand()
    test_documents_withheld_equals_a_count_by_the_calendar(played, snapshot)

    assert {metric.name for metric in panel_metrics()} == CHECKED


# -- Newey-West standard errors

series = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=80)


@pytest.mark.parametrize("lags", [0, 1, 5, 20])
def test_mean_and_error_equal_statsmodels(lags: int) -> None:
    values = np.cumsum(np.random.default_rng(3).normal(size=300)) / 10
    fit = OLS(values, np.ones(300)).fit(
        cov_type="HAC", cov_kwds={"maxlags": lags, "use_correction": True}
    )
    hac = newey_west_mean(values, lags)

    assert hac.mean == pytest.approx(fit.params[0], rel=1e-12)
    assert hac.se == pytest.approx(fit.bse[0], rel=1e-10)


def test_error_by_hand() -> None:
    # Deviations 1, -1, 1, -1: g(0) = 4, g(1) = -3, weight 1/2: 4 - 3 = 1; sqrt(1 / (4 * 3)).
    assert newey_west_mean([2.0, 0.0, 2.0, 0.0], 1) == pytest.approx((1.0, math.sqrt(1 / 12)))


@pytest.mark.slow
@given(series, st.floats(0.01, 100))
def test_newey_west_error_scales_and_is_classic_without_lags(
    values: list[float], factor: float
) -> None:
    expected = np.std(values, ddof=1) / math.sqrt(len(values))
    assert newey_west_mean(values, 0).se == pytest.approx(expected, rel=1e-9, abs=1e-15)

    before = newey_west_mean(values)
    after = newey_west_mean(np.array(values) * factor)

    assert after.se == pytest.approx(before.se * factor, rel=1e-6, abs=1e-9)
    assert newey_west_mean(values[::-1]).se == pytest.approx(before.se, rel=1e-6, abs=1e-9)


def test_automatic_lags_follow_newey_and_west() -> None:
    assert [automatic_lags(n) for n in (2, 43, 100, 548)] == [1, 3, 4, 5]


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [[1.0, 2.0]]], ids=str)
def test_values_without_an_error_of_their_mean_are_refused(values: list[Any]) -> None:
    with pytest.raises(ValueError, match="at least two finite values"):
        newey_west_mean(values)


def test_more_lags_than_values_are_refused() -> None:
    with pytest.raises(ValueError, match="4 lags for 4 values: use 0 to 3"):
        newey_west_mean([1.0, 2.0, 3.0, 4.0], 4)


def test_a_mean_of_equal_values_has_no_variation_and_no_interval() -> None:
    same = estimate_mean(np.full(3, 0.1))

    assert (same.value, same.n, same.se) == (0.1, 3, 0.0)
    assert (same.low, same.high) == (None, None)
    assert same.reason == "no variation: all values are the same"
    assert (same.t_p, estimate_mean(np.zeros(4)).t_p) == (0.0, 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_signed_ranks_of_differences_that_are_not_finite_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="differences must be finite"):
        signed_rank(np.array([0.1, value, -0.2]))
