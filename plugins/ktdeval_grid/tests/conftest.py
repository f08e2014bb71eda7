"""A grid made by hand, for the tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from grid_store import HandMade, record_of, small_plan


@pytest.fixture
def grid(tmp_path: Path, request: pytest.FixtureRequest) -> HandMade:
    """A grid of two models with four units each, less those that the module has in `PRUNED`."""
    pruned = getattr(request.module, "PRUNED", ())
    return HandMade(tmp_path, record_of(small_plan(), pruned))
