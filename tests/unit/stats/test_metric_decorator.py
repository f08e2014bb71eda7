"""Metrics made of functions: what they may ask for and return, and that a plugin with one is ten lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.api import MetricValue, metric
from ktdeval.errors import PluginError
from ktdeval.registry import load_plugins
from ktdeval.testing import check_metric
from metric_cases import ledger, market, nav_ledger

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
        found = metric("x", **DEFINITION)(function).compute(of, on, "paper")
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"formula": " "}, "metric x: formula is empty"),
        ({"source": ""}, "metric x: source is empty"),
        ({"better": "more"}, "metric x: better is 'higher', 'lower' or 'neither', was 'more'"),
        ({"range": 1.0}, "metric x: range is a pair"),
    ],
)
def test_a_definition_is_checked_when_it_is_made(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        metric("x", **(DEFINITION | changes))(lambda ledger: 0.0)


def test_a_function_that_asks_for_something_else_is_refused() -> None:
    with pytest.raises(PluginError, match="metric x: the function asks for 'prices'; it may ask for ledger, market, rules"):
        metric("x", **DEFINITION)(lambda prices: 0.0)


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
    found = plugins.make_metric("hit_rate")
    assert len(PLUGIN.splitlines()) == 10
    assert plugins.spec("metrics", "hit_rate").summary == "Share of days on which the NAV rose."
    assert found.compute(nav_ledger([1100, 1000, 1200]), market(), "strict") == MetricValue(2 / 3, 3)
    assert found.compute(ledger([]), market(), "strict").reason == "no steps"
    check_metric(found)
