"""Repeat a run's steps with one input changed. Reads the run's folder, and writes the fork's
folder.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktdeval.calls import StopSignal
from ktdeval.cards import count
from ktdeval.errors import DataError, ProviderError, StoreError, UsageError, wrap_os_error
from ktdeval.harness import Model, Usage, model_traits
from ktdeval.registry import Plugins
from ktdeval.runner import (
    DECISIONS,
    FORK,
    FORK_VERSION,
    MANIFEST,
    ForkedDecision,
    ForkFile,
    Journal,
    ModelAccess,
    RunFolder,
    fork_beside,
    load_fork,
    open_access,
    open_run,
    own_model,
    recorded_market,
)
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import (
    JsonValue,
    Tell,
    check_output,
    dumps_pretty,
    file_sha256,
    lock_folder,
    near_matches,
    tell_nobody,
    to_plain,
    write_atomic,
)
from ktdeval_compare.forks.change_forms import EACH, InputChange, parse_change
from ktdeval_compare.forks.fork_statistics import (
    Asked,
    Variant,
    differ,
    family_figures,
    variant_figures,
)
from ktdeval_compare.forks.forker import AGAIN, Forked, Forker, fork_config
from ktdeval_compare.forks.input_changes import CannotChangeError, changes_of_each
from ktdeval_compare.transplants.transplant_run import choose_tasks
from ktdeval_compare.transplants.transplanter import trading_tasks
from ktdeval_compare.unread_orders import unread_notes

PLACEBOS = ("order=shuffled", "labels=shuffled")
#: number of samples for a model that samples; a deterministic model is called once
USUAL_SAMPLES = 5
_ALL = "all"
_MAX_SAMPLES = 1000


@dataclass(frozen=True, kw_only=True)
class ForkSettings:
    """Steps to repeat, the changes at each step, and the number of samples."""

    steps: tuple[str, ...] = ("0",)  #: step numbers, or `all`
    changes: tuple[str, ...] = (EACH,)
    samples: int | None = None  #: None: `USUAL_SAMPLES`, or 1 for a deterministic model
    windows: tuple[str, ...] = ()  #: names or globs; empty: all windows
    tasks: tuple[str, ...] = ()  #: task names; empty: all trading tasks
    seed: int = 0  #: seed for permutations and for the bootstrap
    data: str | None = None  #: folder of the market, if the market has moved
    #: run options: the model's current address, and spending limits
    run: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ForkCost:
    """Expected cost of a fork, estimated from the tokens used in the recorded steps."""

    decisions: int  #: number of decisions that are still to be requested
    done: int  #: number of decisions that are on record
    input_tokens: int
    output_tokens: int
    cost_usd: float | None  #: None if the price is not known
    is_free: bool

    @property
    def words(self) -> str:
        """The cost as one line of text."""
        told = f"{count(self.decisions, 'decision')} to ask"
        if self.done:
            told += f", {self.done} on record"
        if self.is_free:
            return f"{told}; the model runs on this machine and costs nothing"

        tokens = f"about {self.input_tokens:,} tokens in and {self.output_tokens:,} out"
        if self.cost_usd is None:
            return f"{told}; {tokens}, at an unknown price"
        return f"{told}; {tokens}, about {self.cost_usd:,.2f} US dollars"


@dataclass(frozen=True)
class _Point:
    """A step in an episode, which can be repeated with changes."""

    forker: Forker
    spec: EpisodeSpec
    step: int


@dataclass(frozen=True)
class _Question:
    """A decision to be requested."""

    point: _Point
    forked: Forked

    @property
    def key(self) -> tuple[str, int, str, int]:
        """Key under which the decision is recorded."""
        return (self.point.spec.id, self.point.step, self.forked.variant, self.forked.sample)


def load_fork_again(path: Path, settings: ForkSettings) -> ForkFile | None:
    """Return the document in a fork's folder, or None if the folder does not belong to a fork.

    Raises UsageError if any setting differs from its default.
    """
    if not (path / FORK).exists() or (path / MANIFEST).exists():
        return None
    if settings != ForkSettings():
        raise UsageError(
            f"{path}: is a fork, which can only be shown; to fork again, give the original run"
        )

    return load_fork(path)


def fork_run(
    path: Path,
    settings: ForkSettings,
    plugins: Plugins,
    agree: Callable[[ForkCost], None] = lambda _: None,
    out: Path | None = None,
    tell: Tell = tell_nobody,
) -> tuple[ForkFile, Path]:
    """Repeat a run's steps, and return the document and the folder to which it was written.
    Decisions that are already on record in that folder are not requested again. Before any request
    is made, `agree` is called with the cost; it can raise an exception to stop the fork.

    Raises KtdevalError if a setting is not valid for the run, or if the model can't be called.
    """
    folder = open_run(path, plugins)
    target = fork_beside(path) if out is None else out
    check_output(target, "folder", "--out")
    if (target / MANIFEST).exists():
        raise StoreError(f"{target}: contains a run; choose another --out")

    draws = _draws(folder, settings, plugins)
    if settings.samples is not None and not 1 <= settings.samples <= _MAX_SAMPLES:
        raise UsageError(f"--samples {settings.samples}: expected 1 to {_MAX_SAMPLES}")

    samples = settings.samples or (USUAL_SAMPLES if draws else 1)

    points = _points(folder, settings, plugins)
    plan = _Plan(points, settings.changes, samples)
    target.mkdir(parents=True, exist_ok=True)
    with lock_folder(target), _decisions(target, folder) as journal:
        asking = _Asking(plan, journal, folder)
        agree(asking.cost)
        with _access(folder, settings, plugins, target) as access:
            decisions = asking.ask(access, tell)

        file = _document(folder, settings, plan, decisions, draws)
        with wrap_os_error(f"{target}: can't write", "free space and run the same command again"):
            write_atomic(target / FORK, dumps_pretty(to_plain(file)))

    return file, target


# ---- what is asked


def _draws(folder: RunFolder, settings: ForkSettings, plugins: Plugins) -> bool:
    """Return whether a run's model can give different responses to the same request.

    Raises UsageError if the model can't be called.
    """
    spec = folder.manifest.specs[0]
    model: Model = own_model(fork_config(spec, settings.run), plugins)
    traits = model_traits(model)
    if traits.is_person:
        raise UsageError(
            f"{spec.model}: is a person, who can't be asked again without knowing the first "
            "answer; fork a run of a model"
        )
    if traits.recorded_settings is not None:
        raise UsageError(
            f"{spec.model}: only repeats recorded replies; fork a run of a model that can be called"
        )

    return traits.draws_chance or not traits.is_free


def _points(folder: RunFolder, settings: ForkSettings, plugins: Plugins) -> list[_Point]:
    """Return the steps to fork.

    Raises UsageError if the run lacks a task, window or step.
    """
    tasks = choose_tasks(trading_tasks(folder, plugins), settings.tasks)
    known = {task.name: task for task in tasks}
    market = recorded_market(folder, plugins, settings.data, "no step can be asked again")
    if isinstance(market, str):
        raise DataError(f"{folder.path}: {market}")

    specs = [spec for spec in folder.manifest.specs if spec.task in known]
    specs = _in_windows(specs, settings.windows)
    manifest = file_sha256(folder.path / MANIFEST)
    forkers: dict[str, Forker] = {}
    points = []
    for spec in specs:
        if spec.task not in forkers:
            forkers[spec.task] = Forker(folder, known[spec.task], market, plugins, manifest)

        total = folder.mark(spec).steps
        for step in steps_of(settings.steps, total, spec.label):
            points.append(_Point(forkers[spec.task], spec, step))

    return points


def _in_windows(specs: Sequence[EpisodeSpec], windows: Sequence[str]) -> list[EpisodeSpec]:
    names = list(dict.fromkeys(spec.window_name or "" for spec in specs))
    wanted: set[str] = set()
    for window in windows:
        found = fnmatch.filter(names, window)
        if not found:
            advice = near_matches(window, names) or f"; it has {', '.join(names)}"
            raise UsageError(f"--windows: no window {window!r} in this run{advice}")

        wanted.update(found)

    return [spec for spec in specs if not windows or spec.window_name in wanted]


def steps_of(steps: Sequence[str], total: int, label: str) -> list[int]:
    """Return the numbers of the steps that are given in `steps`.

    Raises UsageError if a step does not exist.
    """
    if _ALL in steps:
        return list(range(total))

    numbers = []
    for text in steps:
        if not re.fullmatch("[0-9]{1,6}", text) or int(text) >= total:
            raise UsageError(
                f"--step {text!r}: {label} has steps 0 to {total - 1}; give some of them, or all"
            )
        numbers.append(int(text))

    return sorted(set(numbers))


class _Plan:
    """Questions in a fork. Each step is repeated unchanged, with each placebo, and with each
    change. `notes` lists what was omitted. Raises UsageError if a named change can't be made at any
    step.
    """

    def __init__(self, points: Sequence[_Point], named: Sequence[str], samples: int) -> None:
        self.samples = samples
        self.notes: list[str] = []
        self.changes: dict[str, InputChange] = {}
        self.points = points
        self._left_out: dict[str, list[str]] = {}
        made: dict[str, int] = {}
        optional = set(PLACEBOS)
        self._at: list[tuple[_Point, list[InputChange]]] = []

        explicit = [parse_change(text) for text in named if text != EACH]
        for point in points:
            changes = {text: parse_change(text) for text in PLACEBOS}
            if EACH in named:
                state = point.forker.state(point.spec, point.step)
                each = {change.text: change for change in changes_of_each(state)}
                optional |= each.keys()
                changes |= each

            changes |= {change.text: change for change in explicit}
            possible = []
            for name, change in changes.items():
                self.changes[name] = change
                if self._is_possible(point, change):
                    made[name] = made.get(name, 0) + 1
                    possible.append(change)

            self._at.append((point, possible))

        for name in list(self.changes):
            self._settle(name, made.get(name, 0), name in optional)

    def _is_possible(self, point: _Point, change: InputChange) -> bool:
        try:
            point.forker.check(point.spec, point.step, change)
        except CannotChangeError as error:
            self._left_out.setdefault(change.text, []).append(str(error))
            return False

        return True

    def _settle(self, name: str, made: int, is_optional: bool) -> None:
        """Add a note on the steps at which a change can't be made.

        Raises UsageError if an explicitly named change can't be made at any step.
        """
        reasons = self._left_out.get(name)
        if not reasons:
            return
        if made:
            self.notes.append(f"{name}: left out at {count(len(reasons), 'step')}: {reasons[0]}")
            return
        if not is_optional:
            raise UsageError(f"--change {name!r}: {reasons[0]}")

        del self.changes[name]
        self.notes.append(f"{name}: left out: {reasons[0]}")

    def questions(self) -> Iterator[_Question]:
        """Yield the questions, grouped by step."""
        for point, changes in self._at:
            asked: list[InputChange | None] = [None]
            asked += [change for change in changes if change.text in self.changes]
            for change in asked:
                for sample in range(self.samples):
                    yield _Question(point, Forked(change, sample))

    def variants(self) -> list[Variant]:
        """Return the placebos, then the other changes."""
        changes = sorted(self.changes.values(), key=lambda change: not change.is_placebo)
        return [Variant(each.text, each.field, each.is_placebo) for each in changes]


# ---- asking


@contextmanager
def _decisions(target: Path, folder: RunFolder) -> Iterator[Journal[ForkedDecision]]:
    """Open the record of a fork's decisions.

    Raises StoreError if the record belongs to another run.
    """
    manifest = file_sha256(folder.path / MANIFEST)
    journal = Journal(target / DECISIONS, ForkedDecision)
    with journal:
        for decision in journal.recovered:
            if decision.manifest_sha256 != manifest:
                raise StoreError(f"{target}: contains a fork of another run; choose another --out")

        yield journal


@contextmanager
def _access(
    folder: RunFolder, settings: ForkSettings, plugins: Plugins, target: Path
) -> Iterator[ModelAccess]:
    """Open access to a run's model. Calls are recorded in the fork's folder."""
    config = fork_config(folder.manifest.specs[0], settings.run)
    _, access = open_access(config, plugins, target, StopSignal())
    try:
        yield access
    finally:
        access.close()


class _Asking:
    """Requests the decisions that are not yet on record."""

    def __init__(self, plan: _Plan, journal: Journal[ForkedDecision], folder: RunFolder) -> None:
        self._journal = journal
        self._folder = folder
        known = {_key(decision): decision for decision in journal.recovered}
        self._questions = list(plan.questions())
        self._known = {each.key: known[each.key] for each in self._questions if each.key in known}

    @property
    def cost(self) -> ForkCost:
        """Expected cost, assuming that each decision uses as many tokens as its recorded step."""
        left = [each for each in self._questions if each.key not in self._known]
        total = Usage()
        for question in left:
            point = question.point
            step = point.forker.entries(point.spec, point.step)[point.step].step
            total += Usage(input_tokens=step.input_tokens, output_tokens=step.output_tokens)

        manifest = self._folder.manifest
        price = manifest.price
        return ForkCost(
            decisions=len(left),
            done=len(self._known),
            input_tokens=total.input_tokens,
            output_tokens=total.output_tokens,
            cost_usd=None if price is None else price.cost(total),
            is_free=manifest.is_free,
        )

    def ask(self, access: ModelAccess, tell: Tell) -> list[ForkedDecision]:
        """Request the remaining decisions, and return all decisions.

        Raises KtdevalError if the model can't be called. The decisions made so far stay on record.
        """
        decisions = []
        errors = 0
        for done, question in enumerate(self._questions):
            tell(question.point.spec.label, done, len(self._questions))
            if question.key in self._known:
                decisions.append(self._known[question.key])
                continue

            point = question.point
            episode_access = access.for_episode(point.spec, lambda _: None)
            decision = point.forker.ask(point.spec, point.step, question.forked, episode_access)
            decisions.append(decision)
            is_failed = decision.failure is not None and decision.is_call_failure
            errors = errors + 1 if is_failed else 0
            if errors == access.max_errors:
                raise ProviderError(
                    f"{errors} decisions in a row failed ({decision.failure}); fix it, then run the"
                    " same command again to resume"
                )
            if not is_failed:  # a failed decision is requested again when the command is repeated
                self._journal.append(decision)

        return decisions


def _key(decision: ForkedDecision) -> tuple[str, int, str, int]:
    place = decision.place
    return (place.episode, place.step, decision.variant, decision.sample)


# ---- the document


def _document(
    folder: RunFolder,
    settings: ForkSettings,
    plan: _Plan,
    decisions: Sequence[ForkedDecision],
    draws: bool,
) -> ForkFile:
    first = folder.manifest.specs[0]
    as_recorded = _as_recorded(plan.points, decisions)
    notes = [*plan.notes, *_failures(decisions)]
    if not draws and as_recorded != 1.0:
        # repeats can differ after all, so no difference is exact
        draws = True
        notes.append(
            "a repeated step gave a different decision, so the model is not deterministic or has "
            f"changed; --samples {USUAL_SAMPLES} tests the changes against its own noise"
        )

    unread: list[str] = []
    for decision in decisions:
        unread += decision.unread
    notes += unread_notes(unread)

    asked = Asked.of(decisions, draws, settings.seed)
    rows = variant_figures(asked, plan.variants())
    named: dict[str, JsonValue] = {
        "steps": list(settings.steps),
        "changes": list(settings.changes),
        "windows": list(settings.windows),
        "tasks": list(settings.tasks),
        "seed": settings.seed,
    }
    return ForkFile(
        version=FORK_VERSION,
        run=folder.path.resolve().name,
        manifest_sha256=file_sha256(folder.path / MANIFEST),
        model=first.model,
        agent=first.agent,
        samples=plan.samples,
        draws=draws,
        places=tuple(point.forker.place(point.spec, point.step) for point in plan.points),
        selection=named,
        as_recorded=as_recorded,
        variants=tuple(rows),
        families=tuple(family_figures(rows)),
        notes=tuple(dict.fromkeys(notes)),
    )


def _as_recorded(points: Sequence[_Point], decisions: Sequence[ForkedDecision]) -> float | None:
    """Return the share of repeated decisions that equal the recorded ones, or None if no decision
    was repeated.
    """
    by_place = {(point.spec.id, point.step): point for point in points}
    same = []
    for decision in decisions:
        if decision.variant != AGAIN or decision.failure is not None:
            continue

        point = by_place[decision.place.episode, decision.place.step]
        weights, sides = point.forker.read_decision(point.spec, point.step)
        same.append(not differ(decision, replace_decision(decision, weights, sides)))

    return None if not same else sum(same) / len(same)


def replace_decision(
    decision: ForkedDecision, weights: dict[str, float], sides: dict[str, str]
) -> ForkedDecision:
    """Return the decision with other weights and sides."""
    fields = {name: getattr(decision, name) for name in decision.__struct_fields__}
    return ForkedDecision(**{**fields, "weights": weights, "sides": sides})


def _failures(decisions: Sequence[ForkedDecision]) -> list[str]:
    counts: dict[str, int] = {}
    for decision in decisions:
        if decision.failure is not None:
            counts[decision.failure] = counts.get(decision.failure, 0) + 1

    return [f"{count(times, 'decision')} without an answer: {why}" for why, times in counts.items()]
