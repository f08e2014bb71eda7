"""Software that ran a card's episodes: which version of ktdeval, which code (including plugins) and
which version of Python ran how many steps of each episode. An episode that was resumed after an
upgrade has several entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.episode_parts import Finished, Maker, StepMaker
from ktdeval.cards.fields.origin.provenance import is_version
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row

# ---- derivation and checks


def is_of_mixed_code(episodes: Iterable[tuple[int, Sequence[StepMaker]]]) -> bool:
    """Return whether the software differs between steps of a card's episodes, or is recorded only
    for some of them. `episodes` gives the number of steps of each episode and the software that ran
    them.
    """
    makers: set[Maker | None] = set()
    for steps, made_by in episodes:
        makers.update(made.maker for made in made_by)
        if sum(made.steps for made in made_by) != steps:
            makers.add(None)

    return len(makers) > 1


def maker_problems(index: int, steps: int, made_by: Sequence[StepMaker]) -> Iterator[Problem]:
    """Yield a problem for each entry in an episode's `made_by` that appears twice or has an invalid
    version, and a problem if the entries cover more steps than the episode has.
    """
    where = ("episodes", index, "made_by")
    for number, made in enumerate(made_by):
        if not is_version(made.ktdeval):
            yield (*where, number, "ktdeval"), "is not a version, such as 0.1.0"

        if made.maker in [other.maker for other in made_by[:number]]:
            yield (*where, number), "appears twice"

    listed = sum(made.steps for made in made_by)
    if listed > steps:
        yield where, f"the episode has {steps} steps, {listed} are listed"


# ---- wording


def maker_rows(episodes: Iterable[Finished], facts: object = None) -> Iterator[Row]:
    """Yield a row for each entry, with its number of steps, if a card's episodes were run by
    different software.
    """
    steps: Counter[Maker] = Counter()
    for episode in episodes:
        for made in episode.made_by:
            steps[made.maker] += made.steps

    if len(steps) < 2:
        return

    for maker, count in steps.items():
        code = f"ktdeval {maker.ktdeval}, code {maker.code}, Python {maker.python}"
        yield field_label("episodes.made_by"), f"{code}: {count} steps"
