"""Sums that must be exact, trading effects worked by hand, ledgers without an attribution; the
attribution as metric plugins.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from statsmodels.regression.linear_model import WLS
from statsmodels.tools import add_constant

from ktdeval.attribution.asset_exposures import NOTE_MEANINGS
from ktdeval.attribution.decompose import attribute, attribution_problem, linking_coefficients
from ktdeval.attribution.factor_returns import Fit, Scheme, close_to_close, fit_factors
from ktdeval.errors import DataError, UsageError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.stats.series import newey_west_mean
from ktdeval.testing.conformance import check_metric
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.testing.markets import SnapshotDetails, random_snapshot, tiny_snapshot
from ktdeval.trading.ledger import Ledger
from ktdeval.values import dumps_canonical
from ktdeval_builtin.attribution_metrics import ATTRIBUTION, attribution_metric
from ktdeval_report.card_figures import line_intervals
from support.figures.metric_cases import order
from support.figures.portfolios import decompose
from support.figures.stats_play import play, rotation

FIRST = 270
LAST = 310
CODE = "609001.SH"
SCHEMES = get_args(Scheme)


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return random_snapshot(seed=5, n_assets=60)


@pytest.fixture(scope="module")
def fitted(snapshot: MarketSnapshot) -> Fit:
    return fit_factors(snapshot, FIRST, LAST, "paper")


@pytest.fixture(scope="module")
def ledger(snapshot: MarketSnapshot) -> Ledger:
    return play(snapshot, rotation(snapshot, 3), range(FIRST - 1, LAST))


# ---- the fit


def test_factor_returns_equal_statsmodels_day_by_day(snapshot: MarketSnapshot, fitted: Fit) -> None:
    for day, row in enumerate(range(FIRST, LAST + 1)):
        close = snapshot.adjusted_close
        used = snapshot.member[row - 1] & np.isfinite(close[row]) & np.isfinite(close[row - 1])
        returns = close[row, used] / close[row - 1, used] - 1.0
        design = add_constant(fitted.exposures.z[day, used], has_constant="add")
        # 20 days of mean amount, over the days with a bar.
        weights = np.sqrt(
            np.nanmean(
                np.where(snapshot.amount > 0, snapshot.amount, np.nan)[row - 20 : row], axis=0
            )
        )[used]
        expected = WLS(returns, design, weights=weights).fit(cov_type="HC3")
        np.testing.assert_allclose(
            [fitted.common[day], *fitted.style[day]], expected.params, rtol=0, atol=1e-12
        )
        np.testing.assert_allclose(fitted.standard_errors("HC3")[day], expected.bse, rtol=1e-9)


def test_a_return_after_a_suspension_is_held_but_not_regressed() -> None:
    snapshot = tiny_snapshot({"609001.SH": [10.0, None, 12.0], "609002.SH": [10.0, 10.1, 10.2]})
    returns, has_return, one_day = close_to_close(snapshot, range(1, 3))
    np.testing.assert_allclose(returns, [[0.0, 0.01], [0.2, 10.2 / 10.1 - 1.0]], rtol=1e-12)

    assert has_return.tolist() == [[False, True], [True, True]]
    assert one_day.tolist() == [[False, True], [False, True]]


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["long-only", "long-short", "levered", "one name", "cash"]),
    st.sampled_from(SCHEMES),
)
def test_parts_add_to_the_return_of_random_weights(seed: int, kind: str, scheme: Scheme) -> None:
    fitted = FITS[scheme]
    rng = np.random.default_rng(seed)
    shape = fitted.returns.shape
    weights = {
        "long-only": rng.dirichlet(np.full(shape[1], 0.1), shape[0]),
        "long-short": rng.normal(0.0, 0.2, shape),
        "levered": 5.0 * rng.dirichlet(np.ones(shape[1]), shape[0]),
        "one name": np.eye(shape[1])[rng.integers(shape[1], size=shape[0])],
        "cash": np.zeros(shape),
    }[kind]
    result = decompose(weights, fitted)
    added = (
        result.common + result.style.sum(axis=-1) + result.industry.sum(axis=-1) + result.selection
    )
    np.testing.assert_allclose(added, (weights * fitted.returns).sum(axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        result.held_return, (weights * fitted.returns).sum(axis=1), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        result.exposures, np.einsum("dn,dnk->dk", weights, fitted.exposures.z), rtol=0, atol=1e-12
    )


# ---- exact sums


_SHARED = random_snapshot(seed=6, n_assets=50)
FITS = {scheme: fit_factors(_SHARED, FIRST, FIRST + 15, scheme) for scheme in SCHEMES}


PARTS = ("common", "style", "industry", "selection", "exposures", "invested", "held_return")


def test_many_portfolios_at_once_are_each_its_own() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(50), (3, 16))
    together = decompose(weights, FITS["strict"])
    for portfolio in range(3):
        one = decompose(weights[portfolio], FITS["strict"])
        for name in PARTS:
            np.testing.assert_allclose(
                getattr(together, name)[portfolio], getattr(one, name), rtol=0, atol=1e-15
            )

    # The residuals of a weighted regression have weighted mean zero: its own portfolio earns what
    # the styles and market do.
    fitted = FITS["paper"]
    index = fitted.weights / fitted.weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(decompose(index, fitted).selection, 0.0, atol=1e-15)


@pytest.mark.parametrize("shape", [(16, 49), (15, 50), (16,)])
def test_weights_of_other_days_or_assets_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="expected finite numbers of 16 days × 50 assets"):
        decompose(np.zeros(shape), FITS["paper"])


# ---- ledgers


def test_a_ledger_is_split_exactly(snapshot: MarketSnapshot, ledger: Ledger, fitted: Fit) -> None:
    attribution = attribute(ledger, snapshot, fitted)
    added = (
        attribution.common
        + attribution.style.sum(axis=1)
        + attribution.industry.sum(axis=1)
        + attribution.selection
    )
    np.testing.assert_allclose(added, attribution.held_return, rtol=0, atol=1e-12)
    np.testing.assert_allclose(attribution.lines.sum(axis=1), ledger.returns, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        attribution.trading,
        attribution.timing + attribution.fees + attribution.rounding,
        atol=1e-15,
    )

    assert attribution.linked.lines is not None
    assert sum(attribution.linked.lines.values()) == pytest.approx(
        ledger.nav[-1] / ledger.nav[0] - 1.0, abs=1e-12
    )
    assert attribution.linked.total_return == pytest.approx(
        ledger.nav[-1] / ledger.nav[0] - 1.0, abs=1e-12
    )


def test_the_same_weights_as_a_table_give_the_same_parts(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    fitted = fit_factors(snapshot, FIRST, LAST)
    weights = np.zeros(fitted.returns.shape)
    for day, step in enumerate(ledger.steps[:-1]):
        for position in step.positions:
            weights[day + 1, snapshot.asset_index[position.code]] = (
                position.value_minor / step.nav_minor
            )

    attribution = attribute(ledger, snapshot, fitted)
    expected = decompose(weights, fitted)
    for name in PARTS:
        np.testing.assert_allclose(
            getattr(attribution, name), getattr(expected, name), rtol=0, atol=1e-14
        )

    np.testing.assert_allclose(
        attribution.mean_exposures(), expected.exposures[1:].mean(axis=0), atol=1e-14
    )

    assert "industry" in attribution.line_names

    np.testing.assert_allclose(
        attribution.lines.sum(axis=1), attribution.returns, rtol=0, atol=1e-12
    )


def test_a_shared_fit_of_a_longer_window_gives_the_same_attribution(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    own = attribute(ledger, snapshot)
    shared = attribute(ledger, snapshot, fit_factors(snapshot, FIRST - 20, LAST + 5))
    np.testing.assert_allclose(shared.lines, own.lines, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(shared.days, ledger.days)

    assert np.abs(own.rounding).max() < 1e-8, "no corporate actions in this market"
    assert (own.fees <= 0.0).all()
    assert own.fees.sum() < -1e-3


def holding(shares: int, ticks: int) -> list[dict[str, Any]]:
    return [
        {
            "code": CODE,
            "shares": shares,
            "locked": 0,
            "price_ticks": ticks,
            "value_minor": shares * ticks // 100,
        }
    ]


def test_a_purchase_and_a_sale_worked_by_hand() -> None:
    """Buy 1000 at 10.00, close 10.20: timing +200.00, fee 5.00; held to 10.30; sell at 10.50, close
    10.00: timing +500.00.
    """
    snapshot = tiny_snapshot(
        {"609001.SH": [10.0, 10.2, 10.3, 10.0], "609002.SH": [20.0, 20.0, 20.0, 20.0]}
    )
    cash = 100_000_000 - 1_000_000 - 500
    bought = order(CODE, filled=1000)  # at 10.00, with a fee of 5.00
    sale = order(
        CODE, "SELL", filled=1000, price_ticks=105_000, notional_minor=1_050_000, fee_minor=1575
    )
    end = cash + 1_050_000 - 1575
    ledger = ledger_of(
        [
            step_record(
                snapshot,
                0,
                1,
                orders=[bought],
                positions=holding(1000, 102_000),
                cash_minor=cash,
                nav_minor=cash + 1_020_000,
            ),
            step_record(
                snapshot,
                1,
                2,
                positions=holding(1000, 103_000),
                cash_minor=cash,
                nav_minor=cash + 1_030_000,
            ),
            step_record(snapshot, 2, 3, orders=[sale], positions=[], cash_minor=end, nav_minor=end),
        ]
    )
    attribution = attribute(ledger, snapshot)
    nav = np.array([100_000_000, cash + 1_020_000, cash + 1_030_000])
    np.testing.assert_allclose(attribution.timing, np.array([20_000, 0, 50_000]) / nav, rtol=1e-12)
    np.testing.assert_allclose(attribution.fees, np.array([-500, 0, -1575]) / nav, rtol=1e-12)
    held = np.array([0.0, 1_020_000 * (10.3 / 10.2 - 1.0), 1_030_000 * (10.0 / 10.3 - 1.0)]) / nav
    np.testing.assert_allclose(attribution.held_return, held, rtol=1e-12)
    np.testing.assert_allclose(
        attribution.invested, [0.0, 1_020_000 / nav[1], 1_030_000 / nav[2]], rtol=1e-12
    )
    np.testing.assert_allclose(attribution.rounding, 0.0, atol=1e-15)
    # Two names, no styles: the market is their weighted mean, the rest of the name's return is
    # selection.
    np.testing.assert_allclose(attribution.common + attribution.selection, held, atol=1e-16)


@pytest.mark.parametrize("before", [0, 3], ids=["a fit of these days", "of three days more"])
def test_a_suspended_holding_has_return_zero_and_a_note(before: int) -> None:
    snapshot = tiny_snapshot(
        {
            "609001.SH": [10.0] * before + [10.0, 10.0, None, 11.0],
            "609002.SH": [20.0] * before + [20.0, 20.0, 20.4, 20.4],
        }
    )
    ledger = ledger_of(
        [
            step_record(snapshot, row, row + 1, positions=holding(1000, 100_000))
            for row in (before, before + 1)
        ]
    )
    attribution = attribute(ledger, snapshot, fit_factors(snapshot, 1, before + 2))

    assert attribution.held_return[1] == 0.0
    assert attribution.common[1] + attribution.selection[1] == 0.0
    assert attribution.common[1] == pytest.approx(0.01 * 0.02)
    assert [
        (note.count, note.days) for note in attribution.notes if note.kind == "held_without_return"
    ] == [(1, 1)]


def test_a_dividend_is_no_selection_and_no_trading_effect() -> None:
    """A 2-for-1 split on day 2: adjusted prices say 0 %, and so does the NAV."""
    closes = {"609001.SH": [10.0, 10.0, 5.0], "609002.SH": [20.0, 20.0, 20.0]}
    snapshot = tiny_snapshot(closes, SnapshotDetails(factors={"609001.SH": [1.0, 1.0, 2.0]}))
    held = [holding(1000, 100_000), holding(2000, 50_000)]
    steps = [
        step_record(snapshot, step, step + 1, positions=positions)
        for step, positions in enumerate(held)
    ]
    np.testing.assert_allclose(attribute(ledger_of(steps), snapshot).lines, 0.0, atol=1e-16)


def test_factor_exposure_is_averaged_only_over_days_with_a_value() -> None:
    """No amounts: ILLIQ and CV_VOL never have a value. RV_60 has one after enough bars, and the
    days before are no zeros.
    """
    full = random_snapshot(seed=5, n_assets=60)
    bare = replace(full, amount=np.full_like(full.amount, np.nan), id="bare")
    first = 20
    held = [
        {
            "code": bare.codes[0],
            "shares": 1_000,
            "locked": 0,
            "price_ticks": 5_000_000,
            "value_minor": 50_000_000,
        }
    ]
    steps = [step_record(bare, step, first + step, positions=held) for step in range(30)]
    attribution = attribute(ledger_of(steps), bare)
    days = dict(zip(attribution.factor_names, attribution.exposure_days().tolist(), strict=True))
    means = dict(zip(attribution.factor_names, attribution.mean_exposures().tolist(), strict=True))

    assert (days["ILLIQ"], days["CV_VOL"]) == (0, 0)
    assert math.isnan(means["ILLIQ"])
    assert math.isnan(means["CV_VOL"])

    column = attribution.factor_names.index("RV_60")
    with_value = np.flatnonzero(attribution.exposures[:, column])

    assert 0 < days["RV_60"] == len(with_value) < 29 == np.count_nonzero(attribution.invested)
    assert means["RV_60"] == pytest.approx(
        attribution.exposures[with_value, column].mean(), rel=1e-12
    )

    detail = attribution_metric("selection_alpha").compute(ledger_of(steps), bare, "strict").detail
    assert isinstance(detail, dict)
    assert (detail["mean_exposures"]["ILLIQ"], detail["exposure_days"]["ILLIQ"]) == (None, 0)
    assert detail["exposure_days"] == days


def test_an_account_in_cash_has_parts_of_zero_and_no_exposure(snapshot: MarketSnapshot) -> None:
    attribution = attribute(
        ledger_of([step_record(snapshot, step, FIRST + step) for step in range(5)]), snapshot
    )

    assert (attribution.lines == 0.0).all()
    assert np.isnan(attribution.mean_exposures()).all()
    assert attribution.linked.total_return == 0.0
    assert set(attribution.linked.lines or {}) == set(attribution.line_names)

    steps = [
        step_record(snapshot, step, FIRST + step, nav_minor=100_000_000 if step < 2 else 0)
        for step in range(3)
    ]
    linked = attribute(ledger_of(steps), snapshot).linked

    assert (linked.lines, linked.total_return) == (None, -1.0), (
        "a NAV that falls to nothing is split but not linked"
    )
    assert "-100 %" in (linked.reason or "")


NO_ATTRIBUTION = [
    ([], {}, "no steps"),
    ([300, 302], {}, "do not follow on each other"),
    ([300, 301, 302], {1: 0}, "the NAV is not positive before the last step"),
]


@pytest.mark.parametrize(("rows", "nav", "reason"), NO_ATTRIBUTION)
def test_a_ledger_without_attribution_gives_the_reason(
    snapshot: MarketSnapshot, rows: list[int], nav: dict[int, int], reason: str
) -> None:
    steps = [
        step_record(snapshot, step, row, nav_minor=nav.get(step, 100_000_000))
        for step, row in enumerate(rows)
    ]
    ledger = ledger_of(steps)

    assert reason in (attribution_problem(ledger, snapshot) or "")

    with pytest.raises(DataError, match=reason):
        attribute(ledger, snapshot)


def test_days_and_codes_of_another_market_are_refused(
    snapshot: MarketSnapshot, ledger: Ledger, fitted: Fit
) -> None:
    other = tiny_snapshot({"609001.SH": [10.0, 10.2, 10.3]}, first_day="2020-01-01")
    assert attribution_problem(ledger, other) == "the ledger's days are not days of this snapshot"

    with pytest.raises(DataError, match="the fit covers rows 270…310"):
        attribute(play(snapshot, rotation(snapshot, 3), range(FIRST - 5, FIRST)), snapshot, fitted)

    position = {"code": "600000.SH", "shares": 1, "locked": 0, "price_ticks": 1, "value_minor": 1}
    foreign = step_record(snapshot, 0, FIRST, positions=[position])
    with pytest.raises(
        DataError, match=r"600000\.SH is held, but is not an asset of this snapshot"
    ):
        attribute(ledger_of([foreign, step_record(snapshot, 1, FIRST + 1)]), snapshot)


def test_every_kind_of_note_is_documented(repository: Path) -> None:
    text = (repository / "docs" / "attribution.md").read_text()
    assert [kind for kind in NOTE_MEANINGS if f"`{kind}`" not in text] == []


# ---- Carino linking: contributions that add to the geometric total return

RETURNS = st.one_of(st.just(0.0), st.floats(-0.9, 3.0), st.floats(-1e-9, 1e-9))


def link(lines: np.ndarray, returns: np.ndarray) -> np.ndarray:
    return np.einsum("...dl,...d->...l", lines, linking_coefficients(returns))


def test_a_case_worked_by_hand() -> None:
    """+10 % then -5 %: total 4.5 %. k1 = ln1.1/.1 = .953102, k2 = ln.95/-.05 = 1.025866, K =
    ln1.045/.045 = .978153.
    """
    returns = np.array([0.10, -0.05])
    contributions = np.array([[0.06, 0.04], [-0.07, 0.02]])
    first = (0.06 * math.log(1.1) / 0.1 - 0.07 * math.log(0.95) / -0.05) / (math.log(1.045) / 0.045)
    second = (0.04 * math.log(1.1) / 0.1 + 0.02 * math.log(0.95) / -0.05) / (
        math.log(1.045) / 0.045
    )

    assert first == pytest.approx(-0.0149511, abs=1e-7)
    assert second == pytest.approx(0.0599511, abs=1e-7)

    np.testing.assert_allclose(link(contributions, returns), [first, second], rtol=1e-12)
    assert first + second == pytest.approx(1.1 * 0.95 - 1.0, abs=1e-15)


@pytest.mark.exhaustive
@given(st.lists(RETURNS, min_size=1, max_size=60), st.integers(0, 2**32 - 1))
def test_linked_lines_add_to_the_total_return(returns: list[float], seed: int) -> None:
    daily = np.array(returns)
    lines = np.random.default_rng(seed).normal(0.0, 0.01, (len(daily), 4))
    lines[:, 3] = daily - lines[:, :3].sum(axis=1)
    total = math.expm1(math.fsum(math.log1p(value) for value in returns))

    assert link(lines, daily).sum() == pytest.approx(total, rel=1e-12, abs=1e-12)


def test_edges_are_linked_without_a_division_by_zero() -> None:
    linked = link(np.array([[0.2, 0.05], [-0.05, -0.15]]), np.array([0.25, -0.2]))
    assert np.isfinite(linked).all()
    assert linked.sum() == pytest.approx(0.0, abs=1e-15), "a total return of zero"

    # Two lines that offset each other on a flat day are still there in the end; one day is its own
    # link.
    np.testing.assert_allclose(
        link(np.array([[0.03, -0.03]]), np.array([0.0])), [0.03, -0.03], rtol=1e-15
    )
    np.testing.assert_allclose(
        link(np.array([[0.02, -0.05]]), np.array([-0.03])), [0.02, -0.05], rtol=1e-14
    )


@pytest.mark.parametrize("worst", [-1.0, -1.5])
def test_returns_that_lose_the_whole_nav_are_not_linked(worst: float) -> None:
    coefficients = linking_coefficients(np.array([[0.1, worst], [0.1, 0.1]]))
    assert np.isnan(coefficients[0]).all()
    assert np.isfinite(coefficients[1]).all()


def test_draws_are_linked_each_for_itself() -> None:
    lines = np.random.default_rng(0).normal(0, 0.01, (5, 30, 3))
    returns = lines.sum(axis=-1)
    together = link(lines, returns)

    for draw in range(5):
        np.testing.assert_allclose(together[draw], link(lines[draw], returns[draw]), rtol=1e-13)


# ---- as metrics


NAMES = ("common_return", "industry_return", "style_return", "selection_alpha", "trading_effect")
PAPER = ("paper_common_return", "paper_style_return", "paper_selection_alpha")
VERSIONS = dict.fromkeys(("common_return", "style_return", "selection_alpha"), 2)


def test_metrics_keep_the_contract_and_are_documented(
    snapshot: MarketSnapshot, repository: Path
) -> None:
    text = (repository / "docs" / "attribution.md").read_text()
    for name in (*NAMES, *PAPER):
        metric = attribution_metric(name)
        version = f"{name}/{VERSIONS.get(name, 1)}"
        check_metric(metric, snapshot)
        assert metric.formula.startswith(f"{version}: ")
        assert f"`{version}`" in text
        assert not metric.headline

    with pytest.raises(UsageError, match="did you mean 'selection_alpha'"):
        attribution_metric("selection_alfa")


def test_the_parts_of_both_rule_sets_add_to_the_total_return_for_any_card(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    metrics = list(map(attribution_metric, ATTRIBUTION))
    first = {metric.name: metric.compute(ledger, snapshot, "strict") for metric in metrics}
    again = {metric.name: metric.compute(ledger, snapshot, "paper") for metric in metrics}

    assert first == again

    total = ledger.nav[-1] / ledger.nav[0] - 1.0

    for names in (NAMES, (*PAPER, "trading_effect")):
        assert sum(first[name].value or 0.0 for name in names) == pytest.approx(total, abs=1e-12)

    # Each fit with what it explains; more industries explain more, and the metrics are the schemes'
    # own.
    schemes = (first["selection_alpha"].detail or {})["schemes"]

    assert schemes["strict"]["selection"] == first["selection_alpha"].value
    assert schemes["paper"]["selection"] == first["paper_selection_alpha"].value
    # No industry of this market has the fifteen names that `coarse` asks for.
    assert schemes.pop("coarse") is None

    explained = [schemes[scheme]["r_squared"] for scheme in ("paper", "strict", "fine")]
    assert explained == sorted(explained)

    for entry in schemes.values():
        assert entry["adjusted_r_squared"] < entry["r_squared"]
        assert entry["degrees_of_freedom"] == pytest.approx(entry["names"] - entry["parameters"])


def test_industries_that_nobody_knows_have_no_part_and_no_scheme(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    unknown = replace(snapshot, industries=("unknown",) * len(snapshot.codes))
    industry = attribution_metric("industry_return").compute(ledger, unknown, "strict")
    selection = attribution_metric("selection_alpha").compute(ledger, unknown, "strict")
    as_paper = attribution_metric("paper_selection_alpha").compute(ledger, unknown, "strict")

    assert (industry.value, industry.reason) == (
        None,
        "no industry is known of five names or more: all are one cross-section",
    )
    assert selection.value == pytest.approx(as_paper.value, abs=1e-12)

    detail = selection.detail or {}
    assert "industry" not in detail["linked"]
    assert "industry" not in detail["intervals"]
    assert {name for name, entry in detail["schemes"].items() if entry is None} == {
        "strict",
        "coarse",
        "fine",
    }


def test_styles_without_history_have_no_part_and_others_add_to_the_return() -> None:
    young = random_snapshot(seed=2, n_assets=60)
    early = play(young, rotation(young, 3), range(3, 9))
    metrics = {name: attribution_metric(name).compute(early, young, "strict") for name in NAMES}

    style = metrics["style_return"]

    assert (style.value, style.reason) == (
        None,
        "no style exposure is known on any day of the window",
    )

    known = [metric.value for metric in metrics.values() if metric.value is not None]
    assert sum(known) == pytest.approx(early.nav[-1] / early.nav[0] - 1.0, abs=1e-12)


def test_selection_carries_lines_exposures_and_its_error(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    value = attribution_metric("selection_alpha").compute(ledger, snapshot, "strict")
    attribution = attribute(ledger, snapshot)
    detail = value.detail

    assert isinstance(detail, dict)
    assert detail["linked"] == pytest.approx(attribution.linked.lines)
    assert sum(detail["linked"].values()) == pytest.approx(detail["total_return"], abs=1e-12)

    mean, se = newey_west_mean(attribution.selection)
    assert detail["daily"] == {
        "mean": pytest.approx(mean),
        "se": pytest.approx(se),
        "t": pytest.approx(mean / se),
        "reason": None,
    }

    exposures = dict(zip(attribution.factor_names, attribution.mean_exposures(), strict=True))
    assert detail["mean_exposures"] == pytest.approx(exposures)
    # nothing is held over the first day
    assert set(detail["exposure_days"].values()) == {len(ledger.steps) - 1}
    assert value.n == len(ledger.steps)


@pytest.mark.parametrize("name", [*NAMES, *PAPER])
def test_one_day_in_cash_is_zero_with_nulls_where_nothing_is_defined(
    name: str, snapshot: MarketSnapshot
) -> None:
    value = attribution_metric(name).compute(
        ledger_of([step_record(snapshot, 0, 300)]), snapshot, "strict"
    )

    assert value.value == 0.0

    dumps_canonical(value.detail)

    if name == "selection_alpha":
        assert value.detail["daily"]["reason"] == "fewer than two days"
        assert set(value.detail["mean_exposures"].values()) == {None}


def test_runs_of_one_nav_have_one_interval_on_card_and_in_a_report(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    again = replace(ledger, spec={**ledger.spec, "seed": 7})
    one, other = (
        attribution_metric("selection_alpha").compute(run, snapshot, "strict").detail["intervals"]
        for run in (ledger, again)
    )
    attribution = attribute(again, snapshot)
    drawn = line_intervals(attribution)

    assert one == other

    # Another processor's sums differ in their last bits, and with a seed of these all draws would.
    elsewhere = line_intervals(
        replace(attribution, selection=attribution.selection * (1 + 2**-50))
    )["selection"]

    assert elsewhere.high == pytest.approx(drawn["selection"].high, rel=1e-9)
    assert drawn.pop("rounding").low is None  # a report has none of the remainder
    assert {name: one[name] for name in one if name in drawn} == {
        name: drawn[name].to_json() for name in one if name in drawn
    }
    assert one.keys() - drawn.keys() == {"rounding"}


def test_a_ledger_without_attribution_gives_null_and_the_reason(snapshot: MarketSnapshot) -> None:
    metric = attribution_metric("selection_alpha")
    assert metric.compute(ledger_of([]), snapshot, "strict").reason == "no steps"

    ruined = ledger_of(
        [
            step_record(snapshot, step, 300 + step, nav_minor=0 if step else 100_000_000)
            for step in range(2)
        ]
    )

    assert "-100 %" in (metric.compute(ruined, snapshot, "strict").reason or "")
