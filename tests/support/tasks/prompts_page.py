"""Page of the prompts of all agents on the families of tasks: each text once and in full, and a
reference wherever it is sent again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, Literal

from ktdeval.calls.costs.prompt_size import USUAL_TOKENS, prompt_bytes
from ktdeval.errors import KtdevalError
from ktdeval.harness import (
    END,
    SUBMIT_TOOL,
    ModelRequest,
    Reply,
    ToolSpec,
    one_submission,
    told_at_a_desk,
    two_phases,
)
from ktdeval.testing import small_market
from ktdeval.values import dumps_canonical
from ktdeval_agents.prompt_prefix_reuse import request_text
from ktdeval_command.command_agent import program_procedure
from ktdeval_command.desk.agent_desk import NEXT_STEP
from ktdeval_models.remote.params import AnthropicParams
from ktdeval_models.remote.vendors.anthropic import AnthropicModel
from support.providers.obedient_model import ObedientModel
from support.providers.prompt_caches import CLAUDE_MINIMUM, ClaudeCache, OpenAICache, Served
from support.tasks.ktdfin_play import PLUGINS, Play
from support.tasks.planned_tasks import planned

ANSWER = "Answer of"  # beginning of an answer in words
STEPS = 2  # in the second one there are earlier decisions
CLAUDE = "claude-opus-5-5"
SECONDS = 10.0  # from a request to the next one
_DATA_SHOWN = 300  # characters of a block of JSON
_LINES_SHOWN = 2  # of a list of assets
_LABEL = re.compile(r"\b(?:asset|stock)_\d+\b")
_FIGURE = re.compile(r"[+-]?\d[\d.,]*")
RESEARCHED = "blinded_open_research"
DRIVERS = (
    "A task says what the market, the account and the rules are. How the research ends, and which"
    " submission counts, is the text of who drives the step. It stands between the rules and the form"
    f" of the submission, here of `{RESEARCHED}`."
)
_RULES = "the rules"
_DAY = "the day"
_CHANGES = (
    "## Tokens before and after the last change of the tasks",
    "",
    "≈ tokens of the second step, at the version of each task before and now: with `react`, and the"
    " sum over all agents of the table above. Before is commit 9f8b9c05.",
    "",
    "| task | version | `react`: before | now | change, % | all agents: before | now | change, % |",
    "|---|---|---|---|---|---|---|---|",
)
_SPEAKER = "agent"  # of requests that name no role


@dataclass(frozen=True)
class Asked:
    """A request and its answer."""

    step: int
    request: ModelRequest
    answer: str

    @property
    def role(self) -> str:
        """The role that asked."""
        return self.request.role or _SPEAKER

    @property
    def kind(self) -> tuple[str, tuple[str, ...], str | None, int]:
        """What requests of one kind have in common: role, tools, and place in a conversation."""
        tools = tuple(tool.name for tool in self.request.tools)
        return self.role, tools, self.request.tool_choice, len(self.request.messages)


class Reporter(ObedientModel):
    """Obedient model that keeps what it is asked, and begins each answer in words with its role, so
    that answers can be told apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.asked: list[Asked] = []

    def reply(self, request: ModelRequest) -> Reply:
        """Answer a request."""
        reply = super().reply(request)
        if not reply.tool_calls:
            role = request.role or _SPEAKER
            reply = Reply(f"{ANSWER} {role}. {reply.content}")

        self.asked.append(Asked(self.step, request, reply.content))

        return reply


def asked_of(agent: str, task: str) -> list[Asked]:
    """Requests of the first steps of an episode; empty if the agent refuses the task."""
    model = Reporter()
    plan = planned(task, agent)
    episode = plan.factory.open(plan.specs[0], model)

    for step in range(STEPS):
        model.step = step
        try:
            episode.run_step(step)
        except KtdevalError:
            return []

    return model.asked


# --- figures


def claude_serves(
    asked: Sequence[Asked], is_marked: bool = True, heeds_choice: bool = True
) -> Served:
    """Return what Claude's prompt cache serves of the last step's requests; `asked` are those of all
    steps. If not marked, each has one mark, at its end. A server that speaks the same protocol need
    not heed the choice of a tool.
    """
    cache = ClaudeCache(CLAUDE_MINIMUM[CLAUDE], heeds_choice)
    marks: Literal["5m", "off"] = "5m" if is_marked else "off"
    model = AnthropicModel(CLAUDE, AnthropicParams(prompt_cache=marks))
    total = Served()

    for number, item in enumerate(asked):
        body = model.encode(item.request)
        if not is_marked:
            body["cache_control"] = {"type": "ephemeral"}

        served = cache.ask(body, number * SECONDS)
        if item.step == STEPS - 1:
            total += served

    return total


def openai_serves(asked: Sequence[Asked]) -> Served:
    """Return what OpenAI's prompt cache serves of the last step's requests."""
    cache = OpenAICache()
    total = Served()

    for number, item in enumerate(asked):
        served = cache.ask(text_of(item.request), tokens_of(item.request), number * SECONDS)
        if item.step == STEPS - 1:
            total += served

    return total


def text_of(request: ModelRequest) -> str:
    """Return a request as one text, in the order in which providers keep it."""
    tools = [tool_text(tool) for tool in request.tools]
    return request_text(tools, [message.to_json() for message in request.messages])


def tokens_of(request: ModelRequest) -> float:
    """Return the estimated tokens of a request."""
    return prompt_bytes(request).tokens(USUAL_TOKENS)


def tool_text(tool: ToolSpec) -> str:
    """Return a tool as canonical JSON."""
    return dumps_canonical([tool.name, tool.description, tool.parameters])


# --- texts


@dataclass
class Page:
    """A page as it is written, and which paragraphs are on it already."""

    lines: list[str] = field(default_factory=list)
    #: key of a paragraph -> where it is shown
    places: dict[str, str] = field(default_factory=dict)

    def write(self, *lines: str) -> None:
        """Add lines."""
        self.lines += lines

    def is_new(self, text: str) -> bool:
        """Whether a text has a paragraph that is not on the page."""
        return any(key_of(part) not in self.places for part in paragraphs(text))

    def register(self, text: str, place: str) -> None:
        """Refer to the paragraphs of a text by this place from now on."""
        self.places.update((key_of(part), place) for part in paragraphs(text))

    def blocks(self, text: str, place: str) -> Iterator[str]:
        """Yield new paragraphs of a text, which are those of `place` from now on, and a reference
        for each run of others.
        """
        known = [(self.places.get(key_of(part)), part) for part in paragraphs(text)]

        for is_known, group in groupby(known, key=lambda item: item[0] is not None):
            items = list(group)
            parts = [part for _, part in items]
            if is_known:
                yield reference([str(shown) for shown, _ in items], parts)
                continue

            yield from map(abbreviated, parts)
            for part in parts:
                self.places[key_of(part)] = place

    def write_text(self, text: str, place: str) -> None:
        """Add a text in a block of its own."""
        self.write("~~~~text", "\n\n".join(self.blocks(text, place)), "~~~~", "")


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text, without empty ones."""
    return [part.strip("\n") for part in text.split("\n\n") if part.strip()]


def key_of(paragraph: str) -> str:
    """Return a paragraph; if it has data of the day (JSON, or a list of assets), the kinds of its
    lines: other figures make no other text.
    """
    if is_json(paragraph):
        return "JSON"

    if not has_data(paragraph):
        return paragraph

    kinds = [_FIGURE.sub("#", _LABEL.sub("LABEL", line)) for line in paragraph.splitlines()]

    return "\n".join(dict.fromkeys(kinds))


def has_data(paragraph: str) -> bool:
    """Whether a paragraph has data of the day: JSON, or assets by their labels."""
    return is_json(paragraph) or _LABEL.search(paragraph) is not None


def is_json(paragraph: str) -> bool:
    """Whether a paragraph is a block of JSON."""
    return paragraph.startswith(("```json", "{"))


def reference(places: Sequence[str], parts: Sequence[str]) -> str:
    """Return a reference to paragraphs that are on the page, by where they are shown."""
    characters = sum(map(len, parts))
    names = ", ".join(dict.fromkeys(places))
    return f"⟨{names}: {characters:,} characters⟩"


def abbreviated(paragraph: str) -> str:
    """Return a paragraph with its tables cut: the beginning, and how many characters are left
    out.
    """
    if is_json(paragraph) and len(paragraph) > _DATA_SHOWN:
        left_out = len(paragraph) - _DATA_SHOWN
        return f"{paragraph[:_DATA_SHOWN]} ⟨{left_out:,} more characters⟩"

    lines = paragraph.splitlines()
    about_assets = [line for line in lines if _LABEL.search(line)]
    cut = about_assets[_LINES_SHOWN:]

    if len(cut) < _LINES_SHOWN:
        return paragraph

    kept = [line for line in lines if line not in cut]
    characters = sum(map(len, cut))

    return "\n".join([*kept, f"⟨{len(cut)} more lines, {characters:,} characters⟩"])


# --- the page


def procedures() -> dict[str, str]:
    """Return how a step goes on a task with research, by who drives it."""
    observation, session = Play(
        PLUGINS.make_task(RESEARCHED), ObedientModel(), small_market()
    ).session(0)
    reacting = two_phases(observation, session)
    return {
        "`react`, and the last role of a team": reacting,
        "a person, by `human/terminal` and `human/page`": told_at_a_desk(reacting, SUBMIT_TOOL),
        "a program, by `--agent command`": program_procedure(observation, session, False),
        "a program with `session=episode`": program_procedure(observation, session, True),
        "a framework, by `act(desk)`, and an agent of Inspect": one_submission(
            observation, session, END
        ),
        "a client of `--agent remote`, and an agent of Harbor": one_submission(
            observation, session, NEXT_STEP
        ),
    }


def page_of(
    head: str,
    told: Mapping[str, str],
    asked: Mapping[str, Mapping[str, Sequence[Asked]]],
    before: Mapping[str, Mapping[str, Any]],
) -> str:
    """Return the page of prompts. `told`: how a step goes, by who drives it; `asked`: requests by
    task and agent, of which the first has no prompt of its own; `before`: version and tokens by
    agent of each task before its last change.
    """
    rows: list[str] = []
    page = Page()

    for task, by_agent in asked.items():
        page.places = {key: _earlier(place) for key, place in page.places.items()}
        _write_task(page, task, _last_step(next(iter(by_agent.values()))))
        for agent, requests in by_agent.items():
            page.write(f"### `{agent}` on `{task}`", "")
            if not requests:
                page.write("The agent refuses this task.", "")
                continue

            rows.append(_row(task, agent, requests))
            _write_agent(page, agent, requests)

    changes = [_change_row(task, by_agent, before[task]) for task, by_agent in asked.items()]
    drivers = ["## How a step goes, by who drives it", "", DRIVERS, ""]
    for driver, text in told.items():
        drivers += [f"For {driver}:", "", "~~~~text", text, "~~~~", ""]
    lines = [head, *rows, "", *_CHANGES, *changes, "", *drivers, *page.lines]

    return "\n".join(lines).rstrip("\n") + "\n"


def _change_row(
    task: str, by_agent: Mapping[str, Sequence[Asked]], before: Mapping[str, Any]
) -> str:
    """Return the tokens of a task's step before and now: of one agent, and of all that take it."""
    now: dict[str, float] = {}
    for agent in before["tokens"]:
        now[agent] = math.fsum(tokens_of(item.request) for item in _last_step(by_agent[agent]))

    first = next(iter(by_agent))
    pairs = [
        (before["tokens"][first], now[first]),
        (math.fsum(before["tokens"].values()), math.fsum(now.values())),
    ]
    cells: list[str] = []
    for old, new in pairs:
        cells.append(f"{old:,.0f} | {new:,.0f} | {100.0 * (new / old - 1.0):+.1f}")

    version = planned(task, first).task.version
    return f"| `{task}` | {before['version']} → {version} | {' | '.join(cells)} |"


def _earlier(place: str) -> str:
    """Return a place of the task before as those after it refer to it."""
    if place in (_RULES, _DAY):
        return "a task above"

    return place


def _last_step(asked: Sequence[Asked]) -> list[Asked]:
    return [item for item in asked if item.step == STEPS - 1]


def _row(task: str, agent: str, asked: Sequence[Asked]) -> str:
    requests = [item.request for item in _last_step(asked)]
    characters = sum(len(text_of(request)) for request in requests)
    tokens = sum(map(tokens_of, requests))
    marked = claude_serves(asked)
    at_end = claude_serves(asked, is_marked=False)
    served = (
        marked.read_pct,
        marked.written_pct,
        marked.cost_pct,
        at_end.read_pct,
        at_end.cost_pct,
        openai_serves(asked).read_pct,
    )
    shares = " | ".join(f"{share:.0f}" for share in served)

    return f"| `{task}` | `{agent}` | {len(requests)} | {characters:,} | {tokens:,.0f} | {shares} |"


def _write_task(page: Page, task: str, asked: Sequence[Asked]) -> None:
    """Write what a task shows to every agent: as the agent without a prompt of its own sees it."""
    rules, day = (message.content for message in asked[0].request.messages[:2])
    page.write(f"## Task `{task}`", "", "The rules:", "")
    page.write_text(rules, _RULES)
    page.register(rules, _RULES)

    page.places.pop("JSON", None)
    page.write("The day:", "")
    page.write_text(day, _DAY)
    page.register(day, _DAY)

    offered = chain.from_iterable(item.request.tools for item in asked)
    tools = {tool.name: tool for tool in offered}

    for tool in tools.values():
        characters = len(dumps_canonical(tool.parameters))
        page.write(f"The tool `{tool.name}`, with a schema of {characters:,} characters:", "")
        page.write_text(tool.description, f"tool `{tool.name}`")


def _write_agent(page: Page, agent: str, asked: Sequence[Asked]) -> None:
    """Write the requests that have a text that is not on the page, and name the others. Of requests
    of one kind in a row the first is written.
    """
    in_last = {item.kind for item in _last_step(asked)}
    shown = [item for item in asked if item.step == STEPS - 1 or item.kind not in in_last]
    known: list[str] = []

    for _, group in groupby(shown, key=lambda item: item.kind):
        requests = list(group)
        name = requests[0].role
        if len(requests) > 1:
            name += f" ({len(requests)} requests, the first is shown)"

        if not _write_request(page, agent, name, requests[0]):
            known.append(requests[0].role)

        for item in requests:
            page.register(item.answer, f"answer of {item.role}")

    if known:
        names = ", ".join(dict.fromkeys(f"`{role}`" for role in known))
        page.write(f"Only texts that are shown above: {names}.", "")


def _write_request(page: Page, agent: str, name: str, item: Asked) -> bool:
    """Write one request; return False, and write nothing, if all its texts are on the page."""
    request = item.request
    messages = [message for message in request.messages if message.content]

    if not any(page.is_new(message.content) for message in messages):
        return False

    offered = ", ".join(f"`{tool.name}`" for tool in request.tools) or "none"
    if request.tool_choice:
        offered += f"; `{request.tool_choice}` must be called"
    elif request.tool_choice is not None:
        offered += "; none may be called"

    when = "" if item.step == STEPS - 1 else ", first step"
    page.write(f"**{name}**{when}; tools: {offered}", "")
    blocks = []

    for message in messages:
        blocks.append(f"⟨{message.role}, {len(message.content):,} characters⟩")
        blocks += page.blocks(message.content, f"{agent}/{item.role}")

    page.write("~~~~text", "\n\n".join(blocks), "~~~~", "")

    return True
