"""Patterns of claims, and words that mark plans, doubts and denials, from `patterns.txt`."""

from __future__ import annotations

import re

from ktdeval_rationale.pattern_files import read_patterns

PATTERNS = read_patterns("claims/patterns.txt")
"""Patterns, keyed by kind, in the order in which they are tried."""


def words_of(kind: str) -> re.Pattern[str]:
    """Return the pattern of a kind that has only one pattern."""
    (pattern,) = PATTERNS[kind]
    return pattern


PLAN = words_of("plan")
UNSTATED = words_of("unstated")
PAST = words_of("past")
GENERAL = words_of("general")
NEGATED = words_of("negated")
CLAUSE_END = re.compile(
    r"[,;:]\s|\b(?:and|but|while|whereas|although|though|yet|because|since|as)\b|,|，|但|而|且|因为|因"
)
