"""Verification: each number on a card is recomputed from its records, and each record from the
model's replies.

Only two things are trusted: the model's replies, and embedding vectors that an agent got from a
server. They pass through the agent, the tools and the mask again, which yields prompts, tool
results, counts, provenance and orders. The orders are executed again on the snapshot, and the
metrics are recomputed from the result. In each file, the first line that differs is reported.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import UNSET, structs

from ktdeval.cards.assembly import build_card
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.card_reading import load_evaluation
from ktdeval.cards.fields.card_inputs import CardInputs
from ktdeval.cards.fields.origin.plan import is_declared
from ktdeval.cards.fields.origin.provenance import made_at
from ktdeval.cards.recomputation_diff import (
    card_difference,
    first_difference,
    has_earlier_intervals,
    steps_difference,
    value_difference,
)
from ktdeval.errors import DataError, KtdevalError, ModelError, StoreError, VerificationError
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply
from ktdeval.harness.external.external_acts import NO_ACTS, RecordedActs
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.harness.traits import ModelTraits
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_boundary import call_foreign
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.episodes.bookkeeper import recorded_decision
from ktdeval.runner.episodes.episode_execution import Episode, EpisodeFactory
from ktdeval.runner.records.episode_journal import Entry, Record
from ktdeval.runner.records.run_file_names import (
    ANSWERS,
    DECLARED_FILE,
    LEDGER,
    MANIFEST,
    MARK,
    TRANSCRIPT,
)
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.transcript_counts import count_said
from ktdeval.runner.records.url_run import run_file
from ktdeval.runner.scoring.anchor_checks import check_anchors
from ktdeval.runner.scoring.call_log_checks import (
    mark_difference,
    provenance_findings,
    unreadable_finding,
)
from ktdeval.runner.scoring.model_identity_checks import (
    card_claims,
    manifest_problems,
    unknown_model,
)
from ktdeval.runner.scoring.score import (
    check_ran,
    make_card,
    make_inputs,
    open_market_of_run,
    open_run,
    run_of,
)
from ktdeval.stats.resampling import Resampling
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import is_scoring
from ktdeval.task_api.trading_task import Task
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.findings import Finding
from ktdeval.values.hashes import file_sha256
from ktdeval.values.options.config_options import build
from ktdeval.values.progress_reports import Tell, tell_nobody


class RecordedModel:
    """Model that returns a step's recorded replies in order, whatever it is asked. The caller
    compares the requests.
    """

    def __init__(self) -> None:
        #: remaining replies of the current step
        self.exchanges: deque[Mapping[str, JsonValue]] = deque()
        self.embedded: deque[Mapping[str, JsonValue]] = deque()  #: likewise
        self.predicted: Mapping[str, float] | None = None  #: likewise
        self._acts = NO_ACTS
        self.traits = ModelTraits(
            recorded_vectors=self._vectors,
            recorded_predictions=self._predictions,
            recorded_acts=self._recorded_acts,
        )

    def begin_step(self, transcript: TranscriptEntry) -> None:
        """Begin a step, whose replies are returned from now on."""
        self.exchanges = deque(transcript.exchanges)
        self.embedded = deque(transcript.embedded or ())
        self.predicted = None if transcript.predicted is UNSET else transcript.predicted
        self._acts = NO_ACTS
        if transcript.external is not UNSET:
            self._acts = RecordedActs(transcript.external, transcript.exchanges)

    def reply(self, request: ModelRequest) -> Reply:  # noqa: ARG002 - see the class
        """Return the next recorded reply. Raises ModelError if the recorded call failed, or
        StoreError if no reply is left.
        """
        exchange = _next(
            self.exchanges, "the agent calls the model more often than the transcript has replies"
        )
        reply = exchange.get("reply")
        return build(Reply, reply if isinstance(reply, Mapping) else {}, "reply")

    def _vectors(self, texts: Sequence[str]) -> list[str]:  # noqa: ARG002 - as `reply`
        """Return the next recorded vectors. Raises as `reply` does."""
        record = _next(
            self.embedded, "the agent requests vectors more often than the transcript has them"
        )
        vectors = record.get("vectors")
        return list(map(str, vectors)) if isinstance(vectors, Sequence) else []

    def _predictions(self, first: ModelRequest) -> Mapping[str, float] | None:  # noqa: ARG002 - as `reply`
        """Return the predictions recorded for the step; None if the model makes no predictions."""
        return self.predicted

    def _recorded_acts(self) -> RecordedActs:
        """Return the recorded actions of an external agent in the step; empty for other agents."""
        return self._acts


def _next(records: deque[Mapping[str, JsonValue]], missing: str) -> Mapping[str, JsonValue]:
    """Take the next recorded call. Raises ModelError if the call failed. If no call is left, raises
    StoreError with the message `missing`.
    """
    if not records:
        raise StoreError(missing)

    record = records.popleft()
    if "error" in record:
        raise ModelError(str(record["error"]), "recorded")

    return record


def retrace_episode(
    transcript: Sequence[TranscriptEntry], open_episode: Callable[[Model], Episode]
) -> Iterator[Entry]:
    """Replay an episode with its recorded replies, and yield the entry of each step.

    Raises PluginError if the agent fails: with wrong replies, it may raise any exception.
    """
    model = RecordedModel()
    where = "can't be retraced"
    episode = call_foreign(open_episode, where, model)
    for step in range(min(episode.total_steps, len(transcript))):
        model.begin_step(transcript[step])
        yield call_foreign(episode.run_step, where, step)


def retrace_memories(
    folder: RunFolder, spec: EpisodeSpec, plugins: Plugins, snapshot: MarketSnapshot | None
) -> list[JsonValue]:
    """Return the agent's memory after each step of a complete trading episode, by replaying the
    episode with its recorded replies.

    Raises KtdevalError if the episode can't be replayed. Raises VerificationError if a step differs
    from the ledger.
    """
    open_run(folder.path, plugins)
    factory = EpisodeFactory({spec.task: plugins.make_task(spec.task)}, plugins, snapshot)
    memories: list[JsonValue] = []
    retraced = retrace_episode(
        folder.load_transcript(spec), lambda model: factory.open(spec, model)
    )

    for recorded in folder.load_ledger(spec).steps:
        entry = next(retraced, None)
        difference = value_difference(recorded, entry and entry.step)
        if entry is None or difference:
            raise VerificationError(
                f"step {recorded.step}: does not follow from the recorded replies: {difference}"
            )

        memories.append(entry.memory)

    return memories


@dataclass(frozen=True)
class Verification:
    """Result of a verification."""

    #: findings about files that differ, with their first difference; empty if everything matches
    findings: tuple[Finding, ...]
    episodes: int  #: number of episodes executed again
    steps: int  #: number of steps executed again
    #: number of steps in which all orders come from one submission by the model; in other steps,
    #: positions were held by the engine, or an agent assembled the orders
    traced_steps: int
    #: checks that were impossible with the installed plugins, one line each
    notes: tuple[str, ...] = ()


def verify_card(
    path: Path,
    plugins: Plugins,
    changes: Mapping[str, Any],
    tell: Tell = tell_nobody,
    is_published: bool = False,
    now: datetime | None = None,
) -> Verification:
    """Verify a card against the run folder that contains it.

    `changes` may contain the current location of the data, or different `items`. `tell` is called
    for each episode. `is_published`: True for a copy for a leaderboard, which has no call log. A
    card that was created after `now` yields a finding. Raises KtdevalError if the card is invalid,
    or if its run or snapshot is missing or changed.
    """

    def execute(folder: RunFolder, task: Any, snapshot: MarketSnapshot | None) -> Verification:
        return verify_records(folder, task, plugins, snapshot, tell)

    return _verify_by(execute, path, plugins, changes, is_published, now)


#: checks of `verify_card` that `verify_figures` leaves out
NOT_CHECKED = (
    "that orders and answers follow from the model's replies",
    "that fills, costs and account values follow from the orders",
)


def verify_figures(
    path: Path, plugins: Plugins, changes: Mapping[str, Any], now: datetime | None = None
) -> Verification:
    """Verify a card's figures and hashes from the records of its run, without executing steps
    again.

    The statements in `NOT_CHECKED` are not verified. Arguments and errors are as for `verify_card`.
    """

    def count(folder: RunFolder, task: Any, _snapshot: MarketSnapshot | None) -> Verification:
        problems = manifest_problems(folder.manifest, plugins)
        findings = tuple(Finding(path=MANIFEST, message=problem) for problem in problems)
        return Verification(findings, len(folder.complete_specs(task.name)), 0, 0)

    return _verify_by(count, path, plugins, changes, False, now)


def _verify_by(
    check_records: Callable[[RunFolder, Any, MarketSnapshot | None], Verification],
    path: Path,
    plugins: Plugins,
    changes: Mapping[str, Any],
    is_published: bool,
    now: datetime | None,
) -> Verification:
    """Verify a card, using `check_records` to check its records. Other arguments and errors are as
    for `verify_card`.
    """
    card = load_evaluation(path)
    folder = open_run(run_of(path), plugins)
    task = plugins.make_task(card.task.name, changes.get("items"))
    snapshot = open_market_of_run(folder, plugins, changes)
    if card.snapshot is not None and card.snapshot.id != folder.manifest.snapshot:
        used = folder.manifest.snapshot or "none"
        raise DataError(
            f"{path}: snapshot.id: the card names {card.snapshot.id[:12]}, but the run used"
            f" {used[:12]}"
        )

    complete = folder.complete_specs(task.name)
    if complete:
        # checked first, since with a different task, all records would differ just because of this
        check_ran(folder, task, plugins, complete[0])

    records = check_records(folder, task, snapshot)
    findings = [*records.findings, *_file_findings(folder, card)]
    if is_declared(card.model.name) and not is_published:
        declared = str(card.model.args.get("sha256"))
        findings += _hash_findings(DECLARED_FILE, folder.path / DECLARED_FILE, declared)

    findings += provenance_findings(path.name, folder, card, complete, is_published)
    anchors = check_anchors(folder, card, complete, is_published)
    findings += anchors.findings
    problems = list(card_claims(card, plugins))
    moment = made_at(card.provenance)
    if now is not None and moment is not None and moment > now:
        problems.append(f"provenance.created_at: {card.provenance.created_at} is in the future")

    is_rescored = path.resolve().parent != folder.path.resolve() / "cards"
    if isinstance(card, TradingCard) and is_rescored:
        # use the rules and metrics that were passed to `score`
        further = tuple(name for name in card.metrics if name not in task.metrics)
        folder.manifest = replace(folder.manifest, rules=card.rules, metrics=further)

    labelled = _with_labels_of(card, snapshot) if "data" in changes else snapshot
    problem = _card_problem(path, card, folder, task, labelled, plugins)
    if problem is not None:
        problems.append(problem)

    findings += [Finding(path=path.name, message=problem) for problem in problems]
    unknown = unknown_model(card, plugins)
    notes = anchors.notes if unknown is None else (f"{path.name}: {unknown}", *anchors.notes)
    return replace(records, findings=tuple(findings), notes=notes)


def verify_records(
    folder: RunFolder,
    task: Any,
    plugins: Plugins,
    snapshot: MarketSnapshot | None,
    tell: Tell = tell_nobody,
) -> Verification:
    """Execute a run's complete episodes of a task again, from the model's replies, without reading
    a card.

    The plugins, not the run, determine whether a model is remote. `tell` is called for each
    episode.
    """
    specs = folder.complete_specs(task.name)
    factory = EpisodeFactory({task.name: task}, plugins, snapshot)
    records_file = ANSWERS if is_scoring(task) else LEDGER
    problems = manifest_problems(folder.manifest, plugins)
    findings = [Finding(path=MANIFEST, message=problem) for problem in problems]
    steps = 0
    traced = 0

    for done, spec in enumerate(specs):
        tell(spec.label, done, len(specs))
        check = _EpisodeCheck(spec, folder, factory, records_file)
        findings += check.findings()
        steps += check.steps
        traced += check.traced

    return Verification(tuple(findings), len(specs), steps, traced)


@dataclass
class _EpisodeCheck:
    """Compares an episode's records and transcript with each other and with the model's replies. It
    counts the executed `steps`, and the steps `traced` to a submission.
    """

    spec: EpisodeSpec
    folder: RunFolder
    factory: EpisodeFactory
    records_file: str
    steps: int = 0
    traced: int = 0

    def findings(self) -> Iterator[Finding]:
        """Yield findings about each file that differs."""
        prefix = f"episodes/{self.spec.id}"
        problems = list[str]()
        try:
            if self.records_file == ANSWERS:
                records: Sequence[Record] = self.folder.load_answers(self.spec)
            else:
                ledger = self.folder.load_ledger(self.spec)
                records = ledger.steps
                problems = list(self._ledger_problems(ledger))

            self.steps = len(records)
            for message in problems:
                yield Finding(path=f"{prefix}/{self.records_file}", message=message)

            transcript = self.folder.load_transcript(self.spec)
            # If the ledger is inconsistent, its differences from the transcript would add nothing
            # new.
            problem = self._transcript_problem(transcript, None if problems else records)
        except StoreError as error:
            yield unreadable_finding(self.folder, error)
        else:
            if problem:
                yield Finding(path=f"{prefix}/{TRANSCRIPT}", message=problem)
                return

            difference = self._mark_difference()
            if difference:
                yield Finding(path=f"{prefix}/{MARK}", message=difference)

    def _mark_difference(self) -> str | None:
        """Return the first difference between the completion mark and this episode's spec, steps
        and calls; None if they agree.
        """
        mark = self.folder.mark(self.spec)
        difference = value_difference(dict(mark.spec), self.spec.to_json())
        if difference:
            return f"spec.{difference}"

        if mark.steps != self.steps:
            return f"steps: recorded {mark.steps}, but its records have {self.steps}"

        said = count_said(self.folder.load_transcript(self.spec))
        counted = said if mark.said.served else structs.replace(said, served=())
        difference = value_difference(mark.said, counted)
        if difference:
            return f"said.{difference}"

        return mark_difference(self.folder, mark.calls, said)

    def _ledger_problems(self, ledger: Ledger) -> Iterator[str]:
        """Yield each wrong field in the header, and the first line that does not follow from the
        ledger's decisions.
        """
        difference = first_difference(dict(ledger.spec), self.spec.to_json())
        if difference:
            yield f"spec: {difference}"

        parts = self.factory.trading_parts(self.spec, RecordedModel())
        expected = parts.ledger(self.spec, ledger.steps)
        for name in ("initial_cash_minor", "currency", "minor_per_unit", "days_a_year", "scales"):
            recorded = getattr(ledger, name)
            computed = getattr(expected, name)
            if recorded != computed:
                yield f"{name}: recorded {recorded}, but task and market give {computed}"

        books = parts.bookkeeper(self.spec)
        recomputed = list[StepRecord]()
        try:
            for number, recorded in enumerate(ledger.steps):
                decision = recorded_decision(parts.snapshot, recorded)
                recomputed.append(books.book(number, decision, recorded))
        except (KtdevalError, IndexError) as error:
            difference = steps_difference(ledger.steps[: len(recomputed)], recomputed)
            yield difference or f"line {len(recomputed) + 1}: can't be executed: {error}"
            return

        difference = steps_difference(ledger.steps, recomputed)
        if difference:
            yield difference

    def _transcript_problem(
        self, transcript: Sequence[TranscriptEntry], steps: Sequence[Record] | None
    ) -> str | None:
        """Return the first transcript line that does not follow from the replies up to it, or that
        contradicts its line in the records; None if every line is consistent.
        """
        for number, entry in enumerate(transcript):
            if entry.step != number:
                return (
                    f"line {number + 1}: is step {entry.step}, expected step {number}; a line is"
                    " missing, doubled or out of order"
                )

        if steps is not None and len(steps) != len(transcript):
            return (
                f"line {min(len(steps), len(transcript)) + 1}: {len(transcript)} lines, but"
                f" {self.records_file} has {len(steps)}"
            )

        retraced = retrace_episode(transcript, lambda model: self.factory.open(self.spec, model))
        for number, entry in enumerate(transcript):
            step = None if steps is None else steps[number]
            problem = self._step_problem(entry, step, retraced)
            if problem is not None:
                return f"line {number + 1}: {problem}"

            self.traced += entry.submission is not None

        return None

    def _step_problem(
        self, entry: TranscriptEntry, step: Record | None, retraced: Iterator[Entry]
    ) -> str | None:
        """Return the difference between a recorded step (its conversation and record) and the next
        replayed step; None if they are equal.
        """
        try:
            rerun = next(retraced, None)
        except KtdevalError as error:
            return str(error)

        if rerun is None:
            return "the window has no such day"

        difference = value_difference(entry, rerun.transcript)
        if difference or step is None:
            return difference

        difference = value_difference(step, rerun.step)
        if not difference:
            return None

        line = entry.step + 1
        return f"line {line} of {self.records_file} does not follow from its replies: {difference}"


def _file_findings(folder: RunFolder, card: TradingCard | ScoringCard) -> Iterator[Finding]:
    """Yield findings about files listed on a card that are not records of its run, or whose hashes
    differ.
    """
    records = set()
    for spec in folder.manifest.specs:
        records |= {f"episodes/{spec.id}/{name}" for name in (LEDGER, ANSWERS, TRANSCRIPT)}

    for name, recorded in card.artefacts.items():
        if name in records:
            yield from _hash_findings(name, run_file(folder.path, name), recorded)
        else:  # never open a path from an untrusted card
            message = "is named by the card, but is not a record of this run"
            yield Finding(path=name, message=message)


def _hash_findings(name: str, path: Path, recorded: str) -> Iterator[Finding]:
    """Yield a finding if a file is missing, or its hash differs from the recorded hash."""
    if not path.is_file():
        message = f"is missing; the card recorded the SHA-256 {recorded[:12]}…"
        yield Finding(path=name, message=message)
        return

    digest = file_sha256(path)
    if digest != recorded:
        message = f"SHA-256 is {digest[:12]}…, but the card recorded {recorded[:12]}…"
        yield Finding(path=name, message=message)


def _with_labels_of(
    card: TradingCard | ScoringCard,
    snapshot: MarketSnapshot | None,
) -> MarketSnapshot | None:
    """Return the market with the name and source that the card gives. The card can then also be
    verified with another import of the same contents.
    """
    if snapshot is None or card.snapshot is None:
        return snapshot

    shown = card.snapshot
    repairs = tuple(shown.repairs)
    meta = replace(snapshot.meta, name=shown.name, source=shown.source, repairs=repairs)

    return snapshot if meta == snapshot.meta else replace(snapshot, meta=meta)


def _card_problem(
    path: Path,
    card: TradingCard | ScoringCard,
    folder: RunFolder,
    task: Task,
    snapshot: MarketSnapshot | None,
    plugins: Plugins,
) -> str | None:
    """Return the difference between a card and the same card recomputed from its records; None if
    they are equal.
    """
    for name in folder.manifest.metrics:
        if name not in plugins.specs("metrics"):
            owner = card.provenance.environment.get(f"metric {name}", "a plugin")
            return (
                f"unknown metric {name!r}: it came from {owner}; install that plugin, or give its"
                " file with --plugin"
            )

    # the reasons why episodes are missing can't be recomputed
    errors = {entry.id: entry.error for entry in card.missing_episodes}
    try:
        recomputed = call_foreign(
            make_card, "can't be recomputed", folder, task, snapshot, plugins, errors
        )
    except KtdevalError as error:
        return str(error)

    text = read_plain(path).decode()
    difference = card_difference(card.plain, recomputed.plain, text)
    if difference is None and has_earlier_intervals(card.plain, recomputed.plain):
        inputs = make_inputs(folder, task, snapshot, plugins, errors)
        assert isinstance(inputs, CardInputs), "only trading cards have intervals over days"
        earlier = build_card(replace(inputs, resampling=Resampling(max_day_share=1.0)))
        difference = card_difference(card.plain, earlier.plain, text)
    return difference
