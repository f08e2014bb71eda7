"""What one attempt is: the system that a card shows, and that a board takes one card of."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.api import JsonValue, dumps_canonical
from ktdeval_board.rules import Division

_SETTING_PREFIX = "reasoning_"


def reasoning_settings(card: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """How hard the model was asked to think: the set fields of `card.call` that begin with `reasoning_`.

    A field that is null is left to the provider, as one that is not there.
    """
    call: Mapping[str, JsonValue] = card["call"]
    return {name: value for name, value in sorted(call.items()) if name.startswith(_SETTING_PREFIX) and value is not None}


def identity(card: Mapping[str, JsonValue], division: Division) -> tuple[str, ...]:
    """What a second card must not share with a first one: division, model, reasoning settings and agent.

    Arguments of model and agent, temperature and limits of a call make no other system: with them one could try until luck helps.

    Args:
        card: a valid card.
        division: the division that it belongs to.
    """
    return division.id, str(card["model"]["name"]), dumps_canonical(reasoning_settings(card)), str(card["agent"]["name"])


def identity_words(card: Mapping[str, JsonValue]) -> str:
    """The system in words, without its division: `openai/gpt-4.1 with agent react (reasoning_effort high)`."""
    settings = ", ".join(f"{name} {value}" for name, value in reasoning_settings(card).items())
    return f"{card['model']['name']} with agent {card['agent']['name']}" + (f" ({settings})" if settings else "")
