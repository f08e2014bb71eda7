"""The second line behind typed payloads: nothing that leaves for the model holds an identity that the mask hides."""

from __future__ import annotations

from functools import lru_cache

from ktdeval.errors import LeakError
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.identities import WITHHELD, identities_of
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload import render_json

_REMEMBERED = 64


class LeakGuard:
    """Scans text that leaves for the model: `check` what the suite wrote, where a hidden identity is a defect; `redact` what the
    model wrote itself and is sent back to it.
    """

    def __init__(self, lens: Lens, snapshot: MarketSnapshot) -> None:
        self._index = identities_of(snapshot, assets=lens.hides_assets, dates=lens.hides_dates)
        # Prompts, tool descriptions and a model's turns come back with every call; a few answers are worth keeping.
        self._has_any = lru_cache(maxsize=_REMEMBERED)(self._index.has_any)
        self._withhold = lru_cache(maxsize=_REMEMBERED)(self._index.withhold)

    def check(self, text: str, what: str = "text for the model") -> None:
        """Raise LeakError when `text` holds a hidden identity: names its kind and place, never the text."""
        if not self._has_any(text):
            return
        hit = self._index.find(text)[0]
        raise LeakError(
            f"leak guard: {what} holds a {hit.kind} at characters {hit.start}…{hit.end} of {len(text)}, which the mask hides; "
            "build it from payload field types (AssetRef, DayRef, SectorRef, …) instead of text"
        )

    def redact(self, text: str) -> str:
        """Text with hidden identities replaced by `[withheld]`, also codes that the snapshot lacks; it then passes `check`."""
        return self._withhold(text)

    def redact_json(self, text: str) -> str:
        """`redact` for the JSON text of a tool call, which stays JSON; strings and bare numbers that are an identity as a whole
        (`{"stock_id": 600519}`) become the string `[withheld]`.
        """
        if not self._index.find(text, any_code=True):
            return text
        try:
            value = loads_strict(text)
        except (ValueError, RecursionError):
            return self.redact(text)
        cleaned = render_json(self._redact_value(value))
        return render_json({"arguments": WITHHELD}) if self._index.find(cleaned, any_code=True) else cleaned

    def _redact_value(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return WITHHELD if self._index.is_code(value) else self.redact(value)
        if isinstance(value, dict):
            return {self.redact(key): self._redact_value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._redact_value(item) for item in value]
        if isinstance(value, int) and not isinstance(value, bool) and len(str(value)) == 6 and self._index.has_any(str(value)):
            return WITHHELD
        return value
