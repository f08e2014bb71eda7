"""Verification of a forward test: whatever was changed, left out, added late or moved is found.

Nothing is trusted but the model's recorded replies. Each finding names its rule and the day. What no
record can show is left to outside evidence: `level` says which there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ktdeval.errors import KtdevalError, VerificationError
from ktdeval.plugins.registry import Plugins
from ktdeval_live.chain import Chain, read_chain
from ktdeval_live.check_beginning import beginning_findings
from ktdeval_live.check_cards import CardCheck
from ktdeval_live.check_data import data_findings
from ktdeval_live.check_decisions import DecisionCheck
from ktdeval_live.check_files import stray_files, unsafe_files
from ktdeval_live.checked import Checked
from ktdeval_live.evidence import Level, publication_findings, stamp_problem, test_level
from ktdeval_live.findings import Finding
from ktdeval_live.folder import CHAIN, LiveFolder
from ktdeval_live.publishing import publications


@dataclass(frozen=True)
class LiveVerification:
    """Result of a verification."""

    findings: tuple[Finding, ...]
    entries: int = 0  #: links of the chain
    decisions: int = 0  #: decisions that were made again from their replies
    sealed: int = 0  #: decisions that are not published yet
    stamped: int = 0  #: publications with a stamp of the authority that holds
    #: weakest evidence of when the decisions were made; `claimed` where anything was found
    level: Level = "claimed"
    until: str = ""  #: time of the last link, UTC


def verify_test(
    folder: LiveFolder, plugins: Plugins, now: datetime | None = None
) -> LiveVerification:
    """Verify a whole test, and write nothing. With `now`, a live test must have an end of each day
    whose cutoff was a day before. Raises KtdevalError: a part of the software that it needs is
    missing.
    """
    unsafe = tuple(unsafe_files(folder.path))
    if unsafe:
        return LiveVerification(unsafe)

    try:
        chain = Chain(folder.path / CHAIN, read_chain(folder.path / CHAIN))
        folder.plan  # noqa: B018 - with those that joined
    except KtdevalError as error:
        return LiveVerification((Finding("chain", "", str(error)),))
    if not chain.entries:
        return LiveVerification((Finding("chain", "", "is empty"),))

    checked = Checked(folder, chain, plugins, now)
    decisions = DecisionCheck(checked)
    findings = tuple(_findings(checked, decisions))
    level: Level = "claimed"
    if not findings:
        level = test_level(folder, chain, checked.entries)

    return LiveVerification(
        findings,
        len(chain.entries),
        decisions.decisions,
        decisions.sealed,
        _stamped(folder),
        level,
        chain.entries[-1].at,
    )


def _findings(checked: Checked, decisions: DecisionCheck) -> Iterator[Finding]:
    """Yield everything that is wrong, in the order of the rules."""
    begun = list(beginning_findings(checked))
    yield from begun
    if begun:
        return  # everything below would differ for that reason alone

    yield from data_findings(checked)
    yield from decisions.findings()
    yield from publication_findings(checked.folder, checked.chain, checked.due_until)
    yield from stray_files(checked.folder, checked.chain)
    yield from CardCheck(checked).findings()


def _stamped(folder: LiveFolder) -> int:
    """Return how many publications have a stamp that holds."""
    try:
        public = publications(folder)
    except KtdevalError:
        return 0

    count = 0
    for one in public:
        if one.stamp is not None and stamp_problem(folder, one) is None:
            count += 1
    return count


def check_verified(result: LiveVerification) -> None:
    """Raise VerificationError if anything was found."""
    if result.findings:
        raise VerificationError(f"{len(result.findings)} findings; the record does not hold")
