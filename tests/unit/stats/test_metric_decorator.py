"""Metrics made of functions: what they may ask for and return, and that a plugin with one is ten lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ktdeval_builtin
from ktdeval.api import MetricValue, metric
from ktdeval.cards.card import TradingCard
from ktdeval.cards.schema import card_schema
from ktdeval.errors import PluginError
from ktdeval.registry import load_plugins
from ktdeval.stats.panel import panel_metrics
from ktdeval.testing import check_metric
from ktdeval_builtin.attribution_metrics import attribution_metrics
from metric_cases import ledger, market, nav_ledger
from tables import on_each_row

DEFINITION: dict[str, Any] = {"formula": "x/1: x", "unit": "ratio", "better": "higher", "source": "a test"}


def test_a_function_asks_for_what_it_needs_and_returns_a_number_a_reason_or_a_value() -> None:
    of, on, value = nav_ledger([1100, 1200]), market(), MetricValue(0.5, 7, detail={"a": 1})
    cases: list[tuple[Any, MetricValue]] = [
        (lambda ledger: len(ledger.steps), MetricValue(2.0, 2)),
        (lambda market: -0.0 * len(market.days), MetricValue(0.0, 2)),
        (lambda rules, ledger: f"not under {rules} rules", MetricValue(None, 2, "not under paper rules")),
        (lambda: value, value),
    ]
    for function, expected in cases:
        figure = metric("x", **DEFINITION)(function).compute(of, on, "paper")
        assert repr(figure) == repr(expected)
    with pytest.raises(TypeError, match="it gave NoneType; return a number, a text that says why there is none, or MetricValue"):
        metric("x", **DEFINITION)(lambda ledger: None).compute(of, on, "paper")


@on_each_row
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

PANEL = {metric.name: metric for metric in (*panel_metrics(), *attribution_metrics())}


def test_the_plugin_offers_the_panel_and_its_diagnostics_in_order() -> None:
    specs = ktdeval_builtin.ktdeval_metrics()
    assert [spec.name for spec in specs] == list(PANEL)
    for spec in specs:
        assert spec.make().formula == PANEL[spec.name].formula
        assert spec.summary


def test_listing_metrics_imports_nothing_heavy() -> None:
    code = "import sys, ktdeval_builtin; ktdeval_builtin.ktdeval_metrics(); print({'numpy', 'pandas', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_metric_is_documented_with_its_formula_and_every_field_of_a_card(repository: Path) -> None:
    metrics, cards = ((repository / "docs" / name).read_text() for name in ("metrics.md", "cards.md"))
    assert [name for name in PANEL if PANEL[name].formula.partition(":")[0] not in metrics] == []
    assert [field for field in card_schema(TradingCard, "result-card")["properties"] if f"`{field}`" not in cards] == []
