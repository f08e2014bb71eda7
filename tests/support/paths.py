"""Places in the checkout that tests read from."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SUPPORT = Path(__file__).resolve().parent

#: `tests/support` and its folders by subject, all of which tests import modules from
SUPPORT_FOLDERS = [SUPPORT, *sorted(path for path in SUPPORT.iterdir() if path.is_dir())]
