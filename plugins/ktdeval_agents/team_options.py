"""Arguments of a team, applied to its graph: which analysts speak, and how long debates last."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from ktdeval.errors import ConfigError
from ktdeval.values import near_matches
from ktdeval_agents import TeamParams
from ktdeval_agents.role_graph import FlowStage, Team


def with_options(team: Team, name: str, params: TeamParams) -> Team:
    """Return a team changed by its arguments. `name` is the name of the team in messages. Raises
    ConfigError if the team has no such analyst, or if an argument is not valid for the team.
    """
    chosen = params.analysts
    if chosen:
        _check_analysts(team, name, chosen)
    elif params.planner == "off":
        chosen = team.without_planner or team.analysts

    if params.planner == "off":
        team = _without_planners(team, name)
    if chosen:
        team = _with_analysts(team, chosen)
    if params.rounds is not None:
        team = _with_rounds(team, name, params.rounds)
    if params.quick_model is not None and not team.quick:
        raise ConfigError(
            f"quick_model: the team {name} has no quick roles; leave it out, or list some under "
            "`quick` in a team file"
        )

    return team


def _check_analysts(team: Team, name: str, chosen: Sequence[str]) -> None:
    """Raise ConfigError if a name is not an analyst of the team."""
    known = team.analysts
    if not known:
        raise ConfigError(f"analysts: the team {name} has no analysts to choose from; leave it out")

    for analyst in chosen:
        if analyst not in known:
            near = near_matches(analyst, known)
            raise ConfigError(
                f"analysts: the team {name} has no analyst {analyst[:60]!r}{near} (it has"
                f" {', '.join(known)})"
            )


def _with_analysts(team: Team, chosen: Collection[str]) -> Team:
    """Return a team with only the chosen analysts, in the order of the team's file."""
    dropped = set(team.analysts) - set(chosen)
    flow = []
    for stage in team.flow:
        kept = tuple(role for role in stage.together if role in chosen)
        if kept or not stage.together:
            flow.append(replace(stage, together=kept))

    return _without_roles(replace(team, flow=tuple(flow)), dropped)


def _without_planners(team: Team, name: str) -> Team:
    """Return a team without planners: no role chooses among the analysts."""
    planners = team.planners
    if not planners:
        raise ConfigError(f"planner: the team {name} has no planner; leave it out")

    flow = []
    for stage in team.flow:
        if stage.role not in planners:
            flow.append(replace(stage, chosen_by=""))

    return _without_roles(replace(team, flow=tuple(flow)), planners)


def _without_roles(team: Team, dropped: Collection[str]) -> Team:
    """Return a team without the dropped roles, which no other role reads any more."""
    roles = {}
    for name, role in team.roles.items():
        if name not in dropped:
            reads = tuple(source for source in role.reads if source not in dropped)
            roles[name] = replace(role, reads=reads)

    quick = tuple(name for name in team.quick if name not in dropped)
    return replace(team, roles=roles, quick=quick)


def _with_rounds(team: Team, name: str, rounds: int) -> Team:
    """Return a team whose debates have `rounds` turns for each role."""
    if not any(stage.debate for stage in team.flow):
        raise ConfigError(f"rounds: the team {name} holds no debate; leave it out")

    flow = tuple(_longer(stage, rounds) for stage in team.flow)
    return replace(team, flow=flow)


def _longer(stage: FlowStage, rounds: int) -> FlowStage:
    return replace(stage, rounds=rounds) if stage.debate else stage
