"""Runs whose recorded decisions are votes: checks that the runs share one plan, and the ballots in
each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.cards import System, system_labels
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness import Reply, ToolCall, TranscriptEntry, Usage, submission_object
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.masking import Lens
from ktdeval.runner import RunFolder
from ktdeval.task_api import EpisodeSpec, Task
from ktdeval.trading import DECIDED, StepRecord
from ktdeval.values import JsonValue, content_hash, dumps_canonical
from ktdeval_agents.model_per_episode import PlannedEpisodes

Key = tuple[str, str, str, str, int]
"""What matching episodes of different runs share: task, name and ends of the window, and seed."""


@dataclass(frozen=True)
class Voter:
    """A run whose decisions are the votes of one voter."""

    path: Path
    folder: RunFolder
    episodes: Mapping[Key, EpisodeSpec]
    records: str  #: SHA-256 over the run's ledgers and transcripts

    @property
    def first(self) -> EpisodeSpec:
        """First episode of the run's plan; all its episodes have the same system."""
        return self.folder.manifest.specs[0]

    @property
    def system(self) -> System:
        """Model, agent and call settings."""
        return System.of_spec(self.first, self.folder.manifest.request_settings)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the facts about this voter that an elected run records."""
        first = self.first
        return {
            "model": first.model,
            "model_args": dict(first.model_args),
            "agent": first.agent,
            "agent_args": dict(first.agent_args),
            "call": dict(first.call),
            "is_free": self.folder.manifest.is_free,
            "records": self.records,
        }


def open_voters(paths: Sequence[Path]) -> list[Voter]:
    """Open runs with the same plan. Raises UsageError if there are fewer than two runs, if a run is
    given twice, or if a run differs from the first in something that must be equal. Raises
    StoreError if an episode is not finished, or if a record was changed after the end of the run.
    """
    if len(paths) < 2:
        raise UsageError(f"{paths[0]}: a vote needs two or more runs of one task")

    voters = [_open(path) for path in paths]
    first = voters[0]
    for number, voter in enumerate(voters[1:], 1):
        _check_alike(first, voter)
        for earlier in voters[:number]:
            if voter.first.id == earlier.first.id:
                raise UsageError(
                    f"{voter.path}: has the episodes of {earlier.path} (model, agent, seed and mask"
                    " key are equal); a run votes once"
                )

    return voters


def _open(path: Path) -> Voter:
    folder = RunFolder.load(path)
    specs = folder.manifest.specs
    for spec in specs:
        if spec.window is None:
            raise UsageError(
                f"{path}: {spec.task} is not a trading task; elect from runs of trading tasks"
            )
        if not folder.is_complete(spec):
            raise StoreError(f"{path}: {spec.label} is not finished; resume the run first")

    records = content_hash(folder.artefacts(specs))
    return Voter(path, folder, {episode_key(spec): spec for spec in specs}, records)


def episode_key(spec: EpisodeSpec) -> Key:
    """Return the key that an episode shares with the matching episodes in other runs with the same
    plan.
    """
    return (spec.task, spec.window_name or "", *spec.ends, spec.seed)


_FACETS: Mapping[str, Callable[[Voter], Sequence[str]]] = {
    "the market (snapshot)": lambda voter: [str(voter.folder.manifest.snapshot)[:12]],
    "tasks": lambda voter: sorted({spec.task for spec in voter.episodes.values()}),
    "the tasks' content": lambda voter: sorted(
        {f"{spec.task} {spec.task_hash[:12]}" for spec in voter.episodes.values()}
    ),
    "windows": lambda voter: sorted(
        {f"{name} {first}:{last}" for _, name, first, last, _ in voter.episodes}
    ),
    "seeds": lambda voter: sorted({str(seed) for *_, seed in voter.episodes}),
    "the limit of steps": lambda voter: [str(voter.first.limit)],
    "episodes": lambda voter: sorted(" ".join(map(str, key)) for key in voter.episodes),
}
"""What must be equal in all runs, named as a user would name it. The mask keys may differ, because
each handle is read under the key of its own run.
"""


def _check_alike(first: Voter, other: Voter) -> None:
    for name, facet in _FACETS.items():
        expected = facet(first)
        found = facet(other)
        if found != expected:
            raise UsageError(
                f"{other.path}: {name} differ: {_few(found)}; {first.path} has {_few(expected)};"
                " elect from runs of one plan"
            )


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def voter_labels(voters: Sequence[Voter]) -> tuple[str, ...]:
    """Return a name for each voter: its system, with a number if several voters have the same
    system.
    """
    names = system_labels(voter.system for voter in voters)
    labels: list[str] = []
    for voter in voters:
        name = names[voter.system]
        repeats = labels.count(name) + sum(label.startswith(f"{name} #") for label in labels)
        labels.append(f"{name} #{repeats + 1}" if repeats else name)

    return tuple(labels)


# ---- ballots


@dataclass(frozen=True, slots=True)
class _BallotMasks:
    """Masks of a ballot: the mask under which the ballot was written, and the mask of the elected
    run.
    """

    written: Lens
    read: Lens

    @classmethod
    def of(cls, task: Task, written: EpisodeSpec, read: EpisodeSpec, market: Any) -> _BallotMasks:
        masks = cls(task.scene(written, market).lens, task.scene(read, market).lens)
        for asset in range(len(market.codes)):
            masks.written.asset_handle(asset)  # a lens parses only handles that it has shown
        return masks

    def move_to(self, row: int) -> None:
        """Move both lenses to a day."""
        self.written.move_to(row)
        self.read.move_to(row)

    def label(self, label: str) -> str | None:
        """Return a label as the elected run shows it; None if the label is not an asset."""
        if not self.read.hides_assets:
            return label

        asset = self.written.parse_asset(label)
        return None if asset is None else self.read.asset_handle(asset)

    def shares(self, label: str, shown: float) -> float:
        """Return a number of shares as the elected run shows it."""
        asset = self.written.parse_asset(label)
        if asset is None:
            return shown

        written = self.written.figures.shares_in(asset, 1.0)
        read = self.read.figures.shares_in(asset, 1.0)
        return shown if written == read else shown * written / read


@dataclass(frozen=True)
class Ballots:
    """Ballots for the episodes of an elected run."""

    voters: Sequence[Voter]
    plan: PlannedEpisodes

    def of(self, spec: EpisodeSpec) -> Iterator[Reply]:
        """Yield the ballots for an episode, by step, then by voter. Raises UsageError if a decision
        can't be read from its record.
        """
        task = self.plan.tasks[spec.task]
        market = self.plan.snapshot
        if market is None:
            raise UsageError(f"{spec.task} is not a trading task; elect from runs of trading tasks")

        columns = [_replies(voter, spec, task, market) for voter in self.voters]
        for replies in zip(*columns, strict=True):
            yield from replies


def _replies(
    voter: Voter, spec: EpisodeSpec, task: Task, market: MarketSnapshot
) -> Iterator[Reply]:
    """Yield a voter's ballot for each step of the elected run's episode `spec`."""
    own = voter.episodes[episode_key(spec)]
    masks = _BallotMasks.of(task, own, spec, market)
    base_row = window_rows(market.days, spec.span.first, spec.span.last)[0] - 1
    steps = voter.folder.load_ledger(own).steps
    transcript = voter.folder.load_transcript(own)
    for step, entry in zip(steps, transcript, strict=True):
        masks.move_to(base_row + step.step)
        usage = _step_usage(step)
        submission = _voter_submission(voter, step, entry)
        if submission is None:
            reply = Reply(f"No decision on record: {step.provenance}.", usage=usage)
        else:
            ballot = _translate_submission(submission, masks, task.harness.min_reason_chars)
            call = ToolCall("ballot", "submit_action", dumps_canonical(ballot))
            reply = Reply(tool_calls=(call,), finish_reason="tool_calls", usage=usage)

        yield reply


def _step_usage(step: StepRecord) -> Usage:
    """Return the tokens that a voter used for a step."""
    return Usage(
        step.input_tokens,
        step.output_tokens,
        step.reasoning_tokens,
        step.cache_read_tokens,
        step.cache_write_tokens,
    )


def _voter_submission(
    voter: Voter, step: StepRecord, entry: TranscriptEntry
) -> Mapping[str, Any] | None:
    """Return a voter's submission in a step; None if the voter made no decision in the step, which
    is not a vote. Raises UsageError if the transcript has no submission.
    """
    if step.provenance not in DECIDED:
        return None
    if entry.submission is None:
        raise UsageError(
            f"{voter.path}: step {step.step}: no submission is on record, since the agent"
            f" {voter.first.agent} put the decision together; elect from runs of agents that submit"
            " what the model wrote, such as react or a team"
        )

    return submission_object(entry.submission)


def _translate_submission(
    submission: Mapping[str, Any], masks: _BallotMasks, min_reason_chars: int
) -> Mapping[str, Any]:
    """Return a submission with assets and shares as the elected run shows them. Items without an
    asset are dropped. Reasons are replaced, since they name assets by handles of another mask.
    """
    ballot = dict[str, Any]()
    reason = "As recorded in the voter's own run.".ljust(min_reason_chars, ".")
    for kind, items in submission.items():
        if kind == "overall_reason":
            ballot[kind] = reason
            continue

        ballot[kind] = []
        for item in items:
            label = masks.label(item["stock_id"])
            if label is None:
                continue

            translated = {**item, "stock_id": label, "reason": reason}
            if "shares" in item:
                translated["shares"] = masks.shares(item["stock_id"], item["shares"])
            ballot[kind].append(translated)

    return ballot
