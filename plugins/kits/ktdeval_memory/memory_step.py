"""One step of an agent with a layered memory: the warm-up before the first step, what the model is
shown and asked, what is remembered, and the outcomes of earlier decisions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ktdeval.errors import ModelError
from ktdeval.harness import (
    Decision,
    Lesson,
    Message,
    ModelRequest,
    Observation,
    StepSession,
    ask_in_words,
    decide_in_phases,
    join_parts,
    two_phases,
)
from ktdeval.masking import shorten
from ktdeval.observation import ObservedDocument, ObservedState
from ktdeval.trading import DECIDED
from ktdeval.values import sha256_hex, to_plain
from ktdeval_memory.agent_state import AgentRecord, Pending
from ktdeval_memory.day_view import MemoryDay, growth, with_memories
from ktdeval_memory.memory_layers import LayeredMemory
from ktdeval_memory.params import MemoryParams
from ktdeval_memory.prompts import (
    ShownMemories,
    called_for,
    decided_in_words,
    history_of,
    momentum_lines,
    moved_since,
    ordered_assets,
    outcome_line,
    profile_lines,
    queries_of,
    role_text,
    section,
    with_fills,
    wordings,
)
from ktdeval_memory.session_wrapper import MemorySession

# roles under which calls are recorded, in addition to the agent's own name
WARM_UP = "warm_up"
REFLECTION = "reflection"
SUMMARY = "summary"
_REASON_CHARACTERS = 300
# no bracket inside, so that many opening brackets are still matched in linear time
_NAMED = re.compile(r"\[memory:([^][]*)\]", re.IGNORECASE)
_ID = re.compile(r"M[1-9][0-9]*")


@dataclass(frozen=True)
class MemoryStep:
    """One step of the agent."""

    name: str
    params: MemoryParams
    record: AgentRecord
    memory: LayeredMemory
    session: StepSession

    # --- the step

    def decide(self, observation: Observation, is_first: bool) -> Decision:
        """Decide one step. Before the first step, learn from the lessons of a warm-up."""
        number = observation.step
        record = self.record
        today = MemoryDay.of(observation.state, f"step {number}")
        role = role_text(self.params, self.memory.rules, today.state)
        system = join_parts(observation.rules, role)
        if is_first:
            self._warm_up(system, today)
            record.histories = {}
            record.observed = number - 1
        else:  # steps whose model call failed
            self.memory.end_step(max(0, number - record.step - 1))

        self._observe(today, number)
        self._keep(number)

        shown = self._recall(today)
        state = self._shown_state(today)
        messages = [
            Message("system", system),
            Message("user", self._day_text(today, observation.day, state, shown)),
        ]
        self._look_back(messages, state, today, number, shown)
        self._keep(number)

        asking = MemorySession(self.session, self.name, state)
        submission = observation.submission_with(two_phases(observation, self.session))
        request = join_parts(submission, observation.request, self._request(today))
        messages = _with_words(messages, request)
        decision = decide_in_phases(messages, asking, None)
        self._settle(number, today)

        if decision.provenance in DECIDED:
            decided = decided_in_words(decision, asking.submitted, today.state)
            self._remember(number, today, decided, decision.overall_reason, shown)
            self._await_orders(decision, asking.submitted, today)

        self.memory.end_step()
        return decision

    def _keep(self, number: int) -> None:
        """Keep what is known so far, in case a later call in the step fails. Memories are aged
        later.
        """
        self.record.memory = self.memory.to_json()
        self.record.step = number - 1
        self.session.keep(to_plain(self.record))

    def _request(self, today: MemoryDay) -> str:
        words = wordings()
        choice = words["choice"] if today.state.limits.asks_decisions else ""
        weighed = ""
        if "news" in today.state.sections:
            weighed += words["weighed"]["news"]
        if self._shows_momentum(today):
            weighed += words["weighed"]["momentum"]
        return str(words["decide"].format(choice=choice, shown=weighed))

    def _shows_momentum(self, today: MemoryDay) -> bool:
        return bool(momentum_lines(self.params, today, self.record))

    # --- the warm-up

    def _warm_up(self, system: str, first: MemoryDay) -> None:
        """Learn from the task's lessons. Remember their documents and the model's explanation of
        the price move, and credit the memories that it names as if an account had followed the
        labels. If a lesson gets no answer, its documents are remembered, but no reason.
        """
        lessons = self.session.lessons
        before = None
        value = 1.0

        for number, lesson in enumerate(lessons, start=-len(lessons)):
            today = MemoryDay.of(lesson.state, lesson.day)
            value *= growth(before, today)
            before = today
            self.record.observed = number - 1
            self._observe(today, number)
            shown = self._recall(today)
            reason = self._explain(system, lesson, today, shown)

            self._settle(number, today, value)
            if reason.strip():
                called_for = [f"{each.action} {each.label}" for each in today.outcomes.values()]
                self._remember(number, today, ", ".join(called_for), reason, shown, value)

            self.memory.end_step()
            self.record.memory = self.memory.to_json()
            # in case an embedding call in a later lesson fails
            self.session.keep(to_plain(msgspec.structs.replace(self.record, pending=[])))

        # From here on, outcomes are measured with the account in the task.
        scale = (first.nav or 0.0) / (value * growth(before, first))
        for decision in self.record.pending:
            decision.nav *= scale

    def _explain(self, system: str, lesson: Lesson, today: MemoryDay, shown: ShownMemories) -> str:
        """Return the model's explanation of a lesson. If the call fails, return an empty string;
        the call is counted under its failure kind.
        """
        state = self._shown_state(today)
        text = self._day_text(today, lesson.text, state, shown)
        words = wordings()
        momentum = words["explained_by_momentum"] if self._shows_momentum(today) else ""
        question = join_parts(text, words["explain"].format(momentum=momentum))
        messages = (Message("system", system), Message("user", question))
        return self._answer(messages, WARM_UP, state)

    def _answer(self, messages: Sequence[Message], role: str, state: ObservedState | None) -> str:
        """Return the model's reply. If the call fails, or the reply is empty or refused, return an
        empty string and count a turn without an answer. No tool may be called, and none is listed.
        """
        request = ModelRequest(tuple(messages), state=state)
        try:
            answer = ask_in_words([*messages], MemorySession(self.session, role), request)
        except ModelError:  # counted under its kind
            answer = ""

        self.session.end_turn(bool(answer.strip()))
        return answer

    # --- what is shown

    def _day_text(
        self, today: MemoryDay, text: str, state: ObservedState, shown: ShownMemories
    ) -> str:
        """Return the asset profiles, the day as the task shows it, momentum and memories."""
        words = wordings()
        if today.state.sections:
            text = text.replace(today.state.text, state.text)

        return join_parts(
            section(words["profile"], *profile_lines(today, self.record.histories)),
            text,
            section(words["momentum"], *momentum_lines(self.params, today, self.record)),
            shown.text(),
        )

    def _shown_state(self, today: MemoryDay) -> ObservedState:
        """Return the state of the day. Its documents have the ids of their memories, and their
        texts if `texts=full`.
        """
        ids = [self.record.shown[_document_digest(document)] for document in today.documents]
        return with_memories(today.state, ids, self.params.texts == "full")

    def _recall(self, today: MemoryDay) -> ShownMemories:
        queries = queries_of(today)
        in_news: frozenset[str] = frozenset()
        if self.params.texts == "full":
            in_news = frozenset(self.record.shown.values())
        return ShownMemories(queries, self.memory.recall(queries), in_news)

    # --- what is remembered

    def _observe(self, today: MemoryDay, number: int) -> None:
        """Remember the documents that were not shown in the last step, and the day's figures."""
        record = self.record
        ids: dict[str, str] = {}
        for document in today.documents:
            digest = _document_digest(document)
            if digest in record.shown:
                ids[digest] = record.shown[digest]
            elif digest not in ids:
                ids[digest] = self._store(document)

        record.shown = ids
        record.follow(today, number - record.observed - 1, self.params.momentum_days)
        record.observed = number
        for decision in record.pending:
            if 0 <= decision.step == number - 1:
                decision.book(today.state)

        for label in today.assets:
            asset = today.state.assets.get(label)
            if label not in record.histories and asset is not None:
                history = history_of(asset, today.name)
                record.histories[label] = self.session.withhold(history)

    def _store(self, document: ObservedDocument) -> str:
        """Remember a document; return its id."""
        words = wordings()
        layer = words["layer_of_kind"].get(document.kind, "short")
        template = words["document_with_sentiment" if document.sentiment else "document"]
        line = template.format(
            day=document.day,
            kind=document.kind,
            sentiment=document.sentiment.lower(),
            text=self._line(f"{document.title} {self._shorten_text(document)}"),
        )
        return self.memory.add(layer, _one_line(line), document.labels)

    def _shorten_text(self, document: ObservedDocument) -> str:
        """Return a document's text. If it is too long and summaries are requested, return the
        model's summary, or the full text if the model gives no answer.
        """
        most = self.params.characters
        if not self.params.summarise or len(document.text) <= most:
            return document.text

        kind = document.kind or "text"
        instructions = wordings()["summarise"].format(kind=kind, characters=most)
        messages = (Message("system", instructions), Message("user", document.text))
        summary = self._answer(messages, SUMMARY, None)
        return summary if summary.strip() else document.text

    def _remember(
        self,
        number: int,
        today: MemoryDay,
        decided: str,
        text: str,
        shown: ShownMemories,
        nav: float | None = None,
    ) -> None:
        """Remember the reason for a decision or lesson, and which of the memories shown it names."""
        words = wordings()
        reason = self._line(_NAMED.sub("", text))
        memory = None
        if reason:
            moved = "; ".join(map(called_for, today.outcomes.values()))
            template = words["lesson" if moved else "immediate"]
            line = template.format(day=today.name, moved=moved, decided=decided, reason=reason)
            memory = self.memory.add_reflection(line)

        nav = today.nav if nav is None else nav
        if nav is None:
            return

        brief = shorten(reason, _REASON_CHARACTERS)
        pending = Pending(
            step=number,
            day=today.name,
            nav=nav,
            ids=_named_memories(text, shown),
            decided=decided,
            reason=self.session.withhold(brief),
            memory=memory or "",
            moves=dict.fromkeys(today.assets, 0.0),
            reflected=number < 0,  # a lesson includes its outcome
        )
        self.record.pending.append(pending)

    def _await_orders(self, decision: Decision, submitted: str, today: MemoryDay) -> None:
        """Record which assets the latest decision concerns. The outcomes of their orders and their
        prices are shown later.
        """
        pending = self.record.pending
        if not pending or pending[-1].day != today.name:
            return

        latest = pending[-1]
        latest.ordered = ordered_assets(decision, submitted, today.state)
        for label in latest.ordered:
            latest.moves.setdefault(label, 0.0)

    def _line(self, text: str) -> str:
        return shorten(_one_line(text), self.params.characters)

    # --- outcomes

    def _due(self, number: int) -> list[Pending]:
        """Return the decisions whose outcome is known by now."""
        look_back = self.memory.rules.feedback.look_back
        return [each for each in self.record.pending if number - each.step >= look_back]

    def _look_back(
        self,
        messages: list[Message],
        state: ObservedState,
        today: MemoryDay,
        number: int,
        shown: ShownMemories,
    ) -> None:
        """Remember outcomes that are now known, with the model's conclusions. The question about
        them is added to the day's message. If the model gives no answer, the reason is remembered
        with the outcome.
        """
        due = [decision for decision in self._due(number) if not decision.reflected]
        if not due:
            return

        conclusion = ""
        if self.params.reflection:
            outcomes = "\n".join(outcome_line(decision, today, shown) for decision in due)
            question = wordings()["reflect"].format(outcomes=self.session.withhold(outcomes))
            asked = _with_words(messages, question)
            answer = self._answer(asked, REFLECTION, state)
            conclusion = self._line(answer)
            if conclusion:
                messages[:] = [*asked, Message("assistant", answer)]

        for decision in due:
            line = wordings()["extended"].format(
                day=today.name,
                then=decision.day,
                decided=with_fills(decision),
                moved=moved_since(decision, today),
                reason=conclusion or decision.reason,
            )
            self.memory.add_reflection(line)
            decision.reflected = True

    def _settle(self, number: int, today: MemoryDay, nav: float | None = None) -> None:
        """Credit the memories behind decisions whose outcome is now known."""
        nav = today.nav if nav is None else nav
        if nav is None:
            return

        for decision in self._due(number):
            self.record.pending.remove(decision)
            if decision.is_traded is False:
                continue  # rejected: the account's return is not the outcome of this decision

            gained = (nav > decision.nav) - (nav < decision.nav)
            self.memory.credit(decision.ids, gained)


def _one_line(text: str) -> str:
    """Return a text on one line and without code fences, so that a memory can't be mistaken for the
    state of the day.
    """
    return " ".join(text.replace("```", "'''").split())


def _document_digest(document: ObservedDocument) -> str:
    parts = (document.day, document.kind, document.title, document.text)
    return sha256_hex("\n".join(parts))[:16]


def _with_words(messages: Sequence[Message], text: str) -> list[Message]:
    """Return a conversation with additional user text. The text is added to the last message if
    that is a user message, otherwise as a new message.
    """
    *earlier, last = messages
    if last.role == "user":
        return [*earlier, Message("user", join_parts(last.content, text))]
    return [*messages, Message("user", text)]


def _named_memories(text: str, shown: ShownMemories) -> list[str]:
    """Return the ids, among the memories shown, that a text names, without duplicates."""
    named: dict[str, None] = {}
    for ids in _NAMED.findall(text):
        for id_ in _ID.findall(ids):
            if id_ in shown.ids:
                named[id_] = None

    return list(named)
