"""Cards against each other: one attempt for each system, no one's records twice, and one market and benchmark for all."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from ktdeval.api import JsonValue
from ktdeval_board.checking.candidate import Candidate
from ktdeval_board.checking.findings import Finding
from ktdeval_board.identity import identity, identity_words
from ktdeval_board.layout import path_segment

_TIERS = ("re-run", "re-executed", "self-reported")
_DEFINITION = ("better", "formula", "range", "unit")
_TOLERANCE = 1e-9
"""Relative: sums on another machine may differ in their last digits."""


def disagreements(candidates: Sequence[Candidate]) -> list[Finding]:
    """What is wrong with cards only because of other cards; told of the later one.

    A card that the board has a verdict on comes before one that it has none on, whatever days their submitters wrote.

    Args:
        candidates: all cards that are sound in themselves.
    """
    ordered = sorted(candidates, key=_precedence)
    standing = [candidate for candidate in ordered if not candidate.is_withdrawn]
    withdrawn_first = sorted(ordered, key=_is_standing)
    found = (_duplicates(standing), _copies(standing), _namesakes(standing), _attempts(withdrawn_first), _odd_ones(standing))
    return list(chain.from_iterable(found))


def _precedence(candidate: Candidate) -> tuple[bool, int, str, str]:
    verdict = candidate.verdict
    tier = _TIERS.index(verdict["tier"]) if verdict is not None and verdict["tier"] in _TIERS else len(_TIERS)
    return verdict is None, tier, str(candidate.submission["submitted_on"]), candidate.where


def _is_standing(candidate: Candidate) -> bool:
    return not candidate.is_withdrawn


def _duplicates(candidates: Sequence[Candidate]) -> Iterator[Finding]:
    first: dict[tuple[str, ...], Candidate] = {}
    for candidate in candidates:
        known = first.setdefault(identity(candidate.card, candidate.division), candidate)
        if known is not candidate:
            system = identity_words(candidate.card)
            message = f"{system} has a card in division {candidate.division.id} already: {known.where}; one attempt each"
            yield Finding(candidate.where, "duplicate", message)


def _copies(candidates: Sequence[Candidate]) -> Iterator[Finding]:
    """Cards of the same episodes or the same records. The board's own baselines may be in several divisions with the same ones."""
    first: dict[str, Candidate] = {}
    for candidate in candidates:
        for key, what in _fingerprints(candidate):
            known = first.setdefault(key, candidate)
            if known is not candidate and not _is_same_baseline(known, candidate):
                yield Finding(candidate.where, "copy", f"{what} is also on {known.where}")
                break


def _fingerprints(candidate: Candidate) -> Iterator[tuple[str, str]]:
    """What two honest cards never share: an episode, a ledger or a transcript. Right answers to a few questions they may."""
    for episode in candidate.card["episodes"]:
        yield episode["id"], f"episode {episode['id']}"
    for path, digest in candidate.card["artefacts"].items():
        if not path.endswith("answers.jsonl.zst"):
            yield digest, f"the record {path[:120]} (SHA-256 {digest[:12]}…)"


def _is_same_baseline(one: Candidate, other: Candidate) -> bool:
    return one.baseline is not None and one.baseline == other.baseline and one.division != other.division


def _namesakes(candidates: Sequence[Candidate]) -> Iterator[Finding]:
    """Names that differ but look or file alike: `openai--gpt` beside `openai/gpt`, `GPT` beside `gpt`."""
    for part in ("model", "agent"):
        first: dict[str, Candidate] = {}
        for candidate in candidates:
            name = str(candidate.card[part]["name"])
            known = first.setdefault(path_segment(name).casefold(), candidate)
            if known.card[part]["name"] != name:
                other = known.card[part]["name"]
                yield Finding(candidate.where, "name", f"{part}.name: {name!r} can be taken for {other!r} of {known.where}")


def _attempts(candidates: Sequence[Candidate]) -> Iterator[Finding]:
    """Fewer declared attempts than cards, withdrawn ones first. Asked of new cards: an old one can't know what came after it."""
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for candidate in candidates:
        key = candidate.division.id, candidate.model, candidate.agent
        counts[key] += 1
        declared = candidate.submission["attempts"]["runs"]
        if candidate.verdict is None and not candidate.is_withdrawn and declared < counts[key]:
            message = (
                f"attempts.runs: {declared} declared; {counts[key]} cards of this model and agent are here, withdrawn ones included"
            )
            yield Finding(candidate.submission_where, "attempts", message)


def _odd_ones(candidates: Sequence[Candidate]) -> Iterator[Finding]:
    """Cards that describe the market, the benchmark or a metric otherwise than the first card of their division does."""
    standard: dict[str, Candidate] = {}
    for candidate in candidates:
        known = standard.setdefault(candidate.division.id, candidate)
        if known is candidate:
            continue
        for rule, what in chain(_market_differences(known.card, candidate.card), _metric_differences(known.card, candidate.card)):
            yield Finding(candidate.where, rule, f"{what} than on {known.where}")


def _market_differences(known: Mapping[str, JsonValue], card: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    if card["kind"] != known["kind"]:
        yield "kind", f"is a {card['kind']} card, which is another kind"
        return
    for field in sorted(known["snapshot"]):
        if card["snapshot"][field] != known["snapshot"][field]:
            yield "snapshot", f"snapshot.{field}: is told otherwise"
    if card["windows"] != known["windows"]:
        yield "windows", "windows: have other days"
    if card["kind"] == "trading" and not _is_close(_benchmark(card), _benchmark(known)):
        yield "reference", "reference: gives the benchmark other figures"


def _benchmark(card: Mapping[str, JsonValue]) -> JsonValue:
    """Days and figures of the benchmark by window, without intervals and reasons."""
    windows = card["reference"]["benchmark_buy_and_hold"]
    return {
        name: [entry["base_day"], entry["last_day"], *(entry["metrics"][metric]["value"] for metric in sorted(entry["metrics"]))]
        for name, entry in windows.items()
    }


def _metric_differences(known: Mapping[str, JsonValue], card: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    field = "metrics" if card["kind"] == "trading" else "scores"
    for name in sorted(card[field].keys() & known.get(field, {}).keys()):
        one, other = card[field][name], known[field][name]
        for part in _DEFINITION:
            if one.get(part) != other.get(part):
                yield "metric", f"{field}.{name}.{part}: is {str(one.get(part))[:80]!r}, which is another"


def _is_close(one: JsonValue, other: JsonValue) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_close(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_close, one, other))
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(one == other)
