"""What the run's model gets of a program's request through the bridge, field by field, and its
thoughts on the way back and forth.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ktdeval.harness import APPLIED, NOT_APPLIED, ExternalSession
from ktdeval.harness.external.own_settings import noted_settings
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row, small_market
from ktdeval.values import dumps_canonical
from ktdeval_command.desk.agent_desk import AgentDesk
from ktdeval_command.desk.bridge_server import BridgeAnswers
from support.providers.adapter_server import Prepared, PreparedServer, prepared
from support.providers.stub_provider import skip_without_sdks
from support.tables import beside
from support.tasks.ktdfin_play import Play

skip_without_sdks()

pytestmark = pytest.mark.usefixtures("every_key")

PLUGINS = load_plugins()
MARKET = small_market()
TOOL = "get_market_context"


#: documents by API
TABLE = beside(__file__)
PROGRAMS = TABLE["programs"]
UPSTREAMS = TABLE["upstreams"]


@dataclass
class Chain:
    """A program's requests through the bridge to an upstream."""

    server: PreparedServer
    acting: ExternalSession
    answers: BridgeAnswers

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = self.answers.post(path, lambda: json.dumps(body).encode())
        content = b"".join(answer.pieces)
        parsed: dict[str, Any] = json.loads(content)
        return parsed

    @property
    def notes(self) -> Sequence[str]:
        """Notes of the latest reply."""
        notes: Sequence[str] = self.session.exchanges[-1]["reply"].get("notes", [])
        return notes

    session: Any = None


@contextmanager
def chain(upstream: str, *answers: Any) -> Iterator[Chain]:
    model, reply = UPSTREAMS[upstream]
    with prepared(*(answers or (Prepared(reply),))) as server:
        play = Play(
            PLUGINS.make_task("blinded_open_research"),
            PLUGINS.make_model(model, {"base_url": server.address}),
            MARKET,
        )
        _, session = play.session(0)
        acting = ExternalSession(session)
        desk = AgentDesk({})
        desk.begin(acting, "A day.", is_told=True)
        yield Chain(server, acting, BridgeAnswers(desk.answer, "m"), session)


def at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body[name]
    return body


@pytest.mark.parametrize("api", PROGRAMS)
def test_the_same_api_gets_the_programs_settings_unchanged(api: str) -> None:
    program = PROGRAMS[api]
    with chain(api) as running:
        running.ask(program["path"], program["body"])
        (body,) = running.server.bodies

    assert {path: at(body, path) for path in program["passed"]} == program["passed"]
    assert "metadata" not in body
    missed = noted_settings(running.notes, NOT_APPLIED)
    assert missed == program["withheld"]
    assert running.acting.acts[-1].settings.fields


@on_each_row(
    "api, upstream, passed, lost",
    (
        "messages",
        "responses",
        {"max_output_tokens": 64_000, "reasoning": {"effort": "xhigh"}},
        "thinking top_k",
    ),
    (
        "messages",
        "generate_content",
        {
            "generationConfig.maxOutputTokens": 64_000,
            "generationConfig.thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
        "output_config.effort thinking top_k",
    ),
    (
        "messages",
        "chat_completions",
        {"max_tokens": 64_000, "reasoning_effort": "xhigh"},
        "thinking top_k",
    ),
    (
        "responses",
        "messages",
        {
            "max_tokens": 32_000,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"},
        },
        "prompt_cache_key temperature text.verbosity",
    ),
    (
        "responses",
        "generate_content",
        {
            "generationConfig.maxOutputTokens": 32_000,
            "generationConfig.temperature": 1.0,
            "generationConfig.thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
        "prompt_cache_key text.verbosity",
    ),
    (
        "responses",
        "chat_completions",
        {"max_tokens": 32_000, "reasoning_effort": "high"},
        "prompt_cache_key text.verbosity",
    ),
    (
        "generate_content",
        "messages",
        {"max_tokens": 16_000, "output_config": {"effort": "high"}},
        "generationConfig.temperature generationConfig.topK generationConfig.topP",
    ),
    (
        "generate_content",
        "responses",
        {"max_output_tokens": 16_000, "reasoning": {"effort": "high"}},
        "generationConfig.topK generationConfig.topP",
    ),
    (
        "generate_content",
        "chat_completions",
        {"max_tokens": 16_000, "temperature": 1.0},
        "generationConfig.topK generationConfig.topP",
    ),
    (
        "chat_completions",
        "messages",
        {"max_tokens": 32_000, "output_config": {"effort": "xhigh"}},
        "temperature thinking top_p",
    ),
    (
        "chat_completions",
        "responses",
        {"max_output_tokens": 32_000, "temperature": 0.3},
        "thinking top_p",
    ),
    (
        "chat_completions",
        "generate_content",
        {"generationConfig.maxOutputTokens": 32_000},
        "reasoning_effort thinking top_p",
    ),
)
def test_another_api_gets_what_it_has_and_the_card_lists_the_rest(
    api: str, upstream: str, passed: Mapping[str, Any], lost: str
) -> None:
    program = PROGRAMS[api]
    with chain(upstream) as running:
        running.ask(program["path"], program["body"])
        (body,) = running.server.bodies

    assert {path: at(body, path) for path in passed} == passed
    names = {name.partition("=")[0] for name in noted_settings(running.notes, NOT_APPLIED)}
    none_gets = {name.partition("=")[0] for name in program["withheld"]}
    assert names == {*lost.split()} | none_gets
    applied = {name.partition("=")[0] for name in noted_settings(running.notes, APPLIED)}
    assert applied.isdisjoint(names)


def test_a_setting_that_the_server_refuses_is_left_out_and_listed() -> None:
    _, taken = UPSTREAMS["chat_completions"]

    def answer(body: Any) -> Prepared:
        if body["max_tokens"] > 8192:
            words = "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
            return Prepared({"error": {"message": words}}, 400)
        return Prepared(taken)

    program = PROGRAMS["messages"]
    with chain("chat_completions", answer) as running:
        running.ask(program["path"], program["body"])
        running.ask(program["path"], program["body"])
        limits = [body["max_tokens"] for body in running.server.bodies]

    assert limits == [64_000, 4096, 4096]
    assert "max_tokens=64000" in noted_settings(running.notes, NOT_APPLIED)


# --- thoughts


def next_turn(api: str, answer: Mapping[str, Any]) -> Any:
    """The program's next request: it returns what it got, and a tool's result."""
    body = copy.deepcopy(PROGRAMS[api]["body"])
    if api == "messages":
        result = {"type": "tool_result", "tool_use_id": "up_1", "content": "x"}
        body["messages"] += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [result]},
        ]
    elif api == "responses":
        result = {"type": "function_call_output", "call_id": "up_1", "output": "x"}
        body["input"] += [*answer["output"], result]
    elif api == "generate_content":
        result = {"functionResponse": {"id": "up_1", "name": TOOL, "response": {"output": "x"}}}
        body["contents"] += [
            answer["candidates"][0]["content"],
            {"role": "user", "parts": [result]},
        ]
    else:
        result = {"role": "tool", "tool_call_id": "up_1", "content": "x"}
        body["messages"] += [answer["choices"][0]["message"], result]
    return body


def thoughts_upstream(upstream: str, body: Any) -> Any:
    """The thoughts and calls of the model in an upstream's request."""
    if upstream == "messages":
        return body["messages"][1]["content"]
    if upstream == "responses":
        return body["input"][-3:-1]
    if upstream == "generate_content":
        return body["contents"][1]["parts"]
    return body["messages"][1]["reasoning_content"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("api", PROGRAMS)
def test_thoughts_go_to_the_program_and_back_to_the_model(api: str, upstream: str) -> None:
    with chain(upstream) as running:
        program = PROGRAMS[api]
        answer = running.ask(program["path"], program["body"])
        running.ask(program["path"], next_turn(api, answer))
        _, second = running.server.bodies

    assert "I look." in dumps_canonical(answer)
    assert "sealed" not in dumps_canonical(answer)  # the bridge keeps what is sealed
    assert thoughts_upstream(upstream, second) == TABLE["returned"][upstream]


def test_a_mark_that_the_bridge_did_not_give_is_no_thought() -> None:
    forged = {"type": "thinking", "thinking": "I look.", "signature": "Zm9yZ2Vk"}
    call = {"type": "tool_use", "id": "up_1", "name": TOOL, "input": {}}
    body = next_turn("messages", {"content": [forged, call]})
    with chain("messages") as running:
        running.ask("/v1/messages", body)
        (sent,) = running.server.bodies

    assert thoughts_upstream("messages", sent) == [call]
