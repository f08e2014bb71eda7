"""Model calls over HTTP beside the bare SDK and the loops of other suites, and the start of the
command line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import bench_calls
import bench_startup

from figures import Figure, Scale, Took, dearer, faster, median, skipped

GROUP = "calls"
_MAX_IN_PEERS = 50  # in flight: what the other suites take without settings of the machine


def figures(scale: Scale) -> list[Figure]:
    """Measure calls at fifty in flight, and at two hundred."""
    if scale == "quick":
        return [*_beside_sdk(5, 40, 4, 1, None), *_startup(1)]

    few = _beside_sdk(50, 2000, 50, 3, 1.15)
    many = _beside_sdk(1000, 2000 if scale == "full" else 800, 200, 1, 1.05)
    return [*few, *many, *_startup(7)]


def _beside_sdk(
    latency_ms: float, calls: int, in_flight: int, repeats: int, bar: float | None
) -> list[Figure]:
    callers = {
        "sdk": bench_calls.bare_sdk,
        "calls": bench_calls.client_calls,
        "episodes": bench_calls.episodes,
    }
    taken: dict[str, list[Took]] = {name: [] for name in callers}
    with bench_calls.stub_server(latency_ms) as port:
        for caller in callers.values():
            caller(port, in_flight, in_flight)  # imports and connections of the first time
        for _ in range(repeats):
            for name, caller in callers.items():
                taken[name].append(Took(*partial(caller, port, calls, in_flight)()))

        took = {name: median(times) for name, times in taken.items()}
        loops = []
        if in_flight <= _MAX_IN_PEERS:
            loops = _beside_loops(port, calls, in_flight, took)

    ideal_s = calls * latency_ms / 1000 / in_flight
    where = f"{calls:,} of {latency_ms:g} ms, {in_flight} in flight"
    found = []
    for name, words in (("calls", "calls, durable"), ("episodes", "whole episodes, durable")):
        note = (
            f"wall; ideal {ideal_s:.2f} s; CPU {took[name].cpu_s / calls * 1e3:.2f} ms against"
            f" {took['sdk'].cpu_s / calls * 1e3:.2f} ms a call"
            f" ({took[name].cpu_s / took['sdk'].cpu_s:.2f} x)"
        )
        peer = ("bare SDK on threads, nothing kept", took["sdk"].wall_s)
        own_bar = bar if name == "episodes" else None
        found.append(dearer(GROUP, f"{words}: {where}", took[name].wall_s, peer, own_bar, note))

    return [*found, *loops]


def _beside_loops(port: int, calls: int, in_flight: int, took: Mapping[str, Took]) -> list[Figure]:
    """Whole runs of other suites with as many calls, one a sample, where a Python with them is given;
    they start after ours, on the same server.
    """
    found = []
    for name, loop in bench_calls.LOOPS.items():
        words = f"whole episodes, durable, beside {name}: {calls:,} calls, {in_flight} in flight"
        python = os.environ.get(loop.variable, "")
        peers = os.environ.get("KTDEVAL_PEERS", "")
        if not python or not peers:
            need = f"set {loop.variable} (a Python with {loop.package}) and KTDEVAL_PEERS"
            found.append(skipped(GROUP, words, f"{need} (its scripts)"))
            continue

        seconds = bench_calls.peer(
            python, Path(peers) / loop.script, port, loop.arguments(calls, in_flight)
        )
        if seconds is None:
            found.append(skipped(GROUP, words, f"{loop.script} failed with this Python"))
            continue

        note = "wall, without the start of either; ours keeps each reply durably and trades"
        found.append(faster(GROUP, words, took["episodes"].wall_s, (name, seconds), None, note))

    return found


def _startup(rounds: int) -> list[Figure]:
    best = bench_startup.measure(rounds)
    base = (bench_startup.BASE, best[bench_startup.BASE].cpu_s)
    names = ("ktdeval --help", "ktdeval tasks")
    return [dearer("start", name, best[name].cpu_s, base, None, "CPU time") for name in names]
