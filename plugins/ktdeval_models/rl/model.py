"""`rl/policy`: decides by a trained policy, from the history of prices that the prompt shows; needs only NumPy."""

from __future__ import annotations

import numpy as np

from ktdeval.contracts import Window
from ktdeval.errors import ProviderError, UsageError
from ktdeval.fields import user_path
from ktdeval.harness import ModelRequest, Reply
from ktdeval.keyless import SUBMIT, Conversation
from ktdeval.market import FloatArray
from ktdeval_models.rl import PolicyParams
from ktdeval_models.rl.policy import DECISIONS, features, overlap, read_policy


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
