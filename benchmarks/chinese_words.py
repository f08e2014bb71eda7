"""Common Chinese words of two characters, by which text masks tell a company's short name from two
words that meet. No speed.

    pip install jieba
    python benchmarks/chinese_words.py > ktdeval/masking/names/chinese_words.txt

Words and their frequency are those of jieba's dictionary (MIT License). Proper names and
abbreviations are left out: a short name must not be a word because companies are in a dictionary.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import jieba

LEAST = 100  # occurrences in jieba's corpus
NAMES = {"nz", "nt", "nrt", "nrfg", "j"}  # its tags of organisations, brands, abbreviations
HEADER = (
    "# Common Chinese words of two characters, by their first character. From the dictionary of jieba\n"
    "# (https://github.com/fxsjy/jieba), MIT License, Copyright 2013 Sun Junyi. Permission is granted,\n"
    "# free of charge, to use, copy, modify, merge, publish and distribute it, provided that this notice\n"
    "# is included. It is provided as is, without warranty of any kind. Written by\n"
    "# benchmarks/chinese_words.py.\n"
)


def main() -> None:
    """Print the table: a first character, and every second one that makes a word with it."""
    seconds: dict[str, str] = {}
    for line in Path(jieba.__file__).with_name("dict.txt").read_text("utf-8").splitlines():
        word, count, tag = line.split()
        is_word = re.fullmatch("[\u4e00-\u9fff]{2}", word) is not None
        if is_word and int(count) >= LEAST and tag not in NAMES:
            seconds[word[0]] = seconds.get(word[0], "") + word[1]

    sys.stdout.write(HEADER)
    for first in sorted(seconds):
        sys.stdout.write(f"{first}{''.join(sorted(seconds[first]))}\n")


if __name__ == "__main__":
    main()
