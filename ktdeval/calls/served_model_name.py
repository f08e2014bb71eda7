"""Origin of a reply as reported by the provider: model, provider behind a gateway, fingerprint."""

from __future__ import annotations

import re

_VIA = " via "
_FINGERPRINT = " / "
_VERSION = re.compile(
    r"([-@:_](latest|preview|exp|experimental|stable|free|\d{2,8}|v\d+(:\d+)?|\d{4}-\d{2}-\d{2}|\d{2}-\d{2,4}))*"
)
"""Endings of a model's name that mark a dated version or another variant of the same weights."""
_BEDROCK = re.compile(
    r"^((us|eu|apac|jp|au|us-gov|global)\.)?"
    r"(ai21|amazon|anthropic|cohere|deepseek|google|meta|mistral|moonshot|nvidia|openai|qwen|writer)\."
)
"""Region and vendor before a model's name on Amazon Bedrock."""


def served_text(model: str, provider: str = "", fingerprint: str = "") -> str:
    """Return the origin on one line, `MODEL via PROVIDER / FINGERPRINT`; empty if unknown."""
    text = model
    if provider:
        text = f"{model or 'unnamed'}{_VIA}{provider}"

    if fingerprint:
        text = f"{text or 'unnamed'}{_FINGERPRINT}{fingerprint}"

    return text


def served_model(text: str) -> str:
    """Return the model's name from a line of `served_text`; empty if no model was named."""
    name = text.partition(_FINGERPRINT)[0].partition(_VIA)[0]
    if name == "unnamed":
        return ""
    return name


def is_other_model(asked: str, served_by: str) -> bool:
    """Return whether the provider names a model other than the one requested.

    An alias and its dated version are the same model (`gpt-4.1` and `gpt-4.1-2025-04-14`); two
    different versions are not. Capitals, a vendor before the name (`openai/`, `models/`) and a
    route after the name (`:free`) are ignored. If the provider names no model, the result is False.
    """
    served = bare_model(served_model(served_by))
    wanted = bare_model(asked)
    if not served or served == wanted:
        return False
    if served.startswith(wanted):
        return _VERSION.fullmatch(served[len(wanted) :]) is None
    if wanted.startswith(served):
        return _VERSION.fullmatch(wanted[len(served) :]) is None

    return True


def bare_model(name: str) -> str:
    """Return a model's name in lower case without the vendor. Examples are `openai/gpt-4.1`, and
    `us.anthropic.claude-sonnet-4-6`, which Amazon Bedrock serves in a region.
    """
    bare = name.strip().lower().rsplit("/", 1)[-1].replace("@", "-")
    return _BEDROCK.sub("", bare)
