"""A provider that the tests of a module share, and the port for stubs that take turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.local_server import free_port

if TYPE_CHECKING:
    from support.providers.stub_provider import Stub


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    """A stub whose plan each test sets."""
    from support.providers.stub_provider import running_stub

    with running_stub() as running:
        yield running


@pytest.fixture(scope="module")
def port() -> int:
    """The port of all stubs of a module: what asks another server is not the same run."""
    return free_port()
