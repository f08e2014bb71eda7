"""The reply cache of a test, and the folder of its run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.calls.records.database import CallDatabase
from support.providers.call_clients import RunClients


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "replies.sqlite"


@pytest.fixture
def cache(path: Path) -> Iterator[CallDatabase]:
    with CallDatabase(path) as opened:
        yield opened


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunClients]:
    clients = RunClients(tmp_path)
    yield clients
    clients.close()
