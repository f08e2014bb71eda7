"""One call of one client: its turn in the workspace, the operation in a thread, and an answer that holds no more than it may."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType

from anyio import to_thread
from starlette.responses import Response

from ktdeval.jsonio import JsonValue
from ktdeval_qfinzero.access.workspaces import Held, Workspaces
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation

_LOG = logging.getLogger(__name__)

DEFECT: dict[str, JsonValue] = {
    "error": {"code": "internal", "message": "the service failed on this call, which is a defect of it; its log says more"}
}
"""What a client is told of an exception that nobody expected; the log has its trace."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a call.
    `status`: as of HTTP: 200, or that of the error; `payload`: what the operation gave, or the error envelope; `text`: the same as
    compact JSON.
    """

    status: int
    payload: JsonValue
    text: str

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        """Answer over HTTP."""
        return Response(self.text, self.status, {"cache-control": "no-store", **(headers or {})}, "application/json")

    @property
    def is_error(self) -> bool:
        """Whether it is an error envelope."""
        return self.status >= HTTPStatus.BAD_REQUEST


def answer_of(status: int, payload: JsonValue) -> Answer:
    """An answer with its text; raises ValueError if the payload holds NaN or infinity."""
    return Answer(status, payload, json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def error_answer(error: ServiceError) -> Answer:
    """Answer to a refused call."""
    return answer_of(error.status, error.to_json())


async def dispatch(workspaces: Workspaces, operation: Operation, workspace_id: str, given: JsonValue) -> Answer:
    """Run an operation for a client. Calls of one workspace go one after the other, those of several side by side."""
    failure = _Failure()
    with failure:
        held = workspaces.find(workspace_id)
        try:
            return await _take_turn(held, operation, given)
        finally:
            workspaces.touch(held)
    return failure.answer


class _Failure:
    """Turns what is raised inside into an answer; an exception that nobody expected into one that says nothing of it."""

    answer = answer_of(HTTPStatus.INTERNAL_SERVER_ERROR, DEFECT)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if isinstance(error, ServiceError):
            self.answer = error_answer(error)
        elif isinstance(error, Exception):
            _LOG.error("a defect of a service", exc_info=error)
        return isinstance(error, Exception)


async def _take_turn(held: Held, operation: Operation, given: JsonValue) -> Answer:
    held.check_room()
    held.waiting += 1
    try:
        async with held.turn:
            return await to_thread.run_sync(_perform, held, operation, given)
    finally:
        held.waiting -= 1


def _perform(held: Held, operation: Operation, given: JsonValue) -> Answer:
    return answer_of(HTTPStatus.OK, operation.call(held.workspace, given))
