"""Measure which faults the tests of a room would notice: `make mutants ROOM=trading`.

mutmut 3 and cosmic-ray start pytest for each mutant, which takes ten times as long here: these are
all woven into the modules (`mutant_hook.py`), and a forked process plays the tests that reach one.

Limits. A fault is active inside functions only, and not yet when modules are imported as tests are
collected. A process that a test starts gets the fault from its environment, so one with an
environment of its own has none. Each mutant is given tests that took at most `MAX_SECONDS`, the
quickest first. So a survivor may yet die by a slower test (`SLOW=1` tries those that are marked
slow) or by one of another room.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import mutant_hook
from mutant_hook import Switch, read_mutants, write_mutants
from mutant_play import Played, play
from mutant_rooms import COUNT, Room, choose, find_place, find_room
from mutant_sites import Mutant

HERE = Path(__file__).resolve().parent
MAX_SECONDS = 30.0
PATIENCE = 20.0  # seconds, and ten times what a test took: then it does not end
KILLERS = ("killed_by_boundary", "killed_by")


def name_of(test: str) -> str:
    """Return a test's name without its folder, which moves: `test_fees.py::test_a_fee[sell]`."""
    path, colons, rest = test.partition("::")
    return Path(path).name + colons + rest


class Measurement:
    """What pytest does instead of running tests: it plays them for each mutant."""

    def __init__(self, room: Room, mutants: Sequence[Mutant], switch: Switch) -> None:
        self.room = room
        self.mutants = list(mutants)
        self.switch = switch
        self.search = False  # for killers of those without one
        self.slow = False  # whether slow tests are tried, too
        self.patience = PATIENCE
        self.is_own = False  # whether only the room's own tests are tried
        self.failing: set[str] = set()
        self.reached: set[int] = set()

    @pytest.hookimpl(trylast=True)  # conftest adds markers
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what `make test` leaves out, but no slow killer or test of the boundary."""
        killers = {getattr(each, name) for each in self.mutants for name in KILLERS}
        items[:] = [
            item
            for item in items
            if not item.get_closest_marker("exhaustive")
            and (
                self.slow
                or not item.get_closest_marker("slow")
                or self._is_boundary(item)
                or name_of(item.nodeid) in killers
            )
        ]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Confirm the killers that are stored, then look for others where they fail."""
        boundary = [each for each in session.items if self._is_boundary(each)]
        others = [each for each in session.items if not self._is_boundary(each)]
        stored = self.mutants
        if any(each.killed_by for each in stored):
            self.mutants = self._confirm(session.items)

        for name, items in (("killed_by_boundary", boundary), ("killed_by", others)):
            self._search(name, items, stored)
        self.mutants = [
            replace(each, killed_by=each.killed_by or each.killed_by_boundary)
            for each in self.mutants
        ]
        return True

    def _is_boundary(self, item: pytest.Item) -> bool:
        return any(item.path.is_relative_to(place) for place in self.room.boundary)

    def _confirm(self, items: Iterable[pytest.Item]) -> list[Mutant]:
        """Play the stored killers of each mutant, and keep those that still are."""
        by_name = {name_of(item.nodeid): item for item in items}
        stored = {getattr(each, name) for each in self.mutants for name in KILLERS}
        record = self._record([by_name[name] for name in sorted(stored & set(by_name))])
        confirmed = []
        for number, mutant in enumerate(self.mutants):
            killers = {}
            for name in KILLERS:
                tests = [by_name[test] for test in [getattr(mutant, name)] if test in record]
                killers[name] = self._killer(number, tests, record)
            confirmed.append(replace(mutant, **killers))
        return confirmed

    def _search(self, name: str, items: Sequence[pytest.Item], stored: Sequence[Mutant]) -> None:
        """Find a test that kills each mutant without a killer; stored survivors are passed over
        where none are asked for.
        """
        open_ones = [
            number
            for number, mutant in enumerate(self.mutants)
            if not getattr(mutant, name) and (self.search or getattr(stored[number], name))
        ]
        if not open_ones or not items:
            return

        record = self._record(items)
        for number in open_ones:
            chosen = _tests_of(number, items, record)
            killer = self._killer(number, chosen, record)
            self.mutants[number] = replace(self.mutants[number], **{name: killer})
            print(".K"[bool(killer)], end="", file=sys.stderr, flush=True)

    def _record(self, items: Sequence[pytest.Item]) -> dict[str, Played]:
        """Play tests without a mutant; those that fail are left out by name."""
        found = {}
        rest = list(items)
        while rest:
            with closing(play(rest, self.switch, None, {})) as plays:
                for played in plays:
                    rest = rest[1:]
                    self.reached |= set(played.reached)
                    if played.is_passed:
                        found[name_of(played.test)] = played
                    elif played.test not in self.failing:
                        self.failing.add(played.test)
                        print(f"\nleft out, as it fails without a mutant: {played.test}")
        return found

    def _killer(self, number: int, items: Sequence[pytest.Item], record: dict[str, Played]) -> str:
        if not items:
            return ""

        limits = {}
        for item in items:
            limits[item.nodeid] = self.patience + 10 * record[name_of(item.nodeid)].seconds
        with closing(play(items, self.switch, number, limits)) as plays:
            for played in plays:
                if not played.is_passed:
                    return name_of(played.test)
        return ""


def _tests_of(
    number: int, items: Sequence[pytest.Item], record: dict[str, Played]
) -> list[pytest.Item]:
    """Return the tests that reach a mutant, file by file, the quickest first; then the others of
    those files, for which a fixture or a cache may have reached it.
    """
    timed = [item for item in items if name_of(item.nodeid) in record]
    by_file: dict[Path, list[pytest.Item]] = {}
    for item in timed:
        by_file.setdefault(item.path, []).append(item)

    def seconds(item: pytest.Item) -> float:
        return record[name_of(item.nodeid)].seconds

    reaching = []
    rest = []
    for tests in by_file.values():
        near = [item for item in tests if number in record[name_of(item.nodeid)].reached]
        if near:
            reaching.append(sorted(near, key=seconds))
            rest += [item for item in tests if item not in near]

    reaching.sort(key=lambda tests: seconds(tests[0]))
    chosen: list[pytest.Item] = []
    left = MAX_SECONDS
    for item in [*(item for tests in reaching for item in tests), *rest]:
        left -= seconds(item)
        if left > 0 or not chosen:
            chosen.append(item)
    return chosen


def measure(measurement: Measurement) -> None:
    """Play a room's tests for its mutants."""
    room = measurement.room
    sys.path.insert(0, str(room.repository / room.root))
    options = ["--assert=plain", "-qq", "--no-header", "--no-summary", "-o", "addopts="]
    for plugin in ("schemathesis", "cacheprovider", "xdist"):
        options += ["-p", f"no:{plugin}"]

    boundary = [] if measurement.is_own else room.boundary
    places = [str(place) for place in [*boundary, *room.tests]]
    options += ["--rootdir", str(room.repository), *places]
    code = pytest.main(options, plugins=[measurement])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"mutants: pytest ended with {code!r}")


# ---- the command


def summary(name: str, mutants: Sequence[Mutant]) -> str:
    """Return a room's line of the table."""
    boundary = sum(bool(each.killed_by_boundary) for each in mutants)
    killed = sum(bool(each.killed_by) for each in mutants)
    return f"{name:<28} {len(mutants):>7} {boundary:>18} {killed:>13}"


HEAD = f"{'room':<28} {'mutants':>7} {'killed by boundary':>18} {'killed by all':>13}"


def compare(before: Sequence[Mutant], after: Sequence[Mutant]) -> Iterable[str]:
    """Yield what no longer holds: a killer was stored, and the mutant survives."""
    for stored, found in zip(before, after, strict=True):
        for name in KILLERS:
            killer = getattr(stored, name)
            if killer and not getattr(found, name):
                yield f"survives ({name.replace('_', ' ')} {killer}): {stored}"


def draw(room: Room, kept: Path, count: int = COUNT, seed: str = "") -> list[Mutant]:
    """Draw mutants, and add survivors of earlier rounds, which a table lists."""
    drawn = choose(room, count, seed)
    if kept.exists():
        drawn += [each for each in read_mutants(kept) if each.module in room.files]
    return list(dict.fromkeys(drawn))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a room's stored mutants, or choose them anew."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__.splitlines()[0])
    parser.add_argument("room", nargs="?", help="a package; without it: the stored figures of all")
    parser.add_argument("--choose", action="store_true", help="choose mutants anew and store them")
    parser.add_argument("--search", action="store_true", help="look for killers of survivors, too")
    parser.add_argument(
        "--seed",
        default="",
        help="draw by it: tries others than the stored ones and stores none, or all with --choose",
    )
    parser.add_argument("--slow", action="store_true", help="try tests that are marked slow, too")
    parser.add_argument("--own", action="store_true", help="leave out the tests of the boundary")
    parser.add_argument("--count", type=int, default=COUNT, help="how many are drawn")
    parser.add_argument("--repository", type=Path, default=HERE.parents[1])
    parser.add_argument("--stored", type=Path, default=HERE / "stored")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds")
    given = parser.parse_args(arguments)
    if given.room is None:
        print(HEAD)
        for path in sorted(given.stored.glob("*.csv")):
            print(summary(path.stem, read_mutants(path)))
        return 0

    room = find_room(given.room, given.repository.resolve())
    path = given.stored / f"{given.room}.csv"
    if given.choose:
        stored = draw(room, given.stored.parent / "kept.csv", given.count, given.seed)
    elif given.seed:
        stored = choose(room, given.count, given.seed)
    elif path.exists():
        stored = read_mutants(path)
    else:
        raise SystemExit(f"mutants: {path} is missing: choose mutants with CHOOSE=1")

    places = {each: find_place(room, each) for each in stored}
    missing = [each for each, place in places.items() if place is None]
    there = [place for place in places.values() if place is not None]
    with tempfile.TemporaryDirectory(prefix="ktdeval-mutants-") as folder:
        measurement = Measurement(room, there, mutant_hook.install(there, Path(folder)))
        measurement.search = bool(given.choose or given.search or given.seed)
        measurement.slow = given.slow
        measurement.patience = given.patience
        measurement.is_own = given.own
        measure(measurement)

    if measurement.search and (given.choose or not given.seed):
        write_mutants(path, [*measurement.mutants, *missing])
    return report(measurement, there, missing)


def report(measurement: Measurement, stored: Sequence[Mutant], missing: Sequence[Mutant]) -> int:
    """Print what was found; return 1 if a stored killer no longer kills or a place is lost."""
    found = measurement.mutants
    print(f"\n{HEAD}\n{summary(measurement.room.name, found)}\n")
    for number, mutant in enumerate(found):
        if not mutant.killed_by:
            is_reached = number in measurement.reached or not measurement.search
            print(f"survivor{'' if is_reached else ', reached by no test'}: {mutant}")

    faults = [f"not in the code any more: {mutant}" for mutant in missing]
    faults += compare(stored, found)
    for fault in faults:
        print(fault)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
