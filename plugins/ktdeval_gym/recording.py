"""Write an environment's episode as an ordinary run: journal, ledger, transcript and card.

The episode's actions are submitted once more, by the model `gym/actions` in a run of the suite. So a
run folder of an environment has what every other one has, and verifies, resumes and opens alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.plugins.registry import Plugins
from ktdeval.runner import evaluate
from ktdeval.tasks import Window
from ktdeval_gym.actions import Decision, write_actions
from ktdeval_gym.opening import TaskChoice

Steps = Mapping[int, Sequence[Decision | float]]
EpisodeWriter = Callable[[Steps, int | None], None]
"""Called with an episode's actions, and the number of its steps where it ended early, else None."""
ACTIONS = "actions.json"


def no_writer(_steps: Steps, _limit: int | None) -> None:
    """Write nothing."""


class RunWriter:
    """Writes each episode that ended to `FOLDER/episode_0001`, `episode_0002`, …: the actions beside
    a run folder `run`.
    """

    def __init__(self, folder: Path, choice: TaskChoice, window: Window, plugins: Plugins) -> None:
        self._folder = folder
        self._choice = choice
        self._window = window
        self._plugins = plugins

    def __call__(self, steps: Steps, limit: int | None) -> None:
        """Write an episode, of `limit` steps where it ended early. Raises KtdevalError: it can't be written."""
        number = 1
        while (episode := self._folder / f"episode_{number:04d}").exists():
            number += 1

        actions = episode / ACTIONS
        write_actions(actions, self._choice.task, steps)
        config = self._choice.config(
            self._window,
            model_args={"file": str(actions)},
            out=str(episode / "run"),
            limit=limit,
        )
        result = evaluate(config, self._plugins)
        if result.failed:
            why = result.failed[0].error
            raise DataError(f"{episode}: the episode can't be written as a run: {why}")
