"""The metric plugin and the documents about metrics and cards say the same as the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ktdeval_builtin
from ktdeval.cards.card import TradingCard
from ktdeval.cards.schema import card_schema
from ktdeval.stats.panel import panel_metrics
from ktdeval_builtin.attribution_metrics import attribution_metrics

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


@pytest.mark.parametrize("name", PANEL)
def test_every_metric_is_documented_with_its_formula(name: str, repository: Path) -> None:
    assert PANEL[name].formula.partition(":")[0] in (repository / "docs" / "metrics.md").read_text()


@pytest.mark.parametrize("field", sorted(card_schema(TradingCard, "result-card")["properties"]))
def test_every_field_of_a_card_is_documented(field: str, repository: Path) -> None:
    assert f"`{field}`" in (repository / "docs" / "cards.md").read_text()
