"""How much of two requests of a task a prompt cache can serve: the text that both begin with."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from ktdeval.calls.costs.prompt_size import USUAL_TOKENS, text_bytes
from ktdeval.harness import Model, ModelRequest, Reply
from ktdeval.harness.tools.tool_protocols import encode
from ktdeval.task_api import is_scoring
from support.providers.obedient_model import ObedientModel
from support.tasks.planned_tasks import planned


@dataclass(frozen=True)
class SharedPrefix:
    """Text of a request as sent, and how much of it the request before began with."""

    tokens: float  #: estimated, of the second request
    reused: float  #: tokens of the common prefix, in whole lines
    shared: float  #: tokens of the lines that both requests have, wherever they stand

    @property
    def reused_pct(self) -> float:
        """Share of the second request in the common prefix."""
        return 100.0 * self.reused / self.tokens

    @property
    def kept_pct(self) -> float:
        """Share of what both requests have in common that lies in the common prefix."""
        return 100.0 * self.reused / self.shared


def shared_prefix(first: str, second: str) -> SharedPrefix:
    """Compare two requests line by line. Lines that both have count as often as both have them."""
    lines, others = second.splitlines(keepends=True), first.splitlines(keepends=True)
    prefix = [line for line, _ in takewhile(lambda pair: pair[0] == pair[1], zip(lines, others))]
    both = Counter(lines) & Counter(others)
    return SharedPrefix(_tokens(lines), _tokens(prefix), _tokens([*both.elements()]))


def _tokens(lines: Sequence[str]) -> float:
    # without the indentation of schemas, which is not sent
    return text_bytes("\n".join(line.strip() for line in lines)).tokens(USUAL_TOKENS)


def sent_texts(request: ModelRequest) -> list[str]:
    """Return a request as models read it: tools, then messages (OpenAI, Claude), and the tools after
    the system prompt (chat templates of Qwen, Llama and others). Tools are indented JSON, so that a
    line is one word of a schema.
    """
    sent = encode(request)
    tools = [
        json.dumps([tool.name, tool.description, tool.parameters], indent=1, ensure_ascii=False)
        for tool in sent.tools
    ]
    messages: list[str] = []
    for message in sent.messages:
        calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
        messages.append("\n".join([f"<{message.role}>", message.content, *calls]))

    system, *rest = messages
    orders = ([*tools, system, *rest], [system, *tools, *rest])
    return ["\n".join(parts) + "\n" for parts in orders]


class Silent:
    """Model that calls no tool."""

    def reply(self, request: ModelRequest) -> Reply:
        """Answer a request."""
        return Reply("I can't say.")


class FirstRequests:
    """Model that keeps the first request of each step, which `inner` answers."""

    traits = ObedientModel.traits

    def __init__(self, inner: Model) -> None:
        self._inner = inner
        self.by_step: dict[int, ModelRequest] = {}
        self.step = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Answer a request."""
        self.by_step.setdefault(self.step, request)
        return self._inner.reply(request)


def first_requests(task: str) -> list[ModelRequest]:
    """Play three steps of a task, and return the first request of each: the first steps of an
    episode; of questions the first, middle and last item, which differ most.
    """
    plan = planned(task)
    is_asking = is_scoring(plan.task)
    model = FirstRequests(Silent() if is_asking else ObedientModel())
    episode = plan.factory.open(plan.specs[0], model)
    steps = [0, 1, 2]
    if is_asking:
        steps = [0, episode.total_steps // 2, episode.total_steps - 1]

    for step in steps:
        model.step = step
        episode.run_step(step)

    return [*model.by_step.values()]


def prefix_of(task: str) -> SharedPrefix:
    """Return what the requests of consecutive steps (or items) share: of the pair and the order of
    tools and system prompt of which least lies in the common prefix.
    """
    found: list[SharedPrefix] = []
    for first, second in pairwise(map(sent_texts, first_requests(task))):
        found += map(shared_prefix, first, second)

    return min(found, key=lambda prefix: prefix.kept_pct)
