"""One card on the page: facts, panel, windows, plots, attribution, calibration, decisions, and how to verify it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from ktdeval.api import JsonValue, file_sha256
from ktdeval_report.card_tables import attribution_section, panel, windows_notes, windows_table
from ktdeval_report.inputs import Card, Evaluation
from ktdeval_report.markup import Html, Table, bullets, join, paragraph, table, tag, unbroken
from ktdeval_report.overview import label_list
from ktdeval_report.study import CardStudy
from ktdeval_report.text import count, percent, tally
from ktdeval_report.usage import ranking, usage_rows

_SHOWN_MISSING = 20


def facts(evaluation: Evaluation) -> Html:
    """What was evaluated."""
    card = evaluation.card
    task, snapshot, limit = card["task"], card["snapshot"], card["limit"]
    recorded = evaluation.recorded_rules
    repairs = f", repaired: {', '.join(snapshot['repairs'])}" if snapshot["repairs"] else ""
    rows = [
        ("task", f"{task['name']}, version {task['version']}: mask {task['mask']}, mode {task['mode']}"),
        ("model", _with_args(card["model"])),
        ("agent", _with_args(card["agent"])),
        ("calls", ", ".join(f"{name} {value}" for name, value in sorted(card["call"].items()))),
        ("market", f"{snapshot['name']}, {snapshot['assets']} assets, benchmark {snapshot['benchmark_name']}{repairs}"),
        ("windows", join([unbroken(f"{window['name']} {window['first']} … {window['last']}") for window in card["windows"]], "; ")),
        ("seeds", ", ".join(map(str, card["seeds"]))),
        ("ranking", ranking(card)),
        ("limit", "none" if limit is None else f"the first {count(limit, 'step')} of every episode"),
        (
            "rules of metrics",
            card["rules"] + (f" (for this page; the card is by {recorded} rules)" if recorded != card["rules"] else ""),
        ),
    ]
    return tag("div", table(Table("What was evaluated", (), rows, words=2)), class_="facts")


def _with_args(entry: Card) -> str:
    args = ", ".join(f"{name}={value}" for name, value in sorted(entry["args"].items()))
    return f"{entry['name']} ({args})" if args else str(entry["name"])


def decisions_section(evaluation: Evaluation) -> Html:
    """Who decided, what became of the orders, what failed, what it took."""
    card = evaluation.card
    coverage, decisions, orders = card["coverage"], card["decisions"], card["orders"]
    steps = max(coverage["steps"], 1)
    meanings = {
        "model": "the model's first submission",
        "model_after_retry": "the model's, after it was told what was wrong",
        "fallback": "no valid submission: the engine held",
        "error": "the model call failed: the engine held",
    }
    rows = [
        [name, meaning, f"{decisions[name]:,}", percent(decisions[name] / steps, signed=False)]
        for name, meaning in meanings.items()
    ]
    statuses = {name: number for name, number in orders.items() if name not in ("submitted", "rules")}
    judged = card["calibration"]
    left_out = {"no fill": judged["no_fill"], "no next open": judged["no_next_open"]}
    activity = [
        ("episodes", f"{coverage['episodes_finished']:,} of {coverage['episodes_planned']:,} finished"),
        ("failures", tally(card["failures"])),
        ("orders", f"{orders['submitted']:,} submitted: {tally(statuses)}"),
        ("rules that rejected or cut", tally(orders["rules"])),
        ("orders judged for calibration", f"{judged['n']:,}; left out: {tally(left_out)}"),
        *usage_rows(card),
    ]
    return join(
        [
            table(Table("Who decided each step", ("provenance", "", "steps", "share"), rows, words=2)),
            tag("div", table(Table("Activity and failures", (), activity, words=2)), class_="facts"),
            _missing(card),
        ]
    )


def _missing(card: Card) -> Html:
    missing: Sequence[Mapping[str, JsonValue]] = card["missing_episodes"]
    if not missing:
        return Html("")
    shown = [f"window {entry['window']}, seed {entry['seed']}: {entry['error']}" for entry in missing[:_SHOWN_MISSING]]
    if len(missing) > _SHOWN_MISSING:
        shown.append(f"and {len(missing) - _SHOWN_MISSING} more")
    return join([paragraph("Episodes that are missing:"), bullets(shown)])


def verify_section(evaluation: Evaluation) -> Html:
    """The command that recomputes the card, and what it is checked against."""
    card, path = evaluation.card, evaluation.path
    provenance = card["provenance"]
    rows = [
        ("card", tag("code", file_sha256(path))),
        ("task config", tag("code", card["task"]["hash"])),
        ("snapshot", tag("code", card["snapshot"]["id"])),
        ("records", f"{count(len(card['artefacts']), 'file')}, each with its SHA-256 on the card"),
        ("made by", f"ktdeval {provenance['suite_version']}, source {provenance['source_revision'] or 'not known'}"),
        ("made on", provenance["created_at"]),
    ]
    certificate = card["certificate"]
    absent = [f"no certificate: {certificate['reason']}"] if certificate["value"] is None else []
    command = tag("code", f"ktdeval card verify {shlex.quote(str(path))}")
    return join(
        [
            paragraph(
                "This puts the recorded replies through agent, tools and mask again, executes the orders again, and computes every "
                "figure of the card again; the first line that differs is named."
            ),
            tag("pre", command, tabindex="0", role="region", aria_label="Command to verify this card"),
            table(Table("SHA-256 of what the card rests on", (), rows, words=2)),
            bullets(absent),
        ]
    )  # fmt: skip


def card_section(study: CardStudy, plots: Mapping[str, Sequence[Html]]) -> Html:
    """The section of one card.

    Args:
        study: the card and its figures.
        plots: figures by where they belong: the name of a window, or `reliability`.
    """
    one = study.evaluation
    parts: list[object] = [tag("h2", one.label), label_list([one]), facts(one)]
    if one.problem:
        parts.append(paragraph(tag("strong", one.problem)))
    parts += [tag("h3", "Metrics"), panel(study), tag("h3", "Windows"), windows_table(study), windows_notes(study)]
    for window in study.windows:
        if plots.get(window.name):
            parts += [tag("h3", f"{window.name}, seed {window.episode.seed}"), tag("div", *plots[window.name], class_="plots")]
    parts += [tag("h3", "Where the return came from"), attribution_section(study)]
    parts += [tag("h3", "Calibration of stated confidence")]
    parts.append(
        tag("div", *plots["reliability"], class_="plots") if plots.get("reliability") else paragraph("No order has an outcome.")
    )
    parts += [tag("h3", "Decisions and failures"), decisions_section(one), tag("h3", "How to verify"), verify_section(one)]
    return tag("section", *parts, id=one.anchor, aria_label=one.label)
