"""Findings of a verification."""

from __future__ import annotations

from ktdeval.values import Finding


def make_finding(rule: str, day: str, message: str) -> Finding:
    """Return the finding that a rule is broken on an ISO day; an empty day: in the whole test."""
    return Finding(rule=rule, day=day, message=message)
