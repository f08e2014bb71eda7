"""Switches of search: what lets a hosted model look something up, by its name, server and parameters."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.registry import Plugins
from ktdeval.testing import not_empty
from ktdeval.values.documents.strict_json import MAX_PARSED_LEVELS
from ktdeval_models.remote.params import presets
from ktdeval_models.remote.replies.lookups import lookups, may_look_up, reports_lookup
from ktdeval_models.remote.replies.read_tool_calls import loads_reply

SERVER = "https://api.example.com/v1"


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4o-search-preview",
        "gpt-4o-mini-search-preview-2025-03-11",
        "gpt-5-search-api",
        "o3-deep-research",
        "openai/gpt-4o:online",
        "openai/gpt-oss-20b:free:online",
        "perplexity/sonar",
        "Sonar-Pro",
        "groq/compound-mini",
        "compound-beta",
        "openai/gpt-5@preset/with-web",
        "@preset/ravenel-bridge",
        "glm-4-alltools",
        "jina-deepsearch-v1",
        "bot-20250301-abc",
    ],
)
def test_models_that_search_by_themselves_are_known_by_their_name(name: str) -> None:
    assert may_look_up([name], SERVER, {}).startswith(f"its name {name}: ")


@pytest.mark.parametrize(
    "name",
    [
        "gpt-4.1",
        "gpt-5-mini",
        "claude-sonnet-4-5",
        "gemini-2.5-pro",
        "deepseek-reasoner",
        "qwen3-max",
        "kimi-k2-thinking",
        "glm-4.6",
        "grok-4",
        "mistral-large-latest",
        "openai/gpt-oss-120b:free",
        "nousresearch/hermes-4-405b",
        "llama-3.3-70b-versatile",
    ],
)
def test_other_models_are_not(name: str) -> None:
    assert may_look_up([name], SERVER, {}) == ""


@pytest.mark.parametrize(
    "fields",
    [
        {"web_search_options": {}},
        {"plugins": [{"id": "web"}]},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"google_search": {}}]},
        {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"search_parameters": {"mode": "auto"}},
        {"search_parameters": {}},
        {"enable_search": True},
        {"enable_search": "true"},
        {"web_search": {"enable": True}},
        {"connectors": [{"id": "web-search"}]},
        {"compound_custom": {"tools": {"enabled_tools": ["web_search"]}}},
        {"model": "gpt-4o-search-preview"},
        {"models": ["perplexity/sonar"]},
        {"mcp_servers": [{"url": "https://example.com"}]},
        {"messages": []},
        {"a_field_of_tomorrow": 1},
    ],
)
def test_a_field_that_switches_search_on_or_is_not_known_counts(fields: Any) -> None:
    (name,) = fields
    assert may_look_up(["m"], SERVER, {"top_p": 0.9, **fields}).startswith(f"extra_body.{name}: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"top_p": 0.9, "seed": 1, "stop": ["x"]},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"provider": {"order": ["deepinfra"]}, "transforms": []},
        {"reasoning": {"effort": "high"}, "service_tier": "flex"},
        {"enable_search": False},
        {"search_parameters": {"mode": "off"}},
        {"plugins": []},
        {"guided_grammar": "root ::= x"},
    ],
)
def test_a_field_that_lets_nothing_be_looked_up_does_not(fields: Any) -> None:
    assert may_look_up(["m"], SERVER, fields) == ""


@pytest.mark.parametrize(
    ("server", "fields", "counts"),
    [
        ("https://api.perplexity.ai", {}, True),
        ("https://api.perplexity.ai", {"disable_search": True}, False),
        ("https://api.perplexity.ai", {"disable_search": False}, True),
        ("https://ark.cn-beijing.volces.com/api/v3/bots", {}, True),
        ("https://ark.cn-beijing.volces.com/api/v3", {}, False),
    ],
)
def test_some_servers_search_unless_they_are_told_not_to(
    server: str, fields: Any, counts: bool
) -> None:
    assert bool(may_look_up(["m"], server, fields)) is counts


def test_no_request_of_ours_has_such_a_field() -> None:
    """What a preset sends with each request lets nothing be looked up."""
    for preset in not_empty(presets().values()):
        own = {**preset.extra_body, **preset.think_on, **preset.think_off}
        assert may_look_up(["m"], preset.base_url, own) == "", preset.provider


def test_each_entry_of_the_table_has_its_source() -> None:
    table = lookups()
    entries = [*table.names, *table.servers, *table.fields]

    assert len(entries) >= 25
    assert all(each.source.startswith("https://") for each in entries)
    assert not {each.name for each in table.fields} & set(table.harmless)


# ---- what an answer reports


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"annotations": [{"type": "url_citation"}]}}]},
        {"citations": ["https://example.com"]},
        {"search_results": [{"title": "x"}]},
        {"usage": {"num_sources_used": 3}},
        {"usage": {"server_tool_use": {"web_search_requests": 1}}},
        {"output": [{"type": "web_search_call"}]},
        {"content": [{"type": "server_tool_use", "name": "web_search"}]},
        {"candidates": [{"groundingMetadata": {"webSearchQueries": ["x"]}}]},
        {"choices": [{"message": {"executed_tools": [{"type": "search"}]}}]},
    ],
)
def test_an_answer_that_reports_a_search_is_seen(answer: Any) -> None:
    assert reports_lookup(answer)


def test_an_answer_may_be_nested_as_deep_as_json_is_read() -> None:
    ended = loads_reply(b'{"debug": ' + nested(MAX_PARSED_LEVELS - 1, b"") + b"}")
    told = loads_reply(
        b'{"debug": ' + nested(MAX_PARSED_LEVELS - 2, b'{"type": "web_search_call"}') + b"}"
    )

    assert not reports_lookup(ended)
    assert reports_lookup(told)


def nested(levels: int, inside: bytes) -> bytes:
    """A JSON text of lists in one another."""
    return b"[" * levels + inside + b"]" * levels


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": [{"message": {"annotations": [], "content": "web_search_call"}}]},
        {"usage": {"server_tool_use": {"web_search_requests": 0}}},
        {"citations": None, "search_results": []},
        {"output": [{"type": "function_call", "arguments": '{"citations": [1]}'}]},
        {"content": [{"type": "tool_use", "input": {"citations": ["x"]}}]},
        {"content": [{"type": "text", "citations": None}]},
    ],
)
def test_another_is_not_whatever_the_model_writes(answer: Any) -> None:
    assert not reports_lookup(answer)


# ---- a model's own word


@pytest.mark.parametrize(
    ("name", "args", "counts"),
    [
        ("openai/gpt-4.1", {}, False),
        ("openai/gpt-4.1", {"api": "chat", "extra_body": {"web_search_options": {}}}, True),
        ("openrouter/openai/gpt-4o:online", {}, True),
        ("openrouter/x/y", {"extra_body": {"plugins": [{"id": "web"}]}}, True),
        ("xai/grok-4", {"extra_body": {"search_parameters": {"mode": "auto"}}}, True),
        ("google/gemini-2.5-pro", {"extra_body": {"tools": [{"google_search": {}}]}}, True),
        ("anthropic/claude-x", {"extra_body": {"tools": [{"type": "web_search_1"}]}}, True),
        ("dashscope/qwen3-max", {"extra_body": {"enable_search": True}}, True),
        ("openai_compatible/sonar", {"base_url": "https://api.perplexity.ai"}, True),
        ("azure/x", {"base_url": "https://r.openai.azure.com", "deployment": "sonar"}, True),
        ("groq/compound", {}, True),
    ],
)
def test_a_model_says_what_lets_it(name: str, args: Any, counts: bool, plugins: Plugins) -> None:
    assert bool(plugins.make_model(name, args).traits.may_look_up) is counts  # type: ignore[attr-defined]
