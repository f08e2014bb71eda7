"""Which models answered: reply counts by the model that was called and the model that its provider
named, taken from the transcripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ktdeval.calls.served_model_name import is_other_model
from ktdeval.cards.fields.base_types import Problem
from ktdeval.cards.fields.episode_parts import Finished
from ktdeval.cards.fields.origin.recorded_facts import AnyFacts
from ktdeval.cards.fields.replies.reply_sums import add_served
from ktdeval.cards.table_types import count


def is_of_another_model(facts: AnyFacts) -> bool:
    """Return whether a provider named a model other than the one called in any reply. Cards written
    before `episodes.served` existed record the names in the call figures.
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


def lacks_own_settings(episodes: Iterable[Finished]) -> bool:
    """Return whether a setting sent by the agent's own program could not be applied to a model."""
    parts = chain.from_iterable(episode.served for episode in episodes)
    return any(part.not_applied for part in parts)


def served_problems(index: int, episode: Finished, known: set[str]) -> Iterator[Problem]:
    """Yield a problem if replies come from a model that is not on the card, or if more replies
    looked something up than there are. `known` contains the agent's names for its additional
    models.
    """
    for place, own in enumerate(episode.served):
        where = ("episodes", index, "served", place)
        if own.model and own.model not in known:
            yield (*where, "model"), "is not a model of this card"
        if own.looked_up > own.replies:
            yield (*where, "looked_up"), f"are more than its {own.replies:,} replies"


def served_words(episodes: Iterable[Finished]) -> str:
    """Return which models answered, with reply counts; empty if no provider named a model and all
    settings were applied.
    """
    parts = chain.from_iterable(episode.served for episode in episodes)
    names = []
    for own in add_served(parts):
        if not (own.name or own.not_applied):
            continue

        words = own.name or "not named"
        if own.model:
            words = f"{own.model}: {own.name}"

        replies = count(own.replies, "reply")
        if own.looked_up:
            replies += f", {own.looked_up:,} looked something up"

        if own.not_applied:
            replies += f"; own settings not applied: {', '.join(own.not_applied)}"

        names.append(f"{words} ({replies})")

    return ", ".join(names)
