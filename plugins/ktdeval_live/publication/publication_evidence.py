"""Evidence that a chain was public at a given time: git commits and time stamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import Literal, get_args

from ktdeval.errors import KtdevalError
from ktdeval.runner import TrustedRoots
from ktdeval.values import Finding, read_plain
from ktdeval_live.days.clock import in_text, of_text
from ktdeval_live.publication.git_history import commit_order, read_committed
from ktdeval_live.publication.publish_chain import Publication, publication_problems, publications
from ktdeval_live.publication.time_stamps import stamp_sha256, stamp_time
from ktdeval_live.record.append_only_file import MAX_BYTES
from ktdeval_live.record.chain import Decided, Entry, Gap, RecordChain
from ktdeval_live.record.entrant_episode import EntrantMarket as LiveEntry
from ktdeval_live.record.findings import make_finding
from ktdeval_live.record.folder import CHAIN, PUBLISHED, LiveFolder

RULE = "published"
Level = Literal["claimed", "claimed (own authority)", "pushed", "stamped"]
"""Evidence of when a decision was made, weakest first."""

LEVELS: tuple[Level, ...] = get_args(Level)

PROVES: Mapping[Level, str] = {
    "stamped": "each decision existed before its cutoff, by stamps of an authority that you trust",
    "pushed": "each decision was pushed before its cutoff, if the remote attests when",
    "claimed (own authority)": "the authority of the stamps is the maintainer's choice: unless you"
    " trust it, the whole record could have been made afterwards",
    "claimed": "the times are those of the maintainer's own clock: the whole record could have been"
    " made afterwards",
}
"""What each level of evidence proves to a reader; the docs and the live page use the same text."""


def publication_findings(
    folder: LiveFolder, chain: RecordChain, due_until: datetime
) -> Iterator[Finding]:
    """Yield invalid evidence, and decisions that were not public before their cutoff.

    A decision whose cutoff is after `due_until` may lack evidence, since the next step will publish
    it.
    """
    try:
        public = publications(folder)
        yield from _history_findings(folder, public)
    except KtdevalError as error:
        yield make_finding(RULE, "", str(error))
        return

    for broken in publication_problems(folder, public):
        yield make_finding(RULE, "", broken)

    for one in public:
        problem = _publication_problem(folder, chain, one) or stamp_problem(folder, one)
        if problem is not None:
            yield make_finding(RULE, "", problem)

    for before, after in pairwise(public):
        if after.at < before.at or after.seq < before.seq:
            yield make_finding(RULE, "", f"the publication of entry {after.seq} is out of order")

    cutoffs = folder.cutoffs()
    for link, body in standing(chain):
        cutoff = cutoffs.get((body.market, body.day))
        is_due = cutoff is None or cutoff <= due_until or any(one.seq >= link.seq for one in public)
        if is_due and not (cutoff and was_public(folder, public, link.seq, cutoff)):
            yield make_finding(RULE, body.day, f"{body.entry}: was not public before its cutoff")


def was_public(
    folder: LiveFolder, public: Iterable[Publication], seq: int, cutoff: datetime
) -> bool:
    """Return whether a chain entry is proved to have been public before a cutoff."""
    return any(one.seq >= seq and proved_at(folder, one) < cutoff for one in public)


def was_all_public(
    folder: LiveFolder, chain: RecordChain, public: Iterable[Publication], cutoff: datetime
) -> bool:
    """Return whether all entries written before a cutoff are proved to have been public
    before it.
    """
    last = 0
    for link in chain.entries:
        if of_text(link.at) < cutoff:
            last = link.seq
    return was_public(folder, public, last, cutoff)


def was_frozen(chain: RecordChain, market: str, day: str, cutoff: datetime) -> bool:
    """Return whether a day's data were frozen before a cutoff."""
    for link, body in chain.find_data(market):
        if body.day == day:
            return of_text(link.at) < cutoff
    return False


def test_level(
    folder: LiveFolder, chain: RecordChain, entries: Iterable[LiveEntry], trust: TrustedRoots
) -> Level:
    """Return the weakest evidence over all entries with a valid decision, for a reader who trusts
    `trust`; `claimed` if there are no such entries.
    """
    public = publications(folder)
    decided = {body.entry for _, body in standing(chain)}
    levels = set()
    for entry in entries:
        if entry.name in decided:
            levels.add(evidence_level(folder, chain, entry, public, trust))
    return weakest(levels)


def evidence_level(
    folder: LiveFolder,
    chain: RecordChain,
    entry: LiveEntry,
    public: Sequence[Publication],
    trust: TrustedRoots,
) -> Level:
    """Return the weakest evidence that an entry's valid decisions were made before their cutoffs.

    Only decisions whose cutoff has passed are considered. The result is `claimed` without such
    decisions, and in a rehearsal, which has its own clock. It is `stamped` only if the stamps are
    checked against a root that the reader trusts.
    """
    if folder.plan.kind == "rehearsal":
        return "claimed"

    cutoffs = folder.cutoffs()
    last_at = of_text(chain.entries[-1].at)
    by_stamp: Level = "claimed (own authority)"
    if trust.holds(folder.plan.publish.stamp):
        by_stamp = "stamped"

    levels: set[Level] = set()
    for link, body in standing(chain):
        if body.entry != entry.name:
            continue

        cutoff = cutoffs.get((body.market, body.day))
        if cutoff is not None and cutoff > last_at:
            continue

        before = []
        for one in public:
            if cutoff is not None and one.seq >= link.seq and proved_at(folder, one) < cutoff:
                before.append(one)

        found: set[Level] = {"claimed"}
        if any(one.stamp is not None for one in before):
            found.add(by_stamp)
        if any(one.pushed for one in before):
            found.add("pushed")
        levels.add(max(found, key=LEVELS.index))

    return weakest(levels)


def weakest(levels: Iterable[Level]) -> Level:
    """Return the weakest of several levels; `claimed` if there are no levels."""
    return min(levels, key=LEVELS.index, default="claimed")


def standing(chain: RecordChain) -> Iterator[tuple[Entry, Decided]]:
    """Yield the decisions that no gap made void, with their chain entries."""
    void = {gap.key for _, gap in chain.find_links(Gap)}
    for link, body in chain.find_links(Decided):
        if body.key not in void:
            yield link, body


def _history_findings(folder: LiveFolder, public: Sequence[Publication]) -> Iterator[Finding]:
    """Compare the publications with the git history: each commit must contain the chain as it was
    then, and extend the chain in the previous commit.
    """
    if not public:
        with suppress(KtdevalError):  # history starts with the first publication
            yield from _lost_publications(folder, commit_order(folder.path))
        return

    order = commit_order(folder.path)
    yield from _lost_publications(folder, order)
    own = read_plain(folder.path / CHAIN, MAX_BYTES)
    ends = _line_ends(own)
    place = -1
    chains = read_committed(folder.path, [one.commit for one in public], CHAIN)
    for one, lines in zip(public, chains, strict=True):
        where = f"commit {one.commit[:12]}"
        if lines is None or one.commit not in order:
            yield make_finding(RULE, "", f"{where} is not in the history of this test")
        elif one.seq >= len(ends) or lines != own[: ends[one.seq]]:
            yield make_finding(RULE, "", f"{where} holds another chain than this one")
        elif order[one.commit] < place:
            yield make_finding(RULE, "", f"{where} does not continue the one before it")
        else:
            place = order[one.commit]


def _lost_publications(folder: LiveFolder, commits: Iterable[str]) -> Iterator[Finding]:
    """Compare the file of publications with its version in each commit: lines may only be
    appended.
    """
    path = folder.path / PUBLISHED
    own = read_plain(path, MAX_BYTES) if path.is_file() else b""
    commits = tuple(commits)
    for commit, lines in zip(commits, read_committed(folder.path, commits, PUBLISHED), strict=True):
        if lines is not None and not own.startswith(lines):
            where = f"commit {commit[:12]}"
            yield make_finding(RULE, "", f"{where} has lines of {PUBLISHED} that are not here now")
            return


def _line_ends(data: bytes) -> list[int]:
    """Return the offsets at which lines end."""
    ends = []
    end = data.find(b"\n")
    while end >= 0:
        ends.append(end + 1)
        end = data.find(b"\n", end + 1)
    return ends


def _publication_problem(folder: LiveFolder, chain: RecordChain, one: Publication) -> str | None:
    """Return why a publication does not prove what it claims."""
    if one.seq >= len(chain.entries) or chain.entries[one.seq].hash != one.head:
        return f"entry {one.seq} is not the one that was published: the chain was made anew"
    if one.at < of_text(chain.entries[one.seq].at):
        return f"entry {one.seq} was published before it was written"
    if one.pushed and folder.plan.publish.remote is None:
        return f"entry {one.seq} was pushed, and the plan names no remote"
    return None


def stamp_problem(folder: LiveFolder, one: Publication) -> str | None:
    """Return why a publication's stamp is invalid."""
    rule = folder.plan.publish.stamp
    if one.stamp is None:
        if one.stamped_at is not None or one.stamp_sha256 is not None:
            return f"entry {one.seq} has the time or the hash of a stamp, and no stamp"
        if rule is not None and rule.required:
            return f"entry {one.seq} was published without a stamp"
        return None
    if rule is None:
        return f"entry {one.seq} has a stamp, and the plan names no authority"

    try:
        time = stamp_time(folder.path, one.stamp, one.head, rule)
        if stamp_sha256(folder.path, one.stamp) != one.stamp_sha256:
            return f"{one.stamp}: is not the file that was recorded, byte by byte"
    except KtdevalError as error:
        return str(error)

    if time != one.stamped_at:
        return f"{one.stamp}: its time is {in_text(time)}, and another one was recorded"
    return None


def proved_at(folder: LiveFolder, one: Publication) -> datetime:
    """Return the time at which a publication is proved to have existed: the time of its stamp or,
    without a stamp, the clock's time. In a rehearsal, it is always the rehearsal clock's time.
    """
    if one.stamp is None or one.stamped_at is None or folder.plan.kind == "rehearsal":
        return one.at
    return one.stamped_at
