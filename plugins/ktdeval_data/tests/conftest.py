"""What tests of data share: a server of vendors without waits, and real files beside the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval_data.fetch import vendor_requests
from support.market.vendor_answers import TOKEN, VendorServer, vendor_server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited between requests; nothing really waits."""
    seconds: list[float] = []
    monkeypatch.setattr(vendor_requests.time, "sleep", seconds.append)
    return seconds


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VendorServer]:
    """A server that answers as vendors do, and the token of Tushare."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("TUSHARE_TOKEN", TOKEN)

    with vendor_server() as running:
        yield running


@pytest.fixture
def reported(shared_data: Path) -> Path:
    """Files that were read wrongly once; the test is skipped where they are not."""
    folder = shared_data / "reported"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")

    return folder
