"""Every benchmark beside its peer, in one command.

    python benchmarks/all.py [--quick | --full] [--only kernels,calls,growth,gym] [--json FILE]

Each suite is a process of its own, so that neither its memory nor its threads reach the next. Both
sides of a ratio take turns in one run: a busy minute hits both. CPU time is compared where the work
is computing, wall time where it is waiting. The report is printed, written to `--json`, and appended
to `benchmarks/history.jsonl`, of which `benchmarks/history.md` is the page; `--no-history` leaves
both as they are, and `--quick` never touches them.

Peers that are no dependencies are named by options or environment variables: `--qlib-python`
(`KTDEVAL_QLIB_PYTHON`), a Python with pyqlib; `KTDEVAL_BACKTESTS_PYTHON`, one with vectorbt and bt;
`KTDEVAL_INSPECT_PYTHON` and `KTDEVAL_LMEVAL_PYTHON`, with inspect-ai and lm-eval; and `--peers`
(`KTDEVAL_PEERS`), the folder of the scripts that run them (`benchmarks/README.md`).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from figures import Figure, Machine, Report, Scale, machine_facts, revision, suite_version
from history import HISTORY, PAGE, append, write_page, write_schema
from msgspec import structs

from ktdeval.values import decode_json, encode_canonical

SUITES = ("kernels", "calls", "growth", "gym")
#: environment variables of paths to peers, by option
PEERS = {
    "qlib_python": "KTDEVAL_QLIB_PYTHON",
    "backtests_python": "KTDEVAL_BACKTESTS_PYTHON",
    "inspect_python": "KTDEVAL_INSPECT_PYTHON",
    "lmeval_python": "KTDEVAL_LMEVAL_PYTHON",
    "peers": "KTDEVAL_PEERS",
}


def name_peers(options: argparse.Namespace) -> None:
    """Set the environment variables of peers to absolute paths, as suites run in other folders. A
    link to a Python is kept, since an environment is known by it.
    """
    for option, variable in PEERS.items():
        path = getattr(options, option) or os.environ.get(variable)
        if path:
            os.environ[variable] = str(Path(path).absolute())


def measure_suite(name: str, scale: Scale) -> list[Figure]:
    """Run one suite in a process of its own. Raises SystemExit: it failed."""
    with TemporaryDirectory() as folder:
        found = Path(folder) / "figures.json"
        words = [sys.executable, __file__, "--suite", name, "--scale", scale, "--json", str(found)]
        # one core a side: what is compared is the work, not how many cores a library takes
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(words, env=environment, check=False)
        if done.returncode:
            raise SystemExit(f"suite {name} failed with exit status {done.returncode}")

        return list(decode_json(found.read_bytes(), tuple[Figure, ...], name))


def run_suite(name: str, scale: Scale, out: Path) -> None:
    """Measure a suite in this process and write its figures."""
    measured: list[Figure] = import_module(f"suite_{name}").figures(scale)
    out.write_text(encode_canonical(measured), encoding="utf-8")


def measure(names: Iterable[str], scale: Scale) -> Report:
    """Measure the named suites, one after the other."""
    began = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    load = os.getloadavg()[0]
    measured: list[Figure] = []
    for name in names:
        found = measure_suite(name, scale)
        if scale == "quick":  # at tiny sizes figures say nothing
            found = [structs.replace(figure, bar=None) for figure in found]

        for figure in found:
            print_figure(figure)
        measured += found

    return Report(
        version=1,
        at=began,
        revision=revision(),
        suite_version=suite_version(),
        scale=scale,
        machine=machine_facts(load),
        figures=tuple(measured),
    )


def print_figure(figure: Figure) -> None:
    """Print a figure, and how it was measured."""
    print(f"{figure.group:8} {figure.name}: {_words(figure)}")
    if figure.note and figure.ours is not None:
        print(f"{'':8}   {figure.note}")
    sys.stdout.flush()


def print_machine(machine: Machine) -> None:
    """Print the facts of the machine."""
    print(
        f"{machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system},"
        f" Python {machine.python}; load {machine.load_before} before, {machine.load_after} after"
    )


def _words(figure: Figure) -> str:
    if figure.ratio is None or figure.ours is None:
        return figure.note

    if figure.peer is None:
        words = f"{figure.ratio:.2f}"
    else:
        words = f"{figure.ratio:.2f} x {figure.peer_name}"
        words += f" ({figure.ours:.4g} against {figure.peer:.4g} {figure.unit})"
        if figure.spread is not None:
            low, high = figure.spread
            words += f", {figure.pairs} pairs from {low:.2f} to {high:.2f}"

    if figure.bar is not None:
        sign = "≥" if figure.direction == "at_least" else "≤"
        verdict = "holds" if figure.holds else "MISSED"
        words += f"; bar {sign} {figure.bar:g}: {verdict}"

    return words


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="tiny sizes: whether all of it works")
    sizes.add_argument("--full", action="store_true", help="the sizes of the bars: takes hours")
    parser.add_argument("--only", default=",".join(SUITES), help="suites, separated by commas")
    parser.add_argument("--json", type=Path, help="write the report to this file")
    parser.add_argument("--no-history", action="store_true", help="do not keep the report")
    parser.add_argument("--page", action="store_true", help="only write page and schema again")
    for option, variable in PEERS.items():
        parser.add_argument(f"--{option.replace('_', '-')}", metavar="PATH", help=variable)
    parser.add_argument("--suite", choices=SUITES, help=argparse.SUPPRESS)
    parser.add_argument("--scale", choices=get_args(Scale), help=argparse.SUPPRESS)
    options = parser.parse_args()

    if options.suite:
        run_suite(options.suite, options.scale, options.json)
        return
    if options.page:
        write_schema()
        write_page()
        return

    name_peers(options)
    names = options.only.split(",")
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        parser.error(f"no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")

    scale: Scale = "usual"
    if options.quick:
        scale = "quick"
    elif options.full:
        scale = "full"

    report = measure(names, scale)
    print_machine(report.machine)
    if options.json:
        options.json.write_text(encode_canonical(report) + "\n", encoding="utf-8")
    if scale != "quick" and not options.no_history:
        append(report)
        write_page()
        print(f"kept in {HISTORY.name}, shown in {PAGE.name}")


if __name__ == "__main__":
    main()
