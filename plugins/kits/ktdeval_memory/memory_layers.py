"""Layered memory of FinMem (Yu et al. 2024; Li et al. 2025, appendix A): memories, their scores and
how they are recalled.

The score of a memory is its recency e^(−age/Q), plus its importance (capped at 100, then divided by
100), plus its cosine similarity to the query. After every step, a memory is one step older and its
importance decays. It is purged if its recency falls below 0.05 or its importance below 5. It moves
between layers according to its importance.

The parameter set `generative_agents` ablates the layers (Park et al. 2023). All memories form a
single stream. Recency since the last recall, importance and cosine similarity are each scaled to
[0, 1] over all memories, then added. Nothing decays, is purged or is credited.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np

from ktdeval.errors import ConfigError, StoreError
from ktdeval.values import JsonValue, Value, derive_seed, from_plain, load_yaml, to_plain
from ktdeval_memory.embedding import Embedder, HashingEmbedder, Vectors

Layer = Literal["short", "mid", "long", "reflection", "stream"]

MIN_RECENCY = 0.05
MIN_IMPORTANCE = 5.0
MAX_IMPORTANCE = 100.0
NEAR_EQUAL = 0.95  #: cosine similarity from which a reflection is a repetition
#: layers between which memories move, shallowest first
ORDER: tuple[Layer, ...] = ("short", "mid", "long")
_DIGITS = 5  # digits of a score; further digits of float32 sums differ between machines


# initial importances of a new memory, and their probabilities
Draws = tuple[tuple[float, float], ...]


class LayerRule(Value):
    """Rules for a layer."""

    stability: float  #: Q in the recency, in steps
    decay: float  #: factor by which the importance decays at each step
    importance: Draws = ()  #: initial importances; empty if the set gives them by kind of memory
    promote: float = math.inf  #: importance from which a memory moves one layer deeper
    demote: float = 0.0  #: importance below which a memory moves one layer back


class FeedbackRule(Value):
    """Credit for the memories that a decision named."""

    kind: Literal["gain", "count", "sign", "none"]
    points: float
    look_back: int  #: number of steps after which the outcome of a decision counts as known


class ParameterSet(Value):
    """Parameters from one source."""

    #: if there is no `reflection` layer, reflections go to `long`; memories for other missing
    #: layers go to the last layer
    layers: dict[Layer, LayerRule]
    feedback: FeedbackRule
    top: int  #: number of memories recalled from each layer for each query
    #: whether `scaled_scores` are used; a recall then resets a memory's age, and nothing is purged
    one_score: bool = False
    #: initial importances of memories whose own layer is missing, keyed by that layer
    importance: dict[Layer, Draws] = msgspec.field(default_factory=dict)


class Memory(msgspec.Struct, forbid_unknown_fields=True):
    """One memory."""

    id: str
    text: str
    importance: float
    #: steps since the memory was created or promoted; in a set with `one_score`, steps since it was
    #: created or last recalled
    age: int = 0
    #: number of gains minus number of losses over the decisions that named the memory
    count: int = 0
    #: labels of the assets that the memory is about; empty if it is about no particular asset
    assets: list[str] = []


class MemoryState(msgspec.Struct, forbid_unknown_fields=True):
    """All memories, as stored between steps. Their vectors are not stored, but computed again from
    the texts.
    """

    layers: dict[Layer, list[Memory]]
    made: int = 0  #: number of memories created so far, from which ids are made
    #: counts of events so far: added, near_equal, credited, purged, promoted, demoted
    counts: dict[str, int] = {}


@dataclass(frozen=True)
class MemoryQuery:
    """Query for the best memories in each layer, among all memories or only those about certain
    assets.
    """

    text: str
    about: str | None = None  #: label of an asset that the memories must concern; None: any
    not_about: Set[str] = frozenset()  #: labels of assets that the memories must not concern

    def takes(self, memory: Memory) -> bool:
        """Return whether a memory is eligible for this query."""
        if self.about is not None:
            return self.about in memory.assets
        return self.not_about.isdisjoint(memory.assets)


Recalled = dict[Layer, list[Memory]]
"""Memories keyed by layer, best first."""


@cache
def parameter_set(name: str) -> ParameterSet:
    """Return the parameter set `name` from `parameter_sets.yaml`. Raises ConfigError if the name is
    unknown.
    """
    path = Path(__file__).with_name("parameter_sets.yaml")
    sets = load_yaml(path)
    if name not in sets:
        raise ConfigError(
            f"layered memory: there is no parameter set {name!r}; choose one of {', '.join(sets)}"
        )
    return from_plain(sets[name], ParameterSet, f"{path.name}: {name}")


def recency(age: int, stability: float) -> float:
    """Return e^(−age/Q), where `age` and Q (`stability`) are in steps."""
    return math.exp(-age / stability)


def scores(ages: Vectors, importances: Vectors, relevancies: Vectors, stability: float) -> Vectors:
    """Return the score of each memory, [memories], from its age in steps, its importance and its
    cosine similarity to the query, each [memories].
    """
    total = (
        np.exp(-ages / np.float32(stability))
        + np.minimum(importances, MAX_IMPORTANCE) / MAX_IMPORTANCE
        + relevancies
    )
    rounded: Vectors = np.round(total, _DIGITS).astype(np.float32)
    return rounded


def scaled_scores(
    ages: Vectors, importances: Vectors, relevancies: Vectors, stability: float
) -> Vectors:
    """Return for each memory, [memories], the sum of recency, importance and cosine similarity,
    each scaled to [0, 1] over the memories (0 if all its values are equal).
    """
    recencies = np.exp(-ages / np.float32(stability))
    total = np.zeros(len(ages), np.float32)
    for part in (recencies, importances, np.round(relevancies, _DIGITS)):
        total += _scale_values(part)

    rounded: Vectors = np.round(total, _DIGITS).astype(np.float32)
    return rounded


def _scale_values(values: Vectors) -> Vectors:
    """Return values scaled to [0, 1]; all 0 if they are equal."""
    if not len(values):
        return values

    least = float(values.min())
    most = float(values.max())
    if most <= least:
        return np.zeros(len(values), np.float32)

    scaled: Vectors = (values - np.float32(least)) / np.float32(most - least)
    return scaled


def best(values: Vectors, count: int) -> list[int]:
    """Return the indices of the `count` largest values, largest first; ties go to the lower
    index.
    """
    count = min(count, len(values))
    if not count:
        return []

    least = np.partition(values, len(values) - count)[len(values) - count]
    indices = np.flatnonzero(values >= least)
    in_order = indices[np.lexsort((indices, -values[indices]))]
    largest: list[int] = in_order[:count].tolist()
    return largest


def _draw_importance(initial: Draws, drawn: float) -> float:
    """Return the importance for a draw from [0, 1)."""
    chances = itertools.accumulate(chance for _, chance in initial)
    index = bisect.bisect_right(list(chances), drawn)
    importance, _ = initial[min(index, len(initial) - 1)]
    return importance


class LayeredMemory:
    """Memory with one parameter set. A step calls `add` and `add_reflection`, `recall`, `credit`,
    `end_step`. Deterministic: equal calls give equal states, since random draws depend only on
    `seed` and the text.
    """

    def __init__(
        self,
        rules: ParameterSet,
        state: JsonValue = None,
        seed: int = 0,
        embedder: Embedder | None = None,
        withhold: Callable[[str], str] = str,
    ) -> None:
        """Restore `state`, as returned by `to_json`; None: no memories. `withhold` redacts each
        text before it is remembered, like the session's method. Raises StoreError if `state` is
        malformed.
        """
        self.rules = rules
        self._withhold = withhold
        self._seed = seed
        self._embed = embedder or HashingEmbedder()
        if state is None:
            self.state = MemoryState({layer: [] for layer in rules.layers})
        else:
            self.state = from_plain(state, MemoryState, "layered memory")

        if self.state.layers.keys() != rules.layers.keys():
            raise StoreError(
                f"layered memory: layers: expected {', '.join(rules.layers)}, was"
                f" {', '.join(self.state.layers)}"
            )

    def to_json(self) -> JsonValue:
        """Return the state as plain JSON."""
        return to_plain(self.state)

    def add(self, layer: Layer, text: str, assets: Sequence[str] = ()) -> str:
        """Remember a text about some assets in a layer. If the set lacks the layer, use the last
        layer. Return the id of the memory.
        """
        self.state.made += 1
        text = self._withhold(text)
        home = self._home(layer)
        number = self.state.made
        initial = self.rules.importance.get(layer, self.rules.layers[home].importance)
        drawn = derive_seed("importance", self._seed, layer, number, text, bits=53) / 2**53
        memory = Memory(f"M{number}", text, _draw_importance(initial, drawn), assets=list(assets))
        self.state.layers[home].append(memory)
        self._count("added")

        return memory.id

    def add_reflection(self, text: str) -> str | None:
        """Remember a reflection and return its id. If its layer already holds nearly the same text
        (cosine similarity of at least 0.95), return None.
        """
        layer: Layer = "reflection" if "reflection" in self.rules.layers else "long"
        text = self._withhold(text)
        vectors = self._vectors(self.state.layers[self._home(layer)])
        if len(vectors):
            cosines = vectors @ self._embed([text])[0]
            if float(np.max(cosines)) >= NEAR_EQUAL:
                self._count("near_equal")
                return None

        return self.add(layer, text)

    def recall(self, queries: Sequence[MemoryQuery]) -> list[Recalled]:
        """Return for each query the best memories in each layer. With `one_score`, this resets the
        age of recalled memories.
        """
        recalled = [self._best(query) for query in queries]
        if self.rules.one_score:
            for by_layer in recalled:
                for memory in itertools.chain(*by_layer.values()):
                    memory.age = 0

        return recalled

    def _best(self, query: MemoryQuery) -> Recalled:
        vector = self._embed([query.text])[0]
        scored = scaled_scores if self.rules.one_score else scores
        recalled: Recalled = {}

        for layer, rule in self.rules.layers.items():
            memories = [memory for memory in self.state.layers[layer] if query.takes(memory)]
            ages = np.array([memory.age for memory in memories], np.float32)
            importances = np.array([memory.importance for memory in memories], np.float32)
            near = np.zeros(0, np.float32)
            if memories:
                near = self._vectors(memories) @ vector

            values = scored(ages, importances, near, rule.stability)
            recalled[layer] = [memories[index] for index in best(values, self.rules.top)]

        return recalled

    def credit(self, ids: Sequence[str], sign: int) -> None:
        """Credit the memories that a decision named with its outcome (1: gain, −1: loss, 0:
        neither), if they still exist.
        """
        rule = self.rules.feedback
        named = frozenset(ids)
        if not sign or rule.kind == "none" or (rule.kind == "gain" and sign < 0):
            return

        for memory in itertools.chain(*self.state.layers.values()):
            if memory.id in named:
                memory.count += sign
                memory.importance += rule.points * (memory.count if rule.kind == "count" else sign)
                self._count("credited")

    def end_step(self, steps: int = 1) -> None:
        """Decay, purge and move memories between layers, `steps` times."""
        for _ in range(steps):
            self._decay()
            self._purge()
            for _ in range(2):
                self._flow()

    def _decay(self) -> None:
        for rule, memory in self._pair_with_rules():
            memory.age += 1
            memory.importance *= rule.decay

    def _purge(self) -> None:
        if self.rules.one_score:
            return

        for layer, rule in self.rules.layers.items():
            memories = self.state.layers[layer]
            remaining = []
            for memory in memories:
                is_recent = recency(memory.age, rule.stability) >= MIN_RECENCY
                if is_recent and memory.importance >= MIN_IMPORTANCE:
                    remaining.append(memory)

            self._count("purged", len(memories) - len(remaining))
            self.state.layers[layer] = remaining

    def _flow(self) -> None:
        """Promote and demote memories in one pass over the layers, shallowest first. Only a
        promotion resets a memory's age.
        """
        if self.rules.one_score:
            return

        for depth, layer in enumerate(ORDER):
            rule = self.rules.layers[layer]
            remaining = []
            for memory in self.state.layers[layer]:
                if memory.importance >= rule.promote:
                    memory.age = 0
                    self.state.layers[ORDER[depth + 1]].append(memory)
                    self._count("promoted")
                elif memory.importance < rule.demote:
                    self.state.layers[ORDER[depth - 1]].append(memory)
                    self._count("demoted")
                else:
                    remaining.append(memory)

            self.state.layers[layer] = remaining

    def _pair_with_rules(self) -> Iterator[tuple[LayerRule, Memory]]:
        """Yield each memory with its layer's rule."""
        for layer, rule in self.rules.layers.items():
            for memory in self.state.layers[layer]:
                yield rule, memory

    def _home(self, layer: Layer) -> Layer:
        """Return the layer in which a memory is stored: its own layer, or the last layer if the set
        lacks it.
        """
        if layer in self.rules.layers:
            return layer
        return list(self.rules.layers)[-1]

    def _vectors(self, memories: Sequence[Memory]) -> Vectors:
        return self._embed([memory.text for memory in memories])

    def _count(self, what: str, number: int = 1) -> None:
        self.state.counts[what] = self.state.counts.get(what, 0) + number
