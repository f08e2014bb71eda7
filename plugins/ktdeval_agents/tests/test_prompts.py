"""Prompts of teams on every family of tasks: nothing in them contradicts the task, what roles share
comes first, and roles that submit nothing are shown no rules of submission.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from ktdeval.harness import ROLE_HEADING, SIGNALS, ModelRequest, Reply, ToolCall
from ktdeval.runner.rehearsals.conversation_size import example
from ktdeval.testing import not_empty
from ktdeval_agents import TEAMS
from ktdeval_agents.prompts import shorten_text
from support.tasks.planned_tasks import planned

ORDERS = (
    "blinded_fixed_candidate",
    "blinded_memory_only",
    "blinded_open_research",
    "market_news_blinded",
    "deepfund_berkshire",
)
DECISIONS = (
    "ama_btc",
    "ama_btc_flat",
    "ama_btc_close",
    "ama_tsla_long",
    "ama_tsla_pyramid",
    "investorbench_msft",
    "investorbench_btc_history",
    "investorbench_portfolio",
    "views_blinded",
)
QUESTIONS = ("deanon_probe",)
FAMILIES = (*ORDERS, *DECISIONS, *QUESTIONS)

# Words that set or name a size, which decisions don't have.
_SIZES = re.compile(
    r"\d\s*%|of NAV|\bratios?\b|\blimits?\b|overweight|underweight|full position|\borders?\b"
    r"|smaller|\bsize\b",
    re.IGNORECASE,
)
_TRADES = re.compile(r"\b(BUY|SELL|HOLD|Overweight|Underweight)\b|of NAV|\borders\b")
_LIMIT = re.compile(r"at most ([\d.]+) % of NAV")
_SHORT = re.compile(r"\bshort\b")


class Speaker:
    """Looks something up where it may, reports in a few words, and submits what is valid."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        if request.tool_choice:
            (tool,) = (tool for tool in request.tools if tool.name == request.tool_choice)
            text = json.dumps(_valid(dict(tool.parameters), request))
            return Reply("", (ToolCall(f"s{len(self.requests)}", tool.name, text),), "tool_calls")

        looked_up = sum(bool(message.tool_calls) for message in request.messages)
        names = [tool.name for tool in request.tools]
        if request.tool_choice is None and "get_market_context" in names and looked_up < 3:
            call = ToolCall(f"r{len(self.requests)}", "get_market_context", "{}")
            return Reply("", (call,), "tool_calls")

        signal = SIGNALS[len(self.requests) % 3]

        return Reply(f"What is shown is mixed. {'As seen. ' * 30}" + json.dumps({"OTHERS": signal}))


def _valid(schema: dict[str, Any], request: ModelRequest) -> Any:
    """A submission that follows a schema, with one decision for each asset shown."""
    submitted: Any = example(schema, "as all of them say")
    if "analysts" in schema["properties"]:  # of a planner: it chooses all
        submitted["analysts"] = schema["properties"]["analysts"]["items"]["enum"]

    if "decisions" in schema["properties"]:
        item: Any = example(schema["properties"]["decisions"]["items"], "as all of them say")
        labels = () if request.state is None else request.state.candidates
        submitted["decisions"] = [{**item, "stock_id": label} for label in labels]

    return submitted


@dataclass(frozen=True)
class Step:
    """Requests of one step, and what its task asks for."""

    requests: Sequence[ModelRequest]
    agent: str

    @property
    def last(self) -> ModelRequest:
        return self.requests[-1]

    @property
    def own_words(self) -> str:
        """What the team itself tells the last role: its sections and its part, without the day and
        the task's submission.
        """
        user = self.last.messages[1].content
        shared, _, own = user.rpartition(ROLE_HEADING)
        sections = shared.rpartition("\n```")[2] or shared
        words = sections + re.split(r"^# ", own, flags=re.MULTILINE)[0]

        return re.sub(r"\(filled [^)]*\)|changed by [+-][\d.]+ %", "", words)  # what came of it


@cache
def step_of(task: str, agent: str) -> Step:
    """The second step of an episode: by then there is something to remember."""
    plan = planned(task)
    spec = replace(plan.specs[0], agent=agent, agent_args={})
    model = Speaker()
    episode = plan.factory.open(spec, model)
    episode.run_step(0)
    before = len(model.requests)
    episode.run_step(1)

    return Step(model.requests[before:], agent)


def roles_of(step: Step) -> list[ModelRequest]:
    """Requests of roles in the meeting, that of the last one's submission not among them."""
    return [request for request in step.requests[:-1] if request.role != "reflection"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("agent", TEAMS)
@pytest.mark.parametrize("task", DECISIONS)
def test_on_decisions_nobody_is_told_of_sizes(task: str, agent: str) -> None:
    step = step_of(task, agent)
    words = step.own_words.replace("Sizes follow from the task, so give none.", "")

    assert not _SIZES.findall(words)
    assert not _SHORT.findall(words)  # what SELL means, the task says

    for request in roles_of(step):
        own = request.messages[-1].content.rpartition(ROLE_HEADING)[2]
        assert not _SIZES.findall(own.replace("Sizes follow from the task", "")), request.role


@pytest.mark.parametrize("agent", TEAMS)
@pytest.mark.parametrize("task", DECISIONS)
def test_on_decisions_nobody_says_what_hold_does(task: str, agent: str) -> None:
    # HOLD may keep a position or close it: only the task says so.
    words = step_of(task, agent).own_words
    assert not re.findall(
        r"leaves? (it|what is held)|change nothing|keeps? (it|what is held)", words
    )


@pytest.mark.slow
@pytest.mark.parametrize("agent", TEAMS)
@pytest.mark.parametrize("task", ORDERS)
def test_on_orders_no_limit_of_a_team_is_beyond_the_tasks(task: str, agent: str) -> None:
    step = step_of(task, agent)
    state = step.last.state

    assert state is not None

    largest = state.limits.max_weight
    assert largest is not None

    shown = step.last.messages[1].content
    assert all(float(limit) <= 100 * largest for limit in _LIMIT.findall(step.own_words))

    if agent == "hedge_fund":
        has_prices = any(asset.price is not None for asset in state.assets.values())
        assert ("## Volatility limits" in shown) == has_prices
        assert ("beyond its volatility limit" in shown) == has_prices

    for request in roles_of(step):
        own = request.messages[1].content.rpartition(ROLE_HEADING)[2]
        grid = re.search(r"position ratios: ([\d., ]+)\. ", own)
        if grid:
            assert max(map(float, grid[1].split(", "))) <= largest


@pytest.mark.parametrize("agent", TEAMS)
@pytest.mark.parametrize("task", QUESTIONS)
def test_on_questions_no_role_is_told_to_trade(task: str, agent: str) -> None:
    step = step_of(task, agent)
    assert step.last.tool_choice

    for request in roles_of(step):
        own = request.messages[-1].content.rpartition(ROLE_HEADING)[2]
        assert not _TRADES.findall(own), request.role


@pytest.mark.parametrize("agent", TEAMS)
@pytest.mark.parametrize("task", FAMILIES)
def test_no_section_is_empty_and_the_role_comes_last(task: str, agent: str) -> None:
    for request in not_empty(step_of(task, agent).requests):
        for message in not_empty(request.messages[:2]):
            assert not re.findall(r"^## [^\n]*\n+(?=## |# Your role|\Z)", message.content, re.M)
            assert "\n\n\n" not in message.content

        if request.role != "reflection":
            assert request.messages[1].content.count(f"{ROLE_HEADING}\n") == 1
            assert ROLE_HEADING not in request.messages[0].content


# ---- what requests share


def reused_share(requests: Sequence[ModelRequest]) -> float:
    """Characters of each request that an earlier one of the step begins with, over all sent."""
    texts = [_serialised(request) for request in requests]
    reused = 0

    for index, text in enumerate(texts):
        common = [_common_length(text, earlier) for earlier in texts[:index]]
        reused += max(common, default=0)

    return reused / sum(map(len, texts))


def _common_length(text: str, other: str) -> int:
    """Characters that both texts begin with."""
    pairs = enumerate(zip(text, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(text), len(other)))


def _serialised(request: ModelRequest) -> str:
    tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
    return json.dumps([tools, [message.to_json() for message in request.messages]])


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["blinded_fixed_candidate", "deepfund_berkshire"])
@pytest.mark.parametrize(
    ("agent", "least"), [("hedge_fund", 0.8), ("trade", 0.7), ("deepfund", 0.55)]
)
def test_most_of_what_a_team_sends_was_sent_in_the_step(
    agent: str, least: float, task: str
) -> None:
    assert reused_share(step_of(task, agent).requests) >= least


@pytest.mark.parametrize(
    ("agent", "least"), [("react", 0.7), ("hedge_fund", 0.7), ("trade", 0.7), ("deepfund", 0.7)]
)
def test_research_and_submission_share_their_beginning(agent: str, least: float) -> None:
    assert reused_share(step_of("blinded_open_research", agent).requests) >= least


# ---- reports


def test_long_report_keeps_both_ends_and_states_what_is_omitted() -> None:
    text = "Begin. " + "word " * 1000 + '{"OTHERS": "Bullish"}'
    cut = shorten_text(text, 900)

    assert cut.startswith("Begin. word")
    assert cut.endswith('word {"OTHERS": "Bullish"}')

    (count,) = re.findall(r"\[… (\d+) characters left out …\]", cut)
    kept = len(cut) - len(f"\n[… {count} characters left out …]\n")

    assert kept + int(count) == len(text)
    assert kept <= 900
    assert shorten_text("Short.", 900) == "Short."
    assert shorten_text("x" * 1000, 900).startswith("x" * 600)
