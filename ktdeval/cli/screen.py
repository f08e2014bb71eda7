"""One way out to a terminal: what a stranger's run, card or error holds can't move its cursor, hide text or turn it around."""

from __future__ import annotations

import re
from typing import Any

_COLOUR = r"\x1b\[(?:0|[1347]|[39]?[0-79]|38;[25];[0-9;]{1,11})(?:;(?:[1347]|[39][0-79]|38;[25];[0-9;]{1,11}))*m"
_UNSEEN = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
_ODD = re.compile(f"({_COLOUR})|{_UNSEEN}")


class CleanStream:
    """A text stream that writes a space for each control and invisible character; on a terminal colours pass. `raw` is the stream
    behind it, for what moves the cursor on purpose.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        """Write the text, cleaned; return its length."""
        colours = self.raw.isatty()
        self.raw.write(_ODD.sub(lambda found: found[1] if colours and found[1] else " ", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)
