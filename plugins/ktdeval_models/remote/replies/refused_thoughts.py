"""Second try without a model's earlier thoughts, if its provider rejects their signatures.

A provider may reject thoughts that it signed itself: after a change of its keys, on another of its
platforms, or through a gateway that rewrites them. Without them the request is the same question.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ktdeval.calls import ProviderRefusal
from ktdeval.harness import ModelRequest

_STATUSES = (400, 422)
_REJECTED = re.compile(
    r"\bsignature\b.{0,80}\b(thinking|thoughts?|reasoning)\b"
    r"|\b(thinking|thoughts?|reasoning)\b.{0,80}\bsignature\b"
    r"|\bencrypted[_ ]content\b.{0,120}\b(invalid|verif|decrypt|could not|cannot)"
    r"|\binvalid[_ ]encrypted[_ ]content\b"
    r"|\bthinking\b.{0,60}\bblocks\b.{0,80}\bcannot be modified",
    re.IGNORECASE | re.DOTALL,
)
#: words of refusals that sending less would not mend
_MISSING = re.compile(r"\bmissing\b|\bmust (be|start)\b|\brequired?\b", re.IGNORECASE)


def rejects_thoughts(refusal: ProviderRefusal) -> bool:
    """Return whether a refusal blames the thoughts of earlier turns, or their signatures."""
    words = " ".join((*refusal.codes, refusal.message))
    if refusal.status not in _STATUSES or _MISSING.search(words):
        return False
    return _REJECTED.search(words) is not None


def without_thoughts(request: ModelRequest) -> ModelRequest:
    """Return a request without the thoughts of earlier turns."""
    messages = tuple(replace(message, opaque=None) for message in request.messages)
    return replace(request, messages=messages)
