"""What every adapter has in common: its names, its key, its client, made once and only when it is needed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ktdeval.api import JsonValue, ProviderError, ToolProtocol
from ktdeval_models.remote.errors import Caller
from ktdeval_models.remote.http import ask_json, check_base_url
from ktdeval_models.remote.keys import KEYRING_SERVICE, find_key, missing_key
from ktdeval_models.remote.params import RemoteParams
from ktdeval_models.remote.transport import http_client, response_class

PRICE_TABLE = Path(__file__).resolve().parents[1] / "prices.yaml"
"""The dated price table of these models."""


class RemoteAdapter:
    """A `ktdeval.api.RemoteModel` on an SDK, less the wire format: a subclass has `make_client`, `reply` and `settings`.

    Args:
        provider: the provider's name, as in `--model`.
        name: the model's name at the provider.
        params: of the provider; `base_url` and `api_key_env` are used here.
        default_url: address when the user gives none.
        variables: environment variables that may hold the key, when the user names none.

    Attributes:
        sdk: the SDK's module; None before `connect`.
        client: the SDK's client; None before `connect`.
    """

    package = ""
    """Module of the SDK."""
    extra = ""
    """The extra of ktdeval that installs it."""
    needs_key: bool = True
    meanings: Mapping[str, int] = {}
    """Error codes of this server: see `ktdeval_models.remote.errors.Caller`."""
    protocols: tuple[ToolProtocol, ...] = ("native", "json_schema", "text")
    price_table: Path | None = PRICE_TABLE

    def __init__(self, provider: str, name: str, params: RemoteParams, default_url: str, variables: tuple[str, ...]) -> None:
        self.provider = provider
        self.name = name
        self.params = params
        self.endpoint = check_base_url(params.base_url or default_url)
        self.variables = (params.api_key_env,) if params.api_key_env else variables
        self.caller = Caller(provider, name, self.endpoint, self.variables)
        self.sdk: ModuleType | None = None
        self.client: Any = None
        self._response_class: Any = None
        self._secrets: tuple[str, ...] = ()
        self._connecting = threading.Lock()

    def connect(self) -> None:
        """Import the SDK, find the key, build the client; safe to call again. Asks nothing of the network.

        Raises:
            ProviderError: the SDK or the key is missing or unusable; names the extra to install or the variable to set.
        """
        if self.client is not None:
            return
        with self._connecting:
            if self.client is not None:  # made by another thread meanwhile
                return
            sdk = self._import_sdk()
            # A server that needs no key rarely has one, and asking a keyring may mean a question to the user.
            key = find_key(self.variables, KEYRING_SERVICE if self.needs_key else None)
            if key is None and self.needs_key:
                raise missing_key(self.provider, self.variables)
            self._secrets = (key,) if key else ()
            self.caller = replace(self.caller, secrets=self._secrets, meanings=self.meanings)
            transport = http_client(sdk, self.endpoint)
            self.sdk = sdk
            self._response_class = response_class(sdk)
            self.client = self.make_client(sdk, key, transport)

    def make_client(self, sdk: ModuleType, key: str | None, transport: Any) -> Any:
        """The SDK's client, without retries of its own, and with nothing taken from the environment.

        Args:
            sdk: the SDK's module.
            key: the API key; None where there is none and none is needed.
            transport: for the SDK's `http_client`.
        """
        raise NotImplementedError

    def post(self, path: str, body: Mapping[str, JsonValue], timeout_s: float) -> dict[str, JsonValue]:
        """Send one request and read the JSON object that comes back, all of it within `timeout_s`.

        This is the SDKs' way to call an endpoint as it is. Their typed methods look at every field of the whole conversation
        again on each call, and drop nothing and add nothing: half of a call's CPU time.

        Args:
            path: below the base URL, such as `/chat/completions`.
            body: the request.
            timeout_s: longest time from connecting to the last byte, in seconds.

        Raises:
            ModelError, ProviderError: as `ask_json`.
        """
        self.connect()
        assert self.sdk is not None
        client, cast_to, options = self.client, self._response_class, {"timeout": timeout_s}
        return ask_json(self.sdk, lambda: client.post(path, cast_to=cast_to, body=body, options=options), self.caller, body)

    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show: the key; empty before `connect`."""
        return self._secrets

    def _import_sdk(self) -> ModuleType:
        try:
            return import_module(self.package)
        except ImportError:
            install = f"pip install 'ktdeval[{self.extra}]'"
            raise ProviderError(
                f"{self.provider}: the package {self.package!r} is not installed; get it with `{install}`"
            ) from None
