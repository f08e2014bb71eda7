"""Isolation: the walls around an agent outside of ktdeval's code, such as a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.episode_parts import Finished
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row
from ktdeval.harness.external_acts import Isolation

NOT_ISOLATED = "the agent was not isolated, so that it could look the market up"
"""Reason against ranking a card whose task hides something."""

_ROWS: dict[Isolation, str] = {
    "bwrap": "a sandbox of bubblewrap",
    "none": "no sandbox",
    "remote": "another place, not seen",
}


def isolation_steps(episodes: Iterable[Finished]) -> dict[Isolation, int]:
    """Return the steps that agents outside took, by the walls around them."""
    steps: Counter[Isolation] = Counter()
    for episode in episodes:
        steps.update(episode.isolation)

    return dict(steps)


def is_not_isolated(episodes: Iterable[Finished]) -> bool:
    """Whether an agent outside took a step without walls."""
    return any(name != "bwrap" for name in isolation_steps(episodes))


def isolation_problems(index: int, episode: Finished) -> Iterator[Problem]:
    """Yield that an episode counts more steps than it has."""
    counted = sum(episode.isolation.values())
    steps = episode.decisions.steps
    if counted > steps:
        yield (
            ("episodes", index, "isolation"),
            f"the episode has {steps} steps, {counted} are listed",
        )


def isolation_rows(episodes: Iterable[Finished]) -> Iterator[Row]:
    """Yield a row for each kind of walls."""
    for name, steps in isolation_steps(episodes).items():
        yield WORDS["episodes.isolation"].label, f"{_ROWS[name]}: {steps:,} steps"


WORDS = {
    "episodes.isolation": FieldWords(
        "ran in",
        "",
        "steps of an external agent, such as a program, by its sandbox: `bwrap`, `podman`, `docker`;"
        " `none` and `remote` mean without one; absent for built-in agents",
        "cards.md#labels",
    ),
}
