"""Settings in a program's request that are passed to its model, and settings that every API has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ktdeval.harness import OwnSettings
from ktdeval.values import JsonObject, JsonValue, dumps_compact
from ktdeval_command.wire.declared_form import DeclaredForm
from ktdeval_command.wire.refusals import WireError
from ktdeval_command.wire.request_fields import Fields

MAX_CHARS = 4_000  #: maximum characters of all settings in a request, as JSON
_EFFORTS: Mapping[str, str] = {
    "none": "none",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "xhigh",
    "ultra": "xhigh",
}


class SettingsReader:
    """Collects the settings in one request to an API."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._fields: dict[str, JsonValue] = {}
        self._withheld: dict[str, JsonValue] = {}
        self._params: dict[str, JsonValue] = {}
        self._paths: dict[str, str] = {}

    def take(self, fields: Fields, form: DeclaredForm) -> None:
        """Take the fields that a form declares. `own` settings are passed on unchanged. `withheld`
        settings reach no model, because the run sets them or because they change the cost of a
        call.
        """
        for part, taken in (("own", self._fields), ("withheld", self._withheld)):
            for name in form.parts[part]:
                if fields.has(name):
                    taken[fields.path(name)] = fields.take(name)

    def put(self, path: str, value: JsonValue) -> None:
        """Add a setting unchanged; None is skipped."""
        if value is not None:
            self._fields[path] = value

    def add(self, path: str, value: Any, param: str) -> None:
        """Add a setting that every API has and that `CallParams` names `param`; None is skipped."""
        if value is not None:
            self.put(path, value)
            self._params[param] = value
            self._paths[param] = path

    def add_effort(self, path: str, word: JsonValue) -> None:
        """Add the reasoning effort at `path`, if the word is known."""
        effort = _EFFORTS.get(word.lower()) if isinstance(word, str) else None
        if effort is not None:
            # Another API takes either an effort or a budget, not both.
            self._params |= {"reasoning_effort": effort, "reasoning_tokens": None}
            self._paths["reasoning_effort"] = path
            self._paths.pop("reasoning_tokens", None)

    def add_budget(self, path: str, tokens: JsonValue) -> None:
        """Add the reasoning budget at `path`. An effort takes precedence over the budget; a budget
        of 0 means no reasoning.
        """
        is_count = isinstance(tokens, int) and not isinstance(tokens, bool)
        if not is_count or "reasoning_effort" in self._paths:
            return
        if tokens == 0:
            self.add_effort(path, "none")
        elif isinstance(tokens, int) and tokens > 0:
            self._params |= {"reasoning_effort": None, "reasoning_tokens": tokens}
            self._paths["reasoning_tokens"] = path

    def settings(self) -> OwnSettings | None:
        """Return the settings; None if the request has no settings. Raises WireError if they are
        too long.
        """
        if not (self._fields or self._withheld):
            return None
        fields: JsonObject = dict(sorted(self._fields.items()))
        if len(dumps_compact([fields, self._withheld])) > MAX_CHARS:
            raise WireError("bad_request", f"expected settings of at most {MAX_CHARS:,} characters")
        return OwnSettings(
            api=self._api,
            fields=fields,
            params=self._params,
            paths=self._paths,
            withheld=self._withheld,
        )
