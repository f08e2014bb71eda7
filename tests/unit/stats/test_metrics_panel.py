"""The panel against hand-worked figures, independent forms of the same formulas, and degenerate
ledgers. Metrics made of functions: what they may ask for and return, and that a plugin with one is
ten lines.
"""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ktdeval_builtin
from ktdeval.api import MetricValue, metric
from ktdeval.cards.card import TradingCard
from ktdeval.cards.schema import card_schema
from ktdeval.errors import PluginError, UsageError
from ktdeval.market import Instrument, find_venue
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.stats import episode_intervals, metric_panel, performance_metrics, series
from ktdeval.stats.metric import RuleSet, range_problem
from ktdeval.stats.metric_panel import panel_metrics
from ktdeval.testing import check_metric, on_each_row
from ktdeval.testing.ledger_fixtures import ledger_of, step_record
from ktdeval.testing.markets import SnapshotDetails, tiny_snapshot
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values import from_plain, to_plain
from ktdeval_builtin.attribution_metrics import ATTRIBUTION, attribution_metric
from support.figures.metric_cases import CODES, ledger, market, nav_ledger, order, step

MARKET = market()
RULE_SETS: tuple[RuleSet, ...] = ("strict", "paper")
NAVS = [1010, 1000, 900, 990, 1100]


def compute(name: str, of: Ledger, rules: RuleSet = "strict") -> MetricValue:
    return metric_panel.panel_metric(name).compute(of, MARKET, rules)


def value(name: str, of: Ledger, rules: RuleSet = "strict") -> float:
    result = compute(name, of, rules)
    assert result.value is not None, result.reason
    return result.value


def traded(side: str, notional_minor: int, code: str = CODES[0]) -> dict[str, Any]:
    return order(code, side, notional_minor=notional_minor)


@pytest.mark.parametrize(
    ("value", "ends", "is_inside"),
    [
        (None, (0.0, 1.0), True),  # undefined, with a reason
        (0.0, (0.0, 1.0), True),
        (1, (0, 1), True),
        (1.0 + 1e-10, (0.0, 1.0), True),  # the last bits of a sum
        (-1e-13, (0.0, 1.0), True),
        (-1e300, (None, 1.0), True),
        (1.0 + 1e-8, (0.0, 1.0), False),
        (-1e-8, (0.0, None), False),
        (math.nan, (None, None), False),
    ],
)
def test_a_value_is_in_the_range_of_its_metric_up_to_rounding(
    value: Any, ends: Any, is_inside: bool
) -> None:
    assert (range_problem(value, ends) == "") is is_inside


@pytest.mark.parametrize("name", ["turnover", "cash_ratio", "hhi"])
@pytest.mark.parametrize("nav", [0, -5])
def test_a_share_of_a_nav_that_is_not_positive_is_undefined(name: str, nav: int) -> None:
    at_close = ledger([step(0, 1000), step(1, nav)], 1000)
    rules: RuleSet = "paper" if name == "hhi" else "strict"

    assert compute(name, at_close, rules).reason == "the NAV is not positive on a step"

    if name == "turnover":
        at_open = ledger([step(0, 1000), step(1, 1000, open_nav_minor=nav)], 1000)
        assert compute(name, at_open).reason == "the NAV is not positive on a step"


# -- by hand
# ------------------------------------------------------------------------------------------------------------

PAIR = ledger([step(0, 800, {CODES[0]: 100, CODES[1]: 100})])
DRIFT = ledger([step(0, 500, {CODES[0]: 500}), step(1, 500, {CODES[0]: 1500})])
PARTLY = ledger([step(0, 1000), step(1, 900, {CODES[0]: 100})])
BY_HAND: list[tuple[str, Ledger, RuleSet, float, int]] = [
    ("total_return", nav_ledger(NAVS), "strict", 0.1, 5),
    # the peak of 1010 falls to 900; a later rise changes nothing
    ("max_drawdown", nav_ledger(NAVS), "strict", 110 / 1010, 5),
    ("max_drawdown", nav_ledger([800, 900]), "strict", 0.2, 2),  # from the initial cash
    ("max_drawdown", nav_ledger([1000, 1001, 1002]), "strict", 0.0, 3),
    # +10 % and 0 %
    ("sharpe", nav_ledger([1100, 1100]), "strict", 0.05 / (0.1 / math.sqrt(2)) * math.sqrt(252), 2),
    # +10 % and -5 %: the loss alone is risk, and it counts for both days
    (
        "sortino",
        nav_ledger([1100, 1045]),
        "strict",
        0.025 / math.sqrt(0.05**2 / 2) * math.sqrt(252),
        2,
    ),
    ("turnover", DRIFT, "strict", 0.0, 2),  # price drift alone is turnover for the paper
    ("turnover", DRIFT, "paper", (0.5 + 0.25) * 252 / 2, 2),
    ("hhi", PAIR, "strict", 0.5, 1),  # one over the number of equal holdings
    ("hhi", PAIR, "paper", 2 * 0.1**2, 1),  # of weights of NAV
    ("hhi", PARTLY, "strict", 1.0, 1),  # all-cash steps are left out
    ("hhi", PARTLY, "paper", 0.1**2 / 2, 2),
]


@pytest.mark.parametrize(("name", "of", "rules", "expected", "n"), BY_HAND)
def test_a_metric_by_hand(name: str, of: Ledger, rules: RuleSet, expected: float, n: int) -> None:
    value = compute(name, of, rules)
    assert (value.value, value.n) == (pytest.approx(expected, rel=1e-12, abs=1e-15), n)


def test_what_does_not_vary_has_no_ratio() -> None:
    tracker = nav_ledger([101_000, 99_000, 99_000, 102_000, 103_000], 100_000)
    assert compute("information_ratio", tracker).reason == "excess returns have no variance"

    gap = market(benchmark=[100.0, 101.0, math.nan, 99.0, 102.0, 103.0])
    assert (
        performance_metrics.information_ratio.compute(nav_ledger(NAVS), gap, "strict").reason
        == "benchmark: a level is missing"
    )
    # 10 % every day: rounding leaves a deviation of about 1e-17, which is no risk estimate.
    assert compute("sharpe", nav_ledger([1100, 1210, 1331])).reason == "returns have no variance"
    # no loss is no infinite ratio
    assert compute("sortino", nav_ledger([1100, 1100, 1331])).reason == "no day has a loss"


def ledger_of_navs(
    navs: list[int], benchmark: list[float] | None = None
) -> tuple[Ledger, MarketSnapshot]:
    """A ledger of CNY 1,000,000 whose NAV is given in fen for any number of days, and its
    market.
    """
    snapshot = tiny_snapshot(
        {"609001.SH": [10.0] * (len(navs) + 1)}, SnapshotDetails(benchmark=benchmark)
    )
    steps = [
        step_record(snapshot, number, number + 1, nav_minor=nav) for number, nav in enumerate(navs)
    ]

    return ledger_of(steps), snapshot


@pytest.mark.parametrize("name", ["sharpe", "psr", "min_track_record"])
def test_a_spread_below_one_minor_unit_of_the_nav_is_no_variance(name: str) -> None:
    # A NAV of 1,000,000.00 that falls 0.3 % a day: its returns differ only because money has two
    # decimals.
    navs = list(accumulate(range(43), lambda nav, _: round(nav * 0.997), initial=100_000_000))[1:]
    steady, snapshot = ledger_of_navs(navs)

    assert 0 < np.std(steady.returns, ddof=1) < steady.return_resolution
    assert steady.return_resolution == pytest.approx(1 / min(navs))
    assert (
        metric_panel.panel_metric(name).compute(steady, snapshot, "strict").reason
        == "returns have no variance"
    )
    assert episode_intervals(steady, snapshot)["sharpe"].reason == "the series has no variance"


def test_a_spread_of_a_few_minor_units_is_variance() -> None:
    # One fee of CNY 5 on one of 43 days: mean -500 / 43 fen a day, deviation 500 / sqrt(43) fen of
    # 100,000,000.
    once, snapshot = ledger_of_navs([100_000_000] * 20 + [99_999_500] * 23)
    assert performance_metrics.sharpe.compute(once, snapshot, "strict").value == pytest.approx(
        -math.sqrt(252 / 43), rel=1e-5
    )


def test_nav_equal_to_its_benchmark_has_no_information_ratio() -> None:
    returns = np.random.default_rng(1).normal(0, 0.01, 43)
    levels = np.concatenate([[100.0], 100.0 * np.cumprod(1 + returns)])
    tracker, snapshot = ledger_of_navs(
        [round(1_000_000 * level) for level in levels[1:]], levels.tolist()
    )

    assert (
        performance_metrics.information_ratio.compute(tracker, snapshot, "strict").reason
        == "excess returns have no variance"
    )

    intervals = episode_intervals(tracker, snapshot)
    assert intervals["information_ratio"].reason == "the series has no variance"
    assert intervals["sharpe"].low is not None


def test_an_account_that_stood_still_has_no_ratio_to_its_benchmark() -> None:
    """It would be that of the benchmark alone: -8.57 or +1.46 for an agent that decided nothing."""
    levels = 100.0 * np.cumprod(1 + np.random.default_rng(2).normal(0, 0.01, 44))
    still, snapshot = ledger_of_navs([100_000_000] * 43, levels.tolist())

    for one in metric_panel.panel_metrics():
        if one.unit == "annualised ratio":
            assert one.compute(still, snapshot, "strict").value is None, one.name

    ratio = performance_metrics.information_ratio.compute(still, snapshot, "strict")
    assert ratio.reason == "returns have no variance"
    interval = episode_intervals(still, snapshot)["information_ratio"]
    assert (interval.low, interval.reason) == (None, "returns have no variance")


# -- degenerate ledgers
# -------------------------------------------------------------------------------------------------

NO_ORDERS = {
    "ece",
    "brier",
    "brier_reliability",
    "brier_resolution",
    "brier_uncertainty",
    "ece_debiased",
    "reliability_debiased",
}
NO_LUCK = {"psr", "min_track_record"}
NO_TEXTS = {"documents_withheld"}  # the market has none
UNDEFINED: Mapping[str, tuple[Ledger, set[str]]] = {
    "no step": (
        ledger([]),
        {metric.name for metric in metric_panel.panel_metrics()} - {"unmask_attempts"},
    ),
    "one day": (
        nav_ledger([1100]),
        {"sharpe", "sortino", "information_ratio", "tool_validity_rate", *NO_ORDERS, *NO_LUCK},
    ),
    "constant NAV": (
        nav_ledger([1000] * 5),
        {"sharpe", "sortino", "information_ratio", "tool_validity_rate", *NO_ORDERS, *NO_LUCK},
    ),
    "all cash": (
        ledger([step(k, 1000) for k in range(5)]),
        {
            "sharpe",
            "sortino",
            "information_ratio",
            "hhi",
            "tool_validity_rate",
            *NO_ORDERS,
            *NO_LUCK,
        },
    ),
    "every call failed": (
        ledger([step(k, 1000, provenance="error") for k in range(5)]),
        {
            "sharpe",
            "sortino",
            "information_ratio",
            "turnover",
            "hhi",
            "cash_ratio",
            "tool_validity_rate",
            "abstention_rate",
            "parse_failure_rate",
            *NO_ORDERS,
            *NO_LUCK,
        },
    ),
    "everything lost": (
        nav_ledger([1000, 0, 0]),
        {
            "total_return",
            "sharpe",
            "sortino",
            "max_drawdown",
            "information_ratio",
            "turnover",
            "cash_ratio",
            "tool_validity_rate",
        }
        | NO_ORDERS
        | NO_LUCK,
    ),
}


@pytest.mark.parametrize("why", UNDEFINED)
def test_exactly_undefined_values_are_none_with_a_reason(why: str) -> None:
    of, expected = UNDEFINED[why]
    results = {
        metric.name: metric.compute(of, MARKET, "strict") for metric in metric_panel.panel_metrics()
    }

    assert {name for name, result in results.items() if result.value is None} == expected | NO_TEXTS
    assert all(result.reason for result in results.values() if result.value is None)
    assert results["tool_validity_rate"].n == 0


@pytest.mark.parametrize("rules", RULE_SETS)
@pytest.mark.parametrize("provenance", ["error", "fallback"])
@pytest.mark.parametrize("name", metric_panel.PANEL_FAMILIES["behaviour"])
def test_a_model_that_never_decided_has_no_behaviour(
    name: str, provenance: str, rules: RuleSet
) -> None:
    never = ledger([step(k, 1000, provenance=provenance) for k in range(3)])
    result = compute(name, never, rules)

    assert (result.value, result.reason) == (None, "the model decided no step")

    once = ledger([step(0, 1000), *never.steps[1:]])

    if name != "hhi":  # nothing is held
        assert compute(name, once, rules).value is not None


@pytest.mark.parametrize(
    ("provenance", "failures", "expected"),
    [
        # the submission after the last retry is judged (KTD-Fin, Appendix G)
        ("fallback", {"constraint": 1, "schema": 3}, 1.0),
        ("fallback", {"constraint": 1, "schema": 3, "constraint_after_retries": 1}, 0.0),
        ("fallback", {"no_submission": 4}, 1.0),
        ("model_after_retry", {"schema": 3}, 0.0),
        ("error", {"model_timeout": 1}, None),
    ],
)
def test_a_parse_failure_is_a_last_submission_that_is_not_in_form(
    provenance: str, failures: dict[str, int], expected: float | None
) -> None:
    of = ledger([step(0, 1000, provenance=provenance, failures=failures)])
    assert compute("parse_failure_rate", of).value == expected


# -- properties
# ---------------------------------------------------------------------------------------------------------


@st.composite
def ledgers(draw: st.DrawFn) -> Ledger:
    fen = st.integers(10_000, 10_000_000)
    steps = []
    for number in range(draw(st.integers(1, 5))):
        cash = draw(fen)
        holdings = draw(st.dictionaries(st.sampled_from(CODES), fen, max_size=2))
        orders = draw(
            st.lists(st.builds(traded, st.sampled_from(["BUY", "SELL"]), fen), max_size=3)
        )
        provenance = draw(st.sampled_from(["model", "model_after_retry", "fallback", "error"]))
        calls = draw(st.integers(0, 12))
        valid = draw(st.integers(0, calls))
        changes: dict[str, Any] = {
            "orders": orders,
            "provenance": provenance,
            "tool_calls": calls,
            "tool_calls_valid": valid,
        }
        steps.append(step(number, cash, holdings, **changes, open_nav_minor=draw(fen)))

    return ledger(steps, draw(fen))


def scaled(of: Ledger, factor: int) -> Ledger:
    """The same episode in another currency: every amount of money times `factor`."""

    def scale(item: Any, name: str = "") -> Any:
        if isinstance(item, dict):
            return {key: scale(entry, key) for key, entry in item.items()}

        if isinstance(item, list):
            return [scale(entry) for entry in item]

        return item * factor if name.endswith("_minor") else item

    steps = from_plain(scale(to_plain(of.steps)), list[StepRecord], "steps")

    return dataclasses.replace(of, initial_cash_minor=of.initial_cash_minor * factor, steps=steps)


@pytest.mark.exhaustive
@settings(max_examples=40)
@given(ledgers(), st.integers(2, 1000), st.sampled_from(RULE_SETS))
def test_no_metric_depends_on_the_unit_of_money_or_leaves_its_range(
    of: Ledger, factor: int, rules: RuleSet
) -> None:
    for one in metric_panel.panel_metrics():
        before = one.compute(of, MARKET, rules)
        after = one.compute(scaled(of, factor), MARKET, rules)
        assert (before.reason, before.n) == (after.reason, after.n)
        # Sharpe ratios divide by a deviation that may be tiny, so they alone are compared
        # relatively.
        assert after.value == (
            None if before.value is None else pytest.approx(before.value, rel=1e-6, abs=1e-9)
        )
        low, high = one.range
        figure = before.value
        assert figure is None or (
            (low is None or low <= figure) and (high is None or figure <= high)
        ), one.name

    most = max(len(record.positions) for record in of.steps)
    hhi = compute("hhi", of).value

    assert hhi is None or 1 / most - 1e-12 <= hhi <= 1, "between equal weights and a single name"

    moved = compute("turnover", of, "paper").value
    assert moved is None or 0 <= moved <= 2 * 252


@pytest.mark.slow
@given(st.lists(st.floats(-0.09, 0.09), min_size=2, max_size=60))
def test_series_formulas_equal_their_plain_numpy_forms(changes: list[float]) -> None:
    returns = np.array(changes)
    nav = np.concatenate([[1.0], np.cumprod(1 + returns)])
    drawdown = max((max(nav[: k + 1]) - nav[k]) / max(nav[: k + 1]) for k in range(len(nav)))

    assert series.max_drawdown(nav).value == pytest.approx(drawdown, abs=1e-12)
    assert series.total_return(nav).value == pytest.approx(np.prod(1 + returns) - 1, abs=1e-12)

    ratio = series.sharpe(returns).value

    if returns.std(ddof=1) > 1e-9:
        assert ratio == pytest.approx(returns.mean() / returns.std(ddof=1) * np.sqrt(252), rel=1e-6)


# -- the table of metrics
# -----------------------------------------------------------------------------------------------


def test_the_table_of_metrics_is_whole() -> None:
    metrics = metric_panel.panel_metrics()
    headline = [metric.name for metric in metrics if metric.headline]

    assert headline == list(chain.from_iterable(metric_panel.PANEL_FAMILIES.values()))
    assert len(headline) == 10
    assert [metric.name for metric in metrics if not metric.headline] == list(
        metric_panel.DIAGNOSTICS
    )

    for one in metrics:
        assert re.match(rf"{one.name}/[1-9]: ", one.formula)
        assert one.unit
        assert one.source

    assert {metric.name for metric in metrics if metric.range[0] is None} == {
        "sharpe",
        "sortino",
        "information_ratio",
    }, "only ratios"

    with pytest.raises(UsageError, match="no panel metric 'sharp'; did you mean 'sharpe'"):
        metric_panel.panel_metric("sharp")


def test_dividend_growth_is_the_yearly_factor_rise_without_splits() -> None:
    """Two members and a name outside; one pays 2 % on a day of four, the other splits two for one,
    has no bar, pays nothing.
    """
    closes = {code: [10.0] * 5 for code in ("609001.SH", "609002.SH", "609003.SH")}
    factors = {
        "609001.SH": [1.0, 1.0, 1.02, 1.02, 1.02],
        "609002.SH": [1.0, 2.0, 2.0, 2.0, 2.0],
        "609003.SH": [1.0, 1.05, 1.1, 1.1, 1.1],
    }
    market = tiny_snapshot(
        closes, SnapshotDetails(factors=factors, members={"609003.SH": [False] * 5})
    )

    assert performance_metrics.dividend_growth(market, np.arange(1, 5)) == pytest.approx(
        0.02 / 2 / 4 * 252
    )

    coins = dataclasses.replace(find_venue("crypto_spot"), currency="CNY")
    share = Instrument("stock", "CNY", "a_share")
    instruments = (share, share, Instrument("crypto", "CNY", "coins"))
    beside_coins = dataclasses.replace(
        market, instruments=instruments, rules={"coins": coins}, id=""
    )
    assert performance_metrics.dividend_growth(beside_coins, np.arange(1, 5)) == pytest.approx(
        0.02 / 2 / 4 * 365
    )

    without = dataclasses.replace(market, meta=dataclasses.replace(market.meta, has_factor=False))
    assert performance_metrics.dividend_growth(without, np.arange(1, 5)) is None


def test_dividends_of_a_market_of_splits_alone_are_not_known_to_be_none() -> None:
    """Nothing was paid in these days: that is 0 where the market has a dividend on another day, and
    undefined where it has none.
    """
    closes = {code: [10.0] * 6 for code in ("609001.SH", "609002.SH")}
    split = [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    splits = tiny_snapshot(closes, SnapshotDetails(factors=dict.fromkeys(closes, split)))
    paying = tiny_snapshot(
        closes, SnapshotDetails(factors={"609001.SH": split, "609002.SH": [1.0] * 5 + [1.03]})
    )
    days = np.arange(1, 5)

    assert performance_metrics.dividend_growth(splits, days) is None
    assert performance_metrics.dividend_growth(paying, days) == 0.0

    ratio = performance_metrics.information_ratio.compute(
        nav_ledger(NAVS), market(synthetic=False), "strict"
    )

    assert ratio.detail == {"dividend_growth": None, "reason": performance_metrics.NO_DIVIDENDS}


# ---- metrics made of functions


DEFINITION: dict[str, Any] = {
    "formula": "x/1: x",
    "unit": "ratio",
    "better": "higher",
    "source": "a test",
}


def test_metric_function_gets_named_inputs_and_returns_number_or_reason() -> None:
    of = nav_ledger([1100, 1200])
    on = market()
    value = MetricValue(0.5, 7, detail={"a": 1})
    cases: list[tuple[Any, MetricValue]] = [
        (lambda ledger: len(ledger.steps), MetricValue(2.0, 2)),
        (lambda market: -0.0 * len(market.days), MetricValue(0.0, 2)),
        (
            lambda rules, ledger: f"not under {rules} rules",
            MetricValue(None, 2, "not under paper rules"),
        ),
        (lambda: value, value),
    ]

    for function, expected in cases:
        figure = metric("x", **DEFINITION)(function).compute(of, on, "paper")
        assert repr(figure) == repr(expected)

    with pytest.raises(
        TypeError,
        match=(
            "it returned NoneType; return a number, a text with the reason why there is none, or a MetricValue"
        ),
    ):
        metric("x", **DEFINITION)(lambda ledger: None).compute(of, on, "paper")


@on_each_row(
    "changes, message",
    ({"formula": " "}, "metric x: formula is empty"),
    ({"source": ""}, "metric x: source is empty"),
    ({"better": "more"}, "metric x: better must be 'higher', 'lower' or 'neither', was 'more'"),
    ({"range": 1.0}, "metric x: range must be a pair"),
    (
        {},
        (
            "metric x: the function has an unknown parameter 'prices'; allowed are ledger, "
            "market, rules"
        ),
    ),
)
def test_a_definition_is_checked_when_it_is_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        metric("x", **(DEFINITION | changes))(lambda prices: 0.0)


PLUGIN = '''\
from ktdeval.api import Ledger, hookimpl, metric

@metric("hit_rate", formula="hit_rate/1: days with r > 0 / days", unit="fraction", better="higher", source="mine", range=(0.0, 1.0))
def hit_rate(ledger: Ledger) -> float | str:
    """Share of days on which the NAV rose."""
    return float((ledger.returns > 0).mean()) if ledger.steps else "no steps"

@hookimpl
def ktdeval_metrics():
    return [hit_rate]
'''


def test_a_plugin_with_one_metric_is_ten_lines(tmp_path: Path) -> None:
    (tmp_path / "hits.py").write_text(PLUGIN)
    plugins = load_plugins((str(tmp_path / "hits.py"),))
    rate = plugins.make_metric("hit_rate")

    assert len(PLUGIN.splitlines()) == 10
    assert plugins.spec("metrics", "hit_rate").summary == "Share of days on which the NAV rose."
    assert rate.compute(nav_ledger([1100, 1000, 1200]), market(), "strict") == MetricValue(2 / 3, 3)
    assert rate.compute(ledger([]), market(), "strict").reason == "no steps"

    check_metric(rate)


# --- the plugin and the documents about metrics and cards say the same as the code

PANEL = {
    metric.name: metric for metric in (*panel_metrics(), *map(attribution_metric, ATTRIBUTION))
}


def test_the_plugin_offers_the_panel_and_its_diagnostics_in_order() -> None:
    specs = ktdeval_builtin.ktdeval_metrics()
    assert [spec.name for spec in specs] == list(PANEL)

    for spec in specs:
        assert spec.make().formula == PANEL[spec.name].formula
        assert spec.summary


def test_listing_metrics_imports_nothing_heavy() -> None:
    code = (
        "import sys, ktdeval_builtin; ktdeval_builtin.ktdeval_metrics(); print({'numpy', 'pandas',"
        " 'scipy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


@pytest.mark.slow
def test_every_metric_and_card_field_is_documented(
    repository: Path,
) -> None:
    metrics, cards = (
        (repository / "docs" / name).read_text()
        for name in ("metrics.md", "reference/card-words.md")
    )

    assert [name for name in PANEL if PANEL[name].formula.partition(":")[0] not in metrics] == []
    assert [
        field
        for field in card_schema(TradingCard, "result-card")["properties"]
        if f"`{field}`" not in cards
    ] == []


@on_each_row(
    "value, reason, problem",
    (math.inf, None, "must be finite"),
    (-math.inf, None, "must be finite"),
    (math.nan, None, "must be finite"),
    (None, None, "either a value or the reason"),
    (0.5, "too few days", "either a value or the reason"),
    (None, "", "either a value or the reason"),
)
def test_a_metric_has_a_finite_value_or_the_reason_for_none(
    value: float | None, reason: str | None, problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        MetricValue(value, 1, reason)
