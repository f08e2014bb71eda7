"""Actions of an environment as a model's submissions, and the model `gym/actions`, which submits
recorded ones.

An action is one entry for each asset in the order in which a step shows them: a decision (BUY, SELL,
HOLD) where the task asks for these, else a target weight. So a record does not depend on labels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ktdeval.errors import DataError, ModelError, UsageError, explained
from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import SUBMIT, Conversation
from ktdeval.observation import ObservedAsset, ObservedState
from ktdeval.values.fields import user_path
from ktdeval.values.jsonio import JsonValue, make_folder, read_plain, sha256_hex, write_atomic
from ktdeval.values.typed import Value, decode_json, encode_canonical
from ktdeval_gym.params import ActionsParams

MOST_BYTES = 64 << 20
SMALLEST_CHANGE = 0.005  #: of a weight; a smaller difference makes no order
INVESTED = 0.995  #: largest sum of target weights: the rest pays costs
Decision = Literal["BUY", "SELL", "HOLD"]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1)]
Step = tuple[Decision, ...] | tuple[Weight, ...]


class ActionsFile(Value):
    """Recorded actions of one episode, by the steps at which something was asked."""

    format: Literal["ktdeval-gym-actions/1"]
    task: str
    steps: dict[str, tuple[Decision | Weight, ...]]  #: by the number of the step


def write_actions(path: Path, task: str, steps: Mapping[int, Sequence[Decision | float]]) -> None:
    """Write the actions of an episode."""
    content = ActionsFile(
        format="ktdeval-gym-actions/1",
        task=task,
        steps={str(step): tuple(action) for step, action in steps.items()},
    )
    make_folder(path.parent, "choose another out")
    write_atomic(path, encode_canonical(content) + "\n")


def read_actions(path: Path) -> tuple[ActionsFile, str]:
    """Read actions. Return them with the file's SHA-256. Raises DataError."""
    advice = "name a file that an environment with `out` wrote"
    with explained(f"actions {path}: can't be read", advice, DataError):
        data = read_plain(path, MOST_BYTES)
    return decode_json(data, ActionsFile, f"actions {path}", DataError), sha256_hex(data)


# ---- submissions


def tradables(state: ObservedState) -> tuple[ObservedAsset, ...]:
    """Return the assets that an action is about, in order: candidates, then other positions; only
    candidates where the task asks for decisions.
    """
    if state.limits.asks_decisions:
        return tuple(state.candidates.values())
    return tuple(state.assets.values())


def submission(conversation: Conversation, action: Sequence[Decision | float]) -> Reply:
    """Return the reply that submits an action."""
    state = conversation.observed
    shown = tradables(state)
    given = action[: len(shown)]
    why = conversation.reason("action of the environment's agent")
    if state.limits.asks_decisions:
        decisions: list[JsonValue] = [
            {"stock_id": asset.label, "decision": decision, "confidence": 0.5, "reason": why}
            for asset, decision in zip(shown, given, strict=True)
        ]
        body: dict[str, JsonValue] = {"decisions": decisions}
    else:
        weights = [float(weight) for weight in given]
        body = {"orders": orders_of(state, bounded(weights, state), why)}

    return conversation.call([(SUBMIT, {**body, "overall_reason": why})])


def bounded(weights: Sequence[float], state: ObservedState) -> list[float]:
    """Return target weights within the task's limits: the largest `max_positions` of them, none
    above `max_weight`, and together at most `INVESTED`. Equal weights at the border are all left
    out, so that the order shown decides nothing.
    """
    limits = state.limits
    wanted = [weight if weight >= SMALLEST_CHANGE else 0.0 for weight in weights]
    if limits.max_positions is not None and len(wanted) > limits.max_positions:
        border = sorted(wanted, reverse=True)[limits.max_positions]
        wanted = [weight if weight > border else 0.0 for weight in wanted]

    most = 1.0 if limits.max_weight is None else limits.max_weight
    cut = [min(weight, most) for weight in wanted]
    total = math.fsum(cut)
    if total > INVESTED:
        cut = [weight * INVESTED / total for weight in cut]
    return [round(weight, 6) for weight in cut]


def orders_of(state: ObservedState, weights: Sequence[float], why: str) -> list[JsonValue]:
    """Return the orders to target weights of `tradables(state)`, sells first."""
    sells: list[JsonValue] = []
    buys: list[JsonValue] = []
    for asset, weight in zip(tradables(state), weights, strict=True):
        position = state.positions.get(asset.label)
        now = 0.0
        if position is not None:
            now = position.weight or 0.0

        is_exit = weight == 0.0 and position is not None
        if abs(weight - now) < SMALLEST_CHANGE and not is_exit:
            continue

        order: dict[str, JsonValue] = {
            "stock_id": asset.label,
            "side": "BUY" if weight > now else "SELL",
            "target_weight": weight,
            "confidence": 0.5,
            "reason": why,
        }
        (buys if weight > now else sells).append(order)

    return [*sells, *buys]


# ---- the model


class ActionsModel:
    """Submits recorded actions, step by step."""

    is_free = True

    def __init__(self, _name: str, params: ActionsParams) -> None:
        """Read the actions. Raises DataError: there are none; UsageError: not those that the
        parameters pin.
        """
        self._actions, digest = read_actions(user_path(params.file))
        if params.sha256 not in (None, digest):
            raise UsageError(
                f"gym/actions: {params.file} has the SHA-256 {digest}, not {params.sha256}; name the"
                " file that was meant"
            )
        self.recorded_args: Mapping[str, JsonValue] = {"sha256": digest}

    def reply(self, request: ModelRequest) -> Reply:
        """Return the submission of a step. Raises ModelError: there is none, or it does not fit."""
        conversation = Conversation(request)
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
