"""Rooms of the code: where a room's modules are, which tests are about it, which mutants it gets."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mutant_sites import Mutant, faults_of, is_there, nodes_of, semantic_faults_of

COUNT = 30
FaultsOf = Callable[[str, ast.Module], Iterator[tuple[int, Mutant]]]
#: folders that modules are imported from, and what the rooms in each are called
ROOTS = {".": "ktdeval/{}", "tasks": "{}", "plugins": "{}", "plugins/kits": "{}"}
BOUNDARY = ("tests/boundary",)
#: names of test files about a room that stand elsewhere than its name says
FURTHER = {
    "trading": (
        "test_random_trader_arrays.py",
        "test_trading_reference.py",
        "test_broker_reach.py",
        "test_execution_reference.py",
        "test_wide_ratios.py",
    ),
    "attribution": ("test_attribution_reach.py",),
    "masking": ("test_masking_oracles.py", "test_lens_states.py"),
    "stats": (
        "test_stats_oracles.py",
        "test_board_ties.py",
        "test_compare_sharpe.py",
        "test_compare_statistics.py",
        "test_signed_ranks.py",
    ),
    "registry": ("test_registry.py", "test_wrong_plugins.py", "test_own_wheel.py"),
    "secrets": ("test_calls_redaction.py", "test_secret_spans.py"),
    "calls": ("test_budget_ledger.py", "test_call_ledger.py"),
    "task_api": (
        "test_sample_files.py",
        "test_qa_task.py",
        "test_harness_traits.py",
        "test_markets_task.py",
        "test_qfinzero_unanswered.py",
    ),
    "ktdeval_builtin": ("test_attribution_decompose.py", "test_metrics_*.py"),
    "ktdeval_memory": (
        "test_memory_layers.py",
        "test_finmem_*.py",
        "test_layered_investor.py",
    ),
    "ktdeval_models": ("test_adapters_*.py",),
    "ktdeval_pages": ("test_tear_sheet.py", "test_report_parts.py"),
    "ktdeval_tables": (
        "test_data_table_files.py",
        "test_data_side_files.py",
        "test_data_forms.py",
        "test_data_long.py",
        "test_hostile_tables.py",
    ),
}


@dataclass(frozen=True)
class Room:
    """A package, or one module of it, by name: `trading`, `trading.executor`, `ktdeval_judge`."""

    name: str
    repository: Path
    root: str
    path: Path  # of the package's folder or the module's file

    @property
    def files(self) -> dict[str, Path]:
        """Files by the names of their modules."""
        if self.path.is_file():
            paths = [self.path]
        else:
            paths = sorted(self.path.rglob("*.py"))

        base = self.repository / self.root
        named = {}
        for path in paths:
            parts = path.relative_to(base).with_suffix("").parts
            if "tests" in parts:
                continue
            if parts[-1] == "__init__":
                parts = parts[:-1]
            if parts[-1] != "__main__":
                named[".".join(parts)] = path
        return named

    @property
    def tests(self) -> list[Path]:
        """Folders and files of the tests about this room, without those of the boundary."""
        package = self.name.partition(".")[0]
        named = self.repository / "tests/unit" / package.removeprefix("ktdeval_")
        places = [self.path / "tests", named]
        for name in FURTHER.get(package, ()):
            for folder in ("tests", "tasks", "plugins"):
                places += sorted((self.repository / folder).rglob(name))
        return [place for place in places if place.exists()]

    @property
    def boundary(self) -> list[Path]:
        """Folders of the tests that import no inner module."""
        places = [self.repository / place for place in BOUNDARY]
        return [place for place in places if place.exists()]


def find_room(name: str, repository: Path) -> Room:
    """Return the room of this name. Raises SystemExit if there is none."""
    for root, pattern in ROOTS.items():
        path = repository / root / pattern.format(name.replace(".", "/"))
        for place in (path, path.with_suffix(".py")):
            if place.exists():
                return Room(name, repository, root, place)

    raise SystemExit(f"mutants: no room {name!r}: say a package, as in trading or ktdeval_judge")


def find_place(room: Room, mutant: Mutant) -> Mutant | None:
    """Return a mutant with the module that has its place, which may have moved within the room;
    None if no module has it, or several others do.
    """
    files = room.files
    if mutant.module in files and _has(files[mutant.module], mutant):
        return mutant

    others = [module for module, path in files.items() if _has(path, mutant)]
    if len(others) == 1:
        return replace(mutant, module=others[0])
    return None


def _has(path: Path, mutant: Mutant) -> bool:
    return is_there(ast.parse(path.read_bytes()), mutant)


def choose(room: Room, count: int = COUNT, seed: str = "") -> list[Mutant]:
    """Draw mutants by a seed, half of them faults of meaning, spread over modules in proportion to
    their statements.
    """
    drawn = _ranked(room, seed, semantic_faults_of)[: (count + 1) // 2]
    taken = {(each.module, each.function, each.before, each.occurrence) for each in drawn}
    for each in _ranked(room, seed, faults_of):
        if len(drawn) == count:
            break
        if (each.module, each.function, each.before, each.occurrence) not in taken:
            drawn.append(each)
    return sorted(drawn, key=lambda each: (each.module, each.function, each.before))


def _ranked(room: Room, seed: str, faults: FaultsOf) -> list[Mutant]:
    """Order a room's mutants of a kind as they are drawn, at most one at a place."""
    ranked: list[tuple[float, Mutant]] = []
    for module, path in room.files.items():
        tree = ast.parse(path.read_bytes())
        n_statements = sum(isinstance(node, ast.stmt) for _, node in nodes_of(tree))
        chance = random.Random(module + seed)
        found = list(faults(module, tree))
        chance.shuffle(found)
        one_a_node = dict(reversed(found))
        offset = chance.random()
        for rank, mutant in enumerate(one_a_node.values()):
            ranked.append(((rank + offset) / max(1, n_statements), mutant))

    ranked.sort(key=lambda each: (each[0], str(each[1])))
    return [mutant for _, mutant in ranked]
