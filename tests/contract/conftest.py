"""The keys of the stub, for tests of adapters."""

from __future__ import annotations

import pytest


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
