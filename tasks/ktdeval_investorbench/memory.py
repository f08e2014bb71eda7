"""Layered memory of FinMem (Yu et al. 2024; Li et al. 2025, appendix A): memories, their scores and their recall.

A memory scores recency e^(−age/Q) + importance (capped at 100, /100) + cosine to the query. After every step it is a step older and
its importance decays; it is purged below a recency of 0.05 or an importance of 5, and moves between layers by its importance.

The set `generative_agents` is the ablation of the layers (Park et al. 2023): one stream, in which recency since the last recall,
importance and cosine are each scaled to [0, 1] over all memories and added; nothing decays, is purged or credited.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from ktdeval.errors import ConfigError, StoreError
from ktdeval.jsonio import JsonValue
from ktdeval.seeds import derive_seed
from ktdeval.typed import Value, from_plain, to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_investorbench.embedding import Embedder, HashingEmbedder, Vectors

Layer = Literal["short", "mid", "long", "reflection", "stream"]

LEAST_RECENCY, LEAST_IMPORTANCE, MOST_IMPORTANCE = 0.05, 5.0, 100.0
NEAR_EQUAL = 0.95  #: cosine from which a reflection is a repetition
ORDER: tuple[Layer, ...] = ("short", "mid", "long")  #: layers that memories move between, the shallowest first
_DIGITS = 5  # of a score: sums of float32 differ between machines in further digits


Draws = tuple[tuple[float, float], ...]  # importances that a new memory starts with, and their probabilities


class LayerRule(Value):
    """Rules of a layer."""

    stability: float  #: Q of the recency, steps
    decay: float  #: factor of the importance at each step
    importance: Draws = ()  #: empty if the set has them by kind of memory
    promote: float = math.inf  #: importance from which a memory moves a layer deeper
    demote: float = 0.0  #: importance below which it moves a layer back


class FeedbackRule(Value):
    """Credit of the memories that a decision named."""

    kind: Literal["gain", "count", "sign", "none"]
    points: float
    look_back: int  #: steps after which the outcome of a decision counts as known


class ParameterSet(Value):
    """One source's parameters."""

    layers: dict[Layer, LayerRule]  #: without `reflection`, reflections go to `long`; memories of other missing layers to the last
    feedback: FeedbackRule
    top: int  #: memories recalled from each layer
    one_score: bool = False  #: scored by `scaled_scores`; a recall makes a memory new again, and nothing is purged
    #: by the layer that a memory would go to, if that is missing
    importance: dict[Layer, Draws] = msgspec.field(default_factory=dict)


class Memory(msgspec.Struct, forbid_unknown_fields=True):
    """One memory."""

    id: str
    text: str
    importance: float
    age: int = 0  #: steps since it was made, or promoted; in a set with `one_score` since it was made or recalled
    count: int = 0  #: gains less losses of decisions that named it


class MemoryState(msgspec.Struct, forbid_unknown_fields=True):
    """All memories, as stored between steps; vectors are computed from the texts again."""

    layers: dict[Layer, list[Memory]]
    made: int = 0  #: memories made so far; ids count them
    counts: dict[str, int] = {}  #: what happened so far: added, near_equal, credited, purged, promoted, demoted


@cache
def parameter_set(name: str) -> ParameterSet:
    """Return a parameter set of `parameter_sets.yaml` by name. Raises ConfigError: the name is unknown."""
    path = Path(__file__).with_name("parameter_sets.yaml")
    sets = load_yaml(path)
    if name not in sets:
        raise ConfigError(f"FinMem: there is no parameter set {name!r}; choose one of {', '.join(sets)}")
    return from_plain(sets[name], ParameterSet, f"{path.name}: {name}")


def recency(age: int, stability: float) -> float:
    """Return e^(−age/Q), both in steps."""
    return math.exp(-age / stability)


def scores(ages: Vectors, importances: Vectors, relevancies: Vectors, stability: float) -> Vectors:
    """Return [memories] scores from ages in steps, importances and cosines to the query, [memories] each."""
    total = np.exp(-ages / np.float32(stability)) + np.minimum(importances, MOST_IMPORTANCE) / MOST_IMPORTANCE + relevancies
    rounded: Vectors = np.round(total, _DIGITS).astype(np.float32)
    return rounded


def scaled_scores(ages: Vectors, importances: Vectors, relevancies: Vectors, stability: float) -> Vectors:
    """Return [memories] sums of recency, importance and cosine, each scaled to [0, 1] over the memories (all 0 if equal)."""
    total = np.zeros(len(ages), np.float32)
    for part in (np.exp(-ages / np.float32(stability)), importances, np.round(relevancies, _DIGITS)):
        least, most = (float(part.min()), float(part.max())) if len(part) else (0.0, 0.0)
        total += (part - np.float32(least)) / np.float32(most - least) if most > least else 0
    rounded: Vectors = np.round(total, _DIGITS).astype(np.float32)
    return rounded


def best(values: Vectors, count: int) -> list[int]:
    """Return the indices of the `count` largest values, the largest first; of equal ones the lower index."""
    count = min(count, len(values))
    if not count:
        return []
    least = np.partition(values, len(values) - count)[len(values) - count]
    indices = np.flatnonzero(values >= least)
    return [int(index) for index in indices[np.lexsort((indices, -values[indices]))][:count]]


class LayeredMemory:
    """Memory under one parameter set. A step: `add` and `add_reflection`, `recall`, `credit`, `end_step`. Equal calls give equal
    states: random draws depend on `seed` and the text.
    """

    def __init__(
        self,
        rules: ParameterSet,
        state: JsonValue = None,
        seed: int = 0,
        embedder: Embedder | None = None,
        withhold: Callable[[str], str] = str,
    ) -> None:
        """Restore `state`, as `to_json` returned it; None: no memories. `withhold` redacts each text before it is remembered, as in
        a session. Raises StoreError: `state` has another form.
        """
        self.rules, self._withhold = rules, withhold
        self._seed = seed
        self._embed = embedder or HashingEmbedder()
        empty = MemoryState({layer: [] for layer in rules.layers})
        self.state = empty if state is None else from_plain(state, MemoryState, "memory of the agent finmem")
        if self.state.layers.keys() != rules.layers.keys():
            raise StoreError(
                f"memory of the agent finmem: layers: expected {', '.join(rules.layers)}, was {', '.join(self.state.layers)}"
            )

    def to_json(self) -> JsonValue:
        """Return the state as plain JSON."""
        return to_plain(self.state)

    def add(self, layer: Layer, text: str) -> str:
        """Remember a text in a layer, or in the last one of a set without that layer; returns its id."""
        self.state.made += 1
        text = self._withhold(text)
        home = self._home(layer)
        drawn = derive_seed("importance", self._seed, layer, self.state.made, text, bits=53) / 2**53
        initial = self.rules.importance.get(layer, self.rules.layers[home].importance)
        index = bisect.bisect_right(list(itertools.accumulate(chance for _, chance in initial)), drawn)
        importance, _ = initial[min(index, len(initial) - 1)]
        self.state.layers[home].append(Memory(f"M{self.state.made}", text, importance))
        self._count("added")
        return f"M{self.state.made}"

    def add_reflection(self, text: str) -> str | None:
        """Remember a reflection; None if its layer has nearly the same (cosine of at least 0.95)."""
        layer: Layer = "reflection" if "reflection" in self.rules.layers else "long"
        text, vectors = self._withhold(text), self._vectors(self.state.layers[self._home(layer)])
        if len(vectors) and float(np.max(vectors @ self._embed([text])[0])) >= NEAR_EQUAL:
            self._count("near_equal")
            return None
        return self.add(layer, text)

    def recall(self, query: str) -> dict[Layer, list[Memory]]:
        """Return the best memories of each layer for a query, the best first. Under `one_score` this makes them new again."""
        vector, scored = self._embed([query])[0], scaled_scores if self.rules.one_score else scores
        recalled = {}
        for layer, rule in self.rules.layers.items():
            memories = self.state.layers[layer]
            ages = np.array([memory.age for memory in memories], np.float32)
            importances = np.array([memory.importance for memory in memories], np.float32)
            near = self._vectors(memories) @ vector if memories else np.zeros(0, np.float32)
            values = scored(ages, importances, near, rule.stability)
            recalled[layer] = [memories[index] for index in best(values, self.rules.top)]
            for memory in recalled[layer] if self.rules.one_score else ():
                memory.age = 0
        return recalled

    def credit(self, ids: Sequence[str], sign: int) -> None:
        """Credit memories that a decision named, if still there, with its outcome (1 a gain, −1 a loss, 0 neither)."""
        rule, named = self.rules.feedback, frozenset(ids)
        if not sign or rule.kind == "none" or (rule.kind == "gain" and sign < 0):
            return
        for memory in itertools.chain(*self.state.layers.values()):
            if memory.id in named:
                memory.count += sign
                memory.importance += rule.points * (memory.count if rule.kind == "count" else sign)
                self._count("credited")

    def end_step(self, steps: int = 1) -> None:
        """Decay, purge and flow, `steps` times."""
        for _ in range(steps):
            self._decay()
            self._purge()
            for _ in range(2):
                self._flow()

    def _decay(self) -> None:
        for rule, memory in self._ruled():
            memory.age += 1
            memory.importance *= rule.decay

    def _purge(self) -> None:
        if self.rules.one_score:
            return
        for layer, rule in self.rules.layers.items():
            memories = self.state.layers[layer]
            kept = [
                memory
                for memory in memories
                if recency(memory.age, rule.stability) >= LEAST_RECENCY and memory.importance >= LEAST_IMPORTANCE
            ]
            self._count("purged", len(memories) - len(kept))
            self.state.layers[layer] = kept

    def _flow(self) -> None:
        """Promote and demote in one pass over the layers, the shallowest first. Only a promotion resets a memory's age."""
        for depth, layer in enumerate(() if self.rules.one_score else ORDER):
            rule, kept = self.rules.layers[layer], []
            for memory in self.state.layers[layer]:
                if memory.importance >= rule.promote:
                    memory.age = 0
                    self.state.layers[ORDER[depth + 1]].append(memory)
                    self._count("promoted")
                elif memory.importance < rule.demote:
                    self.state.layers[ORDER[depth - 1]].append(memory)
                    self._count("demoted")
                else:
                    kept.append(memory)
            self.state.layers[layer] = kept

    def _ruled(self) -> Iterator[tuple[LayerRule, Memory]]:
        return ((rule, memory) for layer, rule in self.rules.layers.items() for memory in self.state.layers[layer])

    def _home(self, layer: Layer) -> Layer:
        return layer if layer in self.rules.layers else list(self.rules.layers)[-1]

    def _vectors(self, memories: Sequence[Memory]) -> Vectors:
        return self._embed([memory.text for memory in memories])

    def _count(self, what: str, number: int = 1) -> None:
        self.state.counts[what] = self.state.counts.get(what, 0) + number
