"""Files of regular expressions: named parts, and patterns by kind that contain them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_LINE = re.compile(r"([a-z_]+)( = |: )(.*)")
_WORD = re.compile(r"\{([a-z_]+)\}")


def read_patterns(
    name: str, words: Mapping[str, str] | None = None
) -> dict[str, list[re.Pattern[str]]]:
    """Return kind -> patterns of a file such as `phrases.txt`, which explains its format. `words`:
    further definitions of parts.
    """
    definitions = dict(words or {})
    patterns = dict[str, list[re.Pattern[str]]]()
    for line in resources.files(__package__).joinpath(name).read_text("utf-8").splitlines():
        match = _LINE.fullmatch(line)
        if match is None or line.startswith("#"):
            continue

        text = _WORD.sub(lambda word: definitions[word[1]], match[3])
        if match[2] == " = ":
            definitions[match[1]] = text
        else:
            patterns.setdefault(match[1], []).append(re.compile(text, re.IGNORECASE))

    return patterns
