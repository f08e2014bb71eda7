"""Listings of models, which programs ask for first. There is one model, and every name stands for
it.

Sources: `openai.types.Model`, `anthropic.types.ModelInfo`, `google.genai.types.Model`; the three
APIs' pages on listing models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ktdeval.values import JsonObject


def openai_model(name: str) -> JsonObject:
    """Return one model of `GET /v1/models`."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "ktdeval"}


def openai_models(name: str) -> JsonObject:
    """Return the answer to `GET /v1/models`."""
    return {"object": "list", "data": [openai_model(name)]}


def anthropic_model(name: str) -> JsonObject:
    """Return one model of Anthropic's `GET /v1/models`."""
    return {
        "id": name,
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
        "lifecycle": "active",
    }


def anthropic_models(name: str) -> JsonObject:
    """Return the answer to Anthropic's `GET /v1/models`, which is one page."""
    return {"data": [anthropic_model(name)], "has_more": False, "first_id": name, "last_id": name}


def gemini_model(name: str) -> JsonObject:
    """Return one model of `GET /v1beta/models`."""
    return {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }


def gemini_models(name: str) -> JsonObject:
    """Return the answer to `GET /v1beta/models`."""
    return {"models": [gemini_model(name)]}


Listing = Callable[[str], JsonObject]

LISTINGS: Mapping[str, tuple[Listing, Listing]] = {
    "openai": (openai_model, openai_models),
    "anthropic": (anthropic_model, anthropic_models),
    "gemini": (gemini_model, gemini_models),
}
"""How one model and all of them are listed, by provider."""
