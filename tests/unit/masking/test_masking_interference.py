"""What a mode and a mask do not show enters no prompt and no answer: two markets that differ in all of
it, and have the same account, show the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from ktdeval.harness import Model, ModelRequest, ModelTraits, Reply, call
from ktdeval.market import MarketSnapshot
from ktdeval.market.rules.calendar import window_rows
from ktdeval.masking import Lens
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.episode import TradingEpisodeRun
from ktdeval.runner.episodes.episode_parts import EpisodeParts
from ktdeval.runner.plans.warm_up_notes import first_day_of_warm_up
from ktdeval.task_api import EpisodeSpec, TargetTask
from ktdeval.testing import not_empty, small_market
from ktdeval.trading import Account, Position
from ktdeval.trading.market_tape import MarketTape
from ktdeval.values import JsonValue
from ktdeval_deanon.task import Probe, target_spec, view_probe
from ktdeval_memory_floor.questions import QuestionWriter
from support.masking.two_markets import KINDS, FixedDraw, Shown
from support.tables import beside
from support.tasks.ktdfin_market import spec_of
from support.tasks.planned_tasks import planned

PLUGINS = load_plugins()
KTDFIN = small_market()
STEP = 6
LESSONS = 3
AGENTS = ["react", "investor", "trade", "deepfund", "hedge_fund", "finmem", "vote"]
WHOLE_MARKET = frozenset({"get_market_context", "screen_candidates"})  # tools that ask about all
ROWS = [tuple(row) for row in beside(__file__)["hidden"][1:]]
HIDDEN = {tuple(row[:3]): row[3].split() for row in ROWS}


def row_of(name: str) -> tuple[str, str, str | None]:
    """Row of the table that a task stands in."""
    task = PLUGINS.make_task(name)
    return PLUGINS.spec("tasks", name).groups[0], task.mode, getattr(task, "mask", None)


TASKS = [
    name
    for name in sorted(PLUGINS.specs("tasks"))
    if getattr(PLUGINS.make_task(name), "mode", None)
]
CASES = [(name, kind) for name in TASKS for kind in HIDDEN.get(row_of(name), [])]
IN_KTDFIN = [case for case in CASES if row_of(case[0])[0].startswith("ktdfin")]
IN_PROBES = [case for case in CASES if row_of(case[0])[0].startswith("deanon")]
IN_MEMORY_FLOOR = [case for case in CASES if row_of(case[0])[0] == "memory_floor"]
ELSEWHERE = [case for case in CASES if case not in IN_KTDFIN + IN_PROBES + IN_MEMORY_FLOOR]


def test_the_table_has_a_row_for_each_mode_of_each_family_under_each_mask() -> None:
    assert {row_of(name) for name in TASKS} == HIDDEN.keys()
    assert len(ROWS) == len(HIDDEN)


@pytest.mark.parametrize(("family", "mode", "mask", "listed"), ROWS)
def test_each_mode_of_each_family_declares_under_each_mask_what_it_hides(
    family: str, mode: str, mask: str | None, listed: str
) -> None:
    kinds = listed.split()
    assert set(kinds) <= KINDS.keys()
    assert ("names" in kinds) == (mask in ("stock_blind", "blinded"))
    assert ("calendar" in kinds) == (mask in ("date_blind", "blinded"))
    assert ("later" in kinds) == (mask is not None)


# ---- KTD-Fin


def alike_columns(market: MarketSnapshot, row: int) -> tuple[int, int]:
    """Two members of one board that trade at the close, at different prices."""
    traded = market.member[row] & np.isfinite(market.close[row]) & (market.volume[row] > 0)
    board = market.boards[8]
    one, two = [asset for asset in np.flatnonzero(traded) if market.boards[asset] == board][:2]

    assert market.close[row, one] != market.close[row, two]

    return int(one), int(two)


def ktdfin_texts(
    name: str, market: MarketSnapshot, shown: Shown, tools: tuple[str, ...]
) -> list[str]:
    """Prompts of a step with cash alone and with two holdings, and answers to each tool."""
    texts = []
    first, _ = window_rows(market.days, shown.spec.span.first, shown.spec.span.last)
    holding = dict.fromkeys(shown.held, Position(1_200, 100))

    for account in (Account(100_000_000, {}), Account(50_000_000, holding)):
        scene = PLUGINS.make_task(name).scene(shown.spec, market)
        step = shown.row - (first - 1)
        view = market.as_of(shown.row)
        observation = scene.observe(step, view, account, None)
        texts += [observation.system, observation.user]
        context = scene.tool_context(step, view, account)
        for tool in PLUGINS.tools(tools):
            for arguments in questions(tool.name, scene.lens, list(shown.columns)):
                outcome = call(tool, context, arguments, scene.lens)
                assert outcome.failure is None, (tool.name, arguments, outcome)
                texts.append(f"{tool.name} {arguments} {scene.lens.render_text(outcome.payload)}")

    return texts


def questions(tool: str, lens: Lens, asked: list[int]) -> Iterator[str]:
    """Arguments of calls about the assets that are asked about."""
    handles = [lens.asset_handle(asset) for asset in asked]
    calls: dict[str, list[dict[str, Any]]] = {
        "screen_candidates": [{"factors": ["MOM_12_1", "-RV_60"], "k": 30}, {"factors": ["ILLIQ"]}],
        "get_stock_snapshot": [{"stock_id": handle, "lookback": 60} for handle in handles],
        "compare_candidates": [
            {"stock_ids": handles, "dims": ["MOM_12_1", "HIGH_52W", "return_1d_pct"]}
        ],
        "risk_check": [{"target_weights": dict.fromkeys(handles, 0.05)}],
    }

    return map(json.dumps, calls.get(tool, [{}]))


def candidates_of(name: str, market: MarketSnapshot, spec: EpisodeSpec, row: int) -> list[int]:
    """Assets in the tables of a prompt with cash alone."""
    scene = PLUGINS.make_task(name).scene(spec, market)
    first, _ = window_rows(market.days, spec.span.first, spec.span.last)
    account = Account(100_000_000, {})
    state = scene.observe(row - (first - 1), market.as_of(row), account, None).state

    return [scene.lens.parse_asset(label) for label in state.candidates]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("name", "kind"), IN_KTDFIN)
def test_two_markets_that_a_task_of_ktdfin_does_not_tell_apart(name: str, kind: str) -> None:
    task = PLUGINS.make_task(name)
    spec = FixedDraw.of(spec_of(name, task.mask, task.mode))
    first, _ = window_rows(KTDFIN.days, spec.span.first, spec.span.last)
    row = first - 1 + STEP
    held = alike_columns(KTDFIN, row)
    asked = [held[0], *candidates_of(name, KTDFIN, spec, row)]

    if task.mode == "open_research":
        asked += [20, 21]

    shown = Shown(spec, row, asked, held)
    tools = task.tools
    if kind == "others":
        tools = tuple(tool for tool in tools if tool not in WHOLE_MARKET)

    other, moved = KINDS[kind](KTDFIN, shown)
    there = Shown(moved, row, asked, held)
    texts = ktdfin_texts(name, KTDFIN, shown, tools)

    assert texts == ktdfin_texts(name, other, there, tools)
    assert len(texts) >= 4


# ---- other families


def market_texts(task: Any, market: MarketSnapshot, spec: EpisodeSpec, row: int) -> list[str]:
    """Prompts of a close with cash alone, and the first lessons of a warm-up."""
    scene = task.scene(spec, market)
    first, _ = window_rows(market.days, spec.span.first, spec.span.last)
    account = Account(task.trading.initial_cash * 100, {})
    observation = scene.observe(row - (first - 1), market.as_of(row), account, None)
    lessons = islice(scene.lessons(market.as_of(row)), LESSONS)

    return [observation.system, observation.user, *(lesson.text for lesson in lessons)]


def on_days_of(task: Any, market: MarketSnapshot, other: MarketSnapshot) -> Any:
    """The task with its warm-up on the days of another market."""
    warm_up = {}
    for window, first in (task._config.warm_up or {}).items():
        row = np.searchsorted(market.days, np.datetime64(first))
        warm_up[window] = str(other.days[row])

    return type(task)(task.name, replace(task._config, warm_up=warm_up or None))


@pytest.mark.sampled(16)
@pytest.mark.slow  # it opens each embedded market
@pytest.mark.parametrize(("name", "kind"), ELSEWHERE)
def test_two_markets_that_a_task_on_any_market_does_not_tell_apart(name: str, kind: str) -> None:
    plan = planned(name)
    spec = FixedDraw.of(plan.specs[0])
    market = plan.market
    first, _ = window_rows(market.days, spec.span.first, spec.span.last)
    row = first + 1
    scene = plan.task.scene(spec, market)
    account = Account(plan.task.trading.initial_cash * 100, {})
    state = scene.observe(2, market.as_of(row), account, None).state
    columns = [scene.lens.parse_asset(label) for label in state.candidates]

    assert columns

    other, moved = KINDS[kind](market, Shown(spec, row, columns))
    texts = market_texts(plan.task, market, spec, row)

    assert texts == market_texts(on_days_of(plan.task, market, other), other, moved, row)
    assert len(texts) == 2 + LESSONS * bool(first_day_of_warm_up(plan.task, spec.span))


@pytest.mark.parametrize(("name", "kind"), IN_PROBES)
def test_two_markets_that_a_probe_does_not_tell_apart(name: str, kind: str) -> None:
    """Which stocks and days are asked about is drawn from codes and days, by a key: a probe of the
    same stock and day is compared.
    """
    task = PLUGINS.make_task(name)
    config = task._config
    subject = PLUGINS.make_task(config.subject)
    target = TargetTask(subject, PLUGINS.tools(subject.tools))
    spec = FixedDraw.of(spec_of(name, task.mask, task.mode))
    first, _ = window_rows(KTDFIN.days, spec.span.first, spec.span.last)
    row = first - 1 + STEP
    asset, _ = alike_columns(KTDFIN, row)
    probe = Probe(asset, row, KTDFIN.boards[asset])
    other, moved = KINDS[kind](KTDFIN, Shown(spec, row, [asset]))
    texts = []

    for market, asked in ((KTDFIN, spec), (other, moved)):
        shown = view_probe(config, target, target_spec(target, asked, 0), market, probe)
        texts.append(shown.text)

    assert texts[0] == texts[1]


# ---- memory floor


@pytest.mark.parametrize(("name", "kind"), IN_MEMORY_FLOOR)
def test_two_markets_that_a_question_of_memory_does_not_tell_apart(name: str, kind: str) -> None:
    """Which facts are asked is drawn from the market, by a key: the same facts are compared. A
    control shows its answer, which is a code where the question is about codes.
    """
    task = PLUGINS.make_task(name)
    spec = FixedDraw.of(spec_of(name, task.mask, task.mode))
    asked = task.samples(spec, KTDFIN, None).questions
    compared = 0

    for question in not_empty(asked[:60]):
        fact = question.fact
        other, _ = KINDS[kind](KTDFIN, Shown(spec, fact.row, [fact.asset]))
        texts = []
        for market in (KTDFIN, other):
            writer = QuestionWriter(market, task.mask, spec.mask_seed)
            texts.append(writer.text(question, writer.lens(question)))

        assert texts[0] == texts[1], question.id
        compared += 1

    assert compared >= 30


# ---- agents


class Recorder:
    """A model of this process, and every request to it."""

    traits = ModelTraits(is_free=True)

    def __init__(self, model: Model) -> None:
        self._model = model
        self.requests: list[JsonValue] = []

    def reply(self, request: ModelRequest) -> Reply:
        messages = [message.to_json() for message in request.messages]
        tools = [(tool.name, tool.description, str(tool.parameters)) for tool in request.tools]
        self.requests.append([messages, tools])
        return self._model.reply(request)


def requests_of(agent: str, market: MarketSnapshot, steps: int = 3) -> list[JsonValue]:
    """Requests of an agent whose model holds cash in memory_only."""
    task = PLUGINS.make_task("blinded_memory_only")
    spec = replace(spec_of(task.name, task.mask, task.mode), agent=agent)
    tape = MarketTape.from_snapshot(market, task.trading)
    recorder = Recorder(PLUGINS.make_model("builtin/trivial", {}))
    made = PLUGINS.make_agent(agent, {})
    episode = TradingEpisodeRun(spec, EpisodeParts(task, (), market, tape, recorder, made))

    for step in range(steps):
        assert episode.run_step(step).step.positions == ()

    return recorder.requests


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_in_memory_only_is_sent_nothing_of_the_market(agent: str) -> None:
    spec = spec_of("blinded_memory_only", "blinded", "memory_only")
    other, _ = KINDS["prices"](KTDFIN, Shown(spec, 0, ()))
    other, _ = KINDS["index"](other, Shown(spec, 0, ()))
    requests = requests_of(agent, KTDFIN)

    assert requests == requests_of(agent, other)
    assert len(requests) >= 3
