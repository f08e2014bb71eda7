"""Refusals that every call would meet are known at the first of them, and are not paid for step by
step.
"""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls import Caller, http_error
from ktdeval.calls.tool_protocol_probe import choose_protocol
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal, on_each_row
from support.providers.adapter_server import Prepared, PreparedServer, ask, prepared
from support.providers.call_clients import RunClients
from support.providers.stub_neutral import KEY
from support.providers.stub_provider import skip_without_sdks

skip_without_sdks()

PLUGINS = load_plugins()
CALLER = Caller("openai", "q", "http://localhost:8000/v1", ("OPENAI_API_KEY",))
RUN = [
    "--model",
    "openai_compatible/q",
    "--tasks",
    "blinded_open_research",
    "--limit",
    "4",
    "--cache",
    "run",
    "--quiet",
]


def question(text: str = "Day 3.") -> ModelRequest:
    return ask((Message("user", text),))


def refusal(status: int, body: Any) -> ModelError | ProviderError:
    return http_error(status, json.dumps(body).encode(), {}, CALLER, ("model", "messages", "tools"))


# Refusals that every call of a run would meet, though their status is that of one request.
@on_each_row(
    "server, status, body, advice",
    (
        "openai",
        400,
        {"error": {"message": "The model `q` does not exist or you do not have access to it."}},
        "check the name after the slash in --model",
    ),
    (
        "mistral",
        400,
        {"object": "error", "message": "Invalid model: q", "type": "invalid_model", "code": "1500"},
        "check the name after the slash in --model",
    ),
    (
        "groq",
        422,
        {"error": {"message": "model 'q' not found"}},
        "check the name after the slash in --model",
    ),
    (
        "openai's reply",
        400,
        {
            "error": {
                "message": (
                    "max_tokens is too large: 100000. This model supports at most 4096 "
                    "completion tokens, whereas you provided 100000."
                ),
                "param": "max_tokens",
            }
        },
        "give a lower --max-output-tokens",
    ),
    (
        "anthropic's reply",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": (
                    "max_tokens: 100000 > 8192, which is the maximum allowed number of "
                    "output tokens for q"
                ),
            },
        },
        "give a lower --max-output-tokens",
    ),
    (
        "deepseek's reply",
        400,
        {
            "error": {
                "message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
            }
        },
        "give a lower --max-output-tokens",
    ),
    (
        "a reply too long as an unprocessable request",
        422,
        {
            "error": {
                "message": "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"
            }
        },
        "give a lower --max-output-tokens",
    ),
    (
        "dashscope's reply",
        400,
        {"error": {"message": "Range of max_tokens should be [1, 8192]"}},
        "give a lower --max-output-tokens",
    ),
    (
        "gemini's reply",
        400,
        {
            "error": {
                "code": 400,
                "message": (
                    "Unable to submit request because it has a maxOutputTokens value "
                    "of 100000 but the supported range is from 1 (inclusive) to 8193 "
                    "(exclusive)."
                ),
                "status": "INVALID_ARGUMENT",
            }
        },
        "give a lower --max-output-tokens",
    ),
)
def test_a_refusal_that_every_call_would_meet_stops_the_run_at_its_first(
    server: str, status: int, body: Any, advice: str, terminal: Terminal, tmp_path: Path
) -> None:
    error = refusal(status, body)
    assert isinstance(error, ProviderError), server
    assert advice in str(error)

    with prepared(Prepared(body, status)) as listening:
        address = ["--base-url", f"{listening.address}/v1", "--tool-protocol", "native"]
        message = terminal.refusal(*RUN, *address, "--out", str(tmp_path / "run"))

    assert advice in message
    assert len(listening.bodies) == 1


@on_each_row(
    "server, status, body",
    ("tools", 400, {"error": {"message": "This model does not support tools"}}),
    ("call", 400, {"error": {"message": "No tool call found for the model's output"}}),
    ("words", 400, {"error": {"message": "something is wrong"}}),
)
def test_a_refusal_of_one_request_stays_one(server: str, status: int, body: Any) -> None:
    error = refusal(status, body)
    assert isinstance(error, ModelError), server
    assert error.kind == "bad_request"


# ---- a server that never worked: not there, not the right one, not set up

MODELS = {
    "chat": ("openai/q", {"api": "chat"}, "/v1"),
    "compatible": ("openai_compatible/q", {}, "/v1"),
    "responses": ("openai/q", {}, "/v1"),
    "anthropic": ("anthropic/q", {}, ""),
    "google": ("google/q", {}, ""),
}
PAGE = b"<!doctype html><html><head><style>b {}</style></head><body>Log in to nginx</body></html>"


def model_at(adapter: str, server: PreparedServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model whose calls go to this server."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)

    name, params, path = MODELS[adapter]
    return PLUGINS.make_model(name, {"base_url": f"{server.address}{path}", **params})


@pytest.mark.parametrize("adapter", MODELS)
@on_each_row(
    "status, body, words, asked",
    (
        200,
        "<html><body><h1>Welcome to nginx!</h1></body></html>",
        "answered with an HTML page (Welcome to nginx!)",
        1,
    ),
    (200, "\ufeff  <!DOCTYPE html><title>Login</title>", "answered with an HTML page (Login)", 1),
    (200, "Ollama is running", "answered with a text that is not JSON (Ollama is running)", 1),
    (200, {"error": {"message": "model q is not loaded"}}, "model q is not loaded", 3),
    (200, {"error": "model q is not loaded"}, "model q is not loaded", 3),
    (200, {"detail": "Method not found"}, "Method not found", 3),
    (200, {"status": "ok", "service": "billing"}, '{"status": "ok", "service": "billing"}', 3),
    (200, "", "an empty body", 3),
    (
        500,
        {"error": {"message": "tools param requires --jinja flag"}},
        "tools param requires --jinja flag",
        3,
    ),
    (
        500,
        "<html><body>Traceback: out of memory</body></html>",
        "HTTP 500: Traceback: out of memory",
        3,
    ),
    (502, "<h1>502 Bad Gateway</h1>", "HTTP 502: 502 Bad Gateway", 3),
)
def test_a_server_that_never_worked_is_given_up_soon_with_its_words(
    adapter: str,
    status: int,
    body: Any,
    words: str,
    asked: int,
    run: RunClients,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = body.encode() if isinstance(body, str) else body
    with prepared(Prepared(content, status)) as server:
        client = run.client(model_at(adapter, server, monkeypatch), None)
        with pytest.raises(ProviderError) as caught:
            client.for_episode("e1", run.note).reply(question())

    assert words in str(caught.value)
    assert "check the address (--base-url)" in str(caught.value)
    assert len(server.bodies) == asked
    assert [(note[2], note[3]) for note in run.notes] == [(n, 3) for n in range(1, asked)]
    assert all(words in note[4] for note in run.notes)


def test_a_wrong_address_ends_the_check_of_tools_at_its_first_answer(
    terminal: Terminal, tmp_path: Path
) -> None:
    with prepared(Prepared(PAGE)) as listening:
        address = ["--base-url", f"{listening.address}/v1"]
        message = terminal.refusal(*RUN, *address, "--out", str(tmp_path / "run"))

    assert "answered with an HTML page (Log in to nginx)" in message
    assert len(listening.bodies) == 1


def test_server_failing_in_every_tool_protocol_is_quoted_once(
    run: RunClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure = {"error": {"code": 500, "message": "tools param requires --jinja flag"}}
    with prepared(Prepared(failure, 500)) as server:
        model = model_at("compatible", server, monkeypatch)
        ask_check = run.client(model, None).for_episode("check").reply
        with pytest.raises(ProviderError) as caught:
            choose_protocol(model, "auto", ask_check, CallParams(timeout_s=60.0))

    told = "(native, json_schema, text: server, openai_compatible/q: HTTP 500: tools param requires"
    assert told in str(caught.value)
    assert len(server.bodies) == 9  # three of each protocol


def test_host_that_drops_connections_is_given_up_like_an_absent_one(
    run: RunClients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full queue of connections drops further ones, as a firewall does."""
    monkeypatch.setattr("ktdeval_models.remote.transport._CONNECT_S", 0.05)
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        address = listening.getsockname()
        with closing(socket.create_connection(address)):
            silent = PreparedServer(f"http://127.0.0.1:{address[1]}")
            client = run.client(model_at("compatible", silent, monkeypatch), None)
            with pytest.raises(ProviderError, match=r"no connection within 0\.05 s.*--base-url"):
                client.for_episode("e1", run.note).reply(question())

    assert [note[2:4] for note in run.notes] == [(1, 3), (2, 3)]


def test_server_that_always_fails_is_given_up_after_the_failure_limit(
    terminal: Terminal, tmp_path: Path
) -> None:
    """Among them those of the questions that a run asks first."""
    with prepared(Prepared({"error": {"message": "something is wrong"}}, 400)) as listening:
        address = ["--base-url", f"{listening.address}/v1", "--tool-protocol", "native"]
        code, _, message = terminal.call(*RUN, *address, "--out", str(tmp_path / "run"))

    assert code != 0
    assert "3 calls in a row failed for good, the last with bad_request" in message
    assert len(listening.bodies) == 3
