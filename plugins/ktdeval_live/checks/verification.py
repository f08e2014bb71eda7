"""Verification of a forward test: finds entries that were changed, omitted, added late or moved.

Only the model's recorded replies, and the time authorities specified by the reader, are trusted.
Each finding gives its rule and the day. The records can't prove when decisions were made; `level`
describes the external evidence for this. Parts that can be changed without causing a finding are
listed (`list_uncovered`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ktdeval.errors import KtdevalError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import (
    NOBODY,
    TimeAuthority,
    TrustedRoots,
    authority_of,
)
from ktdeval.values import Finding
from ktdeval_live.checks.chain_coverage import UncoveredPart, list_uncovered
from ktdeval_live.checks.check_beginning import beginning_findings
from ktdeval_live.checks.check_cards import CardCheck
from ktdeval_live.checks.check_data import data_findings
from ktdeval_live.checks.check_decisions import DecisionCheck
from ktdeval_live.checks.check_stray_files import stray_files, unsafe_files
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.publication.publication_evidence import (
    Level,
    publication_findings,
    stamp_problem,
    test_level,
)
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.record.chain import RecordChain, read_chain
from ktdeval_live.record.entrant_episode import answers
from ktdeval_live.record.findings import make_finding
from ktdeval_live.record.folder import CHAIN, LiveFolder
from ktdeval_live.results.card_labels import has_wide_bounds, wide_words
from ktdeval_live.results.daily_results import entry_result
from ktdeval_live.results.settled_cards import results_part


@dataclass(frozen=True)
class LiveVerification:
    """Result of a verification."""

    findings: tuple[Finding, ...]
    entries: int = 0  #: number of chain entries
    decisions: int = 0  #: number of decisions replayed from their recorded replies
    sealed: int = 0  #: number of decisions not yet published
    stamped: int = 0  #: number of publications with a valid stamp from the plan's authority
    authority: TimeAuthority | None = None  #: authority named in the plan
    #: weakest evidence of when the decisions were made; `claimed` if there are findings
    level: Level = "claimed"
    until: str = ""  #: time of the last chain entry, UTC
    #: parts that could be changed without causing a finding; empty if there are findings
    uncovered: tuple[UncoveredPart, ...] = ()
    #: bounds that are too wide to be meaningful because of gaps, one line each; empty if there are
    #: findings
    wide: tuple[str, ...] = ()


def verify_test(
    folder: LiveFolder, plugins: Plugins, now: datetime | None = None, trust: TrustedRoots = NOBODY
) -> LiveVerification:
    """Verify a whole test without writing anything.

    If `now` is given, a live test must have an outcome for each day whose cutoff is more than a day
    ago. Stamps are evidence only if they are under a root in `trust`. Raises KtdevalError if a
    required part of the software is missing.
    """
    unsafe = tuple(unsafe_files(folder.path))
    if unsafe:
        return LiveVerification(unsafe)

    try:
        chain = RecordChain(folder.path / CHAIN, read_chain(folder.path / CHAIN))
        folder.plan  # noqa: B018 - with those that joined
    except KtdevalError as error:
        return LiveVerification((make_finding("chain", "", str(error)),))
    if not chain.entries:
        return LiveVerification((make_finding("chain", "", "is empty"),))

    checked = CheckedFolder(folder, chain, plugins, now)
    decisions = DecisionCheck(checked)
    findings = tuple(_findings(checked, decisions))
    result = LiveVerification(
        findings,
        entries=len(chain.entries),
        decisions=decisions.decisions,
        sealed=decisions.sealed,
        stamped=_count_stamps(folder),
        until=chain.entries[-1].at,
    )
    if findings:
        return result

    rule = folder.plan.publish.stamp
    return dataclasses.replace(
        result,
        level=test_level(folder, chain, checked.entries, trust),
        authority=None if rule is None else authority_of(rule),
        uncovered=tuple(list_uncovered(folder.path)),
        wide=tuple(_wide_bounds(checked)),
    )


def _wide_bounds(checked: CheckedFolder) -> Iterator[str]:
    """Yield the entries whose gaps could hide almost any return, one line each."""
    markets: dict[str, MarketSnapshot] = {}
    for entry in checked.entries:
        ended = answers(checked.chain, entry)
        if all(answer.counts for answer in ended.values()):
            continue
        if entry.market not in markets:
            markets[entry.market] = checked.folder.market(entry.market, checked.chain)

        market = markets[entry.market]
        result = entry_result(checked.folder, checked.chain, entry, checked.plugins, market)
        results = results_part(checked.folder.plan, result)
        if has_wide_bounds(results):
            yield f"{entry.name}: {wide_words(results)}"


def _findings(checked: CheckedFolder, decisions: DecisionCheck) -> Iterator[Finding]:
    """Yield all findings, in rule order."""
    begun = list(beginning_findings(checked))
    yield from begun
    if begun:
        return  # otherwise, all following checks would report differences

    yield from data_findings(checked)
    yield from decisions.findings()
    yield from publication_findings(checked.folder, checked.chain, checked.due_until)
    yield from stray_files(checked.folder, checked.chain)
    yield from CardCheck(checked).findings()


def _count_stamps(folder: LiveFolder) -> int:
    """Return the number of publications with a valid stamp."""
    try:
        public = publications(folder)
    except KtdevalError:
        return 0

    count = 0
    for one in public:
        if one.stamp is not None and stamp_problem(folder, one) is None:
            count += 1
    return count
