"""Write an environment's episode as an ordinary run: journal, ledger, transcript and card.

The model `gym/actions` submits the episode's actions again in a normal run. The run folder of an
environment therefore has the same contents as any other, and can be verified, resumed and opened in
the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval.task_api import Window
from ktdeval.values import make_folder
from ktdeval_gym.action_submissions import (
    Decision,
    SubmittedCall,
    actions_of,
    calls_of,
    write_actions,
)
from ktdeval_gym.broker_session import TASK, BrokerOptions, write_task_file
from ktdeval_gym.open_task import MODEL, TaskChoice

Steps = Mapping[int, Sequence[Decision | float]]
EpisodeWriter = Callable[[Steps, int | None], None]
"""Called with an episode's actions and, if it ended early, its number of steps, otherwise None."""
ACTIONS = "actions.json"
RUN = "run"


SessionWriter = Callable[[Sequence[Sequence[SubmittedCall]]], None]
"""Called with an episode's tool calls, grouped in rounds."""


def no_session_writer(_rounds: Sequence[Sequence[SubmittedCall]]) -> None:
    """Write nothing."""


def no_writer(_steps: Steps, _limit: int | None) -> None:
    """Write nothing."""


class RunWriter:
    """Writes each finished episode to `FOLDER/episode_0001`, `episode_0002`, …. Each folder has the
    actions and a run folder `run`.
    """

    def __init__(self, folder: Path, choice: TaskChoice, window: Window, plugins: Plugins) -> None:
        self._folder = folder
        self._choice = choice
        self._window = window
        self._plugins = plugins

    def __call__(self, steps: Steps, limit: int | None) -> None:
        """Write an episode. `limit`: its number of steps if it ended early.

        Raises KtdevalError if the episode can't be written.
        """
        episode = new_folder(self._folder)
        actions = episode / ACTIONS
        write_actions(actions, actions_of(self._choice.task, steps))
        config = self._choice.config(
            self._window,
            model_args={"file": str(actions)},
            out=str(episode / RUN),
            limit=limit,
        )
        _evaluate(config, self._plugins, episode)


class SessionRunWriter:
    """Writes each finished session as `RunWriter` does: actions, the session's task file, and a
    run.
    """

    def __init__(self, folder: Path, options: BrokerOptions) -> None:
        self._folder = folder.resolve()
        self._options = options

    def __call__(self, rounds: Sequence[Sequence[SubmittedCall]]) -> None:
        """Write an episode. Raises KtdevalError if it can't be written."""
        episode = new_folder(self._folder)
        actions = episode / ACTIONS
        task_file = episode / f"{TASK}.yaml"
        write_actions(actions, calls_of(TASK, rounds))
        write_task_file(self._options, task_file)
        config = RunConfig(
            model=MODEL,
            model_args={"file": str(actions)},
            tasks=(str(task_file),),
            out=str(episode / RUN),
        )
        # plugins are opened separately, since the task files of all episodes use the same task name
        _evaluate(config, load_plugins(), episode)


def new_folder(folder: Path) -> Path:
    """Create and return the folder for the next episode, which no other process uses."""
    number = 1
    while True:
        episode = folder / f"episode_{number:04d}"
        make_folder(folder, "choose another out")
        try:
            episode.mkdir()
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise DataError(f"{episode}: can't be made: {error}; choose another out") from error
        return episode


def _evaluate(config: RunConfig, plugins: Plugins, episode: Path) -> None:
    result = evaluate(config, plugins)
    if result.failed:
        why = result.failed[0].error
        raise DataError(f"{episode}: the episode can't be written as a run: {why}")
