"""Forward tests: agents decide on days yet to come, and a hash chain proves it afterwards."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_cards() -> list[Spec]:
    """Return the card kind for forward tests."""
    summary = "One entrant's forward test on one market, up to now."
    return [Spec("live", later("ktdeval_live.results.card_kind:LIVE"), summary)]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command group."""
    summary = (
        "Run forward tests that can be proved afterwards: init, step, settle, verify, publish."
    )
    return [Spec("live", later("ktdeval_live.commands:live"), summary, groups=("evaluate",))]
