"""Agent teams: graphs of roles over one model."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.fields import option
from ktdeval.hookspecs import Spec, hookimpl

TEAMS = {
    "investor": "One role with a memory of its decisions and what came of them",
    "trade": "Analysts, a bull and a bear, a research manager, a trader, a risk team and a portfolio manager",
    "deepfund": "A planner, the analysts that it chooses, risk control on a grid of position ratios, and a portfolio manager",
    "hedge_fund": "Investors of twelve schools and four analysts, limits by volatility, and a portfolio manager",
}


@dataclass(frozen=True)
class TeamParams:
    """Documents that a role of a team is shown."""

    sources: tuple[str, ...] = option(
        (),
        help="sources of documents that are dealt out: each role that is shown the day sees those of one of them alone, by turns",
    )


@dataclass(frozen=True)
class VoteParams:
    """Voters of a vote."""

    agents: tuple[str, ...] = option(
        ("investor", "trade", "deepfund"), help="teams that vote; one named again votes again, on replies of its own"
    )


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return the teams, each a graph of roles in `teams/`, the agent that asks by asset, and the vote."""
    from ktdeval.lazy import maker

    teams = [Spec(name, maker("ktdeval_agents.team:make_team", name), summary, TeamParams) for name, summary in TEAMS.items()]
    by_asset = Spec("by_asset", maker("ktdeval_agents.by_asset:ByAssetAgent"), "One question for each asset shown, put together")
    return [*teams, by_asset, Spec("vote", maker("ktdeval_agents.vote:VoteAgent"), "What most of several teams submit", VoteParams)]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command for tokens and cost by role."""
    from ktdeval.lazy import later

    return [Spec("roles", later("ktdeval_agents.command:roles"), "Tokens and cost of a run by the role of a team that asked.")]
