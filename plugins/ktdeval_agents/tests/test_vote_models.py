"""Voters of one team on several models, and votes on recorded ballots: who is asked, who counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from ktdeval.errors import ConfigError, ProviderError, UsageError
from ktdeval.harness import ModelRequest, Observation, Reply, Submission, ToolCall
from ktdeval.observation import ObservedState
from ktdeval.trading import Order
from ktdeval_agents import ElectedParams, VoteParams
from ktdeval_agents.recorded_vote import BallotModel, ElectedModel, RecordedVote
from ktdeval_agents.team_vote import VoteAgent, make_vote
from support.tasks.agent_sessions import PreparedSession

TABLE = {"columns": ["stock_id", "close"], "rows": [["a", 10.0], ["b", 20.0]]}
STATE = ObservedState({"day": '"day_+0"', "candidates": json.dumps(TABLE)})
OBSERVATION = Observation(0, "You trade.", f"Today: {STATE.text}", STATE)


class Session(PreparedSession):
    """The replies come from ballots, in order; orders on `broken` labels break a
    rule, and those on `unknown` ones are on no asset.
    """

    submission_attempts = 1
    may_submit_early = False

    def __init__(
        self,
        ballots: Sequence[Any] = (),
        broken: Sequence[str] = (),
        unknown: Sequence[str] = (),
    ) -> None:
        super().__init__()
        replies = []
        for ballot in ballots:
            call = ToolCall("b", "submit_action", json.dumps(ballot))
            replies.append(Reply("no decision") if ballot is None else Reply("", (call,)))

        self._model = BallotModel(replies)
        self._broken = broken
        self._unknown = unknown
        self.submitted: list[Any] = []

    def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return self._model.reply(request)

    def parse_submission(self, text: str) -> Submission:
        submitted = json.loads(text)
        self.submitted.append(submitted)
        items = submitted.get("orders", ())
        places = [
            f"orders[{i}]" for i, item in enumerate(items) if item["stock_id"] in self._broken
        ]

        if places:
            problems = [{"at": place, "rule": "holding: is not held"} for place in places]
            feedback = json.dumps({"error": {"kind": "constraint", "problems": problems}})
            return Submission(None, failure="constraint", feedback=feedback)

        action = []
        for item in items:
            asset = None if item["stock_id"] in self._unknown else 0
            action.append(Order(asset, item["side"], 0.5, "why", item["target_weight"]))

        return Submission(tuple(action), submitted["overall_reason"])


def decisions(**sides: str) -> dict[str, Any]:
    items = []
    for label, side in sides.items():
        items.append({"stock_id": label, "decision": side, "confidence": 0.5, "reason": "why"})

    return {"decisions": items, "overall_reason": "why"}


def orders(**sides: str) -> dict[str, Any]:
    items = []
    for label, side in sides.items():
        order = {"stock_id": label, "side": side, "confidence": 0.5, "reason": "why"}
        items.append({**order, "target_weight": 0.1 if side == "BUY" else 0.0})

    return {"orders": items, "overall_reason": "why"}


def vote(session: Session, voters: int) -> Any:
    agent = RecordedVote([f"model {number}" for number in range(voters)])
    return agent.decide(OBSERVATION, session, None)


# -- one team on several models


class Listening(Session):
    """Answers every role, and listens to whom it asks."""

    def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        submission = json.dumps({"orders": [], "overall_reason": "hold"})
        return Reply("", (ToolCall("c", "submit_action", submission),))


def test_each_team_votes_on_each_model_under_a_name_of_its_own() -> None:
    agent = make_vote(VoteParams(("investor",), ("x/one; x/two(seed=1)", "x/one")))
    assert isinstance(agent, VoteAgent)
    assert agent.traits.further_models == ("x/one", "x/two(seed=1)")

    session = Listening()
    decision = agent.decide(OBSERVATION, session, None)  # type: ignore[arg-type]

    assert [request.model for request in session.asked] == ["x/one", "x/two(seed=1)", "x/one"]
    assert [request.role for request in session.asked] == [
        "voter 1 (investor on x/one): investor",
        "voter 2 (investor on x/two(seed=1)): investor",
        "voter 3 (investor on x/one): investor",
    ]
    assert decision.provenance == "elected"
    assert len(decision.memory) == 3  # type: ignore[arg-type]

    both = VoteAgent(VoteParams(("investor", "deepfund"), ("x/one;x/two",)))
    both_session = Listening()
    both.decide(OBSERVATION, both_session, None)  # type: ignore[arg-type]
    voters = dict.fromkeys(str(request.role).split(":")[0] for request in both_session.asked)

    assert list(voters) == [
        "voter 1 (investor on x/one)",
        "voter 2 (investor on x/two)",
        "voter 3 (deepfund on x/one)",
        "voter 4 (deepfund on x/two)",
    ]


def test_without_models_all_voters_ask_the_runs_own() -> None:
    agent = VoteAgent(VoteParams(("investor", "investor")))
    session = Listening()
    agent.decide(OBSERVATION, session, None)  # type: ignore[arg-type]

    assert agent.traits.further_models == ()
    assert [request.model for request in session.asked] == [None, None]

    with pytest.raises(ConfigError, match="one has no name"):
        VoteAgent(VoteParams(("investor",), ("x/one;",)))


# -- recorded ballots


def test_voter_without_a_ballot_is_counted_against_every_majority() -> None:
    session = Session([decisions(a="BUY", b="BUY"), decisions(a="BUY", b="SELL"), None])
    made = vote(session, 3)

    assert (made.provenance, session.failures) == ("elected", ["silent_role", "no_ballot"])
    assert [item["decision"] for item in session.submitted[0]["decisions"]] == ["BUY", "HOLD"]
    assert [request.role for request in session.asked] == [
        f"voter {number + 1} (model {number})" for number in range(3)
    ]

    half = Session([decisions(a="BUY", b="BUY"), None])
    vote(half, 2)

    assert [item["decision"] for item in half.submitted[0]["decisions"]] == ["HOLD", "HOLD"]

    nobody = Session([None, None])
    made = vote(nobody, 2)

    assert (made.provenance, nobody.failures) == ("fallback", ["silent_role", "no_ballot"] * 2)
    assert nobody.submitted == []


def test_decisions_are_those_of_the_assets_that_this_account_is_shown() -> None:
    session = Session([decisions(a="BUY", gone="SELL"), decisions(a="BUY", gone="SELL")])
    vote(session, 2)
    (submitted,) = session.submitted

    assert [(item["stock_id"], item["decision"]) for item in submitted["decisions"]] == [
        ("a", "BUY"),
        ("b", "HOLD"),
    ]


def test_orders_that_break_a_rule_on_this_account_are_left_out_one_by_one() -> None:
    ballots = [orders(a="SELL", b="BUY")] * 2
    session = Session(ballots, broken=["a"])
    made = vote(session, 2)

    assert [order.side for order in made.action] == ["BUY"]
    assert made.provenance == "elected"

    with pytest.raises(UsageError, match="only the voters' own research has shown"):
        vote(Session(ballots, unknown=["b"]), 2)


def test_the_model_of_a_vote_has_no_replies_of_its_own() -> None:
    model = ElectedModel("majority", ElectedParams())
    with pytest.raises(ProviderError, match=r"ktdeval paper vote RUN RUN"):
        model.reply(ModelRequest(()))

    with pytest.raises(ProviderError, match="no further step"):
        BallotModel([]).reply(ModelRequest(()))
