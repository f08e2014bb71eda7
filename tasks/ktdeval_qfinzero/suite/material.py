"""Questions of a variant: items of our own on a dataset, or the tasks of a file. Opened once in a process, for neither changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final

import click

from ktdeval.errors import ConfigError
from ktdeval.jsonio import JsonValue, content_hash
from ktdeval_qfinzero.benchmark.generate import make_items
from ktdeval_qfinzero.benchmark.items import Call, Item
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.data.synthetic.embedded import cache_root, open_embedded
from ktdeval_qfinzero.moments import day_of
from ktdeval_qfinzero.scoring.tasks_file import read_tasks, task_to_row, tasks_of
from ktdeval_qfinzero.scoring.types import GoldTask, Suite
from ktdeval_qfinzero.suite.config import SuiteConfig
from ktdeval_qfinzero.trading_hours import trading_hours

_REACH: Final = timedelta(days=90)
_SATURDAY: Final = 5


@dataclass(frozen=True)
class Question:
    """One task, with the item that it belongs to; a file's tasks have none."""

    task: GoldTask
    item: Item | None = None


@dataclass(frozen=True)
class Material:
    """All that the samples of a config are made of.
    `questions`: in the order asked; `dataset`: what the items are about; None for the tasks of a file; `described`: hashes of it
    all, for the card; `closed_days`: weekdays without a session, around the clocks of the items.
    """

    questions: tuple[Question, ...]
    dataset: Dataset | None
    described: Mapping[str, JsonValue]
    closed_days: tuple[date, ...] = ()


def open_material(config: SuiteConfig) -> Material:
    """Questions of a config: those of its file, or else items of our own.
    Raises ConfigError if the file's tasks are of the other suite; DataError if the file can't be read; StoreError if the cache of
    the embedded dataset can't be written.
    """
    if config.tasks_file is not None:
        return file_material(config, config.tasks_file)
    dataset = embedded_dataset(config.data_seed)
    return own_material(config, dataset, embedded_items(config.data_seed, config.suite, config.items_seed))


def own_material(config: SuiteConfig, dataset: Dataset, items: Sequence[Item]) -> Material:
    """Questions that are items of our own."""
    questions = _chosen([Question(item.task, item) for item in items], config.items)
    described = {
        "dataset": {"name": dataset.info.name, "content_id": dataset.info.content_id},
        "questions": {"count": len(questions), "sha256": content_hash([_item_json(item) for item in items])},
    }
    return Material(questions, dataset, described, _closed_days(dataset, items))


def _closed_days(dataset: Dataset, items: Sequence[Item]) -> tuple[date, ...]:
    """Weekdays without a session, of the dataset's days from `_REACH` before the first clock to as long after the last one."""
    clocks = [day_of(item.as_of_ns) for item in items]
    first, last = max(dataset.info.first_day, min(clocks) - _REACH), min(dataset.info.last_day, max(clocks) + _REACH)
    days = (first + timedelta(days=number) for number in range((last - first).days + 1))
    return tuple(day for day in days if day.weekday() < _SATURDAY and trading_hours().row_of(day) is None)


def file_material(config: SuiteConfig, source: str) -> Material:
    """Questions that are tasks of a file or a dataset.
    Raises ConfigError if they are of the other suite; DataError if the source can't be read.
    """
    rows = read_tasks(source)
    tasks = tasks_of(rows)
    for task in tasks:
        if task.suite != config.suite:
            raise ConfigError(f"{source}: {task.id} is of the {task.suite} suite; use it with a task whose suite is {task.suite}")
    questions = _chosen([Question(task) for task in tasks], config.items)
    described = {
        "tasks_file": {"name": rows.name, "sha256": rows.sha256},
        "questions": {"count": len(questions), "sha256": content_hash([task_to_row(task) for task in tasks])},
    }
    return Material(questions, None, described)


def _chosen(questions: Sequence[Question], count: int | None) -> tuple[Question, ...]:
    """So many of them, evenly over all: in a file the first ones may all be of one kind."""
    total = len(questions)
    if count is None or count >= total:
        return tuple(questions)
    return tuple(questions[place * total // count] for place in range(count))


def _item_json(item: Item) -> JsonValue:
    """An item whole, so that equal hashes mean equal questions in equal situations with equal answers."""
    return {
        "task": task_to_row(item.task),
        "template": item.template,
        "as_of_ns": item.as_of_ns,
        "setup": [_call_json(call) for call in item.setup],
        "gold": [_call_json(call) for call in item.gold],
    }


def _call_json(call: Call) -> JsonValue:
    return {"tool": call.tool, "arguments": dict(call.args)}


@cache
def embedded_dataset(seed: int) -> Dataset:
    """Embedded synthetic dataset, made once and kept in the cache (`$KTDEVAL_CACHE_DIR`, or the user's cache folder)."""
    return open_embedded(cache_root(), seed, lambda message: click.echo(message, err=True))


@cache
def embedded_items(data_seed: int, suite: Suite, items_seed: int) -> tuple[Item, ...]:
    """Items of a suite on the embedded dataset."""
    return make_items(embedded_dataset(data_seed), suite, items_seed)
