"""Checks that a run's call log agrees with its episodes, transcripts and cards, so that a change of
one alone is found. All of them are the submitter's own, who can change them together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from ktdeval.calls.records.call_counts import (
    EpisodeCalls,
    tally_calls,
    tally_episode,
    transcript_difference,
)
from ktdeval.calls.records.call_log import LOG_FILE, read_calls
from ktdeval.calls.records.database import read_identity
from ktdeval.calls.records.remote_call_log import call_record
from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.card_reading import load_evaluation
from ktdeval.cards.fields.replies.calls import Calls, gather_calls
from ktdeval.cards.recomputation_diff import value_difference
from ktdeval.errors import CardError, StoreError
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.records.completion_marks import EpisodeMark, wall_time
from ktdeval.runner.records.run_file_names import MANIFEST, MARK
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.transcript_counts import Said
from ktdeval.runner.scoring.model_identity_checks import manifest_problems
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.findings import Finding

_NOTHING = tally_episode(())
_RESTORE = "restore the call log with which the run was begun, or start again with another --out"


def check_call_log(folder: RunFolder, plugins: Plugins) -> None:
    """Check a run that is to be resumed or scored. Raises StoreError if its manifest contradicts
    its models, or if its call log does not match its episodes and cards.
    """
    check_models(folder, plugins)
    if folder.manifest.request_settings is None:
        return

    problem = next(log_problems(folder, folder.manifest.specs), None)
    if problem is None:
        problem = next(_card_problems(folder), None)

    if problem is not None:
        raise StoreError(f"{folder.path / LOG_FILE}: {problem}; {_RESTORE}")


def check_models(folder: RunFolder, plugins: Plugins) -> None:
    """Raise StoreError if a run's manifest contradicts its models."""
    problem = next(manifest_problems(folder.manifest, plugins), None)
    if problem is not None:
        raise StoreError(f"{folder.path / MANIFEST}: {problem}")


def log_problems(folder: RunFolder, specs: Sequence[EpisodeSpec]) -> Iterator[str]:
    """Yield differences between a run's call log and its manifest, and between the log and complete
    episodes.
    """
    entry = folder.manifest.call_log
    path = call_record(folder.path)
    if entry is None:
        yield "the manifest does not name the call log with which the run was begun"
        return

    if not path.exists():
        yield (
            f"the call log, begun at {entry.begun_at}, is missing; it contains all requests and"
            " replies"
        )
        return

    identity = read_identity(path)
    if identity is None or (identity.id, identity.begun_at) != (entry.id, entry.begun_at):
        begun_at = "an unknown time" if identity is None else identity.begun_at
        yield (
            f"is a different call log, begun at {begun_at}; the run's call log was begun at"
            f" {entry.begun_at}"
        )
        return

    tallies = tally_calls(read_calls(folder.path))
    for spec in specs:
        if not folder.is_complete(spec):
            continue

        recorded = folder.mark(spec).calls
        if recorded != tallies.get(spec.id, _NOTHING):
            yield (f"lacks calls that the {MARK} of episode {spec.id} ({spec.label}) counts")


def _card_problems(folder: RunFolder) -> Iterator[str]:
    """Yield a message for each card whose number of calls exceeds that in the run's call log."""
    tallies = tally_calls(read_calls(folder.path))
    for path in sorted(folder.path.glob("cards/*.json")):
        try:
            card = load_evaluation(path)
        except CardError:  # invalid cards are rewritten
            continue

        if card.provenance.calls is None:
            continue

        for episode, calls in card.provenance.calls.episodes.items():
            held = tallies.get(episode, _NOTHING)
            if held.attempts < calls.attempts or held.answered < calls.answered:
                yield (
                    f"has {held.answered} answers of episode {episode} in {held.attempts}"
                    f" attempts; cards/{path.name} counted {calls.answered} in {calls.attempts}"
                )


def mark_difference(folder: RunFolder, calls: EpisodeCalls | None, said: Said) -> str | None:
    """Return the difference between the calls counted in an episode's mark and in its transcript;
    None if they agree.
    """
    if folder.manifest.request_settings is None:
        if calls is None:
            return None
        return "calls: are counted, but the run's model is local"

    if calls is None:
        return "calls: are not counted, but the run's model is remote"

    difference = transcript_difference(calls, said.replies, said.errors)
    return None if difference is None else f"calls: {difference}"


def provenance_findings(
    name: str,
    folder: RunFolder,
    card: TradingCard | ScoringCard,
    complete: Sequence[EpisodeSpec],
    is_published: bool,
) -> Iterator[Finding]:
    """Yield differences in time and calls between a card and its complete episodes, and between
    these episodes and the call log.

    `name`: file name of the card. `is_published`: True for a copy for a leaderboard, which has no
    call log.
    """
    try:
        marks = {spec.id: folder.mark(spec) for spec in complete}
    except StoreError:  # a mark is unreadable, which another finding reports
        return

    for problem in _provenance_problems(folder, card, marks):
        yield Finding(path=name, message=f"provenance.{problem}")

    calls = card.provenance.calls
    is_remote = folder.manifest.request_settings is not None
    if calls is not None and is_remote and not is_published:
        recorded = calls if card.deciders else calls.without_served()
        yield from _log_findings(name, folder, recorded, complete, _planned_episodes(card))


def _planned_episodes(card: TradingCard | ScoringCard) -> set[str]:
    return {episode.id for episode in (*card.episodes, *card.missing_episodes)}


def _provenance_problems(
    folder: RunFolder, card: TradingCard | ScoringCard, marks: Mapping[str, EpisodeMark]
) -> Iterator[str]:
    """Yield differences in time and calls between a card and its episodes' marks."""
    stated = card.provenance.wall_time_s
    total = wall_time(marks.values())
    if stated is not None and stated != total:
        yield f"wall_time_s: recorded {stated}, its episodes took {total} by their marks"

    is_remote = folder.manifest.request_settings is not None
    calls = card.provenance.calls
    if calls is None:
        if is_remote:
            yield "calls: does not count the calls of a remote model"
        return

    if not is_remote:
        yield "calls: counts calls of a local model"
        return

    for surplus in sorted(set(calls.episodes) - _planned_episodes(card)):
        yield f"calls.episodes.{surplus}: is not an episode of the card"

    for id_, mark in marks.items():
        if calls.episodes.get(id_, _NOTHING) != mark.calls:
            yield f"calls.episodes.{id_}: differs from the calls that its {MARK} counts"


def _log_findings(
    name: str,
    folder: RunFolder,
    recorded: Calls,
    complete: Sequence[EpisodeSpec],
    planned: Collection[str],
) -> Iterator[Finding]:
    """Yield differences between a run's call log and its complete episodes, and between the log and
    the calls that a card records.

    `planned`: ids of the card's episodes, complete or not.
    """
    try:
        for problem in log_problems(folder, complete):
            yield Finding(path=LOG_FILE, message=problem)

        made = gather_calls(read_calls(folder.path), planned)
    except StoreError as error:
        yield unreadable_finding(folder, error)
        return

    difference = value_difference(recorded, made)
    if difference is not None:
        message = f"provenance.calls.{difference}, by {LOG_FILE}"
        yield Finding(path=name, message=message)


def unreadable_finding(folder: RunFolder, error: StoreError) -> Finding:
    """Return a finding about an unreadable file of a run, with the file's path in the run."""
    path, _, message = str(error).removeprefix(f"{folder.path}/").partition(": ")
    return Finding(path=path, message=message)
