"""Names of the ten headline metrics of KTD-Fin (§3.6, Appendix G) and of its diagnostics."""

from __future__ import annotations

from collections.abc import Mapping

PANEL_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "returns and risk": ("total_return", "sharpe", "max_drawdown", "information_ratio"),
    "behaviour": ("turnover", "hhi", "cash_ratio", "abstention_rate"),
    "reliability and calibration": ("parse_failure_rate", "ece"),
}  #: the headline panel by family, in the paper's order
DIAGNOSTICS: tuple[str, ...] = (
    "tool_validity_rate",
    "brier",
    "unmask_attempts",
    "decision_coverage",
    "brier_reliability",
    "brier_resolution",
    "brier_uncertainty",
    "ece_debiased",
    "reliability_debiased",
    "psr",
    "min_track_record",
    "documents_withheld",
    "sortino",
)
"""Metrics recorded in addition to the panel."""
