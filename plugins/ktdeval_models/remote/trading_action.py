"""A third party's trading agent behind HTTP, in any language: Agent Market Arena's endpoint `POST /trading_action/`.

It is asked once a step, for the decision; its answer is recorded as any model's reply, so that cards verify without it. An invalid
answer is a failed call, never a HOLD. Source of the fields: The-FinAI/Agent_Market_Arena, testbed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from ktdeval.calls import bad_response
from ktdeval.errors import ConfigError, ProviderError
from ktdeval.harness import ModelRequest, Reply, ToolProtocol
from ktdeval.jsonio import JsonValue, loads_untrusted
from ktdeval.keyless import NO_ACCOUNT, Conversation, Row
from ktdeval.masking import shorten
from ktdeval_models.remote.base import RemoteAdapter
from ktdeval_models.remote.params import RemoteParams

ACTIONS = ("BUY", "SELL", "HOLD")
MOST_REASON = 2_000  #: characters of a reason that are kept
_FILINGS = {"10k": ("annual report", "10-K"), "10q": ("quarterly report", "10-Q")}


class TradingActionModel(RemoteAdapter):
    """An agent that takes date, price, news, filings and earlier prices of one asset, as the mask shows them, and answers with
    `recommended_action` and `reasoning`. `name` is sent as `model`, for servers that run several. Tools are not offered to it, and
    only questions for a decision are sent (not lessons of a warm-up, nor roles of a team).
    """

    package = extra = "openai"  # its HTTP library
    version = r"/trading_action\Z"
    path = "/trading_action/"
    needs_key = False
    protocols: tuple[ToolProtocol, ...] = ("native",)
    loads = staticmethod(loads_untrusted)  # refuses two actions in one answer

    def __init__(self, name: str, params: RemoteParams | None = None) -> None:
        params = params or RemoteParams()
        if not params.base_url:
            raise ConfigError("trading_action needs the agent's address: --base-url, such as http://localhost:8001/trading_action/")
        super().__init__("trading_action", name, params, "", ("TRADING_AGENT_API_KEY",))

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:  # noqa: ARG002 - of no SDK
        """Return headers for JSON, and the key, if any, as a bearer's."""
        return {"content-type": "application/json", "accept": "application/json"} | (
            {"authorization": f"Bearer {key}"} if key else {}
        )

    def settings(self) -> JsonValue:
        """Return settings that can change a reply; sampling parameters and the seed are not sent."""
        return {"api": "trading_action", "omit": list(self.params.omit), "extra_body": dict(self.params.extra_body)}

    def reply(self, request: ModelRequest) -> Reply:
        """Ask for a decision; as of `RemoteAdapter`."""
        if not Conversation(request).is_submission:
            return Reply("This agent answers with a decision alone.")
        return super().reply(request)

    def request_problem(self, request: ModelRequest) -> str | None:
        """Return why a task can't be answered: it does not ask for BUY, SELL or HOLD of one asset."""
        return self._problem(Conversation(request))

    def step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return why a step can't be answered: it asks for no submission."""
        return None if any(Conversation(request).is_submission for request in requests) else NO_ACCOUNT

    def _problem(self, conversation: Conversation) -> str | None:
        asks_for_one = len(conversation.rows(conversation.state.get("candidates"))) == 1
        if not conversation.is_submission or (asks_for_one and "hold" in conversation.state.get("constraints", {})):
            return None
        problem = "takes tasks that ask for BUY, SELL or HOLD of one asset, such as ama_tsla or investorbench_msft"
        return f"trading_action/{self.name} {problem}; this one does not: --agent by_asset asks for each"

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call. Raises ProviderError as of `request_problem`."""
        conversation = Conversation(request)
        if problem := self._problem(conversation):
            raise ProviderError(problem)
        state = conversation.state
        rows = conversation.rows(state["candidates"])
        symbol, news = str(rows[0]["stock_id"]), conversation.rows(state.get("news"))
        body = {
            "date": state["day"],
            "price": {symbol: rows[0]["close"]},
            "news": {symbol: "\n".join(_texts(news, None))},
            "symbol": [symbol],
            "model": self.name,
        }
        body |= {field: {symbol: texts} for field, kinds in _FILINGS.items() if (texts := _texts(news, kinds))}
        history = [{"date": bar["day"], "price": bar["close"]} for bar in conversation.rows(state.get("history"))]
        body |= {"history_price": {symbol: history[:-1]}} if history else {}
        body = {name: value for name, value in body.items() if name not in self.params.omit}
        return {**body, **self.params.extra_body}

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the decision as a submission. Raises ModelError: the answer holds no decision."""
        action, reasoning = answer.get("recommended_action"), answer.get("reasoning", "")
        decision = action.strip().upper() if isinstance(action, str) else ""
        if decision not in ACTIONS or not isinstance(reasoning, str):
            raise bad_response(self.caller, f"expected recommended_action, one of {', '.join(ACTIONS)}, and reasoning, a text")
        conversation = Conversation(request)
        stock = conversation.rows(conversation.state["candidates"])[0]["stock_id"]
        if answer.get("symbol") not in (None, stock, [stock]):
            raise bad_response(self.caller, f"the answer's symbol is not the one that was asked about, {stock}")
        text = shorten(reasoning.strip(), MOST_REASON)
        reason = conversation.reason(text or "The agent gave no reasoning.")
        submitted = {"stock_id": stock, "decision": decision, "confidence": 0.5, "reason": reason}
        return conversation.call([("submit_action", {"decisions": [submitted], "overall_reason": reason})])


def _texts(news: Sequence[Row], kinds: Sequence[str] | None) -> list[str]:
    """Return the texts of documents of some kinds; None: of all but filings."""
    filings = [kind for names in _FILINGS.values() for kind in names]
    chosen = [row for row in news if (row["kind"] in kinds if kinds is not None else row["kind"] not in filings)]
    return [" ".join(str(part) for part in (row["title"], row["text"]) if part) for row in chosen]
