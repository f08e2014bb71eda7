"""A vote: several teams submit in one step, and the majority decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from ktdeval.errors import ConfigError, StoreError
from ktdeval.fields import near_matches
from ktdeval.harness import Decision, Observation, StepSession, json_object, label_key
from ktdeval.jsonio import JsonValue, dumps_canonical
from ktdeval.trading import DECIDED, Provenance
from ktdeval.typed import from_plain
from ktdeval_agents import TEAMS, VoteParams
from ktdeval_agents.team import RoleSession, make_team


class VoteAgent:
    """Each voter decides independently; the elected submission goes through the task's own form. Without a vote, or if the form
    refuses the elected submission, the step is a hold (`fallback`).
    """

    def __init__(self, params: VoteParams | None = None) -> None:
        names = (params or VoteParams()).agents
        if unknown := [name for name in names if name not in TEAMS]:
            raise ConfigError(f"agents: {unknown[0]!r} is not a team that can vote{near_matches(unknown[0], TEAMS)}")
        if not names:
            raise ConfigError("agents: name at least one team that votes")
        self._voters = [(f"voter {number} ({name})", make_team(name)) for number, name in enumerate(names, 1)]

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError: a voter's model call failed; StoreError: `memory` is not this agent's."""
        memories = [None] * len(self._voters) if memory is None else from_plain(memory, list[Any], "memory of the agent vote")
        if len(memories) != len(self._voters):
            raise StoreError(f"memory of the agent vote: of {len(memories)} voters, and {len(self._voters)} vote")
        kept, ballots, provenances = [*memories], list[Mapping[str, Any]](), set[Provenance]()
        for index, ((name, voter), held) in enumerate(zip(self._voters, memories, strict=True)):

            def keep(value: JsonValue, index: int = index) -> None:
                kept[index] = value
                session.keep([*kept])

            role_session = RoleSession(session, name, session.tool_budget // (len(self._voters) - index), keep)
            decision = voter.decide(observation, role_session, held)
            memories[index] = decision.memory
            if decision.provenance in DECIDED:
                ballots.append(json_object(role_session.submitted))
                provenances.add(decision.provenance)
        submission = session.parse_submission(dumps_canonical(elected(ballots, len(self._voters)))) if ballots else None
        if submission is None or submission.action is None:
            return Decision((), "fallback", memory=memories)
        provenance: Provenance = "model" if provenances == {"model"} else "model_after_retry"
        return Decision(submission.action, provenance, submission.overall_reason, submission.stock_ids, memories)


def elected(ballots: Sequence[Mapping[str, Any]], voters: int) -> Mapping[str, Any]:
    """Return the elected submission: by asset the side that more than half of all voters chose, with the mean confidence and the
    median weight; without such a side no order, or HOLD. For other forms, the most frequent ballot.
    """
    kind = next((kind for kind in ("orders", "decisions") if all(kind in ballot for ballot in ballots)), None)
    if kind is None:
        texts = [dumps_canonical(ballot) for ballot in ballots]
        return ballots[texts.index(Counter(texts).most_common(1)[0][0])]
    field, items = {"orders": "side", "decisions": "decision"}[kind], list[Mapping[str, Any]]()
    by_asset: dict[str, dict[int, Mapping[str, Any]]] = {}
    for voter, ballot in enumerate(ballots):
        for item in ballot[kind]:
            by_asset.setdefault(label_key(item["stock_id"]), {})[voter] = item
    for votes in by_asset.values():
        side, count = Counter(item[field] for item in votes.values()).most_common(1)[0]
        chosen = [item for item in votes.values() if item[field] == side]
        if 2 * count > voters:
            weights = [item["target_weight"] for item in chosen if "target_weight" in item]
            size = {"target_weight": median(weights)} if len(weights) == count else {}
            items.append({**chosen[0], **size, "confidence": fmean(item["confidence"] for item in chosen)})
        elif kind == "decisions":
            items.append(
                {"stock_id": chosen[0]["stock_id"], field: "HOLD", "confidence": 0.5, "reason": "no majority among the voters"}
            )
    return {kind: items, "overall_reason": f"Elected by {len(ballots)} ballots of {voters} voters."}
