"""The context length that a server reports for a model. The request for it is free."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ktdeval.calls import Context

Get = Callable[[str], Any]
"""Returns the JSON at a path below the server's root, or at the API's `/models`, or None."""

MODELS = "/models"

# Fields of a `/models` entry; the context length with which the server runs the model comes first.
# The order is vLLM and SGLang; LM Studio; OpenRouter and Together; Groq; Mistral. The length limits
# prompt and reply together.
_FIELDS = (
    "max_model_len",
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_context_length",
)


def served_context(get: Get, name: str) -> Context | None:
    """Return the context length of the model `name`, or None if its server does not report it."""
    entry = _model_entry(get(MODELS), name)
    if _is_of_llama_cpp(entry):
        return _of_llama_cpp(get("/props"), entry)

    # OpenRouter reports the context length of the provider that it tries first.
    tokens = _first(_mapping_or_empty(entry.get("top_provider")), _FIELDS)
    if tokens is None:
        tokens = _first(entry, _FIELDS)

    if tokens is not None:
        return Context(tokens, "(its server's list of models)")
    return _outside_the_list(get, name)


def is_llama_cpp(get: Get, name: str) -> bool:
    """Return whether the server of the model `name` is llama.cpp's own."""
    return _is_of_llama_cpp(_model_entry(get(MODELS), name))


def _is_of_llama_cpp(entry: Mapping[str, Any]) -> bool:
    return entry.get("owned_by") == "llamacpp" or "meta" in entry


def _outside_the_list(get: Get, name: str) -> Context | None:
    """Return the context length that servers report outside the usual list of models."""
    context = _of_ollama(get("/api/ps"), name)
    if context is not None:
        return context

    loaded = _model_entry(get("/api/v0/models"), name)
    tokens = _first(loaded, _FIELDS)
    if tokens is not None:
        return Context(tokens, "(LM Studio's list of models)")

    # text-generation-inference
    tokens = _first(_mapping_or_empty(get("/info")), ("max_total_tokens",))
    if tokens is not None:
        return Context(tokens, "(its server's /info)")

    return None


def _model_entry(models: Any, name: str) -> Mapping[str, Any]:
    """Return the model's entry in a list of models: the entry with the model's name, or the only
    entry.
    """
    entries = list(_items(models, "data"))
    named = [entry for entry in entries if entry.get("id") == name]
    if named:
        return named[0]
    return entries[0] if len(entries) == 1 else {}


def _of_llama_cpp(props: Any, entry: Mapping[str, Any]) -> Context | None:
    """Return the context length of a server slot. If the slot reports none, return the length in
    the model's entry, which may be the context length in training. The length limits the prompt; a
    reply uses the rest.
    """
    settings = _mapping_or_empty(_mapping_or_empty(props).get("default_generation_settings"))
    tokens = _first(settings, ("n_ctx",))
    if tokens is not None:
        return Context(tokens, "(n_ctx of its server's /props)", holds_reply=False)

    tokens = _first(_mapping_or_empty(entry.get("meta")), ("n_ctx", "n_ctx_train"))
    if tokens is not None:
        return Context(tokens, "(its server's list of models)", holds_reply=False)

    return None


def _of_ollama(running: Any, name: str) -> Context | None:
    """Return the context length with which Ollama loaded a model. Ollama silently truncates longer
    prompts.
    """
    for entry in _items(running, "models"):
        names = {str(entry.get(field)).removesuffix(":latest") for field in ("name", "model")}
        tokens = _first(entry, ("context_length",))
        if name.removesuffix(":latest") in names and tokens is not None:
            return Context(tokens, "(its server's /api/ps)", holds_reply=False, cuts_prompts=True)

    return None


def _items(answer: Any, field: str) -> Iterator[Mapping[str, Any]]:
    """Yield the objects in a list of an answer."""
    found = _mapping_or_empty(answer).get(field)
    if not isinstance(found, list):
        return

    for entry in found:
        if isinstance(entry, Mapping):
            yield entry


def _mapping_or_empty(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty object, since servers may send
    anything.
    """
    if isinstance(value, Mapping):
        return value
    return {}


def _first(entry: Mapping[str, Any], fields: tuple[str, ...]) -> int | None:
    for field in fields:
        value = entry.get(field)
        if type(value) is int and value > 0:
            return value
    return None
