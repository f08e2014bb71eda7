"""Makers of a card's episodes: which ktdeval, which code of it and of its plugins, and which Python
made how many steps of each. An episode that was resumed after an upgrade has several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from msgspec import Meta

from ktdeval.cards.fields.basics import Name, Problem
from ktdeval.cards.fields.provenance import is_version
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


# ---- derived and checked


def is_of_mixed_code(episodes: Iterable[tuple[int, Sequence[StepMaker]]]) -> bool:
    """Whether more than one maker made a card's episodes, or one made a part and what made the rest
    is not recorded. `episodes`: the steps of each, and its makers.
    """
    makers: set[Maker | None] = set()
    for steps, made_by in episodes:
        makers.update(made.maker for made in made_by)
        if sum(made.steps for made in made_by) != steps:
            makers.add(None)

    return len(makers) > 1


def maker_problems(index: int, steps: int, made_by: Sequence[StepMaker]) -> Iterator[Problem]:
    """Yield makers of an episode that stand twice or are of no version, and more steps than it
    has.
    """
    where = ("episodes", index, "made_by")
    for number, made in enumerate(made_by):
        if not is_version(made.ktdeval):
            yield (*where, number, "ktdeval"), "is no version, such as 0.1.0"

        if made.maker in [other.maker for other in made_by[:number]]:
            yield (*where, number), "stands twice"

    listed = sum(made.steps for made in made_by)
    if listed > steps:
        yield where, f"the episode has {steps} steps, {listed} are listed"


# ---- words


def maker_rows(episodes: Iterable[Sequence[StepMaker]]) -> Iterator[Row]:
    """Yield a row for each maker of a card that has several, with its number of steps. `episodes`:
    the makers of each.
    """
    steps: Counter[Maker] = Counter()
    for made_by in episodes:
        for made in made_by:
            steps[made.maker] += made.steps

    if len(steps) < 2:
        return

    for maker, count in steps.items():
        code = f"ktdeval {maker.ktdeval}, code {maker.code}, Python {maker.python}"
        yield WORDS["episodes.made_by"].label, f"{code}: {count} steps"


WORDS = {
    "episodes.made_by": Words(
        "made by",
        "",
        "what made its steps: version of ktdeval, hash of its code and that of all plugins, Python;"
        " several where the episode went on with other code; absent in records without it",
        "cards.md#labels",
    ),
}
