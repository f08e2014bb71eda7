"""Base of all adapters: keys, client, one attempt of a call, and the parts of JSON that all wire formats read and write."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, get_args

from ktdeval.calls import Caller, ContentFiltered, Refusal, bad_response, check_base_url, error_of, json_reply, refusal_of
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import MAX_TOKEN_COUNT, FinishReason, ModelRequest, Reply, ToolCall, ToolProtocol, Usage
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval.yamlio import load_yaml
from ktdeval_models.remote.params import RemoteParams, looks_like_key
from ktdeval_models.remote.transport import Transport, http_libraries

T = TypeVar("T")

PRICE_TABLE = Path(__file__).resolve().parents[1] / "prices.yaml"  # dated price table of these models
KEYRING_SERVICE = "ktdeval"  # under which a key is stored in the system's keyring; the user name is the variable's name
# Raised by code that reads a reply of an unforeseen shape.
_UNREADABLE = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
NO_COUNT = -10 * MAX_TOKEN_COUNT  # stands for what is no count of tokens: a sum with it stays below 0
_NO_NAME_SIGN = re.compile(r"[^A-Za-z0-9_-]")
# Headers, in lower case, that say nothing of who asks: those of HTTP and of the SDK, and versions, which are settings.
_NO_ROUTING = re.compile(r"accept(-.*)?|connection|content-.*|host|user-agent|x-stainless-.*|x-goog-api-client|anthropic-version")
_SECRET_NAME = re.compile(r"auth|cookie|credential|jwt|key|passw|secret|session|signature|token")


class RemoteAdapter:
    """A `ktdeval.api.RemoteModel` without the wire format: a subclass has `path`, `headers`, `encode`, `decode` and `settings`.

    The provider's SDK gives the headers of a request and the HTTP library. Its typed methods, which validate the whole
    conversation again on each call, are not used: they take half of a call's CPU time.

    `default_url` is the address when the user gives none, `variables` are environment variables that may hold the key when the
    user names none.
    """

    package = ""  # module of the SDK
    extra = ""  # extra of ktdeval that installs it
    version = ""  # regular expression of an end of an address that the method's path repeats
    path = ""  # of the method below the endpoint, such as `/chat/completions`
    needs_key: bool = True
    meanings: Mapping[str, int] = {}  # error codes of this server: see `ktdeval.calls.Caller`
    protocols: tuple[ToolProtocol, ...] = ("native", "json_schema", "text")
    price_table: Path | None = PRICE_TABLE
    loads: Callable[[bytes], JsonValue] = staticmethod(loads_strict)  # reads the body of an answer; ValueError: it is not JSON

    def __init__(self, provider: str, name: str, params: RemoteParams, default_url: str, variables: tuple[str, ...]) -> None:
        self.provider = provider
        self.name = name
        self.params = params
        self.endpoint = re.sub(self.version, "", check_base_url(params.base_url or default_url))
        self.variables = (params.api_key_env,) if params.api_key_env else variables
        self.caller = Caller(provider, name, self.endpoint, self.variables)
        self.client: Transport | None = None  # sends requests; None before `connect`
        self._secrets: tuple[str, ...] = ()
        self._routing: Mapping[str, str] = {}
        self._connecting = threading.Lock()

    def connect(self) -> None:
        """Import the SDK, find the key, build the client; safe to call again. Makes no network request.

        Raises ProviderError: the SDK or the key is missing or unusable; names the extra to install or the variable to set.
        """
        if self.client is not None:
            return
        with self._connecting:
            if self.client is not None:  # made by another thread meanwhile
                return
            try:
                sdk = import_module(self.package)
            except ImportError:
                install = f"pip install 'ktdeval[{self.extra}]'"
                raise ProviderError(
                    f"{self.provider}: the package {self.package!r} is not installed; get it with `{install}`"
                ) from None
            # A server that needs no key rarely has one, and asking a keyring may mean a question to the user.
            key = find_key(self.variables, KEYRING_SERVICE if self.needs_key else None)
            if key is None and self.needs_key:
                raise missing_key(self.provider, self.variables)
            self._secrets = (key,) if key else ()
            self.caller = replace(self.caller, secrets=self._secrets, meanings=self.meanings)
            headers = self.headers(sdk, key)
            account = {} if self.params.api_key_env is None else {"api_key_env": self.params.api_key_env}
            self._routing = {**routing_headers(headers, self._secrets), **account}
            self.client = Transport(self.endpoint, headers)

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the headers of a request, with nothing taken from the environment that is not this provider's.

        `key` is None where there is none and none is needed.
        """
        raise NotImplementedError

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call. Raises ProviderError: this provider does not take an option of the run."""
        raise NotImplementedError

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:
        """Return the reply in an answer to `body`. Raises ModelError `bad_response`: it is not of the API's shape."""
        raise NotImplementedError

    def sent(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame and `omit` may name."""
        return body

    def refusal_error(self, refusal: Refusal, content: bytes, body: Mapping[str, Any]) -> ModelError | ProviderError:  # noqa: ARG002
        """Return the error for a refusal; a subclass may read more from its provider's `content`."""
        return error_of(refusal, self.caller, self.sent(body))

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe, without state between calls.

        Raises ModelError: this attempt failed; ProviderError: all would, since key, model name, address, quota or a parameter is
        refused.
        """
        self.connect()
        assert self.client is not None
        body = self.encode(request)
        answer = self.client.post(f"{self.endpoint}{self.path}", body, request.params.timeout_s, self.caller)
        try:
            if not 200 <= answer.status < 300:
                refusal = refusal_of(answer.status, answer.content, answer.headers)
                raise self.refusal_error(refusal, answer.content, body)
            return self.decode(json_reply(answer.content, self.caller, self.sent(body), self.loads), request, body)
        except ContentFiltered:
            return Reply(finish_reason="content_filter")
        except RecursionError:
            problem = "the reply is nested too deeply"
        except _UNREADABLE as error:
            problem = f"the reply can't be read ({type(error).__name__})"
        raise bad_response(self.caller, problem)

    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show: the key; empty before `connect`."""
        return self._secrets

    def routing(self) -> Mapping[str, str]:
        """What says for whom the provider answers, and which way: organisation, project, headers of gateways, variable of the key.

        No secrets; empty before `connect`.
        """
        return self._routing


def plain_headers(client: Any) -> dict[str, str]:
    """Return the headers that an SDK's client sends with each request, its key among them."""
    return {name: value for name, value in client.default_headers.items() if isinstance(value, str)}  # others are left out


def routing_headers(headers: Mapping[str, str], secrets: Collection[str]) -> dict[str, str]:
    """Return the headers, by names in lower case, that say for whom a request is answered, without any that may hold a secret."""
    routing = {}
    for name, value in sorted((name.lower(), value) for name, value in headers.items()):
        is_secret = _SECRET_NAME.search(name) or looks_like_key(value) or any(secret in value for secret in secrets)
        if not is_secret and not _NO_ROUTING.fullmatch(name):
            routing[name] = value
    return routing


def no_network(sdk: ModuleType) -> Any:
    """Return an HTTP client for an SDK that only builds headers. It can't send, so it loads no certificates."""
    return sdk.DefaultHttpxClient(transport=http_libraries()[0].BaseTransport())


# --- API keys, from the environment or the system's keyring; never from options, files or model parameters


def find_key(variables: Sequence[str], service: str | None = KEYRING_SERVICE) -> str | None:
    """Return the first key that is set: environment variables in the order given, then the keyring, when `keyring` is installed.

    Space around a key (such as a final newline) is dropped; an empty variable counts as not set. `service` None: only the
    environment is read. Raises ProviderError: a key holds characters that can't be sent in a header; the key is not shown.
    """
    from_environment = [(f"the environment variable {variable}", os.environ.get(variable, "")) for variable in variables]
    from_keyring = ((f"the keyring's entry {service} {name}", _from_keyring(service, name) or "") for name in variables if service)
    for where, text in chain(from_environment, from_keyring):
        if key := text.strip():
            if not key.isascii() or not key.isprintable() or " " in key:
                raise ProviderError(
                    f"{where} holds a space, a control character or a letter outside ASCII, which no API key has; "
                    "copy the key again"
                )
            return key
    return None


def missing_key(provider: str, variables: Sequence[str]) -> ProviderError:
    """Return the error to raise when a provider's key is not set."""
    names, store = " or ".join(variables), f"keyring set {KEYRING_SERVICE} {variables[0]}"
    return ProviderError(f"{provider}: no API key; set the environment variable {names}, or store it with `{store}`")


def _from_keyring(service: str, variable: str) -> str | None:
    try:
        import keyring  # noqa: PLC0415 - optional, and slow to start: only asked when the environment has no key
        from keyring.errors import KeyringError  # noqa: PLC0415 - as above
    except ImportError:
        return None
    try:
        return keyring.get_password(service, variable)
    except KeyringError:  # no backend on this machine, or it stays locked: the same as no key
        return None


# --- JSON of a given shape


def part(mapping: Mapping[str, Any], name: str, kind: type[T], caller: Caller) -> T:
    """Return a required field. Raises ModelError `bad_response`: it is missing or of another type."""
    value = mapping.get(name)
    if not isinstance(value, kind):
        raise bad_response(caller, f"the reply's {name!r} is {'missing' if value is None else f'a {type(value).__name__}'}")
    return value


def parts(mapping: Mapping[str, Any], name: str, caller: Caller) -> list[dict[str, Any]]:
    """Return a required field that is a list of objects; errors as of `part`."""
    found = part(mapping, name, list, caller)
    if not all(isinstance(item, dict) for item in found):
        raise bad_response(caller, f"the reply's {name!r} holds more than objects")
    return found


def wire_words(api: str) -> dict[str, Any]:
    """Return an API's entry of `wire.yaml`, and under `finish` how a reply ended by the API's word for it."""
    words = load_yaml(Path(__file__).with_name("wire.yaml"))[api]
    return {"finish": by_word({reason: words[reason] for reason in get_args(FinishReason) if reason in words}), **words}


def by_word(meanings: Mapping[Any, Sequence[str]]) -> dict[str, Any]:
    """Word -> meaning, from meaning -> its words."""
    return {word: meaning for meaning, words in meanings.items() for word in words}


def text_of(value: JsonValue) -> str:
    """Return the text of a field that may be missing, text, or a list of parts with text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(item["text"] for item in value if isinstance(item, dict) and isinstance(item.get("text"), str))


def error_details(content: bytes) -> Any:
    """Return `error.details` of an error's body; None where there are none."""
    try:
        match loads_strict(content):
            case {"error": {"details": details}}:
                return details
    except (ValueError, RecursionError):
        pass
    return None


def sent_name(name: str) -> str:
    """Return a tool's name as every server takes it in an earlier turn: a model may have called an impossible name."""
    return _NO_NAME_SIGN.sub("_", name)[:64] or "_"


def sent_arguments(text: str) -> str:
    """Return a call's arguments as every server takes them in an earlier turn: some fail unless they are a JSON object."""
    try:
        is_object = isinstance(loads_strict(text), dict)
    except ValueError:
        is_object = False
    return text if is_object else json.dumps({"malformed_arguments": text}, ensure_ascii=False)


def earlier_calls(request: ModelRequest) -> int:
    """Count the calls of a conversation, for the numbers of new ones that come without an id."""
    return sum(len(message.tool_calls) for message in request.messages)


def finish_of(finish: FinishReason, calls: Collection[ToolCall]) -> FinishReason:
    """Return how a reply ended: a reply with calls ended for them, even if the provider reports `stop`."""
    return "tool_calls" if calls and finish == "stop" else finish


def count(usage: Any, *path: str, missing: int = 0) -> int:
    """Return a count of tokens, `missing` where there is none, and `NO_COUNT` if it is something else."""
    for name in path:
        usage = usage.get(name) if isinstance(usage, dict) else None
    if usage is None:
        return missing
    return usage if type(usage) is int and 0 <= usage <= MAX_TOKEN_COUNT else NO_COUNT


def whole_usage(total: int, usage: Usage) -> Usage:
    """Make counts consistent: a part is never more than its whole, and the output includes the reasoning. Where one of them is no
    count, or the prompt has no tokens, nothing is known: the others would look like all.

    `total`: of input and output, by the provider; 0 if it gives none. Some leave reasoning out of the output, but not of the total.
    """
    if min(total, *usage.to_json().values()) < 0 or usage.input_tokens == 0:
        return Usage()
    read, output = min(usage.cache_read_tokens, usage.input_tokens), max(usage.output_tokens, total - usage.input_tokens)
    write = min(usage.cache_write_tokens, usage.input_tokens - read)
    return Usage(usage.input_tokens, output, min(usage.reasoning_tokens, output), read, write)
