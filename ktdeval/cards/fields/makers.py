"""Makers of a card's episodes: which ktdeval, which code of it and of its plugins, and which Python
made how many steps of each. An episode that was resumed after an upgrade has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from ktdeval.cards.fields.basics import EpisodeId, Name, Problem
from ktdeval.cards.fields.words import Words
from ktdeval.cards.table import Row
from ktdeval.values.typed import Value

StepCount = Annotated[int, Meta(ge=1)]


class Maker(Value, frozen=True):
    """What computed a step; equal makers run equal code."""

    ktdeval: Name  #: its version
    #: hash of the code of ktdeval and of all its plugins
    code: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    python: Name  #: its version


class StepMaker(Maker, frozen=True):
    """A maker of an episode."""

    steps: StepCount  #: how many of its steps it made

    @property
    def maker(self) -> Maker:
        """The maker alone."""
        return Maker(ktdeval=self.ktdeval, code=self.code, python=self.python)


class EpisodeMaker(Maker, frozen=True):
    """A maker of a card's episodes."""

    steps: dict[EpisodeId, StepCount]  #: how many steps it made of each, by its id


# ---- gathered from the marks of episodes


def gather_makers(by_episode: Mapping[str, Sequence[StepMaker]]) -> list[EpisodeMaker]:
    """Return the makers of a card from those of each episode, by id, in the order of their
    fields.
    """
    steps: dict[tuple[str, str, str], dict[str, int]] = {}
    for episode, makers in sorted(by_episode.items()):
        for made in makers:
            key = (made.ktdeval, made.code, made.python)
            own = steps.setdefault(key, {})
            own[episode] = own.get(episode, 0) + made.steps

    found = []
    for (version, code, python), own in sorted(steps.items()):
        found.append(EpisodeMaker(ktdeval=version, code=code, python=python, steps=own))

    return found


# ---- derived and checked


def is_of_mixed_code(makers: Sequence[EpisodeMaker], episodes: Mapping[str, int]) -> bool:
    """Whether more than one maker made a card's episodes, or one made a part and what made the rest
    is not recorded. `episodes`: number of steps of each, by id.
    """
    if not makers:
        return False
    return len(makers) > 1 or _recorded_steps(makers) != dict(episodes)


def maker_problems(
    makers: Sequence[EpisodeMaker], episodes: Mapping[str, int]
) -> Iterator[Problem]:
    """Yield makers that stand twice, episodes that the card does not have finished, and more steps
    than these have.
    """
    where = ("provenance", "made_by")
    seen = set()
    for number, made in enumerate(makers):
        identity = (made.ktdeval, made.code, made.python)
        if identity in seen:
            yield (*where, number), "stands twice"

        seen.add(identity)
        for episode in sorted(made.steps.keys() - episodes.keys()):
            yield (*where, number, "steps", episode), "is no finished episode of the card"

    for episode, steps in _recorded_steps(makers).items():
        if steps > episodes.get(episode, steps):
            yield where, f"episode {episode} has {episodes[episode]} steps, {steps} are listed"


def _recorded_steps(makers: Sequence[EpisodeMaker]) -> dict[str, int]:
    """Return how many steps of each episode have a known maker."""
    steps: dict[str, int] = {}
    for made in makers:
        for episode, own in made.steps.items():
            steps[episode] = steps.get(episode, 0) + own

    return steps


# ---- words


def maker_rows(makers: Sequence[EpisodeMaker]) -> Iterator[Row]:
    """Yield a row for each maker of a card that has several, with its number of steps."""
    if len(makers) < 2:
        return

    for made in makers:
        steps = sum(made.steps.values())
        code = f"ktdeval {made.ktdeval}, code {made.code}, Python {made.python}"
        yield WORDS["provenance.made_by"].label, f"{code}: {steps} steps"


WORDS = {
    "provenance.made_by": Words(
        "made by",
        "",
        "what made the steps of each episode: version of ktdeval, hash of its code and that of all"
        " plugins, Python; several where a run went on with other code; absent in records without"
        " it",
        "cards.md#labels",
    ),
}
