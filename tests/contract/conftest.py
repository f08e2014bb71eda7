"""The keys of the stub, for tests of adapters."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _no_connection_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the connections that models of a test keep for their next call: a process has few
    descriptors, and would have those of all tests.
    """
    if find_spec("ktdeval_models") is None:
        yield
        return

    from ktdeval_models.remote.transport import Transport

    made: list[Transport] = []
    begin = Transport.__init__

    def begin_noted(self: Transport, *args: Any, **options: Any) -> None:
        begin(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(Transport, "__init__", begin_noted)
    yield

    for transport in made:
        while transport._free:
            transport._free.pop().pool.close()


@pytest.fixture
def provider_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub's key is in the variable of each provider with an adapter of its own."""
    from support.providers.stub_provider import KEY

    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(variable, KEY)

    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)


@pytest.fixture
def every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stub's key is in the variable of every provider."""
    from ktdeval_models.remote.params import presets
    from support.providers.stub_provider import KEY

    for preset in presets().values():
        monkeypatch.setenv(preset.variables[0], KEY)
