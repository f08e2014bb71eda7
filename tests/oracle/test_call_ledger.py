"""Calls of a run against a ledger: whatever is asked, answered, cut, retried and refused, in
whichever sessions, killed or closed between; and which of these the plays have met.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ktdeval.calls.budget import max_request_tokens
from ktdeval.calls.client import EpisodeModel
from ktdeval.calls.records.call_log import CallLog, read_calls
from ktdeval.calls.records.record import CACHED, REFUSED
from ktdeval.errors import ModelError, ProviderError, RunStop
from ktdeval.harness.chat_messages import Reply, Usage
from support.providers.call_clients import (
    COST,
    PRICE,
    Answer,
    RunClients,
    ScriptedModel,
    ask,
    reply_to,
)
from support.searching import is_searching

EPISODES = ("one", "two")
TEXTS = ("a", "b")
REACH: Counter[tuple[str, str]] = Counter()

SERVER = ModelError("server", "HTTP 500")
SLOW = ModelError("timeout", "no reply")
#: what the provider does to a call, attempt by attempt
FATES: dict[str, tuple[str, ...]] = {
    "answered": ("answer",),
    "uncounted": ("uncounted",),
    "cut": ("cut",),
    "retried": ("server", "answer"),
    "retried for money": ("timeout", "answer"),
    "failed": ("bad_request",),
    "outage": ("server", "server"),
    "refused": (REFUSED,),
}
STOPS = {"outage", "refused"}  # the run
#: what stops a run or is cached leaves little to ask
DRAWN = (*FATES, "cut", "cut", "failed", "retried")
CALLS = st.tuples(st.sampled_from(EPISODES), st.sampled_from(TEXTS), st.sampled_from(DRAWN))


def held() -> float:
    """US dollars that a call may cost at most."""
    reads, writes = max_request_tokens(ask("a"))
    return (reads * PRICE.input + writes * PRICE.output) / 1e6


@dataclass(frozen=True)
class Line:
    episode: str
    text: str
    opening: int
    outcome: str
    attempt: int
    cost: float | None = None
    held: float = 0.0


class Calls(RuleBasedStateMachine):
    """A run, and its ledger."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="calls-"))
        self.numbers = itertools.count()
        self.attempts: list[str] = []  # of the next call
        self.clients = RunClients(self.folder / "run")
        self.clients.folder.mkdir()
        self.lines: list[Line] = []
        self.safe = 0  # lines that are on disk
        self.ended = "nothing"  # how the session before this one has ended
        self.start()

    def teardown(self) -> None:
        if hasattr(self, "clients"):
            self.compare(self.clients.records())
            shutil.rmtree(self.folder)

    # -- sessions

    def start(self) -> None:
        model = ScriptedModel(self.answer)
        # three failures in a row would stop the run
        self.client = self.clients.client(model, max_retries=1, max_failures=10**6)
        self.opened: dict[str, EpisodeModel] = {}
        self.is_stopped = False
        self.before = len(self.lines)
        self.kept = {(line.episode, line.text) for line in self.lines if line.outcome == "cut"}
        self.openings = Counter(dict.fromkeys(EPISODES, 0))
        for line in self.lines:
            self.openings[line.episode] = max(self.openings[line.episode], line.opening)

    @property
    def has_worked(self) -> bool:
        """Whether this session has asked anything."""
        return self.is_stopped or len(self.lines) > self.before

    def answer(self, text: str, _: int) -> Answer:
        kind = self.attempts.pop(0)
        if kind == "answer":
            return reply_to(text)
        if kind == "uncounted":
            return reply_to(text, usage=Usage())
        if kind == "cut":
            return reply_to(text, finish_reason="length")
        if kind == REFUSED:
            return ProviderError("HTTP 401: no such key")
        return {"server": SERVER, "timeout": SLOW}.get(kind) or ModelError(kind, "HTTP 400")

    @precondition(lambda self: self.has_worked)
    @rule()
    def close_and_resume(self) -> None:
        self.compare(self.clients.records())
        self.ended = "closed"
        REACH["session", self.ended] += 1
        self.start()

    @precondition(lambda self: self.has_worked)
    @rule()
    def kill_and_resume(self) -> None:
        """Go on with the files as they are at this moment, which the session no longer changes."""
        left = self.clients.folder.with_name(f"run-{next(self.numbers)}")
        shutil.copytree(self.clients.folder, left)
        self.clients.close()
        self.clients.folder = left
        records = list(read_calls(left))
        assert self.safe <= len(records) <= len(self.lines)
        if len(records) < len(self.lines):
            REACH["session", "killed before a line that costs nothing was written"] += 1
        del self.lines[len(records) :]
        self.compare(records)
        self.ended = "killed"
        REACH["session", self.ended] += 1
        self.start()

    # -- calls

    @precondition(lambda self: not self.is_stopped)
    @rule(calls=st.lists(CALLS, min_size=1, max_size=6))
    def work(self, calls: list[tuple[str, str, str]]) -> None:
        for episode, text, fate in calls:
            if self.is_stopped:
                self.ask_a_stopped_run(episode, text)
            else:
                self.ask(episode, text, fate)

    @precondition(lambda self: not self.is_stopped)
    @rule(episode=st.sampled_from(EPISODES))
    def open_again(self, episode: str) -> None:
        self.opened[episode] = self.client.for_episode(episode)
        self.openings[episode] += 1

    def ask_a_stopped_run(self, episode: str, text: str) -> None:
        with pytest.raises(RunStop):
            self.client.for_episode(episode).reply(ask(text))
        self.openings[episode] += 1
        REACH["ask", "a stopped run"] += 1

    def ask(self, episode: str, text: str, fate: str) -> None:
        if episode not in self.opened:
            self.open_again(episode)

        asker = self.opened[episode]
        known = self.why_known(episode, text)
        if known:
            self.write(episode, text, CACHED, 1, 0.0)
            REACH["cached", known] += 1
            reply = asker.reply(ask(text))
            assert reply.content == f"answer to {text}"
            assert self.attempts == []
            return

        REACH["ask", fate] += 1
        if any(line.outcome == "cut" and line.text == text for line in self.lines):
            REACH["ask", "again, after a cut reply"] += 1
        self.attempts = list(FATES[fate])
        for number, kind in enumerate(FATES[fate], start=1):
            self.write_attempt(episode, text, kind, number)
        self.receive(asker, text, fate)
        assert self.attempts == [], "fewer attempts than the ledger has"

    def receive(self, asker: EpisodeModel, text: str, fate: str) -> None:
        """Ask, and look at what comes back."""
        if fate in STOPS:
            with pytest.raises(ProviderError):
                asker.reply(ask(text))
            self.is_stopped = True
        elif fate == "failed":
            with pytest.raises(ModelError, match="HTTP 400"):
                asker.reply(ask(text))
        else:
            reply: Reply = asker.reply(ask(text))
            assert reply.content == f"answer to {text}"

    # -- the ledger

    def why_known(self, episode: str, text: str) -> str:
        """Why nothing is paid for a call: what an earlier one left; empty if it is paid."""
        if (episode, text) in self.kept:
            return f"a cut reply, {self.ended}"

        whole = {"answer", "uncounted"}
        answered = [line for line in self.lines if line.text == text and line.outcome in whole]
        if not answered:
            return ""
        if all(line.episode != episode for line in answered):
            return "another episode's"
        return f"its own, {self.ended}"

    def write_attempt(self, episode: str, text: str, kind: str, number: int) -> None:
        cost = COST if kind in ("answer", "cut") else None
        may_cost = kind in ("timeout", "uncounted")
        self.write(episode, text, kind, number, cost, held() if may_cost else 0.0)
        if cost is not None or may_cost:
            self.safe = len(self.lines)

    def write(
        self,
        episode: str,
        text: str,
        outcome: str,
        attempt: int,
        cost: float | None,
        held_usd: float = 0.0,
    ) -> None:
        opening = self.openings[episode]
        self.lines.append(Line(episode, text, opening, outcome, attempt, cost, held_usd))

    def compare(self, records: list) -> None:
        """Compare the ledger with a log that is on disk, and its sums with those of the log."""
        written = []
        for line in self.lines:
            is_answer = line.outcome in ("answer", "cut", "uncounted")
            outcome = "answered" if is_answer else line.outcome
            written.append((line.episode, line.opening, outcome, line.attempt))
        assert written == [
            (each.episode, each.opening, each.outcome, each.attempt) for each in records
        ]
        assert [line.cost for line in self.lines] == [
            None if each.cost_usd is None else pytest.approx(each.cost_usd) for each in records
        ]
        assert [line.held for line in self.lines] == pytest.approx(
            [each.held_usd for each in records]
        )

        keys = {(line.text, each.key) for line, each in zip(self.lines, records, strict=True)}
        assert len(keys) == len({text for text, _ in keys}) == len({key for _, key in keys})
        with CallLog(self.clients.folder) as log:
            spent = log.resume(PRICE).spent
            costs = log.list_costs()
        assert spent.cost_usd == pytest.approx(sum(line.cost or 0.0 for line in self.lines))
        assert spent.possibly_usd == pytest.approx(sum(line.held for line in self.lines))
        assert costs == self.costs()

    def costs(self) -> dict[str, float | None]:
        """What each episode's answers have cost; None if that of one is unknown."""
        found: dict[str, float | None] = {}
        for episode in EPISODES:
            answers = [
                line.cost
                for line in self.lines
                if line.episode == episode and line.outcome in ("answer", "cut", "uncounted")
            ]
            if None in answers:
                found[episode] = None
            elif answers:
                found[episode] = pytest.approx(sum(cost for cost in answers if cost is not None))
        return found


EXPECTED = {("ask", fate) for fate in FATES} | {
    ("ask", "a stopped run"),
    ("ask", "again, after a cut reply"),
    ("session", "closed"),
    ("session", "killed"),
    ("session", "killed before a line that costs nothing was written"),
    ("cached", "another episode's"),
    ("cached", "its own, nothing"),
    ("cached", "its own, closed"),
    ("cached", "its own, killed"),
    ("cached", "a cut reply, closed"),
    ("cached", "a cut reply, killed"),
}


def test_a_run_pays_for_each_reply_once_and_records_what_its_ledger_has() -> None:
    REACH.clear()
    examples = 300 if is_searching() else 100
    run_state_machine_as_test(
        Calls, settings=settings(max_examples=examples, stateful_step_count=12)
    )
    assert REACH.keys() >= EXPECTED, f"never met: {sorted(EXPECTED - REACH.keys())}"
