"""Chain of hashes over what a run has recorded (`anchors.jsonl`), and time stamps of its heads.

Each line is a link that holds the hash of the line before it. The hash of a line is a *head*: it
covers everything up to that line. A link names the episodes of the run, an opening of an episode,
the hash of a recorded step, or a time stamp of the line before it. The chain is the submitter's
own, like every record. Only a copy of a head that somebody else holds proves something: a stamp,
that all before it existed at that time; a leaderboard's copy, that no step before it was drawn
again.
"""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, TypeVar

from msgspec import Meta

from ktdeval.cards.fields.base_types import Count, EpisodeId, Name, Sha256
from ktdeval.cards.fields.origin.anchor_fact import AnchorFact
from ktdeval.errors import StoreError, VerificationError, wrap_os_error
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.runner.records.episode_journal import Record
from ktdeval.runner.records.run_file_names import ANCHORS
from ktdeval.runner.records.time_stamps import MAX_STAMP_BYTES, StampAuthority
from ktdeval.values.disk.files import open_plain
from ktdeval.values.documents.typed_json import Value, decode_json, encode_canonical
from ktdeval.values.hashes import sha256_hex

NOTHING_BEFORE = "0" * 64
Moment = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]


class SessionBegun(Value, tag="begun", tag_field="kind"):
    """A process began or resumed the run."""

    #: ids of the run's episodes; each is the hash of all that can change the episode's outcome
    episodes: tuple[EpisodeId, ...]
    authority: StampAuthority | None  #: authority of the stamps that follow; None: no stamps


class EpisodeOpened(Value, tag="opened", tag_field="kind"):
    """An episode was begun or resumed."""

    episode: EpisodeId
    steps: Count  #: number of its steps that were recorded by then


class StepRecorded(Value, tag="step", tag_field="kind"):
    """A step was recorded."""

    episode: EpisodeId
    step: Count
    sha256: Sha256  #: `step_hash` of the step
    #: whether a later process found the step recorded, since the one that ran it was killed
    found: bool = False


class HeadStamped(Value, tag="stamp", tag_field="kind"):
    """An authority stamped the hash of the line before."""

    at: Moment  #: time of the stamp, in UTC
    response: Annotated[str, Meta(max_length=2 * MAX_STAMP_BYTES)]  #: the stamp (RFC 3161), base64

    @property
    def answer(self) -> bytes:
        """The authority's response. Raises VerificationError if it is not base64."""
        try:
            return base64.b64decode(self.response, validate=True)
        except (binascii.Error, ValueError) as error:
            raise VerificationError(f"the stamp of {self.at}: is not base64: {error}") from error


class StampFailed(Value, tag="stamp_failed", tag_field="kind"):
    """The hash of the line before was to be stamped, and was not."""

    reason: Name


Body = SessionBegun | EpisodeOpened | StepRecorded | HeadStamped | StampFailed
B = TypeVar("B", SessionBegun, EpisodeOpened, StepRecorded, HeadStamped, StampFailed)


class ChainLink(Value):
    """A line of the chain."""

    previous: Sha256  #: hash of the line before; 64 zeros in the first
    body: Body


def link_hash(link: ChainLink) -> str:
    """Return the SHA-256 of a line: the head of a chain that ends with it."""
    return sha256_hex(encode_canonical(link))


def moment_text(time: datetime) -> str:
    """Return the time of a stamp as the chain holds it: in UTC, to the second."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def stamp_link(previous: str, answer: bytes, time: datetime) -> ChainLink:
    """Return the link with an authority's stamp of the line before."""
    response = base64.b64encode(answer).decode("ascii")
    return ChainLink(previous=previous, body=HeadStamped(at=moment_text(time), response=response))


def step_hash(record: Record, transcript: TranscriptEntry) -> str:
    """Return the SHA-256 over a step's record and its conversation, in canonical JSON."""
    return sha256_hex(f"{encode_canonical(record)}\n{encode_canonical(transcript)}")


@dataclass(frozen=True)
class AnchorChain:
    """Links of a chain, with the hash of each."""

    links: Sequence[ChainLink] = ()
    heads: Sequence[str] = ()  #: hash of each link

    def find(self, type_: type[B]) -> Iterator[tuple[int, B]]:
        """Yield the bodies of one type, with the numbers of their links."""
        for number, link in enumerate(self.links):
            if isinstance(link.body, type_):
                yield number, link.body

    @cached_property
    def steps(self) -> dict[str, list[StepRecorded]]:
        """Recorded steps in the order of the chain, keyed by episode."""
        found: dict[str, list[StepRecorded]] = {}
        for _, body in self.find(StepRecorded):
            found.setdefault(body.episode, []).append(body)
        return found

    @property
    def head(self) -> str:
        """Hash of the last link; 64 zeros of an empty chain."""
        return self.heads[-1] if self.heads else NOTHING_BEFORE

    @property
    def authority(self) -> StampAuthority | None:
        """Authority of the latest session; None if its heads are not stamped."""
        found = None
        for _, body in self.find(SessionBegun):
            found = body.authority
        return found

    def texts(self) -> Iterator[str]:
        """Yield the texts that may hold something private: addresses, and reasons of failures."""
        for _, session in self.find(SessionBegun):
            if session.authority is not None:
                yield session.authority.url
        for _, failed in self.find(StampFailed):
            yield failed.reason

    def stamped_by(self, fingerprints: Collection[str]) -> list[int]:
        """Return the numbers of links that an authority with one of these root certificates
        stamped, by the SHA-256 of the certificate. Raises StoreError if a certificate is not in
        PEM.
        """
        found = []
        is_trusted = False
        for number, link in enumerate(self.links):
            body = link.body
            if isinstance(body, SessionBegun):
                authority = body.authority
                is_trusted = authority is not None and (
                    root_fingerprint(authority, number) in fingerprints
                )
            elif isinstance(body, HeadStamped) and is_trusted:
                found.append(number)
        return found

    def widest_gap(self, anchored: Sequence[int]) -> int:
        """Return the largest number of steps that lie between two of these links, before the first
        or after the last.
        """
        widest = 0
        steps = 0
        ends = set(anchored)
        for number, link in enumerate(self.links):
            if isinstance(link.body, StepRecorded):
                steps += 1
                widest = max(widest, steps)
            if number in ends:
                steps = 0
        return widest


def load_anchors(path: Path) -> AnchorChain:
    """Read a chain. A torn last line, of a process that was killed, is skipped.

    Raises StoreError if a line is not one of a chain, or does not continue the line before it.
    """
    links = []
    heads = []
    previous = NOTHING_BEFORE
    with wrap_os_error(f"{path}: can't read"), open_plain(path, follow=False) as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                break

            where = f"{path}: line {number}"
            link = decode_json(line, ChainLink, where)
            if encode_canonical(link).encode() + b"\n" != line:
                raise StoreError(f"{where}: is not in the canonical form of an anchor")
            if link.previous != previous:
                raise StoreError(
                    f"{where}: does not continue the line before it: one was changed or left out"
                )

            previous = link_hash(link)
            links.append(link)
            heads.append(previous)

    return AnchorChain(links, heads)


def anchor_fact(chain: AnchorChain) -> AnchorFact:
    """Return what a card says about a run's chain. Raises StoreError if the certificate of an
    authority in it is not in PEM.
    """
    stamps = list(chain.find(HeadStamped))
    authorities = []
    for number, session in chain.find(SessionBegun):
        if session.authority is not None:
            authorities.append(root_fingerprint(session.authority, number))

    first = None
    last = None
    if stamps:
        first = stamps[0][1].at
        last = stamps[-1][1].at

    return AnchorFact(
        head=chain.head,
        links=len(chain.links),
        steps=sum(len(steps) for steps in chain.steps.values()),
        found=sum(body.found for _, body in chain.find(StepRecorded)),
        stamps=len(stamps),
        failed=sum(1 for _ in chain.find(StampFailed)),
        first=first,
        last=last,
        gap=chain.widest_gap([number for number, _ in stamps]),
        authorities=sorted(set(authorities)),
    )


def root_fingerprint(authority: StampAuthority, number: int) -> str:
    """Return the SHA-256 of an authority's root certificate, without the extra `live`. Whether the
    certificate is valid, only a verification says.
    """
    try:
        return sha256_hex(ssl.PEM_cert_to_DER_cert(authority.certificate.strip()))
    except ValueError as error:
        raise StoreError(
            f"{ANCHORS}: line {number + 1}: authority.certificate: is not a certificate in PEM:"
            f" {error}"
        ) from error
