"""The layered memory, rule by rule: scores, recall by asset, decay, purging, flow and credit."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from ktdeval.errors import ConfigError, StoreError
from ktdeval.testing import not_empty, on_each_row
from ktdeval_memory.embedding import HashingEmbedder
from ktdeval_memory.memory_layers import (
    LayeredMemory,
    Memory,
    MemoryQuery,
    best,
    parameter_set,
    recency,
    scaled_scores,
    scores,
)

SETS = ("paper", "finmem", "investorbench")


def memory(name: str, **layers: list[Memory]) -> LayeredMemory:
    """A memory that holds what is given."""
    made = LayeredMemory(parameter_set(name))
    for layer, memories in layers.items():
        made.state.layers[layer].extend(memories)  # type: ignore[index]

    return made


def one(importance: float, age: int = 0, count: int = 0, text: str = "x") -> Memory:
    return Memory("M1", text, importance, age, count)


def where(held: LayeredMemory) -> dict[str, tuple[float, int]]:
    """Importance and age of what is left, by layer."""
    left = {}
    for layer, memories in held.state.layers.items():
        for memory in memories:
            left[layer] = (round(memory.importance, 3), memory.age)

    return left


def test_recency_halves_as_worked_out() -> None:
    table = [
        (1, 14, 0.931063),
        (42, 14, 0.049787),
        (1, 3, 0.716531),
        (9, 3, 0.049787),
        (90, 90, 0.367879),
        (365, 365, 0.367879),
    ]

    for age, stability, expected in table:
        assert recency(age, stability) == pytest.approx(expected, abs=5e-7)


def test_a_score_is_recency_and_capped_importance_and_cosine() -> None:
    ages = np.array([0, 7, 14], np.float32)
    importances = np.array([40, 100, 250], np.float32)
    values = scores(ages, importances, np.array([0.25, -0.5, 1.0], np.float32), 14)

    assert values == pytest.approx(
        [1 + 0.4 + 0.25, 0.606531 + 1 - 0.5, 0.367879 + 1 + 1], abs=1.1e-5
    )
    assert best(values, 2) == [2, 0]
    assert best(np.array([1, 2, 2, 0, 2], np.float32), 2) == [1, 2]  # of equal ones the earlier
    assert best(np.zeros(0, np.float32), 5) == []


def test_one_score_scales_each_part_over_all_memories() -> None:
    # recency .995^age: 1, .9511, .9046; scaled 1, .4875, 0. Importance 4, 8, 6: 0, 1, .5. Cosine
    # .2, .2, .7: 0, 0, 1
    ages = np.array([0, 10, 20], np.float32)
    importances = np.array([4, 8, 6], np.float32)
    rule = parameter_set("generative_agents").layers["stream"]
    values = scaled_scores(ages, importances, np.array([0.2, 0.2, 0.7], np.float32), rule.stability)

    assert values == pytest.approx([1.0, 1.48747, 1.5], abs=2e-5)
    assert recency(1, rule.stability) == pytest.approx(0.995, abs=1e-12)
    assert recency(20, rule.stability) == pytest.approx(0.904610, abs=5e-7)
    # nothing to tell them apart
    assert list(scaled_scores(ages[:1], importances[:1], importances[:1], 1)) == [0.0]
    assert scaled_scores(ages[:0], importances[:0], importances[:0], 1).shape == (0,)


def test_single_stream_decays_without_credit_and_recall_renews_it() -> None:
    held = LayeredMemory(parameter_set("generative_agents"), seed=5)
    layered = LayeredMemory(parameter_set("paper"), seed=5)
    for number in range(20):
        for either in (held, layered):
            either.add(("short", "mid", "long")[number % 3], f"weather report {number}")  # type: ignore[arg-type]

    memories = itertools.chain.from_iterable(layered.state.layers.values())
    drawn = {memory.id: memory.importance for memory in memories}

    assert {memory.id: memory.importance * 10 for memory in held.state.layers["stream"]} == drawn

    held.end_step(700)  # .995^700 = .03
    assert [memory.age for memory in held.state.layers["stream"]] == [700] * 20

    recalled = held.recall([MemoryQuery("weather report 19")])[0]["stream"]
    assert len(recalled) == 15

    held.credit([memory.id for memory in recalled], 1)
    held.end_step()
    ages = {memory.id: memory.age for memory in held.state.layers["stream"]}

    assert [ages[memory.id] for memory in recalled] == [1] * 15
    assert sorted(ages.values()) == [1] * 15 + [701] * 5
    assert held.add_reflection("what came of it") is not None
    assert held.state.counts == {"added": 21}


@on_each_row(
    "name, layer, importance, age, expected",
    # a step with neither promotion nor demotion: importance × decay, a step older
    ("paper", "short", 40, 2, {"short": [36.0, 3]}),
    ("paper", "mid", 70, 2, {"mid": [67.69, 3]}),
    ("paper", "long", 90, 2, {"long": [88.92, 3]}),
    ("finmem", "short", 50, 2, {"short": [46.0, 3]}),
    ("finmem", "mid", 70, 2, {"mid": [67.69, 3]}),
    ("finmem", "long", 90, 2, {"long": [88.92, 3]}),
    ("finmem", "reflection", 80, 2, {"reflection": [79.04, 3]}),
    ("investorbench", "short", 50, 2, {"short": [46.0, 3]}),
    ("investorbench", "mid", 60, 2, {"mid": [57.6, 3]}),
    ("investorbench", "long", 90, 2, {"long": [86.4, 3]}),
    ("investorbench", "reflection", 80, 2, {"reflection": [78.4, 3]}),
    # importance before the decay of the step; two passes, so that two layers can be passed
    ("paper", "short", 66.7, 4, {"mid": [60.03, 0]}),
    ("paper", "short", 66.6, 4, {"short": [59.94, 5]}),
    ("paper", "short", 90.0, 4, {"long": [81.0, 0]}),
    ("paper", "mid", 62.0, 4, {"short": [59.954, 5]}),
    ("paper", "mid", 82.8, 4, {"long": [80.068, 0]}),
    ("paper", "long", 60.0, 4, {"short": [59.28, 5]}),
    ("finmem", "short", 65.3, 4, {"mid": [60.076, 0]}),
    ("finmem", "long", 80.0, 4, {"mid": [79.04, 5]}),
    ("finmem", "reflection", 95.0, 4, {"reflection": [93.86, 5]}),
    ("investorbench", "short", 59.8, 4, {"mid": [55.016, 0]}),
    ("investorbench", "mid", 57.2, 4, {"short": [54.912, 5]}),
    ("investorbench", "mid", 88.6, 4, {"long": [85.056, 0]}),
    ("investorbench", "long", 88.5, 4, {"mid": [84.96, 5]}),
)
def test_memories_decay_and_flow_between_layers(
    name: str, layer: str, importance: float, age: int, expected: Any
) -> None:
    held = memory(name, **{layer: [one(importance, age)]})
    held.end_step()
    assert where(held) == {at: tuple(each) for at, each in expected.items()}


@on_each_row(
    "name, layer, importance, age, remains",
    # e^(−41/14) = .0535, e^(−42/14) = .0498
    ("paper", "short", 50, 40, True),
    ("paper", "short", 50, 41, False),
    # e^(−8/3) = .0695, e^(−9/3) = .0498
    ("finmem", "short", 50, 7, True),
    ("finmem", "short", 50, 8, False),
    # × .9 = 5.04, 4.95
    ("paper", "short", 5.6, 0, True),
    ("paper", "short", 5.5, 0, False),
    # × .98 = 5.008, 4.998
    ("investorbench", "reflection", 5.11, 0, True),
    ("investorbench", "reflection", 5.1, 0, False),
)
def test_old_and_unimportant_memories_are_purged(
    name: str, layer: str, importance: float, age: int, remains: bool
) -> None:
    held = memory(name, **{layer: [one(importance, age)]})
    held.end_step()
    assert bool(where(held)) is remains
    assert held.state.counts.get("purged", 0) == (not remains)


@on_each_row(
    "name, signs, expected",
    # +5 +5
    ("paper", [1, 1, -1, 0], 60.0),
    # counts 1, 2, 1: +5 +10 +5
    ("finmem", [1, 1, -1, 0], 70.0),
    # counts −1, −2: −5 −10
    ("finmem", [-1, -1], 35.0),
    # +18 +18 −18
    ("investorbench", [1, 1, -1, 0], 68.0),
)
def test_named_memories_are_credited(name: str, signs: tuple[int, ...], expected: float) -> None:
    held = memory(name, short=[one(50.0)], mid=[Memory("M2", "y", 70.0)])
    for sign in signs:
        held.credit(["M1", "M99"], sign)

    assert where(held) == {"short": (expected, 0), "mid": (70.0, 0)}


@pytest.mark.parametrize("name", SETS)
def test_initial_importances_are_drawn_from_the_set(name: str) -> None:
    held = LayeredMemory(parameter_set(name))
    for number in range(3000):
        held.add("short", f"text {number}")

    drawn = Counter(memory.importance for memory in held.state.layers["short"])
    wanted = {
        "paper": {40: 0.8, 60: 0.15, 80: 0.05},
        "finmem": {50: 0.5, 70: 0.45, 90: 0.05},
        "investorbench": {50: 1.0},
    }[name]

    for value, chance in not_empty(wanted.items()):
        assert drawn[value] / 3000 == pytest.approx(
            chance, abs=4 * math.sqrt(chance * (1 - chance) / 3000) + 1e-12
        )


@pytest.mark.parametrize("name", SETS)
def test_recall_returns_the_best_per_layer_without_near_equal_reflections(
    name: str,
) -> None:
    held = LayeredMemory(parameter_set(name))
    for number in range(20):
        held.add("mid", f"weather report {number}")

    held.add("mid", "alpha raised its outlook")
    recalled = held.recall([MemoryQuery("alpha raised its outlook")])[0]

    assert len(recalled["mid"]) == {"paper": 5, "finmem": 3, "investorbench": 5}[name]

    if name == "investorbench":  # where all have one importance, what is meant comes first
        assert recalled["mid"][0].text == "alpha raised its outlook"

    assert held.add_reflection("the price rose because the outlook did") is not None
    assert held.add_reflection("The price rose, because the outlook did!") is None
    assert held.add_reflection("the price fell") is not None

    layer = "long" if name == "paper" else "reflection"
    assert len(held.state.layers[layer]) == 2  # type: ignore[index]


def test_the_state_resumes_from_json_and_equal_steps_give_equal_states() -> None:
    def played(break_at: int | None) -> Any:
        held = LayeredMemory(parameter_set("finmem"), seed=3)
        for step in range(30):
            if step == break_at:
                held = LayeredMemory(
                    parameter_set("finmem"), json.loads(json.dumps(held.to_json())), seed=3
                )

            for number in range(4):
                held.add(("short", "mid", "long", "short")[number], f"item {step} {number}")

            (recalled,) = held.recall([MemoryQuery("item 3")])
            held.credit([memory.id for memory in recalled["short"][:1]], 1)
            held.end_step()

        return held.to_json()

    assert played(None) == played(11) == played(29)
    assert played(None)["counts"].keys() == {"added", "credited", "purged", "promoted", "demoted"}


def test_embeddings_have_unit_length_and_do_not_depend_on_the_batch() -> None:
    vectors = HashingEmbedder()(["one two three", "", "one two three four"])
    assert vectors.shape == (3, 256)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1], abs=1e-6)
    assert (HashingEmbedder()(["one two three"])[0] == vectors[0]).all()
    # but for collisions
    assert float(vectors[0] @ vectors[2]) == pytest.approx(5 / math.sqrt(5 * 7), abs=0.2)


@pytest.mark.parametrize(
    "state", [[], {"layers": {}}, {"layers": {"short": [{"id": 3}]}}, {"layers": {"deep": []}}]
)
def test_an_invalid_state_is_refused(state: Any) -> None:
    with pytest.raises(StoreError, match=r"^layered memory: "):
        LayeredMemory(parameter_set("paper"), state)

    with pytest.raises(
        ConfigError,
        match="no parameter set 'x'; choose one of paper, finmem, investorbench, generative_agents",
    ):
        parameter_set("x")


@pytest.mark.parametrize("name", SETS)
def test_each_asset_has_the_best_of_its_own_memories(name: str) -> None:
    held = LayeredMemory(parameter_set(name))
    most = held.rules.top
    for number in range(20):
        held.add("short", f"alpha sold {number} ships", ["alpha"])

    held.add("short", "beta lost a customer", ["beta"])
    held.add("short", "alpha and beta signed a contract", ["alpha", "beta"])
    held.add("short", "rates were raised")
    queries = [
        MemoryQuery("alpha", "alpha"),
        MemoryQuery("beta", "beta"),
        MemoryQuery("prices", not_about={"alpha", "beta"}),
    ]
    alpha, beta, rest = (each["short"] for each in held.recall(queries))

    assert len(alpha) == most
    assert all("alpha" in memory.assets for memory in alpha)
    # the many texts about another asset leave room for these
    assert {memory.text for memory in beta} == {
        "beta lost a customer",
        "alpha and beta signed a contract",
    }
    assert [memory.text for memory in rest] == ["rates were raised"]


# ---- by asset


def test_a_memory_that_two_queries_recall_is_scored_before_it_is_new_again() -> None:
    held = LayeredMemory(parameter_set("generative_agents"))
    held.add("short", "about both", ["alpha", "beta"])
    held.add("short", "about beta", ["beta"])
    held.end_step(300)
    both = [MemoryQuery("beta", about) for about in ("alpha", "beta")]
    (_, together) = held.recall(both)
    held.end_step(300)
    (alone,) = held.recall(both[1:])

    assert [memory.id for memory in together["stream"]] == [memory.id for memory in alone["stream"]]


# -- recall against a sum and a sort

ALL_SETS = (*SETS, "generative_agents")
WORDS = ("margin", "export", "battery", "dividend", "lawsuit", "merger")


def scaled(values: list[float]) -> list[float]:
    least, most = min(values), max(values)
    return [(value - least) / (most - least) if most > least else 0.0 for value in values]


def best_by_hand(held: LayeredMemory, layer: Any, text: str) -> list[str]:
    """Ids of a layer's memories by the sum of recency, importance and likeness, the best first."""
    memories = held.state.layers[layer]
    vectors = HashingEmbedder()([text, *(each.text for each in memories)])
    near = [float(vector @ vectors[0]) for vector in vectors[1:]]
    stability = held.rules.layers[layer].stability
    recencies = [math.exp(-each.age / stability) for each in memories]
    if held.rules.one_score:
        parts = [recencies, [each.importance for each in memories], near]
        sums = [sum(values) for values in zip(*map(scaled, parts), strict=True)]
    else:
        worth = [min(each.importance, 100.0) / 100.0 for each in memories]
        sums = [sum(values) for values in zip(recencies, worth, near, strict=True)]
    ranked = sorted(range(len(memories)), key=lambda index: -round(sums[index], 4))
    return [memories[index].id for index in ranked[: held.rules.top]]


@pytest.mark.parametrize("name", ALL_SETS)
def test_the_memories_recalled_are_the_best_by_recency_importance_and_likeness(name: str) -> None:
    rng = np.random.default_rng(7)
    met: Counter[str] = Counter()
    for _ in range(20):
        layers: dict[str, list[Memory]] = {}
        for layer in parameter_set(name).layers:
            layers[layer] = [
                Memory(
                    f"{layer}{number}",
                    " ".join(rng.choice(WORDS, 4)),
                    float(rng.integers(1, 1300)) / 10,
                    int(rng.integers(0, 60)),
                )
                for number in range(20)
            ]
        held = memory(name, **layers)
        text = " ".join(rng.choice(WORDS, 2))
        wanted = {layer: best_by_hand(held, layer, text) for layer in layers}
        (recalled,) = held.recall([MemoryQuery(text)])
        assert {layer: [each.id for each in found] for layer, found in recalled.items()} == wanted
        for found in recalled.values():
            by_importance = sorted(found, key=lambda each: -each.importance)
            met["not by importance alone"] += by_importance != found
    assert met["not by importance alone"]
