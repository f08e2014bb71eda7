"""What Claude's prompt cache is told to keep, and what it then serves by its documented rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from ktdeval.calls import PromptCache, PromptCacheRules
from ktdeval.calls.costs.prices import choose_price
from ktdeval.calls.costs.prompt_size import USUAL_TOKENS
from ktdeval.harness import NO_TOOL, Message, ModelRequest, ToolCall
from ktdeval_models.remote.params import AnthropicParams
from ktdeval_models.remote.requests.prompt_caches import published_rules
from ktdeval_models.remote.vendors.anthropic import AnthropicModel
from support.paths import REPOSITORY
from support.providers.adapter_server import LOOK, SUBMIT, ask
from support.providers.prompt_caches import ClaudeCache, Served
from support.providers.stub_provider import Stub
from support.tasks.prompts_page import RESEARCHED, STEPS, asked_of, claude_serves, openai_serves

pytestmark = pytest.mark.usefixtures("provider_keys")

PRICES = REPOSITORY / "ktdeval/facts/prices.yaml"
NAME = "claude-sonnet-5"
RULES = Message("system", "You trade by these rules. " * 200)
STATE = "The day: " + "1.25, " * 2000
REPORTS = "\n\n## Analyst\n\n" + "It may rise. " * 200
OWN = "\n\n# Your role\n\nJudge the risk."
DAY = Message("user", STATE + OWN, shared=(len(STATE),))


def claude(address: str | None = None, name: str = NAME, **params: Any) -> AnthropicModel:
    return AnthropicModel(name, AnthropicParams(base_url=address, **params))


def report(*reports: str, words: str = OWN) -> ModelRequest:
    """A role's request for words on the day and on these reports."""
    parts = (STATE, *reports)
    ends = tuple(len("".join(parts[:count])) for count in range(1, len(parts) + 1))
    day = Message("user", "".join((*parts, words)), shared=ends)

    return ask((RULES, day), (SUBMIT,), NO_TOOL)


def calls(*numbers: int) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"call_{number}", "get_snapshot", '{"id": "S1"}') for number in numbers)


def round_of(*numbers: int) -> list[Message]:
    """A turn of research: its calls, and the result of each."""
    results = [Message("tool", "2.5, " * 50, tool_call_id=f"call_{number}") for number in numbers]
    return [Message("assistant", "", calls(*numbers)), *results]


def served(requests: Sequence[ModelRequest], name: str = NAME) -> list[Served]:
    """What each request is served, asked one after the other."""
    cache = ClaudeCache(1024)
    model = claude(name=name)
    return [cache.ask(model.encode(each), now=10.0 * at) for at, each in enumerate(requests)]


MARK = {"cache_control": {"type": "ephemeral"}}


def conversation(blocks: int, *marked: int) -> dict[str, Any]:
    """A body of so many blocks of 500 tokens or so; blocks are numbered from 1."""
    content: list[dict[str, Any]] = [
        {"type": "text", "text": f"{number:03} " * 288} for number in range(1, blocks + 1)
    ]

    for number in marked:
        content[number - 1] |= MARK

    return {"model": NAME, "messages": [{"role": "user", "content": content}]}


def blocks_read(cache: ClaudeCache, body: dict[str, Any], now: float = 0.0) -> int:
    found = cache.ask(body, now)
    return round(found.read / found.total * len(body["messages"][0]["content"]))


def test_a_growing_conversation_reads_what_its_last_turn_wrote() -> None:
    cache = ClaudeCache(1024)
    assert blocks_read(cache, conversation(10, 10)) == 0
    assert blocks_read(cache, conversation(15, 15)) == 10


@pytest.mark.parametrize(("marks", "read"), [((35,), 0), ((15, 35), 15)])
def test_a_mark_looks_back_at_twenty_blocks_with_its_own(marks: tuple[int, ...], read: int) -> None:
    cache = ClaudeCache(1024)
    cache.ask(conversation(15, 15), 0.0)
    assert blocks_read(cache, conversation(35, *marks)) == read


@pytest.mark.parametrize(("later", "read"), [(299.0, 3), (301.0, 0)])
def test_what_is_kept_ends_five_minutes_after_its_last_use(later: float, read: int) -> None:
    cache = ClaudeCache(1024)
    cache.ask(conversation(3, 3), 0.0)
    assert blocks_read(cache, conversation(3, 3), 200.0) == 3
    assert blocks_read(cache, conversation(3, 3), 200.0 + later) == read


def test_a_prefix_below_the_models_minimum_is_neither_written_nor_read() -> None:
    cache = ClaudeCache(4096)
    for _ in range(2):
        found = cache.ask(conversation(2, 2), 0.0)
        assert (found.read, found.written) == (0.0, 0.0)


def test_rules_state_and_reports_are_blocks_with_marks_and_say_the_same() -> None:
    request = report(REPORTS)
    body = claude().encode(request)

    assert body["system"] == [{"type": "text", "text": RULES.content, **MARK}]

    (turn,) = body["messages"]
    assert turn["content"] == [
        {"type": "text", "text": STATE, **MARK},
        {"type": "text", "text": REPORTS, **MARK},
        {"type": "text", "text": OWN},
    ]

    plain = claude(prompt_cache="off").encode(request)
    assert plain["system"] == RULES.content
    assert plain["messages"][0]["content"] == [{"type": "text", "text": STATE + REPORTS + OWN}]


# --- what is marked


@pytest.mark.parametrize("given", [{"prompt_cache": "off"}, {"omit": ("cache_control",)}])
def test_marks_can_be_turned_off(given: dict[str, Any]) -> None:
    assert "cache_control" not in str(claude(**given).encode(report(REPORTS)))


def test_a_request_without_a_system_message_marks_its_tools() -> None:
    body = claude().encode(ask((Message("user", "Day 3."),), (LOOK, SUBMIT)))
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]


def test_where_a_message_is_cut_is_part_of_no_comparison_and_no_record() -> None:
    plain = replace(DAY, shared=())
    assert plain == DAY
    assert plain.to_json() == DAY.to_json()


@pytest.mark.parametrize(
    "messages",
    [
        (RULES, DAY),
        (RULES, DAY, *round_of(1), *round_of(2), *round_of(3)),
        (RULES, *[DAY] * 5, *round_of(1)),
    ],
)
def test_a_server_as_strict_as_the_provider_takes_all_marks(
    stub: Stub, messages: tuple[Message, ...]
) -> None:
    model = claude(stub.address, name="stub-model")
    assert model.reply(ask(messages, (LOOK, SUBMIT))).usage.input_tokens > 0


def test_a_role_reads_what_the_one_before_it_wrote() -> None:
    first, second = served([report(), report(words="\n\n# Your role\n\nB.")])
    assert first.read == 0.0
    assert second.read == first.written > 0.95 * second.total
    assert second.written == 0.0


@pytest.mark.parametrize("parallel", [1, 11, 30])
def test_a_turn_of_research_reads_the_whole_conversation_before_it(parallel: int) -> None:
    opening = [RULES, replace(DAY, shared=())]
    numbers = range(1, parallel + 1)
    turns = [*opening, *round_of(*numbers)]
    first, second, third = served(
        [
            ask(tuple(messages), (LOOK, SUBMIT))
            for messages in (opening, turns, [*turns, *round_of(99)])
        ]
    )

    assert first.fresh == second.fresh == third.fresh == 0.0
    assert second.read == first.total
    assert third.read == second.total


def test_a_submission_after_research_is_not_written_for_nobody() -> None:
    research = ask((RULES, DAY, *round_of(1)), (LOOK, SUBMIT))
    now = Message("user", "Submit now.")
    forced = ask((*research.messages, now), (LOOK, SUBMIT), "submit_action")
    rules = served([research, research])[0]
    _, submission = served([research, forced])

    assert submission.written == 0.0
    assert 0.0 < submission.read < 0.25 * rules.total


# --- what is served


def test_where_a_call_is_only_asked_for_a_submission_reads_its_research() -> None:
    research = ask((RULES, DAY, *round_of(1)), (LOOK, SUBMIT))
    now = [Message("assistant", "Enough."), Message("user", "Submit now.")]
    forced = ask((*research.messages, *now), (LOOK, SUBMIT), "submit_action")
    first, submission = served([research, forced], "claude-opus-5-5")

    assert submission.read == first.total
    assert submission.written == 0.0


def test_a_single_submission_writes_its_rules_alone() -> None:
    day = replace(DAY, shared=())
    invalid = ToolCall("call_1", "submit_action", "{}")
    again = [Message("assistant", "", (invalid,)), Message("tool", "No.", tool_call_id="call_1")]
    requests = [
        ask((RULES, day, *again * retries), (SUBMIT,), "submit_action") for retries in range(3)
    ]
    first, second, third = served(requests)

    assert first.written < 0.25 * first.total
    assert second.read == first.written
    assert third.read == second.total


# --- teams


@pytest.mark.parametrize("agent", ["react", "deepfund"])
def test_a_plan_simulates_the_caches_as_this_module_does(agent: str) -> None:
    asked = asked_of(agent, RESEARCHED)
    model = claude(name="claude-opus-5-5")
    rules = {
        "marked": (model.traits.prompt_cache, claude_serves(asked)),
        "unmarked": (published_rules("openai", "gpt-5"), openai_serves(asked)),
    }
    for cached, expected in rules.values():
        assert isinstance(cached, PromptCacheRules)
        cache = PromptCache(cached, USUAL_TOKENS)
        tokens = [cache.ask(item.request, 10.0 * at) for at, item in enumerate(asked)]
        last = [one for one, item in zip(tokens, asked, strict=True) if item.step == STEPS - 1]
        total = sum(one.total for one in last)
        assert 100.0 * sum(one.read for one in last) / total == pytest.approx(
            expected.read_pct, abs=4.0
        )


CLAUDE = ("fable-5-1", "opus-5-5", "opus-5", "opus-4-8", "sonnet-5-5", "sonnet-4-6", "haiku-5-5")


@pytest.mark.parametrize("name", CLAUDE)
def test_each_claude_model_has_the_price_of_writing_for_five_minutes(name: str) -> None:
    price = choose_price(f"anthropic/claude-{name}", {}, None, PRICES, date(2026, 11, 26))
    assert price is not None
    assert price.cache_write == pytest.approx(1.25 * price.input)


# --- what it costs


def test_tokens_read_and_written_are_paid_at_their_own_prices() -> None:
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 300,
        "cache_read_input_tokens": 4000,
        "output_tokens": 50,
    }
    message = {
        "type": "message",
        "model": NAME,
        "content": [{"type": "text", "text": "Hold."}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    reply = claude().decode(message, report(), {})
    price = choose_price(f"anthropic/{NAME}", {}, None, PRICES, date(2026, 11, 26))

    assert price is not None

    dollars = price.call_cost(reply.usage)
    assert dollars == pytest.approx((10 * 2 + 300 * 2.5 + 4000 * 0.2 + 50 * 10) / 1e6)
