"""Policies that choose SELL, HOLD or BUY, and the model `rl/policy`, which applies such a policy.

A policy is a small network. Its file is JSON and contains the weights. The file is read without
executing code, and the policy is applied with NumPy. The model computes the features from the
prices in the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, ProviderError, UsageError, wrap_os_error
from ktdeval.harness import HoldRule, ModelRequest, ModelTraits, Reply
from ktdeval.keyless import NO_ACCOUNT, SUBMIT, Conversation
from ktdeval.market import FloatArray
from ktdeval.observation import ObservedState
from ktdeval.task_api import Window
from ktdeval.values import Value, decode_json, read_plain, sha256_hex, user_path
from ktdeval_gym.policies.params import PolicyParams
from ktdeval_gym.policies.training_options import Algorithm

Vector = npt.NDArray[np.float32]
DECISIONS: tuple[Literal["SELL", "HOLD", "BUY"], ...] = (
    "SELL",
    "HOLD",
    "BUY",
)  #: decisions in the order of their action numbers
LIMIT = 10.0  #: maximum absolute value of a scaled return
MAX_BYTES = 8 << 20
_LARGEST = 1e6
_Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")]
_Matrix = tuple[tuple[float, ...], ...]


class PolicyFile(Value):
    """Contents of a policy file: the features, what the policy was trained on, and the layers of
    its network.
    """

    format: Literal["ktdeval-rl-policy/1"]
    algorithm: Algorithm
    activation: Literal["tanh", "relu"]  #: activation function between layers
    lookback: Annotated[int, msgspec.Meta(ge=1, le=499)]  #: number of returns in a feature vector
    scale: Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]  #: divisor for log returns
    hold: HoldRule  #: meaning of HOLD during training
    task: str
    snapshot: str  #: id of the market
    first: _Day  #: first fill day of the training
    last: _Day  #: last fill day of the training
    steps: int
    seed: int
    libraries: Mapping[str, str]  #: version of each package used in training
    #: [layers][outputs][inputs]
    weights: Annotated[tuple[_Matrix, ...], msgspec.Meta(min_length=1, max_length=8)]
    biases: _Matrix  #: [layers][outputs]


def overlap(first: str, last: str, window: Window) -> str | None:
    """Return why a window can't be evaluated after training from `first` to `last` (ISO days); None
    if the window lies after the training days.
    """
    if last < window.first:
        return None

    evaluated = f"window {window.name} ({window.first}:{window.last})"
    problem = f"{evaluated} is not after the days of training, {first}:{last}"
    advice = f"train on days before {window.first}, or evaluate days after {last} (--windows)"

    return f"{problem}; {advice}"


def features(closes: FloatArray, side: int, lookback: int, scale: float) -> Vector:
    """Return the features for a decision, [lookback + 1] float32, in training and evaluation alike.

    The features are the last log returns divided by `scale`, oldest first, and the side held (1, -1
    or 0). `closes`: adjusted closes on trading days, oldest first. Raises DataError if there are
    too few closes.
    """
    if len(closes) <= lookback:
        raise DataError(
            f"{len(closes)} closes are known, and {lookback} returns need {lookback + 1}"
        )
    returns = np.diff(np.log(closes[-lookback - 1 :]))
    scaled = np.clip(returns / scale, -LIMIT, LIMIT)
    return np.append(scaled, side).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy read from its file."""

    content: PolicyFile
    sha256: str  #: SHA-256 of the file
    layers: Sequence[tuple[Vector, Vector]]  #: weights [outputs, inputs] and biases [outputs]

    def values(self, vectors: Vector) -> Vector:
        """Return the preference values of the decisions, [..., 3], for features [..., lookback +
        1].
        """
        for number, (weights, biases) in enumerate(self.layers):
            if number > 0:  # between layers
                vectors = self._activate(vectors)
            vectors = vectors @ weights.T + biases
        return vectors

    def _activate(self, vectors: Vector) -> Vector:
        if self.content.activation == "tanh":
            return np.tanh(vectors)
        return np.maximum(vectors, 0)


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises DataError if the file can't be read, is too large or is malformed, if its layers don't
    fit together, or if a number is out of range.
    """
    with wrap_os_error(
        f"policy {path}: can't be read", "make one with `ktdeval train rl`", DataError
    ):
        data = read_plain(path, MAX_BYTES)

    content = decode_json(data, PolicyFile, f"policy {path}", DataError)
    # number of inputs, then the number of outputs of each layer
    sizes = [content.lookback + 1, *map(len, content.biases)]
    expected = [[inputs] * outputs for inputs, outputs in pairwise(sizes)]
    row_lengths = [list(map(len, matrix)) for matrix in content.weights]
    if 0 in sizes or sizes[-1] != len(DECISIONS) or row_lengths != expected:
        raise DataError(
            f"policy {path}: weights and biases have inconsistent sizes, {sizes[0]} features and "
            "3 decisions"
        )

    layers = []
    for matrix, vector in zip(content.weights, content.biases, strict=True):
        # values too large for float32 become infinite, and are refused below
        with np.errstate(over="ignore"):
            weights = np.array(matrix, np.float32)
            biases = np.array(vector, np.float32)

        largest = max(np.abs(weights).max(), np.abs(biases).max())
        if not largest <= _LARGEST:
            raise DataError(f"policy {path}: a weight or bias is not within ±{_LARGEST:g}")

        layers.append((weights, biases))

    return Policy(content, sha256_hex(data), layers)


class PolicyModel:
    """Submits a policy's decision. The decision depends only on the table `history` and on the
    position in the request, not on labels or days.
    """

    def __init__(self, _name: str, params: PolicyParams) -> None:
        """Read the policy. Raises DataError as `read_policy` does; UsageError if the policy is not
        the one pinned by the parameters.
        """
        self._policy = read_policy(user_path(params.policy))
        content = self._policy.content
        pins = {
            "sha256": self._policy.sha256,
            "trained": f"{content.first}:{content.last}",
        }

        for name, actual in pins.items():
            pinned = getattr(params, name)
            if pinned not in (None, actual):
                raise UsageError(
                    f"rl/policy: {params.policy}: {name} is {actual}, not {pinned}; give the "
                    "recorded policy"
                )

        self.traits = ModelTraits(
            is_free=True,
            recorded_args=pins,
            window_problem=self._window_problem,
            request_problem=self._request_problem,
            step_problem=self._step_problem,
        )

    def _window_problem(self, window: Window) -> str | None:
        """Return why a window can't be evaluated, which is that it does not lie after the training
        days; None if it can.
        """
        problem = overlap(self._policy.content.first, self._policy.content.last, window)
        return problem and f"rl/policy: {problem}"

    def _request_problem(self, request: ModelRequest) -> str | None:
        """Return why the policy can't decide on a task; None if it can."""
        return self._problem(Conversation(request))

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return why a step can't be answered, which is that it does not ask for a submission; None
        if it can.
        """
        if any(Conversation(request).is_submission for request in requests):
            return None
        return NO_ACCOUNT

    def _problem(self, conversation: Conversation) -> str | None:
        if not conversation.is_submission:
            return None

        content = self._policy.content
        state = conversation.observed
        _, closes = shown_asset(state)
        if state.limits.hold == content.hold and len(closes) > content.lookback:
            return None

        return (
            f"rl/policy: decides on one asset by {content.lookback + 1} closes of `history` where"
            f" `hold` is {content.hold}; this prompt differs: choose the task that it was trained"
            f" on, {content.task}, or a later window"
        )

    def reply(self, request: ModelRequest) -> Reply:
        """Return the submission. Raises ProviderError with the text of `_problem`."""
        conversation = Conversation(request)
        if not conversation.is_submission:
            return Reply("No research.")
        problem = self._problem(conversation)
        if problem:
            raise ProviderError(problem)

        state = conversation.observed
        content = self._policy.content
        stock, closes = shown_asset(state)
        side = shown_side(state, stock)
        values = self._policy.values(features(closes, side, content.lookback, content.scale))
        why = conversation.reason("preferred by the trained policy")
        decision = {
            "stock_id": stock,
            "decision": DECISIONS[int(values.argmax())],
            "confidence": 0.5,
            "reason": why,
        }

        return conversation.call([(SUBMIT, {"decisions": [decision], "overall_reason": why})])


def shown_asset(state: ObservedState) -> tuple[str | None, FloatArray]:
    """Return the label of the shown asset and its closes, [T]; None and no closes unless exactly
    one asset is shown.
    """
    if len(state.candidates) != 1:
        return None, np.empty(0)

    (label,) = state.candidates
    closes = [bar.close for bar in state.history.get(label, ())]
    return label, np.array(closes, dtype=float)


def shown_side(state: ObservedState, label: str | None) -> int:
    """Return 1 for a long position, -1 for a short position, 0 for no position."""
    position = state.positions.get(label or "")
    if position is None:
        return 0
    return int(np.sign(position.shares or 0.0))
