"""Base of all adapters: names, key, client, and the course of one attempt."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from ktdeval.calls import Caller, ContentFiltered, Refusal, bad_response, error_of, json_reply, refusal_of
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import ModelRequest, Reply, ToolProtocol
from ktdeval_models.remote.keys import KEYRING_SERVICE, find_key, missing_key
from ktdeval_models.remote.params import RemoteParams
from ktdeval_models.remote.transport import Transport, check_base_url

PRICE_TABLE = Path(__file__).resolve().parents[1] / "prices.yaml"
"""Dated price table of these models."""


class RemoteAdapter:
    """A `ktdeval.api.RemoteModel` less the wire format: a subclass has `headers`, `path`, `encode`, `decode` and `settings`.

    The provider's SDK gives the headers of a request and the HTTP library. Its typed methods, which look at every field of the
    whole conversation again on each call, are left out: that is half of a call's CPU time. `params`: of the provider; `base_url`
    and `api_key_env` are used here. `variables`: environment variables that may hold the key, when the user names none. `client`:
    sends requests; None before `connect`.
    """

    package = ""
    """Module of the SDK."""
    extra = ""
    """Extra of ktdeval that installs it."""
    needs_key: bool = True
    meanings: Mapping[str, int] = {}
    """Error codes of this server: see `ktdeval.calls.Caller`."""
    protocols: tuple[ToolProtocol, ...] = ("native", "json_schema", "text")
    price_table: Path | None = PRICE_TABLE

    def __init__(self, provider: str, name: str, params: RemoteParams, default_url: str, variables: tuple[str, ...]) -> None:
        self.provider = provider
        self.name = name
        self.params = params
        self.endpoint = check_base_url(params.base_url or default_url)
        self.variables = (params.api_key_env,) if params.api_key_env else variables
        self.caller = Caller(provider, name, self.endpoint, self.variables)
        self.client: Transport | None = None
        self._secrets: tuple[str, ...] = ()
        self._connecting = threading.Lock()

    def connect(self) -> None:
        """Import the SDK, find the key, build the client; safe to call again. Asks nothing of the network. Raises ProviderError:
        the SDK or the key is missing or unusable; names the extra to install or the variable to set.
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
            self.client = Transport(self.endpoint, self.headers(sdk, key))

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the headers of a request, with nothing taken from the environment that is not this provider's. `key`: the API key;
        None where there is none and none is needed.
        """
        raise NotImplementedError

    def path(self) -> str:
        """Return the method's path below the endpoint, such as `/chat/completions`."""
        raise NotImplementedError

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call. Raises ProviderError: an option of the run that this provider does not take; says which."""
        raise NotImplementedError

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:
        """Return the reply in an answer to `body`. Raises ModelError: `bad_response`: the answer is not of the API's shape."""
        raise NotImplementedError

    def sent(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame and `omit` may name."""
        return body

    def refusal_error(self, refusal: Refusal, content: bytes, body: Mapping[str, Any]) -> ModelError | ProviderError:  # noqa: ARG002
        """Return the error for a refusal; a subclass reads its provider's `content` closer."""
        return error_of(refusal, self.caller, self.sent(body))

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe, without state between calls. Raises ModelError: this attempt failed. Raises ProviderError:
        every attempt would: key, model name, address, quota or a parameter is refused.
        """
        self.connect()
        assert self.client is not None
        body = self.encode(request)
        answer = self.client.post(f"{self.endpoint}{self.path()}", body, request.params.timeout_s, self.caller)
        try:
            if not 200 <= answer.status < 300:
                refusal = refusal_of(answer.status, answer.content, answer.headers)
                raise self.refusal_error(refusal, answer.content, body)
            return self.decode(json_reply(answer.content, self.caller, self.sent(body)), request, body)
        except ContentFiltered:
            return Reply(finish_reason="content_filter")
        except RecursionError:
            raise bad_response(self.caller, "the reply is nested too deeply") from None

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


def plain_headers(client: Any) -> dict[str, str]:
    """Return the headers that an SDK's client sends with each request, its key among them."""
    return {name: value for name, value in client.default_headers.items() if isinstance(value, str)}  # others are left out
