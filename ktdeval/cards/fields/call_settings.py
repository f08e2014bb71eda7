"""Settings of model calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval.cards.fields.base_types import strict_json, strict_object
from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.table_types import Row, clean


def gather_call(sources: CardSources) -> dict[str, Any]:
    """Return the sampling and transport parameters of calls."""
    return strict_object("call", sources.planned[0].call)


def gather_request_settings(sources: CardSources) -> dict[str, Any] | None:
    """Return how calls were put to the provider; None for a model of this machine."""
    settings: dict[str, Any] | None = strict_json("sent_as", sources.inputs.request_settings)
    return settings


def call_text(call: Mapping[str, Any], facts: AnyFacts) -> str:
    """Return the parameters of model calls."""
    return ", ".join(f"{name} {value}" for name, value in sorted(call.items()))


def unsent_rows(settings: Mapping[str, Any] | None, facts: AnyFacts) -> Iterator[Row]:
    """Yield the parameters that the provider does not take."""
    unsent: list[str] = []
    for field in ("not_sent", "omit"):
        names = (settings or {}).get(field) or ()
        unsent += [clean(str(name)) for name in names]

    if unsent:
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"
