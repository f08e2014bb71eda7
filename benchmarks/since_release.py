"""What this tree costs beside the last release: processor time of the usual commands, in pairs.

    python benchmarks/since_release.py                 # the last release, or the commit SINCE
    python benchmarks/since_release.py --base e12c72fe  # a named commit
    python benchmarks/since_release.py --only run,judge --pairs 5

The other commit is checked out into a temporary folder, and its packages come before those of this
environment: both sides use the same Python and the same libraries. Each command is a process of its
own, and the sides take turns, so that a busy minute hits both. Processor time is user and system of
the process and its children. A ratio above 1.1 is marked: it needs a reason in a commit. Outside of
a git repository, or where the commit is not in its history, a line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
from bench_growth import write_market
from figures import (
    REPOSITORY,
    Figure,
    children_cpu_s,
    dearer,
    machine_facts,
    revision,
    skipped,
)

from ktdeval.stores import git_around
from ktdeval.stores.git_commands import Git

#: Compared with until there is a release
SINCE = "e12c72fef"
LIMIT = 1.1  #: a ratio above it is marked
EPISODES = 12
_STEPS = 30  #: of an episode
_NAMES, _DAYS = 300, 750  #: of the market that is imported
_JUDGED_DAYS, _HELD = 40, 30  #: decisions of a judged file: days, and names held on each
_LOGGED, _SHOWN = 40, 30  #: decisions of an audited log, and assets shown to each
_TASK = "blinded_open_research"
_RUN = (
    *("run", "--model", "builtin/momentum", "--tasks", _TASK),
    *("--windows", "W1,W2,W3", "--seeds", str(EPISODES // 3), "--quiet"),
)


class Unusable(Exception):
    """A command of one side failed."""


@dataclass(frozen=True)
class Side:
    """One of the two trees, and the folder for what its commands write."""

    name: str
    tree: Path
    folder: Path

    def run(self, words: Sequence[str], codes: Sequence[int] = (0,)) -> float:
        """Return the processor seconds of a command of this tree. Raises Unusable."""
        before = children_cpu_s()
        done = subprocess.run(
            [sys.executable, "-m", "ktdeval", *words],
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise Unusable(f"{self.name}: ktdeval {words[0]} failed: {' '.join(last)}")

        return children_cpu_s() - before

    def _environment(self) -> dict[str, str]:
        rooms = ("", "tasks", "plugins", "plugins/kits")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(str(self.tree / room) for room in rooms),
            "KTDEVAL_CACHE_DIR": str(self.folder / "cache"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }


@dataclass(frozen=True)
class Inputs:
    """Files that both sides read."""

    bars: Path
    index: Path
    decisions: Path
    log: Path

    @classmethod
    def write(cls, folder: Path) -> Inputs:
        """Write a market, decisions on it and the log of an agent, from a seed."""
        write_market(folder, _NAMES, _DAYS)
        inputs = cls(
            bars=folder / "bars.parquet",
            index=folder / "index.csv",
            decisions=folder / "decisions.csv",
            log=folder / "log.jsonl",
        )
        closes = pq.read_table(inputs.bars, columns=["date", "code", "close"]).to_pandas()
        days = sorted(closes["date"].unique())
        by_day = dict(iter(closes.groupby("date")))

        rows = ["date,code,weight"]
        for turn, day in enumerate(days[-_JUDGED_DAYS - 1 : -1]):
            codes = by_day[day]["code"].to_numpy()
            for place in range(_HELD):
                code = codes[(turn + place) % len(codes)]
                rows.append(f"{day:%Y-%m-%d},{code},{0.9 / _HELD:.4f}")
        inputs.decisions.write_text("\n".join(rows) + "\n", encoding="utf-8")

        lines = []
        for day in days[-_LOGGED - 30 : -30]:
            shown = by_day[day].head(_SHOWN)
            table = [f"{code} closed at {close}" for code, close in shown[["code", "close"]].values]
            messages = [
                {"role": "user", "content": "\n".join([f"Today is {day:%Y-%m-%d}.", *table])},
                {"role": "assistant", "content": f"Buy {shown['code'].iloc[0]}."},
            ]
            metadata = {"decided_on": f"{day:%Y-%m-%d}"}
            lines.append(json.dumps({"messages": messages, "metadata": metadata}))
        inputs.log.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return inputs


#: processor seconds of each kind of work, of one side in one turn
Measure = Callable[[Side], float]


def works(inputs: Inputs) -> dict[str, Measure]:
    """Return what is measured, by name. Later ones read what earlier ones write."""
    short = (*_RUN, "--limit", "1")
    whole = (*_RUN, "--limit", str(_STEPS))
    bars = ("data", "make", "long", "--bars", str(inputs.bars), "--benchmark", str(inputs.index))
    card = f"run/cards/{_TASK}.json"
    market = ("--data", "market")
    return {
        "start": lambda side: side.run(["--help"]),
        "begin": lambda side: side.run([*short, "--out", _fresh(side, "short")]),
        "run": lambda side: side.run([*whole, "--out", _fresh(side, "run")]),
        "verify": lambda side: side.run(["card", "verify", card]),
        "import": lambda side: side.run([*bars, "--out", _fresh(side, "market")]),
        "judge": lambda side: side.run(
            ["judge", str(inputs.decisions), *market, "--out", _fresh(side, "judged")]
        ),
        # findings end in 1
        "audit": lambda side: side.run(["audit", str(inputs.log), *market], codes=(0, 1)),
    }


LABELS = {
    "start": "ktdeval --help",
    "begin": f"a run of {EPISODES} episodes, one step each",
    "run": f"a run of {EPISODES} keyless episodes, {_STEPS} steps each",
    "step": "a step of them",
    "verify": "card verify",
    "import": f"import of {_NAMES} names × {_DAYS:,} days",
    "judge": f"judge of {_JUDGED_DAYS * _HELD:,} decisions",
    "audit": f"audit of {_LOGGED} decisions",
}


def _fresh(side: Side, name: str) -> str:
    """Return the name of a folder of this side that is not there yet."""
    shutil.rmtree(side.folder / name, ignore_errors=True)
    return name


def measure(
    ours: Side, base: Side, inputs: Inputs, pairs: int, only: Sequence[str]
) -> list[Figure]:
    """Return a figure for each kind of work: processor seconds here over those of the base."""
    wanted = _needed(only)
    taken: dict[str, dict[str, list[float]]] = {}
    problems: dict[str, str] = {}
    for turn in range(pairs + 1):  # the first one fills caches, and compiles
        sides = (ours, base) if turn % 2 else (base, ours)
        for name, work in works(inputs).items():
            if name not in wanted or name in problems:
                continue

            for side in sides:
                try:
                    seconds = work(side)
                except Unusable as error:
                    if side is ours:
                        raise SystemExit(str(error)) from error
                    problems[name] = str(error)
                    break

                if turn:
                    taken.setdefault(name, {}).setdefault(side.name, []).append(seconds)

    return list(_figures(taken, problems, ours.name, base.name, only))


def _needed(only: Sequence[str]) -> set[str]:
    """Return the kinds of work that are needed to measure those named."""
    needed = set(only)
    if "step" in needed:
        needed |= {"begin", "run"}
    if "verify" in needed:
        needed.add("run")
    if needed & {"judge", "audit"}:
        needed.add("import")

    return needed


def _figures(
    taken: dict[str, dict[str, list[float]]],
    problems: dict[str, str],
    ours: str,
    base: str,
    only: Sequence[str],
) -> list[Figure]:
    if "begin" in taken and "run" in taken:
        taken["step"] = {
            side: steps_s(taken["run"][side], taken["begin"][side]) for side in (ours, base)
        }

    found = []
    for name, label in LABELS.items():
        if name not in only:
            continue
        if name in taken and name not in problems:
            turns = taken[name]
            found.append(dearer("since", label, turns[ours], (base, turns[base]), LIMIT))
        else:
            found.append(skipped("since", label, problems.get(name, "what it needs failed")))

    return found


def steps_s(whole: Sequence[float], begun: Sequence[float]) -> list[float]:
    """Return the seconds of a step by turn: of whole runs, less those with one step an episode."""
    steps = EPISODES * (_STEPS - 1)
    return [(all_s - one_s) / steps for all_s, one_s in zip(whole, begun, strict=True)]


def figure_line(figure: Figure) -> str:
    """Return a figure as a line; a ratio above the limit is marked."""
    if figure.ratio is None or figure.peer is None or figure.spread is None:
        return f"{figure.name:<48} {figure.note}"

    low, high = figure.spread
    line = (
        f"{figure.name:<48} {figure.ratio:5.2f} × ({low:.2f} to {high:.2f})"
        f"  {figure.ours:.4g} / {figure.peer:.4g} s"
    )
    if not figure.holds:
        line += f"  ABOVE {LIMIT}: give the reason in a commit"

    return line


# ---- the other commit


def base_of(git: Git, named: str | None) -> str | None:
    """Return the commit to compare with: the named one, the last release, or `SINCE`; None if it is
    not in the history here.
    """
    wanted = named
    if wanted is None:
        tag = git.answer("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*")
        wanted = SINCE if tag is None else tag.decode().strip()

    found = git.answer(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{wanted}^{{commit}}"
    )
    return None if found is None else found.decode().strip()


def check_out(git: Git, commit: str, folder: Path) -> Path:
    """Write the files of a commit to a new folder, and return it."""
    archive = folder.with_suffix(".tar")
    archive.write_bytes(git.read("archive", "--format=tar", commit))
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")

    archive.unlink()
    return folder


def compare(git: Git, commit: str, pairs: int, only: Sequence[str]) -> None:
    """Print a line for each kind of work."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="ktdeval-since-") as name:
        folder = Path(name)
        tree = check_out(git, commit, folder / "tree")
        sides = []
        for side, where in (("here", REPOSITORY), (commit[:9], tree)):
            (folder / side).mkdir()
            sides.append(Side(side, where, folder / side))

        (folder / "inputs").mkdir()
        inputs = Inputs.write(folder / "inputs")
        found = measure(sides[0], sides[1], inputs, pairs, only)

    machine = machine_facts(load)
    print(
        f"{revision()} against {commit[:9]}: processor time, pairs: {pairs}; {machine.processor},"
        f" {machine.cores} cores, load {machine.load_before} before, {machine.load_after} after"
    )
    for figure in found:
        print(figure_line(figure))


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare, or say why not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", metavar="COMMIT", help="compare with this commit or tag")
    parser.add_argument("--pairs", type=int, default=2, help="pairs of measurements [default: 2]")
    parser.add_argument(
        "--only", default=",".join(LABELS), help=f"kinds of work: {', '.join(LABELS)}"
    )
    options = parser.parse_args(arguments)
    only = options.only.split(",")
    unknown = sorted(set(only) - LABELS.keys())
    if unknown:
        parser.error(f"no work {', '.join(unknown)}; there are {', '.join(LABELS)}")
    if options.pairs < 1:
        parser.error("--pairs: at least one")

    git = git_around(REPOSITORY)
    if git is None:
        print("not compared: there is no git history here")
        return

    commit = base_of(git, options.base)
    if commit is None:
        if options.base is not None:
            parser.error(f"--base: no commit {options.base} in the history here")
        print(f"not compared: the history here has neither a release nor the commit {SINCE}")
        return

    compare(git, commit, options.pairs, only)


if __name__ == "__main__":
    main()
