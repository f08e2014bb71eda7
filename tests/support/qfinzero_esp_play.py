"""Calls of the event services in tests: every answer is checked against the operation's own schema and is strict JSON."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.jsonio import dumps_canonical
from ktdeval_qfinzero.catalogue import ESP as OPERATIONS
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Catalogue
from ktdeval_qfinzero.workspace import Workspace
from qfinzero_world import at, small_dataset

DATASET = small_dataset()  # immutable, as everything in it
CATALOGUE = Catalogue(OPERATIONS)
VALIDATORS = {operation.name: Draft202012Validator(operation.result) for operation in OPERATIONS}


def workspace(now: str | int = "2025-01-06T21:00:00Z", dataset: Dataset | None = None) -> Workspace:
    return Workspace(dataset or DATASET, at(now) if isinstance(now, str) else now)


def ask(where: Workspace, name: str, **arguments: Any) -> Any:
    """An answer, which follows its schema."""
    answer = CATALOGUE.call(where, name, arguments)
    VALIDATORS[name].validate(answer)
    dumps_canonical(answer)
    return answer


def refused(where: Workspace, name: str, **arguments: Any) -> ServiceError:
    """The refusal of a call."""
    with pytest.raises(ServiceError) as caught:
        CATALOGUE.call(where, name, arguments)
    return caught.value


def ids(answer: Any) -> list[str]:
    return [event["event_id"] for event in answer["events"]]


def pages(where: Workspace, name: str, **arguments: Any) -> list[Any]:
    """All answers of a paged call."""
    answers = [ask(where, name, **arguments)]
    while answers[-1]["next_cursor"] is not None:
        answers.append(ask(where, name, **arguments, cursor=answers[-1]["next_cursor"]))
    return answers
