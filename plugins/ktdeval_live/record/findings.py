"""Findings of a verification."""

from __future__ import annotations

from ktdeval.values import Finding


def make_finding(rule: str, day: str, message: str) -> Finding:
    """Return a finding that a rule is violated on an ISO day, or, if the day is empty, in the test
    as a whole.
    """
    return Finding(rule=rule, day=day, message=message)
