"""Rules on cards together: one attempt for each system, no one's records twice, one market and benchmark for all.

A finding is on the later of two cards. A card that the board has a verdict on comes before one that it has none on, whatever days
their submitters wrote.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import asdict

from ktdeval.cards import SnapshotPart, TradingCard, card_difference
from ktdeval.jsonio import JsonValue
from ktdeval_board.attempts import OF_ONE, known_attempts, registrant_of
from ktdeval_board.checking.findings import At, Check, Stage, rule
from ktdeval_board.entries import Candidate, Card, count_own_keys, figures_of, identity, identity_words
from ktdeval_board.layout import path_segment
from ktdeval_board.ranking.describe import TRUST
from ktdeval_board.registrations import NONE_FILED, Registrations, family_of

_DEFINITION = ("better", "formula", "range", "unit")


@dataclass(frozen=True)
class Together:
    """All cards that are sound in themselves."""

    candidates: Sequence[Candidate]
    registrations: Registrations = NONE_FILED
    where: str = "cards"

    @cached_property
    def ordered(self) -> list[Candidate]:
        """Cards in the order in which they have the say."""
        return sorted(
            self.candidates,
            key=lambda each: (each.verdict is None, TRUST.index(each.tier), each.submission.submitted_on, each.where),
        )

    @cached_property
    def standing(self) -> list[Candidate]:
        """Of these, those that were not withdrawn."""
        return [candidate for candidate in self.ordered if not candidate.is_withdrawn]

    @cached_property
    def own_keys(self) -> Counter[tuple[str, ...]]:
        """Cards under keys of their own, by family of their systems."""
        return count_own_keys(self.candidates)

    def later(self, key: Callable[[Candidate], Hashable]) -> Iterator[tuple[Candidate, Candidate]]:
        """Yield each card that shares a key with an earlier one, the earlier one first."""
        first: dict[Hashable, Candidate] = {}
        for candidate in self.standing:
            earlier = first.setdefault(key(candidate), candidate)
            if earlier is not candidate:
                yield earlier, candidate


@rule("duplicate", Stage.TOGETHER)
def _duplicate(together: Together) -> Iterator[At]:
    for earlier, candidate in together.later(lambda each: identity(each.card, each.division)):
        there = f"has a card in division {candidate.division.id} already: {earlier.where}; one attempt each"
        yield At(candidate.where, f"{identity_words(candidate.card)} {there}")


@rule("copy", Stage.TOGETHER)
def _copied(together: Together) -> Iterator[At]:
    first: dict[str, Candidate] = {}
    for candidate in together.standing:
        for key, what in _fingerprints(candidate):
            earlier = first.setdefault(key, candidate)
            is_baseline = earlier.baseline is not None and earlier.baseline == candidate.baseline
            if earlier is not candidate and not (is_baseline and earlier.division != candidate.division):
                yield At(candidate.where, f"{what} is also on {earlier.where}")
                break


@rule("mask-key", Stage.TOGETHER)
def _key_used(together: Together) -> Iterator[At]:
    first: dict[str, Candidate] = {}
    for candidate in together.ordered:
        if key := candidate.card.mask_key:
            earlier = first.setdefault(key, candidate)
            if not _is_one_run(earlier, candidate):
                problem = f"was the key of {earlier.where}, whose records tell what each handle stands for"
                yield At(candidate.where, f"{key} {problem}; run again without --mask-key")


def _is_one_run(one: Candidate, other: Candidate) -> bool:
    """Whether two cards may be of one run: of the same episodes, or handed in together for one model and agent."""
    handed_in = [(each.model, each.agent, each.submission.submitter, each.submission.submitted_on) for each in (one, other)]
    ids = [{episode.id for episode in each.card.episodes} for each in (one, other)]
    return handed_in[0] == handed_in[1] or not ids[0].isdisjoint(ids[1])


def _fingerprints(candidate: Candidate) -> Iterator[tuple[str, str]]:
    """Yield what two honest cards never share: an episode, a ledger or a transcript. Right answers to a few questions they may."""
    for episode in candidate.card.episodes:
        yield episode.id, f"episode {episode.id}"
    for path, digest in candidate.card.artefacts.items():
        if not path.endswith("answers.jsonl.zst"):
            yield digest, f"the record {path[:120]} (SHA-256 {digest[:12]}…)"


@rule("name", Stage.TOGETHER)
def _name(together: Together) -> Iterator[At]:
    for part in ("model", "agent"):
        for earlier, candidate in together.later(lambda each, part=part: path_segment(getattr(each, part)).casefold()):  # type: ignore[misc]
            mine, other = getattr(candidate, part), getattr(earlier, part)
            if mine != other:
                yield At(candidate.where, f"{part}.name: {mine!r} can be taken for {other!r} of {earlier.where}")


@rule("attempts", Stage.TOGETHER)
def _attempts(together: Together) -> Iterator[At]:
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for candidate in sorted(together.ordered, key=lambda each: not each.is_withdrawn):
        key = candidate.division.id, candidate.model, candidate.agent
        counts[key] += 1
        if candidate.verdict is not None or candidate.is_withdrawn:
            continue
        declared, where = candidate.submission.attempts.runs, f"{candidate.where.removesuffix('.json')}.submission.json"
        if declared < counts[key]:
            there = f"{counts[key]} cards of this model and agent are here, withdrawn ones included"
            yield At(where, f"attempts.runs: {declared} declared; {there}")
        elif declared < (known := _known_attempts(together, candidate)):
            yield At(where, f"attempts.runs: {declared} declared; {known} registrations and cards {OF_ONE} are here")


def _known_attempts(together: Together, candidate: Candidate) -> int:
    division = candidate.division
    if not division.is_governed or not candidate.card.registration or candidate.baseline is not None:
        return 0
    who = (registrant_of(candidate), family_of(division.id, candidate.model, candidate.agent))
    return known_attempts(together.registrations, together.own_keys, *who)


# -- cards that describe the market, the benchmark or a metric otherwise than the first card of their division


def _against_first(rule_id: str) -> Callable[[Callable[[Card, Card], Iterator[str]]], Check]:
    """Compare each card with the first of its division."""

    def register(differences: Callable[[Card, Card], Iterator[str]]) -> Check:
        @rule(rule_id, Stage.TOGETHER)
        def check(together: Together) -> Iterator[At]:
            for earlier, candidate in together.later(lambda each: each.division.id):
                for what in differences(earlier.card, candidate.card):
                    yield At(candidate.where, f"{what} than on {earlier.where}")

        return check

    return register


@_against_first("kind")
def _other_kind(first: Card, card: Card) -> Iterator[str]:
    if card.kind != first.kind:
        yield f"is a {card.kind} card, which is another kind"


@_against_first("snapshot")
def _other_snapshot(first: Card, card: Card) -> Iterator[str]:
    if card.kind == first.kind and card.snapshot is not None:
        for field in sorted(SnapshotPart.__struct_fields__):
            if getattr(card.snapshot, field) != getattr(first.snapshot, field):
                yield f"snapshot.{field}: is described otherwise"


@_against_first("windows")
def _other_windows(first: Card, card: Card) -> Iterator[str]:
    if card.kind == first.kind and card.windows != first.windows:
        yield "windows: have other days"


@_against_first("reference")
def _other_benchmark(first: Card, card: Card) -> Iterator[str]:
    if isinstance(card, TradingCard) and isinstance(first, TradingCard) and card_difference(_benchmark(first), _benchmark(card)):
        yield "reference: gives the benchmark other figures"


@_against_first("metric")
def _other_metric(first: Card, card: Card) -> Iterator[str]:
    mine, theirs = figures_of(card), figures_of(first) if card.kind == first.kind else {}
    for each in sorted(mine.keys() & theirs.keys()):
        for part in _DEFINITION:
            if (own := getattr(mine[each], part)) != getattr(theirs[each], part):
                yield f"{each}.{part}: is {str(own)[:80]!r}, which is another"


def _benchmark(card: TradingCard) -> dict[str, JsonValue]:
    """Return days and figures of the benchmark by window, without intervals and reasons."""
    return {
        window: [policy.base_day, policy.last_day, *(figure.value for figure in asdict(policy.metrics).values())]
        for window, policy in card.reference.benchmark_buy_and_hold.items()
    }
