"""Agents that decide by a framework in this process: what they get, and what becomes of a step."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ktdeval.errors import ModelError
from ktdeval.runner.scoring.verify import RecordedModel

pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")

from ktdeval.errors import BudgetError, ConfigError, PluginError, ProviderError
from ktdeval.harness import (
    HarnessConfig,
    Observation,
    Reply,
    ToolCall,
    tool,
)
from ktdeval.harness.chat_messages import CallParams
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession, StepOutcome
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.harness.tools.arguments import AssetArg
from ktdeval.masking.payload_types import AssetRef
from ktdeval.runner.rehearsals.conversation_size import LOW, MeasuringModel
from ktdeval.values import JsonValue, install_command
from ktdeval_command.framework_agent import FrameworkAgent, FrameworkDesk
from support.masking.masking_market import BASE_ROW, CODES, guard_of, lens_of
from support.tasks.ktdfin_play import Scripted

CODE = next(code for code in CODES if not code.startswith("0"))
OBSERVATION = Observation(0, rules="You trade.", day="Nothing is known.", request="Decide.")
TOOLS = ["look", "submit_action"]


@tool
def look(context: Any, stock_id: AssetArg) -> dict[str, Any]:
    """Look at a stock."""
    return {"stock_id": AssetRef(stock_id)}


def handle() -> str:
    return lens_of("blinded").asset_handle(1)


def orders(weight: float = 0.05) -> dict[str, Any]:
    order = {
        "stock_id": handle(),
        "side": "BUY",
        "confidence": 0.6,
        "reason": "strong momentum, low risk",
        "target_weight": weight,
    }
    return {"orders": [order], "overall_reason": "fine"}


def session_of(model: Any) -> GuardedSession:
    lens = lens_of("blinded")
    lens.render([AssetRef(1)])  # in the observation
    config = HarnessConfig(max_tool_calls=2, schema_retries=1)
    parts = SessionParts(
        model, lens, guard_of("blinded"), (look,), ActionForm(config, lens), config, CallParams(), 1
    )
    return GuardedSession(parts, 0, BASE_ROW)


def outcome_of(
    act: Callable[[FrameworkDesk], Any], *replies: Reply | BaseException, memory: JsonValue = None
) -> StepOutcome:
    return session_of(Scripted(*replies)).decide(FrameworkAgent(act), OBSERVATION, memory)


def calls_tool(name: str, arguments: Mapping[str, Any]) -> Reply:
    call = ToolCall("call_1", name, json.dumps(arguments))
    return Reply(tool_calls=(call,), finish_reason="tool_calls")


def loop(desk: FrameworkDesk) -> None:
    """An agent as people write it: OpenAI's client, and a loop."""
    client = desk.openai_client()
    messages: list[Any] = [{"role": "user", "content": desk.prompt}]
    while not desk.is_over:
        reply = client.chat.completions.create(
            model=desk.model,
            messages=messages,
            tools=desk.openai_tools,  # type: ignore[arg-type]
        )
        message = reply.choices[0].message
        messages.append(message)
        for call in message.tool_calls or ():
            assert call.type == "function"
            result = desk.call_tool(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})


def test_a_loop_by_openais_client_decides_and_all_of_it_is_on_record() -> None:
    replies = (calls_tool("look", {"stock_id": handle()}), calls_tool("submit_action", orders()))
    outcome = outcome_of(loop, *replies)

    assert [(order.asset, order.target_weight) for order in outcome.decision.action] == [(1, 0.05)]
    assert outcome.decision.provenance == "model"
    record = outcome.transcript.external
    assert record.isolation == "none"
    assert [act.kind for act in record.acts] == ["ask", "tool", "ask", "submit"]
    assert [offered.name for offered in record.acts[0].tools] == TOOLS
    assert json.loads(record.acts[1].result) == {"stock_id": handle()}


def test_an_invalid_submission_comes_back_with_what_is_wrong() -> None:
    replies = (calls_tool("submit_action", {}), calls_tool("submit_action", orders()))
    outcome = outcome_of(loop, *replies)

    assert outcome.decision.provenance == "model_after_retry"
    (told,) = (m for m in outcome.transcript.exchanges[1]["sent"] if m["role"] == "tool")
    assert told["content"] == outcome.transcript.external.acts[1].result
    assert "schema" in told["content"]


@pytest.mark.exhaustive
def test_a_coroutine_asks_by_the_asynchronous_client() -> None:
    async def act(desk: FrameworkDesk) -> None:
        async with desk.async_openai_client() as client:
            reply = await client.responses.create(model="any", input=desk.prompt)
        assert reply.output_text == "Buy."
        desk.submit(orders())

    outcome = outcome_of(act, Reply("Buy."))

    assert len(outcome.decision.action) == 1


def test_anthropics_form_is_answered_at_its_own_address() -> None:
    anthropic = pytest.importorskip("anthropic")

    def act(desk: FrameworkDesk) -> None:
        client = anthropic.Anthropic(base_url=desk.anthropic_base_url, api_key=desk.api_key)
        asked = [{"role": "user", "content": desk.prompt}]
        with client:
            reply = client.messages.create(model="any", max_tokens=100, messages=asked)
        assert reply.content[0].text == "Buy."
        desk.submit(orders())

    assert len(outcome_of(act, Reply("Buy.")).decision.action) == 1


def test_without_the_key_nothing_is_answered() -> None:
    def act(desk: FrameworkDesk) -> None:
        for address in (f"{desk.base_url}/models", desk.mcp_url.replace("/mcp", "/tools")):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address, timeout=30)
            assert refused.value.code == 401
            refused.value.close()

    outcome_of(act)


# --- memory


def test_identities_in_its_memory_are_withheld() -> None:
    kept = outcome_of(lambda desk: {"names": [CODE, 7], CODE: None}).decision.memory

    assert CODE not in json.dumps(kept)
    assert isinstance(kept, dict)
    assert kept["names"][1] == 7


def test_what_is_no_json_is_refused_as_memory() -> None:
    with pytest.raises(PluginError, match="must return plain JSON or None, got set"):
        outcome_of(lambda desk: {1, 2})


def raises_after_a_look(desk: FrameworkDesk) -> None:
    desk.call_tool("look", {"stock_id": handle()})
    raise ValueError(f"no idea of {CODE} with {desk.api_key}")


def test_an_agent_that_raises_later_fails_the_step_and_keeps_its_memory() -> None:
    outcome = outcome_of(raises_after_a_look, memory="before")

    assert (outcome.decision.provenance, outcome.decision.memory) == ("error", "before")
    assert outcome.counts.failures == {"agent_raised": 1}
    said = outcome.transcript.external.report["raised"]
    assert said.startswith("ValueError: no idea of ")
    assert "[token]" in said
    assert CODE not in said


# --- failures


def test_agent_that_raises_at_start_ends_the_run_with_its_error_line() -> None:
    def act(desk: FrameworkDesk) -> None:
        import no_such_framework  # noqa: F401 - that is what fails

    with pytest.raises(ProviderError) as stopped:
        outcome_of(act)

    message = str(stopped.value)
    assert "ModuleNotFoundError: No module named 'no_such_framework'" in message
    assert "test_framework_agent.py:" in message


def test_what_a_group_of_tasks_raised_is_named_itself() -> None:
    async def fails() -> None:
        raise LookupError("no such label")

    async def act(desk: FrameworkDesk) -> None:
        desk.call_tool("look", {"stock_id": handle()})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())

    record = outcome_of(act).transcript.external
    assert record.report["raised"].startswith("LookupError: no such label")


def test_what_was_accepted_stands_though_the_agent_raises_then() -> None:
    def act(desk: FrameworkDesk) -> None:
        desk.submit(orders())
        raise RuntimeError("too many turns")

    outcome = outcome_of(act)

    assert len(outcome.decision.action) == 1
    assert outcome.counts.failures == {"agent_raised": 1}


@pytest.mark.parametrize("catches", [False, True], ids=["raised on", "caught"])
def test_a_failed_call_of_the_model_fails_the_step_under_its_own_kind(catches: bool) -> None:
    def act(desk: FrameworkDesk) -> None:
        try:
            loop(desk)
        except Exception:
            if not catches:
                raise

    outcome = outcome_of(act, ModelError("overloaded", "HTTP 529"))

    assert outcome.decision.provenance == "error"
    assert outcome.counts.failures == {"model_overloaded": 1}


@pytest.mark.parametrize("catches", [False, True], ids=["raised on", "caught"])
def test_a_spent_budget_ends_the_episode_whatever_the_agent_makes_of_it(catches: bool) -> None:
    def act(desk: FrameworkDesk) -> None:
        try:
            loop(desk)
        except Exception:
            if not catches:
                raise

    with pytest.raises(BudgetError):
        outcome_of(act, BudgetError("--max-cost is reached"))


def test_calls_beyond_the_limit_are_refused() -> None:
    agent = FrameworkAgent(loop, calls=3)
    model = Scripted(*(Reply("Hm.") for _ in range(4)))
    outcome = session_of(model).decide(agent, OBSERVATION, None)

    assert len(model.requests) == 3
    assert outcome.decision.provenance == "error"
    assert outcome.counts.failures == {"agent_raised": 1, "call_budget": 1}


def test_a_missing_client_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)

    with pytest.raises(ConfigError, match=re.escape(install_command("openai"))):
        outcome_of(loop)


# --- again, and planned


def never(desk: FrameworkDesk) -> None:
    raise AssertionError("the framework was started")


@pytest.mark.parametrize("act", [loop, raises_after_a_look])
def test_a_step_is_executed_again_without_the_framework(act: Callable[[Any], None]) -> None:
    outcome = outcome_of(act, calls_tool("submit_action", orders()), memory="before")

    model = RecordedModel()
    model.begin_step(outcome.transcript)
    again = session_of(model).decide(FrameworkAgent(never), OBSERVATION, "before")

    assert again == outcome


def test_nothing_is_started_for_a_plan() -> None:
    model = MeasuringModel(LOW, research_calls=1)
    outcome = session_of(model).decide(FrameworkAgent(never), OBSERVATION, None)

    assert model.requests > 0
    assert outcome.decision.provenance != "error"


def test_further_models_are_those_of_its_traits() -> None:
    agent = FrameworkAgent(
        never, models={"fast": "openai/gpt-5-mini", "small": "openai/gpt-5-mini"}
    )

    assert agent.traits.further_models == ("openai/gpt-5-mini",)
    assert agent.traits.acts_outside
