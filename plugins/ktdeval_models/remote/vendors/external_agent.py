"""Call an external trading agent over HTTP, with the Agent Market Arena endpoint `POST
/trading_action/`.

The agent is asked for one decision per step. Its answer is recorded like a model's reply, so cards
can be verified without the agent. An invalid answer is a failed call, never a HOLD. Source of the
fields: The-FinAI/Agent_Market_Arena, testbed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ktdeval.calls import bad_response
from ktdeval.errors import ConfigError, ProviderError
from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolProtocol
from ktdeval.keyless import NO_ACCOUNT, Conversation, Row
from ktdeval.masking import shorten
from ktdeval.values import JsonValue, loads_untrusted
from ktdeval_models.remote.base import RemoteAdapter
from ktdeval_models.remote.params import RemoteParams
from ktdeval_models.remote.wire_words import by_word

ACTIONS = ("BUY", "SELL", "HOLD")
MAX_REASON = 2_000  #: characters; longer reasons are truncated
HISTORY_DAYS = 10  #: maximum number of earlier prices sent, as in the testbed
_FILINGS = {"10k": ("annual report", "10-K"), "10q": ("quarterly report", "10-Q")}
"""Mapping from each request field to the kinds of documents sent in it."""
_FIELD_OF_KIND = by_word(_FILINGS)


class TradingActionModel(RemoteAdapter):
    """External agent that decides on one asset.

    It receives the date and the asset's price, news, filings and earlier prices as the mask shows
    them, and answers with `recommended_action` and `reasoning`. `name` is sent as `model`, for
    servers that run several agents. The agent gets no tools and is asked only for decisions. It is
    not asked for warm-up lessons, and it plays no role in a team.
    """

    package = extra = "openai"  # provides the HTTP library
    version = r"/trading_action\Z"
    path = "/trading_action/"
    needs_key = False
    protocols: tuple[ToolProtocol, ...] = ("native",)
    # refuses repeated keys, since an answer must not contain two actions
    loads = staticmethod(loads_untrusted)

    def __init__(self, name: str, params: RemoteParams | None = None) -> None:
        params = params or RemoteParams()
        if not params.base_url:
            raise ConfigError(
                "trading_action needs the agent's address: --base-url, such as"
                " http://localhost:8001/trading_action/"
            )
        super().__init__("trading_action", name, params, "", ("TRADING_AGENT_API_KEY",))

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:  # noqa: ARG002 - of no SDK
        """Return headers for JSON; the key, if any, is sent as a bearer token."""
        headers = {"content-type": "application/json", "accept": "application/json"}
        if key:
            headers["authorization"] = f"Bearer {key}"
        return headers

    def settings(self) -> dict[str, JsonValue]:
        """Return the settings that can change a reply. Sampling parameters and the seed are not
        sent.
        """
        return {**super().settings(), "api": "trading_action"}

    def make_traits(self) -> ModelTraits:
        """Return the adapter's traits. They include checks whether the agent can decide on a task."""
        return replace(
            super().make_traits(),
            request_problem=self._request_problem,
            step_problem=self._step_problem,
        )

    def reply(self, request: ModelRequest) -> Reply:
        """Request a decision, as `RemoteAdapter.reply` does. For an asset that never had a price,
        the answer is HOLD without a call, as in the testbed.
        """
        conversation = Conversation(request)
        if not conversation.is_submission:
            return Reply("This agent answers with a decision alone.")
        if self._problem(conversation) is None and _last_price(conversation) is None:
            return _submission_reply(
                conversation, "HOLD", "The asset has no price yet, so the agent was not asked."
            )

        return super().reply(request)

    def _request_problem(self, request: ModelRequest) -> str | None:
        """Return why the agent can't answer a task (the task does not ask for BUY, SELL or HOLD on
        a single asset); None if it can.
        """
        return self._problem(Conversation(request))

    def _step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return why the agent can't answer a step (the step asks for no submission); None if it
        can.
        """
        if any(Conversation(request).is_submission for request in requests):
            return None
        return NO_ACCOUNT

    def _problem(self, conversation: Conversation) -> str | None:
        """Return why the agent can't answer a request; None if it can. Requests that ask for no
        submission are never sent.
        """
        if not conversation.is_submission:
            return None

        state = conversation.state
        asks_for_one = len(conversation.rows(state.get("candidates"))) == 1
        # Only tasks that ask for decisions define HOLD.
        if asks_for_one and "hold" in state.get("constraints", {}):
            return None

        problem = (
            "takes tasks that ask for BUY, SELL or HOLD of one asset, such as ama_tsla or"
            " investorbench_msft"
        )
        return (
            f"trading_action/{self.name} {problem}; this one does not: --agent by_asset asks for"
            " each"
        )

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call. Raises ProviderError if `_problem` reports a problem, or if
        the asset has no price.
        """
        conversation = Conversation(request)
        problem = self._problem(conversation)
        if problem:
            raise ProviderError(problem)

        state = conversation.state
        rows = conversation.rows(state["candidates"])
        symbol = str(rows[0]["stock_id"])
        news = conversation.documents
        price = _last_price(conversation)
        if price is None:
            raise ProviderError(f"{symbol} has no price yet: there is nothing to ask about")

        filings_of: dict[str, list[Row]] = {field: [] for field in _FILINGS}
        other_news = []
        for row in news:
            field = _FIELD_OF_KIND.get(row["kind"])
            if field is None:
                other_news.append(row)
            else:
                filings_of[field].append(row)

        body = {
            "date": state["day"],
            "price": {symbol: price},
            "news": {symbol: "\n".join(_document_texts(other_news))},
            "symbol": [symbol],
            "model": self.name,
        }
        for field, filings in filings_of.items():
            if filings:
                body[field] = {symbol: _document_texts(filings)}

        # Today's price is already sent as the price. If the exchange is closed today, all bars are
        # earlier bars.
        earlier = []
        for bar in conversation.rows(state.get("history")):
            if bar["day"] != state["day"]:
                earlier.append({"date": bar["day"], "price": bar["close"]})
        if earlier:
            body["history_price"] = {symbol: earlier[-HISTORY_DAYS:]}

        body = {name: value for name, value in body.items() if name not in self.params.omit}
        return {**body, **self.params.extra_body}

    def decode(
        self,
        answer: Mapping[str, Any],
        request: ModelRequest,
        body: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
        """Return the decision as a submission. Raises ModelError if the answer has no decision."""
        action = answer.get("recommended_action")
        reasoning = answer.get("reasoning", "")
        decision = ""
        if isinstance(action, str):
            decision = action.strip().upper()

        if decision not in ACTIONS or not isinstance(reasoning, str):
            raise bad_response(
                self.caller,
                f"expected recommended_action, one of {', '.join(ACTIONS)}, and reasoning, a text",
            )

        conversation = Conversation(request)
        stock = conversation.rows(conversation.state["candidates"])[0]["stock_id"]
        if answer.get("symbol") not in (None, stock, [stock]):
            raise bad_response(
                self.caller, f"the answer's symbol is not the one that was asked about, {stock}"
            )

        text = shorten(reasoning.strip(), MAX_REASON)
        return _submission_reply(conversation, decision, text or "The agent gave no reasoning.")


def _submission_reply(conversation: Conversation, decision: str, text: str) -> Reply:
    """Return a submission with a decision on the only asset that the request shows."""
    stock = conversation.rows(conversation.state["candidates"])[0]["stock_id"]
    reason = conversation.reason(text)
    submitted = {"stock_id": stock, "decision": decision, "confidence": 0.5, "reason": reason}

    return conversation.call(
        [("submit_action", {"decisions": [submitted], "overall_reason": reason})]
    )


def _last_price(conversation: Conversation) -> float | None:
    """Return the last known price of the only asset; None if the asset never had a price.

    If the exchange is closed, this price is from an earlier day, as in the testbed
    (`get_previous_valid_price` in its `get_daily_action.py`).
    """
    state = conversation.state
    (candidate,) = conversation.rows(state["candidates"])
    stock = candidate["stock_id"]

    # From newest to oldest.
    known = [candidate.get("close"), candidate.get("last_close")]
    for row in conversation.rows(state.get("positions")):
        if row.get("stock_id") == stock:
            known.append(row.get("last_close"))

    for bar in reversed(conversation.rows(state.get("history"))):
        known.append(bar.get("close"))

    for price in known:
        if price is not None:
            return float(price)

    return None


def _document_texts(documents: Sequence[Row]) -> list[str]:
    """Return each document as one line: title, text, and the sentiment in InvestorBench's format."""
    texts = []
    for row in documents:
        parts = [str(row[name]) for name in ("title", "text") if row[name]]
        if row.get("sentiment"):
            parts.append(f"(Sentiment: {row['sentiment']})")
        texts.append(" ".join(parts))
    return texts
