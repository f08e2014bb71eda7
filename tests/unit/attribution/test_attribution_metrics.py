"""The attribution as metric plugins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.attribution.decompose import attribute
from ktdeval.errors import UsageError
from ktdeval.jsonio import dumps_canonical
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.stats.series import newey_west_mean
from ktdeval.testing.conformance import check_metric
from ktdeval.testing.ledgers import ledger_of, step_record
from ktdeval.testing.markets import random_snapshot
from ktdeval.trading.ledger import Ledger
from ktdeval_builtin.attribution_metrics import attribution_metric, attribution_metrics
from ktdeval_report.study import line_intervals
from stats_play import play, rotation

NAMES = ("common_return", "industry_return", "style_return", "selection_alpha", "trading_effect")
PAPER = ("paper_common_return", "paper_style_return", "paper_selection_alpha")
VERSIONS = dict.fromkeys(("common_return", "style_return", "selection_alpha"), 2)


@pytest.fixture(scope="module")
def snapshot() -> MarketSnapshot:
    return random_snapshot(seed=5, n_assets=60)


@pytest.fixture(scope="module")
def ledger(snapshot: MarketSnapshot) -> Ledger:
    return play(snapshot, rotation(snapshot, 3), range(269, 300))


def test_metrics_keep_the_contract_and_are_documented(snapshot: MarketSnapshot, repository: Path) -> None:
    text = (repository / "docs" / "attribution.md").read_text()
    for name in (*NAMES, *PAPER):
        metric, version = attribution_metric(name), f"{name}/{VERSIONS.get(name, 1)}"
        check_metric(metric, snapshot)
        assert metric.formula.startswith(f"{version}: ")
        assert f"`{version}`" in text
        assert not metric.headline
    with pytest.raises(UsageError, match="did you mean 'selection_alpha'"):
        attribution_metric("selection_alfa")


def test_the_parts_of_both_rule_sets_add_to_the_total_return_whatever_the_card_asks_for(
    snapshot: MarketSnapshot, ledger: Ledger
) -> None:
    first, again = (
        {metric.name: metric.compute(ledger, snapshot, rules) for metric in attribution_metrics()} for rules in ("strict", "paper")
    )
    assert first == again
    total = ledger.nav[-1] / ledger.nav[0] - 1.0
    for names in (NAMES, (*PAPER, "trading_effect")):
        assert sum(first[name].value or 0.0 for name in names) == pytest.approx(total, abs=1e-12)
    # Each fit with what it explains; more industries explain more, and the metrics are the schemes' own.
    schemes = (first["selection_alpha"].detail or {})["schemes"]
    assert schemes["strict"]["selection"] == first["selection_alpha"].value
    assert schemes["paper"]["selection"] == first["paper_selection_alpha"].value
    explained = [schemes[scheme]["r_squared"] for scheme in ("paper", "coarse", "strict", "fine")]
    assert explained == sorted(explained)
    for entry in schemes.values():
        assert entry["adjusted_r_squared"] < entry["r_squared"]
        assert entry["degrees_of_freedom"] == pytest.approx(entry["names"] - entry["parameters"])


def test_selection_carries_lines_exposures_and_its_error(snapshot: MarketSnapshot, ledger: Ledger) -> None:
    value = attribution_metric("selection_alpha").compute(ledger, snapshot, "strict")
    attribution = attribute(ledger, snapshot)
    detail = value.detail
    assert isinstance(detail, dict)
    assert detail["linked"] == pytest.approx(attribution.linked.lines)
    assert sum(detail["linked"].values()) == pytest.approx(detail["total_return"], abs=1e-12)
    mean, se = newey_west_mean(attribution.selection)
    assert detail["daily"] == {"mean": pytest.approx(mean), "se": pytest.approx(se), "t": pytest.approx(mean / se), "reason": None}
    exposures = dict(zip(attribution.factor_names, attribution.mean_exposures(), strict=True))
    assert detail["mean_exposures"] == pytest.approx(exposures)
    assert value.n == len(ledger.steps)


@pytest.mark.parametrize("name", [*NAMES, *PAPER])
def test_one_day_in_cash_is_zero_with_nulls_where_nothing_is_defined(name: str, snapshot: MarketSnapshot) -> None:
    value = attribution_metric(name).compute(ledger_of([step_record(snapshot, 0, 300)]), snapshot, "strict")
    assert value.value == 0.0
    dumps_canonical(value.detail)
    if name == "selection_alpha":
        assert value.detail["daily"]["reason"] == "fewer than two days"
        assert set(value.detail["mean_exposures"].values()) == {None}


def test_runs_of_one_nav_have_one_interval_on_card_and_in_a_report(snapshot: MarketSnapshot, ledger: Ledger) -> None:
    again = replace(ledger, spec={**ledger.spec, "seed": 7})
    one, other = (
        attribution_metric("selection_alpha").compute(run, snapshot, "strict").detail["intervals"] for run in (ledger, again)
    )
    attribution = attribute(again, snapshot)
    drawn = line_intervals(attribution)
    assert one == other
    # Another processor's sums differ in their last bits, and with a seed of these all draws would.
    elsewhere = line_intervals(replace(attribution, selection=attribution.selection * (1 + 2**-50)))["selection"]
    assert elsewhere.high == pytest.approx(drawn["selection"].high, rel=1e-9)
    assert drawn.pop("rounding").low is None  # a report has none of the remainder
    assert {name: one[name] for name in one if name in drawn} == {name: drawn[name].to_json() for name in one if name in drawn}
    assert one.keys() - drawn.keys() == {"rounding"}


def test_a_ledger_without_attribution_gives_null_and_the_reason(snapshot: MarketSnapshot) -> None:
    metric = attribution_metric("selection_alpha")
    assert metric.compute(ledger_of([]), snapshot, "strict").reason == "no steps"
    ruined = ledger_of([step_record(snapshot, step, 300 + step, nav_minor=0 if step else 100_000_000) for step in range(2)])
    assert "-100 %" in (metric.compute(ruined, snapshot, "strict").reason or "")
