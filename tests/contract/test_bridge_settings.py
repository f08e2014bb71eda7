"""What the run's model gets of a program's request through the bridge, field by field, and its
thoughts on the way back and forth.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from ktdeval.harness import NOT_APPLIED, ExternalSession
from ktdeval.harness.own_settings import noted_settings
from ktdeval.registry import load_plugins
from ktdeval.values import dumps_canonical
from ktdeval_command.agent_desk import AgentDesk
from ktdeval_command.bridge_server import BridgeAnswers
from ktdeval_models.remote.params import presets
from support.providers.adapter_server import Prepared, PreparedServer, prepared
from support.providers.stub_provider import KEY, skip_without_sdks
from support.tasks.ktdfin_market import small_market
from support.tasks.ktdfin_play import Play

skip_without_sdks()

PLUGINS = load_plugins()
MARKET = small_market()
TOOL = "get_market_context"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in presets().values():
        monkeypatch.setenv(preset.variables[0], KEY)


# --- upstreams: a reply with a thought and a call, in each API


COUNTS = {"input_tokens": 9, "output_tokens": 4}
REASONING = {
    "type": "reasoning",
    "id": "rs_up",
    "summary": [{"type": "summary_text", "text": "I look."}],
    "encrypted_content": "sealed",
}
FUNCTION_CALL = {"type": "function_call", "call_id": "up_1", "name": TOOL, "arguments": "{}"}
THINKING = {"type": "thinking", "thinking": "I look.", "signature": "c2ln"}
TOOL_USE = {"type": "tool_use", "id": "up_1", "name": TOOL, "input": {}}
CALL_PART = {"functionCall": {"id": "up_1", "name": TOOL, "args": {}}, "thoughtSignature": "c2ln"}
CHAT_MESSAGE = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "I look.",
    "tool_calls": [
        {"id": "up_1", "type": "function", "function": {"name": TOOL, "arguments": "{}"}}
    ],
}
UPSTREAMS: Mapping[str, tuple[str, Prepared]] = {
    "messages": (
        "anthropic/claude-opus-5-5",
        Prepared(
            {
                "content": [THINKING, TOOL_USE],
                "stop_reason": "tool_use",
                "usage": COUNTS,
                "model": "claude",
            }
        ),
    ),
    "responses": (
        "openai/gpt-5.6",
        Prepared(
            {
                "status": "completed",
                "output": [REASONING, FUNCTION_CALL],
                "usage": {**COUNTS, "total_tokens": 13},
                "model": "gpt",
            }
        ),
    ),
    "generate_content": (
        "google/gemini-3-pro",
        Prepared(
            {
                "candidates": [
                    {
                        "content": {
                            "role": "model",
                            "parts": [{"text": "I look.", "thought": True}, CALL_PART],
                        },
                        "finishReason": "STOP",
                    }
                ],
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4},
            }
        ),
    ),
    "chat_completions": (
        "deepseek/deepseek-v4-pro",
        Prepared(
            {
                "choices": [{"message": CHAT_MESSAGE, "finish_reason": "tool_calls"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 4},
            }
        ),
    ),
}


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
    with prepared(*(answers or (reply,))) as server:
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


# --- programs: a request with all settings, in each API


@dataclass(frozen=True)
class Program:
    path: str
    body: Mapping[str, Any]
    #: of its settings, as the same API's upstream gets them
    passed: Mapping[str, Any]
    #: by the names of the card, of those that no upstream gets
    withheld: tuple[str, ...]


SCHEMA = {"type": "object", "properties": {}}
MESSAGES_TOOL = {"name": TOOL, "input_schema": SCHEMA}
PROGRAMS: Mapping[str, Program] = {
    "messages": Program(  # Claude Code
        "/v1/messages",
        {
            "model": "claude-opus-5-5",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [MESSAGES_TOOL],
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "max"},
            "top_k": 5,
            "context_management": {"edits": []},
            "metadata": {"user_id": "someone"},
        },
        {
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "max"},
            "top_k": 5,
        },
        ('context_management={"edits":[]}',),
    ),
    "responses": Program(  # Codex
        "/v1/responses",
        {
            "model": "gpt-5.6",
            "input": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "name": TOOL, "parameters": SCHEMA}],
            "reasoning": {"effort": "high", "summary": "auto"},
            "text": {"verbosity": "low"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "prompt_cache_key": "0198f2a1-session-of-codex",
            "max_output_tokens": 32_000,
            "temperature": 1,
            "service_tier": "priority",
        },
        {
            "reasoning": {"effort": "high", "summary": "auto"},
            "text": {"verbosity": "low"},
            "include": ["reasoning.encrypted_content"],
            "store": False,
            "prompt_cache_key": "0198f2a1-session-of-codex",
            "max_output_tokens": 32_000,
            "temperature": 1.0,
        },
        ("service_tier=priority",),
    ),
    "generate_content": Program(  # Gemini CLI
        "/v1beta/models/gemini-3-pro:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
            "tools": [{"functionDeclarations": [{"name": TOOL}]}],
            "generationConfig": {
                "temperature": 1,
                "topP": 0.95,
                "topK": 64,
                "maxOutputTokens": 16_000,
                "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
                "seed": 3,
            },
        },
        {
            "generationConfig.temperature": 1.0,
            "generationConfig.topP": 0.95,
            "generationConfig.topK": 64,
            "generationConfig.maxOutputTokens": 16_000,
            "generationConfig.thinkingConfig": {"includeThoughts": True, "thinkingLevel": "HIGH"},
        },
        ("generationConfig.seed=3",),
    ),
    "chat_completions": Program(  # opencode
        "/v1/chat/completions",
        {
            "model": "deepseek-v4-pro",
            "messages": [{"role": "user", "content": "Hi"}],
            "tools": [{"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}}],
            "max_tokens": 32_000,
            "temperature": 0.3,
            "top_p": 0.9,
            "reasoning_effort": "max",
            "thinking": {"type": "enabled"},
            "seed": 5,
        },
        {
            "max_tokens": 32_000,
            "temperature": 0.3,
            "top_p": 0.9,
            "reasoning_effort": "max",
            "thinking": {"type": "enabled"},
        },
        ("seed=5",),
    ),
}


def at(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = body[name]
    return body


@pytest.mark.parametrize("api", PROGRAMS)
def test_the_same_api_gets_the_programs_settings_unchanged(api: str) -> None:
    program = PROGRAMS[api]
    with chain(api) as running:
        running.ask(program.path, program.body)
        (body,) = running.server.bodies

    assert {path: at(body, path) for path in program.passed} == program.passed
    assert "metadata" not in body
    missed = noted_settings(running.notes, NOT_APPLIED)
    assert missed == list(program.withheld)
    assert running.acting.acts[-1].settings.fields


# Names of settings that another API could not get, besides those that none gets.
LOST: Mapping[tuple[str, str], set[str]] = {
    ("messages", "responses"): {"thinking", "top_k"},
    ("messages", "generate_content"): {"thinking", "top_k", "output_config.effort"},
    ("messages", "chat_completions"): {"thinking", "top_k"},
    ("responses", "messages"): {"text.verbosity", "prompt_cache_key", "temperature"},
    ("responses", "generate_content"): {"text.verbosity", "prompt_cache_key"},
    ("responses", "chat_completions"): {"text.verbosity", "prompt_cache_key"},
    ("generate_content", "messages"): {
        "generationConfig.topP",
        "generationConfig.topK",
        "generationConfig.temperature",
    },
    ("generate_content", "responses"): {"generationConfig.topP", "generationConfig.topK"},
    ("generate_content", "chat_completions"): {"generationConfig.topP", "generationConfig.topK"},
    ("chat_completions", "messages"): {"top_p", "thinking", "temperature"},
    ("chat_completions", "responses"): {"top_p", "thinking"},
    ("chat_completions", "generate_content"): {"top_p", "thinking", "reasoning_effort"},
}


def test_a_setting_that_the_server_refuses_is_left_out_and_listed() -> None:
    _, taken = UPSTREAMS["chat_completions"]

    def answer(body: Any) -> Prepared:
        if body["max_tokens"] > 8192:
            words = "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
            return Prepared({"error": {"message": words}}, 400)
        return taken

    program = PROGRAMS["messages"]
    with chain("chat_completions", answer) as running:
        running.ask(program.path, program.body)
        running.ask(program.path, program.body)
        limits = [body["max_tokens"] for body in running.server.bodies]

    assert limits == [64_000, 4096, 4096]
    assert "max_tokens=64000" in noted_settings(running.notes, NOT_APPLIED)


# --- thoughts


def next_turn(api: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The program's next request: it returns what it got, and a tool's result."""
    body = json.loads(json.dumps(PROGRAMS[api].body))
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
    return dict(body)


def thoughts_upstream(upstream: str, body: Any) -> Any:
    """The thoughts and calls of the model in an upstream's request."""
    if upstream == "messages":
        return body["messages"][1]["content"]
    if upstream == "responses":
        return body["input"][-3:-1]
    if upstream == "generate_content":
        return body["contents"][1]["parts"]
    return body["messages"][1]["reasoning_content"]


RETURNED: Mapping[str, Any] = {
    "messages": [THINKING, TOOL_USE],
    "responses": [REASONING, FUNCTION_CALL],
    "generate_content": [CALL_PART],
    "chat_completions": "I look.",
}


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("api", PROGRAMS)
def test_thoughts_go_to_the_program_and_back_to_the_model(api: str, upstream: str) -> None:
    with chain(upstream) as running:
        answer = running.ask(PROGRAMS[api].path, PROGRAMS[api].body)
        running.ask(PROGRAMS[api].path, next_turn(api, answer))
        _, second = running.server.bodies

    assert "I look." in dumps_canonical(answer)
    assert "sealed" not in dumps_canonical(answer)  # the bridge keeps what is sealed
    assert thoughts_upstream(upstream, second) == RETURNED[upstream]
