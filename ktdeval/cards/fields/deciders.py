"""Deciders: who made the decisions of a card, and whether they could look the market up.

One fact for all of them: a rule, a model behind a network, a program in a sandbox or without, code
in ktdeval's own process, a person. A model or an agent is what its plugin says, where that is one of
ktdeval's own; any other plugin's is code in this process, whatever it says of itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.episode_parts import Finished
from ktdeval.cards.fields.fact_types import DECIDERS, Decider
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.words import FieldWords
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
    """Return why a card whose task hides something is not ranked, by each decider. A card from
    before this field has the walls around an agent outside alone.
    """
    reasons = []
    for decider in deciders:
        if not DECIDERS[decider.kind].is_ranked:
            reasons.append(f"{decider.name} could look the market up: {decider.words}")

    if not deciders and _has_open_walls(episodes):
        reasons.append("the agent was not isolated, so that it could look the market up")

    return reasons


def is_not_isolated(deciders: Sequence[Decider], episodes: Iterable[Finished]) -> bool:
    """Whether a decider other than a person could look the market up."""
    if not deciders:
        return _has_open_walls(episodes)
    return any(each.looks_up and each.kind != "person" for each in deciders)


def _has_open_walls(episodes: Iterable[Finished]) -> bool:
    walls: Counter[str] = Counter()
    for episode in episodes:
        walls.update(episode.isolation)

    return any(name != "bwrap" for name in walls)


def isolation_problems(index: int, episode: Finished) -> Iterator[Problem]:
    """Yield that an episode counts more steps than it has."""
    counted = sum(episode.isolation.values())
    steps = episode.decisions.steps
    if counted > steps:
        yield (
            ("episodes", index, "isolation"),
            f"the episode has {steps} steps, {counted} are listed",
        )


def gather_deciders(sources: CardSources) -> list[Decider]:
    """Return the deciders of a run."""
    return list(sources.inputs.deciders)


def decider_rows(deciders: Sequence[Decider], facts: object) -> Iterator[Row]:
    """Yield a row for each decider, and one for what its sandbox showed."""
    for decider in deciders:
        steps = f", {count(decider.steps, 'step')}" if decider.steps else ""
        yield WORDS["deciders"].label, f"{decider.name}: {decider.words}{steps}"
        if decider.kind == "sandboxed_program":
            shown = ["the system's programs and libraries"]
            for part in decider.shown:
                shown.append(f"{_SHOWN[part.kind]} ({count(part.files, 'file')})")
            yield WORDS["deciders.shown"].label, ", ".join(shown)


WORDS = {
    "deciders": FieldWords(
        "decided by",
        "",
        "who decided, each with its kind: `"
        + "`, `".join(DECIDERS)
        + "`; absent on cards from before this field",
        "cards.md#who-could-look-it-up",
    ),
    "deciders.shown": FieldWords(
        "sandbox showed",
        "",
        "what a sandbox showed of the machine besides the system, by number of files and hash of"
        " their relative paths and sizes",
        "agents.md#sandbox-and-isolation",
    ),
    "episodes.isolation": FieldWords(
        "ran in",
        "",
        "on cards from before `deciders`: steps of an external agent by its walls",
        "cards.md#labels",
    ),
}

DECIDERS_FIELD = SharedField(
    "deciders",
    gather=gather_deciders,
    rows=decider_rows,
    words={name: words for name, words in WORDS.items() if name.startswith("deciders")},
)
