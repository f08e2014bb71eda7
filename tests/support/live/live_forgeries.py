"""Forgeries of a finished test, each by a maintainer who holds everything but the authority's key, with
what a verification must find: on a test without stamps, and on one that needs them.
"""

from __future__ import annotations

from support.live import (
    forged_beginnings,
    forged_data,
    forged_days,
    forged_decisions,
    forged_evidence,
)
from support.live.forgery_kinds import ALL

MODULES = (forged_decisions, forged_data, forged_days, forged_beginnings, forged_evidence)
"""Each adds its own."""

FORGERIES = tuple(ALL)
