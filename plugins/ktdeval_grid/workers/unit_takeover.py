"""Takeover: continue another worker's episode.

A worker that takes over an episode starts with everything that the worker with the most progress
had. The worker with the most progress therefore always has every finished step and every paid
reply, and can be found by a single comparison.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.runner import CANARY_CALLS, Progress, RunPart, episode_progress, recorded_calls
from ktdeval_grid.state.layout import GridPlace


def continue_unit(place: GridPlace, worker: str, system: str, unit: str, part: RunPart) -> str:
    """Bring a unit in a worker's part up to the most advanced state that any worker has reached.

    Return the worker whose part contains the finished unit, or this worker. Raises StoreError.
    """
    best = worker
    furthest = _progress(place, worker, system, unit)
    for other in place.workers():
        if other == worker:
            continue

        progress = _progress(place, other, system, unit)
        if progress > furthest:
            best, furthest = other, progress

    if best != worker and not furthest.is_complete:
        part.take_over(unit, place.part(best, system))
        best = worker

    return best


def furthest_part(place: GridPlace, system: str, unit: str) -> Path | None:
    """Return the part with the most progress on a unit; None if no worker has started it."""
    found = {
        place.part(each, system): _progress(place, each, system, unit) for each in place.workers()
    }
    begun = {path: progress for path, progress in found.items() if progress > Progress()}
    return max(begun, key=lambda path: begun[path], default=None)


def canary_part(place: GridPlace, system: str) -> Path | None:
    """Return the part that has asked the most of a system's fixed questions; None if no part has
    asked any.
    """
    asked = {}
    for worker in place.workers():
        path = place.part(worker, system)
        asked[path] = recorded_calls(path, CANARY_CALLS)

    best = max(asked, key=lambda path: asked[path], default=None)
    return best if best is not None and asked[best] else None


def continue_canary(place: GridPlace, system: str, part: RunPart) -> None:
    """Bring a part's fixed questions up to the most advanced state that any worker has reached.

    Raises StoreError.
    """
    best = canary_part(place, system)
    own = recorded_calls(part.path, CANARY_CALLS)
    if best is not None and recorded_calls(best, CANARY_CALLS) > own:
        part.take_over_canary(best)


def _progress(place: GridPlace, worker: str, system: str, unit: str) -> Progress:
    return episode_progress(place.part(worker, system), unit)
