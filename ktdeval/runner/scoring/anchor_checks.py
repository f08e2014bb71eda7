"""Checks of a run's anchors: the chain, its time stamps, and that the records are the ones that the
chain covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec import UNSET

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.recomputation_diff import value_difference
from ktdeval.errors import ConfigError, KtdevalError, UsageError
from ktdeval.runner.records.anchor_chain import (
    NOTHING_BEFORE,
    AnchorChain,
    EpisodeOpened,
    HeadStamped,
    SessionBegun,
    StepRecorded,
    anchor_fact,
    load_anchors,
    moment_text,
    root_fingerprint,
)
from ktdeval.runner.records.run_anchors import step_problems
from ktdeval.runner.records.run_file_names import ANCHORS
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.time_authorities import (
    TimeAuthority,
    TrustedRoots,
    authority_of,
    authority_words,
)
from ktdeval.runner.records.time_stamps import StampAuthority, verified_time
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.findings import Finding


@dataclass(frozen=True)
class AnchorCheck:
    """Result of checking a run's anchors."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()  #: what could not be checked here


def check_anchors(
    folder: RunFolder,
    card: TradingCard | ScoringCard,
    complete: Sequence[EpisodeSpec],
    is_published: bool,
) -> AnchorCheck:
    """Check a run's anchors, and what a card says about them. `complete`: complete episodes of the
    card.

    Without the extra `live`, time stamps are not checked: a note, or a finding on a copy for a
    leaderboard (`is_published`).
    """
    stated = card.provenance.anchors
    path = folder.path / ANCHORS
    if not path.exists():
        if stated is UNSET:
            return AnchorCheck()
        return _refused("is missing; the card says that the run kept it")

    try:
        chain = load_anchors(path)
        fact = anchor_fact(chain)
    except KtdevalError as error:
        return _refused(str(error).removeprefix(f"{path}: ").removeprefix(f"{ANCHORS}: "))

    problems = [*_order_problems(chain), *_record_problems(folder, chain, complete)]
    if stated is UNSET:
        problems.append("is there, but the card says nothing of it")
    else:
        difference = value_difference(stated, fact)
        if difference is not None:
            problems.append(f"the card's provenance.anchors.{difference}")

    notes: tuple[str, ...] = ()
    try:
        problems += _stamp_problems(chain)
    except UsageError as error:  # the extra is not installed
        unchecked = f"the time stamps were not checked: {error}"
        if is_published:
            problems.append(unchecked)
        else:
            notes = (f"{ANCHORS}: {unchecked}",)

    return AnchorCheck(tuple(Finding(path=ANCHORS, message=each) for each in problems), notes)


def _refused(message: str) -> AnchorCheck:
    return AnchorCheck((Finding(path=ANCHORS, message=message),))


def _order_problems(chain: AnchorChain) -> Iterator[str]:
    """Yield links in an order in which no run makes them."""
    if not chain.links or not isinstance(chain.links[0].body, SessionBegun):
        yield "does not begin with the episodes of the run"

    opened = set[str]()
    steps: dict[str, int] = {}
    for number, link in enumerate(chain.links, 1):
        body = link.body
        if isinstance(body, EpisodeOpened):
            opened.add(body.episode)
            if body.steps != steps.get(body.episode, 0):
                yield (
                    f"line {number}: episode {body.episode} was opened with {body.steps} steps, but"
                    f" {steps.get(body.episode, 0)} had been anchored"
                )
        elif isinstance(body, StepRecorded):
            expected = steps.get(body.episode, 0)
            if body.episode not in opened:
                yield f"line {number}: a step of episode {body.episode}, which was not opened"
            if body.step != expected:
                yield (
                    f"line {number}: step {body.step} of episode {body.episode} instead of step"
                    f" {expected}: a step was recorded again, or left out"
                )
            steps[body.episode] = body.step + 1


def _record_problems(
    folder: RunFolder, chain: AnchorChain, complete: Sequence[EpisodeSpec]
) -> Iterator[str]:
    """Yield differences between the chain and the records of complete episodes."""
    named = set[str]()
    for _, session in chain.find(SessionBegun):
        named.update(session.episodes)

    for spec in complete:
        if spec.id not in named:
            yield f"episode {spec.id} ({spec.label}) is not among the episodes that the run began"

        anchored = len(chain.steps.get(spec.id, ()))
        recorded = folder.mark(spec).steps
        if anchored < recorded:
            yield (
                f"episode {spec.id} ({spec.label}) has {recorded} recorded steps, of which"
                f" {anchored} were anchored"
            )

    yield from step_problems(folder, chain, complete)


def _stamp_problems(chain: AnchorChain) -> Iterator[str]:
    """Yield invalid time stamps. Raises UsageError if there are stamps and the extra is not
    installed.
    """
    authority: StampAuthority | None = None
    before = ""
    for number, link in enumerate(chain.links):
        body = link.body
        if isinstance(body, SessionBegun):
            authority = body.authority
            yield from _authority_problems(authority, number)
        if not isinstance(body, HeadStamped):
            continue

        where = f"line {number + 1}: the stamp of {body.at}"
        head = chain.heads[number - 1] if number else NOTHING_BEFORE
        if authority is None:
            yield f"{where}: the run names no authority"
            continue

        problem = _stamp_problem(body, head, authority, where)
        if problem is not None:
            yield problem
        if body.at < before:
            yield f"{where}: is earlier than the one before it"
        before = body.at


def _authority_problems(authority: StampAuthority | None, number: int) -> Iterator[str]:
    """Yield a certificate that is invalid, or whose text holds another one than is verified by."""
    if authority is None:
        return

    where = f"line {number + 1}: authority.certificate"
    try:
        if authority_of(authority).sha256 != root_fingerprint(authority, number):
            yield f"{where}: holds more than one certificate"
    except ConfigError as error:
        yield f"{where}: {error}"


def _stamp_problem(
    body: HeadStamped, head: str, authority: StampAuthority, where: str
) -> str | None:
    """Return why a stamp is not one of this head at the recorded time; None if it is."""
    try:
        time = verified_time(body.answer, head, authority, where)
    except UsageError:
        raise
    except KtdevalError as error:
        return str(error)

    found = moment_text(time)
    return None if found == body.at else f"{where}: its own time is {found}"


def stamp_authorities(chain: AnchorChain) -> Iterator[tuple[StampAuthority, TimeAuthority]]:
    """Yield the authorities of a chain's time stamps, each once. Raises UsageError without the
    extra `live`, and ConfigError if a certificate is invalid.
    """
    seen = set[str]()
    for _, session in chain.find(SessionBegun):
        if session.authority is None:
            continue

        authority = authority_of(session.authority)
        if authority.sha256 not in seen:
            seen.add(authority.sha256)
            yield session.authority, authority


def trust_words(folder: RunFolder, trust: TrustedRoots) -> str | None:
    """Return who stamped a run's anchors and whether a reader trusts them; None without stamps.

    The run names its authorities itself, so only the reader's trust makes their stamps count.
    """
    path = folder.path / ANCHORS
    if not path.exists():
        return None

    words = []
    try:
        for rule, authority in stamp_authorities(load_anchors(path)):
            words.append(authority_words(authority, trust.holds(rule)))
    except UsageError as error:
        return str(error)

    if not words:
        return "no authority stamped the anchors; compare them with a board's copy"
    return f"stamped by {'; '.join(words)}"
