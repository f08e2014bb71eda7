"""A vote on decisions recorded in separate runs: the ballot of each voter is read, and the majority
decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from ktdeval.errors import ProviderError, UsageError
from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    ModelTraits,
    Observation,
    Reply,
    StepSession,
    Submission,
    label_key,
    submission_object,
)
from ktdeval.observation import NOTHING_SHOWN, ObservedState
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_agents import ElectedParams
from ktdeval_agents.majority_rule import elect_submission

MODEL = "elected/majority"
NO_BALLOT = "no_ballot"
"""Failure kind for a voter without a valid submission in a step."""
_NOTE = (
    "Nobody is asked: the decision of voter {number} is taken from the record of its own run, which"
    " had an account of its own."
)
_AT_ORDER = re.compile(r"orders\[([0-9]+)\]")


class ElectedModel:
    """Model name on the cards of recorded votes. The replies are the ballots that `ktdeval paper
    vote` reads, so the model itself can't reply.
    """

    def __init__(self, _name: str, params: ElectedParams) -> None:
        # The tokens of the voters' replies were already paid for in the voters' runs.
        is_free = all(voter.is_free for voter in params.voters)
        self.traits = ModelTraits(is_free=is_free)

    def reply(self, _request: ModelRequest) -> NoReturn:
        """Refuse to reply. Always raises ProviderError, because replies exist only in records."""
        raise ProviderError(
            f"{MODEL} has no replies of its own; elect from finished runs with `ktdeval paper vote RUN"
            " RUN…`, or let models vote in a run with --agent vote"
        )


class BallotModel:
    """Recorded ballots of one episode, in the order in which they are requested: by step, then by
    voter.
    """

    def __init__(self, replies: Iterable[Reply]) -> None:
        self._replies = iter(replies)

    def reply(self, _request: ModelRequest) -> Reply:
        """Return the next ballot. Raises ProviderError if all ballots have been returned."""
        reply = next(self._replies, None)
        if reply is None:
            raise ProviderError("the voters' runs have no further step")
        return reply


class RecordedVote:
    """Elects from one recorded ballot per voter. If a voter has no ballot, `no_ballot` is counted,
    but the voter still counts towards the majority threshold. Without any ballot, the step is a
    hold (`fallback`).
    """

    def __init__(self, voters: Sequence[str]) -> None:
        self._voters = tuple(voters)

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step; `memory` is not used."""
        ballots = list[Mapping[str, Any]]()
        for number, voter in enumerate(self._voters, 1):
            ballot = self._ballot(f"voter {number} ({voter})", number, observation, session)
            session.end_turn(ballot is not None)
            if ballot is None:
                session.count_failure(NO_BALLOT)
            else:
                ballots.append(ballot)

        if not ballots:
            return Decision((), "fallback", memory=memory)

        ballot = elect_submission(ballots, len(self._voters))
        state = observation.state or NOTHING_SHOWN
        submission = _submit_ballot(_on_assets_shown(ballot, state), session)
        if submission.action is None:
            return Decision((), "fallback", memory=memory)

        return Decision(
            submission.action, "elected", submission.overall_reason, submission.stock_ids, memory
        )

    def _ballot(
        self, role: str, number: int, observation: Observation, session: StepSession
    ) -> Mapping[str, Any] | None:
        """Return a voter's ballot; None if it is missing in this step."""
        tool = session.submit_tool
        messages = (
            Message("system", observation.system),
            Message("user", observation.user),
            Message("user", _NOTE.format(number=number)),
        )
        reply = session.ask(ModelRequest(messages, tools=(tool,), tool_choice=tool.name, role=role))
        if not reply.tool_calls:
            return None
        return submission_object(reply.tool_calls[0].arguments)


def _on_assets_shown(ballot: Mapping[str, Any], state: ObservedState) -> Mapping[str, Any]:
    """Return an elected ballot with one decision for each asset shown. An asset that only this
    account holds has no votes and gets HOLD. Assets that only voters held are dropped.
    """
    if "decisions" not in ballot:
        return ballot

    chosen = {label_key(item["stock_id"]): item for item in ballot["decisions"]}
    decisions = []
    for label in state.assets:
        no_vote = {
            "stock_id": label,
            "decision": "HOLD",
            "confidence": 0.5,
            "reason": "no voter was shown this asset",
        }
        decisions.append(chosen.get(label_key(label), no_vote))

    return {**ballot, "decisions": decisions}


def _submit_ballot(ballot: Mapping[str, Any], session: StepSession) -> Submission:
    """Submit an elected ballot. Voters decided for their own accounts, so some orders may break a
    rule on this account, such as the sale of an asset that it does not hold. These orders are
    dropped.
    """
    submission = session.parse_submission(dumps_canonical(ballot))
    while submission.failure == "constraint":
        _check_known("universe:" not in submission.feedback)
        broken = {int(number) for number in _AT_ORDER.findall(submission.feedback)}
        orders = [order for index, order in enumerate(ballot["orders"]) if index not in broken]
        if len(orders) == len(ballot["orders"]):
            return submission

        ballot = {**ballot, "orders": orders}
        submission = session.parse_submission(dumps_canonical(ballot))

    orders_known = all(order.asset is not None for order in submission.action or ())
    _check_known(orders_known)
    return submission


def _check_known(is_known: bool) -> None:
    """Raise UsageError if an elected order is for an asset that this account was not shown."""
    if not is_known:
        raise UsageError(
            "the majority orders an asset that only the voters' own research has shown; in a task"
            " with research, let the models vote in a run with --agent vote"
        )
