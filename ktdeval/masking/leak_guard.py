"""Leak guard: scans all text that is sent to a model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ktdeval.errors import LeakError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.dates.date_detection import Span
from ktdeval.masking.lens import Lens
from ktdeval.masking.names.identity_index import WITHHELD, IdentityHit, identities_of
from ktdeval.masking.payload_types import render_json
from ktdeval.masking.text_normalisation import places_of
from ktdeval.values.documents.strict_json import JsonValue, loads_strict


class LeakGuard:
    """Scanner of text that is sent to the model.

    `check` is for text by the suite, where a hidden identity is a defect. `redact` is for text by
    the model that is sent back to it.
    """

    def __init__(self, lens: Lens, snapshot: MarketSnapshot) -> None:
        self._index = identities_of(snapshot, assets=lens.hides_assets, dates=lens.hides_dates)
        # Prompts, tool descriptions and a model's turns are sent again with every call, and a model
        # often repeats the tool arguments of the previous step. The caches are safe: the index
        # never changes, and only fully scanned texts are keys.
        self._has_any = lru_cache(maxsize=64)(self._index.has_any)
        self._withhold = lru_cache(maxsize=64)(self._index.withhold)
        self._withhold_in_json = lru_cache(maxsize=64)(self._redacted_json)

    def check(self, text: str, what: str = "text for the model") -> None:
        """Raise LeakError if `text` contains a hidden identity.

        The message gives the kind and offset of the identity, and quotes it only if it is a common
        word.
        """
        if not self._has_any(text):
            return

        hit = self._index.find(text)[0]
        word = text[hit.start : hit.end]
        found = f"a {hit.kind}"
        fix = "build it from payload field types (AssetRef, DayRef, SectorRef, …) instead of text"
        if self._index.is_common(word):
            found = f"{word!r}, a code, name or industry of this market,"
            fix = (
                "if it is only a word of a prompt, rename it in the market's source and import it"
                " again, or leave the asset out"
            )
        elif word.isdecimal() and hit.kind == "calendar date":
            fix = (
                "if it is a number in the task's config that looks like a date, choose another"
                " number;"
                f" otherwise {fix}"
            )

        where = f"at characters {hit.start}…{hit.end} of {len(text)}"
        raise LeakError(f"leak guard: {what} holds {found} {where}, which the mask hides; {fix}")

    def redact(self, text: str) -> str:
        """Return a text with hidden identities replaced by `[withheld]`. The result passes `check`.

        Codes that are not in the snapshot are also replaced.
        """
        return self._withhold(text)

    def redact_json(self, text: str, fields: frozenset[str] = frozenset()) -> str:
        """Redact the JSON text of a tool call; the result is also JSON.

        If a whole string or bare number is an identity (`{"stock_id": 600519}`), it becomes the
        string `[withheld]`. `fields`: argument names defined by the suite, which are kept. Without
        this exception, `target_weight` would lose its first word, which would reveal that the
        market has Target Corp.
        """
        return self._withhold_in_json(text, fields)

    def _redacted_json(self, text: str, fields: frozenset[str]) -> str:
        if not self._holds_identity(text, fields):
            return text

        try:
            value = loads_strict(text)
        except ValueError:
            return self.redact(text)

        cleaned = render_json(self._redact_value(value, fields))
        if self._holds_identity(cleaned, fields):
            return render_json({"arguments": WITHHELD})
        return cleaned

    def _holds_identity(self, text: str, fields: frozenset[str]) -> bool:
        """Return whether JSON contains an identity, apart from these field names."""
        hits = self._index.find(text, "answer")
        names = _spans_of_names(text, fields) if hits else []
        return not all(_is_within(hit, names) for hit in hits)

    def _redact_value(self, value: JsonValue, fields: frozenset[str]) -> JsonValue:
        match value:
            case str():
                return WITHHELD if self._index.is_code(value) else self.redact(value)
            case dict():
                cleaned: dict[str, JsonValue] = {}
                for key, item in value.items():
                    name = key if key in fields else self.redact(key)
                    cleaned[name] = self._redact_value(item, fields)
                return cleaned
            case list():
                return [self._redact_value(item, fields) for item in value]
            case bool():
                return value
            case int():
                digits = str(value)
                if len(digits) in (6, 8) and self._index.has_any(digits):
                    return WITHHELD

        return value


def _is_within(hit: IdentityHit, spans: Iterable[Span]) -> bool:
    return any(start <= hit.start and hit.end <= end for start, end in spans)


def _spans_of_names(text: str, fields: frozenset[str]) -> list[Span]:
    """Return the spans at which one of these names is a whole JSON string. A name inside a longer
    string does not match, because it has no quotation marks or escaped ones.
    """
    spans = []
    for name in fields:
        named = f'"{name}"'
        spans += [(start, start + len(named)) for start in places_of(text, named)]

    return spans
