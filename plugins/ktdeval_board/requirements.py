"""What a board asks of a card, and which of it a run lacks: everything at once, a line each, with how to mend it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.api import JsonValue, KtdevalError, RunFolder, near_matches, sha256_hex
from ktdeval_board.entries import Board, Entry, mismatches, seeds_of
from ktdeval_board.identity import identity, identity_words
from ktdeval_board.rules import Division, Rules

_MANIFEST, _MARK = "manifest.json", "episode.json"


@dataclass(frozen=True)
class Candidate:
    """A card that is to be submitted.

    Attributes:
        run: its run folder.
        path: the card's file.
        card: its content, valid.
        division: the division that it is nearest to.
    """

    run: RunFolder
    path: Path
    card: Mapping[str, JsonValue]
    division: Division


def nearest_division(rules: Rules, card: Mapping[str, JsonValue]) -> Division | None:
    """The division of the card's task that it differs least from; None where the board has none of that task."""
    same = [division for division in rules.divisions if division.task == card["task"]["name"]]
    return min(same, key=lambda division: len(mismatches(rules, division, card)), default=None)


def no_division(rules: Rules, task: str) -> str:
    """What is said where a board has no division of a task."""
    tasks = sorted({division.task for division in rules.divisions})
    return f"task: the board has no division of {task}{near_matches(task, tasks)} (it has {', '.join(tasks)})"


def card_problems(board: Board, candidate: Candidate) -> Iterator[str]:
    """Why the board does not take a card, whoever submits it."""
    card, division, rules = candidate.card, candidate.division, board.rules
    yield from _division_problems(rules, division, card)
    if not card["rankable"]["value"]:
        yield from (f"not rankable: {reason}" for reason in card["rankable"]["reasons"])
    if card["snapshot"]["synthetic"] != (rules.market == "synthetic"):
        kind = "synthetic" if card["snapshot"]["synthetic"] else "real"
        yield f"market: it is {kind}, the board is of {rules.market} markets; the two are never put beside each other"
    if division.certificate == "required" and card["kind"] == "trading" and card["certificate"]["value"] is None:
        reason = card["certificate"]["reason"]
        yield f"certificate: the division needs one of its mask, and {reason}; make one with `ktdeval certify`, then " \
            f"`ktdeval score {candidate.run.path} --certificate FILE`"  # fmt: skip
    if card["mask_draw"] != 0:
        yield f"mask draw: was {card['mask_draw']}, the board compares runs under alias map 0; run again without --mask-draw"
    yield from _limit_problems(rules, candidate)
    yield from _duplicate_problems(board, candidate)


def same_system(board: Board, candidate: Candidate) -> list[Entry]:
    """Cards on the board of the system that a card shows, withdrawn ones included."""
    wanted = identity(candidate.card, candidate.division)
    return [entry for entry in board.entries if entry.division is not None and identity(entry.card, entry.division) == wanted]


def attempts_seen(board: Board, candidate: Candidate) -> tuple[int, int]:
    """Attempts of the card's model and agent that can be seen: runs beside this one with it, and cards on the board with this one.

    Cards of other reasoning settings count, as their runs do, and so do withdrawn ones.
    """
    card, division = candidate.card, candidate.division
    wanted = (division, card["model"]["name"], card["agent"]["name"])
    cards = sum((entry.division, entry.model, entry.agent) == wanted for entry in board.entries)
    return count_runs(candidate), cards + 1


def count_runs(candidate: Candidate) -> int:
    """Runs of the card's model, agent and task on the division's market and days, in the folder that its run lies in.

    Limited and unfinished ones count; a copy of a run does not, for its episodes took the very same time.
    """
    seen: set[str] = set()
    for manifest in sorted(candidate.run.path.resolve().parent.glob(f"*/{_MANIFEST}")):
        try:
            run = RunFolder.load(manifest.parent)
        except KtdevalError:
            continue  # another kind of manifest, or a damaged one: it shows no attempt
        if _is_attempt(run, candidate):
            marks = [path.read_bytes() for path in sorted(run.path.glob(f"episodes/*/{_MARK}"))]
            seen.add(sha256_hex(b"".join(marks)) if marks else str(run.path))
    return max(len(seen), 1)


def _is_attempt(run: RunFolder, candidate: Candidate) -> bool:
    card, windows = candidate.card, candidate.division.windows
    wanted = (card["task"]["name"], card["model"]["name"], card["agent"]["name"], card["snapshot"]["id"])
    return any(
        (spec.task, spec.model, spec.agent, spec.snapshot) == wanted
        and any(spec.window.first <= window.last and window.first <= spec.window.last for window in windows)
        for spec in run.manifest.specs
    )


# ---- the parts


def _division_problems(rules: Rules, division: Division, card: Mapping[str, JsonValue]) -> Iterator[str]:
    """As `mismatches` says, with more words on windows and seeds, which can be mended by another run."""
    for reason in mismatches(rules, division, card):
        if reason.startswith("windows "):
            yield from _window_problems(division, card)
        elif reason.startswith("seeds "):
            yield from _seed_problems(seeds_of(rules, division, str(card["model"]["name"])), card)
        else:
            yield f"division {division.id}: {reason}"


def _window_problems(division: Division, card: Mapping[str, JsonValue]) -> Iterator[str]:
    given = {window["name"]: (window["first"], window["last"]) for window in card["windows"]}
    wanted = {window.name: (window.first, window.last) for window in division.windows}
    names = ",".join(wanted)
    if missing := [name for name in wanted if name not in given]:
        yield f"windows: {', '.join(missing)} missing; run again with --windows {names}"
    if surplus := [name for name in given if name not in wanted]:
        yield f"windows: {', '.join(surplus)} too many for division {division.id}; run again with --windows {names}"
    for name in (name for name in wanted if name in given and given[name] != wanted[name]):
        yield f"windows: {name} is {'…'.join(given[name])}, the division's is {'…'.join(wanted[name])}"


def _seed_problems(wanted: Sequence[int], card: Mapping[str, JsonValue]) -> Iterator[str]:
    given = card["seeds"]
    again = f"run again with --seeds {len(wanted)}" + (f" --seed {wanted[0]}" if wanted[0] else "")
    if missing := [seed for seed in wanted if seed not in given]:
        yield f"seeds: {', '.join(map(str, missing))} missing; {again}"
    if surplus := [seed for seed in given if seed not in wanted]:
        yield f"seeds: {', '.join(map(str, surplus))} too many; {again}"


def _limit_problems(rules: Rules, candidate: Candidate) -> Iterator[str]:
    size, most = candidate.path.stat().st_size, rules.limits.bytes_of("card_mb")
    if size > most:
        yield f"size: the card has {size:,} bytes; at most {most:,} are taken"
    episodes = candidate.card["coverage"]["episodes_planned"]
    if episodes > rules.limits.episodes:
        yield f"size: {episodes:,} episodes; at most {rules.limits.episodes:,} are taken"


def _duplicate_problems(board: Board, candidate: Candidate) -> Iterator[str]:
    for entry in same_system(board, candidate):
        if not entry.is_withdrawn:
            where = entry.files.card.relative_to(board.folder.path)
            yield (
                f"attempt: {identity_words(candidate.card)} has a card in division {candidate.division.id} ({where}); a system has "
                "one, unless maintainers withdraw it in errata.yaml"
            )
