"""Errors that ktdeval raises on purpose. Each is one line that says what is wrong, where, and how
to fix it, and contains no secret.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

#: what to do where no file can be opened, whichever it is, by code of the error
_ADVICE_ON_OPEN_FILES = MappingProxyType(
    {
        errno.EMFILE: "raise the limit of this process, such as with `ulimit -n 4096`",
        errno.ENFILE: "end other programs, or raise the machine's limit",
    }
)


class KtdevalError(Exception):
    """Base class of all expected failures. The command line prints the message on one line and
    exits with `exit_code`.
    """

    exit_code = 2

    @property
    def line(self) -> str:
        """The message on one line."""
        return " ".join(str(self).split())


class UsageError(KtdevalError):
    """A name, option or argument given by the user is not usable."""


class ConfigError(KtdevalError):
    """A YAML file, task config or parameter mapping is malformed; the message gives the file and
    field.
    """


class DataError(KtdevalError):
    """Market data is missing, unreadable or inconsistent."""


class TooEarlyError(UsageError):
    """Data was requested for a day that is not over yet."""


class LookAheadError(KtdevalError):
    """Code asked a market view for data from after its cursor."""


class PluginError(KtdevalError):
    """A plugin is misspelled, conflicts with another, or broke the plugin contract."""


class StoreError(KtdevalError):
    """A run folder can't be created, read, locked or written, or belongs to another run."""


class FencedError(StoreError):
    """Another process has taken over this process's work, so this process makes no more calls,
    writes nothing more, and its result is dropped. Nothing failed.
    """


class CardError(KtdevalError):
    """A result card is not valid."""


class SignatureError(KtdevalError):
    """A signature or key is missing, malformed, untrusted, or was made for different bytes."""

    exit_code = 1


class VerificationError(KtdevalError):
    """A card, ledger or snapshot differs from what its records yield; the message gives the first
    line that differs.
    """

    exit_code = 1


class EpisodeFailure(KtdevalError):
    """One or more episodes of a run ended without a complete ledger."""

    exit_code = 1


class LeakError(KtdevalError):
    """Text about to be sent to the model contains an identity that the mask hides. The text itself
    is never quoted.
    """


class InvariantError(KtdevalError):
    """A ledger invariant is broken (cash, shares or value do not add up): a bug in the engine,
    never the model's fault.
    """


class RunStop(KtdevalError):
    """The run can't continue as it is: episodes stop before the call that raised this, and finished
    work stays resumable.
    """

    exit_code = 1


class ProviderError(RunStop):
    """The provider would refuse every call like this one because of the key, model name, address,
    quota or a parameter. The message says which setting to fix.
    """

    exit_code = 2


class BudgetError(RunStop):
    """Budget reached: the next call could exceed `--max-cost`, `--max-tokens` or `--max-hours`, and
    was not made. Nothing failed, and the run can be resumed with a larger budget.

    `needed`: the limits that the call would exceed, by option name (`max_cost` in US dollars,
    `max_tokens`), each with the smallest value that would have allowed the call.
    """

    exit_code = 3

    def __init__(self, message: str, needed: Mapping[str, float] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.needed = dict(needed)


class ModelError(KtdevalError):
    """A model call failed. The message is one line and contains no secrets.

    `kind`, under which the failure is counted, is `timeout`, `rate_limited`, `overloaded`,
    `server`, `connection`, `bad_response`, `bad_request`, `context_exceeded`, or another identifier
    matching `[a-z_]+` that an adapter documents. `retry_after_s` is how many seconds the provider
    asked to wait before a retry, if it said so. `may_be_billed`: the provider may have generated a
    reply that never arrived in full, as with every `timeout` and `bad_response`.

    Example:
        ModelError("rate_limited", "HTTP 429", retry_after_s=2.0).kind  # rate_limited
    """

    def __init__(
        self,
        kind: str,
        message: str,
        retry_after_s: float | None = None,
        may_be_billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.may_be_billed = may_be_billed or kind in ("timeout", "bad_response")


@contextmanager
def wrap_os_error(
    problem: str, advice: str = "", kind: type[KtdevalError] = StoreError
) -> Iterator[None]:
    """Turn an OSError into a `kind` error with the problem, the system's message and the advice."""
    try:
        yield
    except OSError as error:
        raise kind(f"{problem}: {os_reason(error, advice)}") from error


def os_reason(error: Exception, advice: str = "") -> str:
    """Return the system's message of an error, usually an OSError, and after a semicolon what to do
    about it: `advice`, unless the error is one of too many open files.
    """
    reason = str(getattr(error, "strerror", None) or error)
    advice = os_advice(error, advice)
    if advice:
        reason += f"; {advice}"
    return reason


def os_advice(error: Exception, advice: str) -> str:
    """Return what to do about an error: `advice`, unless the error is one of too many open files."""
    return _ADVICE_ON_OPEN_FILES.get(getattr(error, "errno", None) or 0, advice)
