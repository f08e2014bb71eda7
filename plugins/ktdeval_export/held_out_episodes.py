"""Held-out episodes, which belong to a test set. A model trained on them can't be evaluated on that
set.
"""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.task_api import EpisodeSpec, Window, is_scoring
from ktdeval_export.replayed_steps import TracedEpisode


def evaluation_use(episode: TracedEpisode) -> str:
    """Return the test set that an episode belongs to; empty if it belongs to none.

    There are three kinds of test sets: the episodes of a run registered with a leaderboard, the
    questions of a task, and the days of a task's own windows on a real market.
    """
    if episode.registration is not None:
        return f"its run is registered with a leaderboard ({episode.registration[:12]})"
    if is_scoring(episode.task):
        return f"its questions are those that {episode.spec.task} evaluates with"
    if episode.market is None or episode.market.meta.synthetic:
        return ""

    window = _own_window(episode.spec, episode.task.windows)
    if window is None:
        return ""
    return f"its days are in {window.name}, a window that {episode.spec.task} evaluates on"


def _own_window(spec: EpisodeSpec, windows: Mapping[str, Window]) -> Window | None:
    """Return the first of a task's windows that shares a day with an episode."""
    if spec.window is None:
        return None

    for window in windows.values():
        if window.first <= spec.window.last and spec.window.first <= window.last:
            return window

    return None
