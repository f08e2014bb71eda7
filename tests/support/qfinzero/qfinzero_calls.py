"""Calls of the services in tests: every answer follows its operation's schema, tells the clock and
is strict JSON.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.timestamps import moment_text
from support.qfinzero.qfinzero_world import at, small_dataset

DATASET = small_dataset()  # immutable, as everything in it


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(dict(catalogue().find(name).result))


def workspace(now: str | int = "2025-01-06T21:00:00Z", dataset: Dataset | None = None) -> Workspace:
    return Workspace(dataset or DATASET, at(now) if isinstance(now, str) else now)


def copied(source: Workspace) -> Workspace:
    """A workspace in the same state, which changes without the other. What nobody changes is
    shared: data, bars, and what stands in the log already.
    """
    engine = source.broker.engine
    shared: list[object] = [source.dataset, engine.reference, engine.feed, engine.frame]
    shared += [*engine.log.entries, *engine.state.trades, *engine.state.cash_entries]
    return copy.deepcopy(source, {id(each): each for each in shared})


def ask(where: Workspace, name: str, **arguments: Any) -> Any:
    """A valid answer. Of a long list of prices the ends are looked at: its rows are made of
    columns, one as the other.
    """
    answer: Any = catalogue().call(where, name, arguments)
    shown = answer

    if name.startswith("UPQ."):
        lists = {
            of: rows for of, rows in answer.items() if isinstance(rows, list) and len(rows) > 20
        }
        shown = answer | {of: [*rows[:10], *rows[-10:]] for of, rows in lists.items()}

    validator(name).validate(shown)
    dumps_canonical(shown)

    assert answer["as_of_ts"] == moment_text(where.clock.as_of_ns)

    return answer


def refused(call: Callable[..., Any], *arguments: Any, **named: Any) -> ServiceError:
    """The refusal of a call."""
    with pytest.raises(ServiceError) as caught:
        call(*arguments, **named)

    return caught.value


def pages(where: Workspace, name: str, **arguments: Any) -> list[Any]:
    """All answers of a paged call; no cursor leads to itself."""
    answers = [ask(where, name, **arguments)]
    cursor = ""

    while answers[-1]["next_cursor"] is not None:
        assert answers[-1]["next_cursor"] != cursor
        cursor = answers[-1]["next_cursor"]
        answers.append(ask(where, name, **arguments, cursor=cursor))

    return answers


def ids(answer: Any) -> list[str]:
    return [event["event_id"] for event in answer["events"]]
