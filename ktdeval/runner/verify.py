"""Verification: every number of a card from its records once more, and every record from its decisions.

Nothing is believed but the decisions: the model's own submissions are parsed again, the orders are executed again on the
snapshot, the metrics are computed again from what that gives. The first line that differs is named for each file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.cards.check import load_card
from ktdeval.cards.verify import card_difference, first_difference, steps_difference
from ktdeval.errors import DataError, KtdevalError, StoreError
from ktdeval.harness.action import ActionForm
from ktdeval.harness.agent import Submission
from ktdeval.harness.desk import withhold_identities
from ktdeval.jsonio import JsonValue, file_sha256
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.registry import Plugins
from ktdeval.runner.records import recorded_action
from ktdeval.runner.replay import replay_episode
from ktdeval.runner.score import make_card, open_recorded_snapshot
from ktdeval.runner.spec import EpisodeSpec
from ktdeval.runner.store import RunFolder
from ktdeval.runner.task import Task
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.tape import Tape


@dataclass(frozen=True)
class Verification:
    """What verifying a card found.

    Attributes:
        findings: one line for each file that differs, naming its first line that does; empty when all is as recorded.
        episodes: how many episodes were executed again.
        steps: how many steps that were.
        traced_steps: steps whose orders were also parsed again from the model's submission in the transcript.
    """

    findings: tuple[str, ...]
    episodes: int
    steps: int
    traced_steps: int


def verify_card(path: Path, plugins: Plugins, changes: Mapping[str, Any]) -> Verification:
    """Verify a card against the run folder that it lies in (`RUN/cards/<task>.json`).

    Args:
        path: the card.
        plugins: the loaded plugins: the task and the metrics of the card must be installed.
        changes: `data` and `data_args` when the snapshot has moved.

    Raises:
        KtdevalError: the card is not valid, its run is not there, or the snapshot can't be had or has been changed.
    """
    card = load_card(path)
    folder = RunFolder.load(path.resolve().parent.parent)
    task = plugins.make_task(card["task"]["name"])
    snapshot = open_recorded_snapshot(folder, plugins, changes)
    if snapshot.id != card["snapshot"]["id"]:
        raise DataError(f"{path}: snapshot.id: the card names {card['snapshot']['id'][:12]}, the run used {snapshot.id[:12]}")
    specs = [spec for spec in folder.manifest.specs if spec.task == task.name and folder.is_complete(spec)]
    findings = [*_artefact_findings(folder, card["artefacts"])]
    tape, steps, traced = Tape.from_snapshot(snapshot, task.trading), 0, 0
    for spec in specs:
        try:
            ledger = folder.load_ledger(spec)
            findings += _ledger_findings(spec, ledger, snapshot, tape, task)
            transcript_findings, parsed = _transcript_findings(folder, spec, ledger, snapshot, task)
        except KtdevalError as error:
            findings.append(str(error))
            continue
        findings += transcript_findings
        steps, traced = steps + len(ledger.steps), traced + parsed
    findings += _card_findings(path, card, folder, task, snapshot, plugins)
    return Verification(tuple(findings), len(specs), steps, traced)


def _artefact_findings(folder: RunFolder, artefacts: Mapping[str, str]) -> Iterator[str]:
    """Files whose bytes are not those that the card was made from."""
    known = {f"episodes/{spec.id}/{name}" for spec in folder.manifest.specs for name in ("ledger.parquet", "transcript.jsonl.zst")}
    for name, recorded in artefacts.items():
        if name not in known:  # a path from an untrusted card is never opened
            yield f"{name}: is named by the card, but is no record of this run"
        elif not (folder.path / name).is_file():
            yield f"{name}: is missing"
        elif (found := file_sha256(folder.path / name)) != recorded:
            yield f"{name}: SHA-256 is {found[:12]}…, the card recorded {recorded[:12]}…"


def _ledger_findings(spec: EpisodeSpec, ledger: Ledger, snapshot: MarketSnapshot, tape: Tape, task: Task) -> Iterator[str]:
    """The first line of a ledger that its decisions do not give."""
    where = f"episodes/{spec.id}/ledger.parquet"
    if difference := first_difference(dict(ledger.spec), spec.to_json()):
        yield f"{where}: spec: {difference}"
    if ledger.initial_cash_fen != task.trading.initial_cash_cny * 100:
        yield f"{where}: initial cash: recorded {ledger.initial_cash_fen} fen, the task gives {task.trading.initial_cash_cny * 100}"
    recomputed: list[StepRecord] = []
    try:
        for record in replay_episode(spec, ledger.steps, snapshot, tape, task.trading):
            recomputed.append(record)
    except (DataError, StoreError, KeyError, TypeError) as error:
        difference = steps_difference(ledger.steps[: len(recomputed)], recomputed)
        yield f"{where}: {difference or f'line {len(recomputed) + 1}: can not be executed: {error}'}"
        return
    if difference := steps_difference(ledger.steps, recomputed):
        yield f"{where}: {difference}"


def _transcript_findings(
    folder: RunFolder, spec: EpisodeSpec, ledger: Ledger, snapshot: MarketSnapshot, task: Task
) -> tuple[list[str], int]:
    """The first transcript line whose submission does not give the recorded orders, and how many steps could be traced.

    A step is traced when its action came from one submission of the model; agents that combine several have none to trace.
    """
    where = f"episodes/{spec.id}/transcript.jsonl.zst"
    transcript = folder.load_transcript(spec)
    if len(transcript) != len(ledger.steps):
        return [f"{where}: {len(transcript)} lines, the ledger has {len(ledger.steps)} steps"], 0
    lens = task.scene(spec, snapshot).lens
    form, guard = ActionForm(task.harness, lens), LeakGuard(lens, snapshot)
    traced = 0
    for number, (entry, step) in enumerate(zip(transcript, ledger.steps, strict=True)):
        text = entry["submission"]
        if text is None:
            continue
        written = [call["arguments"] for exchange in entry["exchanges"] for call in exchange.get("reply", {}).get("tool_calls", [])]
        submission = withhold_identities(form.parse(text), guard)
        problem = _trace_problem(submission, step, snapshot) if text in written else "is not among the model's replies"
        if problem:
            return [f"{where}: line {number + 1}: submission: {problem}"], traced
        traced += 1
    return [], traced


def _trace_problem(submission: Submission, step: StepRecord, snapshot: MarketSnapshot) -> str | None:
    if submission.action is None:
        return "is not a valid action"
    if submission.action != recorded_action(snapshot, step) or submission.overall_reason != step["overall_reason"]:
        return f"does not give the orders that the ledger has on line {step['step'] + 1}"
    return None


def _card_findings(
    path: Path, card: Mapping[str, JsonValue], folder: RunFolder, task: Task, snapshot: MarketSnapshot, plugins: Plugins
) -> list[str]:
    """The first line of the card that its records do not give."""
    missing: Sequence[Mapping[str, JsonValue]] = card["missing_episodes"]
    errors = {str(entry["id"]): str(entry["error"]) for entry in missing}  # why one is missing can't be recomputed
    try:
        recomputed = make_card(folder, task, snapshot, plugins, errors)
    except KtdevalError as error:
        return [f"{path.name}: can't be recomputed: {error}"]
    difference = card_difference(card, recomputed, path.read_text(encoding="utf-8"))
    return [f"{path.name}: {difference}"] if difference else []
