"""What a provider wants back untouched within a round of tool use, carried in the ids of the calls it came with.

A model that thinks signs its thoughts, and some providers refuse a conversation whose tool calls come back without that signature:
Anthropic with a thinking budget, Google from Gemini 3 on. A neutral conversation has no place for it but one that every agent,
cache and transcript hands on as it is: the id of a call. So an adapter packs the signature into the id that it hands out and takes
it out again before it sends the id; no state is kept, and a resumed or cached conversation goes on like a fresh one.

Only what nobody can read is carried. Thoughts as text would pass the leak guard, which looks at what a model wrote before it is
sent back, in disguise. The guard may replace an id in which it sees an identity; then nothing is carried. The alphabet has letters
only, for runs of digits are what most identities are made of.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from ktdeval.api import JsonValue, dumps_canonical, loads_strict

_MARK = "~"
_TO_LETTERS = str.maketrans("234567", "abcdef")
_FROM_LETTERS = str.maketrans("abcdef", "234567")
_LONGEST = 4 << 20
"""Bytes that are unpacked at most; no signature comes near."""


def pack(call_id: str, value: JsonValue) -> str:
    """An id that carries a JSON value besides the provider's own id."""
    packed = zlib.compress(dumps_canonical(value).encode(), 9)
    return f"{call_id}{_MARK}{base64.b32encode(packed).decode().rstrip('=').translate(_TO_LETTERS)}"


def unpack(call_id: str) -> tuple[str, JsonValue]:
    """The provider's own id, and what the id carries; None where it carries nothing."""
    plain, mark, letters = call_id.partition(_MARK)
    if not mark:
        return call_id, None
    try:
        packed = base64.b32decode(letters.translate(_FROM_LETTERS) + "=" * (-len(letters) % 8))
        return plain, loads_strict(zlib.decompressobj().decompress(packed, _LONGEST))
    except (binascii.Error, zlib.error, ValueError):
        return plain, None  # not one of ours, or cut on the way
