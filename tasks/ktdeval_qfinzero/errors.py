"""Errors of the services, with a code, a message and an argument that are the same for every
transport.
"""

from __future__ import annotations

from typing import Literal

from ktdeval.errors import KtdevalError
from ktdeval.values import JsonValue

Code = Literal[
    "invalid_argument",
    "unauthorized",
    "not_found",
    "conflict",
    "timeout",
    "too_large",
    "unavailable",
]

STATUS: dict[Code, int] = {
    "invalid_argument": 400,
    "unauthorized": 401,
    "not_found": 404,
    "timeout": 408,
    "conflict": 409,
    "too_large": 413,
    "unavailable": 503,
}  #: HTTP status for each code


class ServiceError(KtdevalError):
    """A refused call. `field` is the path of the argument concerned (`order.limit_price`), or empty
    if no argument is concerned.
    """

    def __init__(self, code: Code, message: str, field: str = "") -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.code: Code = code
        self.message = message
        self.field = field

    @property
    def status(self) -> int:
        """HTTP status for the code."""
        return STATUS[self.code]

    def to_json(self) -> dict[str, JsonValue]:
        """Return the error envelope that all services and transports use."""
        error: dict[str, JsonValue] = {"code": self.code, "message": self.message}
        return {"error": error | ({"field": self.field} if self.field else {})}


def invalid(field: str, message: str) -> ServiceError:
    """Return the error for an argument that can't be used."""
    return ServiceError("invalid_argument", message, field)


def not_found(field: str, message: str) -> ServiceError:
    """Return the error for something that does not exist, or does not exist yet as of the clock."""
    return ServiceError("not_found", message, field)


def conflict(message: str, field: str = "") -> ServiceError:
    """Return the error for a call that the present state does not allow."""
    return ServiceError("conflict", message, field)
