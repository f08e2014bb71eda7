"""Settings that an agent's own program sends with a request. They replace the run's settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from ktdeval.harness.call_params import CallParams
from ktdeval.values.documents.strict_json import JsonObject, JsonValue, dumps_canonical
from ktdeval.values.documents.typed_json import Value

APPLIED = "own settings: "
NOT_APPLIED = "own settings not applied: "
"""Prefixes of a reply's notes on settings of the agent's program: settings that its model got, and
settings that it could not get.
"""
_BETWEEN = "; "
_LONGEST_VALUE = 60
_LONGEST_TEXT = 20


class OwnSettings(Value, frozen=True):
    """Settings of one request, as the agent's program sent them to its provider's API."""

    #: API that the fields belong to: `messages`, `responses`, `chat_completions` or
    #: `generate_content`
    api: str
    fields: JsonObject  #: fields by their path in the request, unchanged
    #: settings that every API has, by the name in `CallParams`; null removes the run's setting
    params: JsonObject = msgspec.field(default_factory=dict)
    #: path of each of `params` that has one
    paths: dict[str, str] = msgspec.field(default_factory=dict)
    #: further settings that no model receives
    withheld: JsonObject = msgspec.field(default_factory=dict)

    def applied_to(self, params: CallParams) -> CallParams:
        """Return call parameters in which these settings replace the run's."""
        own: dict[str, Any] = dict(self.params)
        return replace(params, **own)


def settings_note(begin: str, fields: Iterable[tuple[str, JsonValue]]) -> tuple[str, ...]:
    """Return the note that lists settings, starting with `APPLIED` or `NOT_APPLIED`; empty without
    settings.
    """
    named = [_show_setting(path, value) for path, value in fields]
    return (f"{begin}{_BETWEEN.join(named)}",) if named else ()


def noted_settings(notes: Iterable[str], begin: str) -> list[str]:
    """Return the settings listed in the notes of a reply."""
    names: list[str] = []
    for note in notes:
        if note.startswith(begin):
            names += note.removeprefix(begin).split(_BETWEEN)
    return names


def _show_setting(path: str, value: JsonValue) -> str:
    """Return a setting in the form shown on cards. A long string is assumed to be a key, such as a
    cache key.
    """
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return path
    text = value if isinstance(value, str) else dumps_canonical(value)
    return f"{path}={text[:_LONGEST_VALUE]}".replace(_BETWEEN, ";")
