"""Agreement of a card's counts of calls: with each other, with its episodes, and with the tokens that these report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ktdeval.calls.tally import EpisodeCalls
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.inputs import Problem
from ktdeval.cards.parts import Finished
from ktdeval.harness.messages import USAGE_FIELDS

_SUMS = ("attempts", "answered", "cached", "repeated", "unused", "failed_attempts", "tokens")
"""Counts of a card that are sums over its episodes."""

_CALLS = ("provenance", "calls")


def call_problems(card: TradingCard | ScoringCard) -> Iterator[Problem]:
    """Yield contradictions in a card's counts of calls; a card of a model of this machine has none."""
    calls = card.provenance.calls
    if calls is None:
        if card.request_settings is not None:
            yield _CALLS, "is null, though the model is one behind a network"
        return
    finished = {episode.id: episode for episode in card.episodes}
    for name in _SUMS:
        if _sum(getattr(own, name) for own in calls.episodes.values()) != _sum([getattr(calls, name)]):
            yield (*_CALLS, name), "is not the sum over its episodes"
    for id_, own in calls.episodes.items():
        where = (*_CALLS, "episodes", id_)
        if own.answered + sum(own.failed_attempts.values()) != own.attempts:
            yield (*where, "attempts"), "are not those that were answered and those that failed"
        if own.replies < 0:
            yield (*where, "unused"), "are more than the answers that there were"
        if id_ in finished and (problem := _token_problem(own, finished[id_])):
            yield (*where, "tokens"), problem


def _sum(counts: Iterable[int | dict[str, int]]) -> dict[str, int]:
    """Return the sum of counts (under no name), or of counts by name; names without a count are left out."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update({"": each} if isinstance(each, int) else each)
    return {name: count for name, count in sorted(total.items()) if count}


def _token_problem(calls: EpisodeCalls, episode: Finished) -> str | None:
    """Return how an episode's tokens differ from those that were paid, where no reply is of anybody else's calls or was dropped."""
    if calls.cached or calls.unused:
        return None
    for name in USAGE_FIELDS:
        used, paid = getattr(episode.usage, name), calls.tokens.get(name, 0)
        if used != paid:
            return f"{name}: {paid:,} were answered and no reply was cached, but the episode reports {used:,}"
    return None
