"""Check from a server's error text whether it refuses to stream."""

from __future__ import annotations

import re

from ktdeval.calls import ProviderRefusal
from ktdeval_models.remote.requests.accepted_forms import refusing_words

_STREAM = re.compile(r"\bstream(ed|ing|s|_options)?\b", re.IGNORECASE)


def refuses_stream(refusal: ProviderRefusal) -> bool:
    """Return whether a refusal blames the request fields that ask for a stream."""
    words = refusing_words(refusal)
    return words is not None and _STREAM.search(words) is not None
