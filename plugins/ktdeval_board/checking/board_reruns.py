"""Runs made by the board: baselines, which give the same figures on every machine, and the
maintainers' own runs of submitted plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from ktdeval.cards import (
    NEVER_TRADED,
    TradingCard,
    card_difference,
    could_know_reasons,
    load_evaluation,
)
from ktdeval.errors import KtdevalError, UsageError, VerificationError
from ktdeval.harness import TRANSPORT
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, open_recorded_snapshot, verify_card
from ktdeval.values import JsonValue, dumps_canonical, file_sha256, temporary_folder, to_plain
from ktdeval_board.allowed_packages import (
    NOT_ISOLATED,
    standing_reasons,
)
from ktdeval_board.baselines import run_baseline
from ktdeval_board.board_entries import Card, division_of, figures_of, names_of
from ktdeval_board.checking.findings import FileMessage
from ktdeval_board.checking.record_sandbox import CARD
from ktdeval_board.checking.records import RecordedCard, RecordEvidence
from ktdeval_board.derived_documents import make_decisions, make_series
from ktdeval_board.document_types import Figure, Rerun, Tier
from ktdeval_board.read_documents import read_text
from ktdeval_board.rules import Baseline, Rules

BY_CHECK = "the board's check"
_SHOWN = 80
_LABELS_OF_A_MACHINE = ("mixed code", NOT_ISOLATED, "public key")
"""Labels of a baseline that follow from where and when it ran, not from what it decided."""


@dataclass(frozen=True)
class OwnRun:
    """A run made by the maintainers."""

    card_id: str
    card: Card
    division: str


def rerun_baseline(
    recorded: RecordedCard, baseline: Baseline, on: str, plugins: Plugins
) -> RecordEvidence:
    """Rerun a baseline and compare its card with the submitted one.

    Returns evidence with tier `re-run` and the new run's series and decisions. If a figure differs,
    the evidence contains findings instead. If the baseline can't be run on this machine, its tier
    is `self-reported`.
    """
    with temporary_folder("ktdeval-check-") as private:
        try:
            out = private / "run"
            path = run_baseline(
                recorded.rules, recorded.division, baseline, out, plugins, **_key_option(recorded)
            )
        except KtdevalError as error:
            return RecordEvidence(notes=(f"the check could not run it again: {error}",))

        again = load_evaluation(path)
        assert isinstance(again, TradingCard)  # baselines exist only for trading tasks
        text = read_text(recorded.files.card, recorded.limits.bytes_of("card_mb"))

        difference = card_difference(_comparable(recorded.card), _comparable(again), text)
        if difference is not None:
            problem = f"differs from what the baseline gives when it is run again: {difference}"
            return RecordEvidence(recorded.locate_faults(("ledger", FileMessage(CARD, problem))))

        run = RunFolder.load(path.parent.parent)
        snapshot = open_recorded_snapshot(run, plugins, {})
        return RecordEvidence(
            tier="re-run",
            episodes=len(again.episodes),
            steps=again.coverage.steps,
            series=make_series(run, recorded.files.card_id, again, snapshot),
            decisions=make_decisions(run, recorded.files.card_id, again),
            # Two runs of a baseline give the same card except for machine-dependent fields, so the
            # id of the submitted card is used.
            rerun=_rerun(BY_CHECK, on, recorded.files.card_id, recorded.card, again),
        )


def _key_option(recorded: RecordedCard) -> dict[str, str | None]:
    """Return the run option that sets a card's mask key: the registration if the card refers to
    one, otherwise the key itself.
    """
    if recorded.card.registration:
        return {"registration": str(recorded.folder.key(recorded.card.registration))}

    return {"mask_key": recorded.card.mask_key or None}


def load_own_run(path: Path, rules: Rules, plugins: Plugins) -> list[OwnRun]:
    """Return the cards from the maintainers' run of one or more of this board's plans. Each card is
    verified against its records on the board's market.

    Raises UsageError if the run has no card that belongs to a division of this board,
    VerificationError if the run's records do not reproduce a card, and KtdevalError if the run
    can't be read or the market can't be opened.
    """
    runs = []
    for card_path in sorted((path / "cards").glob("*.json")):
        card = load_evaluation(card_path)
        division = division_of(rules, card)
        if division is None:
            continue

        market = rules.snapshot_of(division)
        changes: dict[str, Any] = {}
        if market is not None and market.data:
            changes = {"data": market.data, "data_args": market.data_args}

        for problem in verify_card(card_path, plugins, changes).findings:
            raise VerificationError(
                f"--rerun {path}: its records do not reproduce its card: {problem}"
            )

        runs.append(OwnRun(file_sha256(card_path), card, division.id))

    if not runs:
        raise UsageError(
            f"--rerun {path}: contains no card of a division of this board (with equal task, "
            "version, market, windows and seeds)"
        )

    return runs


def matching_run(recorded: RecordedCard, runs: Sequence[OwnRun]) -> OwnRun | None:
    """Return the maintainers' run of a submitted card's plan; None if no such run was made. Raises
    UsageError if the maintainers ran the same system with a different plan.
    """
    for own in runs:
        if own.division != recorded.division.id or names_of(own.card) != names_of(recorded.card):
            continue
        if own.card_id == recorded.files.card_id:
            raise UsageError(
                f"--rerun: card {own.card_id[:12]} is the submitted card itself; give a run of "
                "your own"
            )

        for difference in _plan_differences(recorded.card, own.card, recorded.rules):
            raise UsageError(
                f"--rerun: is not a run of the plan of card {recorded.files.card_id[:12]}:"
                f" {difference}"
            )

        return own

    return None


def with_rerun(
    evidence: RecordEvidence, recorded: RecordedCard, own: OwnRun, by: str, on: str
) -> RecordEvidence:
    """Return the evidence with the maintainers' own run added. The tier is `re-run` if the
    submitted records were re-executed as well.
    """
    tier: Tier = "re-run"
    notes = list(evidence.notes)
    if evidence.tier == "self-reported":
        tier = evidence.tier
        notes.append(
            "the maintainers ran the plan, but the submitted records could not be executed again"
        )

    mine = own.card
    theirs = recorded.card
    if mine.model != theirs.model or mine.request_settings != theirs.request_settings:
        notes.append(
            "the maintainers' run called the model with different settings (model parameters, or "
            "fields that its provider takes)"
        )

    rerun = _rerun(by, on, own.card_id, recorded.card, own.card)
    is_new_key = bool(own.card.mask_key) and own.card.mask_key != recorded.card.mask_key
    rerun = structs.replace(rerun, own_key=is_new_key and not own.card.registration)
    return replace(evidence, tier=tier, notes=tuple(notes), rerun=rerun)


def _comparable(card: Card) -> dict[str, JsonValue]:
    """Return the part of a card that is the same on any machine. Hashes of packed files are left
    out because their bytes vary with library versions, and the records of the code, with what
    follows from them, because they may differ between machines.
    """
    plain = card.plain
    for episode in plain["episodes"]:
        episode.pop("made_by", None)

    for name in ("foreign", "key_source", "rankable"):
        plain.pop(name, None)

    labels = [label for label in plain["labels"] if label not in _LABELS_OF_A_MACHINE]
    return {**plain, "labels": labels, "artefacts": sorted(card.artefacts)}


def _plan_differences(submitted: Card, own: Card, rules: Rules) -> Iterator[str]:
    """Yield the differences between the plans of two cards in the same division."""
    standing = standing_reasons(own, rules.packages)
    listed = {NEVER_TRADED, *could_know_reasons(own)}
    lacking = [reason for reason in standing if reason not in listed]
    if lacking:
        yield f"it is not complete: {'; '.join(lacking)}"

    fields = [
        ("agent", to_plain(submitted.agent), to_plain(own.agent)),
        ("limit", submitted.limit, own.limit),
    ]
    for name in sorted({*submitted.call, *own.call}.difference(TRANSPORT)):
        fields.append((f"call.{name}", submitted.call.get(name), own.call.get(name)))

    for name, theirs, ours in fields:
        if theirs != ours:
            yield (
                f"{name}: submitted {dumps_canonical(theirs)[:_SHOWN]}, found"
                f" {dumps_canonical(ours)[:_SHOWN]}"
            )


def _rerun(by: str, on: str, card_id: str, submitted: Card, again: Card) -> Rerun:
    claimed = figures_of(submitted)
    rerun = figures_of(again)
    figures = {}
    for name, figure in claimed.items():
        if figure.headline:
            found = rerun[name].value if name in rerun else None
            figures[name] = Figure(figure.value, found)

    return Rerun(by=by, on=on, card=card_id, figures=figures)
