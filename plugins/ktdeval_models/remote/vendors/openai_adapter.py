"""Common parts of OpenAI's two APIs: headers, fields that a user may set, and token counts."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from types import ModuleType
from typing import Any

from ktdeval.calls import bare_model
from ktdeval.errors import ConfigError
from ktdeval.harness import CallParams, Usage
from ktdeval.values import JsonValue, near_matches
from ktdeval_models.remote import base
from ktdeval_models.remote.base import RemoteAdapter, count
from ktdeval_models.remote.batch.openai import OpenAIBatches
from ktdeval_models.remote.params import RemoteParams
from ktdeval_models.remote.wire_words import by_word, wire_words

_ACCOUNT = ("OpenAI-Organization", "OpenAI-Project")
_WITHOUT_TEMPERATURE = re.compile(wire_words("openai")["without_temperature"])
_NOT_TO_ADD = by_word(wire_words("openai")["not_to_add"])


class OpenAIAdapter(RemoteAdapter):
    """Common parts of OpenAI's two APIs."""

    package = "openai"
    extra = "openai"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.provider == "openai":
            self._batches = OpenAIBatches(self)

        is_reasoner = _WITHOUT_TEMPERATURE.fullmatch(bare_model(self.name)) is not None
        self._takes_temperature = not is_reasoner

    def limits(self, params: CallParams, length: str) -> dict[str, Any]:
        """Return the fields for the temperature and for the maximum length of a reply, without
        those that are left to the provider or that the model is known to refuse. `length`: name of
        the latter.
        """
        fields: dict[str, Any] = {}
        if params.temperature is not None and self._takes_temperature:
            fields["temperature"] = params.temperature
        if params.max_output_tokens is not None:
            fields[length] = params.max_output_tokens
        return fields

    def not_sent(self) -> dict[str, JsonValue]:
        """Return the setting that names what the model is known to refuse; empty for most models."""
        if self._takes_temperature or "temperature" in self.params.omit:
            return {}
        return {"not_sent": ["temperature"]}

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers. For other servers, omit the organisation, project and headers
        that the environment sets.
        """
        own: dict[str, Any] = {}
        if self.provider != "openai":
            own |= dict.fromkeys(_ACCOUNT, sdk.Omit())
            lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
            for line in lines:
                name, colon, _ = line.partition(":")
                name = name.strip()
                if colon and name.lower() != "authorization":
                    own[name] = sdk.Omit()

        key = key or "none"  # the SDK requires a key; servers without keys ignore it
        own["Authorization"] = f"Bearer {key}"
        return self.client_headers(sdk, sdk.OpenAI, api_key=key, default_headers=own)

    def check_fields(self, params: RemoteParams, optional: Collection[str | None]) -> None:
        """Raise ConfigError if the user adds a reserved field to requests, or omits a field that is
        not in `optional`.
        """
        for name in params.extra_body:
            if name in _NOT_TO_ADD:
                raise ConfigError(f"extra_body can't hold {name!r}: {_NOT_TO_ADD[name]}")

        omittable = sorted({*filter(None, optional), *params.extra_body})
        for name in params.omit:
            if name not in omittable:
                hint = near_matches(name, omittable) or f"; it takes {', '.join(omittable)}"
                raise ConfigError(f"omit can't name {name!r}{hint}")


def token_usage(usage: Mapping[str, Any], whole: tuple[str, str], *elsewhere: str) -> Usage:
    """Return the token counts of a reply from either API.

    `whole`: names of the input and output counts. `elsewhere`: where to find the number of tokens
    read from a cache, if the input details don't contain it.
    """
    into, out = whole
    read = count(usage, f"{into}_details", "cached_tokens")
    for name in elsewhere:
        read = read or count(usage, name)

    reasoning = count(usage, f"{out}_details", "reasoning_tokens")
    write = count(usage, f"{into}_details", "cache_write_tokens")
    total = count(usage, "total_tokens")
    output = count(usage, out, missing=0 if total else base.NO_COUNT)

    return base.whole_usage(total, Usage(count(usage, into), output, reasoning, read, write))
