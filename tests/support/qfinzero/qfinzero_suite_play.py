"""Puts the items of the QFinZero suites to scripted agents, as the runner does; and two small sets
of items made by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import ktdeval_qfinzero
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolCall
from ktdeval.registry.task_files import merge_layers
from ktdeval.runner.episodes.episode_parts import ScoringParts
from ktdeval.runner.episodes.scoring_episode import ScoringEpisodeRun
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.values import decode_json, encode_canonical, load_yaml
from ktdeval_builtin.react import ReactAgent
from ktdeval_qfinzero.benchmark.item_generation import IDS, Template, item_of, opening, order
from ktdeval_qfinzero.benchmark.items import (
    ACCOUNT,
    SESSION,
    BenchmarkItem,
    GoldStep,
    ItemCall,
    ItemDraft,
    resolve_references,
)
from ktdeval_qfinzero.benchmark.market_facts import MomentFacts
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.suite.config import SuiteConfig
from ktdeval_qfinzero.suite.samples import SampleMaterial, embedded_items, own_material
from ktdeval_qfinzero.suite.task import SuiteTask
from support.qfinzero.qfinzero_scoring_cases import perfect_answer
from support.qfinzero.qfinzero_world import small_dataset

VARIANTS = tuple(
    f"qfinzero_{suite}{how}"
    for suite, how in product(("calling", "planning"), ("", "_text", "_live"))
)
_ORDER = {
    "instrument": {"type": "STOCK", "symbol": "AVLN"},
    "side": "BUY",
    "order_type": "MARKET",
    "qty": 10,
}


@cache
def world() -> Dataset:
    """The small market."""
    return small_dataset()


def _make(draft: ItemDraft, suite: Any, number: int, category: str) -> BenchmarkItem:
    template = Template(
        name=category, category=category, difficulty="easy" if number < 3 else "hard"
    )
    return item_of(draft, template, suite, f"{suite}-{number}", world().info.default_as_of_ns)


@cache
def calling_items() -> tuple[BenchmarkItem, ...]:
    """A price query, an order, a step in time, and something that can't be done."""
    opened = opening(MomentFacts(world(), world().info.default_as_of_ns), ("AVLN", "BRKT"))
    daily = ItemCall(
        "UPQ.stock.daily", {"tickers": "AVLN", "start": "2025-01-02", "end": "2025-01-03"}
    )
    buy = GoldStep(order({**_ORDER, "time_in_force": "DAY"}))
    drafts = (
        (
            ItemDraft(
                "Daily bars of AVLN of January 2 and 3, 2025.", (GoldStep(daily, ("start", "end")),)
            ),
            "price_query",
        ),
        (ItemDraft(f"Buy 10 AVLN in {SESSION}, account {ACCOUNT}.", (buy,), opened), "order"),
        (
            ItemDraft(
                f"Step {SESSION} 2 ticks.",
                (GoldStep(ItemCall("PMB.session.step", {"session_id": SESSION, "step": 2})),),
                opened,
            ),
            "order",
        ),
        (ItemDraft("What will AVLN close at tomorrow?", setup=opened), "refusal"),
    )

    return tuple(
        _make(draft, "calling", number, category)
        for number, (draft, category) in enumerate(drafts, 1)
    )


@cache
def planning_items() -> tuple[BenchmarkItem, ...]:
    """A workflow in which one call needs the answer to another; one that reads only; and one that
    can't be done.
    """
    opened = opening(MomentFacts(world(), world().info.default_as_of_ns), ("AVLN", "BRKT"))
    brkt = {
        "instrument": {"type": "STOCK", "symbol": "BRKT"},
        "side": "BUY",
        "order_type": "LIMIT",
        "qty": 20,
    }
    bid = order({**brkt, "limit_price": 30.0, "time_in_force": "GTC"})
    earnings = ItemCall(
        "ESP.calendar.earnings",
        {"start_date": "2025-01-06", "end_date": "2025-01-31", "tickers": ["AVLN"]},
    )
    steps = (
        GoldStep(earnings, ("start_date", "end_date")),
        GoldStep(bid),
        GoldStep(ItemCall("PMB.order.cancel", {**IDS, "order_id": "<s2.order_id>"})),
        GoldStep(ItemCall("PMB.session.step", {"session_id": SESSION, "step": 1})),
    )
    daily = ItemCall(
        "UPQ.stock.daily", {"tickers": "AVLN,BRKT", "start": "2025-01-02", "end": "2025-01-06"}
    )
    reading = (
        GoldStep(daily, ("start", "end"), "1day"),
        GoldStep(ItemCall("ESP.news.search", {"keyword": "guidance"})),
    )
    trade = (
        "(1) AVLN's earnings in January. (2) Bid for 20 BRKT at $30. (3) Cancel it. (4) Step once."
    )
    drafts = (
        (ItemDraft(trade, steps, opened), "trade"),
        (ItemDraft("(1) Daily bars of AVLN and BRKT. (2) News on guidance.", reading), "research"),
        (ItemDraft("(1) Wait for the close of the Tokyo exchange. (2) Buy there."), "refusal"),
    )

    return tuple(
        _make(draft, "planning", number, category)
        for number, (draft, category) in enumerate(drafts, 1)
    )


def config_of(variant: str, **changes: Any) -> SuiteConfig:
    """The config of a variant of the task file, with changes."""
    content = load_yaml(Path(ktdeval_qfinzero.__file__).with_name("qfinzero.yaml"))
    shared = {key: content[key] for key in ("family", "version", "data_card", "sources")}
    own = {key: value for key, value in content["variants"][variant].items() if key != "summary"}

    return SuiteConfig.load(merge_layers((shared, content["defaults"], own, changes)), variant)


def embedded_items_of(variant: str) -> tuple[BenchmarkItem, ...]:
    """The generated items that a variant asks, on the embedded market."""
    return embedded_items(0, "planning" if "planning" in variant else "calling", 0)


def task_of(
    variant: str,
    asked: Sequence[BenchmarkItem] | None = None,
    dataset: Dataset | None = None,
    **changes: Any,
) -> SuiteTask:
    """A variant that asks these items, or those made by hand."""
    chosen = asked or (planning_items() if "planning" in variant else calling_items())

    def opened(config: SuiteConfig) -> SampleMaterial:
        return own_material(config, dataset or world(), chosen)

    return SuiteTask(variant, config_of(variant, **changes), opened)


def spec_of(task: SuiteTask, **changes: Any) -> EpisodeSpec:
    """An episode of a task."""
    given = {
        "window": None,
        "model": "test/agent",
        "model_args": {},
        "agent": "react",
        "agent_args": {},
        **changes,
    }
    return EpisodeSpec(task.name, task.version, "", None, None, task.mode, **given)


def sample_set_of(task: SuiteTask, **changes: Any) -> Any:
    """Its exam."""
    return task.samples(spec_of(task, **changes), None, None)


def sit(task: SuiteTask, model: Any, numbers: Sequence[int] | None = None) -> list[Any]:
    """Records of the samples, each as the runner makes it; every record must be writable."""
    episode = ScoringEpisodeRun(spec_of(task), ScoringParts(task, None, None, model, ReactAgent()))
    records = [
        episode.run_step(number).step
        for number in (range(episode.total_steps) if numbers is None else numbers)
    ]

    assert episode.encode(records)

    return [decode_json(encode_canonical(record), AnswerRecord, "record") for record in records]


# ---- scripted models


def submission(
    request: ModelRequest, status: str, calls: Sequence[Mapping[str, Any]] = ()
) -> Reply:
    """Submit; where the form asks for calls, with these."""
    answer: dict[str, Any] = {"status": status, "summary": "As asked."}
    (form,) = (tool for tool in request.tools if tool.name == request.tool_choice)

    if "calls" in form.parameters["properties"]:
        answer["calls"] = list(calls)

    return Reply(
        tool_calls=(ToolCall("s", form.name, json.dumps(answer)),),
        finish_reason="tool_calls",
    )


class Perfect:
    """Knows the items, makes the expected calls one after the other, and reads what it needs from
    answers.
    """

    def __init__(self, items: Sequence[BenchmarkItem], live: bool = False) -> None:
        self._items = {item.task.instruction: item for item in items}
        self._live = live

    def reply(self, request: ModelRequest) -> Reply:
        item = self._items[request.messages[1].content.partition("Instruction: ")[2]]
        plan = perfect_calls(item)
        if request.tool_choice is not None:
            return submission(request, "refused" if item.task.refuse else "done", plan)

        answers = [
            json.loads(message.content) for message in request.messages if message.role == "tool"
        ]

        if len(answers) == len(plan):
            return Reply("That is all.")

        call = plan[len(answers)]
        arguments = (
            resolve_references(item.gold[len(answers)].args, answers)
            if self._live
            else call["arguments"]
        )
        wire = catalogue().find(call["tool"]).wire_name

        return Reply(
            tool_calls=(ToolCall(f"c{len(answers)}", wire, json.dumps(arguments)),),
            finish_reason="tool_calls",
        )


def perfect_calls(item: BenchmarkItem) -> list[dict[str, Any]]:
    """The expected calls of an item as a dry run records them."""
    calls: list[Any] = perfect_answer(item.task, {})
    return [
        {
            "tool": call.get("tool") or call["tool_name"],
            "arguments": call.get("args", call.get("params")),
        }
        for call in calls
    ]


class Silent:
    """Never calls anything, and says that it is done."""

    def reply(self, request: ModelRequest) -> Reply:
        return Reply("Done.") if request.tool_choice is None else submission(request, "done")


class Scripted:
    """Makes given calls (tool, JSON) by wire names, all at once, then submits; `written` calls
    where the form asks for them.
    """

    def __init__(
        self,
        calls: Sequence[tuple[str, str]] = (),
        status: str = "done",
        written: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._calls = tuple(ToolCall(f"c{index}", *call) for index, call in enumerate(calls))
        self._status = status
        self._written = written
        self.tool_messages: list[Message] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.tool_messages = [message for message in request.messages if message.role == "tool"]
        if request.tool_choice is not None:
            return submission(request, self._status, self._written)

        return (
            Reply("Done.")
            if self.tool_messages or not self._calls
            else Reply(tool_calls=self._calls, finish_reason="tool_calls")
        )
