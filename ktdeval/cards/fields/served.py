"""What answered: replies by the model that was asked and by what its provider says that it was,
counted from the transcripts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from ktdeval.calls.served_model_name import is_other_model
from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.episode_parts import Finished, Served
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.table_types import count


def is_of_another_model(facts: AnyFacts) -> bool:
    """Whether a provider named another model than the one that was asked, in any of its answers.
    Cards from before `episodes.served` have the names in the figures of calls.
    """
    asked = {model.asked_as: model.name for model in facts.further_models}
    asked[""] = facts.model.name
    for episode in facts.episodes:
        for own in episode.served:
            name = asked.get(own.model, own.model).partition("/")[2]
            if is_other_model(name, own.name):
                return True

    calls = facts.provenance.calls
    return calls is not None and calls.are_of_another_model(facts.model.name.partition("/")[2])


def add_served(parts: Iterable[Served]) -> list[Served]:
    """Return replies added up by model and name, in order of these."""
    replies: Counter[tuple[str, str]] = Counter()
    looked_up: Counter[tuple[str, str]] = Counter()
    for part in parts:
        key = (part.model, part.name)
        replies[key] += part.replies
        looked_up[key] += part.looked_up

    return [
        Served(model=model, name=name, replies=number, looked_up=looked_up[model, name])
        for (model, name), number in sorted(replies.items())
    ]


def served_problems(index: int, episode: Finished, known: set[str]) -> Iterator[Problem]:
    """Yield replies of a model that the card does not have. `known`: the further models, by the
    names that the agent asks them by.
    """
    for place, own in enumerate(episode.served):
        where = ("episodes", index, "served", place)
        if own.model and own.model not in known:
            yield (*where, "model"), "is not a model of this card"
        if own.looked_up > own.replies:
            yield (*where, "looked_up"), f"are more than its {own.replies:,} replies"


def served_words(episodes: Iterable[Finished]) -> str:
    """Return what answered, with the number of replies; empty where no provider named itself."""
    parts = chain.from_iterable(episode.served for episode in episodes)
    names = []
    for own in add_served(parts):
        if not own.name:
            continue

        words = own.name
        if own.model:
            words = f"{own.model}: {own.name}"

        replies = count(own.replies, "reply")
        if own.looked_up:
            replies += f", {own.looked_up:,} looked something up"

        names.append(f"{words} ({replies})")

    return ", ".join(names)
