"""A vote: several teams submit in one step, and the majority decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ktdeval.errors import ConfigError, StoreError
from ktdeval.harness import (
    Agent,
    AgentTraits,
    Decision,
    Observation,
    StepSession,
    submission_object,
)
from ktdeval.trading import DECIDED
from ktdeval.values import JsonValue, dumps_canonical, from_plain, near_matches
from ktdeval_agents import TEAMS, VoteParams
from ktdeval_agents.majority_rule import elect_submission
from ktdeval_agents.recorded_vote import NO_BALLOT, RecordedVote
from ktdeval_agents.team import RoleSession, TeamAgent, make_team


def make_vote(params: VoteParams) -> Agent:
    """Return the voting agent. If the parameters name recorded voters, the agent reads recorded
    decisions.
    """
    if params.recorded:
        return RecordedVote(params.recorded)
    return VoteAgent(params)


def _models(listed: Sequence[str]) -> list[str]:
    """Return the models in a list separated by `;`. Raises ConfigError if a name is empty."""
    models: list[str] = []
    for text in listed:
        models += [name.strip() for name in text.split(";")]

    if "" in models:
        raise ConfigError(f"models: {';'.join(listed)!r}: one has no name; leave out the extra ;")
    return models


@dataclass(frozen=True, slots=True)
class _Voter:
    """A team that votes, and the model that it calls."""

    name: str
    team: TeamAgent
    model: str | None  #: None: the run's own


class VoteAgent:
    """Lets each voter decide independently. The voters are the teams; if further models are given,
    each team votes with each model. The elected submission is validated in the task's own form.
    Without a vote, or if the elected submission is invalid, the step is a hold (`fallback`).
    """

    def __init__(self, params: VoteParams | None = None) -> None:
        given = params or VoteParams()
        if not given.agents:
            raise ConfigError("agents: name at least one team that votes")

        models = _models(given.models)
        self.traits = AgentTraits(further_models=tuple(dict.fromkeys(models)))
        self._voters: list[_Voter] = []
        for agent, model in product(given.agents, models or (None,)):
            if agent not in TEAMS:
                raise ConfigError(
                    f"agents: {agent!r} is not a team that can vote{near_matches(agent, TEAMS)}"
                )

            voter = agent if model is None else f"{agent} on {model}"
            name = f"voter {len(self._voters) + 1} ({voter})"
            self._voters.append(_Voter(name, make_team(agent), model))

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError if a voter's model call failed. Raises StoreError if
        `memory` does not belong to this agent.
        """
        memories = self._read_memories(memory)
        on_failure = [*memories]  # each voter's memory, to be kept if a call fails
        ballots = list[Mapping[str, Any]]()

        for index, voter in enumerate(self._voters):

            def keep(value: JsonValue, index: int = index) -> None:
                on_failure[index] = value
                session.keep([*on_failure])

            # Research calls are divided equally among the remaining voters.
            tools = session.tool_budget // (len(self._voters) - index)
            role_session = RoleSession(session, voter.name, tools, keep, model=voter.model)
            decision = voter.team.decide(observation, role_session, memories[index])
            memories[index] = decision.memory
            has_voted = decision.provenance in DECIDED
            role_session.end_turn(has_voted)

            if has_voted:
                ballots.append(submission_object(role_session.submitted))
            else:
                session.count_failure(NO_BALLOT)

        if not ballots:
            return Decision((), "fallback", memory=memories)

        ballot = elect_submission(ballots, len(self._voters))
        submission = session.parse_submission(dumps_canonical(ballot))
        if submission.action is None:
            return Decision((), "fallback", memory=memories)

        return Decision(
            submission.action, "elected", submission.overall_reason, submission.stock_ids, memories
        )

    def _read_memories(self, memory: JsonValue) -> list[JsonValue]:
        """Return the memory of each voter."""
        voters = len(self._voters)
        if memory is None:
            return [None] * voters

        memories = from_plain(memory, list[Any], "memory of the agent vote")
        if len(memories) != voters:
            raise StoreError(
                f"memory of the agent vote: of {len(memories)} voters, and {voters} vote"
            )
        return memories
