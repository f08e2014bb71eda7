"""Deciders: who made the decisions on a card, and whether they could look up the market.

Every kind of decider is recorded in the same form: a rule, a remote model, a program with or
without a sandbox, code in ktdeval's own process, or a person. ktdeval's own plugins declare the
kind of their decider. Any other plugin is treated as code in ktdeval's process, whatever it
declares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.episode_parts import Finished
from ktdeval.cards.fields.fact_types import DECIDERS, Decider
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count
from ktdeval.harness.external_acts import ShownKind

_SHOWN: Mapping[ShownKind, str] = {
    "interpreter": "a Python",
    "environment": "a virtual environment",
    "packages": "packages of npm",
    "programs": "a folder of programs",
    "folder": "folders that the user named",
}


def unranked_reasons(deciders: Sequence[Decider], episodes: Iterable[Finished]) -> list[str]:
    """Return why a card whose task hides something is not ranked, with one reason per decider.
    Cards written before the `deciders` field existed record only the isolation of an external
    agent.
    """
    reasons = []
    for decider in deciders:
        if not DECIDERS[decider.kind].is_ranked:
            reasons.append(f"{decider.name} could look the market up: {decider.words}")

    if not deciders and _has_open_walls(episodes):
        reasons.append("the agent was not isolated, so that it could look the market up")

    return reasons


def is_not_isolated(deciders: Sequence[Decider], episodes: Iterable[Finished]) -> bool:
    """Return whether a decider other than a person could look up the market."""
    if not deciders:
        return _has_open_walls(episodes)
    return any(each.looks_up and each.kind != "person" for each in deciders)


def _has_open_walls(episodes: Iterable[Finished]) -> bool:
    walls: Counter[str] = Counter()
    for episode in episodes:
        walls.update(episode.isolation)

    return any(name != "bwrap" for name in walls)


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
    """Yield a row for each decider, and for a sandboxed program a row on what was exposed."""
    for decider in deciders:
        steps = f", {count(decider.steps, 'step')}" if decider.steps else ""
        yield field_label("deciders"), f"{decider.name}: {decider.words}{steps}"
        if decider.kind == "sandboxed_program":
            shown = ["the system's programs and libraries"]
            for part in decider.shown:
                shown.append(f"{_SHOWN[part.kind]} ({count(part.files, 'file')})")
            yield field_label("deciders.shown"), ", ".join(shown)
