"""Models that a chat may use, and the check of a chosen model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Final

from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins
from ktdeval.runner import split_model
from ktdeval_qfinzero.errors import invalid

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9][A-Za-z0-9._:@+-]{0,127}){1,4}")
_KEY_FIELD: Final = "api_key_env"


def offered_models(plugins: Plugins, own: Sequence[str]) -> dict[str, str]:
    """Return the summary of each model that can be chosen: the server's own models with their
    parameters, then all models that read no file on the server. Provider names end in a slash.
    """
    offered = dict.fromkeys(own, "offered by this server")
    for name, spec in plugins.specs("models").items():
        if _is_remote(spec.params):
            offered[f"{name}/"] = spec.summary
        elif name.startswith("builtin/") and name != "builtin/script":
            offered[name] = spec.summary

    return offered


def check_choice(plugins: Plugins, own: Sequence[str], text: str) -> str:
    """Return a chosen model. A browser may name a model but no parameters, so it can set neither a
    file nor an address to which a key could be sent. Raises ServiceError if the model can't be
    chosen.
    """
    if text in own:
        return text
    if not _NAME.fullmatch(text):
        raise invalid("model", "expected PROVIDER/NAME, as `ktdeval list models` lists them")

    try:
        spec_name, _ = plugins.model_spec_name(text)
        spec = plugins.spec("models", spec_name)
    except KtdevalError as error:
        raise invalid("model", str(error)) from error

    if not _is_remote(spec.params) and not text.startswith("builtin/"):
        raise invalid(
            "model",
            "this model reads files of the server; start the server with --model to offer it",
        )

    name, args = split_model(text)
    try:
        plugins.make_model(name, args)
    except KtdevalError as error:
        raise invalid("model", str(error)) from error

    return text


def _is_remote(params: type | None) -> bool:
    """Return whether a model's parameters include an API key, which marks remote models."""
    if params is None or not is_dataclass(params):
        return False
    return any(field.name == _KEY_FIELD for field in fields(params))
