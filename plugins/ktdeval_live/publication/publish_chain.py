"""Publication of the chain: a git commit, which is pushed, and a time stamp of the chain's head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from ktdeval.cards import Count, Sha256
from ktdeval.errors import StoreError
from ktdeval.values import Value, decode_json, encode_canonical, sha256_hex
from ktdeval_live.days.clock import TimeSource, Zoned
from ktdeval_live.plan import Publishing
from ktdeval_live.publication.repository import Repository
from ktdeval_live.publication.time_stamps import stamp_head, stamp_sha256
from ktdeval_live.record.append_only_file import append_line, whole_lines
from ktdeval_live.record.chain import NOTHING_BEFORE, Decided, RecordChain
from ktdeval_live.record.folder import PRIVATE, PUBLISHED, SITE, STAMPS, LiveFolder

_IGNORED = f"/{PRIVATE}/\n/{SITE}/\n.*.new*\n"
_EVIDENCE = (PUBLISHED, STAMPS)
"""Files about earlier publications. If only they have changed, nothing is published."""


class Publication(Value):
    """Evidence that the chain was public up to some entry. The publications form a separate hash
    chain.
    """

    previous: Sha256  #: hash of the previous line; 64 zeros on the first line
    seq: Count  #: number of the last entry that was published
    head: Sha256  #: hash of this entry
    at: Zoned  #: time of publication by the step's clock, UTC
    commit: str  #: id of the git commit
    pushed: bool  #: whether the commit was pushed to a remote
    stamp: str | None = None  #: file with the time stamp
    stamp_sha256: Sha256 | None = None  #: hash of the stamp file
    stamped_at: Zoned | None = None  #: time in the stamp

    @property
    def hash(self) -> str:
        """SHA-256 of the publication's line."""
        return sha256_hex(encode_canonical(self))


def publications(folder: LiveFolder) -> list[Publication]:
    """Return the publications so far, in order. Raises StoreError if a line is malformed."""
    path = folder.path / PUBLISHED
    found = []
    for number, line in enumerate(whole_lines(path), 1):
        found.append(decode_json(line, Publication, f"{path}: line {number}"))
    return found


def publication_problems(folder: LiveFolder, public: Sequence[Publication]) -> Iterator[str]:
    """Yield problems with the hash links between publications, one line each."""
    previous = NOTHING_BEFORE
    lines = whole_lines(folder.path / PUBLISHED)
    for number, (one, line) in enumerate(zip(public, lines, strict=True), 1):
        if encode_canonical(one).encode() != line:
            yield f"{PUBLISHED}: line {number}: is not canonical JSON"
        if one.previous != previous:
            yield (
                f"{PUBLISHED}: line {number}: does not continue the line before it: one was changed"
                " or left out"
            )
        previous = one.hash


def begin_repository(path: Path, rule: Publishing) -> None:
    """Make the folder a separate git repository. Raises StoreError if git is missing or fails."""
    Repository(path).begin(rule.branch, _IGNORED)


def reveal(folder: LiveFolder, chain: RecordChain, now: datetime) -> None:
    """Publish the records of decisions whose orders have filled or, in an unsealed test, all
    records.
    """
    cutoffs = folder.cutoffs()
    for _, body in chain.find_links(Decided):
        cutoff = cutoffs[body.market, body.day]
        is_past = cutoff is not None and cutoff <= now
        if is_past or not folder.plan.sealed:
            folder.publish_record(body.key)


def publish(folder: LiveFolder, chain: RecordChain, clock: TimeSource) -> Publication | None:
    """Commit, push and stamp new chain entries; return None if there are no new entries.

    Raises StoreError if they could not be published; the next call tries again.
    """
    rule = folder.plan.publish
    last = chain.entries[-1]
    before = publications(folder)
    repository = Repository(folder.path)
    if before and before[-1].seq == last.seq and not repository.has_changes(_EVIDENCE):
        return None

    subject = f"Publish the record up to entry {last.seq}"
    commit = repository.commit(subject, last.at, _EVIDENCE)
    if rule.remote is not None:
        repository.push(rule.remote, rule.branch)

    stamp = None
    stamp_hash = None
    stamped_at = None
    if rule.stamp is not None:
        try:
            stamp, stamped_at = stamp_head(folder.path, len(before), last.hash, rule.stamp)
            stamp_hash = stamp_sha256(folder.path, stamp)
        except StoreError:
            if rule.stamp.required:
                raise

    publication = Publication(
        previous=before[-1].hash if before else NOTHING_BEFORE,
        seq=last.seq,
        head=last.hash,
        at=clock.now(),
        commit=commit,
        pushed=rule.remote is not None,
        stamp=stamp,
        stamp_sha256=stamp_hash,
        stamped_at=stamped_at,
    )
    append_line(folder.path / PUBLISHED, encode_canonical(publication))
    return publication


def publish_evidence(folder: LiveFolder, chain: RecordChain) -> None:
    """Commit and push the evidence for the publications so far, without a new publication.

    Raises StoreError if the evidence could not be pushed; the next publication includes it.
    """
    repository = Repository(folder.path)
    if not repository.has_changes(()):
        return

    rule = folder.plan.publish
    repository.commit("Keep the evidence of publications", chain.entries[-1].at, ())
    if rule.remote is not None:
        repository.push(rule.remote, rule.branch)
