"""What is elected of several submissions, by hand; voters with memories and replies of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_team import Session, observation, orders

from ktdeval.errors import ConfigError, ModelError
from ktdeval_agents import VoteParams
from ktdeval_agents.vote import VoteAgent, elected
from tables import on_each_row

REASON = "no majority among the voters"


def order(side: str, weight: float | None, confidence: float = 0.5) -> dict[str, Any]:
    size = {"shares": 100} if weight is None else {"target_weight": weight}
    return {"stock_id": "a", "side": side, "confidence": confidence, "reason": side, **size}


def decision(asset: str, side: str, confidence: float = 0.5) -> dict[str, Any]:
    return {"stock_id": asset, "decision": side, "confidence": confidence, "reason": f"why {side}"}


@on_each_row
def test_orders_need_more_than_half_of_all_voters(given: Any, voters: int, expected: Any) -> None:
    given, (expected,) = ([[order(*one) for one in items] for items in each] for each in (given, [expected]))
    found = elected([{"orders": items, "overall_reason": "x"} for items in given], voters)
    assert found["orders"] == [{**item, "confidence": pytest.approx(item["confidence"])} for item in expected]
    assert found["overall_reason"] == f"Elected by {len(given)} ballots of {voters} voters."


def test_decisions_without_a_majority_are_hold() -> None:
    sides = (("BUY", "BUY", "SELL"), ("BUY", "SELL", "HOLD"), ("SELL", "SELL", "SELL"))
    ballots = [{"decisions": [decision(asset, row[voter]) for asset, row in zip("abc", sides, strict=True)]} for voter in range(3)]
    hold = {"stock_id": "b", "decision": "HOLD", "confidence": 0.5, "reason": REASON}
    assert elected(ballots, 3)["decisions"] == [decision("a", "BUY"), hold, decision("c", "SELL")]


def test_of_other_forms_the_answer_that_comes_most_often_is_taken() -> None:
    assert elected([{"x": 1}, {"x": 2}, {"x": 2}], 3) == {"x": 2}
    assert elected([{"x": 1}, {"x": 2}], 2) == {"x": 1}


def test_voters_decide_by_themselves_and_remember_their_own_ballots() -> None:
    agent = VoteAgent(VoteParams(("investor", "deepfund")))
    session = Session(submits=orders(("asset_1", "BUY", 0.5)), budget=9)
    first = agent.decide(observation(), session, None)  # type: ignore[arg-type]
    assert session.order[0] == session.order[1] == "voter 1 (investor): investor"
    assert session.order[-1] == "voter 2 (deepfund): portfolio_manager"
    assert (first.provenance, first.action[0].side) == ("model", "BUY")
    assert [[entry["asset"] for entry in held["entries"]] for held in first.memory] == [["asset_1"], ["asset_1"]]  # type: ignore[union-attr,index,call-overload]

    failed = Session({"voter 2 (deepfund): risk_control": None})
    with pytest.raises(ModelError):
        agent.decide(observation(1), failed, json.loads(json.dumps(first.memory)))  # type: ignore[arg-type]
    assert [[entry["change_pct"] for entry in held["entries"]] for held in failed.kept] == [
        [1.0],
        [1.0],
    ]  # and no ballot of the step


def test_teams_that_are_not_there_can_not_vote() -> None:
    with pytest.raises(ConfigError, match="'trader' is no team that can vote; did you mean 'trade'"):
        VoteAgent(VoteParams(("trader",)))
    with pytest.raises(ConfigError, match="name at least one"):
        VoteAgent(VoteParams(()))
