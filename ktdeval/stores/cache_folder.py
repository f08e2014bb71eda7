"""Folder for data that ktdeval keeps for a user between runs, and that it can recreate or fetch
again.
"""

from __future__ import annotations

import os
from pathlib import Path

from ktdeval.values.options.user_input import user_path


def cache_folder() -> Path:
    """Return `$KTDEVAL_CACHE_DIR`, or the user's cache folder."""
    named = os.environ.get("KTDEVAL_CACHE_DIR")
    if named:
        return user_path(named)

    import platformdirs  # noqa: PLC0415 - slow to import, and `ktdeval --help` needs none

    return user_path(platformdirs.user_cache_dir("ktdeval"))
