"""A team as a graph of roles, read from YAML: the roles, their order and their inputs."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence, Set
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ktdeval.errors import ConfigError
from ktdeval.values import from_plain, load_yaml, near_matches
from ktdeval_agents import MAX_ROUNDS

REFLECTION = "reflection"
"""Role that reflects on outcomes, in teams whose memory includes reflections."""
SOURCES = ("task", "state", "memory", "reports")
"""Inputs of a role in addition to other roles: the task's rules, the state of the day, the team's
memory, and all earlier reports.
"""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,59}")  # name of a role

Computed = Literal["technical_figures", "volatility_limits"]


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One role: its prompt, its inputs, and the form of its reply."""

    #: description and duties of the role; `{ratios}` is replaced by the position ratios on offer,
    #: `{analysts}` by the names of the analysts that this role may choose
    says: Annotated[str, Meta(min_length=1, max_length=20_000)]
    #: name in prompts; if empty, the role's name with spaces instead of underscores
    title: str = ""
    orders: str = ""  #: added if the task asks for orders
    decisions: str = ""  #: added if the task asks for BUY, SELL or HOLD for each asset
    replies: str = ""  #: added once another role in the debate has spoken
    #: mapping from an input, such as `memory`, to text that is added if the input is shown
    given: dict[str, str] = {}
    #: inputs: names from `SOURCES`, of earlier roles, and of computed figures
    reads: tuple[str, ...] = ("task", "state")
    tools: Annotated[int, Meta(ge=0, le=1000)] = (
        0  #: maximum number of the role's research calls, in modes with tools
    )
    #: form of the reply; `signals`: Bullish, Bearish or Neutral for each named asset; `ratios`: for
    #: each asset a position ratio on offer
    gives: Literal["text", "signals", "ratios"] = "text"
    #: inputs without which the role has nothing to say; with `idle=skip` it is not asked on a day
    #: that lacks them
    needs: tuple[Literal["documents"], ...] = ()


class FlowStage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the flow. Exactly one of `role`, `together`, `debate` and `computes` is given."""

    role: str = ""  #: role that speaks alone
    together: tuple[str, ...] = ()  #: roles that speak independently: none of them reads another
    debate: tuple[str, ...] = ()  #: roles that speak in turns, each after reading the debate so far
    #: number of turns of each role in a debate
    rounds: Annotated[int, Meta(ge=1, le=MAX_ROUNDS)] = 1
    #: role that chooses, by a forced tool call, which roles in `together` speak; if it gives no
    #: valid answer, all of them speak
    chosen_by: str = ""
    computes: Computed | Literal[""] = ""  #: figures computed without a model

    @property
    def roles(self) -> tuple[str, ...]:
        """Roles of this stage, in order."""
        return (self.role,) if self.role else self.together or self.debate


class MemoryRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many earlier decisions are shown, and whether the model reflects on their outcomes."""

    #: number of latest decisions shown for each asset that the decision is about
    same: Annotated[int, Meta(ge=0, le=1000)]
    #: number of latest decisions shown for all other assets together
    cross: Annotated[int, Meta(ge=0, le=1000)] = 0
    #: maximum number of assets to which `same` applies: first the assets held, then the assets
    #: traded last
    assets: Annotated[int, Meta(ge=1, le=1000)] = 12
    #: instructions of the role `reflection`; empty: outcomes are shown without a reflection
    reflection: str = ""


class Team(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole team. The last stage is one role, which submits."""

    roles: dict[str, Role]
    flow: tuple[FlowStage, ...]
    preamble: str = ""  #: beginning of every role's prompt
    #: maximum length of a report shown to other roles; a longer report keeps its beginning and end
    report_characters: Annotated[int, msgspec.Meta(ge=200)] = 2400
    memory: MemoryRule | None = None
    #: roles that call a second model if one is given (`quick_model`); may include `reflection`
    quick: tuple[str, ...] = ()
    #: analysts that speak with `planner=off`; empty: all
    without_planner: tuple[str, ...] = ()

    @property
    def analysts(self) -> tuple[str, ...]:
        """Roles that speak independently, in flow order."""
        names: list[str] = []
        for stage in self.flow:
            names += stage.together

        return tuple(names)

    @property
    def planners(self) -> tuple[str, ...]:
        """Roles that choose among analysts, in flow order, without duplicates."""
        return tuple(dict.fromkeys(stage.chosen_by for stage in self.flow if stage.chosen_by))

    def choices_of(self, planner: str) -> tuple[str, ...]:
        """Return the analysts among which a role chooses."""
        names: list[str] = []
        for stage in self.flow:
            if stage.chosen_by == planner:
                names += stage.together

        return tuple(names)

    @property
    def last(self) -> str:
        """The role that submits."""
        return self.flow[-1].role

    @property
    def shown_the_day(self) -> tuple[str, ...]:
        """Roles that are shown the state of the day, in the order in which they first speak."""
        shown = []
        for stage in self.flow:
            for name in stage.roles:
                if name == self.last or "state" in self.roles[name].reads:
                    shown.append(name)

        return tuple(shown)


def load_team(path: Path) -> Team:
    """Read a team. Raises ConfigError if the file can't be read, or is not a valid graph; the
    message names the field.
    """
    content = load_yaml(path)
    roles = content.get("roles")
    if isinstance(roles, dict):  # one by one, so that an error names the role
        for name, role in roles.items():
            from_plain(role, Role, f"{path}: roles.{name[:60]}", ConfigError)

    team = from_plain(content, Team, str(path), ConfigError)
    problem = next(_team_problems(team), None)
    if problem is not None:
        raise ConfigError(f"{path}: {problem}")
    return team


def _team_problems(team: Team) -> Iterator[str]:
    """Yield the problems with a graph, one line each."""
    if not team.flow or not team.flow[-1].role:
        yield "flow: must end with a single role, which submits"

    readable = set(SOURCES)
    for index, stage in enumerate(team.flow):
        yield from _stage_problems(f"flow[{index}]", team, stage, readable)
        readable |= {*stage.roles, stage.computes} - {""}

    for index, stage in enumerate(team.flow):
        if stage.chosen_by:
            yield from _planner_problems(f"flow[{index}]", team, stage, team.flow[:index])

    for name in team.roles:
        if not _NAME.fullmatch(name) or name == REFLECTION:
            yield (
                f"roles: {name[:60]!r} is not a valid role name; use lower-case letters, digits "
                "and _"
            )
        elif name not in readable:
            yield f"roles.{name}: is not used in flow; add it to flow or remove it"

    quick = {*team.roles, *([REFLECTION] if team.memory and team.memory.reflection else ())}
    yield from _unknown("quick", team.quick, quick)
    chosen: list[str] = []
    for planner in team.planners:
        chosen += team.choices_of(planner)

    yield from _unknown("without_planner", team.without_planner, chosen)


def _stage_problems(where: str, team: Team, stage: FlowStage, readable: Set[str]) -> Iterator[str]:
    """Yield the problems with a stage. `readable`: the inputs available before the stage."""
    if sum(map(bool, (stage.role, stage.together, stage.debate, stage.computes))) != 1:
        yield f"{where}: give one of role, together, debate and computes"

    if stage.rounds > 1 and not stage.debate:
        yield f"{where}.rounds: applies to a debate only; remove it"

    if len(set(stage.roles)) < len(stage.roles):
        yield f"{where}: a role appears twice"

    for name in stage.roles:
        if name not in team.roles:
            yield f"{where}: no role {name!r}{near_matches(name, team.roles)}"
        elif name in readable:
            yield f"{where}: the role {name} is in the flow already"
        else:
            yield from _unreadable(name, team.roles[name], readable)


def _unknown(where: str, names: Sequence[str], known: Collection[str]) -> Iterator[str]:
    """Yield a problem for each unknown name in a list."""
    for name in names:
        if name not in known:
            yield f"{where}: no such role here: {name[:60]!r}{near_matches(name, known)}"


def _planner_problems(
    where: str, team: Team, stage: FlowStage, earlier: Sequence[FlowStage]
) -> Iterator[str]:
    """Yield the problems with the role that chooses the speakers of a stage."""
    name = stage.chosen_by
    if not stage.together:
        yield f"{where}.chosen_by: applies to roles that speak `together` only; remove it"
    if name not in [each.role for each in earlier]:
        yield f"{where}.chosen_by: {name[:60]!r} must be an earlier role that speaks alone"

    role = team.roles.get(name)
    if role is not None and (role.tools or role.gives != "text"):
        yield (
            f"roles.{name}: chooses analysts, so it takes neither `tools` nor `gives`; remove them"
        )


def _unreadable(name: str, role: Role, readable: Set[str]) -> Iterator[str]:
    """Yield a problem for each input of a role that is not available before the role speaks."""
    for field, sources in (("reads", role.reads), ("given", tuple(role.given))):
        for source in sources:
            if source not in readable:
                yield (
                    f"roles.{name}.{field}: {source!r} does not come before"
                    f" it{near_matches(source, readable)}"
                )
