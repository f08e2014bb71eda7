"""Figures of benchmarks as typed values: a measurement beside its peer in the same run, the facts of
the machine, a report of them, and how two sides are timed in turns.
"""

from __future__ import annotations

import math
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import structs

import ktdeval
from ktdeval.stores import git_around
from ktdeval.values import Value

REPOSITORY = Path(__file__).resolve().parents[1]
Direction = Literal["at_least", "at_most"]
Scale = Literal["quick", "usual", "full"]
"""How large the benchmarks are: `quick` shows that they work, `full` takes the sizes of the bars."""

_NAMED_PACKAGES = ("numpy", "pandas", "scipy", "statsmodels", "openai")


class Figure(Value):
    """One measurement, and what it is compared with."""

    group: str  #: the benchmark, such as `kernels`
    name: str  #: what was measured
    ours: float | None  #: measured, in `unit`; None if it was skipped
    unit: str  #: of `ours` and `peer`
    peer_name: str  #: what it stands beside; empty for an exponent
    peer: float | None  #: measured in the same run, in turns
    #: how many times better than the peer (or, with `at_most`, how many times more it takes); an
    #: exponent as it is
    ratio: float | None
    bar: float | None  #: what the ratio should reach, or stay within; None without one
    direction: Direction  #: how the ratio is compared with the bar
    note: str  #: how it was measured, or why it was skipped
    #: least and largest ratio of a pair; `ratio` is the median. None for what has no pairs
    spread: tuple[float, float] | None = None
    pairs: int = 0  #: pairs of measurements, one right after the other

    @property
    def holds(self) -> bool | None:
        """Whether the ratio meets its bar; None without a bar or a ratio."""
        if self.ratio is None or self.bar is None:
            return None
        if self.direction == "at_least":
            return self.ratio >= self.bar
        return self.ratio <= self.bar


class Machine(Value):
    """Facts of the machine that a run depends on."""

    system: str
    processor: str
    cores: int
    memory_gib: float
    load_before: float  #: processes that wanted a core in the minute before, of the whole machine
    load_after: float
    python: str
    packages: dict[str, str]  #: name -> version


class Report(Value):
    """One run of all benchmarks."""

    version: Literal[1]
    at: str  #: when it began, ISO 8601 in UTC
    revision: str  #: of the sources, as git describes it; `unknown` outside of a repository
    suite_version: str
    scale: Scale
    machine: Machine
    figures: tuple[Figure, ...]


class Took(NamedTuple):  # a tuple: wall and CPU seconds are unpacked
    """Seconds of one side in one turn."""

    wall_s: float
    cpu_s: float


#: Seconds of each turn, of one side
Turns = Sequence[float]


def in_turns(repeats: int, sides: Mapping[str, Callable[[], object]]) -> dict[str, list[Took]]:
    """Run the sides in turns, so that a busy minute hits all of them.

    CPU time is that of this process, all its threads.
    """
    times: dict[str, list[Took]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            wall = time.perf_counter()
            cpu = time.process_time()
            side()
            took = Took(time.perf_counter() - wall, time.process_time() - cpu)
            times[name].append(took)

    return times


def cpu_s(taken: Sequence[Took]) -> list[float]:
    """Return the CPU seconds of each turn."""
    return [took.cpu_s for took in taken]


def wall_s(taken: Sequence[Took]) -> list[float]:
    """Return the wall seconds of each turn."""
    return [took.wall_s for took in taken]


def faster(
    group: str, name: str, ours: Turns, peer: tuple[str, Turns], bar: float | None, note: str = ""
) -> Figure:
    """Return a figure whose ratio is the peer's seconds over ours, turn by turn."""
    ratios = [theirs / own for own, theirs in zip(ours, peer[1], strict=True)]
    figure = _of_pairs(group, name, ours, peer, ratios)
    return structs.replace(figure, bar=bar, direction="at_least", note=note)


def dearer(
    group: str, name: str, ours: Turns, peer: tuple[str, Turns], bar: float | None, note: str = ""
) -> Figure:
    """Return a figure whose ratio is our seconds over the peer's, turn by turn."""
    ratios = [own / theirs for own, theirs in zip(ours, peer[1], strict=True)]
    figure = _of_pairs(group, name, ours, peer, ratios)
    return structs.replace(figure, bar=bar, direction="at_most", note=note)


def _of_pairs(group: str, name: str, ours: Turns, peer: tuple[str, Turns], ratios: Turns) -> Figure:
    """Return a figure with the medians of both sides and of the ratios, and their spread."""
    return Figure(
        group=group,
        name=name,
        ours=statistics.median(ours),
        unit="s",
        peer_name=peer[0],
        peer=statistics.median(peer[1]),
        ratio=statistics.median(ratios),
        bar=None,
        direction="at_least",
        note="",
        spread=(min(ratios), max(ratios)),
        pairs=len(ratios),
    )


def growth(name: str, sizes: Sequence[float], costs: Sequence[float], note: str = "") -> Figure:
    """Return the exponent of a cost: the slope of its logarithm over that of the size, between the
    smallest and the largest.
    """
    exponent = math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])
    steps = ", ".join(f"{size:,.0f}: {cost:.3g} s" for size, cost in zip(sizes, costs, strict=True))
    return Figure(
        group="growth",
        name=name,
        ours=exponent,
        unit="exponent",
        peer_name="",
        peer=None,
        ratio=exponent,
        bar=1.1,
        direction="at_most",
        note=f"{steps}; {note}".removesuffix("; "),
    )


def skipped(group: str, name: str, reason: str) -> Figure:
    """Return a figure that could not be measured here."""
    return Figure(
        group=group,
        name=name,
        ours=None,
        unit="",
        peer_name="",
        peer=None,
        ratio=None,
        bar=None,
        direction="at_least",
        note=f"skipped: {reason}",
    )


def machine_facts(load_before: float) -> Machine:
    """Return what this machine is."""
    packages = {}
    for name in _NAMED_PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "missing"

    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        memory_gib=round(pages / 2**30, 1),
        load_before=round(load_before, 2),
        load_after=round(os.getloadavg()[0], 2),
        python=platform.python_version(),
        packages=packages,
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"

    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), "unknown")


def revision() -> str:
    """Return the sources' revision."""
    git = git_around(REPOSITORY)
    described = None if git is None else git.answer("describe", "--always", "--dirty")
    return "unknown" if described is None else described.decode("ascii").strip()


def suite_version() -> str:
    """Return the version of ktdeval."""
    return str(ktdeval.__version__)


def children_cpu_s() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
