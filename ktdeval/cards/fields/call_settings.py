"""Settings of model calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktdeval.cards.fields.base_types import strict_json, strict_object
from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row, clean


def gather_call(sources: CardSources) -> dict[str, Any]:
    """Return the sampling and transport parameters of calls."""
    return strict_object("call", sources.planned[0].call)


def gather_request_settings(sources: CardSources) -> dict[str, Any] | None:
    """Return how calls were put to the provider; None for a model of this machine."""
    settings: dict[str, Any] | None = strict_json("sent_as", sources.inputs.request_settings)
    return settings


def call_rows(call: Mapping[str, Any], facts: AnyFacts) -> Iterator[Row]:
    """Yield the parameters of model calls."""
    words = [f"{name} {value}" for name, value in sorted(call.items())]
    yield CALL.words["call"].label, ", ".join(words)


def unsent_rows(settings: Mapping[str, Any] | None, facts: AnyFacts) -> Iterator[Row]:
    """Yield the parameters that the provider does not take."""
    unsent: list[str] = []
    for field in ("not_sent", "omit"):
        names = (settings or {}).get(field) or ()
        unsent += [clean(str(name)) for name in names]

    if unsent:
        yield "not sent", f"{', '.join(unsent)}: the provider does not take it"


CALL = SharedField(
    "call",
    gather=gather_call,
    rows=call_rows,
    words={
        "call": FieldWords(
            "calls",
            "",
            "sampling and transport parameters of model calls; for a model with a provider also"
            " how tools were offered (`tool_protocol`)",
        )
    },
)

REQUEST_SETTINGS = SharedField(
    "request_settings",
    gather=gather_request_settings,
    rows=unsent_rows,
    words={
        "sent_as": FieldWords(
            "sent as",
            "",
            "differences of a provider's calls from `call`: fields that are not sent, how a tool"
            " is forced; null for a model of this machine",
        )
    },
)
