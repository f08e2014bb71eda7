"""One card on the page, as its template prints it: facts, panel, windows, plots, attribution, decisions, how to verify it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.cards import SCHEME_HEADS, scheme_rows
from ktdeval.jsonio import file_sha256
from ktdeval_report import card_tables
from ktdeval_report.render import Table
from ktdeval_report.study import CardStudy


def _no_attribution(study: CardStudy) -> str:
    reasons = {window.no_attribution for window in study.windows} - {""}
    return study.evaluation.problem or f"There is none: {'; '.join(sorted(reasons)) or 'no episode has one'}."


def card_view(study: CardStudy, plots: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """Values of `card.html`. `plots`: figures by their window, or by `lead`, those that come before any table."""
    one, card = study.evaluation, study.evaluation.card
    has_market = bool(study.windows) and one.market is not None
    windows = [(f"{window.name}, seed {window.seed}", plots[window.name]) for window in study.windows if plots.get(window.name)]
    return {
        "label": one.label,
        "anchor": one.anchor,
        "labels": [(name, "") for name in card.labels],
        "of": card,
        "problem": one.problem,
        "recorded_rules": one.recorded_rules,
        "panel": card_tables.panel(study),
        "panel_notes": list(card_tables.panel_notes(study)),
        "metrics": [name for _, names in card_tables.families(card) for name in names],
        "windows": list(card_tables.window_rows(one)),
        "has_market": has_market,
        "studied": study.windows,
        "window_notes": card_tables.windows_notes(study),
        "drawn": windows,
        "attribution": card_tables.attribution_table(study) if study.lines else None,
        "no_attribution": _no_attribution(study),
        "attribution_notes": card_tables.attribution_notes(study),
        "schemes": Table("Selection by the industries in the fit, mean of episodes", SCHEME_HEADS, scheme_rows(card)),
        "several": any(len(values) > 1 for values in study.lines.values()),
        "lead": plots.get("lead", ()),
        "is_calibrated": card.calibration.n > 0,
        "quoted_path": shlex.quote(str(one.path)),
        "sha256": file_sha256(one.path),
    }
