"""Rendering of payloads: as plain JSON values, or in one pass as the JSON text of these.

A lens says how each field type is shown (`renderers`); what is plain JSON stays as it is. Both
forms agree: `text` is `render_json` of `value`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ktdeval.errors import PluginError
from ktdeval.masking.payload_types import (
    AssetName,
    AssetRef,
    DayRef,
    DocumentRef,
    Exact,
    IndexLevel,
    OwnFigure,
    Payload,
    Prose,
    RefusedTypeError,
    SectorRef,
    Shares,
    render_json,
    render_number,
)
from ktdeval.values.strict_json import JsonValue, dumps_compact, loads_strict

_REFS = frozenset({AssetRef})
_ASSET_OF = itemgetter(0)
_KEY_TYPES = (AssetRef, DayRef, SectorRef)

#: Field types that each mask shows in its own way
Identity = AssetRef | AssetName | DayRef | SectorRef | IndexLevel
_IDENTITIES = frozenset({AssetRef, AssetName, DayRef, SectorRef, IndexLevel})
#: Field types of an account, and of texts: what is prepared is shared, and these must not be
_NEVER_SHARED = frozenset({OwnFigure, Prose, DocumentRef, Exact})


# a tuple: stands among the values of a payload, which are tuples
class Prepared(NamedTuple):
    """JSON text of a payload of market data, with each identity left to the mask.

    Episodes share it under all masks that show figures as they are; a lens that rescales, rounds or
    adds noise refuses it. `prepare` makes it.
    """

    parts: tuple[str | Identity, ...]


class PayloadRenderer:
    """Renderer of payloads by the rules of a lens.

    `renderers`: what shows a value of each field type; `handles`: handles of the assets shown so
    far, by column, which the lens may change.
    """

    def __init__(
        self, renderers: Mapping[type, Callable[[Any], JsonValue]], handles: Mapping[int, str]
    ) -> None:
        self._renderers = renderers
        self._handles = handles

    def value(self, value: Any) -> JsonValue:
        """Return a payload as plain JSON; NaN and infinity become null. Raises RefusedTypeError."""
        # By exact type, which is faster than `isinstance`; plugins may give anything, checked last.
        kind = type(value)
        rendered: JsonValue
        if kind is str or kind is int or kind is bool or value is None:
            rendered = value
            return rendered
        if kind is float:
            rendered = value if math.isfinite(value) else None
            return rendered

        renderer = self._renderers.get(kind)
        if renderer is not None:
            return renderer(value)

        if kind is dict:
            return {
                key if type(key) is str else self._key(key): self.value(item)
                for key, item in value.items()
            }

        if kind is list or kind is tuple:
            handles = self._handles_of(value)
            if handles is not None:
                return handles
            return [self.value(item) for item in value]

        return self._rare(value)

    def text(self, value: Any) -> str:
        """Return `render_json` of `value(payload)`. Raises RefusedTypeError."""
        kind = type(value)
        if kind is float or kind is int:
            return render_number(value)
        if kind is str:
            return encode_basestring(value)

        renderer = self._renderers.get(kind)
        if renderer is not None:
            if kind is Prepared:
                return self.joined(value)
            return render_json(renderer(value))

        if kind is list or kind is tuple:
            handles = self._handles_of(value)
            if handles is not None:
                return dumps_compact(handles)
            return f"[{','.join([self.text(item) for item in value])}]"

        if kind is dict:
            # A dict, since two handles that are keys may be shown as the same text.
            fields = {
                key if type(key) is str else self._key(key): self.text(item)
                for key, item in value.items()
            }
            pairs = [f"{encode_basestring(name)}:{text}" for name, text in fields.items()]
            return f"{{{','.join(pairs)}}}"

        if value is None:
            return "null"
        if kind is bool:
            return "true" if value else "false"

        return render_json(self._rare(value))

    def joined(self, prepared: Prepared) -> str:
        """Return the text of a prepared payload."""
        renderers = self._renderers
        pieces = []
        for part in prepared.parts:
            if type(part) is not str:
                part = render_json(renderers[type(part)](part))
            pieces.append(part)

        return "".join(pieces)

    def _handles_of(self, values: Sequence[Any]) -> list[JsonValue] | None:
        """Return the handles of a list of assets that were all shown before: a shortcut for the
        list of all assets, which comes with every step. None for another list.
        """
        if not _REFS.issuperset(map(type, values)):
            return None

        with suppress(KeyError):  # an asset was not shown yet: it gets its handle one by one
            return list(map(self._handles.__getitem__, map(_ASSET_OF, values)))
        return None

    def _rare(self, value: Any) -> JsonValue:
        """Render NumPy scalars and subclasses such as StrEnum; refuse all else, so that no date or
        data frame is shown as text.
        """
        if isinstance(value, (np.integer, np.floating, np.bool_)):
            return self.value(value.item())

        for base in (str, int, float):
            if isinstance(value, base):
                return self.value(base(value))

        if isinstance(value, Mapping):
            return self.value(dict(value))

        raise RefusedTypeError(value)

    def _key(self, key: Any) -> str:
        """Render a key of a dict: text, or a handle (in a grid by asset)."""
        if type(key) in _KEY_TYPES:
            return str(self._renderers[type(key)](key))
        if isinstance(key, str):
            return str(key)
        raise RefusedTypeError(key)


def prepare(payload: Payload, show: Callable[[Payload], str]) -> Prepared:
    """Return the text of a payload that is the same under all masks that show figures as they are,
    but for identities. `show`: writes a figure as these masks do. Raises PluginError: it holds a
    figure of an account, or a text.
    """
    parts: list[str | Identity] = []
    _collect(payload, show, parts)
    merged: list[str | Identity] = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)

    return Prepared(tuple(merged))


def _collect(value: Any, show: Callable[[Payload], str], parts: list[str | Identity]) -> None:
    """Append the parts of a value."""
    kind = type(value)
    if kind in _IDENTITIES:
        parts.append(value)
    elif kind is list or kind is tuple:
        separator = "["
        for item in value:
            parts.append(separator)
            _collect(item, show, parts)
            separator = ","

        parts.append("]" if value else "[]")
    elif kind is dict:
        separator = "{"
        for key, item in value.items():
            parts.append(separator)
            _collect(key, show, parts)
            parts.append(":")
            _collect(item, show, parts)
            separator = ","

        parts.append("}" if value else "{}")
    elif kind in _NEVER_SHARED or (kind is Shares and value.day is None):
        raise PluginError(
            f"a {kind.__name__} is of one episode alone, and can't be prepared for all of them"
        )
    else:
        parts.append(show(value))


def parsed(text: str) -> JsonValue:
    """Return the plain value of a text that `PayloadRenderer.joined` gave."""
    return loads_strict(text)
