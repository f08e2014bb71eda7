"""What tests of fetching share."""

from __future__ import annotations

import pytest

from ktdeval_data.fetch import vendor_requests


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited between requests; nothing really waits."""
    seconds: list[float] = []
    monkeypatch.setattr(vendor_requests.time, "sleep", seconds.append)
    return seconds
