"""One step of a forward test: freeze what became known, ask, commit, publish, and record gaps.

A step can be run at any time and any number of times: it does what is due and not done yet. The
chain records what has been done. Each part is durable before the next one begins, so the process
may die at any point.

    data of closed days -> increments -> chain
    days past their cutoff without a decision -> gaps -> chain -> published before any entry is asked
    each entry that is due -> separate process -> record -> chain -> published before the cutoff
    days whose cutoff has passed in the meantime -> gaps -> chain
    records whose orders have filled -> published
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Protocol

from ktdeval.cards import count
from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins
from ktdeval.trading import DECIDED
from ktdeval_live.days.clock import TimeSource, in_text
from ktdeval_live.days.day_sources import DaySource, make_source
from ktdeval_live.days.market_increments import Increment, check_increment, revision
from ktdeval_live.days.market_sessions import Session
from ktdeval_live.publication.publication_evidence import was_all_public, was_frozen, was_public
from ktdeval_live.publication.publish_chain import publications, publish, publish_evidence, reveal
from ktdeval_live.record.chain import Decided, DecisionKey, Frozen, Gap, GapCause, make_gap
from ktdeval_live.record.entrant_episode import DayAnswer, EntrantMarket, answers, find_entries
from ktdeval_live.record.folder import LiveFolder

AT_ONCE = 16
"""Default maximum number of entrants asked in parallel. Each has a separate process of about 150
MB.
"""
_REVISED_DAYS = 5
"""Number of past sessions that are requested again from a source, to detect revisions."""
_MAX_DETAIL = 300
_GATHER_S = 5.0
"""Answers that arrive within this many seconds of each other are published together."""


@dataclass(frozen=True)
class DueDecision:
    """A decision that is due."""

    entry: EntrantMarket
    session: Session
    cutoff: datetime

    @property
    def key(self) -> DecisionKey:
        """Key of the decision."""
        return self.entry.key(self.session.day)

    @property
    def name(self) -> str:
        """Name of the decision in messages: entry and day."""
        return f"{self.entry.name} {self.session.day}"


@dataclass(frozen=True)
class StepReport:
    """Report of a step, one line per event."""

    frozen: list[str] = field(default_factory=list)
    decided: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


Problem = tuple[GapCause, str]
"""Why there is no decision: the cause, and a one-line explanation."""


class EntryAsker(Protocol):
    """Asks entries, with each call on its own thread."""

    def __call__(self, due: DueDecision, limit_s: float) -> Problem | None:
        """Ask an entry, allowing `limit_s` seconds, so that its record is written. Return why the
        record was not written, or None.
        """

    def end(self) -> None:
        """End all running calls."""


class LiveStep:
    """A single step, run while holding the test's lock."""

    def __init__(
        self,
        folder: LiveFolder,
        plugins: Plugins,
        clock: TimeSource,
        asker: EntryAsker,
        at_once: int = AT_ONCE,
    ) -> None:
        """Prepare a step. `at_once`: maximum number of entrants asked in parallel; those with the
        earliest cutoff come first.
        """
        self.report = StepReport()
        self._at_once = at_once
        self._folder = folder
        self._plan = folder.plan
        self._plugins = plugins
        self._clock = clock
        self._asker = asker
        self._chain = folder.chain()
        self._entries = list(find_entries(self._plan))

    def run(self) -> StepReport:
        """Do what is due.

        Raises StoreError if the folder can't be written, or if the clock is behind the record.
        """
        now = self._clock.now()
        self._chain.check_clock(in_text(now))
        for market in self._plan.markets:
            self._freeze(market)

        # The accounts shown to entrants depend on earlier gaps.
        self._record_gaps(self._folder.looked_at())
        if self._publish():
            self._ask_all(list(self._due()))
        else:
            self._note_unpublished()

        self._record_gaps(now)
        self._folder.note_look(now)
        reveal(self._folder, self._chain, self._clock.now())
        self._publish()
        self._keep_evidence()
        return self.report

    # --- data

    def _freeze(self, market: str) -> None:
        """Freeze the completed days of a market, and revisions of its latest days."""
        planned = self._plan.markets[market]
        source = make_source(planned, self._plan.kind, self._plugins, self._folder.path)
        now = self._clock.now()
        complete_before = now - timedelta(minutes=planned.delay_minutes)
        sessions = self._folder.schedule(market).sessions
        days = [one.day for one in sessions if one.complete_at <= complete_before]
        frozen = self._chain.list_frozen_days(market)
        for index, day in enumerate(days):
            is_recent = index >= len(days) - _REVISED_DAYS
            if day in frozen and not is_recent:
                continue
            increment = self._look(market, day, source, now)
            if increment is not None:
                self._freeze_day(increment, now)

    def _look(self, market: str, day: str, source: DaySource, now: datetime) -> Increment | None:
        """Return the rows that a source has for a day; None if the source has no usable rows.

        A failure is reported and does not affect other days or markets.
        """
        try:
            increment = source.day(market, day, now)
            if increment is not None:
                check_increment(increment, self._folder.base(market))
        except KtdevalError as error:
            self._report_problem(str(error))
            return None
        return increment

    def _freeze_day(self, increment: Increment, now: datetime) -> None:
        market = increment.market
        day = increment.day
        earlier = [body for _, body in self._chain.find_data(market) if body.day == day]
        if earlier:
            known = [self._folder.increment(body) for body in earlier]
            changed = revision(known, increment)
            if changed is None:
                return
            increment = changed

        number = len(earlier)
        self._folder.store_increment(increment, number)
        body = Frozen(market=market, day=day, increment=increment.hash, number=number)
        self._chain.append(body, in_text(now))

        words = f"{market} {day}: {count(len(increment.bars), 'bar')}"
        if number:
            words += f" revised (revision {number})"
        self.report.frozen.append(words)

    # --- decisions

    def _due(self) -> Iterator[DueDecision]:
        """Yield the due decisions: those on days whose data are frozen and whose cutoff is in the
        future.
        """
        now = self._clock.now()
        for entry in self._entries:
            frozen = self._chain.list_frozen_days(entry.market)
            done = answers(self._chain, entry)
            for session in self._sessions_of(entry):
                if session.day not in frozen or session.day in done or session.cutoff is None:
                    continue
                if now < session.cutoff:
                    yield DueDecision(entry, session, session.cutoff)

    def _sessions_of(self, entry: EntrantMarket) -> Sequence[Session]:
        """Return the sessions on which an entry decides. Entrants that joined later have fewer."""
        sessions = self._folder.schedule(entry.market).sessions
        first = entry.entrant.first or self._plan.first
        deciding = []
        for session, fill in pairwise(sessions):
            if fill.day >= first:
                deciding.append(session)
        return deciding

    def _ask_all(self, due: Sequence[DueDecision]) -> None:
        """Ask all due entries in parallel; commit and publish their answers as they arrive.

        An entry that hangs therefore does not delay publication for the others.
        """
        if not due:
            return

        in_turn = sorted(due, key=lambda one: one.cutoff)
        with ThreadPoolExecutor(max_workers=min(len(due), self._at_once)) as pool:
            asked = {pool.submit(self._ask, one): one for one in in_turn}
            try:
                while asked:
                    for future in self._wait_for_answers(asked):
                        self._take(asked.pop(future), future.result())
                    self._publish()
            except (KeyboardInterrupt, SystemExit):
                self._asker.end()
                raise

    def _wait_for_answers(
        self, asked: Mapping[Future[Problem | None], DueDecision]
    ) -> list[Future[Problem | None]]:
        """Wait for an answer, and then briefly for more; return the asked futures that are done, in
        plan order.
        """
        wait(asked, return_when=FIRST_COMPLETED)
        cutoff = min(one.cutoff for one in asked.values())
        left_s = (cutoff - self._clock.now()).total_seconds()
        wait(asked, timeout=min(_GATHER_S, max(0.0, left_s / 10)))
        return [future for future in asked if future.done()]

    def _take(self, one: DueDecision, problem: Problem | None) -> None:
        """Commit to an entry's decision, or record why it failed."""
        path = self._folder.record_path(one.key, private=True)
        if problem is None or path.is_file():  # the process may have hung after writing its record
            problem = self._commit(one)
        if problem is not None:
            cause, detail = problem
            self._folder.note_problem(make_gap(one.key, cause, detail[:_MAX_DETAIL]))
            self._report_problem(f"{one.name}: {cause}: {detail}")

    def _ask(self, one: DueDecision) -> Problem | None:
        """Ask an entry before its deadline and its cutoff; return why there is no record,
        or None.
        """
        left_s = (one.cutoff - self._clock.now()).total_seconds()
        if left_s <= 0:
            return "deadline", "its turn came after its cutoff; ask more entrants in parallel"

        limit_s = max(1.0, min(left_s, 60 * self._plan.deadline_minutes))
        return self._asker(one, limit_s)

    def _commit(self, one: DueDecision) -> Problem | None:
        """Commit to a recorded decision; return why this is not possible, or None."""
        record = self._folder.record(one.key)
        if record is None:
            return "failed", f"{one.name}: no record was written"

        now = self._clock.now()
        if now >= one.cutoff:
            self._folder.set_aside(one.key)
            return "late", f"answered at {in_text(now)}, cutoff {in_text(one.cutoff)}"

        if record.provenance not in DECIDED:
            failures = ", ".join(sorted(record.counts.failures)) or "no valid submission"
            self._folder.set_aside(one.key)
            return "failed", f"{record.provenance}: {failures}"

        self._chain.append(record.commitment(), in_text(now))
        self.report.decided.append(f"{one.name}: {record.words}")
        return None

    def _note_unpublished(self) -> None:
        """Record that entries are not asked because the data could not be published in time.

        If an entry was asked earlier, the cause that was recorded then is kept.
        """
        detail = "the data could not be published, so no entrant was asked"
        for one in self._due():
            if not self._folder.noted_problem(one.key):
                self._folder.note_problem(make_gap(one.key, "unpublished", detail))

    def _report_problem(self, line: str) -> None:
        if line not in self.report.problems:
            self.report.problems.append(line)

    # --- gaps

    def _record_gaps(self, looked_before: datetime | None) -> None:
        """Record a gap for each day whose cutoff has passed without a public decision.

        `looked_before`: time at which a step last looked for data before these cutoffs.
        """
        now = self._clock.now()
        public = publications(self._folder)
        seqs = {body: link.seq for link, body in self._chain.find_links(Decided)}
        for entry in self._entries:
            done = answers(self._chain, entry)
            for session in self._sessions_of(entry):
                cutoff = session.cutoff
                if cutoff is None or cutoff > now:
                    continue

                answer = done.get(session.day, DayAnswer())
                gap = None
                if answer.gap is not None:
                    continue
                if answer.decided is None:
                    gap = self._missing(DueDecision(entry, session, cutoff), looked_before)
                elif not was_public(self._folder, public, seqs[answer.decided], cutoff):
                    key = entry.key(session.day)
                    gap = make_gap(key, "unpublished", "not public before its cutoff")

                if gap is not None:
                    self._chain.append(gap, in_text(now))
                    self.report.gaps.append(f"{entry.name} {session.day}: {gap.cause}")

    def _missing(self, one: DueDecision, looked_before: datetime | None) -> Gap:
        """Return the gap for a day without a decision."""
        noted = self._folder.noted_problem(one.key)
        if noted is not None and noted.cause != "unpublished":
            return noted
        # A later step may have published in time, but died before an answer came.
        public = publications(self._folder)
        if noted is not None and not was_all_public(self._folder, self._chain, public, one.cutoff):
            return noted

        # The first step after a cutoff records the gap, so the previous step ran before the cutoff.
        # cutoff.
        market = one.entry.market
        delay = timedelta(minutes=self._plan.markets[market].delay_minutes)
        came = was_frozen(self._chain, market, one.session.day, one.cutoff)
        looked = looked_before is not None and looked_before >= one.session.complete_at + delay
        if looked and not came:
            return make_gap(one.key, "no_data", "the data had not come, or could not be used")
        return make_gap(one.key, "missed", "no step ran between the data and the cutoff")

    # --- publication

    def _publish(self) -> bool:
        """Publish the chain. Return False on failure, after which the next step tries again."""
        try:
            publish(self._folder, self._chain, self._clock)
        except KtdevalError as error:
            self._report_problem(str(error))
            return False
        return True

    def _keep_evidence(self) -> None:
        """Commit and push the evidence for this step's publications.

        It is needed by readers who only have a copy of the record, such as a scheduler that starts
        from a fresh copy.
        """
        try:
            publish_evidence(self._folder, self._chain)
        except KtdevalError as error:
            self._report_problem(str(error))
