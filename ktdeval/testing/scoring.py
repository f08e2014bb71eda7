"""Checks of the contract of a scoring task, for its author's tests."""

from __future__ import annotations

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from ktdeval.contracts.scoring import Sample, Score, ScoringTask, TargetTask
from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.guard import LeakGuard
from ktdeval.testing.expect import ConformanceError, expect
from ktdeval.testing.markets import random_snapshot

_SAMPLES = 3


def check_scoring_task(task: ScoringTask, target_task: TargetTask | None = None, snapshot: MarketSnapshot | None = None) -> None:
    """Check a scoring task's declaration and its first samples: pure, masked, with a form that can be answered.

    Raises:
        ConformanceError: says what is broken.
        LeakError: a sample shows what its mask hides.
    """
    name = task.name
    expect(
        (task.target_task is None) == (target_task is None),
        f"task {name}: give check_scoring_task the target task that the task names",
    )
    expect(bool(task.version) and bool(task.scores), f"task {name}: has no version, or no scores")
    expect(set(task.default_windows) <= set(task.windows), f"task {name}: default_windows names a window that it does not have")
    _plain(dict(task.describe()), f"task {name}: describe()")
    expect(set(task.summarise([])) == set(task.scores), f"task {name}: summarise gives other scores than those it defines")
    for score in task.summarise([]).values():
        expect(
            isinstance(score, Score) and (score.value is not None or bool(score.reason)), f"task {name}: a null score has no reason"
        )
    market = snapshot or random_snapshot()
    window = Window("check", str(market.days[-5]), str(market.days[-1]))
    spec = EpisodeSpec(
        name, task.version, "", market.id, task.mask, task.mode, window,
        model="check/model", model_args={}, agent="react", agent_args={},
    )  # fmt: skip
    first, again = task.samples(spec, market, target_task), task.samples(spec, market, target_task)
    expect(len(first) > 0, f"task {name}: an exam without samples")
    for number in range(min(_SAMPLES, len(first))):
        where = f"task {name}: sample {number}"
        sample = first.sample(number)
        expect(_texts(sample) == _texts(again.sample(number)), f"{where}: two exams of one spec differ")
        guard = LeakGuard(sample.lens, market)
        for text in _texts(sample):
            guard.check(text)
        expect(
            sample.environment is None or first.sample(number).environment is not sample.environment,
            f"{where}: its environment is that of another sample; make one for each, for it remembers what was done",
        )
        _plain(dict(sample.facts), f"{where}: facts")
        try:
            Draft202012Validator.check_schema(dict(sample.form.parameters))
        except SchemaError as error:
            raise ConformanceError(f"{where}: its form is no JSON Schema: {error.message}") from error


def _texts(sample: Sample) -> tuple[str, ...]:
    """Return all of a sample that leaves for a model."""
    tools = () if sample.environment is None else tuple(tool.spec for tool in sample.environment.tools)
    described = (dumps_canonical([spec.name, spec.description, spec.parameters]) for spec in (sample.form, *tools))
    return sample.system, sample.user, *described


def _plain(value: JsonValue, where: str) -> None:
    try:
        loads_strict(dumps_canonical(value))
    except (TypeError, ValueError) as error:
        raise ConformanceError(f"{where}: is not strict JSON: {error}") from error
