"""Takeover: continue an episode of another worker.

A worker that takes an episode over starts with everything that the furthest worker had of it. So
the furthest worker holds every finished step and every paid reply, and one comparison finds it.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.runner import CANARY_CALLS, Progress, RunPart, episode_progress, recorded_calls
from ktdeval_grid.state.layout import GridPlace


def continue_unit(place: GridPlace, worker: str, system: str, unit: str, part: RunPart) -> str:
    """Bring a unit of a worker's part as far as any worker has come.

    Return the worker whose part has the unit finished then, or this one. Raises StoreError.
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
    """Return the part that has come furthest with a unit; None if no worker has begun it."""
    found = {
        place.part(each, system): _progress(place, each, system, unit) for each in place.workers()
    }
    begun = {path: progress for path, progress in found.items() if progress > Progress()}
    return max(begun, key=lambda path: begun[path], default=None)


def canary_part(place: GridPlace, system: str) -> Path | None:
    """Return the part that has asked most of a system's fixed questions; None if no part has any."""
    asked = {}
    for worker in place.workers():
        path = place.part(worker, system)
        asked[path] = recorded_calls(path, CANARY_CALLS)

    best = max(asked, key=lambda path: asked[path], default=None)
    return best if best is not None and asked[best] else None


def continue_canary(place: GridPlace, system: str, part: RunPart) -> None:
    """Bring a part as far with the fixed questions as any worker has come. Raises StoreError."""
    best = canary_part(place, system)
    own = recorded_calls(part.path, CANARY_CALLS)
    if best is not None and recorded_calls(best, CANARY_CALLS) > own:
        part.take_over_canary(best)


def _progress(place: GridPlace, worker: str, system: str, unit: str) -> Progress:
    return episode_progress(place.part(worker, system), unit)
