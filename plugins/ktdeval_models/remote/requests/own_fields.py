"""Settings sent by an agent's own program, applied to the requests to the run's model.

If the program speaks the model's own API, its settings are sent unchanged. Otherwise only the
settings that every API has are sent: token limit, temperature, effort, reasoning budget. A setting
that a server refuses is omitted from then on, and the run's parameter applies. A note on each reply
lists the applied and the omitted settings.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ktdeval.calls import ProviderRefusal
from ktdeval.harness import APPLIED, NOT_APPLIED, ModelRequest, OwnSettings, settings_note
from ktdeval.values import JsonValue

_REFUSED = (400, 422)
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
# patterns by which servers name a parameter, in any API's spelling
_NAMES: Mapping[str, re.Pattern[str]] = {
    "max_output_tokens": re.compile(r"max_?(completion_|output_?)?tokens", re.IGNORECASE),
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "reasoning_effort": re.compile(r"effort|reasoning|thinking", re.IGNORECASE),
    "reasoning_tokens": re.compile(r"budget|reasoning|thinking", re.IGNORECASE),
}


@dataclass(frozen=True, slots=True)
class OwnForm:
    """Form in which an adapter accepts settings from programs."""

    api: str  #: the API that the adapter speaks, as in `OwnSettings`
    efforts: Collection[str] = _EFFORTS  #: effort words that the API knows
    encoded: Collection[str] = ()  #: paths that the adapter encodes itself, from `params` or `own`


class OwnFields:
    """The program settings that one model accepts. Remembers which settings its server refuses.
    Thread-safe.
    """

    def __init__(self, form: OwnForm) -> None:
        self.form = form
        self._lock = threading.Lock()
        self._refused: set[str] = set()

    def fit_request(self, request: ModelRequest) -> ModelRequest:
        """Return a request without the settings that the server is known to refuse. Its effort is
        changed to one that the API knows.
        """
        own = request.own
        if own is None:
            return request

        with self._lock:
            refused = set(self._refused)

        params = request.params
        for name, path in own.paths.items():
            if path in refused and request.run_params is not None:
                params = replace(params, **{name: getattr(request.run_params, name)})

        if own.params.get("reasoning_effort") == params.reasoning_effort is not None:
            params = replace(params, reasoning_effort=self._known_effort(params.reasoning_effort))

        fields = {path: value for path, value in own.fields.items() if path not in refused}
        return replace(request, params=params, own=msgspec.structs.replace(own, fields=fields))

    def _known_effort(self, effort: str) -> Any:
        """Return the nearest effort level that the API knows; a tie goes to the higher level."""
        place = _EFFORTS.index(effort)
        known = [_EFFORTS.index(word) for word in self.form.efforts]
        return _EFFORTS[min(known, key=lambda each: (abs(each - place), -each))]

    def add_own(
        self, body: dict[str, Any], request: ModelRequest, fixed: Collection[str]
    ) -> dict[str, Any]:
        """Return a body with the program's fields added, if the program speaks this API. `fixed`:
        fields that the user of the run sets or omits.
        """
        own = request.own
        if own is None or own.api != self.form.api:
            return body

        for path, value in own.fields.items():
            if path not in self.form.encoded and not _is_fixed(path, fixed):
                body = _with_field(body, path.split("."), value)
        return body

    def learn_refusal(self, refusal: ProviderRefusal, request: ModelRequest) -> bool:
        """Remember which setting of a request a refusal blames. Return whether the setting is newly
        refused.
        """
        own = request.own
        if own is None or refusal.status not in _REFUSED:
            return False

        words = f"{refusal.parameter or ''} {refusal.message}"
        blamed = [path for path in own.fields if self._is_named(path, own, words)]
        with self._lock:
            new = [path for path in blamed if path not in self._refused][:1]
            self._refused.update(new)
        return bool(new)

    def _is_named(self, path: str, own: OwnSettings, words: str) -> bool:
        leaf = path.rpartition(".")[2]
        if own.api == self.form.api and re.search(rf"\b{re.escape(leaf)}\b", words):
            return True
        return any(
            own_path == path and _NAMES[name].search(words) is not None
            for name, own_path in own.paths.items()
        )

    def notes(
        self,
        asked: ModelRequest,
        fitted: ModelRequest,
        untaken: Collection[str],
        fixed: Collection[str],
    ) -> tuple[str, ...]:
        """Return notes on a reply: which settings were applied, and which were not. `untaken`:
        names of the `CallParams` fields that the request omitted.
        """
        own = asked.own
        if own is None:
            return ()

        lacking = set(self._lacking(own, fitted, untaken, fixed))
        got = [each for each in own.fields.items() if each[0] not in lacking]
        missed = [each for each in own.fields.items() if each[0] in lacking]
        missed += own.withheld.items()
        return (*settings_note(APPLIED, got), *settings_note(NOT_APPLIED, missed))

    def _lacking(
        self,
        own: OwnSettings,
        fitted: ModelRequest,
        untaken: Collection[str],
        fixed: Collection[str],
    ) -> Iterator[str]:
        left = {} if fitted.own is None else fitted.own.fields
        is_same_api = own.api == self.form.api
        params = {path: name for name, path in own.paths.items()}
        for path in own.fields:
            name = params.get(path)
            if path not in left or (is_same_api and _is_fixed(path, fixed)):
                yield path
            elif not is_same_api or path in self.form.encoded:
                is_carried = name is not None or (is_same_api and path in self.form.encoded)
                if not is_carried or name in untaken or self._is_changed(own, fitted, name):
                    yield path

    def _is_changed(self, own: OwnSettings, fitted: ModelRequest, name: str | None) -> bool:
        return name is not None and own.params.get(name) != getattr(fitted.params, name)


def _is_fixed(path: str, fixed: Collection[str]) -> bool:
    return path in fixed or path.partition(".")[0] in fixed or path.rpartition(".")[2] in fixed


def _with_field(body: Mapping[str, Any], path: list[str], value: JsonValue) -> dict[str, Any]:
    """Return an object with a value at a path; missing objects on the path are created."""
    name, *rest = path
    if not rest:
        return {**body, name: value}
    inner = body.get(name)
    return {**body, name: _with_field(inner if isinstance(inner, dict) else {}, rest, value)}
