"""Reads files of regular expressions, which contain named parts and the patterns of each kind that
use them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_LINE = re.compile(r"([a-z_]+)( = |: )(.*)")
_WORD = re.compile(r"\{([a-z_]+)\}")


def read_patterns(
    name: str, words: Mapping[str, str] | None = None
) -> dict[str, list[re.Pattern[str]]]:
    """Return the patterns in a file such as `phrases.txt`, keyed by kind. The file explains its
    format. `words` contains further definitions of parts.
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
