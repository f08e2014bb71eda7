"""Agent with FinMem's layered memory: documents and its own reasons, the best of each layer recalled, credited by outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.errors import ModelError, UsageError
from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    Observation,
    StepSession,
    as_object,
    decide_in_phases,
    rows_by_asset,
    shown_state,
    table_rows,
)
from ktdeval.jsonio import JsonValue, sha256_hex
from ktdeval.masking import shorten
from ktdeval.trading import DECIDED
from ktdeval.typed import from_plain, to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_investorbench.embedding import Embedder, HashingEmbedder, RemoteEmbedding, SentenceEmbedder, SessionEmbedder
from ktdeval_investorbench.memory import Layer, LayeredMemory, Memory, parameter_set
from ktdeval_investorbench.params import FinmemParams

MOMENTUM_DAYS = 3
_MOST_NAMED, _REASON_CHARACTERS = 10, 160
_NAMED = re.compile(r"\[memory:([^][]*)\]", re.IGNORECASE)  # no bracket within, so that many openings take linear time
_ID = re.compile(r"M[1-9][0-9]*")
_SIDES = {"BUY": 1, "SELL": -1}


class Pending(msgspec.Struct, forbid_unknown_fields=True):
    """A decision whose outcome is not known yet."""

    step: int
    day: str
    nav: float  #: of the account when it was made
    ids: list[str]  #: memories that it named
    reason: str


class AgentState(msgspec.Struct, forbid_unknown_fields=True):
    """State of the agent between steps."""

    memory: Any = None  #: as of `LayeredMemory.to_json`
    step: int = -1  #: last step that it was part of
    shown: list[str] = []  #: hashes of the documents shown at that step
    navs: list[float] = []  #: the latest, the oldest first
    returns: list[float] = []  #: log returns of the asset on the latest days, if there is one asset
    pending: list[Pending] = []
    vectors: dict[str, str] = {}  #: of remembered texts, by their hash, if a server gives them


@dataclass(frozen=True)
class Sight:
    """State of a day as a prompt shows it; in a task without news there are no documents."""

    day: str
    nav: float | None
    changes: Mapping[str, float | None]  #: of the prices since the last day, by asset, in per cent
    documents: tuple[Mapping[str, Any], ...]
    outcomes: Mapping[str, Mapping[str, Any]]  #: of a lesson: returns after the day, by asset

    @classmethod
    def of(cls, text: str, day: str) -> Sight:
        """Read the JSON block of a prompt; `day`: its name if the block has none."""
        state = shown_state(text)
        account = as_object(state.get("account"))
        return cls(
            day=str(state.get("day", day)),
            nav=_number(account.get("nav", account.get("nav_cny"))),
            changes={asset: _number(row.get("return_1d_pct")) for asset, row in rows_by_asset(state.get("candidates")).items()},
            documents=tuple(table_rows(state.get("news"))),
            outcomes=rows_by_asset(state.get("outcomes")),
        )

    @property
    def log_return(self) -> float | None:
        """Log return of the last day, if exactly one asset is shown."""
        return _log_return(next(iter(self.changes.values()))) if len(self.changes) == 1 else None

    def growth_along(self, before: Sight | None) -> float:
        """Return the growth factor, since lesson `before`, of an account in equal parts on the sides of its labels."""
        sides = {} if before is None else {asset: _SIDES.get(str(row.get("label")), 0) for asset, row in before.outcomes.items()}
        moves = {asset: _log_return(self.changes.get(asset)) or 0.0 for asset in sides}
        return math.exp(math.fsum(side * moves[asset] / len(sides) for asset, side in sides.items()))


class FinmemAgent:
    """Two strict phases, as in `react`, with memory before the state of the day. If no submission is valid it holds (`fallback`),
    remembers no reason, and forgets as on any other day. Source: Yu et al. 2024 (FinMem), Li et al. 2025.
    """

    def __init__(self, params: FinmemParams | None = None, embedder: Embedder | None = None) -> None:
        self._params = params or FinmemParams()
        self._rules = parameter_set(self._params.parameters)
        self._embed = embedder or make_embedder(self._params)
        self._words = _wordings()
        self._profile = "stream_profile" if self._rules.one_score else "profile"

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError: the model call failed; StoreError: `memory` is not this agent's."""
        state = AgentState() if memory is None else from_plain(memory, AgentState, "memory of the agent finmem")
        embed = SessionEmbedder(self._embed, session, state.vectors) if isinstance(self._embed, RemoteEmbedding) else self._embed
        remembered = LayeredMemory(self._rules, state.memory, self._params.seed, embed, session.withhold)
        if memory is not None:  # steps whose model call failed
            remembered.end_step(max(0, observation.step - state.step - 1))
        sight = Sight.of(observation.user, f"step {observation.step}")
        if memory is None:
            self._warm_up(state, session, sight, remembered)
        self._observe(state, sight, remembered, session)
        state.memory, state.step = remembered.to_json(), observation.step - 1  # so that a step with a failed call is aged later
        session.keep(to_plain(state))
        recalled = self._recall(sight, remembered)
        messages = [
            Message("system", f"{self._words[self._profile]}\n\n{observation.system}"),
            Message("user", f"{self._prompt(state, recalled)}\n\n{observation.user}"),
        ]
        decision = decide_in_phases(messages, session, None)
        self._settle(state, observation.step, sight, remembered)
        if decision.provenance in DECIDED:
            self._reflect(state, observation.step, sight, remembered, (decision.overall_reason, recalled))
        remembered.end_step()
        state.memory, state.step = remembered.to_json(), observation.step
        state.vectors = embed.used if isinstance(embed, SessionEmbedder) else {}
        return replace(decision, memory=to_plain(state))

    def _warm_up(self, state: AgentState, session: StepSession, first: Sight, remembered: LayeredMemory) -> None:
        """Learn from the task's lessons: remember their documents and the model's explanation of the price move, and credit named
        memories as if an account had followed the labels. A lesson without an answer leaves its documents, and no reason.
        """
        lessons, before, value = session.lessons, None, 1.0
        for step, lesson in enumerate(lessons, start=-len(lessons)):
            sight = Sight.of(lesson.text, lesson.day)
            value *= sight.growth_along(before)
            before = sight
            self._observe(state, sight, remembered, session)
            recalled = self._recall(sight, remembered)
            shown = Message("user", f"{self._prompt(state, recalled)}\n\n{lesson.text}\n{self._words['explain']}")
            try:
                reason = session.ask(ModelRequest((Message("system", self._words[self._profile]), shown))).content
            except ModelError:  # counted under its kind
                reason = ""
            booked = replace(sight, nav=value)
            self._settle(state, step, booked, remembered)
            if reason.strip():
                self._reflect(state, step, booked, remembered, (reason, recalled))
            remembered.end_step()
            state.memory = remembered.to_json()
            session.keep(to_plain(msgspec.structs.replace(state, pending=[])))  # in case a later lesson's embedding fails
        for open_ in state.pending:  # the account of the task takes over
            open_.nav *= (first.nav or 0.0) / (value * first.growth_along(before))

    def _observe(self, state: AgentState, sight: Sight, remembered: LayeredMemory, session: StepSession) -> None:
        """Remember the documents that were not shown at the last step, and the figures of the day."""
        hashes = []
        for document in sight.documents:
            hashes.append(sha256_hex(self._document_line(document))[:16])
            if hashes[-1] not in state.shown:
                layer = self._words["kinds"].get(str(document.get("kind") or ""), "short")
                remembered.add(layer, self._document_line(self._summarised(document, session)))
        state.shown = hashes
        if sight.nav is not None:
            state.navs = [*state.navs, sight.nav][-self._params.adaptive_days - 1 :]
        if sight.log_return is not None:
            state.returns = [*state.returns, sight.log_return][-MOMENTUM_DAYS:]

    def _prompt(self, state: AgentState, recalled: Mapping[Layer, Sequence[Memory]]) -> str:
        """Return the character of the day, momentum, and the recalled memories of each layer."""
        parts = [self._words[self._character(state)]]
        if len(state.returns) == MOMENTUM_DAYS:
            parts.append(self._words["momentum"].format(days=MOMENTUM_DAYS, percent=100 * math.fsum(state.returns)))
        parts.append(self._words["memory"])
        for layer, memories in recalled.items():
            lines = [f"- {memory.id}: {memory.text}" for memory in memories] or [self._words["nothing"]]
            parts.append("\n".join([f"## {self._words['layers'][layer]}", "", *lines]))
        return "\n\n".join(parts)

    def _character(self, state: AgentState) -> str:
        """Return the risk character of the day: the self-adaptive one avoids risk after a loss over its days."""
        if self._params.character != "self_adaptive":
            return self._params.character
        return "averse" if state.navs and state.navs[-1] < state.navs[0] else "seeking"

    def _settle(self, state: AgentState, step: int, sight: Sight, remembered: LayeredMemory) -> None:
        """Credit the memories of decisions whose outcome is now known, and remember that outcome."""
        if sight.nav is None:
            return
        look_back = self._rules.feedback.look_back
        for done in [each for each in state.pending if step - each.step >= look_back]:
            state.pending.remove(done)
            remembered.credit(done.ids, (sight.nav > done.nav) - (sight.nav < done.nav))
            percent = 100 * (sight.nav / done.nav - 1) if done.nav else 0.0
            fields = {"day": sight.day, "then": done.day, "percent": percent, "reason": done.reason}
            remembered.add_reflection(self._line(self._words["followed" if done.step < 0 else "extended"].format(**fields)))

    def _reflect(
        self,
        state: AgentState,
        step: int,
        sight: Sight,
        remembered: LayeredMemory,
        said: tuple[str, Mapping[Layer, Sequence[Memory]]],
    ) -> None:
        """Remember the reason of a decision, and which recalled memories it names."""
        reason = _NAMED.sub("", said[0]).strip()
        shown = {memory.id for memories in said[1].values() for memory in memories}
        named = dict.fromkeys(id_ for ids in _NAMED.findall(said[0]) for id_ in _ID.findall(ids) if id_ in shown)
        if reason:
            moved = "; ".join(self._words["moved"].format(asset=asset, **row) for asset, row in sight.outcomes.items())
            template = self._words["lesson" if moved else "immediate"]
            remembered.add_reflection(self._line(template.format(day=sight.day, moved=moved, reason=reason)))
        if sight.nav is not None:
            brief = shorten(reason, _REASON_CHARACTERS)
            state.pending.append(Pending(step, sight.day, sight.nav, list(named), brief))

    def _summarised(self, document: Mapping[str, Any], session: StepSession) -> Mapping[str, Any]:
        """Return a document with the model's summary for a text that is too long, if requested and answered."""
        text, most = str(document.get("text") or ""), self._params.characters
        if not self._params.summarise or len(text) <= most:
            return document
        instructions = self._words["summarise"].format(kind=document.get("kind") or "text", characters=most)
        try:
            summary = session.ask(ModelRequest((Message("system", instructions), Message("user", text)))).content
        except ModelError:  # counted under its kind; the text is cut
            summary = ""
        return {**document, "text": summary} if summary.strip() else document

    def _document_line(self, document: Mapping[str, Any]) -> str:
        fields = {name: str(document.get(name) or "") for name in ("day", "kind", "title", "text")}
        return self._line(self._words["document"].format(**fields))

    def _recall(self, sight: Sight, remembered: LayeredMemory) -> dict[Layer, list[Memory]]:
        assets = ", ".join([*sight.changes][:_MOST_NAMED]) or self._words["anything"]
        return remembered.recall(self._words["query"].format(assets=assets))

    def _line(self, text: str) -> str:
        """Return one line without a fence, so that a memory can't be read as the state of the day."""
        return shorten(" ".join(text.replace("```", "'''").split()), self._params.characters)


def make_embedder(params: FinmemParams) -> Embedder | RemoteEmbedding:
    """Return the embedder of the agent's arguments, or the server to make one with in each step. Raises UsageError;
    ConfigError: an address is not usable.
    """
    kind, _, name = params.embedding.partition(":")
    is_remote = bool(params.embedding_url or params.embedding_floats)
    if kind == "openai" and name and not params.weights:
        return RemoteEmbedding(params)
    if kind == "sentence" and name and not is_remote:
        return SentenceEmbedder(name, params.weights)
    if params.embedding != "hashing" or params.weights or is_remote:
        forms = "hashing, sentence:NAME with weights=HASH, or openai:NAME with embedding_url, embedding_floats"
        raise UsageError(f"embedding={params.embedding[:80]!r}: give {forms}")
    return HashingEmbedder()


@cache
def _wordings() -> dict[str, Any]:
    return load_yaml(Path(__file__).with_name("finmem.yaml"))


def _log_return(change_pct: float | None) -> float | None:
    return None if change_pct is None or change_pct <= -100 else math.log1p(change_pct / 100)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
