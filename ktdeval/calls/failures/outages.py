"""Outages: failures of a provider that no model decided, and that stop a run before a step is
recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ktdeval.calls.failures.retry import OtherServer
from ktdeval.errors import ModelError, ProviderError

OUTAGES: Mapping[str, str] = {
    "timeout": "give the server more time with --timeout-s, or repair it",
    "rate_limited": "wait, or ask less at once with --concurrency and --call-gap-s",
    "overloaded": "wait",
    "server": "wait, or repair the server",
    "connection": "check the network, and that the server runs",
}
"""Kinds of ModelError that are the provider's fault, each with what to do about it.

After the last retry, such a failure stops the run. Any other kind is a failure of the model or of
this one request: the step is a hold with provenance `error`.
"""

_BAD_RESPONSE = "check the address (--base-url), and any proxy in front of the server"
_THEN = "then run the same command again to resume"


def is_outage(error: ModelError) -> bool:
    """Return whether a failed call is the provider's fault. A web page instead of a reply is, too:
    it comes from a proxy in front of the server.
    """
    return error.kind in OUTAGES or isinstance(error, OtherServer)


def check_outage(error: ModelError, attempts: int) -> None:
    """Raise ProviderError, which stops the run, if a call failed by an outage in all attempts."""
    if not is_outage(error):
        return

    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    advice = OUTAGES.get(error.kind, _BAD_RESPONSE)
    raise ProviderError(
        f"{error} ({error.kind}, {tried}); no decision was recorded for it: {advice}, {_THEN}"
        " (--max-retries and --max-wait-s set when a call gives up)"
    ) from error


def step_stop(failures: Iterable[str]) -> ProviderError | None:
    """Return the error that stops a run because a step failed by an outage; None if it did not.

    `failures`: kinds of failures that the step counted, such as `model_server`.
    """
    for failure in sorted(failures):
        kind = failure.removeprefix("model_")
        if kind != failure and kind in OUTAGES:
            return ProviderError(
                f"a call of a step failed for good ({kind}), which no model decided; nothing was"
                f" recorded for the step: {OUTAGES[kind]}, {_THEN}"
            )

    return None
