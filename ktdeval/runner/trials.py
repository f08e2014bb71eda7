"""Number of trials: every trading episode that run folders plan counts, finished or not, since each was a chance to be lucky."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ktdeval.contracts.scoring import AnswerRecord
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.errors import StoreError
from ktdeval.jsonio import content_hash
from ktdeval.runner.journal import JournalEntry, entry_type
from ktdeval.runner.store import ANSWERS, JOURNAL, MANIFEST, NotARunError, RunFolder
from ktdeval.stats.luck import Shape, sharpe_shape

_DEPTH = 4  #: How deep below the store a run folder may lie


@dataclass(frozen=True, slots=True)
class Trials:
    """Trials of one window, or of all."""

    episodes: int  #: distinct episodes planned, limited and unfinished ones included: the number of trials of one episode
    strategies: int  #: distinct episodes, whatever their seed: the number of trials of a card, which reports a median over seeds
    finished: int  #: how many of the episodes have a ledger
    shapes: dict[str, Shape]  #: Sharpe ratio and moments of each finished episode that has them, by the episode's id
    runs: int  #: run folders read

    @property
    def sharpes(self) -> tuple[float, ...]:
        """Return a day's Sharpe ratio of each finished episode."""
        return tuple(shape.sharpe for shape in self.shapes.values())


def run_folders(roots: Iterable[Path]) -> list[RunFolder]:
    """Return the runs in or below these folders, by path. Raises StoreError where there is none, or one is unreadable. A
    manifest.json of something else, such as of a market beside the runs, is none of a run.
    """
    runs: dict[Path, RunFolder] = {}
    for root in roots:
        manifests = (path for depth in range(_DEPTH + 1) for path in root.glob(f"{'*/' * depth}{MANIFEST}"))
        for path in (own := {path.resolve().parent for path in manifests}) - runs.keys():
            with suppress(NotARunError):
                runs[path] = RunFolder.load(path)
        if runs.keys().isdisjoint(own):
            raise StoreError(f"{root}: no run here or in the folders below it (a run has a manifest.json)")
    return [runs[path] for path in sorted(runs)]


def count_trials(roots: Iterable[Path], window: str | None = None, snapshot: str | None = None) -> Trials:
    """Count the trials under these folders, of one window or snapshot if named (Sharpe ratios of different windows are not one
    sample); the same episode in two runs is one trial, and answers to questions are none. Raises StoreError where a folder has no
    run or can't be read.
    """
    specs: dict[str, EpisodeSpec] = {}
    finished: set[str] = set()
    shapes: dict[str, Shape] = {}
    folders = run_folders(roots)
    asking = {spec.task for folder in folders for spec in folder.manifest.specs if _holds_answers(folder, spec)}
    for folder in folders:
        for spec in folder.manifest.specs:
            if window not in (None, spec.window_name) or snapshot not in (None, spec.snapshot) or spec.task in asking:
                continue
            specs[spec.id] = spec
            if spec.id in finished or not folder.is_complete(spec):
                continue
            finished.add(spec.id)
            if (shape := sharpe_shape(folder.load_ledger(spec))) is not None:
                shapes[spec.id] = shape
    strategies = {content_hash({**spec.to_json(), "seed": 0}) for spec in specs.values()}
    ordered = {identity: shapes[identity] for identity in sorted(shapes)}
    return Trials(len(specs), len(strategies), len(finished), ordered, len(folders))


def _holds_answers(folder: RunFolder, spec: EpisodeSpec) -> bool:
    """Whether an episode is known to ask questions instead of trading: by its records, or since it has no market."""
    path = folder.episode_path(spec)
    if (path / JOURNAL).exists():
        return entry_type(path / JOURNAL) == JournalEntry[AnswerRecord]
    return spec.snapshot is None or (path / ANSWERS).exists()
