"""What a stranger's agent is sent for a decision, as the mask shows it, and what its answer
becomes.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktdeval.errors import ConfigError, ModelError, ProviderError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, ToolSpec
from ktdeval.testing import on_each_row
from ktdeval_models.remote.params import RemoteParams
from ktdeval_models.remote.vendors.external_agent import TradingActionModel
from support.providers.adapter_server import Prepared, prepared
from support.providers.stub_provider import skip_without_sdks
from support.tasks.shown_states import with_state

skip_without_sdks()

SUBMIT = ToolSpec("submit_action", "Submit.", {"type": "object"})
NEWS = [
    ["news", "", "It rained."],
    ["annual report", "Year", "Good."],
    ["10-Q", "", "Fair."],
    ["macro", "Rates", "up"],
]
BARS = [["day_-1", 9.5], ["day_+0", 10.0]]


def request(**changes: Any) -> ModelRequest:
    state = {
        "day": "day_+0",
        "account": {},
        "positions": {"columns": ["stock_id", "weight"], "rows": []},
        "constraints": {"hold": "flat", "min_reason_chars": 30},
        "candidates": {"columns": ["stock_id", "close"], "rows": [["asset_0042", 10.0]]},
        "news": {"columns": ["kind", "title", "text"], "rows": NEWS},
        "history": {"columns": ["day", "close"], "rows": BARS},
        **changes,
    }
    messages = (Message("system", "s"), Message("user", f"```json\n{json.dumps(state)}\n```"))
    params = CallParams(timeout_s=60.0)

    return with_state(ModelRequest(messages, (SUBMIT,), "submit_action", params))


def model(address: str, **params: Any) -> TradingActionModel:
    return TradingActionModel("small", RemoteParams(base_url=address, **params))


def test_the_sentiment_of_news_ends_its_line_as_in_the_public_data() -> None:
    columns = ["kind", "sentiment", "title", "text"]
    rows = [["news", "positive", "", "It rained."], ["macro", None, "Rates", "up"]]
    with prepared(Prepared({"recommended_action": "HOLD", "reasoning": "It rained."})) as server:
        model(server.address).reply(request(news={"columns": columns, "rows": rows}))

    assert server.bodies[0]["news"] == {"asset_0042": "It rained. (Sentiment: positive)\nRates up"}


def test_it_is_sent_the_day_prices_news_and_filings_as_the_mask_shows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRADING_AGENT_API_KEY", "sk-agent-0123456789")
    with prepared(Prepared({"recommended_action": " buy ", "reasoning": "It rained."})) as server:
        reply = model(
            f"{server.address}/trading_action/", extra_body={"trading_strategy": "aggressive"}
        ).reply(request())
        assert server.paths == ["/trading_action/"]
        assert server.headers[0]["authorization"] == "Bearer sk-agent-0123456789"
        assert server.bodies == [
            {
                "date": "day_+0",
                "price": {"asset_0042": 10.0},
                "news": {"asset_0042": "It rained.\nRates up"},
                "symbol": ["asset_0042"],
                "model": "small",
                "10k": {"asset_0042": ["Year Good."]},
                "10q": {"asset_0042": ["Fair."]},
                "history_price": {"asset_0042": [{"date": "day_-1", "price": 9.5}]},
                "trading_strategy": "aggressive",
            }
        ]
        model(server.address, omit=("model",)).reply(request(history=None, news=None))
        assert server.bodies[1].keys() == {"date", "price", "news", "symbol"}

    (call,) = reply.tool_calls
    submitted = json.loads(call.arguments)
    (decision,) = submitted["decisions"]

    assert (decision["stock_id"], decision["decision"], decision["confidence"]) == (
        "asset_0042",
        "BUY",
        0.5,
    )
    assert decision["reason"].startswith("It rained.")
    assert len(decision["reason"]) == 30


def test_it_is_sent_ten_earlier_prices_however_many_bars_the_task_shows() -> None:
    bars = [[f"day_-{day}", float(day)] for day in range(63, 0, -1)]
    with prepared(Prepared({"recommended_action": "BUY", "reasoning": "It rained."})) as server:
        model(server.address).reply(
            request(history={"columns": ["day", "close"], "rows": [*bars, ["day_+0", 10.0]]})
        )

    (earlier,) = server.bodies[0]["history_price"].values()

    assert [bar["date"] for bar in earlier] == [f"day_-{day}" for day in range(10, 0, -1)]


@on_each_row(
    "body",
    ({},),
    ({"recommended_action": None},),
    ({"recommended_action": "STRONG BUY"},),
    ({"recommended_action": "BUY", "reasoning": 3},),
    ({"recommended_action": ["BUY"]},),
)
def test_an_answer_without_a_decision_is_a_failed_call(body: Any) -> None:
    with (
        prepared(Prepared(body)) as server,
        pytest.raises(ModelError, match="expected recommended_action") as caught,
    ):
        model(server.address).reply(request())

    assert caught.value.kind == "bad_response"


GOOD = {"recommended_action": "SELL", "reasoning": "It fell."}


@pytest.mark.parametrize("symbol", ["asset_0042", ["asset_0042"], None], ids=str)
def test_an_answer_for_the_asset_that_was_asked_about_or_for_none_is_taken(symbol: Any) -> None:
    with prepared(Prepared({**GOOD, "symbol": symbol})) as server:
        reply = model(server.address).reply(request())

    assert '"decision": "SELL"' in reply.tool_calls[0].arguments


@pytest.mark.parametrize(
    "symbol", ["asset_0043", ["asset_0042", "asset_0043"], [], {"asset_0042": 1}], ids=str
)
def test_an_answer_for_another_asset_is_a_failed_call(symbol: Any) -> None:
    with (
        prepared(Prepared({**GOOD, "symbol": symbol})) as server,
        pytest.raises(ModelError, match="asked about, asset_0042"),
    ):
        model(server.address).reply(request())


def test_an_answer_with_two_actions_is_a_failed_call() -> None:
    twice = b'{"recommended_action": "BUY", "recommended_action": "SELL"}'
    with (
        prepared(Prepared(twice)) as server,
        pytest.raises(ModelError, match="other than a JSON object"),
    ):
        model(server.address).reply(request())


def test_non_decision_questions_are_not_sent_and_other_tasks_are_refused() -> None:
    agent = model("http://127.0.0.1:9")
    assert (
        agent.reply(ModelRequest((Message("user", "Why?"),))).content
        == "This agent answers with a decision alone."
    )

    two = {"columns": ["stock_id", "close"], "rows": [["a", 1.0], ["b", 1.0]]}

    for changed in ({"candidates": two}, {"constraints": {"min_reason_chars": 1}}):
        with pytest.raises(
            ProviderError, match="takes tasks that ask for BUY, SELL or HOLD of one asset"
        ):
            agent.reply(request(**changed))

    with pytest.raises(ConfigError, match="needs the agent's address: --base-url"):
        TradingActionModel("small")
