"""One card on the page, as its template prints it: facts, panel, windows, plots, attribution, decisions, how to verify it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from ktdeval.cards import TradingCard
from ktdeval.jsonio import file_sha256
from ktdeval_report.card_tables import (
    attribution_notes,
    attribution_table,
    definitions,
    panel,
    panel_notes,
    sure_table,
    windows_notes,
    windows_table,
)
from ktdeval_report.inputs import Evaluation, with_args
from ktdeval_report.render import Cell, Table
from ktdeval_report.study import CardStudy
from ktdeval_report.text import count, percent, tally
from ktdeval_report.usage import ranking, usage_rows

_SHOWN_MISSING = 20
_PROVENANCE = {
    "model": "the model's first submission",
    "model_after_retry": "the model's, after it was told what was wrong",
    "fallback": "no valid submission: the engine held",
    "error": "the model call failed: the engine held",
}


def _facts(evaluation: Evaluation) -> Table:
    card = evaluation.card
    task, snapshot, limit = card.task, card.snapshot, card.limit
    recorded = evaluation.recorded_rules
    repairs = f", repaired: {', '.join(snapshot.repairs)}" if snapshot.repairs else ""
    rows = [
        ("task", f"{task.name}, version {task.version}: mask {task.mask}, mode {task.mode}"),
        ("model", with_args(card.model)),
        ("agent", with_args(card.agent)),
        ("calls", ", ".join(f"{name} {value}" for name, value in sorted(card.call.items()))),
        ("market", f"{snapshot.name}, {snapshot.assets} assets, benchmark {snapshot.benchmark_name}{repairs}"),
        ("windows", [Cell(f"{window.name} {window.first} … {window.last}") for window in card.windows]),
        ("seeds", ", ".join(map(str, card.seeds))),
        ("ranking", ranking(card)),
        ("limit", "none" if limit is None else f"the first {count(limit, 'step')} of every episode"),
        ("rules of metrics", card.rules + (f" (for this page; the card is by {recorded} rules)" if recorded != card.rules else "")),
    ]
    return Table("What was evaluated", (), rows, words=2)


def _decisions(card: TradingCard) -> Table:
    steps = max(card.coverage.steps, 1)
    shares = {name: (f"{number:,}", percent(number / steps, signed=False)) for name, number in asdict(card.decisions).items()}
    rows = [[name, meaning, *shares[name]] for name, meaning in _PROVENANCE.items()]
    return Table("Who decided each step", ("provenance", "", "steps", "share"), rows, words=2)


def _activity(card: TradingCard) -> Table:
    """Orders by what became of them, failures, and what the episodes used."""
    coverage, orders = card.coverage, card.orders
    statuses = {name: getattr(orders, name) for name in ("filled", "partially_filled", "rejected")}
    judged = card.calibration
    left_out = {"no fill": judged.no_fill, "no next open": judged.no_next_open}
    rows = [
        ("episodes", f"{coverage.episodes_finished:,} of {coverage.episodes_planned:,} finished"),
        ("failures", tally(card.failures)),
        ("orders", f"{orders.submitted:,} submitted: {tally(statuses)}"),
        ("rules that rejected or cut", tally(orders.rules)),
        ("orders judged for calibration", f"{judged.n:,}; left out: {tally(left_out)}"),
        *usage_rows(card),
    ]
    return Table("Activity and failures", (), rows, words=2)


def _missing(card: TradingCard) -> list[str]:
    """Episodes that did not finish."""
    missing = card.missing_episodes
    shown = [f"window {entry.window}, seed {entry.seed}: {entry.error}" for entry in missing[:_SHOWN_MISSING]]
    return shown + ([f"and {len(missing) - _SHOWN_MISSING} more"] if len(missing) > _SHOWN_MISSING else [])


def _hashes(evaluation: Evaluation) -> Table:
    card, provenance = evaluation.card, evaluation.card.provenance
    rows = [
        ("card", Cell(file_sha256(evaluation.path), "code")),
        ("task config", Cell(card.task.hash, "code")),
        ("snapshot", Cell(card.snapshot.id, "code")),
        ("records", f"{count(len(card.artefacts), 'file')}, each with its SHA-256 on the card"),
        ("made by", f"ktdeval {provenance.suite_version}, source {provenance.source_revision or 'not known'}"),
        ("made on", provenance.created_at),
    ]
    return Table("SHA-256 of what the card rests on", (), rows, words=2)


def _no_attribution(study: CardStudy) -> str:
    reasons = {window.episode.no_attribution for window in study.windows} - {""}
    return study.evaluation.problem or f"There is none: {'; '.join(sorted(reasons)) or 'no episode has one'}."


def card_view(study: CardStudy, plots: Mapping[str, Sequence[object]]) -> dict[str, Any]:
    """Values of `card.html`. `plots`: figures by where they belong: the name of a window, or `reliability`."""
    one, card = study.evaluation, study.evaluation.card
    has_market = bool(study.windows) and one.market is not None
    windows = [
        (f"{window.name}, seed {window.episode.seed}", plots[window.name]) for window in study.windows if plots.get(window.name)
    ]
    return {
        "label": one.label,
        "anchor": one.anchor,
        "labels": [(name, "") for name in card.labels],
        "facts": _facts(one),
        "problem": one.problem,
        "panel": panel(study),
        "panel_notes": list(panel_notes(study)),
        "definitions": definitions(card),
        "windows": windows_table(one),
        "has_market": has_market,
        "sure": sure_table(study) if has_market else None,
        "window_notes": windows_notes(study),
        "drawn": windows,
        "attribution": attribution_table(study) if study.lines else None,
        "no_attribution": _no_attribution(study),
        "attribution_notes": attribution_notes(study),
        "several": any(len(values) > 1 for values in study.lines.values()),
        "reliability": plots.get("reliability", ()),
        "decisions": _decisions(card),
        "activity": _activity(card),
        "missing": _missing(card),
        "quoted_path": shlex.quote(str(one.path)),
        "hashes": _hashes(one),
        "no_certificate": card.certificate.reason or "",
    }
