"""An environment's actions as a model's submissions, and the model `gym/actions`, which replays
recorded actions.

An action has one entry for each asset, in the order of `tradables`: a decision (BUY, SELL, HOLD) if
the task asks for decisions, otherwise a target weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from ktdeval.errors import DataError, ModelError, UsageError, wrap_os_error
from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.keyless import SUBMIT, Conversation
from ktdeval.observation import ObservedAsset, ObservedLimits, ObservedState
from ktdeval.trading import Side
from ktdeval.values import (
    JsonValue,
    Value,
    decode_json,
    encode_canonical,
    make_folder,
    read_plain,
    sha256_hex,
    user_path,
    write_atomic,
)
from ktdeval_gym.policies.params import ActionsParams

MAX_BYTES = 64 << 20
SMALLEST_CHANGE = 0.005  #: smallest weight change for which an order is placed
_CALLS_MADE = "Recorded calls of an environment's episode."
INVESTED = 0.995  #: maximum sum of target weights; the remainder pays for costs
Decision = Literal["BUY", "SELL", "HOLD"]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1)]
Step = tuple[Decision, ...] | tuple[Weight, ...]


class SubmittedCall(Value):
    """A tool call."""

    tool: str
    arguments: dict[str, Any]


class ActionsFile(Value):
    """Recorded actions of one episode."""

    format: Literal["ktdeval-gym-actions/1"]
    task: str
    #: actions at the steps at which the model was asked, keyed by step number
    steps: dict[str, tuple[Decision | Weight, ...]] = msgspec.field(default_factory=dict)
    #: for an episode with tools: calls grouped in rounds, each made without waiting for results in
    #: between
    rounds: tuple[tuple[SubmittedCall, ...], ...] = ()


def actions_of(task: str, steps: Mapping[int, Sequence[Decision | float]]) -> ActionsFile:
    """Return the record of an episode's actions."""
    return ActionsFile(
        format="ktdeval-gym-actions/1",
        task=task,
        steps={str(step): tuple(action) for step, action in steps.items()},
    )


def calls_of(task: str, rounds: Sequence[Sequence[SubmittedCall]]) -> ActionsFile:
    """Return the record of an episode's tool calls."""
    return ActionsFile(format="ktdeval-gym-actions/1", task=task, rounds=tuple(map(tuple, rounds)))


def write_actions(path: Path, content: ActionsFile) -> None:
    """Write the actions of an episode."""
    make_folder(path.parent, "choose another out")
    write_atomic(path, encode_canonical(content) + "\n")


def read_actions(path: Path) -> tuple[ActionsFile, str]:
    """Read actions, and return them with the file's SHA-256. Raises DataError."""
    advice = "name a file that an environment with `out` wrote"
    with wrap_os_error(f"actions {path}: can't be read", advice, DataError):
        data = read_plain(path, MAX_BYTES)
    return decode_json(data, ActionsFile, f"actions {path}", DataError), sha256_hex(data)


# ---- submissions


def tradables(state: ObservedState) -> tuple[ObservedAsset, ...]:
    """Return the assets that an action refers to, in order: candidates as shown, then other
    positions by label. If the task asks for decisions, only candidates are returned.
    """
    candidates = tuple(state.candidates.values())
    if state.limits.asks_decisions:
        return candidates

    others = sorted(state.positions.keys() - state.candidates.keys())
    return (*candidates, *(state.assets[label] for label in others))


def submission(conversation: Conversation, action: Sequence[Decision | float]) -> Reply:
    """Return the reply that submits an action."""
    state = conversation.observed
    shown = tradables(state)
    given = action[: len(shown)]
    why = conversation.reason("action of the environment's agent")
    if state.limits.asks_decisions:
        labels = [asset.label for asset in shown]
        return conversation.call([(SUBMIT, make_submission(labels, given, why))])

    weights = [float(weight) for weight in given]
    body = {
        "orders": orders_of(state, bound_weights(weights, state.limits), why),
        "overall_reason": why,
    }
    return conversation.call([(SUBMIT, body)])


def make_submission(
    labels: Sequence[str], decisions: Sequence[Decision | float], why: str
) -> dict[str, JsonValue]:
    """Return a submission with one decision for each label."""
    rows: list[JsonValue] = [
        {"stock_id": label, "decision": decision, "confidence": 0.5, "reason": why}
        for label, decision in zip(labels, decisions, strict=True)
    ]
    return {"decisions": rows, "overall_reason": why}


def bound_weights(weights: Sequence[float], limits: ObservedLimits) -> list[float]:
    """Return target weights within the task's limits: only the `max_positions` largest weights,
    none above `max_weight`, and together at most `INVESTED`.

    If equal weights tie for the last position, all of them are dropped, so that the display order
    does not matter.
    """
    wanted = [weight if weight >= SMALLEST_CHANGE else 0.0 for weight in weights]
    if limits.max_positions is not None and len(wanted) > limits.max_positions:
        border = sorted(wanted, reverse=True)[limits.max_positions]
        wanted = [weight if weight > border else 0.0 for weight in wanted]

    most = 1.0 if limits.max_weight is None else limits.max_weight
    cut = [min(weight, most) for weight in wanted]
    return [round(weight, 6) for weight in scaled_down(cut)]


def scaled_down(weights: Sequence[float]) -> list[float]:
    """Return target weights, scaled down if their sum exceeds `INVESTED`."""
    total = math.fsum(weights)
    if total <= INVESTED:
        return list(weights)
    return [weight * INVESTED / total for weight in weights]


@dataclass(frozen=True, slots=True)
class TargetMove:
    """An order that moves an asset to a target weight."""

    slot: int  #: slot of the asset
    side: Side
    weight: float  #: target weight


def moves(held: Sequence[float | None], weights: Sequence[float]) -> list[TargetMove]:
    """Return the orders that move positions to target weights, sells first.

    `held`: each slot's position as a share of NAV, or None without a position.
    """
    sells: list[TargetMove] = []
    buys: list[TargetMove] = []
    for slot, (position, weight) in enumerate(zip(held, weights, strict=True)):
        now = position or 0.0
        is_exit = weight == 0.0 and position is not None
        if abs(weight - now) < SMALLEST_CHANGE and not is_exit:
            continue

        if weight > now:
            buys.append(TargetMove(slot, "BUY", weight))
        else:
            sells.append(TargetMove(slot, "SELL", weight))

    return [*sells, *buys]


def orders_of(state: ObservedState, weights: Sequence[float], why: str) -> list[JsonValue]:
    """Return the orders that reach the target weights of `tradables(state)`, sells first."""
    shown = tradables(state)
    held: list[float | None] = []
    for asset in shown:
        position = state.positions.get(asset.label)
        held.append(None if position is None else position.weight or 0.0)

    return [
        {
            "stock_id": shown[move.slot].label,
            "side": move.side,
            "target_weight": move.weight,
            "confidence": 0.5,
            "reason": why,
        }
        for move in moves(held, weights)
    ]


# ---- the model


class ActionsModel:
    """Submits recorded actions step by step."""

    def __init__(self, _name: str, params: ActionsParams) -> None:
        """Read the actions.

        Raises DataError if the file has no actions; UsageError if they are not the actions pinned
        by the parameters.
        """
        self._actions, digest = read_actions(user_path(params.file))
        if params.sha256 not in (None, digest):
            raise UsageError(
                f"gym/actions: {params.file} has the SHA-256 {digest}, not {params.sha256}; give "
                "the recorded file"
            )
        self.traits = ModelTraits(is_free=True, recorded_args={"sha256": digest})

    def reply(self, request: ModelRequest) -> Reply:
        """Return the submission for a step, or the next round of calls.

        Raises ModelError if none is left, or if it does not fit the request.
        """
        conversation = Conversation(request)
        if self._actions.rounds:
            return self._calls(conversation)
        if not conversation.is_submission:
            return Reply("No research.")

        action = self._actions.steps.get(str(request.step))
        shown = tradables(conversation.observed)
        if action is None or len(action) < len(shown):
            raise ModelError(
                "no_recorded_action",
                f"gym/actions: step {request.step} has no action on {len(shown)} assets; record"
                " the episode again on this task and market",
            )
        return submission(conversation, action)

    def _calls(self, conversation: Conversation) -> Reply:
        """Return the next round of calls or, after the last round, the end of the calls or the
        form.
        """
        form = conversation.request.tool_choice
        if form is not None:
            return conversation.call([(form, {"summary": _CALLS_MADE})])

        rounds = self._actions.rounds
        if conversation.turns == len(rounds):
            return Reply(_CALLS_MADE)

        made = rounds[conversation.turns]
        return conversation.call([(call.tool, call.arguments) for call in made])
