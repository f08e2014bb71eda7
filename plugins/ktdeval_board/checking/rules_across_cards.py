"""Rules across cards: one attempt per system, no duplicate records, and a single kind and
definition for each metric. A card's statements about the market are compared with the market
itself.

If two cards conflict, the finding is on the later one. Cards with a verdict by the board precede
those without, regardless of the dates given by their submitters.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import attrgetter

from ktdeval.runner import ANSWERS
from ktdeval_board.attempts import OF_ONE, known_attempts
from ktdeval_board.board_entries import (
    Candidate,
    Card,
    count_own_keys,
    figures_of,
    identity,
    identity_words,
)
from ktdeval_board.checking.findings import Check, FileMessage, Stage, rule
from ktdeval_board.document_types import TRUST, Submitter
from ktdeval_board.layout import path_segment
from ktdeval_board.look_alike_names import Party
from ktdeval_board.registrations import NONE_FILED, Registrations

_DEFINITION = ("better", "formula", "range", "unit")


@dataclass(frozen=True)
class SoundCards:
    """All cards that are valid on their own."""

    candidates: Sequence[Candidate]
    registrations: Registrations = NONE_FILED
    #: ids of cards that are being submitted
    submitted: Collection[str] = ()
    where: str = "cards"

    @cached_property
    def ordered(self) -> list[Candidate]:
        """Cards in order of precedence."""
        return sorted(self.candidates, key=self._precedence)

    def _precedence(self, candidate: Candidate) -> tuple[bool, bool, int, str, str]:
        # A card that is being submitted comes last. If its submitter's date counted, it could
        # precede a card that is on the board without a verdict, and that card would then be
        # refused.
        return (
            candidate.card_id in self.submitted,
            candidate.verdict is None,
            TRUST.index(candidate.tier),
            candidate.submission.submitted_on,
            candidate.where,
        )

    @cached_property
    def standing(self) -> list[Candidate]:
        """Cards in order of precedence, without withdrawn ones."""
        return [candidate for candidate in self.ordered if not candidate.is_withdrawn]

    @cached_property
    def own_keys(self) -> Counter[tuple[Party, tuple[str, ...]]]:
        """Number of cards with submitter-chosen keys, keyed by submitter and system family."""
        return count_own_keys(self.candidates, self.registrations)

    def party(self, candidate: Candidate) -> Party:
        """Return the submitter of a card with a drawn key. Any other card has no party, since its
        system may have only one card, whoever submits it.
        """
        if not candidate.division.is_governed or not candidate.card.registration:
            return ()

        return self.registrations.party(candidate.submission.submitter)

    def later(self, key: Callable[[Candidate], Hashable]) -> Iterator[tuple[Candidate, Candidate]]:
        """Yield each pair of cards with the same key, the earlier card first."""
        first: dict[Hashable, Candidate] = {}
        for candidate in self.standing:
            earlier = first.setdefault(key(candidate), candidate)
            if earlier is not candidate:
                yield earlier, candidate


@rule("duplicate", Stage.TOGETHER)
def _duplicate(together: SoundCards) -> Iterator[FileMessage]:
    def system(candidate: Candidate) -> Hashable:
        return (
            identity(candidate.card, candidate.division),
            together.party(candidate),
            _baseline_words(candidate),
        )

    for earlier, candidate in together.later(system):
        there = (
            f"already has a card in division {candidate.division.id}: {earlier.where}; each may "
            "have only one"
        )
        yield FileMessage(candidate.where, f"{identity_words(candidate.card)} {there}")


def _baseline_words(candidate: Candidate) -> str:
    """Return the text that distinguishes a baseline from other baselines of the same model; empty
    for an entrant.
    """
    return "" if candidate.baseline is None else candidate.baseline.words


@rule("copy", Stage.TOGETHER)
def _find_copies(together: SoundCards) -> Iterator[FileMessage]:
    first: dict[str, Candidate] = {}
    for candidate in together.standing:
        for key, what in _fingerprints(candidate):
            earlier = first.setdefault(key, candidate)
            if earlier is not candidate and not _is_baseline_elsewhere(earlier, candidate):
                yield FileMessage(candidate.where, f"{what} is also on {earlier.where}")
                break


def _is_baseline_elsewhere(one: Candidate, other: Candidate) -> bool:
    """Return whether two cards belong to the same baseline in two divisions, since those may share
    episodes.
    """
    is_one = one.baseline is not None and one.baseline == other.baseline
    return is_one and one.division != other.division


@rule("mask-key", Stage.TOGETHER)
def _key_used(together: SoundCards) -> Iterator[FileMessage]:
    first: dict[str, Candidate] = {}
    for candidate in together.ordered:
        key = candidate.card.mask_key
        if not key:
            continue

        earlier = first.setdefault(key, candidate)
        if not _is_one_run(earlier, candidate):
            problem = (
                f"was the key of {earlier.where}, whose records reveal the asset behind each handle"
            )
            yield FileMessage(candidate.where, f"{key} {problem}; run again without --mask-key")


def _is_one_run(one: Candidate, other: Candidate) -> bool:
    """Return whether two cards may come from the same run. They may if they have the same episodes,
    or if they were submitted together for the same model and agent.
    """
    if _identify_submission(one) == _identify_submission(other):
        return True

    ids = {episode.id for episode in one.card.episodes}
    return any(episode.id in ids for episode in other.card.episodes)


def _identify_submission(candidate: Candidate) -> tuple[str, str, Submitter, str]:
    submission = candidate.submission
    return candidate.model, candidate.agent, submission.submitter, submission.submitted_on


def _fingerprints(candidate: Candidate) -> Iterator[tuple[str, str]]:
    """Yield the key and name of everything that two honest cards never share: an episode, a ledger
    or a transcript. Answer files are left out, since identical correct answers to a few questions
    are possible.
    """
    for episode in candidate.card.episodes:
        yield episode.id, f"episode {episode.id}"
    for path, digest in candidate.card.artefacts.items():
        if not path.endswith(ANSWERS):
            yield digest, f"the record {path[:120]} (SHA-256 {digest[:12]}…)"


@rule("name", Stage.TOGETHER)
def _name(together: SoundCards) -> Iterator[FileMessage]:
    for part in ("model", "agent"):
        name_of = attrgetter(part)
        for earlier, candidate in together.later(partial(_spelled_alike, name_of)):
            name = name_of(candidate)
            other = name_of(earlier)
            if name != other:
                problem = f"{part}.name: {name!r} can be mistaken for {other!r} in {earlier.where}"
                yield FileMessage(candidate.where, problem)


def _spelled_alike(name_of: Callable[[Candidate], str], candidate: Candidate) -> str:
    """Return what a name has in common with all names that could be mistaken for it."""
    return path_segment(name_of(candidate)).casefold()


@rule("attempts", Stage.TOGETHER)
def _attempts(together: SoundCards) -> Iterator[FileMessage]:
    counts: defaultdict[Hashable, int] = defaultdict(int)
    # For all other cards, withdrawn cards are included in the attempts.
    for candidate in sorted(together.ordered, key=lambda each: not each.is_withdrawn):
        party = together.party(candidate)
        system = candidate.model, candidate.agent, _baseline_words(candidate)
        key = candidate.division.id, system, party
        counts[key] += 1
        if candidate.verdict is not None or candidate.is_withdrawn:
            continue

        declared = candidate.submission.attempts.runs
        where = f"{candidate.where.removesuffix('.json')}.submission.json"
        if declared < counts[key]:
            there = (
                f"{counts[key]} cards of this model and agent are on the board, including "
                "withdrawn ones"
            )
            yield FileMessage(where, f"attempts.runs: {declared} declared; {there}")
            continue

        known = known_attempts(candidate, together.registrations, together.own_keys)
        if declared < known:
            there = f"{known} registrations and cards {OF_ONE} are on the board"
            yield FileMessage(where, f"attempts.runs: {declared} declared; {there}")


# -- kinds and metrics that differ from a card in the division that the board executed


def _against_first(rule_id: str) -> Callable[[Callable[[Card, Card], Iterator[str]]], Check]:
    """Compare each card with the best confirmed card of its division, if the board executed that
    card: unconfirmed claims can't serve as a reference.
    """

    def register(differences: Callable[[Card, Card], Iterator[str]]) -> Check:
        @rule(rule_id, Stage.TOGETHER)
        def check(together: SoundCards) -> Iterator[FileMessage]:
            for earlier, candidate in together.later(lambda each: each.division.id):
                if earlier.verdict is None or not earlier.verdict.is_executed:
                    continue

                for what in differences(earlier.card, candidate.card):
                    yield FileMessage(candidate.where, f"{what} than on {earlier.where}")

        return check

    return register


@_against_first("kind")
def _other_kind(first: Card, card: Card) -> Iterator[str]:
    if card.kind != first.kind:
        yield f"is a {card.kind} card, not of the same kind"


@_against_first("metric")
def _other_metric(first: Card, card: Card) -> Iterator[str]:
    if card.kind != first.kind:
        return

    mine = figures_of(card)
    theirs = figures_of(first)
    for each in sorted(mine.keys() & theirs.keys()):
        for part in _DEFINITION:
            own = getattr(mine[each], part)
            if own != getattr(theirs[each], part):
                yield f"{each}.{part}: is {str(own)[:80]!r}, which differs"
