"""Ten-metric panel of KTD-Fin (§3.6, Appendix G) and its diagnostics: the metrics as objects, in
their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ktdeval.errors import UsageError
from ktdeval.stats import (
    calibration,
    performance_metrics,
    sharpe_significance,
    withheld_documents,
)
from ktdeval.stats.metric import FunctionMetric, Metric
from ktdeval.stats.panel_names import DIAGNOSTICS, PANEL_FAMILIES
from ktdeval.values.options.config_options import near_matches

#: modules that define the built-in metrics
_MODULES = (performance_metrics, calibration, sharpe_significance, withheld_documents)


def _built_in_metrics() -> Mapping[str, FunctionMetric]:
    """Return the metrics that the modules of `_MODULES` define, keyed by name."""
    metrics: dict[str, FunctionMetric] = {}
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, FunctionMetric):
                metrics[value.name] = value

    return metrics


_METRICS = _built_in_metrics()


def panel_metrics() -> list[Metric]:
    """Return the ten headline metrics by family, then the diagnostic metrics; new objects on each
    call.
    """
    headline: list[str] = []
    for names in PANEL_FAMILIES.values():
        headline += names

    metrics: list[Metric] = [replace(_METRICS[name], headline=True) for name in headline]
    metrics += [replace(_METRICS[name], headline=False) for name in DIAGNOSTICS]
    return metrics


def panel_metric(name: str) -> Metric:
    """Return a metric of the panel or a diagnostic metric. Raises UsageError if the name
    is unknown.
    """
    for metric in panel_metrics():
        if metric.name == name:
            return metric
    raise UsageError(f"no panel metric {name!r}{near_matches(name, _METRICS)}")
