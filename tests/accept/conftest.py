"""A provider that the tests of a module share, and the port for stubs that take turns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ktdeval.testing import free_port

if TYPE_CHECKING:
    from support.providers.stub_provider import Stub


@pytest.fixture(scope="module")
def stub(request: pytest.FixtureRequest) -> Iterator[Stub]:
    """A stub whose plan each test sets, with the options that the module has in `STUB`."""
    from support.providers.stub_provider import running_stub

    with running_stub(**getattr(request.module, "STUB", {})) as running:
        yield running


@pytest.fixture(scope="module")
def calm(
    request: pytest.FixtureRequest,
    market: Path,
    stub: Stub,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run over Chat Completions in which nothing goes wrong, by the module's words in `SHORT`."""
    from support.providers.stub_runs import WIRES, finished

    out = tmp_path_factory.mktemp("calm") / "run"
    return finished(WIRES["chat"], stub, out, market, *request.module.SHORT)


@pytest.fixture(scope="module")
def port() -> int:
    """The port of all stubs of a module: what asks another server is not the same run."""
    return free_port()
