"""All operations of the three services: the catalogue that every way of access is made from, and tools in the process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Protocol

from ktdeval.harness import Refusal, Tool, json_tool
from ktdeval.jsonio import JsonValue
from ktdeval.masking import Exact
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.esp.operations import OPERATIONS as ESP
from ktdeval_qfinzero.operations import Catalogue, Operation
from ktdeval_qfinzero.pmb.operations import OPERATIONS as PMB
from ktdeval_qfinzero.upq.operations import OPERATIONS as UPQ
from ktdeval_qfinzero.workspace import Workspace


class HasWorkspace(Protocol):
    """Context that a tool's function is called with."""

    @property
    def workspace(self) -> Workspace:
        """Workspace that the call acts on."""


@cache
def catalogue() -> Catalogue:
    """Operations of UPQ, ESP and PMB."""
    return Catalogue((*UPQ, *ESP, *PMB))


def service_tools(operations: Sequence[Operation] | None = None) -> tuple[Tool, ...]:
    """Each operation as a tool of a task; its context has a `workspace`. A refusal is the error envelope, counted by its code."""
    chosen = catalogue().operations if operations is None else operations
    return tuple(json_tool(each.wire_name, each.summary, each.parameters, partial(_answer, each)) for each in chosen)


def _answer(operation: Operation, context: HasWorkspace, arguments: JsonValue) -> Any:
    try:
        return Exact(operation.call(context.workspace, arguments))
    except ServiceError as error:
        return Refusal(Exact(error.to_json()), "bad_arguments" if error.code == "invalid_argument" else error.code)
