"""Number of trials: all trading episodes planned in run folders, finished or not, since each one
was another chance of a lucky result.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.errors import StoreError
from ktdeval.runner.records.episode_journal import JournalEntry, entry_type
from ktdeval.runner.records.run_file_names import ANSWERS, JOURNAL, MANIFEST
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import NotARunError
from ktdeval.stats.sharpe_significance import SharpeMoments, sharpe_shape
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.values.hashes import content_hash

_DEPTH = 4  #: maximum depth of a run folder below a root folder


@dataclass(frozen=True, slots=True)
class TrialReturns:
    """Daily returns of one finished episode, with the hash of its ledger."""

    returns: npt.NDArray[np.float64]  #: [steps] simple returns of the NAV
    resolution: float  #: smallest return that minor units can express: `Ledger.return_resolution`
    ledger_sha256: str


@dataclass(frozen=True, slots=True)
class Trials:
    """Trials of one window, or of all windows."""

    #: distinct planned episodes, including limited and unfinished ones: the number of trials when a
    #: single episode is judged
    episodes: int
    #: distinct episodes, ignoring seeds: the number of trials when a card is judged, because a card
    #: reports medians over seeds
    strategies: int
    finished: int  #: number of these episodes that have a ledger
    #: Sharpe ratio and moments by episode id, for finished episodes in which they are defined
    shapes: dict[str, SharpeMoments]
    returns: dict[str, TrialReturns]  #: returns of finished episodes, by episode id
    runs: int  #: number of run folders read

    @property
    def sharpes(self) -> tuple[float, ...]:
        """Return the daily Sharpe ratios of finished episodes, where defined."""
        return tuple(shape.sharpe for shape in self.shapes.values())


def run_folders(roots: Iterable[Path]) -> list[RunFolder]:
    """Return the runs in or below these folders, sorted by path.

    Other `manifest.json` files, such as those of markets, are skipped. Raises StoreError if a
    folder contains no run, or a run is unreadable.
    """
    runs: dict[Path, RunFolder] = {}
    for root in dict.fromkeys(roots):  # several cards may belong to the same run
        paths = _manifest_folders(root)
        for path in paths - runs.keys():
            with suppress(NotARunError):
                runs[path] = RunFolder.load(path)

        if runs.keys().isdisjoint(paths):
            raise StoreError(
                f"{root}: no run here or in the folders below it (a run has a manifest.json)"
            )

    return [runs[path] for path in sorted(runs)]


def _manifest_folders(root: Path) -> set[Path]:
    """Return the folders at or below `root` that contain a `manifest.json`."""
    folders: set[Path] = set()
    for depth in range(_DEPTH + 1):
        manifests = root.glob(f"{'*/' * depth}{MANIFEST}")
        folders |= {manifest.resolve().parent for manifest in manifests}

    return folders


def count_trials(
    roots: Iterable[Path], window: str | None = None, snapshot: str | None = None
) -> Trials:
    """Count the trials in and below these folders.

    If `window` or `snapshot` is given, only its trials are counted, because Sharpe ratios of
    different windows do not form one sample. An episode that occurs in two runs is one trial.
    Episodes that answer questions are not trials. Raises StoreError if a folder contains no run or
    can't be read.
    """
    folders = run_folders(roots)
    counted = []
    for planned in _trading_specs(folders):
        spec = planned.spec
        if window in (None, spec.window_name) and snapshot in (None, spec.snapshot):
            counted.append(planned)

    return _trials_of(counted, len(folders))


def count_trials_by_window(
    roots: Iterable[Path], wanted: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], Trials]:
    """Count the trials for each pair of window and snapshot in `wanted`, reading each folder once.
    Rules and errors are those of `count_trials`.
    """
    folders = run_folders(roots)
    by_window: dict[tuple[str, str], list[_PlannedEpisode]] = {pair: [] for pair in wanted}
    for planned in _trading_specs(folders):
        pair = (planned.spec.window_name or "", planned.spec.snapshot or "")
        if pair in by_window:
            by_window[pair].append(planned)

    return {pair: _trials_of(planned, len(folders)) for pair, planned in by_window.items()}


class _PlannedEpisode(NamedTuple):
    """Episode planned in a run folder."""

    folder: RunFolder
    spec: EpisodeSpec


def _trials_of(planned: Iterable[_PlannedEpisode], runs: int) -> Trials:
    """Count the trials in planned episodes from `runs` run folders."""
    specs: dict[str, EpisodeSpec] = {}
    finished: set[str] = set()
    shapes: dict[str, SharpeMoments] = {}
    returns: dict[str, TrialReturns] = {}

    for folder, spec in planned:
        specs[spec.id] = spec
        if spec.id in finished or not folder.is_complete(spec):
            continue

        finished.add(spec.id)
        ledger = folder.load_ledger(spec)
        digest = folder.ledger_sha256(spec)
        returns[spec.id] = TrialReturns(ledger.returns, ledger.return_resolution, digest)
        shape = sharpe_shape(ledger)
        if shape is not None:
            shapes[spec.id] = shape

    strategies = {content_hash({**spec.to_json(), "seed": 0}) for spec in specs.values()}
    return Trials(
        episodes=len(specs),
        strategies=len(strategies),
        finished=len(finished),
        shapes={identity: shapes[identity] for identity in sorted(shapes)},
        returns=returns,
        runs=runs,
    )


def _trading_specs(folders: Iterable[RunFolder]) -> list[_PlannedEpisode]:
    """Return the planned episodes of trading tasks.

    An episode that has not begun does not show whether its task is a trading task. A task is
    therefore excluded as soon as one of its episodes has answers.
    """
    planned: list[_PlannedEpisode] = []
    for folder in folders:
        planned += [_PlannedEpisode(folder, spec) for spec in folder.manifest.specs]

    asking = {spec.task for folder, spec in planned if _holds_answers(folder, spec)}
    return [each for each in planned if each.spec.task not in asking]


def _holds_answers(folder: RunFolder, spec: EpisodeSpec) -> bool:
    """Return whether an episode is known to answer questions instead of trading: it has no market,
    or its records are answers.
    """
    path = folder.episode_path(spec)
    if (path / JOURNAL).exists():
        return entry_type(path / JOURNAL) == JournalEntry[AnswerRecord]
    return spec.snapshot is None or (path / ANSWERS).exists()
