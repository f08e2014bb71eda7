"""Questions of a variant and of one episode: their prompts, the environments before an answer, and
the scores of answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Final

import click

from ktdeval.errors import ConfigError, DataError
from ktdeval.masking import UNMASKED
from ktdeval.task_api import Sample
from ktdeval.values import JsonValue, content_hash, to_plain, user_path
from ktdeval_qfinzero.benchmark.item_generation import make_items
from ktdeval_qfinzero.benchmark.items import (
    BenchmarkItem,
    EndState,
    ItemCall,
    end_state,
    open_workspace,
    refusal_of,
    run_calls,
)
from ktdeval_qfinzero.benchmark.reworded import (
    describe_wordings as described_wordings,
    load_wordings,
    reword_items,
)
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.synthetic.cached_dataset import cache_root, open_embedded
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.scoring.sample_files import source_name
from ktdeval_qfinzero.scoring.tasks_file import read_tasks, task_to_row, tasks_of
from ktdeval_qfinzero.scoring.types import GoldTask, Suite
from ktdeval_qfinzero.suite.config import SuiteConfig
from ktdeval_qfinzero.suite.environment import (
    DryEnvironment,
    LiveEnvironment,
    TextEnvironment,
    answer_form,
    make_again,
    recording_tools,
)
from ktdeval_qfinzero.suite.grading import (
    DIFFERS,
    Answer,
    ExpectedCalls,
    Facts,
    differing_parts,
    grade_answer,
    nothing_earned,
)
from ktdeval_qfinzero.suite.prompt_texts import (
    PUBLIC_IDS,
    Situation,
    listed_since,
    public_system_text,
    public_user_text,
    situation_of,
    system_text,
    user_text,
)
from ktdeval_qfinzero.timestamps import day_of, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

_REACH: Final = timedelta(days=90)
_SATURDAY: Final = 5
_TOOL_USE: Final = "make the calls that carry out the instruction"


@dataclass(frozen=True)
class SuiteQuestion:
    """One task with its item; tasks from a file have no item."""

    task: GoldTask
    item: BenchmarkItem | None = None


@dataclass(frozen=True)
class SampleMaterial:
    """Everything from which a config's samples are made."""

    questions: tuple[SuiteQuestion, ...]  # in the order in which they are asked
    dataset: Dataset | None  # dataset of the items; None for tasks from a file
    described: Mapping[str, JsonValue]  # hashes of everything, for the card
    closed_days: tuple[date, ...] = ()  # weekdays without a session, around the clocks of the items
    first: DatasetView | None = None  # dataset as of the first clock of the items


def open_material(config: SuiteConfig) -> SampleMaterial:
    """Return the questions of a config, either from its file or ktdeval's own items. Raises
    ConfigError if the file's tasks belong to the other suite; DataError if the file can't be read;
    StoreError if the cache of the embedded dataset can't be written.
    """
    if config.tasks_file is not None:
        return file_material(config, config.tasks_file)
    dataset = embedded_dataset(config.data_seed)
    items = embedded_items(config.data_seed, config.suite, config.items_seed)
    if config.wordings is None:
        return own_material(config, dataset, items)

    name = source_name(config.wordings)
    wordings, sha256 = load_wordings(user_path(config.wordings), name)
    material = own_material(config, dataset, reword_items(items, wordings, config.suite, name))
    described = {**material.described, "wordings": described_wordings(wordings, name, sha256)}
    return replace(material, described=described)


def own_material(
    config: SuiteConfig, dataset: Dataset, items: Sequence[BenchmarkItem]
) -> SampleMaterial:
    """Return the questions for ktdeval's own items."""
    questions = _evenly_chosen([SuiteQuestion(item.task, item) for item in items], config.items)
    described: dict[str, JsonValue] = {
        "dataset": {"name": dataset.info.name, "content_id": dataset.info.content_id},
        "questions": {
            "count": len(questions),
            "sha256": content_hash([_item_json(item) for item in items]),
        },
    }
    first = DatasetView(dataset, min(item.as_of_ns for item in items))
    return SampleMaterial(questions, dataset, described, _closed_days(dataset, items), first)


def _closed_days(dataset: Dataset, items: Sequence[BenchmarkItem]) -> tuple[date, ...]:
    """Return the weekdays without a session, among the dataset's days within `_REACH` of the first
    and last clock.
    """
    clocks = [day_of(item.as_of_ns) for item in items]
    first = max(dataset.info.first_day, min(clocks) - _REACH)
    last = min(dataset.info.last_day, max(clocks) + _REACH)
    hours = trading_hours()
    closed: list[date] = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        if day.weekday() < _SATURDAY and hours.row_of(day) is None:
            closed.append(day)

    return tuple(closed)


def file_material(config: SuiteConfig, source: str) -> SampleMaterial:
    """Return the questions for the tasks in a file or a dataset. Raises ConfigError if they belong
    to the other suite; DataError if the source can't be read.
    """
    rows = read_tasks(source)
    tasks = tasks_of(rows)
    for task in tasks:
        if task.suite != config.suite:
            raise ConfigError(
                f"{source}: {task.id} is of the {task.suite} suite; use it with a task whose suite"
                f" is {task.suite}"
            )

    questions = _evenly_chosen([SuiteQuestion(task) for task in tasks], config.items)
    described: dict[str, JsonValue] = {
        "tasks_file": {"name": rows.name, "sha256": rows.sha256},
        "questions": {
            "count": len(questions),
            "sha256": content_hash([task_to_row(task) for task in tasks]),
        },
    }
    return SampleMaterial(questions, None, described)


def _evenly_chosen(
    questions: Sequence[SuiteQuestion], count: int | None
) -> tuple[SuiteQuestion, ...]:
    """Return `count` questions spread evenly over all questions, since the first ones in a file may
    all be of one kind.
    """
    total = len(questions)
    if count is None or count >= total:
        return tuple(questions)
    return tuple(questions[index * total // count] for index in range(count))


def _item_json(item: BenchmarkItem) -> JsonValue:
    """Return a complete item as JSON, so that equal hashes mean equal questions in equal situations
    with equal answers.
    """
    return {
        "task": task_to_row(item.task),
        "template": item.template,
        "as_of_ns": item.as_of_ns,
        "setup": _calls_json(item.setup),
        "gold": _calls_json(item.gold),
    }


def _calls_json(calls: Sequence[ItemCall]) -> list[JsonValue]:
    return [{"tool": call.tool, "arguments": dict(call.args)} for call in calls]


@cache
def embedded_dataset(seed: int) -> Dataset:
    """Return the embedded synthetic dataset, which is made once and kept in the cache
    (`$KTDEVAL_CACHE_DIR`, or the user's cache folder).
    """
    return open_embedded(cache_root(), seed, lambda message: click.echo(message, err=True))


@cache
def embedded_items(data_seed: int, suite: Suite, items_seed: int) -> tuple[BenchmarkItem, ...]:
    """Return the items of a suite on the embedded dataset."""
    return make_items(embedded_dataset(data_seed), suite, items_seed)


@dataclass(frozen=True, slots=True)
class _SituatedQuestion:
    """A question's clock (None for a task from a file) and, for live items, the initial state and
    the state after the gold calls.
    """

    clock_ns: int | None
    start: EndState | None = None
    gold: EndState | None = None


class SuiteSamples:
    """Questions of a material, in its order and the same for every seed."""

    def __init__(self, config: SuiteConfig, material: SampleMaterial) -> None:
        self._config = config
        self._material = material
        self._system = _system_of(config, material)
        # Only for this sample set's items, and cached for the lifetime of the set.
        self._situated = cache(self._situate)
        self._facts = cache(self._facts_of)

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self._material.questions)

    def sample(self, number: int) -> Sample:
        """Return one question with its own environment. Raises DataError if an item's situation
        can't be created, which is a defect of the item.
        """
        question = self._question(number)
        return Sample(
            question.task.id,
            UNMASKED,
            self._system,
            self._user(number),
            answer_form(self._config.calls),
            self._facts(number),
            self._environment(number),
            tool_use=_TOOL_USE,
        )

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Grade an answer (`grading.AnswerGrades`); for live items, also grade the state that the
        calls leave. Raises InvariantError if the recorded calls, when replayed, leave a state other
        than the recorded one.
        """
        question = self._question(number)
        recorded = Answer.of(answer, question.task.id)
        scores = grade_answer(self._config.rules, _expectation(question), recorded)
        if not self._config.is_live:
            return scores

        workspace = self._open(number)
        where = f"item {question.task.id}"
        make_again(workspace, recorded.calls, recorded.end_state, where)
        gold = self._situated(number).gold
        assert gold is not None  # only for live items
        differing = differing_parts(end_state(workspace, whole=True), gold)
        parts = {f"{DIFFERS}{part}": True for part in differing}
        return {**scores, "end_state_match": not differing, **parts}

    # --- one question

    def _question(self, number: int) -> SuiteQuestion:
        return self._material.questions[number]

    def _environment(self, number: int) -> DryEnvironment:
        if self._config.calls == "text":
            return TextEnvironment()
        if not self._config.is_live:
            return DryEnvironment(recording_tools(False))
        return LiveEnvironment(lambda: self._open(number), self._config.max_answer_chars)

    def _open(self, number: int) -> Workspace:
        item = self._question(number).item
        dataset = self._material.dataset
        if item is None or dataset is None:  # the config allows only ktdeval's own items to be live
            raise DataError(f"{self._question(number).task.id}: a task of a file has no situation")
        return open_workspace(item, dataset)

    def _user(self, number: int) -> str:
        question = self._question(number)
        instruction = question.task.instruction
        clock_ns = self._situated(number).clock_ns
        first = self._material.first
        if clock_ns is None or first is None:
            return public_user_text(instruction)

        listed = listed_since(first, DatasetView(first.dataset, clock_ns))
        return user_text(instruction, _situation(question), clock_ns, listed)

    def _situate(self, number: int) -> _SituatedQuestion:
        """Open a question's situation, whose setup may move the clock. If the question is live,
        also make the expected calls. Raises DataError if an expected call is refused, which is a
        defect of the item.
        """
        item = self._question(number).item
        if item is None or not (item.setup or self._config.is_live):
            return _SituatedQuestion(None if item is None else item.as_of_ns)

        workspace = self._open(number)
        clock_ns = workspace.clock.as_of_ns
        if not self._config.is_live:
            return _SituatedQuestion(clock_ns)

        start = end_state(workspace, whole=True)
        for call, answer in zip(item.gold, run_calls(workspace, item.gold), strict=True):
            problem = refusal_of(answer)
            if problem:
                raise DataError(
                    f"{item.task.id} ({item.template}): expected call: {call.tool}: {problem}"
                )

        return _SituatedQuestion(clock_ns, start, end_state(workspace, whole=True))

    def _facts_of(self, number: int) -> dict[str, JsonValue]:
        """Return the expected calls and strata of a question, and the scores of an answer without
        calls (`empty`).
        """
        question = self._question(number)
        task = question.task
        situated = self._situated(number)
        clock_ns, start, gold = situated.clock_ns, situated.start, situated.gold
        changes: bool | None = None
        unchanged: float | None = None
        if start is not None and gold is not None:
            changes = bool(differing_parts(start, gold))
            unchanged = float(not changes)

        facts = Facts(
            task=task_to_row(task),
            category=task.category,
            difficulty=task.difficulty,
            template=None if question.item is None else question.item.template,
            refusal=task.refuse,
            as_of=None if clock_ns is None else moment_text(clock_ns),
            empty=nothing_earned(self._config.rules, _expectation(question), unchanged),
            changes_state=changes,
        )
        plain = to_plain(facts)
        assert isinstance(plain, dict)

        return plain


def _system_of(config: SuiteConfig, material: SampleMaterial) -> str:
    if material.first is None:
        return public_system_text(config)
    return system_text(config, material.first, material.closed_days)


def _situation(question: SuiteQuestion) -> Situation:
    return Situation(PUBLIC_IDS) if question.item is None else situation_of(question.item)


def _expectation(question: SuiteQuestion) -> ExpectedCalls:
    return ExpectedCalls(question.task, _situation(question).ids, question.item is not None)
