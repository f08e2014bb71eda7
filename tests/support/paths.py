"""Places in the checkout that tests read from."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SUPPORT = Path(__file__).resolve().parent

#: The folder that tests import `support` from
TESTS = SUPPORT.parent
