"""Agent teams: graphs of roles that call one model, optionally with a second model for quick roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import Arguments, option
from ktdeval_memory.params import MemoryParams

TEAMS = {
    "investor": "One role that remembers its decisions and their outcomes",
    "trade": (
        "Analysts, a bull and a bear, a research manager, a trader, a risk team and a portfolio"
        " manager"
    ),
    "deepfund": (
        "A planner, the analysts that it chooses, risk control on a grid of position ratios, and a"
        " portfolio manager"
    ),
    "hedge_fund": (
        "Investors of twelve schools and four analysts, limits by volatility, and a portfolio"
        " manager"
    ),
}
MAX_ROUNDS = 10  #: maximum number of turns per role in a debate


@dataclass(frozen=True)
class TeamParams:
    """Arguments of a team; the team file decides which of them apply."""

    analysts: tuple[str, ...] = option(
        (), help="analysts that take part, by the names of their roles; default: the whole team"
    )
    planner: Literal["on", "off"] = option(
        "on",
        help=(
            "off: skip the planner; a fixed set of analysts named by the team takes part each "
            "day (deepfund: technical, insider, company news and policy)"
        ),
    )
    rounds: int | None = option(
        None,
        help="turns of each role in every debate; default: as in the team's file",
        minimum=1,
        maximum=MAX_ROUNDS,
    )
    quick_model: str | None = option(
        None,
        help=(
            "second model for the roles that the team's file calls quick: PROVIDER/NAME, or"
            " PROVIDER/NAME(option=value,…); default: the run's own"
        ),
    )
    sources: tuple[str, ...] = option(
        (),
        help=(
            "sources of documents to distribute over roles: the roles that see the day get the "
            "documents of one source each, in turn"
        ),
    )
    idle: Literal["ask", "skip"] = option(
        "ask",
        help=(
            "skip: a role with `needs` is not asked on a day without documents, and its report says so"
        ),
    )
    warmup: int | None = option(
        None,
        help=(
            "for a team with a memory and a task with a warm-up: number of latest warm-up days "
            "to decide on before the first step, one call each; default: all"
        ),
        minimum=0,
    )


@dataclass(frozen=True, kw_only=True)
class TeamFileParams(TeamParams):
    """Arguments of a team from a user's file. The last argument is filled in from the file and
    recorded.
    """

    file: str = option(help="YAML file of the team")
    content: str | None = option(
        None, help="hash of the file's content without comments; recorded with each run"
    )


@dataclass(frozen=True)
class InvestorParams(TeamParams, MemoryParams):
    """Arguments of the investor. They are the arguments of a team or, with `memory=layered`, of a
    layered memory.
    """

    memory: Literal["decisions", "layered"] = option(
        "decisions",
        help=(
            "decisions: a list of the team's decisions and their outcomes; layered: documents "
            "and reasons in layers, as in finmem (finmem's other arguments apply)"
        ),
    )


@dataclass(frozen=True)
class ByAssetParams:
    """Arguments of the agent that asks about each asset."""

    assets: int = option(
        1,
        help=("most assets in one question; above 1: as a table, with short reasons"),
        minimum=1,
        maximum=1000,
    )


@dataclass(frozen=True)
class VoteParams:
    """Voters that take part in a vote."""

    agents: tuple[str, ...] = option(
        ("investor", "trade", "deepfund"),
        help="teams that vote; a team that is named twice votes twice, with separate replies",
    )
    models: tuple[str, ...] = option(
        (),
        help=(
            "models that each of these teams votes with, separated by `;`: PROVIDER/NAME, or "
            "PROVIDER/NAME(option=value,…); default: the run's own"
        ),
    )
    recorded: tuple[str, ...] = option(
        (), help="voters whose recorded decisions are used; set by `ktdeval paper vote`"
    )


@dataclass(frozen=True, kw_only=True)
class RecordedVoterParams:
    """A run whose recorded decisions are the votes of one voter."""

    model: str = option(help="its model")
    model_args: Arguments = option(factory=dict, help="parameters of the model")
    agent: str = option(help="its agent")
    agent_args: Arguments = option(factory=dict, help="parameters of the agent")
    call: Arguments = option(factory=dict, help="parameters of its calls")
    is_free: bool = option(help="whether its model calls no provider")
    records: str = option(help="SHA-256 over its ledgers and transcripts")


@dataclass(frozen=True)
class ElectedParams:
    """The voters of an elected run."""

    voters: tuple[RecordedVoterParams, ...] = option(
        (), help="runs whose decisions are used; set by `ktdeval paper vote`"
    )


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return the teams (graphs of roles in `teams/`), the team from a user's file, the agent that
    asks about each asset separately, and the vote.
    """
    from ktdeval.values import maker

    teams = [
        Spec(name, maker("ktdeval_agents.team:make_team", name), summary, TeamParams)
        for name, summary in TEAMS.items()
        if name != "investor"
    ]
    investor = Spec(
        "investor",
        maker("ktdeval_agents.layered_memory:make_investor"),
        TEAMS["investor"],
        InvestorParams,
    )
    by_asset = Spec(
        "by_asset",
        maker("ktdeval_agents.by_asset:ByAssetAgent"),
        "One question per asset, with the answers combined into one submission",
        ByAssetParams,
    )
    return [
        investor,
        *teams,
        Spec(
            "team",
            maker("ktdeval_agents.team:make_own_team"),
            "Your own team of roles, read from a YAML file",
            TeamFileParams,
        ),
        by_asset,
        Spec(
            "vote",
            maker("ktdeval_agents.team_vote:make_vote"),
            "Majority vote of several teams",
            VoteParams,
        ),
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the commands for tokens and cost by role, and for votes on recorded decisions."""
    from ktdeval.values import later

    return [
        Spec(
            "view roles",
            later("ktdeval_agents.roles_command:roles"),
            "Report a run's tokens and cost by role of the team.",
        ),
        Spec(
            "paper vote",
            later("ktdeval_agents.vote_command:vote"),
            "Elect from the recorded decisions of several runs, without a model call.",
            groups=("papers",),
        ),
    ]


@hookimpl
def ktdeval_models() -> list[Spec]:
    """Return the model whose name appears on recorded votes."""
    from ktdeval.values import maker

    return [
        Spec(
            "elected/majority",
            maker("ktdeval_agents.recorded_vote:ElectedModel"),
            "Majority of recorded decisions; a run of it is made by `ktdeval paper vote`",
            ElectedParams,
            remote=False,
            decider="file",
        )
    ]
