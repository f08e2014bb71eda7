"""Lineages: names of workspaces and of those that they branched from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from threading import Lock
from weakref import WeakKeyDictionary

from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.pmb.branching import opened_ns

MAIN = "main"


@dataclass(frozen=True)
class LineageStart:
    """A workspace of a lineage: its name, and the moment from which on its commands are its own."""

    name: str
    from_ns: int


@dataclass(frozen=True)
class Lineage:
    """A workspace after those whose commands it repeats, the first of all first."""

    members: tuple[LineageStart, ...]
    numbers: Iterator[int]  #: of the next branches of any workspace of the family

    @property
    def name(self) -> str:
        """Name of the workspace."""
        return self.members[-1].name

    def branch(self, moment_ns: int) -> Lineage:
        """Return the lineage of a branch. A workspace that begins after the branch does is none of
        its ancestors, for the branch repeats no command of it.
        """
        ancestors = [each for each in self.members if each.from_ns <= moment_ns]
        new = LineageStart(f"branch {next(self.numbers)}", moment_ns)
        return Lineage((*ancestors, new), self.numbers)


class Lineages:
    """Lineages of the workspaces of a server, as long as those live."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Workspace, Lineage] = WeakKeyDictionary()
        self._lock = Lock()  # workspaces are used by several threads

    def of(self, workspace: Workspace) -> Lineage:
        """Return the lineage of a workspace; one that is no branch is the first of its own."""
        with self._lock:
            return self._of(workspace)

    def add_branch(self, workspace: Workspace, branch: Workspace, moment_ns: int) -> Lineage:
        """Note a branch of a workspace, and return its lineage."""
        with self._lock:
            lineage = self._of(workspace).branch(moment_ns)
            self._known[branch] = lineage

        return lineage

    def _of(self, workspace: Workspace) -> Lineage:
        lineage = self._known.get(workspace)
        if lineage is None:
            lineage = Lineage((LineageStart(MAIN, opened_ns(workspace.broker)),), count(1))
            self._known[workspace] = lineage
        return lineage
