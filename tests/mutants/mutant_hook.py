"""Modules with mutants woven in, as they are imported; files stay as they are.

A process that a test starts does the same at its start (`sitecustomize.py` beside this file), where
the environment says so.
"""

from __future__ import annotations

import ast
import builtins
import csv
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import mutant_sites
from mutant_sites import Mutant

WOVEN = "KTDEVAL_MUTANTS"  #: names the table of mutants to weave
ACTIVE = "KTDEVAL_MUTANT"  #: number of the one that is active; empty: none
REACHED = "KTDEVAL_MUTANTS_REACHED"  #: names the file that collects numbers that were asked for


def read_mutants(path: Path) -> list[Mutant]:
    """Read the mutants of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows: list[dict[str, Any]] = list(csv.DictReader(file))
    return [Mutant(**{**row, "occurrence": int(row["occurrence"])}) for row in rows]


def write_mutants(path: Path, mutants: Sequence[Mutant]) -> None:
    """Write the table of some mutants."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Mutant)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, mutants))


class Switch:
    """Says which mutant is active, and notes which were asked for."""

    def __init__(self) -> None:
        self.active: int | None = None
        self.reached: set[int] = set()
        self.file: Path | None = None

    def __call__(self, number: int) -> bool:
        if number not in self.reached:
            self.reached.add(number)
            if self.file is not None:
                with self.file.open("a") as file:
                    file.write(f"{number}\n")
        return number == self.active

    def set(self, active: int | None, folder: Path) -> None:
        """Activate a mutant here and in processes that begin from now on."""
        self.active = active
        self.file = folder / "reached"
        os.environ[ACTIVE] = "" if active is None else str(active)
        os.environ[REACHED] = str(self.file)
        self.take()

    def take(self) -> list[int]:
        """Return the mutants that were asked for since the last call, in any process."""
        assert self.file is not None
        found: set[int] = set()
        if self.file.exists():
            found = {int(line) for line in self.file.read_text().splitlines()}
            self.file.unlink()
        self.reached.clear()
        return sorted(found)


class _Loader(SourceFileLoader):
    mutants: Sequence[tuple[int, Mutant]] = ()

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = mutant_sites.weave(ast.parse(self.get_data(path)), self.mutants)
        code = compile(tree, path, "exec", dont_inherit=True)
        assert isinstance(code, CodeType)
        return code


class _Finder(MetaPathFinder):
    def __init__(self, mutants: Sequence[Mutant]) -> None:
        self.by_module: dict[str, list[tuple[int, Mutant]]] = {}
        for number, mutant in enumerate(mutants):
            self.by_module.setdefault(mutant.module, []).append((number, mutant))

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.by_module:
            return None

        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            loader = _Loader(fullname, spec.origin)
            loader.mutants = self.by_module[fullname]
            spec.loader = loader
        return spec


def install(mutants: Sequence[Mutant], folder: Path) -> Switch:
    """Weave mutants into modules that are imported from now on, here and in processes that begin."""
    loaded = {mutant.module for mutant in mutants} & set(sys.modules)
    assert not loaded, f"imported before mutants were woven in: {sorted(loaded)}"

    switch = _weave(mutants)
    table = folder / "mutants.csv"
    write_mutants(table, mutants)
    os.environ[WOVEN] = str(table)
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [here, os.environ.get("PYTHONPATH", "")])
    )
    return switch


def _weave(mutants: Sequence[Mutant]) -> Switch:
    switch = Switch()
    setattr(builtins, mutant_sites.IS_ACTIVE, switch)
    sys.meta_path.insert(0, _Finder(mutants))
    return switch


def install_from_environment() -> None:
    """Do as the process that started this one, if it measures mutants."""
    if not os.environ.get(WOVEN) or not os.environ.get(REACHED):
        return

    switch = _weave(read_mutants(Path(os.environ[WOVEN])))
    switch.file = Path(os.environ[REACHED])
    active = os.environ.get(ACTIVE)
    switch.active = int(active) if active else None
