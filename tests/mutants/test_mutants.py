"""Mutants are drawn, woven in, killed and reported: on functions of one line and on a package with
planted faults.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import try_unseen
from mutant_hook import read_mutants, write_mutants
from mutant_rooms import choose, find_place, find_room
from mutant_sites import IS_ACTIVE, Mutant, faults_of, is_there, semantic_faults_of, weave

RUN = Path(__file__).with_name("run_mutants.py")


def changes(body: str, returns: str = "") -> set[tuple[str, str]]:
    """What is replaced by what in a function."""
    tree = ast.parse(f"def f(x, y){returns}:\n    {body}")
    return {(mutant.before, mutant.after) for _, mutant in faults_of("m", tree)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = x < y", {("x < y", "x <= y")}),
        ("x = x == y", {("x == y", "x != y")}),
        ("x = x is y", {("x is y", "x is not y")}),
        ("x = x < y <= x", {("x < y <= x", "x <= y <= x"), ("x < y <= x", "x < y < x")}),
        ("x = x + y", {("x + y", "x - y")}),
        ("x = x // y", {("x // y", "x / y")}),
        ("x = x and y", {("x and y", "x or y")}),
        ("x = not x", {("not x", "x")}),
        ("x = 0", {("0", "1")}),
        ("x = 7", {("7", "8"), ("7", "6")}),
        ("x = True", {("True", "False")}),
        ("x = max(x, y)", {("max(x, y)", "min(x, y)")}),
        ("x = x.min()", {("x.min()", "x.max()")}),
        ("x = sorted(x)", {("sorted(x)", "sorted(x, reverse=True)")}),
        ("x = y(z='a')", {("y(z='a')", "y()")}),
        ("x = x[1:]", {("x[1:]", "x[:]"), ("1", "2"), ("1", "0")}),
        ("x.add(y)", {("x.add(y)", "pass")}),
        ("x.y = y", {("x.y = y", "pass")}),
        ("x += y", {("x += y", "pass"), ("x += y", "x -= y")}),
        ("return x", {("return x", "return None")}),
        ("return None", set()),
        ("log.info(x)", set()),
        ("'''A text.'''", set()),
        ("x = 'a' + y", set()),
        ("x = f'{x + 1}'", set()),
        ("raise ValueError(x + 1)", set()),
        ("x: Literal[1] = y", set()),
    ],
)
def test_faults_are_those_that_people_make(body: str, expected: set[tuple[str, str]]) -> None:
    assert changes(body) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = -y", {("-y", "y")}),
        ("x = -1", set()),
        ("x = abs(y)", {("abs(y)", "y")}),
        ("x = np.abs(y)", {("np.abs(y)", "y")}),
        ("x = f(x, y)", {("f(x, y)", "f(y, x)")}),
        ("x = f(x, x)", set()),
        ("x = max(x, y)", set()),
        ("x = f(x, 1)", set()),
        ("x = x - y", {("x - y", "y - x")}),
        ("x = x.a / y", {("x.a / y", "y / x.a")}),
        ("x = x + y", set()),
        (
            "x = replace(x, a=y, b=2)",
            {("replace(x, a=y, b=2)", "replace(x, b=2)")},
        ),
        ("x = x[t]", {("x[t]", "x[t - 1]")}),
        ("x[t] = y", set()),
        ("x = x[y]", set()),
        ("if x: return y", {("if x:\n    return y", "pass")}),
        ("if x: raise y", {("if x:\n    raise y", "pass")}),
        ("if x: y = 1", set()),
    ],
)
def test_faults_of_meaning_are_those_that_reviews_miss(
    body: str, expected: set[tuple[str, str]]
) -> None:
    tree = ast.parse(f"def f(x, y, t):\n    {body}")
    found = {(mutant.before, mutant.after) for _, mutant in semantic_faults_of("m", tree)}
    assert found == expected


def test_a_missing_guard_is_woven_in_with_all_that_it_holds() -> None:
    source = "def f(x):\n    if x < 0:\n        x = -x\n        return x + 1\n    return x"
    guard = Mutant("m", "f", "if x < 0:\n    x = -x\n    return x + 1", 0, "pass")
    module = woven(source, guard, Mutant("m", "f", "x + 1", 0, "x - 1"))
    assert [module(number)["f"](-3) for number in (None, 0, 1)] == [4, -3, 2]


def test_none_is_no_fault_where_it_may_be_returned() -> None:
    assert changes("return x", " -> int | None") == set()
    assert changes("return x", " -> int") == {("return x", "return None")}


def woven(source: str, *mutants: Mutant) -> Callable[[int | None], dict[str, Any]]:
    """Names of a module with mutants, of which the one of a number is active."""
    tree = weave(ast.parse(source), list(enumerate(mutants)))
    code = compile(tree, "m.py", "exec")

    def names(active: int | None) -> dict[str, Any]:
        found: dict[str, Any] = {IS_ACTIVE: lambda number: number == active}
        exec(code, found)
        return found

    return names


def test_a_mutant_replaces_what_it_names_while_it_is_active() -> None:
    source = """
class Till:
    def f(self, x):
        x += 1
        return (x + 1) * (x + 1)

def f(x):
    return x + 1
"""
    module = woven(
        source,
        Mutant("m", "Till.f", "x + 1", 1, "x - 1"),
        Mutant("m", "Till.f", "(x + 1) * (x + 1)", 0, "(x + 1) / (x + 1)"),
        Mutant("m", "Till.f", "x += 1", 0, "pass"),
        Mutant("m", "f", "x + 1", 0, "x - 1"),
    )

    results = {}
    for number in (None, 0, 1, 2, 3):
        names = module(number)
        results[number] = (names["Till"]().f(2), names["f"](2))
    assert results == {None: (16, 3), 0: (8, 3), 1: (1, 3), 2: (9, 3), 3: (16, 1)}


def test_a_mutant_whose_text_changed_is_not_found() -> None:
    tree = ast.parse("def f(x):\n    # moved\n\n    return x + 1")
    assert is_there(tree, Mutant("m", "f", "x + 1", 0, "x - 1"))
    assert not is_there(tree, Mutant("m", "f", "x + 1", 1, "x - 1"))
    assert not is_there(tree, Mutant("m", "f", "x + 2", 0, "x - 2"))
    assert not is_there(tree, Mutant("m", "g", "x + 1", 0, "x - 1"))


# ---- a package with planted faults

SHOP = """
def total(n):
    found = 0
    while n > 0:
        found += 2
        n -= 1
    return max(0, found)

def printed(n):
    return n + 1
"""
TESTS = """
import subprocess
import sys

from toy_shop.prices import total

def test_total():
    assert total(3) == 6

def test_in_a_process():
    words = "from toy_shop.prices import printed; print(printed(1))"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, check=True)
    assert done.stdout.strip() == b"2"

def test_that_fails_anyway():
    assert total(3) == 7
"""
TOTAL = "test_prices.py::test_total"
PLANTED = {
    ("total", "found += 2", "found -= 2"): TOTAL,
    ("total", "n -= 1", "pass"): TOTAL,  # does not end
    ("total", "n > 0", "n != 0"): "",  # the same
    ("printed", "n + 1", "n - 1"): "test_prices.py::test_in_a_process",
}


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A repository with one package."""
    folder = tmp_path / "plugins/toy_shop"
    (folder / "tests").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "prices.py").write_text(SHOP)
    (folder / "tests/test_prices.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(
        "import os\nos.environ['PYTHONPATH'] += os.pathsep + 'plugins'"
    )
    return tmp_path


def run(shop: Path, killers: dict[tuple[str, str, str], str], *options: str) -> Any:
    mutants = [
        Mutant("toy_shop.prices", function, before, 0, after, killed_by=killer)
        for (function, before, after), killer in killers.items()
    ]
    write_mutants(shop / "toy_shop.csv", mutants)
    words = ["toy_shop", "--repository", shop, "--stored", shop, "--patience", "1", *options]
    return subprocess.run(
        [sys.executable, RUN, *words], cwd=shop, capture_output=True, text=True, timeout=120
    )


@pytest.mark.slow
def test_killers_are_found_and_stored_and_survivors_named(shop: Path) -> None:
    done = run(shop, dict.fromkeys(PLANTED, ""), "--search")

    assert done.returncode == 0, done
    found = [each.killed_by for each in read_mutants(shop / "toy_shop.csv")]
    assert found == list(PLANTED.values())
    assert "survivor: toy_shop.prices:total: n > 0  →  n != 0" in done.stdout
    assert "left out, as it fails without a mutant: plugins/toy_shop/tests/test" in done.stdout


@pytest.mark.slow
def test_stored_killer_that_no_longer_kills_or_lost_place_fails(
    shop: Path,
) -> None:
    assert run(shop, PLANTED).returncode == 0

    claimed = {**PLANTED, ("total", "n > 0", "n != 0"): TOTAL, ("total", "n > 7", "n >= 7"): TOTAL}
    done = run(shop, claimed)

    assert done.returncode == 1
    faults = done.stdout.splitlines()[-2:]
    assert faults == [
        "not in the code any more: toy_shop.prices:total: n > 7  →  n >= 7",
        f"survives (killed by {TOTAL}): toy_shop.prices:total: n > 0  →  n != 0",
    ]


@pytest.mark.slow
def test_another_seed_tries_other_faults_and_stores_none(shop: Path) -> None:
    done = run(shop, PLANTED, "--seed", "2")

    assert done.returncode == 0, done
    assert [each.killed_by for each in read_mutants(shop / "toy_shop.csv")] == list(
        PLANTED.values()
    )
    assert re.search(r"^toy_shop +\d+ +0 +[1-9]", done.stdout, re.MULTILINE)


@pytest.mark.slow
def test_unseen_faults_of_rooms_are_tried_and_their_share_is_printed(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(try_unseen.SEED, "7")

    assert try_unseen.rooms_of(shop) == ["toy_shop"]
    assert try_unseen.main(["--repository", str(shop), "--seconds", "100"]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("seed 7 (KTDEVAL_FAULTS_SEED=… draws others), 100 s\n")
    assert re.search(r"^toy_shop +\d+ of 10$", printed, re.MULTILINE)
    assert re.search(
        r"^\d+ of 10 unseen faults were killed: \d+% \(floor 50% of at least 50\)$",
        printed,
        re.MULTILINE,
    )
    assert "no fault was tried" not in printed


def test_each_room_has_modules_and_tests_that_can_be_tried() -> None:
    repository = RUN.parents[2]
    rooms = try_unseen.rooms_of(repository)
    assert {"trading", "ktdeval_board", "ktdeval_pages"} <= set(rooms)
    for name in rooms:
        room = find_room(name, repository)
        assert room.files, name
        assert room.tests, name


def test_no_fault_in_the_time_is_a_failure(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert try_unseen.main(["--repository", str(shop), "--seconds", "0"]) == 1
    assert capsys.readouterr().out.endswith("no fault was tried in this time\n")


def test_a_place_that_moved_within_its_room_is_found(shop: Path) -> None:
    room = find_room("toy_shop", shop)
    mutant = Mutant("toy_shop.prices", "total", "n > 0", 0, "n >= 0")
    assert find_place(room, mutant) == mutant

    folder = room.path / "inner"
    folder.mkdir()
    (room.path / "prices.py").rename(folder / "sums.py")
    assert find_place(room, mutant) == replace(mutant, module="toy_shop.inner.sums")

    (room.path / "more.py").write_text(SHOP)
    assert find_place(room, mutant) is None


def test_mutants_are_the_same_each_time_one_at_a_place(shop: Path) -> None:
    room = find_room("toy_shop", shop)
    drawn = choose(room, 6)

    assert drawn == choose(room, 6)
    assert drawn != choose(room, 6, seed="2")
    assert len(drawn) == len({(each.function, each.before, each.occurrence) for each in drawn}) == 6
    with pytest.raises(SystemExit, match="no room 'shop'"):
        find_room("shop", shop)


def test_each_stored_killer_is_a_test() -> None:
    names = set()
    for room in ("tests", "tasks", "plugins"):
        for path in (RUN.parents[2] / room).rglob("test_*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names |= {
                f"{path.name}::{each.name}"
                for each in ast.walk(tree)
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }

    for path in sorted(RUN.with_name("stored").glob("*.csv")):
        for mutant in read_mutants(path):
            killers = {mutant.killed_by_boundary, mutant.killed_by} - {""}
            assert {killer.partition("[")[0] for killer in killers} <= names, path.name
