"""Check of decisions and gaps: entrant, order, time and data, and each record against the committed
hashes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from ktdeval.errors import KtdevalError
from ktdeval.trading import DECIDED
from ktdeval.values import Finding, encode_canonical, read_plain
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.checks.decision_replay import KnownMarkets, Retracer
from ktdeval_live.days.clock import in_text, of_text
from ktdeval_live.days.market_sessions import Session
from ktdeval_live.publication.git_history import commit_order, read_committed
from ktdeval_live.publication.publication_evidence import was_all_public, was_frozen, was_public
from ktdeval_live.publication.publish_chain import Publication, publications
from ktdeval_live.record.chain import Decided, Entry as Link, Frozen, Gap
from ktdeval_live.record.decision_records import DecisionRecord
from ktdeval_live.record.entrant_episode import DayAnswer, EntrantMarket, answers
from ktdeval_live.record.findings import make_finding


class DecisionCheck:
    """Check of all decisions and gaps. Counts the decisions that it replays."""

    def __init__(self, checked: CheckedFolder) -> None:
        self.decisions = 0  #: number of decisions replayed from their replies
        self.sealed = 0  #: number of decisions not yet published
        self._checked = checked
        self._markets = KnownMarkets(checked.folder, checked.chain)
        self._public: list[Publication] = []

    def findings(self) -> Iterator[Finding]:
        """Yield findings about decisions and gaps."""
        with suppress(KtdevalError):  # faults in the evidence are reported as separate findings
            self._public = publications(self._checked.folder)

        yield from self._order()
        for entry in self._checked.entries:
            yield from self._entry(entry)

    # --- order of the chain's entries

    def _order(self) -> Iterator[Finding]:
        """Find decisions and gaps that belong to no entry in the plan, are duplicated, or follow
        those for a later day.
        """
        known = {entry.name for entry in self._checked.entries}
        seen: set[tuple[str, str, str]] = set()
        latest: dict[str, str] = {}
        for link in self._checked.chain.entries:
            body = link.body
            if not isinstance(body, Decided | Gap):
                continue

            name = body.entry
            if name not in known:
                yield make_finding("entrant", body.day, f"{name} is not in the plan")
                continue

            kind = type(body).__name__.lower()
            if (name, body.day, kind) in seen:
                yield make_finding("twice", body.day, f"{name}: the day has two of {kind}")
            if kind == "decided" and (name, body.day, "gap") in seen:
                yield make_finding("order", body.day, f"{name}: decided after its gap")
            if body.day < latest.get(name, ""):
                yield make_finding("order", body.day, f"{name}: comes after {latest[name]}")

            seen.add((name, body.day, kind))
            latest[name] = max(body.day, latest.get(name, ""))
            if isinstance(body, Gap):
                yield from self._gap(link, body, (name, body.day, "decided") in seen)

    def _gap(self, link: Link, gap: Gap, is_decided: bool) -> Iterator[Finding]:
        """Yield a finding if the rest of the chain contradicts a gap."""
        name = gap.entry
        session = self._checked.sessions.get((gap.market, gap.day))
        if session is None or session.cutoff is None:
            return  # a missing session is reported as a separate finding
        if of_text(link.at) < session.cutoff:
            yield make_finding("gap", gap.day, f"{name}: recorded before its cutoff")
        if is_decided and gap.cause != "unpublished":
            yield make_finding("gap", gap.day, f"{name}: {gap.cause} contradicts the chain")

        # If no step ran, it is unknown whether the data had arrived.
        frozen = was_frozen(self._checked.chain, gap.market, gap.day, session.cutoff)
        if gap.cause != "missed" and frozen == (gap.cause == "no_data"):
            yield make_finding("gap", gap.day, f"{name}: {gap.cause} contradicts the data")
        if gap.cause == "unpublished":
            yield from self._check_published(gap, is_decided, session.cutoff)

    def _check_published(self, gap: Gap, is_decided: bool, cutoff: datetime) -> Iterator[Finding]:
        """Yield a finding if a gap wrongly claims that a decision or the data could not be
        published.
        """
        name = gap.entry
        checked = self._checked
        if is_decided and self._was_public(gap, cutoff):
            yield make_finding("gap", gap.day, f"{name}: the decision was public before its cutoff")
        if not is_decided and was_all_public(checked.folder, checked.chain, self._public, cutoff):
            yield make_finding("gap", gap.day, f"{name}: the data were public before its cutoff")

    def _was_public(self, gap: Gap, cutoff: datetime) -> bool:
        for link, body in self._checked.chain.find_links(Decided):
            if body.key == gap.key:
                return was_public(self._checked.folder, self._public, link.seq, cutoff)
        return False

    def _frozen_before(self, market: str, day: str, seq: int) -> bool:
        """Return whether a day's data were frozen before a given chain entry."""
        return self._checked.first_frozen.get((market, day), seq) < seq

    # --- a single entry

    def _entry(self, entry: EntrantMarket) -> Iterator[Finding]:
        """Check an entry's days."""
        schedule = self._checked.folder.schedule(entry.market)
        ended = answers(self._checked.chain, entry)
        links = self._decided_links(entry)
        first = entry.entrant.first or entry.plan.first
        retracer = Retracer(entry, self._checked, self._markets)

        for number, session in enumerate(schedule.deciding):
            answer = ended.get(session.day, DayAnswer())
            joined = schedule.days[number + 1] >= first
            is_past = session.cutoff is not None and session.cutoff <= self._checked.due_until
            if joined and is_past and answer == DayAnswer():
                yield make_finding(
                    "omitted", session.day, f"{entry.name}: neither a decision nor a gap"
                )
            if not joined and answer != DayAnswer():
                yield make_finding(
                    "backfill", session.day, f"{entry.name}: decided before it joined"
                )
            if session.day in links:
                yield from self._check_decided(entry, number, links[session.day], answer, retracer)

        deciding = {session.day for session in schedule.deciding}
        for day in ended:
            if day not in deciding:
                yield make_finding("session", day, f"{entry.name}: is not a session to decide on")

    def _decided_links(self, entry: EntrantMarket) -> Mapping[str, tuple[Link, Decided]]:
        links: dict[str, tuple[Link, Decided]] = {}
        for link, body in self._checked.chain.find_links(Decided):
            if body.entry == entry.name:
                links.setdefault(body.day, (link, body))
        return links

    def _check_decided(
        self,
        entry: EntrantMarket,
        number: int,
        decided: tuple[Link, Decided],
        answer: DayAnswer,
        retracer: Retracer,
    ) -> Iterator[Finding]:
        """Check a decision against its data and its record, and replay it."""
        link, body = decided
        day = body.day
        session = self._checked.sessions[entry.market, day]
        yield from _late_or_early(entry, session, link)

        data = self._data_link(entry.market, link.seq, body)
        if data is None or not self._frozen_before(entry.market, day, data.seq + 1):
            yield make_finding(
                "shown", day, f"{entry.name}: names data that were not frozen before it"
            )
            retracer.broken = True
            return

        record = yield from self._record(entry, session, link)
        if record is None:
            retracer.broken = True
            return

        changed = list(self._same_record(entry, record, body, number))
        yield from changed
        yield from self._times(entry, link, data, record)
        retracer.broken = retracer.broken or bool(changed)
        if retracer.broken:
            return  # later days depend on this decision

        problem = retracer.retrace(record, data.seq + 1, answer)
        self.decisions += 1
        if problem:
            yield make_finding("replies", day, f"{entry.name}: {problem}")

    def _record(
        self, entry: EntrantMarket, session: Session, link: Link
    ) -> Generator[Finding, None, DecisionRecord | None]:
        """Return the record of a decision; None if the record can't be read, or is sealed and not
        available here.
        """
        try:
            record = self._checked.folder.record(entry.key(session.day))
        except KtdevalError as error:
            yield make_finding("record", session.day, str(error))
            return None

        yield from self._check_unpublished(entry, session, link, record)
        return record

    def _check_unpublished(
        self, entry: EntrantMarket, session: Session, link: Link, record: DecisionRecord | None
    ) -> Iterator[Finding]:
        """Count a sealed decision, and yield a finding if it should have been published."""
        path = self._checked.folder.record_path(entry.key(session.day), private=False)
        if path.is_file():
            if record is not None and read_plain(path) != encode_canonical(record).encode():
                text = f"{entry.name}: the file is not as it was committed to, byte by byte"
                yield make_finding("record", session.day, text)
            return

        if record is None and self._was_published(path):
            text = f"{entry.name}: the record was published, and is missing"
            yield make_finding("record", session.day, text)
            return

        self.sealed += 1
        if session.cutoff is not None and self._is_left(entry.market, link, session.cutoff):
            if record is None:
                yield make_finding(
                    "record", session.day, f"{entry.name}: the record of the decision is missing"
                )
            else:
                yield make_finding(
                    "sealed", session.day, f"{entry.name}: should have been published by now"
                )

    def _was_published(self, path: Path) -> bool:
        """Return whether a file that is missing here is in the latest commit."""
        folder = self._checked.folder.path
        with suppress(KtdevalError):  # faults in the evidence are reported as separate findings
            latest = list(commit_order(folder))[-1:]
            name = path.relative_to(folder).as_posix()
            return any(found is not None for found in read_committed(folder, latest, name))
        return False

    def _is_left(self, market: str, link: Link, cutoff: datetime) -> bool:
        """Return whether more steps ran after the step that had to publish a decision.

        This is the case if data for two more days, or for the market's last day, were frozen after
        the decision's cutoff.
        """
        days = set()
        for later, body in self._checked.chain.find_data(market):
            if later.seq > link.seq and of_text(later.at) >= cutoff:
                days.add(body.day)
        return len(days) > 1 or self._checked.folder.schedule(market).days[-1] in days

    def _data_link(self, market: str, seq: int, body: Decided) -> Link | None:
        """Return the chain entry with the data that a decision refers to, if it precedes the
        decision.
        """
        link = self._checked.frozen.get(body.data)
        if link is None or link.seq >= seq or not isinstance(link.body, Frozen):
            return None
        return link if link.body.market == market else None

    def _times(
        self, entry: EntrantMarket, link: Link, data: Link, record: DecisionRecord
    ) -> Iterator[Finding]:
        """Compare the times in a record with the times in the chain and in the record's
        publications.
        """
        day = record.question.day
        asked = of_text(in_text(record.asked_at))
        answered = of_text(in_text(record.answered_at))
        if not of_text(data.at) <= asked <= answered <= of_text(link.at):
            yield make_finding("times", day, f"{entry.name}: asked or answered at another time")
        if not any(one.seq >= data.seq and one.at <= record.asked_at for one in self._public):
            yield make_finding("shown", day, f"{entry.name}: asked before its data were public")

    def _same_record(
        self, entry: EntrantMarket, record: DecisionRecord, body: Decided, number: int
    ) -> Iterator[Finding]:
        """Compare a record with the hashes that were published before the fills."""
        day = body.day
        asked = record.question
        if (asked.key, asked.step) != (entry.key(day), number):
            yield make_finding("record", day, f"{entry.name}: the record is of another decision")
            return

        found = record.commitment()
        for part in ("data", "orders", "prompts", "replies", "memory", "record"):
            if getattr(found, part) != getattr(body, part):
                yield make_finding(
                    "record", day, f"{entry.name}: {part} differ from what was committed to"
                )
                return

        if record.provenance not in DECIDED:
            yield make_finding(
                "record", day, f"{entry.name}: is not a decision ({record.provenance})"
            )


def _late_or_early(entry: EntrantMarket, session: Session, link: Link) -> Iterator[Finding]:
    """Yield a finding if a decision was committed outside the allowed period."""
    at = of_text(link.at)
    if at < session.complete_at:
        yield make_finding("early", session.day, f"{entry.name}: committed before the day was over")
    if session.cutoff is not None and at >= session.cutoff:
        yield make_finding("late", session.day, f"{entry.name}: committed after its cutoff")
