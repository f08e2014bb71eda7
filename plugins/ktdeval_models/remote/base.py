"""Base class of all adapters: keys, client, and single attempts at a call. Also the JSON helpers
shared by all wire formats.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ktdeval.calls import (
    Batches,
    Caller,
    ContentFiltered,
    PromptCacheRules,
    ProviderRefusal,
    bad_response,
    check_base_url,
    error_of,
    is_reply,
    json_reply,
    one_line,
    quote_server_text,
    refusal_of,
)
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import (
    LOOKED_UP,
    MAX_TOKEN_COUNT,
    THOUGHTS_REFUSED,
    UNPARSED_CALL,
    Listener,
    ModelRequest,
    ModelTraits,
    Reply,
    ReplyPiece,
    ToolCall,
    ToolProtocol,
    Usage,
    with_distinct_ids,
)
from ktdeval.values import JsonValue, facts_file, loads_strict
from ktdeval_models.remote.keys import KEYRING_SERVICE, find_key, missing_key
from ktdeval_models.remote.params import RemoteParams
from ktdeval_models.remote.replies.finish_reasons import (
    NO_TOOL_PARSER,
    ReplyEnding,
    cut_at_limit,
    leaves_call_as_text,
    read_ending,
)
from ktdeval_models.remote.replies.lookups import may_look_up, reports_lookup
from ktdeval_models.remote.replies.read_tool_calls import loads_reply, sent_ids, unread_reply
from ktdeval_models.remote.replies.refused_thoughts import rejects_thoughts, without_thoughts
from ktdeval_models.remote.requests.accepted_forms import RequestForms, with_tried
from ktdeval_models.remote.requests.own_fields import OwnFields, OwnForm
from ktdeval_models.remote.requests.prompt_caches import published_rules
from ktdeval_models.remote.requests.request_headers import (
    RequestSigner,
    import_sdk,
    no_network,
    routing_headers,
    secret_headers,
)
from ktdeval_models.remote.streams.assembly import StreamAssembler, unheard
from ktdeval_models.remote.streams.streaming_support import refuses_stream
from ktdeval_models.remote.transport import (
    BodyError,
    HttpAnswer,
    HttpRequest,
    TimeLimits,
    Transport,
    json_content,
)

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

# dated price table of these models
PRICE_TABLE = facts_file("prices.yaml")
# Raised by code that reads a reply of unexpected shape.
_UNREADABLE = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
# marks a missing or invalid token count: any sum that includes this value stays below 0
NO_COUNT = -10 * MAX_TOKEN_COUNT
_NO_NAME_SIGN = re.compile(r"[^A-Za-z0-9_-]")


class RemoteAdapter:
    """A `ktdeval.api.RemoteModel` without the wire format. A subclass provides `path`, `headers`,
    `encode`, `decode` and `settings`.

    The provider's SDK supplies the request headers and the HTTP library. Its typed methods are not
    used: they validate the whole conversation again on each call, which takes half of the call's
    CPU time.

    `default_url`: address if the user gives none; `variables`: environment variables that may hold
    the key if the user names none.
    """

    package = ""  # module of the SDK
    extra = ""  # extra of ktdeval that installs the SDK
    # regular expression for the end of a base address that repeats part of the method's path
    version = ""
    path = ""  # path of the API method below the endpoint, such as `/chat/completions`
    needs_key: bool = True
    meanings: Mapping[str, int] = {}  # this server's error codes: see `ktdeval.calls.Caller`
    protocols: tuple[ToolProtocol, ...] = ("native", "json_schema", "text")
    price_table: Path | None = PRICE_TABLE
    may_drop_thoughts = True  # whether a request is valid without the thoughts of earlier turns
    own_form = OwnForm("")  # how the adapter accepts settings that an agent's own program sends
    # parses the body of an answer; raises ValueError if the body is not JSON
    loads: Callable[[bytes], JsonValue] = staticmethod(loads_reply)

    def __init__(
        self,
        provider: str,
        name: str,
        params: RemoteParams,
        default_url: str,
        variables: tuple[str, ...],
    ) -> None:
        self.provider = provider
        self.name = name
        self.params = params
        self.endpoint = re.sub(self.version, "", check_base_url(params.base_url or default_url))
        self.variables = (params.api_key_env,) if params.api_key_env else variables
        self.caller = Caller(provider, name, self.endpoint, self.variables)
        self.client: Transport | None = None  # sends requests; None before `connect`
        self._secrets: tuple[str, ...] = ()
        self._routing: Mapping[str, str] = {}
        #: batch interface; None unless the provider has a supported one
        self._batches: Batches | None = None
        self._connecting = threading.Lock()
        self.own = OwnFields(self.own_form)
        self.forms = RequestForms({})  # the forms in which the server accepts parts of a request
        self._has_told_of_calls = False
        # why replies are not streamed, in the server's words; empty if unknown
        self._unstreamed = ""

    def connect(self) -> None:
        """Import the SDK, find the key and build the client. Safe to call again; makes no network
        request.

        Raises ProviderError if the SDK or the key is missing or unusable. The message names the
        extra to install or the variable to set.
        """
        if self.client is not None:
            return

        with self._connecting:
            if self.client is not None:  # another thread has created it in the meantime
                return

            sdk = import_sdk(self.package, self.provider, self.extra)
            # A server that needs no key rarely has one, and reading a keyring may open a prompt.
            key = find_key(self.variables, KEYRING_SERVICE if self.needs_key else None)
            sign = None
            if key is None and self.needs_key:
                sign = partial(self._sign_request, self.signer())

            headers = self.headers(sdk, key)
            self._secrets = tuple(dict.fromkeys((*filter(None, (key,)), *secret_headers(headers))))
            self.caller = replace(
                self.caller, secrets=self._secrets, meanings=self.meanings, path=self.path
            )
            account = {}
            if self.params.api_key_env is not None:
                account["api_key_env"] = self.params.api_key_env

            self._routing = {
                **routing_headers(headers, self._secrets),
                **account,
                **self.account_fields(),
            }
            self.client = Transport(self.endpoint, headers, sign)

    def signer(self) -> RequestSigner:
        """Return the credentials used without a key. Raises ProviderError if they are missing."""
        raise missing_key(self.provider, self.variables)

    def settings(self) -> dict[str, JsonValue]:
        """Return the settings that change how a request is encoded, or which server answers it."""
        whole = {} if self.params.stream else {"stream": False}
        return {"omit": list(self.params.omit), "extra_body": dict(self.params.extra_body), **whole}

    def account_fields(self) -> Mapping[str, str]:
        """Return additional fields that identify the account, without secrets."""
        return {}

    def _sign_request(
        self, signer: RequestSigner, method: str, url: str, content: bytes
    ) -> Mapping[str, str]:
        """Return the headers of one request, and remember the secrets in them."""
        headers = signer.headers(method, url, content)
        with self._connecting:
            known = dict.fromkeys((*self._secrets, *signer.secrets()))
            if len(known) > len(self._secrets):
                self._secrets = tuple(known)
                self.caller = replace(self.caller, secrets=self._secrets)

        return headers

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the headers of a request. Values from the environment are used only if they belong
        to this provider. `key` is None if it is missing but not needed.
        """
        raise NotImplementedError

    def client_headers(
        self, sdk: ModuleType, kind: Callable[..., Any], **options: Any
    ) -> dict[str, str]:
        """Return the headers, including the key, that the SDK's client of class `kind` sends."""
        with kind(base_url=self.endpoint, http_client=no_network(sdk), **options) as client:
            sent = client.default_headers.items()
            return {name: value for name, value in sent if isinstance(value, str)}

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the body of a call. Raises ProviderError if an option is not supported."""
        raise NotImplementedError

    def decode(
        self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]
    ) -> Reply:
        """Return the reply in the answer to `body`. Raises ModelError `bad_response` if the answer
        does not have the API's shape.
        """
        raise NotImplementedError

    def ending(
        self, word: Any, content: str, calls: Sequence[ToolCall], request: ModelRequest
    ) -> ReplyEnding:
        """Return how a reply ended, by the server's stop reason. Raises as `read_ending` does."""
        return read_ending(word, content, calls, request, self.caller)

    def list_fields(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame and `omit` may list."""
        return body

    def untaken(self, body: Mapping[str, Any]) -> Collection[str]:  # noqa: ARG002 - of a subclass
        """Return the call parameters that a request omits, named as in `CallParams`."""
        return ()

    def refusal_error(
        self,
        refusal: ProviderRefusal,
        content: bytes,  # noqa: ARG002
        body: Mapping[str, Any],
    ) -> ModelError | ProviderError:
        """Return the error for a refusal. A subclass may read more details from `content`."""
        return error_of(refusal, self.caller, self.list_fields(body))

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe, without state between calls.

        Raises ModelError if only this attempt failed. Raises ProviderError if every attempt would
        fail, because the key, model name, address, quota or a parameter is refused.
        """
        self.connect()
        reply = self._attempt(request)
        return with_distinct_ids(reply, sent_ids(request))

    def _attempt(self, request: ModelRequest) -> Reply:
        """Send the request in the forms that the server accepts; if refused, try the next form."""
        forms = self.forms.current()
        tried: list[str] = []
        notes: tuple[str, ...] = ()
        stream = self._stream_of(request)
        asked = request
        fixed = (*self.params.extra_body, *self.params.omit)
        while True:
            request = self.own.fit_request(asked)
            body = self.own.add_own(self.encode_as(request, forms), request, fixed)
            answer = self._post(body, request, stream)
            if 200 <= answer.status < 300:
                break

            refusal = refusal_of(answer.status, answer.content, answer.headers)
            if (unread := unread_reply(refusal, answer.content, request)) is not None:
                return unread

            if stream is not None and refuses_stream(refusal):
                self._unstreamed = f"refused: {one_line(refusal.message, self._secrets)}"
                stream = self._stream_of(request)
                continue

            if self.own.learn_refusal(refusal, request):
                continue

            has_thoughts = self.may_drop_thoughts and any(each.opaque for each in asked.messages)
            if has_thoughts and rejects_thoughts(refusal):
                asked, notes = without_thoughts(asked), (THOUGHTS_REFUSED,)
                continue

            further = self.forms.after_refusal(forms, refusal, self.parts_of(body, request))
            if further is None:
                return self._reply_or_raise(refusal, answer.content, body, tried)

            changed = next(part for part in further if further[part] != forms[part])
            tried.append(f"{changed} {forms[changed]}")
            forms = further

        reply = self._noted_if_unparsed(self._read(answer.content, request, body), request)
        sent = self.parts_of(body, request)
        self.forms.learn({part: forms[part] for part in sent})
        notes += self.forms.notes(forms, sent)
        notes += self.own.notes(asked, request, self.untaken(body), fixed)

        return replace(reply, notes=(*reply.notes, *notes)) if notes else reply

    def _noted_if_unparsed(self, reply: Reply, request: ModelRequest) -> Reply:
        """Return a reply, with a note if a call was left in its text; warn the user once."""
        if not leaves_call_as_text(reply, request):
            return reply

        with self._connecting:
            is_first = not self._has_told_of_calls
            self._has_told_of_calls = True
        if is_first:
            _LOG.warning(NO_TOOL_PARSER, f"{self.provider}/{self.name}")
        return replace(reply, notes=(*reply.notes, UNPARSED_CALL))

    def read_answer(self, status: int, content: bytes, request: ModelRequest) -> Reply:
        """Return the reply in an answer that arrived separately from its request, for example from
        a batch. Raises the same errors as `reply`.
        """
        body = self.encode(request)
        if 200 <= status < 300:
            return with_distinct_ids(self._read(content, request, body), sent_ids(request))

        refusal = refusal_of(status, content, {})
        if (unread := unread_reply(refusal, content, request)) is not None:
            return unread
        return self._reply_or_raise(refusal, content, body, ())

    def assembler(self, hear: Listener) -> StreamAssembler | None:  # noqa: ARG002 - of a subclass
        """Return the assembler for one streamed answer; None if this API does not stream."""
        return None

    def _stream_of(self, request: ModelRequest) -> StreamAssembler | None:
        """Return the assembler for the answer to a request; None if the answer is not streamed. Tell
        the listener, if there is one, that a reply begins, or why it is not streamed.
        """
        hear = request.listener or unheard
        stream = None
        if self.params.stream and not self._unstreamed:
            stream = self.assembler(hear)

        if stream is None:
            hear(ReplyPiece("whole", self._unstreamed or "not streamed from this API"))
        else:
            hear(ReplyPiece("begun"))
        return stream

    def _post(
        self, body: Mapping[str, Any], request: ModelRequest, stream: StreamAssembler | None
    ) -> HttpAnswer:
        assert self.client is not None
        url = f"{self.endpoint}{self.path}"
        limits = TimeLimits(request.params.first_limit_s, request.params.timeout_s)
        if stream is None:
            sent = HttpRequest("POST", url, json_content(body))
            return self.client.send(sent, limits, self.caller)

        asked = {**body, **stream.request_fields}
        sent = HttpRequest("POST", url, json_content(asked), stream)
        answer = self.client.send(sent, limits, self.caller)
        if not answer.is_streamed:
            return answer
        return replace(answer, content=self._assemble_stream(stream))

    def _assemble_stream(self, stream: StreamAssembler) -> bytes:
        """Return a streamed answer in the form of an unstreamed one. Raises ModelError
        `bad_response` if the answer is incomplete or has no token counts. If counts are missing,
        later attempts are not streamed.
        """
        try:
            content = stream.answer()
        except BodyError as error:
            problem = str(error)
        else:
            if not stream.is_uncounted:
                return content

            self._unstreamed = "its streams have no count of tokens"
            problem = "the streamed reply has no count of tokens"

        raise bad_response(self.caller, problem)

    def _reply_or_raise(
        self,
        refusal: ProviderRefusal,
        content: bytes,
        body: Mapping[str, Any],
        tried: Sequence[str],
    ) -> Reply:
        """Return an empty reply if a content filter refused; otherwise raise the error."""
        error = self.refusal_error(refusal, content, body)
        if isinstance(error, ContentFiltered):
            return Reply(finish_reason="content_filter")
        raise with_tried(error, tried)

    def _read(self, content: bytes, request: ModelRequest, body: Mapping[str, Any]) -> Reply:
        try:
            answer = json_reply(content, self.caller, self.list_fields(body), self.loads)
            try:
                reply = self.decode(answer, request, body)
            except ModelError as error:
                raise self._with_words(error, answer, content) from None

            reply = cut_at_limit(reply, request)
            if reports_lookup(answer):
                return replace(reply, notes=(*reply.notes, LOOKED_UP))
            return reply
        except ContentFiltered:
            return Reply(finish_reason="content_filter")
        except RecursionError:
            problem = "the reply is nested too deeply"
        except _UNREADABLE as error:
            problem = f"the reply can't be read ({type(error).__name__})"

        raise bad_response(self.caller, problem)

    def _with_words(
        self, error: ModelError, answer: Mapping[str, JsonValue], content: bytes
    ) -> ModelError:
        """Return the error for an unreadable answer, quoted if it is not a reply in any API."""
        if error.kind != "bad_response" or is_reply(answer):
            return error

        words = quote_server_text(content.decode("utf-8", "replace"), self._secrets)
        return ModelError(error.kind, f"{error}; it answered{words}")

    def look_up(self, url: str, timeout_s: float) -> JsonValue:
        """Return the JSON at one of the provider's addresses; None if not found. Raises
        ProviderError like `connect`.
        """
        self.connect()
        assert self.client is not None
        try:
            answer = self.client.send(HttpRequest("GET", url), TimeLimits(timeout_s), self.caller)
            return self.loads(answer.content) if answer.status == 200 else None
        except (ModelError, ValueError, RecursionError):
            return None

    def encode_as(self, request: ModelRequest, forms: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        """Return the body of a call, with each part in the given form."""
        return self.encode(request)

    def parts_of(self, body: Mapping[str, Any], request: ModelRequest) -> list[str]:  # noqa: ARG002
        """Return the parts of a request that servers accept in different forms."""
        return []

    def secrets(self) -> tuple[str, ...]:
        """Strings that must not appear in any message: the key, and secrets in other headers. Empty
        before `connect`.
        """
        return self._secrets

    @cached_property
    def traits(self) -> ModelTraits:
        """Traits of the model. They are created once, because each call needs them."""
        return self.make_traits()

    def make_traits(self) -> ModelTraits:
        """Return the model's traits. They include the headers that route its requests, the
        provider's batches and prompt cache, and whether the model may look things up.
        """
        names = (self.name, str(getattr(self.params, "deployment", None) or ""))
        return ModelTraits(
            routing=self._sent_routing,
            batches=self._batches,
            may_look_up=may_look_up(names, self.endpoint, self.params.extra_body),
            forces_tool=self._forces_tool,
            prompt_cache=self._cache_rules(),
        )

    def _forces_tool(self, request: ModelRequest) -> bool:
        """Return whether what is sent for a request forces its tool."""
        return not {"tool_choice", "toolConfig"}.isdisjoint(self.encode(request))

    def _cache_rules(self) -> PromptCacheRules | None:
        """Return the rules of the provider's prompt cache; None if they are not known."""
        return published_rules(self.provider, self.name)

    def _sent_routing(self) -> Mapping[str, str]:
        """Account and route of the requests: organisation, project, gateway headers, and the name
        of the variable that holds the key. Contains no secrets; empty before `connect`.
        """
        return self._routing


# --- JSON fields of a required type


def empty_reply(usage: Usage, served_by: str, what: str, caller: Caller) -> Reply:
    """Return an empty reply if the answer lacks `what` but its tokens are counted. Such an answer
    was paid for, and a retry of the same request would cost again. Raises ModelError `bad_response`
    if no tokens are counted.
    """
    if usage == Usage():
        raise bad_response(caller, f"the reply's {what!r} is empty, and no tokens are counted")
    return Reply(usage=usage, served_by=served_by, notes=(f"an empty {what!r}",))


def part(mapping: Mapping[str, Any], name: str, kind: type[T], caller: Caller) -> T:
    """Return a required field. Raises ModelError `bad_response` if it is not of type `kind`."""
    value = mapping.get(name)
    if not isinstance(value, kind):
        raise bad_response(
            caller,
            f"the reply's {name!r} is"
            f" {'missing' if value is None else f'a {type(value).__name__}'}",
        )
    return value


def parts(mapping: Mapping[str, Any], name: str, caller: Caller) -> list[dict[str, Any]]:
    """Return a required field that is a list of objects. Raises the same errors as `part`."""
    found = part(mapping, name, list, caller)
    if not all(isinstance(item, dict) for item in found):
        raise bad_response(caller, f"the reply's {name!r} holds more than objects")
    return found


def text_of(value: JsonValue) -> str:
    """Return the text of a field. The field may be missing, a string, or a list of parts with text."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    return "".join(
        item["text"]
        for item in value
        if isinstance(item, dict) and isinstance(item.get("text"), str)
    )


def error_details(content: bytes) -> Any:
    """Return `error.details` from an error's body; None if absent."""
    try:
        match loads_strict(content):
            case {"error": {"details": details}}:
                return details
    except (ValueError, RecursionError):
        pass
    return None


def sent_name(name: str) -> str:
    """Return a tool name in the form that every server accepts in earlier turns. A model may have
    called a tool by a name that servers refuse.
    """
    return _NO_NAME_SIGN.sub("_", name)[:64] or "_"


def count(usage: Any, *path: str, missing: int = 0) -> int:
    """Return a token count: `missing` if it is absent, `NO_COUNT` if its value is not a count."""
    found = usage
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None

    if found is None:
        return missing
    if type(found) is int and 0 <= found <= MAX_TOKEN_COUNT:
        return found
    return NO_COUNT


def whole_usage(total: int, usage: Usage) -> Usage:
    """Make counts consistent: a part never exceeds its whole, and the output includes the
    reasoning.

    If any count is invalid, or the prompt has no tokens, all counts are dropped, since a sum of the
    remaining counts would be too low. `total`: the provider's sum of input and output; 0 if the
    provider gives none. Some providers exclude reasoning from the output, but include it in the
    total.
    """
    counts = (
        total,
        usage.input_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
    )
    if min(counts) < 0 or usage.input_tokens == 0:
        return Usage()

    read = min(usage.cache_read_tokens, usage.input_tokens)
    output = max(usage.output_tokens, total - usage.input_tokens)
    write = min(usage.cache_write_tokens, usage.input_tokens - read)

    return Usage(usage.input_tokens, output, min(usage.reasoning_tokens, output), read, write)
