"""Events that tell observers about a run as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from ktdeval.errors import BudgetError, RunStop
from ktdeval.task_api.episode_spec import EpisodeOutcome, EpisodeSpec
from ktdeval.task_api.events import Event, RunFinished, RunStarted
from ktdeval.values.hashes import content_hash


class EndedRun(Protocol):
    """Result of a run, as reported to observers."""

    @property
    def cards(self) -> Sequence[Path]:
        """Paths of the run's cards."""

    @property
    def failed(self) -> Sequence[EpisodeOutcome]:
        """Episodes that did not finish."""

    @property
    def stopped(self) -> RunStop | None:
        """Reason why the run stopped early; None if it did not."""


R = TypeVar("R", bound=EndedRun)


def told_run(
    emit: Callable[[Event], None],
    folder: Path,
    specs: tuple[EpisodeSpec, ...],
    execute: Callable[[], R],
) -> R:
    """Execute a run, emitting an event at its start and, whatever the outcome, at its end."""
    emit(RunStarted(run_id(specs), str(folder), specs))
    try:
        result = execute()
    except BaseException:
        emit(RunFinished(str(folder), (), len(specs), "interrupted"))
        raise

    cards = tuple(str(path) for path in result.cards)
    emit(RunFinished(str(folder), cards, len(result.failed), _state_of(result)))
    return result


def run_id(specs: Sequence[EpisodeSpec]) -> str:
    """Return a hash of a run's episodes. It stays the same when the run is resumed."""
    return content_hash([spec.id for spec in specs])


def _state_of(result: EndedRun) -> Literal["finished", "failed", "stopped"]:
    if not result.failed:
        return "finished"
    if isinstance(result.stopped, BudgetError):
        return "stopped"
    return "failed"
