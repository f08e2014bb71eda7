"""What servers state of a model's context, and what `plan` and `run` make of it before anything is
paid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls import Context
from ktdeval.calls.costs.context_window import stated_context
from ktdeval.testing import AnsweringHandler, Terminal, on_each_row, running_server
from ktdeval_models.remote.params import CompatibleParams
from ktdeval_models.remote.vendors.openai import make_compatible
from support.providers.stub_provider import skip_without_sdks

skip_without_sdks()

TASK = ["--tasks", "blinded_open_research", "--limit", "2"]


@dataclass
class Stating:
    """A server that states things of its models, and what was asked of it."""

    address: str
    looked_up: list[str] = field(default_factory=list)
    paid: list[Any] = field(default_factory=list)


@contextmanager
def stating(pages: dict[str, Any]) -> Iterator[Stating]:
    """Serve these pages as JSON; every question to a model is counted, and fails."""

    class Handler(AnsweringHandler):
        def do_GET(self) -> None:
            asked.looked_up.append(self.path)
            status = 200 if self.path in pages else 404
            self.answer(json.dumps(pages.get(self.path)).encode(), status)

        def do_POST(self) -> None:
            asked.paid.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(b"{}", 500)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    asked = Stating(f"http://127.0.0.1:{server.server_address[1]}")
    with running_server(server):
        yield asked


def context_of(pages: dict[str, Any], provider: str = "openai_compatible") -> Context | None:
    with stating(pages) as server:
        model = make_compatible(provider, "qwen", CompatibleParams(base_url=f"{server.address}/v1"))
        return stated_context(model)


# What servers answer at their lists of models and beside them, and the context of the model `qwen` that follows.
@on_each_row(
    "server, pages, tokens, holds_reply",
    (
        "vllm",
        {
            "/v1/models": {
                "data": [{"id": "other", "max_model_len": 1}, {"id": "qwen", "max_model_len": 4096}]
            }
        },
        4096,
        True,
    ),
    (
        "one under another name",
        {"/v1/models": {"data": [{"id": "/models/qwen", "max_model_len": 4096}]}},
        4096,
        True,
    ),
    (
        "several under other names",
        {
            "/v1/models": {
                "data": [{"id": "a", "max_model_len": 1}, {"id": "b", "max_model_len": 2}]
            }
        },
        None,
        None,
    ),
    (
        "openrouter",
        {
            "/v1/models": {
                "data": [
                    {
                        "id": "qwen",
                        "context_length": 131_072,
                        "top_provider": {"context_length": 65536},
                    }
                ]
            }
        },
        65536,
        True,
    ),
    (
        "openrouter without a provider's",
        {
            "/v1/models": {
                "data": [
                    {
                        "id": "qwen",
                        "context_length": 131_072,
                        "top_provider": {"context_length": None},
                    }
                ]
            }
        },
        131_072,
        True,
    ),
    ("groq", {"/v1/models": {"data": [{"id": "qwen", "context_window": 32768}]}}, 32768, True),
    (
        "mistral",
        {"/v1/models": {"data": [{"id": "qwen", "max_context_length": 32768}]}},
        32768,
        True,
    ),
    (
        "lm studio",
        {
            "/v1/models": {"data": [{"id": "qwen"}]},
            "/api/v0/models": {
                "data": [{"id": "qwen", "loaded_context_length": 4096, "max_context_length": 32768}]
            },
        },
        4096,
        True,
    ),
    (
        "lm studio before it is loaded",
        {
            "/v1/models": {"data": [{"id": "qwen"}]},
            "/api/v0/models": {
                "data": [{"id": "qwen", "state": "not-loaded", "max_context_length": 32768}]
            },
        },
        32768,
        True,
    ),
    (
        "text-generation-inference",
        {
            "/v1/models": {"data": [{"id": "qwen"}]},
            "/info": {"model_id": "qwen", "max_input_tokens": 4095, "max_total_tokens": 4096},
        },
        4096,
        True,
    ),
    (
        "llama.cpp",
        {
            "/v1/models": {
                "data": [
                    {"id": "qwen.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32768}}
                ]
            },
            "/props": {"default_generation_settings": {"n_ctx": 4096}},
        },
        4096,
        False,
    ),
    (
        "llama.cpp without props",
        {
            "/v1/models": {
                "data": [
                    {"id": "qwen.gguf", "owned_by": "llamacpp", "meta": {"n_ctx_train": 32768}}
                ]
            }
        },
        32768,
        False,
    ),
    (
        "ollama",
        {
            "/v1/models": {"data": [{"id": "qwen:latest", "owned_by": "library"}, {"id": "other"}]},
            "/api/ps": {"models": [{"name": "qwen:latest", "context_length": 4096}]},
        },
        4096,
        False,
    ),
    (
        "ollama before it is loaded",
        {
            "/v1/models": {"data": [{"id": "qwen:latest", "owned_by": "library"}]},
            "/api/ps": {"models": []},
        },
        None,
        None,
    ),
    (
        "openai",
        {"/v1/models": {"data": [{"id": "qwen", "object": "model", "owned_by": "openai"}]}},
        None,
        None,
    ),
    ("no number", {"/v1/models": {"data": [{"id": "qwen", "max_model_len": "4096"}]}}, None, None),
    ("no list", {"/v1/models": {"error": "no"}}, None, None),
    ("no object", {"/v1/models": [1, 2]}, None, None),
    ("nothing", {}, None, None),
)
def test_a_context_is_read_where_each_server_states_it(
    server: str, pages: dict[str, Any], tokens: int | None, holds_reply: bool | None
) -> None:
    context = context_of(pages)
    if tokens is None:
        assert context is None, server
    else:
        assert context is not None, server
        assert (context.tokens, context.holds_reply) == (tokens, holds_reply)


def test_a_server_that_is_not_there_states_nothing() -> None:
    model = make_compatible("vllm", "qwen", CompatibleParams(base_url="http://127.0.0.1:9/v1"))
    assert stated_context(model) is None


def test_a_provider_with_a_key_is_not_asked() -> None:
    with stating({"/v1/models": {"data": [{"id": "qwen", "max_model_len": 4096}]}}) as server:
        model = make_compatible(
            "deepseek", "qwen", CompatibleParams(base_url=f"{server.address}/v1")
        )
        assert stated_context(model) is None

    assert server.looked_up == []


# ---- plan and run

SHORT = {"/v1/models": {"data": [{"id": "qwen", "max_model_len": 5000}]}}
LONG = {"/v1/models": {"data": [{"id": "qwen", "max_model_len": 200_000}]}}


def words(server: Stating, *more: str) -> list[str]:
    return ["--model", "vllm/qwen", "--base-url", f"{server.address}/v1", *TASK, *more]


@pytest.mark.slow
def test_plan_shows_the_largest_prompt_and_the_context(terminal: Terminal) -> None:
    with stating(LONG) as server:
        text = terminal.out("plan", *words(server))

    assert "context   200,000 tokens (its server's list of models)" in text
    assert "largest prompt" in text
    assert "does not fit" not in text
    assert server.paid == []


@pytest.mark.exhaustive
def test_plan_reports_that_a_run_would_be_refused(terminal: Terminal) -> None:
    with stating(SHORT) as server:
        text = terminal.out("plan", *words(server))
        estimate = json.loads(terminal.out("plan", *words(server, "--json")))

    assert "warning: task blinded_open_research: a prompt of about" in text
    assert (
        "does not fit: the context is 5,000 tokens (its server's list of models); this run would be"
        " refused" in text
    )
    assert estimate["context"]["tokens"] == 5000

    largest = estimate["tasks"][0]["largest_prompt"]
    assert 0 < largest["low"] < largest["typical"] < largest["high"]
    assert server.paid == []


@pytest.mark.exhaustive
def test_plan_of_a_context_that_research_may_exceed_names_the_case(terminal: Terminal) -> None:
    with stating({}) as server:
        text = terminal.out("plan", *words(server, "--context-tokens", "16000"))

    assert "in the case high: a prompt of about" in text
    assert "the context is 16,000 tokens (--context-tokens); such a prompt is not sent" in text


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "tokens", "ways"),
    [
        ("blinded_memory_only", 40_000, []),
        ("blinded_memory_only", 8_000, ["context", "reply"]),  # compact has no fewer tokens
        ("market_blinded", 18_000, ["context", "reply", "compact"]),
        ("market_blinded", 9_000, ["context", "compact"]),
        ("blinded_memory_only", 2_000, ["context"]),
        ("market_blinded_compact", 3_000, ["context"]),  # a compact prompt has none
    ],
)
def test_each_way_that_a_plan_proposes_lets_the_prompts_fit(
    task: str, tokens: int, ways: list[str], terminal: Terminal
) -> None:
    """The command with the proposed words has no warning that its usual prompts do not fit."""
    given = ["--tasks", task, "--context-tokens", str(tokens)]
    if task.startswith("market"):
        given += ["--windows", "2024-04-01:2024-04-05"]

    with stating({}) as server:
        base = words(server)[:4]
        text = terminal.out("plan", *base, *given)
        proposed = _proposed(text)
        assert list(proposed) == ways
        for more in proposed.values():
            again = terminal.out("plan", *base, *given, *more)
            assert "in the case typical" not in again
            assert "would be refused" not in again


def _proposed(text: str) -> dict[str, list[str]]:
    """What the warnings of a plan propose: words of its command, by kind."""
    found: dict[str, list[str]] = {}
    if match := re.search(r"a context of at least ([\d,]+) tokens", text):
        found["context"] = ["--context-tokens", match[1].replace(",", "")]

    if match := re.search(r"lower --max-output-tokens to ([\d,]+)", text):
        found["reply"] = ["--max-output-tokens", match[1].replace(",", "")]

    if match := re.search(r"--set prompt=compact(?: with --max-output-tokens ([\d,]+))?", text):
        found["compact"] = ["--set", "prompt=compact"]
        if match[1]:
            found["compact"] += ["--max-output-tokens", match[1].replace(",", "")]

    return found


def test_plan_without_a_known_context_reports_it(terminal: Terminal) -> None:
    with stating({}) as server:
        text = terminal.out("plan", *words(server))

    assert "context   not known; give it with --context-tokens" in text


@pytest.mark.exhaustive
@pytest.mark.parametrize(("pages", "more"), [(SHORT, []), ({}, ["--context-tokens", "5000"])])
def test_run_whose_prompts_cannot_fit_is_refused_before_any_paid_call(
    pages: Any, more: list[str], terminal: Terminal, tmp_path: Path
) -> None:
    with stating(pages) as server:
        line = terminal.refusal(*words(server, *more, "--out", str(tmp_path / "run")))
        longer = terminal.refusal(
            *words(server, *more, "--out", str(tmp_path / "run"), "--max-output-tokens", "4500")
        )

    assert server.paid == []

    for message in (line, longer):
        assert "task blinded_open_research: a prompt of about" in message
        assert "use a context of at least" in message
        assert "lower --max-output-tokens" not in message, "no prompt of research fits then, either"

    assert not (tmp_path / "run" / "manifest.json").exists()
