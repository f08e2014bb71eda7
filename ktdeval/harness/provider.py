"""Models behind a network, beyond `Model`: who serves it, under which key and price, and what it can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, cast

from ktdeval.harness.messages import Model, ModelRequest, Reply, ToolProtocol
from ktdeval.jsonio import JsonValue


class RemoteModel(Protocol):
    """A `Model` whose calls cost money and can fail for reasons of the network. The suite puts a cache, budgets, a concurrency
    limit and retries in front of one, so an adapter makes exactly one attempt per `reply` and switches off whatever its SDK would
    retry by itself. Making the object needs no key, no SDK and no network.
    """

    provider: str  #: whose limits its calls share, such as `openai`; also the provider of the price table
    name: str  #: the model's name at the provider
    endpoint: str  #: base URL without credentials
    #: tool protocols it can be asked in, the best first; with more than one, which of them works is found out before a run
    protocols: tuple[ToolProtocol, ...]
    price_table: Path | None  #: dated price table of its plugin; None when it has none

    def connect(self) -> None:
        """Import the SDK, find the key, build the client; safe to call again. Asks nothing of the network. Raises ProviderError:
        the SDK or the key is missing or unusable; names the extra to install or the variable to set.
        """

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe, without state between calls. Raises ModelError: this attempt failed; ProviderError: every
        attempt would: key, model name, address, quota or a parameter is refused.
        """

    def settings(self) -> JsonValue:
        """Whatever else of its parameters can change a reply; part of the cache's key. No secrets."""

    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show, such as its key; empty before `connect`."""


_MEMBERS = ("provider", "name", "endpoint", "protocols", "price_table", "connect", "settings", "secrets")


def as_remote(model: Model) -> RemoteModel | None:
    """Return the model as a `RemoteModel` where it is one; None for a model of this machine."""
    return cast(RemoteModel, model) if all(hasattr(model, name) for name in _MEMBERS) else None
