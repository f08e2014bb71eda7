"""A team as a graph of roles, read from YAML: the roles, their order, and what each one reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from ktdeval.errors import ConfigError
from ktdeval.fields import near_matches
from ktdeval.typed import from_plain
from ktdeval.yamlio import load_yaml

SOURCES = ("task", "state", "memory", "reports")
"""Inputs of a role besides other roles: the task's rules, the state of the day, the team's memory, and all earlier reports."""

Computed = Literal["technical_figures", "volatility_limits"]


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One role: its prompt, its inputs, and the form of its reply."""

    says: str  #: its instructions; `{ratios}` stands for the position ratios on offer
    reads: tuple[str, ...] = ("task", "state")  #: of `SOURCES` and the names of earlier roles and computed figures
    tools: int = 0  #: most research calls that it may make, in modes with tools
    #: `signals`: Bullish, Bearish or Neutral for each asset, by name; `ratios`: a position ratio for each, on its grid
    gives: Literal["text", "signals", "ratios"] = "text"


class Stage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the flow; exactly one of `role`, `together`, `debate` and `computes` is given."""

    role: str = ""  #: speaks alone
    together: tuple[str, ...] = ()  #: independent: none reads another
    debate: tuple[str, ...] = ()  #: speak in turns, each after reading the debate so far
    rounds: int = 1  #: turns of each in a debate
    chosen_by: str = ""  #: role whose reply names those of `together` that speak; if it names none, all do
    computes: Computed | Literal[""] = ""  #: figures that are computed without a model

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of this stage, in order, each once."""
        return (self.role,) if self.role else self.together or self.debate


class MemoryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many earlier decisions are shown, and whether the model reflects on their outcome."""

    same: int  #: latest ones on what is held, or on the only asset
    cross: int = 0  #: latest ones on anything else
    reflection: str = ""  #: instructions of the role `reflection`; empty: outcomes are shown without one


class Team(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole team. The last stage is one role, which submits."""

    roles: dict[str, Role]
    flow: tuple[Stage, ...]
    preamble: str = ""  #: begins every role's instructions
    memory: MemoryRule | None = None

    @property
    def last(self) -> str:
        """Role that submits."""
        return self.flow[-1].role

    @property
    def shown_the_day(self) -> tuple[str, ...]:
        """Roles that are shown the state of the day, in the order in which they first speak."""
        spoken = (name for stage in self.flow for name in stage.roles)
        return tuple(name for name in spoken if name == self.last or "state" in self.roles[name].reads)


def load_team(path: Path) -> Team:
    """Read a team. Raises ConfigError: the file is not a valid graph; names the field."""
    team = from_plain(load_yaml(path), Team, str(path), ConfigError)
    problem = next(_problems(team), None)
    if problem is not None:
        raise ConfigError(f"{path}: {problem}")
    return team


def _problems(team: Team) -> Iterator[str]:
    """Yield the problems of a graph, one line each."""
    if not team.flow or not team.flow[-1].role:
        yield "flow: must end with one role, which submits"
    readable = set(SOURCES)
    for index, stage in enumerate(team.flow):
        where = f"flow[{index}]"
        if sum(map(bool, (stage.role, stage.together, stage.debate, stage.computes))) != 1:
            yield f"{where}: give one of role, together, debate and computes"
        if stage.rounds < 1 or (stage.chosen_by and stage.chosen_by not in readable):
            yield f"{where}: rounds must be at least 1, and chosen_by an earlier role"
        for name in stage.roles:
            if name not in team.roles:
                yield f"{where}: no role {name!r}{near_matches(name, team.roles)}"
            elif name in readable:
                yield f"{where}: the role {name} is in the flow already"
            elif unknown := [source for source in team.roles[name].reads if source not in readable]:
                yield f"roles.{name}.reads: {unknown[0]!r} does not come before it{near_matches(unknown[0], readable)}"
        readable |= {*stage.roles, stage.computes} - {""}
    if idle := [name for name in team.roles if name not in readable]:
        yield f"roles.{idle[0]}: is not in the flow"
