"""Policy of SELL, HOLD or BUY: a file of a small network's weights as JSON, read without running code and applied by NumPy, and the
model `rl/policy`, which decides by one from the history of prices that the prompt shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ktdeval.contracts import Window
from ktdeval.errors import DataError, ProviderError, UsageError, explained
from ktdeval.fields import user_path
from ktdeval.harness import HoldRule, ModelRequest, Reply
from ktdeval.jsonio import read_plain, sha256_hex
from ktdeval.keyless import NO_ACCOUNT, SUBMIT, Conversation
from ktdeval.market import FloatArray
from ktdeval.typed import Value, decode_json
from ktdeval_models.rl import PolicyParams

Algorithm = Literal["a2c", "ppo", "dqn"]
Vector = npt.NDArray[np.float32]
DECISIONS = ("SELL", "HOLD", "BUY")  #: by the number of the action
LIMIT = 10.0  #: largest size of a scaled return
MOST_BYTES, _LARGEST = 8 << 20, 1e6
_Day = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\d\Z")]
_Matrix = tuple[tuple[float, ...], ...]


class PolicyFile(Value):
    """Content of a policy's file: its features, what it was trained on, and the layers of its network."""

    format: Literal["ktdeval-rl-policy/1"]
    algorithm: Algorithm
    activation: Literal["tanh", "relu"]  #: between layers
    lookback: Annotated[int, msgspec.Meta(ge=1, le=499)]  #: returns in a feature vector
    scale: Annotated[float, msgspec.Meta(ge=1e-9, le=1e9)]  #: what a log return is divided by
    hold: HoldRule  #: what HOLD meant
    task: str
    snapshot: str  #: id of the market
    first: _Day  #: of the fills
    last: _Day  #: of the fills
    steps: int
    seed: int
    libraries: Mapping[str, str]  #: version of each package that trained it
    weights: Annotated[tuple[_Matrix, ...], msgspec.Meta(min_length=1, max_length=8)]  #: [layers][outputs][inputs]
    biases: _Matrix  #: [layers][outputs]


def overlap(first: str, last: str, window: Window) -> str | None:
    """Return why a window can't be evaluated after training from `first` to `last` (ISO days); None if it lies after them."""
    problem = f"window {window.name} ({window.first}:{window.last}) does not lie after the days of training, {first}:{last}"
    return None if last < window.first else f"{problem}; train on earlier days, or evaluate later ones (--windows)"


def features(closes: FloatArray, side: int, lookback: int, scale: float) -> Vector:
    """Return the feature vector of training and evaluation alike, [lookback + 1] float32: the last log returns divided by `scale`,
    oldest first, and the side held (+1, -1, 0). `closes`: adjusted, of days with trade, oldest first. Raises DataError: too few.
    """
    if len(closes) <= lookback:
        raise DataError(f"{len(closes)} closes are known, and {lookback} returns need {lookback + 1}")
    returns = np.diff(np.log(closes[-lookback - 1 :])) / scale
    return np.append(np.clip(returns, -LIMIT, LIMIT), side).astype(np.float32)


class Policy(NamedTuple):
    """Policy as read from its file."""

    content: PolicyFile
    sha256: str  #: of the file
    layers: Sequence[tuple[Vector, Vector]]  #: weights [outputs, inputs] and biases [outputs]

    def values(self, vectors: Vector) -> Vector:
        """[..., 3] preference for each decision, from [..., lookback + 1] feature vectors."""
        for layer, (weights, biases) in enumerate(self.layers):
            if layer:
                vectors = np.tanh(vectors) if self.content.activation == "tanh" else np.maximum(vectors, 0)
            vectors = vectors @ weights.T + biases
        return vectors


def read_policy(path: Path) -> Policy:
    """Read a policy. Raises DataError: no file, too large, malformed, layers that don't fit together, or a number out of range."""
    with explained(f"policy {path}: can't be read", "make one with `ktdeval rl train`", DataError):
        data = read_plain(path, MOST_BYTES)
    content = decode_json(data, PolicyFile, f"policy {path}", DataError)
    sizes = [content.lookback + 1, *map(len, content.biases)]
    rows = [[size] * outputs for size, outputs in pairwise(sizes)]
    if 0 in sizes or sizes[-1] != len(DECISIONS) or [[*map(len, matrix)] for matrix in content.weights] != rows:
        raise DataError(f"policy {path}: weights and biases don't fit together, {sizes[0]} features and 3 decisions")
    with np.errstate(over="ignore"):
        layers = [[np.array(part, np.float32) for part in layer] for layer in zip(content.weights, content.biases, strict=True)]
    if not all(np.abs(part).max() <= _LARGEST for layer in layers for part in layer):
        raise DataError(f"policy {path}: a weight or bias is not within ±{_LARGEST:g}")
    return Policy(content, sha256_hex(data), [(weights, biases) for weights, biases in layers])


class PolicyModel:
    """Submits a policy's decision, from the table `history` and the side held: a function of the request, under any mask."""

    is_free = True  # it calls no provider

    def __init__(self, _name: str, params: PolicyParams) -> None:
        """Read the policy. Raises DataError as `read_policy`, UsageError: it is not the one that the parameters pin."""
        self._policy = read_policy(user_path(params.policy))
        content = self._policy.content
        self.recorded_args = {"sha256": self._policy.sha256, "trained": f"{content.first}:{content.last}"}
        for name, actual in self.recorded_args.items():
            if (pinned := getattr(params, name)) not in (None, actual):
                raise UsageError(f"rl/policy: {params.policy}: {name} is {actual}, not {pinned}; name the policy that was meant")

    def window_problem(self, window: Window) -> str | None:
        """Return why a window can't be evaluated: it does not lie after the days of training."""
        problem = overlap(self._policy.content.first, self._policy.content.last, window)
        return problem and f"rl/policy: {problem}"

    def request_problem(self, request: ModelRequest) -> str | None:
        """Return why a task can't be answered: it is not one that the policy can decide on."""
        return self._problem(Conversation(request))

    def step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return why a step can't be answered: it asks for no submission."""
        return None if any(Conversation(request).is_submission for request in requests) else NO_ACCOUNT

    def _problem(self, conversation: Conversation) -> str | None:
        content = self._policy.content
        _, closes = _shown(conversation)
        is_own = conversation.state.get("constraints", {}).get("hold") == content.hold and len(closes) > content.lookback
        if is_own or not conversation.is_submission:
            return None
        return (
            f"rl/policy: decides on one asset by {content.lookback + 1} closes of `history` where `hold` is {content.hold};"
            " this prompt differs: choose a task such as investorbench_msft_history, or a later window"
        )

    def reply(self, request: ModelRequest) -> Reply:
        """Return the submission. Raises ProviderError as of `request_problem`."""
        conversation = Conversation(request)
        if not conversation.is_submission:
            return Reply("No research.")
        if problem := self._problem(conversation):
            raise ProviderError(problem)
        state, content = conversation.state, self._policy.content
        stock, closes = _shown(conversation)
        held = sum(np.sign(row["shares"]) for row in conversation.rows(state["positions"]) if row["stock_id"] == stock)
        values = self._policy.values(features(closes, int(held), content.lookback, content.scale))
        why = conversation.reason("preferred by the trained policy")
        decision = {"stock_id": stock, "decision": DECISIONS[int(values.argmax())], "confidence": 0.5, "reason": why}
        return conversation.call([(SUBMIT, {"decisions": [decision], "overall_reason": why})])


def _shown(conversation: Conversation) -> tuple[str | None, FloatArray]:
    """Return the one asset that is shown, None where there are others or none, and its [T] closes."""
    shown, history = (conversation.rows(conversation.state.get(name)) for name in ("candidates", "history"))
    stock = shown[0]["stock_id"] if len(shown) == 1 else None
    return stock, np.array([row["close"] for row in history if row["stock_id"] == stock], dtype=float)
