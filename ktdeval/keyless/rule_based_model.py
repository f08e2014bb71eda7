"""Rule-based models. Like a real model, they look things up, check their plan and submit it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ktdeval.harness.chat_messages import ModelRequest, Reply
from ktdeval.harness.traits import ModelTraits
from ktdeval.keyless.mask_invariant_order import Row
from ktdeval.keyless.ranking_orders import Intent
from ktdeval.keyless.request_and_reply import Call, Conversation
from ktdeval.values.documents.strict_json import JsonValue

NO_ACCOUNT = "trades, and needs a task that shows an account and takes orders"
"""Why a model of rules can't act on a task that asks for something else."""


class KeylessModel:
    """A stateless function of the request, in the harness's two phases.

    In the research phase, if tools are offered, the model makes the calls of `lookups` in one turn,
    then a `risk_check` of the plan, and ends with a closing remark, or with the submission if it
    already counts. In the submission phase, it submits the plan without the orders that break a
    rule according to the risk check.
    """

    closing = "Research done."

    def __init__(self, _name: str = "") -> None:
        """Create a model without parameters; any name is accepted."""

    @property
    def traits(self) -> ModelTraits:
        """Traits: the model is free, and declares what it requires of a step."""
        return ModelTraits(is_free=True, step_problem=self._step_problem)

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request."""
        conversation = Conversation(request)
        if conversation.is_submission:
            return self._submit(conversation)
        if conversation.choices:
            return conversation.choose_all()

        calls = []
        for name, arguments in self._next_calls(conversation):
            if name in conversation.offered:
                calls.append((name, arguments))

        if not calls and request.may_submit:
            forced = replace(request, tool_choice=request.submit_tool)
            return self._submit(Conversation(forced))
        if not calls:
            return Reply(self.closing)
        return conversation.call(calls)

    def _submit(self, conversation: Conversation) -> Reply:
        intents: Sequence[Intent] = ()
        if conversation.is_readable:
            intents = self._check_intents(conversation)

        orders = [intent.order(conversation) for intent in intents]
        explained = self.explain_intents(conversation, intents)
        return conversation.submit(orders, conversation.reason(explained))

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return what the model needs but the step lacks, worded as the end of a sentence that
        begins with the model's name; None if the model can act.

        `requests` contains all requests of a first step, before any reply by this model.
        """
        conversations = [Conversation(request) for request in requests]
        if not any(asked.is_submission and asked.is_readable for asked in conversations):
            return NO_ACCOUNT
        if not self.can_act(conversations):
            return f"needs {self.needs}"
        return None

    needs = "an account to trade"
    """Requirements on a task, as text."""

    def can_act(self, conversations: Sequence[Conversation]) -> bool:  # noqa: ARG002 - an account is enough
        """Return whether the conversations of a first step show or offer the data that the model
        uses.
        """
        return True

    def _next_calls(self, conversation: Conversation) -> Sequence[Call]:
        if not conversation.is_readable:
            return ()
        if conversation.turns == 0:
            return self.lookups(conversation)

        if conversation.turns > 1:
            return ()

        weights: dict[str, JsonValue] = {}
        for intent in self.plan(conversation):
            weights[intent.stock_id] = intent.target_weight

        if not weights:
            return ()
        return [("risk_check", {"target_weights": weights})]

    def _check_intents(self, conversation: Conversation) -> Sequence[Intent]:
        report = conversation.result_rows("risk_check", "plan")
        forbidden = {row["stock_id"] for row in report if row["violation"] is not None}
        return [intent for intent in self.plan(conversation) if intent.stock_id not in forbidden]

    def lookups(self, conversation: Conversation) -> Sequence[Call]:  # noqa: ARG002 - it looks nothing up
        """Return the calls for the first research turn; empty unless a subclass overrides this
        method.
        """
        return ()

    def plan(self, conversation: Conversation) -> Sequence[Intent]:
        """Return the orders that follow from the conversation so far; empty if it contains no data
        on which to decide.
        """
        raise NotImplementedError

    def explain_intents(self, conversation: Conversation, intents: Sequence[Intent]) -> str:  # noqa: ARG002 - whatever is shown
        """Return the overall reason."""
        return self.summary(intents)

    def summary(self, intents: Sequence[Intent]) -> str:
        """Return an overall reason that summarises rule-based orders."""
        if not intents:
            return "Nothing to change by rule."

        buys = sum(intent.side == "BUY" for intent in intents)
        return f"{buys} buys and {len(intents) - buys} sells by rule."


def table_columns(conversations: Sequence[Conversation], table: str) -> frozenset[str]:
    """Return the union of a table's columns over all submission prompts that show the table; empty
    if no prompt shows it.
    """
    columns = set[str]()
    for asked in conversations:
        shown = asked.state.get(table)
        if asked.is_submission and isinstance(shown, Mapping):
            columns.update(shown.get("columns", ()))

    return frozenset(columns)


def is_offered(conversations: Sequence[Conversation], tool: str) -> bool:
    """Return whether any conversation offers a research tool."""
    return any(tool in asked.offered for asked in conversations)


def buyable(rows: Sequence[Row]) -> list[Row]:
    """Return the rows of names that trade and are not at their upper price limit."""
    return [row for row in rows if row["status"] in ("trading", "limit_down")]
