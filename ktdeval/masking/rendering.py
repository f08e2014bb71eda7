"""Rendering of payloads: as plain JSON values, or directly as JSON text in a single pass.

A lens determines how each field type is shown (`renderers`); plain JSON stays as it is. Both forms
agree, since `text` equals `render_json` of `value`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from json.encoder import encode_basestring
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np

from ktdeval.errors import PluginError
from ktdeval.masking.payload_types import (
    AssetName,
    AssetRef,
    DayRef,
    DocumentRef,
    Exact,
    IndexLevel,
    MarketFigure,
    OwnFigure,
    Payload,
    Price,
    Prose,
    RefusedTypeError,
    SectorRef,
    Shares,
    render_float,
    render_integer,
    render_json,
)
from ktdeval.values.documents.strict_json import JsonValue, dumps_compact, loads_strict

_REFS = frozenset({AssetRef})
_ASSET_OF = itemgetter(0)
#: returns the JSON text of a value
Writer = Callable[[Any], str]
_KEY_TYPES = (AssetRef, DayRef, SectorRef)

#: field types that each mask shows in its own way
Identity = AssetRef | AssetName | DayRef | SectorRef | IndexLevel
_IDENTITIES = frozenset({AssetRef, AssetName, DayRef, SectorRef, IndexLevel})
#: types of values that are identical under all masks that share a text
_PLAIN = frozenset({str, int, float, type(None), MarketFigure, Price})
#: field types of an account and of texts, which prepared (shared) payloads must not contain
_NEVER_SHARED = frozenset({OwnFigure, Prose, DocumentRef, Exact})


# a tuple: like all payload values
class Prepared(NamedTuple):
    """The JSON text of a market data payload, in which each identity is left to the mask.

    Episodes share this text under all masks that show figures unchanged. A lens that rescales,
    rounds or adds noise refuses it. It is created by `PayloadRenderer.prepare_payload`.
    """

    parts: tuple[str | Identity, ...]


class _Writers(dict[type, Writer]):
    """Writer for each type of value in a payload; `rare` writes values of all other types."""

    def __init__(self, rare: Writer) -> None:
        super().__init__()
        self._rare = rare

    def __missing__(self, kind: type) -> Writer:
        return self._rare


class PayloadRenderer:
    """Renderer of payloads by the rules of a lens.

    `renderers`: for each field type, the function that shows its values; without a function for
    MarketFigure, figures are shown unchanged. `handles`: handles of the assets shown so far, by
    column; the lens may change them.
    """

    def __init__(
        self, renderers: Mapping[type, Callable[[Any], JsonValue]], handles: Mapping[int, str]
    ) -> None:
        self._renderers = {MarketFigure: self._render_figure, **renderers}
        self._handles = handles
        # Dispatch on the exact type is faster than `isinstance`. Plugins may pass any value; other
        # types are checked last.
        self._writers: _Writers = _Writers(self._write_rare)
        for kind, renderer in renderers.items():
            write = _write_handle if kind in _KEY_TYPES else _write_shown
            self._writers[kind] = partial(write, renderer)

        self._writers.setdefault(MarketFigure, self._write_figure)
        self._writers.update({
            float: render_float,
            int: render_integer,
            str: encode_basestring,
            list: self._write_list,
            tuple: self._write_list,
            dict: self._write_dict,
            bool: _write_flag,
            type(None): _write_null,
        })  # fmt: skip
        if Prepared in renderers:
            self._writers[Prepared] = self.join_text

    def value(self, value: Any) -> JsonValue:
        """Return a payload as plain JSON; NaN and infinity become null. Raises RefusedTypeError if
        a value has another type.
        """
        # Dispatch on the exact type is faster than `isinstance`. Plugins may pass any value; other
        # types are checked last.
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
        """Return `render_json` of `value(payload)`. Raises RefusedTypeError if a value has another
        type.
        """
        return self._writers[type(value)](value)

    def join_text(self, prepared: Prepared) -> str:
        """Return the text of a prepared payload."""
        writers = self._writers
        return "".join([
            part if type(part) is str else writers[type(part)](part) for part in prepared.parts
        ])  # fmt: skip

    def prepare_payload(self, payload: Payload) -> Prepared:
        """Return a text that, except for identities, is the same under all masks that show figures
        unchanged. This renderer must also show them unchanged. Raises PluginError if the payload
        contains an account figure or a text, RefusedTypeError if a value has another type.
        """
        parts: list[str | Identity] = []
        pieces: list[str] = []
        self._collect(payload, parts, pieces)
        if pieces:
            parts.append("".join(pieces))

        return Prepared(tuple(parts))

    def _collect(self, value: Any, parts: list[str | Identity], pieces: list[str]) -> None:
        """Append the parts of a value. `pieces`: text since the last identity."""
        kind = type(value)
        if kind in _IDENTITIES:
            if pieces:
                parts.append("".join(pieces))
                pieces.clear()
            parts.append(value)
        elif kind is list or kind is tuple:
            self._collect_items(value, parts, pieces)
        elif kind is dict:
            separator = "{"
            for key, item in value.items():
                pieces.append(separator)
                self._collect(key, parts, pieces)
                pieces.append(":")
                self._collect(item, parts, pieces)
                separator = ","

            pieces.append("}" if value else "{}")
        elif kind in _NEVER_SHARED or (kind is Shares and value.day is None):
            raise PluginError(
                f"{kind.__name__} belongs to one episode and can't be prepared for all episodes"
            )
        else:
            pieces.append(self._writers[kind](value))

    def _collect_items(
        self, values: Sequence[Any], parts: list[str | Identity], pieces: list[str]
    ) -> None:
        """Append the parts of a list."""
        writers = self._writers
        separator = "["
        for item in values:
            pieces.append(separator)
            kind = type(item)
            if kind in _PLAIN:  # most table cells, without a function call for each cell
                pieces.append(writers[kind](item))
            else:
                self._collect(item, parts, pieces)
            separator = ","

        pieces.append("]" if values else "[]")

    def _write_list(self, values: Sequence[Any]) -> str:
        if values and type(values[0]) is AssetRef:
            handles = self._handles_of(values)
            if handles is not None:
                return dumps_compact(handles)

        writers = self._writers
        return f"[{','.join([writers[type(item)](item) for item in values])}]"

    def _write_dict(self, values: Mapping[Any, Any]) -> str:
        writers = self._writers
        # A dict, because two handles that are keys may be shown as the same text.
        fields = {
            key if type(key) is str else self._key(key): writers[type(item)](item)
            for key, item in values.items()
        }
        pairs = [f"{encode_basestring(name)}:{text}" for name, text in fields.items()]
        return f"{{{','.join(pairs)}}}"

    def _render_figure(self, figure: MarketFigure) -> JsonValue:
        return self.value(figure.value)

    def _write_figure(self, figure: MarketFigure) -> str:
        return self.text(figure.value)

    def _write_rare(self, value: Any) -> str:
        return render_json(self._rare(value))

    def _handles_of(self, values: Sequence[Any]) -> list[JsonValue] | None:
        """Return the handles of a list of assets, all of which have been shown before; None for any
        other list. A shortcut for the list of all assets, which occurs in every step.
        """
        if not _REFS.issuperset(map(type, values)):
            return None

        with suppress(KeyError):  # an asset has no handle yet, so handles are created one by one
            return list(map(self._handles.__getitem__, map(_ASSET_OF, values)))
        return None

    def _rare(self, value: Any) -> JsonValue:
        """Render NumPy scalars and subclasses such as StrEnum. Refuse all other types, so that
        dates and data frames are never shown as text.
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
        """Render a dict key, which is text or, in a table keyed by asset, a handle."""
        if type(key) in _KEY_TYPES:
            return str(self._renderers[type(key)](key))
        if isinstance(key, str):
            return str(key)
        raise RefusedTypeError(key)


def _write_shown(renderer: Callable[[Any], JsonValue], value: Any) -> str:
    return render_json(renderer(value))


def _write_handle(renderer: Callable[[Any], JsonValue], value: Any) -> str:
    return encode_basestring(cast("str", renderer(value)))


def _write_flag(value: bool) -> str:
    return "true" if value else "false"


def _write_null(_: None) -> str:
    return "null"


def parse_payload(text: str) -> JsonValue:
    """Parse a text returned by `PayloadRenderer.join_text` to its plain value."""
    return loads_strict(text)
