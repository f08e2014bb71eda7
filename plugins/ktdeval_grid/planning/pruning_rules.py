"""Pruning: cells of a grid that a named rule omits, with a reason.

Pruned cells are recorded with the grid and shown as pruned. They are not treated as missing.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from ktdeval.errors import ConfigError, UsageError
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import Value, from_plain, load_yaml, near_matches

RULES = Path(__file__).parent / "rules.yaml"

RuleName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,59}$")]


@dataclass(frozen=True)
class PlannedCell:
    """An episode in a plan, as seen by rules. If its task has no market, it has no mask, mode or
    window.
    """

    model: str
    agent: str
    task: str
    mask: str | None
    mode: str | None
    window_name: str | None
    seed: int


PrunableCell = PlannedCell | EpisodeSpec


class Cells(Value):
    """Cells of a grid that match every given field. Names may be globs."""

    models: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    masks: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

    def has(self, cell: PrunableCell) -> bool:
        """Return whether an episode is in these cells."""
        named = (
            (self.models, cell.model),
            (self.agents, cell.agent),
            (self.tasks, cell.task),
            (self.masks, cell.mask),
            (self.modes, cell.mode),
            (self.windows, cell.window_name),
        )
        for patterns, name in named:
            if patterns and not _has_match(patterns, name):
                return False

        return not self.seeds or cell.seed in self.seeds


class PruneRule(Value):
    """Cells that are omitted, and the reason."""

    name: RuleName
    reason: Annotated[str, msgspec.Meta(min_length=10, max_length=1000)]
    cells: tuple[Cells, ...]

    def prunes(self, cell: PrunableCell) -> bool:
        """Return whether this rule omits an episode."""
        return any(cells.has(cell) for cells in self.cells)


def pruned_by(rules: Iterable[PruneRule], cell: PrunableCell) -> PruneRule | None:
    """Return the first rule that omits an episode; None if the episode is to be run."""
    return next((rule for rule in rules if rule.prunes(cell)), None)


@cache
def shipped_rules() -> dict[str, PruneRule]:
    """Return the rules shipped with the suite, keyed by name."""
    rules = {}
    for name, values in load_yaml(RULES).items():
        rules[name] = from_plain({"name": name, **values}, PruneRule, str(RULES), ConfigError)
    return rules


def shipped_rule(name: str) -> PruneRule:
    """Return a rule shipped with the suite. Raises UsageError if no rule has this name."""
    rules = shipped_rules()
    if name not in rules:
        raise UsageError(
            f"no rule {name!r}{near_matches(name, rules)}; rules are {', '.join(rules)}, or write"
            " one with name, reason and cells"
        )
    return rules[name]


def _has_match(patterns: Iterable[str], name: str | None) -> bool:
    """Return whether a name matches any of the globs; None never matches."""
    if name is None:
        return False
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
