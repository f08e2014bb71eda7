"""Statement of an attached card of another kind, such as the certificate of a mask."""

from __future__ import annotations

from ktdeval.cards.fields.parts import Attachment
from ktdeval.cards.fields.words import Words

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
