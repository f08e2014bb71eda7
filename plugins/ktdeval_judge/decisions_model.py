"""Model `declared/decisions`, which submits the decisions in a plan and reads only the account.

The plan is found in the user's cache by its SHA-256, which is the model's only parameter. A run's
records therefore identify the plan's content, not a path on this machine. `ktdeval judge` stores
the plan in the cache, and a copy in the run folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.harness import ModelRequest, ModelTraits, Reply
from ktdeval.keyless import NO_ACCOUNT, Conversation
from ktdeval.runner import cache_folder
from ktdeval.values import JsonValue, read_plain, sha256_hex, write_atomic
from ktdeval_judge.params import DeclaredParams
from ktdeval_judge.plan import MAX_BYTES, DeclaredOrder, DeclaredPlan, Held, PlanReader, read_plan

MODEL = "declared/decisions"
CONFIDENCE = 0.5  #: confidence of every order, because files do not declare a confidence


def kept_plan(sha256: str) -> Path:
    """Return the path of a plan in the cache. Raises ConfigError if the hash is malformed."""
    if len(sha256) != 64 or not set(sha256) <= set("0123456789abcdef"):
        raise ConfigError(f"sha256 {sha256[:40]!r}: expected 64 hexadecimal digits")
    return cache_folder() / "declared" / f"{sha256}.json"


def keep_plan(plan: DeclaredPlan) -> Path:
    """Store a plan in the cache, and return its path."""
    path = kept_plan(plan.sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, plan.encode())
    return path


class DecisionsModel:
    """Submits the orders in a plan. Keeps no state between steps."""

    def __init__(self, _name: str, params: DeclaredParams) -> None:
        """Read the plan. Raises ConfigError if the plan is not in the cache, or if it has been
        changed.
        """
        path = kept_plan(params.sha256)
        try:
            data = read_plain(path, MAX_BYTES)
        except OSError as error:
            raise ConfigError(
                f"plan {params.sha256[:12]} is not in the cache; run `ktdeval judge` on the file "
                "of decisions or on the run folder to restore it"
            ) from error

        if sha256_hex(data) != params.sha256:
            raise ConfigError(
                f"{path}: the file was changed; delete it and run `ktdeval judge` again"
            )

        self._plan = read_plan(data, path.name)
        self._reader = PlanReader(self._plan)
        self.traits = ModelTraits(is_free=True, request_problem=_problem)

    def reply(self, request: ModelRequest) -> Reply:
        """Return the reply to a request."""
        conversation = Conversation(request)
        if not conversation.is_submission or not conversation.is_readable:
            return Reply("Nothing to look up.")

        state = conversation.state
        day = str(state["day"])
        labels = self._plan.labels_on(day)
        codes = {label: code for code, label in labels.items()}
        held = {}
        for row in conversation.rows(state["positions"]):
            label = str(row["stock_id"])
            held[codes.get(label, label)] = Held(float(row["shares"]), float(row["value"]))

        nav = float(state["account"]["nav"])
        submitted = []
        for order in self._reader.orders(day, held, nav):
            label = labels.get(order.code, order.code)
            submitted.append(_submit_order(order, label, conversation))

        return conversation.submit(submitted, conversation.reason("As declared."))


def _problem(request: ModelRequest) -> str | None:
    conversation = Conversation(request)
    if conversation.is_submission and not conversation.is_readable:
        return NO_ACCOUNT
    return None


def _submit_order(
    order: DeclaredOrder, label: str, conversation: Conversation
) -> dict[str, JsonValue]:
    size: dict[str, Any] = {"target_weight": order.weight}
    if order.weight is None:
        shares = order.shares or 0.0
        size = {"shares": int(shares) if shares == int(shares) else shares}

    return {
        "stock_id": label,
        "side": order.side,
        "confidence": CONFIDENCE,
        "reason": conversation.reason("as declared"),
        **size,
    }
