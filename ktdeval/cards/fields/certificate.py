"""Statement of an attached card of another kind, such as the certificate of a mask."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.basics import Figure, Name
from ktdeval.cards.fields.words import Words
from ktdeval.masking.lens import MaskKind
from ktdeval.values.typed import Value

WEAK = frozenset({"limited", "control incomplete", "few answers", "few guesses"})
"""Labels of an attached card whose bounds rest on too little to call a mask certified."""


class Attachment(Figure, Value, frozen=True, kw_only=True):
    """Statement of an attached card of another kind about this one: null with a reason where there
    is none.
    """

    value: dict[str, Any] | None
    reason: Name | UnsetType = UNSET

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the attached card."""
        return tuple((self.value or {}).get("labels", ()))

    def certifies(self, mask: MaskKind) -> bool:
        """Whether a card under this mask is certified, as it claims: holders of the attacks' runs
        can verify it.

        A mask is certified if it was attacked by a whole probe set, with answers that name
        something. A mask that hides nothing needs no certificate.
        """
        if mask == "bright":
            return True
        return self.value is not None and WEAK.isdisjoint(self.labels)


NOT_GIVEN = "no certificate was given"
NOTHING_HIDDEN = "nothing is hidden, so there is nothing to certify"
NO_ATTACHMENT = Attachment(value=None, reason=NOT_GIVEN)

WORDS = {
    "certificate": Words(
        "certificate",
        "",
        "what the mask's certificate says of this task and market; null with a reason without one",
    ),
}
