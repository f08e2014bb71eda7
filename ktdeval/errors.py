"""Errors that ktdeval raises on purpose: one line that says what is wrong, where, and how to fix
it, and holds no secret.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType


class KtdevalError(Exception):
    """Base of all expected failures. The command line prints the message on one line and exits with
    `exit_code`.
    """

    exit_code = 2

    @property
    def line(self) -> str:
        """Its message on one line."""
        return " ".join(str(self).split())


class UsageError(KtdevalError):
    """A name, option or argument that the user gave is not usable."""


class ConfigError(KtdevalError):
    """A YAML file, task config or parameter mapping is malformed; names the file and the field."""


class DataError(KtdevalError):
    """Market data is missing, unreadable or inconsistent."""


class TooEarlyError(UsageError):
    """Data was asked for of a day that is not over yet."""


class LookAheadError(KtdevalError):
    """Code asked a market view for data after its cursor."""


class PluginError(KtdevalError):
    """A plugin is misspelled, clashes with another, or broke the plugin contract."""


class StoreError(KtdevalError):
    """A run folder can't be created, read, locked or written, or belongs to another run."""


class FencedError(StoreError):
    """Another process has taken over the work that this one was doing: it makes no further call,
    writes nothing more, and its result is dropped. Nothing failed.
    """


class CardError(KtdevalError):
    """A result card is not valid."""


class SignatureError(KtdevalError):
    """A signature or a key is absent, malformed, not trusted, or on other bytes."""

    exit_code = 1


class VerificationError(KtdevalError):
    """A card, ledger or snapshot differs from what its records give; names the first line that
    differs.
    """

    exit_code = 1


class EpisodeFailure(KtdevalError):
    """One or more episodes of a run ended without a complete ledger."""

    exit_code = 1


class LeakError(KtdevalError):
    """Text about to leave for the model holds an identity that the mask hides. The text itself is
    never quoted.
    """


class InvariantError(KtdevalError):
    """A ledger invariant is broken (cash, shares or value do not add up): a defect of the engine,
    never of the model.
    """


class RunStop(KtdevalError):
    """A run that can't continue as it is: episodes stop before the call that raised it, and what is
    finished stays resumable.
    """

    exit_code = 1


class ProviderError(RunStop):
    """A provider refuses every call like this one: key, model name, address, quota, parameter. Says
    which setting to fix.
    """

    exit_code = 2


class BudgetError(RunStop):
    """Budget reached: the next call could exceed `--max-cost`, `--max-tokens` or `--max-hours`, and
    was not made. Nothing failed, and the run resumes with a larger budget.

    `needed`: the limits that the call exceeds, by the name of their option (`max_cost` in US
    dollars, `max_tokens`), each with the least value that it would have fitted into.
    """

    exit_code = 3

    def __init__(self, message: str, needed: Mapping[str, float] = MappingProxyType({})) -> None:
        super().__init__(message)
        self.needed = dict(needed)


class ModelError(KtdevalError):
    """A model call failed. The message is one line without secrets.

    `kind`, under which it is counted, is `timeout`, `rate_limited`, `overloaded`, `server`,
    `connection`, `bad_response`, `bad_request`, `context_exceeded`, or another identifier of
    `[a-z_]+` that an adapter documents. `retry_after_s` are the seconds after which the provider
    wants to be asked again, where it said so. `may_be_billed`: the provider may have written a
    reply that never arrived whole; so it is of each `timeout` and `bad_response`.

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
    """Turn an OSError into a `kind` that says the problem, what the system says, and the advice."""
    try:
        yield
    except OSError as error:
        raise kind(f"{problem}: {error.strerror or error}{advice and f'; {advice}'}") from error
