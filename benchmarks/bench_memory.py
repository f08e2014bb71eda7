"""How long FinMem's memory takes to recall: scores and the best of a layer of many memories, and a
step of a whole memory.

    python benchmarks/bench_memory.py [--memories 100000] [--floats 384,1536] [--texts 2000]
    [--repeats 7]

The first figures are of retrieval alone: recency, importance, exact float32 cosine and the best
five, of vectors that are there; once by FinMem's score of a layer, once by the one score of
`generative_agents`. The last is a step with texts, as an episode has it: added, embedded, recalled,
decayed. The least time of the repeats counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from ktdeval_memory.memory_layers import (
    LayeredMemory,
    MemoryQuery,
    best,
    parameter_set,
    scaled_scores,
    scores,
)


def min_ms(call: Callable[[], object], repeats: int) -> float:
    """Least wall time of a call."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times) * 1000


def retrieval(memories: int, floats: int, repeats: int) -> tuple[float, float]:
    """Milliseconds for one query over one layer, by each of the two scores."""
    chance = np.random.default_rng(7)
    vectors = chance.standard_normal((memories, floats), np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    ages = chance.integers(0, 40, memories).astype(np.float32)
    importances = chance.uniform(5, 120, memories).astype(np.float32)
    query = vectors[memories // 2]
    layer, one = (
        min_ms(
            lambda score=score: best(score(ages, importances, vectors @ query, 14.0), 5), repeats
        )  # type: ignore[misc]
        for score in (scores, scaled_scores)
    )
    return layer, one


def step(texts: int, repeats: int) -> tuple[float, float]:
    """Milliseconds of the first step of a memory with so many texts, and of a further one."""
    memory = LayeredMemory(parameter_set("investorbench"))

    def first() -> None:
        for number in range(texts):
            memory.add(
                "reflection",
                f"asset_0001 raised its outlook by {number} % and spoke of strong demand for what"
                " it makes",
            )
        memory.recall([MemoryQuery("news and reports about asset_0001")])

    def further() -> None:
        memory.add("short", "asset_0001 opened an office")
        memory.recall([MemoryQuery("news and reports about asset_0001")])
        memory.end_step()

    return min_ms(first, 1), min_ms(further, repeats)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--floats", default="384,1536")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    for floats in map(int, given.floats.split(",")):
        layer, one = retrieval(given.memories, floats, given.repeats)
        print(
            f"retrieval over {given.memories:,} memories of {floats} floats: {layer:.1f} ms, by one"
            f" score {one:.1f} ms"
        )
    first, further = step(given.texts, given.repeats)
    print(
        f"memory of {given.texts:,} texts: first step {first:.1f} ms, a further one"
        f" {further:.1f} ms"
    )


if __name__ == "__main__":
    main()
