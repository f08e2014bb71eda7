"""Prompts of an agent with a layered memory: the agent's role, and its view of a day."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.harness import Decision, join_parts, label_key, submission_object
from ktdeval.observation import ObservedAsset, ObservedOutcome, ObservedState
from ktdeval.values import load_yaml
from ktdeval_memory.agent_state import AgentRecord, Pending
from ktdeval_memory.day_view import MemoryDay
from ktdeval_memory.memory_layers import Layer, Memory, MemoryQuery, ParameterSet, Recalled
from ktdeval_memory.params import MemoryParams


@cache
def wordings() -> dict[str, Any]:
    """Return the texts that these agents use, keyed by name."""
    return load_yaml(Path(__file__).with_name("wording.yaml"))


@cache
def _profiles() -> Mapping[str, str]:
    """Return descriptions of known assets, keyed by symbol."""
    return load_yaml(Path(__file__).with_name("profiles.yaml"))


def section(title: str, *lines: str) -> str:
    """Return lines under a heading; empty without lines."""
    return join_parts(f"# {title}", "\n".join(lines)) if lines else ""


# ---- role


def role_text(params: MemoryParams, rules: ParameterSet, state: ObservedState) -> str:
    """Return the role, and explanations of what the task shows. Both are the same in every step."""
    words = wordings()
    with_news = "news" in state.sections
    parts = [words["role"], _memory_text(rules, with_news)]
    if with_news:
        parts.append(words["sentiment_explained"])

    if any("return_1d_pct" in asset.cells for asset in state.candidates.values()):
        parts.append(words["momentum_explained"].format(days=params.momentum_days))
        if params.character == "self_adaptive":
            parts.append(words["character_explained"])

    if params.character != "self_adaptive":
        parts.append(words[params.character])

    return join_parts(*parts)


def _memory_text(rules: ParameterSet, with_news: bool) -> str:
    words = wordings()
    contents = words["contents"]["with_news" if with_news else "without_news"]
    if rules.one_score:
        return str(words["stream_explained"].format(contents=contents))

    layer = "reflection" if "reflection" in rules.layers else "long"
    layers = words["layer_contents"]["with_news" if with_news else "without_news"]
    layers = layers.format(reflections=words["reflections"][layer])
    return str(words["layers_explained"].format(contents=contents, layers=layers))


# ---- profiles and queries


def _kind(asset: ObservedAsset | None) -> str:
    kind = "" if asset is None else asset.kind
    return str(wordings()["kinds"].get(kind, ""))


def history_of(asset: ObservedAsset, day: str) -> str:
    """Return a text on an asset's performance up to a day; empty if no figures are shown."""
    words = wordings()
    figures = []
    for name, template in words["figures"].items():
        value = asset.figure(name)
        if value is not None:
            figures.append(template.format(value=value))

    if not figures:
        return ""
    return str(words["history"].format(day=day, figures=", ".join(figures)))


def profile_lines(today: MemoryDay, histories: Mapping[str, str]) -> list[str]:
    """Return a profile of each asset, followed by its performance before it was first seen. The
    profile is a description if the label is the real name, otherwise only the kind of asset.
    """
    lines = []
    for label in today.assets:
        about = _profiles().get(label, "")
        kind = _kind(today.state.assets.get(label))
        if not about and kind:
            about = wordings()["unknown"].format(label=label, kind=kind)

        history = histories.get(label, "")
        if history and not about:
            history = f"{label}, {history[0].lower()}{history[1:]}"

        profile = " ".join(filter(None, (about, history)))
        if profile:
            lines.append(f"- {profile}")

    return lines


def queries_of(today: MemoryDay) -> list[MemoryQuery]:
    """Return the recall queries: one for each asset, and one for memories that concern none of
    these assets. If the day is about a single asset, its query selects from all memories.
    """
    if today.is_of_one_asset:
        return [MemoryQuery(_query(today.assets[0], today))]

    queries = [MemoryQuery(_query(label, today), label) for label in today.assets]
    rest = MemoryQuery(wordings()["query_of_none"], None, frozenset(today.assets))
    return [*queries, rest]


def _query(label: str, today: MemoryDay) -> str:
    """Return the profile of an asset. Without a profile, return a question about the asset."""
    if label in _profiles():
        return _profiles()[label]

    kind = _kind(today.state.assets.get(label))
    asset = f"{label}, {kind}," if kind else label
    return str(wordings()["query"].format(asset=asset))


# ---- momentum and character


def momentum_lines(params: MemoryParams, today: MemoryDay, record: AgentRecord) -> list[str]:
    """Return the momentum of each asset for which it is known, and the character that follows from
    it.
    """
    words = wordings()
    lines = []
    for label in today.assets:
        momentum = record.momentum(label, params.momentum_days)
        if momentum is None:
            continue

        character = ""
        if params.character == "self_adaptive":
            character = words["character_of"]["averse" if momentum < 0 else "seeking"]

        line = words["momentum_of"].format(
            label=label, percent=100 * momentum, days=params.momentum_days, character=character
        )
        lines.append(f"- {line}")

    return lines


# ---- memories


@dataclass(frozen=True)
class ShownMemories:
    """Memories shown in a prompt."""

    queries: Sequence[MemoryQuery]
    recalled: Sequence[Recalled]
    #: ids of memories whose text is in the document table
    in_news: frozenset[str] = frozenset()

    @property
    def ids(self) -> frozenset[str]:
        """Ids of all memories shown."""
        ids: set[str] = set()
        for by_layer in self.recalled:
            for memories in by_layer.values():
                ids.update(memory.id for memory in memories)

        return frozenset(ids)

    def text(self) -> str:
        """Return the memories by query and layer. Each text appears once, and empty layers are
        omitted.
        """
        parts = []
        seen: set[str] = set()
        for query, by_layer in zip(self.queries, self.recalled, strict=True):
            layers = [self._layer(layer, held, seen) for layer, held in by_layer.items() if held]
            if layers:
                parts.append(join_parts(f"# {self._title(query)}", *layers))

        if not parts:
            words = wordings()
            return section(words["memories"], words["nothing"])
        return join_parts(*parts)

    def _title(self, query: MemoryQuery) -> str:
        words = wordings()
        if query.about is not None:
            return str(words["memories_of"].format(label=query.about))
        return str(words["memories_of_none" if query.not_about else "memories"])

    def _layer(self, layer: Layer, memories: Sequence[Memory], seen: set[str]) -> str:
        lines = [f"- {memory.id}: {self._line(memory, seen)}" for memory in memories]
        return join_parts(f"## {wordings()['layers'][layer]}", "\n".join(lines))

    def _line(self, memory: Memory, seen: set[str]) -> str:
        if memory.id in self.in_news:
            return str(wordings()["shown_in_news"])
        if memory.id in seen:
            return str(wordings()["shown_above"])

        seen.add(memory.id)
        return memory.text


# ---- outcomes


def decided_in_words(decision: Decision, submitted: str, state: ObservedState) -> str:
    """Return a decision as text. `submitted`: arguments of its submission."""
    words = wordings()
    parts = []
    if state.limits.asks_decisions:
        label_of = {label_key(label): label for label in state.candidates}
        for item in submission_object(submitted).get("decisions", ()):
            label = label_of.get(label_key(item["stock_id"]))
            if label is not None:
                parts.append(f"{item['decision']} {label}")
    else:
        for order, label in zip(decision.action, decision.stock_ids, strict=True):
            size = ""
            if order.target_weight is not None:
                size = words["size"].format(percent=100 * order.target_weight)
            parts.append(words["order"].format(side=order.side, label=label, size=size))

    return ", ".join(parts) or str(words["no_order"])


def ordered_assets(decision: Decision, submitted: str, state: ObservedState) -> list[str]:
    """Return the labels of the assets that a decision may trade, without duplicates. If a task asks
    for decisions, HOLD is included, because it may sell or rebalance.
    """
    known = {label_key(label): label for label in (*state.assets, *state.universe)}
    labels: dict[str, None] = {}
    if not state.limits.asks_decisions:
        for submitted_id in decision.stock_ids:
            labels[known.get(label_key(submitted_id), submitted_id)] = None
        return list(labels)

    label_of = {label_key(label): label for label in state.candidates}
    for item in submission_object(submitted).get("decisions", ()):
        label = label_of.get(label_key(item["stock_id"]))
        if label is not None:
            labels[label] = None

    return list(labels)


def with_fills(decision: Pending) -> str:
    """Return a decision as text, with the outcome of its orders if known."""
    if not decision.fills:
        return decision.decided

    fills = ", ".join(f"{label} {words}" for label, words in decision.fills.items())
    return str(wordings()["with_fills"].format(decided=decision.decided, fills=fills))


def called_for(outcome: ObservedOutcome) -> str:
    """Return a text on the direction in which an asset's price moved next in a lesson."""
    words = wordings()
    move = words["unknown_change"]
    if outcome.change_pct is not None:
        move = words["change"].format(percent=_rounded_percent(outcome.change_pct))
    text: str = words["called_for"].format(asset=outcome.label, change=move, label=outcome.action)
    return text


def _rounded_percent(percent: float) -> float:
    """Return a change as written: with two decimals, and without a minus sign on 0."""
    return round(percent, 2) or 0.0


def moved_since(decision: Pending, today: MemoryDay) -> str:
    """Return how much assets have changed since a decision, and how much the account has gained."""
    words = wordings()
    parts = []
    for label, move in decision.moves.items():
        if move is not None:
            percent = _rounded_percent(100 * math.expm1(move))
            parts.append(words["moved"].format(label=label, percent=percent))

    if today.nav is not None and decision.nav:
        gained = _rounded_percent(100 * (today.nav / decision.nav - 1))
        parts.append(words["account"].format(percent=gained))

    return ", ".join(parts) or str(words["no_figures"])


def outcome_line(decision: Pending, today: MemoryDay, shown: ShownMemories) -> str:
    """Return a decision with its outcome. The reason is included if no memory shown contains it."""
    words = wordings()
    reason = ""
    if decision.memory in shown.ids:
        reason = words["see"].format(id=decision.memory)
    elif decision.reason:
        reason = words["because"].format(reason=decision.reason)

    moved = moved_since(decision, today)
    line = words["outcome"].format(
        day=decision.day, decided=with_fills(decision), reason=reason, moved=moved
    )
    return str(line)
