"""Reasons for which the bridge refuses a request, independent of the providers' error formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.errors import (
    BudgetError,
    KtdevalError,
    LeakError,
    ModelError,
    ProviderError,
)

RefusalKind = Literal[
    "bad_request",
    "unsupported",
    "unauthorized",
    "not_found",
    "too_large",
    "context_exceeded",
    "leak_stopped",
    "budget_spent",
    "rate_limited",
    "overloaded",
    "timeout",
    "forbidden",
    "failed",
]
"""Kinds of refusals. `forbidden`: the run's provider refuses every call; `failed`: the call to the
provider failed for any other reason.
"""

MAX_SHOWN = 400  #: maximum characters of a message

_OF_MODEL_ERROR: dict[str, RefusalKind] = {
    "timeout": "timeout",
    "rate_limited": "rate_limited",
    "overloaded": "overloaded",
    "bad_request": "bad_request",
    "context_exceeded": "context_exceeded",
}


@dataclass(frozen=True, slots=True)
class WireRefusal:
    """One refusal: its kind, the reason in one line, and the field at fault, such as
    `messages[0].content`; empty if no field is at fault.
    """

    kind: RefusalKind
    message: str
    field: str = ""


class WireError(KtdevalError):
    """The bridge can't carry a program's request."""

    def __init__(self, kind: RefusalKind, message: str, field: str = "") -> None:
        message = one_line(message)
        super().__init__(message)
        self.refusal = WireRefusal(kind, message, one_line(field))


def one_line(text: str) -> str:
    """Return a text from or about a program as one printable line."""
    words = " ".join(text[: 4 * MAX_SHOWN].split())
    return "".join(sign if sign.isprintable() else "?" for sign in words)[:MAX_SHOWN]


def refusal_of(error: KtdevalError) -> WireRefusal:
    """Return the refusal for an error of the bridge, or of the run's model call."""
    if isinstance(error, WireError):
        return error.refusal

    message = one_line(str(error))
    kind: RefusalKind = "failed"
    if isinstance(error, BudgetError):
        kind = "budget_spent"
    elif isinstance(error, LeakError):
        kind = "leak_stopped"
    elif isinstance(error, ProviderError):
        kind = "forbidden"
    elif isinstance(error, ModelError):
        kind = _OF_MODEL_ERROR.get(error.kind, "failed")

    return WireRefusal(kind, message)
