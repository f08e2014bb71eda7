"""What tests of data share: a server of vendors without waits, and real files beside the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.testing import Terminal
from ktdeval_data.fetch import vendor_requests
from support.market.long_imports import Imports
from support.market.vendor_answers import ALPACA_KEYS, TOKEN, VendorServer, vendor_server


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited between requests; nothing really waits."""
    seconds: list[float] = []
    monkeypatch.setattr(vendor_requests.time, "sleep", seconds.append)
    return seconds


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of Tushare and Alpaca."""
    names = ("TUSHARE_TOKEN", "APCA_API_KEY_ID", "APCA_API_SECRET_KEY")
    for name, value in zip(names, (TOKEN, *ALPACA_KEYS), strict=True):
        monkeypatch.setenv(name, value)


@pytest.fixture
def server(keys: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[VendorServer]:
    """A server that answers as vendors do, to who has their keys."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with vendor_server() as running:
        yield running


@pytest.fixture
def imports(tmp_path: Path, terminal: Terminal) -> Imports:
    """Imports of long tables by the command."""
    return Imports(tmp_path, terminal)


@pytest.fixture
def reported(shared_data: Path) -> Path:
    """Files that were read wrongly once; the test is skipped where they are not."""
    folder = shared_data / "reported"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")

    return folder
