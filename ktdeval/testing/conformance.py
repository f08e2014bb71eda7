"""Checks of the plugin contract. If a check fails, it raises `ConformanceError`, which is an
AssertionError that says what to change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from ktdeval.errors import ModelError, PluginError
from ktdeval.harness.chat_messages import (
    USAGE_FIELDS,
    CallParams,
    Message,
    Model,
    ModelRequest,
    Reply,
    ToolSpec,
    sound,
)
from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.market.snapshots.snapshot import BAR_FIELDS, MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.registry.plugin_boundary import check_made
from ktdeval.stats.metric import Metric, MetricValue, range_problem
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import (
    AnswerRecord,
    Sample,
    Score,
    ScoringTask,
    TargetTask,
    needs_market,
)
from ktdeval.task_api.trading_task import Task
from ktdeval.task_api.traits import task_traits
from ktdeval.testing.findings import ConformanceError
from ktdeval.testing.ledger_fixtures import sample_ledgers
from ktdeval.testing.markets import random_snapshot
from ktdeval.trading.daily_settlement import open_account
from ktdeval.trading.market_rules import MarketRules
from ktdeval.values.documents.strict_json import Schema, dumps_canonical
from ktdeval.values.documents.typed_json import encode_canonical, from_plain

T = TypeVar("T")

_KIND_OF_FAILURE = re.compile(r"[a-z_]+")
_SAMPLES = 3  # number of samples of a scoring task that are checked


def expect(holds: object, message: str) -> None:
    """Raise ConformanceError with `message` unless `holds` is true."""
    if not holds:
        raise ConformanceError(message)


def check_model(model: Model, *, deterministic: bool = True) -> None:
    """Check that a model (anything with `reply(request)`) follows the protocol, in free turns, tool
    turns and forced submissions.

    Equal requests must give equal replies, unless `deterministic` is False. Models that need no API
    key are expected to be deterministic.

    Example:
        check_model(Parrot())
    """
    for where, request in _requests():
        outcome = _reply(model, request, where)
        if deterministic:
            same = _reply(model, request, where) == outcome
            expect(
                same,
                f"{where}: equal requests gave different replies; keep no state, draw from"
                " request.chance_seed",
            )


def _requests() -> Iterable[tuple[str, ModelRequest]]:
    nothing: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
    tool = ToolSpec("get_market_context", "Indices and sector tone.", nothing)
    orders: Schema = {"type": "object", "properties": {"orders": {"type": "array"}}}
    submit = ToolSpec("submit_action", "Submit the orders of this step.", orders)
    user = Message(
        "user", 'Decide.\n```json\n{"account": {"cash_cny": 1000000, "positions": []}}\n```'
    )
    messages = (Message("system", "You manage a portfolio."), user)
    params = CallParams(seed=7)
    yield "a conversation without tools", ModelRequest(messages, params=params)
    yield "tools on offer", ModelRequest(messages, (tool,), None, params)
    yield "submission forced", ModelRequest(messages, (submit,), "submit_action", params)
    yield (
        "another seed",
        ModelRequest(messages, (tool, submit), "submit_action", replace(params, seed=8)),
    )


def _reply(model: Model, request: ModelRequest, where: str) -> Reply | str:
    try:
        reply = model.reply(request)
    except ModelError as error:
        expect(
            _KIND_OF_FAILURE.fullmatch(error.kind),
            f"{where}: ModelError.kind {error.kind!r} may have only the letters a-z and _",
        )
        return error.kind

    ids = [call.id for call in _require_accepted(f"{where}: ", sound, reply).tool_calls]
    expect(
        all(ids) and len(set(ids)) == len(ids), f"{where}: ids of tool calls are empty or repeat"
    )
    return reply


def _require_accepted(where: str, check: Callable[..., T], *args: Any) -> T:
    """Run one of the suite's own checks and return its result. Raises ConformanceError if
    it fails.
    """
    try:
        return check(*args)
    except (ModelError, PluginError) as error:
        raise ConformanceError(f"{where}{error}") from error


def check_metric(metric: Metric, snapshot: MarketSnapshot | None = None) -> None:
    """Check that a metric is documented, is a pure function, and does not return NaN for any valid
    ledger.

    Example:
        check_metric(hit_rate)
    """
    name = getattr(metric, "name", "")
    _require_accepted("", check_made, "metrics", name, metric, f"metric {name}")
    market = snapshot or random_snapshot()

    for label, ledger in sample_ledgers(market).items():
        before = encode_canonical(ledger.steps)
        for rules in ("strict", "paper"):
            value = metric.compute(ledger, market, rules)
            where = f"metric {name} on {label!r} by {rules} rules"
            expect(
                isinstance(value, MetricValue),
                f"{where}: gave {type(value).__name__}, expected ktdeval.api.MetricValue",
            )
            expect(value.n >= 0, f"{where}: n is below 0")
            expect(not (problem := range_problem(value.value, metric.range)), f"{where}: {problem}")
            _strict(value.detail, f"{where}: detail")
            expect(
                metric.compute(ledger, market, rules) == value,
                f"{where}: a second call gave another value",
            )

        expect(
            encode_canonical(ledger.steps) == before,
            f"metric {name} on {label!r}: changed the ledger",
        )


def _strict(value: Any, where: str) -> str:
    try:
        return dumps_canonical(value)
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"{where}: not strict JSON: {error}") from error


def _window(market: MarketSnapshot | None, task: Task | ScoringTask) -> EpisodeSpec:
    """Return the spec of an episode over the last five days of a market. If the market is None, the
    spec has no window.
    """
    window = None if market is None else Window("check", str(market.days[-5]), str(market.days[-1]))
    kind = (
        task.name,
        task.version,
        "",
        None if market is None else market.id,
        task.mask,
        task.mode,
        window,
    )
    return EpisodeSpec(*kind, model="check/model", model_args={}, agent="react", agent_args={})


def check_task(task: Task, snapshot: MarketSnapshot | None = None) -> None:
    """Check a task's declaration, and that the first observations of an episode are pure, masked
    and free of look-ahead.

    The window consists of the last five days of the market, which is `random_snapshot()` by
    default.

    Example:
        check_task(load_plugins().make("tasks", "market_blinded"))
    """
    market = snapshot or random_snapshot()
    _check_declaration(task)
    spec = _window(market, task)

    for step in range(3):
        row = len(market.days) - 6 + step
        where = f"task {task.name}: step {step}"
        texts = _observe(task, spec, market, row, step)
        expect(
            texts == _observe(task, spec, market, row, step),
            f"{where}: two observations of one state differ",
        )
        poisoned = _observe(task, spec, _poison_market(market, row), row, step)
        expect(texts == poisoned, f"{where}: the observation changes when later days do")
        scene = task.scene(spec, market)
        _check_scene(task, scene)
        guard = LeakGuard(scene.lens, market)

        for text in texts:
            guard.check(text)


def _check_scene(task: Task, scene: Any) -> None:
    """Check that if a scene has members that are not in its contract, the traits of its task
    declare them.
    """
    traits = task_traits(task)
    named = {
        "form": traits.submission_form,
        "lessons": traits.lessons,
        "adds_positions": traits.adds_positions,
    }
    for name, trait in named.items():
        expect(
            trait is not None or getattr(scene, name, None) is None,
            f"task {task.name}: its scene has {name!r}, which only the traits of the task can say"
            f" (ktdeval.api.TaskTraits)",
        )


def _check_declaration(task: Task) -> None:
    name = task.name
    description = _strict(dict(task.describe()), f"task {name}: describe()")
    expect(
        _strict(dict(task.describe()), name) == description,
        f"task {name}: describe() gave two different values",
    )

    for key in ("data_card", "sources"):
        expect(key in task.describe(), f"task {name}: describe() has no {key}")

    expect(task.version, f"task {name}: version is empty")
    names = set(task.windows)
    expect(
        names and set(task.default_windows) <= names,
        f"task {name}: default_windows are not among its windows",
    )

    for window in task.windows.values():
        np.datetime64(window.first, "D"), np.datetime64(window.last, "D")
        expect(
            window.first <= window.last, f"task {name}: window {window.name} ends before it begins"
        )

    expect(len(set(task.tools)) == len(task.tools), f"task {name}: names a tool twice")
    expect(
        "submit_action" not in task.tools, f"task {name}: submit_action is the harness's own tool"
    )


def _observe(
    task: Task, spec: EpisodeSpec, market: MarketSnapshot, row: int, step: int
) -> tuple[str, str]:
    account = open_account(task.trading, MarketRules.of(market, task.trading).minor_per_unit)
    observation = task.scene(spec, market).observe(step, market.as_of(row), account, None)
    expect(
        observation.step == step,
        f"task {task.name}: observation.step is {observation.step}, expected {step}",
    )

    return observation.system, observation.user


def _poison_market(market: MarketSnapshot, row: int) -> MarketSnapshot:
    """Return the market with all values after `row` replaced by garbage."""

    def garbage(array: Any) -> Any:
        changed = array.copy()
        changed[row + 1 :] = ~changed[row + 1 :] if changed.dtype == bool else 7.77
        return changed

    arrays = {name: garbage(getattr(market, name)) for name in (*BAR_FIELDS, "member")}
    return replace(
        market, indices={code: garbage(levels) for code, levels in market.indices.items()}, **arrays
    )


def check_scoring_task(
    task: ScoringTask, target_task: TargetTask | None = None, snapshot: MarketSnapshot | None = None
) -> None:
    """Check a scoring task's declaration, and that its first samples are pure and masked and have a
    form that can be answered.

    Raises ConformanceError if the task breaks its contract. Raises LeakError if a sample shows what
    its mask hides.

    Example:
        check_scoring_task(task)
    """
    name = task.name
    is_given = (task.target_task is None) == (target_task is None)
    expect(is_given, f"task {name}: give check_scoring_task the target task that the task names")
    expect(task.version and task.scores, f"task {name}: has no version, or no scores")
    expect(
        set(task.default_windows) <= set(task.windows),
        f"task {name}: default_windows names a window that it does not have",
    )
    _strict(dict(task.describe()), f"task {name}: describe()")
    empty = task.summarise([])
    expect(
        set(empty) == set(task.scores),
        f"task {name}: summarise gives other scores than those it defines",
    )

    for score in empty.values():
        has_reason = isinstance(score, Score) and (score.value is not None or score.reason)
        expect(has_reason, f"task {name}: a null score has no reason")

    market = (snapshot or random_snapshot()) if needs_market(task) else None
    spec = _window(market, task)
    first = task.samples(spec, market, target_task)
    again = task.samples(spec, market, target_task)
    expect(len(first) > 0, f"task {name}: its sample set is empty")

    for number in range(min(_SAMPLES, len(first))):
        where = f"task {name}: sample {number}"
        sample = first.sample(number)
        other = first.sample(number)
        expect(
            _sample_texts(sample) == _sample_texts(again.sample(number)),
            f"{where}: two sample sets of one spec differ",
        )
        guard = LeakGuard(sample.lens, market or NO_MARKET)

        for text in _sample_texts(sample):
            guard.check(text)

        expect(
            sample.environment is None or other.environment is not sample.environment,
            f"{where}: its environment is that of another sample; make one for each, for it"
            " remembers what was done",
        )
        _strict(dict(sample.facts), f"{where}: facts")
        _check_silence(task, sample, where)
        try:
            Draft202012Validator.check_schema(dict(sample.form.parameters))
        except SchemaError as error:
            raise ConformanceError(
                f"{where}: its form is not a JSON Schema: {error.message}"
            ) from error


def _check_silence(task: ScoringTask, sample: Sample, where: str) -> None:
    """Check that a sample without a valid answer gets the worst figure, or none, in each score."""
    counts = ("tool_calls", "tool_calls_valid", "submissions", "unmask_attempts")
    silent: dict[str, Any] = {
        "step": 0,
        "sample": sample.id,
        "provenance": "fallback",
        "answer": None,
        "facts": dict(sample.facts),
        "scores": {},
        "failures": {"no_submission": 1},
        **dict.fromkeys((*counts, *USAGE_FIELDS), 0),
    }
    record = from_plain(silent, AnswerRecord, where)
    for name, score in task.summarise([record]).items():
        worst = task.scores[name].worst
        expect(
            score.value is None or score.value == worst or not task.scores[name].better,
            f"{where}: without a valid answer {name} is {score.value}; it must be the worst"
            f" figure, {worst}, or it would pay not to answer",
        )


def _sample_texts(sample: Sample) -> tuple[str, ...]:
    """Return all texts in a sample that are sent to a model."""
    tools = (
        () if sample.environment is None else tuple(tool.spec for tool in sample.environment.tools)
    )
    descriptions = (
        dumps_canonical([spec.name, spec.description, spec.parameters])
        for spec in (sample.form, *tools)
    )
    return sample.system, sample.user, *descriptions
