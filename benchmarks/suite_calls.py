"""Model calls over HTTP beside the bare SDK and the loops of other suites, and the start of the
command line.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import bench_calls
import bench_startup
from figures import Figure, Scale, Took, cpu_s, dearer, faster, skipped, wall_s

GROUP = "calls"
PAIRS = 5
_MAX_IN_PEERS = 50  # in flight: what the other suites take without settings of the machine


def figures(scale: Scale) -> list[Figure]:
    """Measure calls at fifty in flight, and at two hundred."""
    if scale == "quick":
        return [*_beside_sdk(5, 40, 4, 1, None), *_startup(1)]

    few = _beside_sdk(50, 2000, 50, PAIRS, 1.2)
    many = _beside_sdk(1000, 2000 if scale == "full" else 800, 200, PAIRS, 1.05)
    return [*few, *many, *_startup(PAIRS)]


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

        loops = []
        if in_flight <= _MAX_IN_PEERS:
            loops = _beside_loops(port, calls, in_flight, wall_s(taken["episodes"]))

    ideal_s = calls * latency_ms / 1000 / in_flight
    where = f"{calls:,} of {latency_ms:g} ms, {in_flight} in flight"
    found = []
    for name, words in (("calls", "calls, durable"), ("episodes", "whole episodes, durable")):
        own_bar = bar if name == "episodes" else None
        sdk = "bare SDK on threads, nothing kept"
        for clock, seconds in (("wall", wall_s), ("CPU", cpu_s)):
            peer = (sdk, seconds(taken["sdk"]))
            note = f"{clock} time; the wall of an ideal client is {ideal_s:.2f} s"
            own = seconds(taken[name])
            kept_bar = own_bar if clock == "wall" else None
            found.append(dearer(GROUP, f"{words}: {where}, {clock}", own, peer, kept_bar, note))

    return [*found, *loops]


def _beside_loops(
    port: int, calls: int, in_flight: int, episodes_s: Sequence[float]
) -> list[Figure]:
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

        arguments = loop.arguments(calls, in_flight)
        seconds = []
        for _ in episodes_s:
            took_s = bench_calls.peer(python, Path(peers) / loop.script, port, arguments)
            if took_s is None:
                break
            seconds.append(took_s)

        if len(seconds) < len(episodes_s):
            found.append(skipped(GROUP, words, f"{loop.script} failed with this Python"))
            continue

        note = "wall, without the start of either; ours keeps each reply durably and trades"
        found.append(faster(GROUP, words, episodes_s, (name, seconds), None, note))

    return found


def _startup(rounds: int) -> list[Figure]:
    taken = bench_startup.measure(rounds)
    base = (bench_startup.BASE, cpu_s(taken[bench_startup.BASE]))
    names = ("ktdeval --help", "ktdeval list tasks")
    return [dearer("start", name, cpu_s(taken[name]), base, None, "CPU time") for name in names]
