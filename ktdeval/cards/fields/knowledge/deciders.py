"""Deciders: who made the decisions on a card, and whether they could know the market that the task
hides: look it up while they decided, or have brought it.

Every kind of decider is recorded in the same form: a rule, a remote model, a program with or
without a sandbox, code in ktdeval's own process, or a person. ktdeval's own plugins declare the
kind of their decider. Any other plugin is treated as code in ktdeval's process, whatever it
declares.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.episode_parts import Finished
from ktdeval.cards.fields.origin.fact_types import (
    COULD_HAVE_BROUGHT,
    COULD_LOOK_UP,
    DECIDERS,
    Decider,
    DeciderWords,
    ForeignPackage,
)
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count
from ktdeval.harness.external.external_acts import ShownKind

_SANDBOX = "bwrap"  # the only sandbox with a name
_SHOWN: Mapping[ShownKind, str] = {
    "interpreter": "a Python",
    "environment": "a virtual environment",
    "packages": "packages of npm",
    "programs": "a folder of programs",
    "folder": "folders that the user named",
}


_RANKED_AFTER = (
    "a board ranks it in its division open book, and as blinded only in windows after it registered"
    " the hash of its files"
)


def unranked_reasons(deciders: Sequence[Decider], episodes: Iterable[Finished]) -> list[str]:
    """Return why a card whose task hides something is not ranked, with one reason per decider.
    Cards written before the `deciders` field existed record only the isolation of an external
    agent.
    """
    reasons = []
    for decider in deciders:
        kind = DECIDERS[decider.kind]
        if kind.ranked == "no":
            reasons.append(f"{decider.name} {COULD_LOOK_UP}: {decider.words}")
        elif kind.ranked == "after its registration":
            reasons.append(_brought_reason(decider.name, decider.words))

    if not deciders:
        reasons += _reasons_of_walls(_walls(episodes))

    return reasons


def _reasons_of_walls(walls: set[str]) -> Iterator[str]:
    """Yield the reasons that follow from the sandboxes of an external agent."""
    if not walls <= {_SANDBOX}:
        yield f"the agent was not isolated, so that it {COULD_LOOK_UP}"
    elif walls:
        yield _brought_reason("the agent", DECIDERS["sandboxed_program"].words)


def _brought_reason(name: str, words: str) -> str:
    """Return why a program in a sandbox is not ranked as blinded. `words`: its description."""
    return f"{name} {COULD_HAVE_BROUGHT}: {words} has files of its own; {_RANKED_AFTER}"


def knowledge_of(deciders: Sequence[Decider], episodes: Iterable[Finished]) -> tuple[str, ...]:
    """Return the ways in which those who decided could know the market other than from training or
    memory: `could look the market up`, `could have brought the market`, both, or neither.
    """
    kinds: list[DeciderWords] = [DECIDERS[decider.kind] for decider in deciders]
    if not deciders:
        for name in _walls(episodes):
            kinds.append(DECIDERS["sandboxed_program" if name == _SANDBOX else "program"])

    found = {way for kind in kinds for way in kind.knowledge}
    return tuple(way for way in (COULD_LOOK_UP, COULD_HAVE_BROUGHT) if way in found)


def foreign_reason(package: ForeignPackage) -> str:
    """Return why a card with a package in its process is not ranked. A board that allows the
    package drops exactly this reason.
    """
    return (
        f"{package.title} was in the process and is not part of ktdeval, so that it could change"
        " replies or look the market up; a board may allow it by its hash"
    )


def is_not_isolated(deciders: Sequence[Decider], episodes: Iterable[Finished]) -> bool:
    """Return whether a decider other than a person could look up the market."""
    if not deciders:
        return not _walls(episodes) <= {_SANDBOX}
    return any(each.looks_up and each.kind != "person" for each in deciders)


def _walls(episodes: Iterable[Finished]) -> set[str]:
    """Return the sandboxes of an external agent by name, as cards without `deciders` record them."""
    walls: set[str] = set()
    for episode in episodes:
        walls.update(name for name, steps in episode.isolation.items() if steps)

    return walls


def isolation_problems(index: int, episode: Finished) -> Iterator[Problem]:
    """Yield a problem if `isolation` covers more steps than the episode has."""
    counted = sum(episode.isolation.values())
    steps = episode.decisions.steps
    if counted > steps:
        yield (
            ("episodes", index, "isolation"),
            f"the episode has {steps} steps, {counted} are listed",
        )


def decider_rows(deciders: Sequence[Decider], facts: object) -> Iterator[Row]:
    """Yield a row for each decider, with how it could know the market, and for a sandboxed program
    a row on what was exposed.
    """
    for decider in deciders:
        steps = f", {count(decider.steps, 'step')}" if decider.steps else ""
        ways = "".join(f"; {way}" for way in DECIDERS[decider.kind].knowledge)
        yield field_label("deciders"), f"{decider.name}: {decider.words}{steps}{ways}"
        if decider.kind == "sandboxed_program":
            shown = ["the system's programs and libraries"]
            for part in decider.shown:
                shown.append(f"{_SHOWN[part.kind]} ({count(part.files, 'file')})")
            yield field_label("deciders.shown"), ", ".join(shown)


def foreign_rows(packages: Sequence[ForeignPackage], facts: object) -> Iterator[Row]:
    """Yield a row for each package in the process that is not part of ktdeval."""
    for package in packages:
        yield field_label("foreign"), package.words
