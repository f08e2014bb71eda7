"""One fault, one class, on every wire: what a step counts, and what the server gets back with its next
request.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.tool_protocol_probe import choose_protocol
from ktdeval.errors import ProviderError
from ktdeval.harness.chat_messages import CallParams
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal, on_each_row, small_market
from support.providers.adapter_server import (
    LOOK,
    Prepared,
    PreparedServer,
    ask,
    failure_of,
    prepared,
)
from support.providers.one_call import ONE_CALL, of_chat
from support.providers.stub_provider import skip_without_sdks
from support.tables import beside
from support.tasks.ktdfin_play import Play

pytestmark = pytest.mark.usefixtures("provider_keys")

skip_without_sdks()

MARKET = small_market()
PLUGINS = load_plugins()
TASK = PLUGINS.make_task("blinded_open_research")
FAULTS = beside(__file__)["faults"]
HOLD = {"orders": [], "overall_reason": "nothing to do"}
FOLDERS = [folder / "shared/data/reported" for folder in Path(__file__).resolve().parents]
REPORTED = next((folder for folder in FOLDERS if folder.is_dir()), None)


def calls_in_chat(body: Any) -> list[Any]:
    calls = list(chain.from_iterable(message.get("tool_calls", ()) for message in body["messages"]))
    return [json.loads(call["function"]["arguments"]) for call in calls]


def calls_in_responses(body: Any) -> list[Any]:
    calls = [item for item in body["input"] if item.get("type") == "function_call"]
    return [json.loads(call["arguments"]) for call in calls]


def calls_in_anthropic(body: Any) -> list[Any]:
    blocks = list(chain.from_iterable(message["content"] for message in body["messages"]))
    return [block["input"] for block in blocks if block["type"] == "tool_use"]


def calls_in_google(body: Any) -> list[Any]:
    parts = list(chain.from_iterable(content["parts"] for content in body["contents"]))
    return [part["functionCall"]["args"] for part in parts if "functionCall" in part]


CALLS_IN: dict[str, Callable[[Any], list[Any]]] = {
    "chat": calls_in_chat,
    "responses": calls_in_responses,
    "anthropic": calls_in_anthropic,
    "google": calls_in_google,
}


def model_at(server: PreparedServer, wire: str) -> Any:
    provider, _ = ONE_CALL[wire]
    return PLUGINS.make_model(f"{provider}/big-model", {"base_url": server.address})


def faulty(fault: dict[str, Any], wire: str) -> Prepared:
    """The answer with the fault, as this wire spells it."""
    _, answer = ONE_CALL[wire]
    if "arguments" in fault:
        return Prepared(answer("get_market_context", fault["arguments"]))

    return Prepared(
        fault["body"] if "status" in fault else fault["wires"][wire], fault.get("status", 200)
    )


@pytest.mark.sampled(30)
@pytest.mark.parametrize("wire", ONE_CALL)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_has_one_class_on_every_wire_and_the_run_goes_on(name: str, wire: str) -> None:
    fault = FAULTS[name]
    _, answer = ONE_CALL[wire]
    if wire not in fault.get("wires", ONE_CALL):
        pytest.skip("this wire has no form for it")

    good = Prepared(answer("submit_action", HOLD))
    with prepared(faulty(fault, wire), good) as server:
        (record,) = Play(TASK, model_at(server, wire), MARKET).run(1)
        asked = server.bodies

    assert record.failures == fault["counts"]
    assert record.tool_calls_valid == fault["valid"]

    if "model_bad_request" in fault["counts"]:
        assert (record.provenance, len(asked)) == ("error", 1)
        return

    assert record.provenance == "model"
    assert CALLS_IN[wire](asked[1]) == (fault["back"] or [])


# Refusals of the form in which tools were asked: the next one of the ladder is asked for.
@on_each_row(
    "server, status, body",
    (
        "openrouter",
        404,
        {
            "error": {
                "message": (
                    "No endpoints found that support tool use. To learn more about "
                    "provider routing, visit docs"
                ),
                "code": 404,
            }
        },
    ),
    (
        "openrouter's parameters",
        404,
        {
            "error": {
                "message": "No endpoints found that can handle the requested parameters.",
                "code": 404,
            }
        },
    ),
    (
        "a gateway",
        404,
        {"error": {"message": "Function calling is not enabled for this model", "code": 404}},
    ),
    ("ollama", 400, {"error": {"message": "registry.ollama.ai/library/m does not support tools"}}),
)
def test_of_the_form_of_tools(server: str, status: int, body: Any) -> None:
    """A refusal of tools leads to the next form; nothing else changes."""

    def answer(asked: Any) -> Prepared:
        if "tools" in asked:
            return Prepared(body, status)

        message = {"role": "assistant", "content": next(replies)}
        return Prepared({"choices": [{"message": message, "finish_reason": "stop"}]})

    call = '{"content": "", "calls": [{"name": "%s", "arguments": %s}]}'
    replies = iter(
        (
            call % ("look_up_level", '{"place": "north"}'),
            call % ("record_level", '{"place": "north", "level": 41}'),
        )
    )

    with prepared(answer) as listening:
        model = model_at(listening, "chat")
        assert choose_protocol(model, "auto", model.reply, CallParams()) == "json_schema", server
        assert ["tools" in asked for asked in listening.bodies] == [True, False, False]


# Refusals in words near to those above that every call would meet, with what the message says to do.
@on_each_row(
    "server, status, body, advice",
    (
        "no such model",
        404,
        {"error": {"message": "The model `big-model` does not exist", "code": "model_not_found"}},
        "check the name after the slash",
    ),
    (
        "a name with tools",
        404,
        {"error": {"message": "model 'tools-7b' not found"}},
        "check the name after the slash",
    ),
    (
        "a key without rights",
        403,
        {"error": {"message": "Your key is not allowed to use this model."}},
        "check what the key",
    ),
    (
        "an account that is barred",
        403,
        {
            "error": {
                "message": (
                    "Your account has been suspended: its requests were flagged by our "
                    "safety system."
                )
            }
        },
        "check what the key",
    ),
    (
        "an organisation",
        403,
        {
            "error": {
                "message": "This organization has been disabled for violating our usage policies."
            }
        },
        "check what the key",
    ),
)
@pytest.mark.parametrize("wire", ONE_CALL)
def test_ends_the_run(wire: str, server: str, status: int, body: Any, advice: str) -> None:
    with prepared(Prepared(body, status)) as listening:
        error = failure_of(model_at(listening, wire), ask(tools=(LOOK,)))

    assert isinstance(error, ProviderError), server
    assert advice in str(error)


# ---- as reported, by the command


def reported(name: str) -> Prepared:
    assert REPORTED is not None
    head, _, body = next(REPORTED.glob(f"{name}_*")).read_text().partition("\n")
    return Prepared(json.loads(body), int(head.removeprefix("STATUS ")))


@pytest.mark.slow
@pytest.mark.skipif(REPORTED is None, reason="the reported inputs are not here")
@pytest.mark.parametrize("name", ["n13", "n14"])
def test_the_reported_refusals_do_not_end_a_run(
    name: str, terminal: Terminal, tmp_path: Path
) -> None:
    def answer(asked: Any) -> Prepared:
        if len(listening.bodies) == 1 or (name == "n14" and "tools" in asked):
            return reported(name)

        return Prepared(written(asked) if "tools" not in asked else called(asked))

    with prepared(answer) as listening:
        words = ["--model", "openai_compatible/big-model", "--base-url", f"{listening.address}/v1"]
        words += ["--tasks", "blinded_open_research", "--limit", "2", "--cache", "run", "--quiet"]
        code, _, said = terminal.call(*words, "--canary", "0", "--out", str(tmp_path / "run"))

    assert (code, said) == (0, "")


def called(asked: Any) -> dict[str, Any]:
    """A valid call of whatever is asked for."""
    tools = [tool["function"]["name"] for tool in asked["tools"]]
    return of_chat(*rehearsed(tools))


def written(asked: Any) -> dict[str, Any]:
    """The same as one JSON object."""
    system = asked["messages"][0]["content"]
    tools = [
        name
        for name in ("look_up_level", "record_level", "submit_action")
        if f"## {name}" in system
    ]
    name, arguments = rehearsed(tools)
    content = json.dumps({"content": "", "calls": [{"name": name, "arguments": arguments}]})
    message = {"role": "assistant", "content": content}

    return {"choices": [{"message": message, "finish_reason": "stop"}]}


def rehearsed(tools: list[str]) -> tuple[str, Any]:
    if "submit_action" in tools:
        return "submit_action", HOLD

    if "record_level" in tools:
        return "record_level", {"place": "north", "level": 41}

    return "look_up_level", {"place": "north"}
