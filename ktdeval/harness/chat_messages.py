"""The conversation between the suite and a model, which adapters translate to and from wire
formats, and the protocols that models implement.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Protocol, cast, get_args, runtime_checkable

from ktdeval.errors import ModelError, PluginError
from ktdeval.harness.call_params import (
    DEFAULT_PARAMS,
    CallParams as CallParams,
    ReasoningEffort as ReasoningEffort,
    ToolProtocol as ToolProtocol,
)
from ktdeval.harness.external.own_settings import OwnSettings
from ktdeval.harness.streaming import Listener
from ktdeval.market.snapshots.snapshot import FloatArray
from ktdeval.masking.text_truncation import shorten
from ktdeval.observation.state import ObservedState
from ktdeval.values.documents.strict_json import MAX_DEPTH, JsonValue, is_nested_within

MAX_REPLY_CHARS = 1 << 20
MAX_REPLY_CALLS = 256
# maximum characters of a call's arguments; about twenty orders take 10,000
MAX_ARGUMENTS_CHARS = 1 << 16
_SHOWN_CHARS = 200
MAX_TOKEN_COUNT = 10**9


def encodable(text: str) -> str:
    """Return text with each lone surrogate (JSON can spell one, such as U+D800) replaced by `?`, so
    that the text can be encoded as UTF-8.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "tool_calls", "length", "refusal", "content_filter"]
_FINISH_REASONS = get_args(FinishReason)


@dataclass(frozen=True, slots=True)
class Opaque:
    """Data that a provider requires back with a turn or a call. Only the provider can read it, such
    as the signature of a model's reasoning, or the reasoning itself.
    """

    provider: str  #: the provider that created it; sent to no other provider
    data: str  #: if nobody else can read it, sent back unchanged, without a leak-guard check
    #: True if `data` is JSON that contains the model's words: the leak guard checks it as
    #: it checks arguments
    has_words: bool = False
    #: the model's words in `data` that its provider rejects if they are changed: if the leak
    #: guard would change them, `data` is not sent back
    signed_words: str = ""

    def to_json(self) -> JsonValue:
        """Return a JSON object without empty fields."""
        return _shown_fields(self)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call that a model requests.

    Example:
        ToolCall("call_1", "submit_answer", '{"answer": "5"}')
    """

    id: str  #: id given by the provider; the answer repeats it
    name: str  #: name of the tool
    arguments: str  #: the raw text that the model wrote, normally JSON
    opaque: Opaque | None = None  #: data that the provider requires back with the call

    def opaque_of(self, provider: str) -> str | None:
        """Return the data that this provider requires back; None without data, or if they
        belong to another provider.
        """
        if self.opaque is None or self.opaque.provider != provider:
            return None

        return self.opaque.data

    def to_json(self) -> JsonValue:
        """Return a JSON object, without the opaque field if it is not set."""
        return _shown_fields(self)


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `tool_calls` belongs to assistant turns, `tool_call_id` to tool turns.

    Example:
        Message("tool", '{"close": 10.5}', tool_call_id="call_1")
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    #: lengths, in ascending order, of prefixes of `content` that other requests of the step share,
    #: for providers whose prompt caches need to know which parts to keep. Not part of any record,
    #: key or comparison.
    shared: tuple[int, ...] = field(default=(), compare=False, repr=False)
    #: for an assistant turn: opaque data from the reply, which the provider requires back
    opaque: Opaque | None = None

    def to_json(self) -> JsonValue:
        """Return a JSON object without empty fields."""
        return _shown_fields(self)


NO_TOOL = ""
"""Tool choice of no tool: the reply is text. The request still lists the tools, so that it begins
like requests that call them: prompt caches of providers count tools as part of the prompt.
"""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as offered to a model. `parameters` is the JSON Schema of an object.

    Example:
        ToolSpec("roll", "Roll a die", {"type": "object", "properties": {}})
    """

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that can change a reply, together with the role that makes the request, for the
    record.

    Example:
        ModelRequest((Message("user", "What is 2 + 3?"),), params=CallParams(seed=7))
    """

    messages: tuple[Message, ...]  #: the conversation
    tools: tuple[ToolSpec, ...] = ()  #: tools offered to the model
    #: None lets the model choose, a name forces that tool, and `NO_TOOL` forbids all tools
    tool_choice: str | None = None
    params: CallParams = DEFAULT_PARAMS  #: sampling and transport parameters
    #: a JSON Schema (of an object) to which the reply's content must conform; None: no constraint
    response_schema: Mapping[str, JsonValue] | None = None
    #: name of the tool in `tools` that submits, set by the session; for local models, never sent
    submit_tool: str = ""
    #: True if a call of `submit_tool` submits although it isn't forced; for local models, never
    #: sent
    may_submit: bool = False
    #: number of the step or sample, from 0, set by the session; for local models, never sent
    step: int | None = None
    #: role in the agent's team that makes the request; recorded with the call, never sent
    role: str | None = None
    #: name of the called model, out of the models that the agent declares (`AgentTraits`); None:
    #: the run's own model. Recorded with the call; models can ignore it.
    model: str | None = None
    #: handle -> the model's own prediction for each of today's names; None if the model does not
    #: predict
    predictions: Mapping[str, float] | None = None
    #: handle -> rank of each of today's names, from 0 for the best, by prediction and then by
    #: today's style factors; tied names share a rank
    places: Mapping[str, int] | None = None
    #: state in the latest message that shows a state, for local models; set by the session, never
    #: sent. An agent that shows less than its observation sets its own state.
    state: ObservedState | None = None
    #: seed for a local model that draws random numbers (`draws_chance`), identical under every mask
    #: and therefore never sent; None for other models
    chance: int | None = None
    #: settings sent by the agent's own program; settings that every API has are also in `params`
    own: OwnSettings | None = None
    #: the run's parameters, if `own` replaced some of them; never sent
    run_params: CallParams | None = None
    #: receives the pieces of the reply as they arrive; None if nobody watches. It affects neither
    #: the reply nor the record.
    listener: Listener | None = field(default=None, compare=False, repr=False)
    #: number of steps or samples in the episode, set by the session; for display, never sent
    total_steps: int | None = None
    #: narrower schema of the arguments of `submit_tool` in this step, set by the session. Under the
    #: tool protocol `json_schema` a server holds the reply to it; no prompt shows it.
    submit_schema: Mapping[str, JsonValue] | None = None

    @property
    def chance_seed(self) -> int:
        """Seed for a model that draws random numbers: `chance`, or the call's seed if `chance` is
        None.
        """
        return self.params.seed if self.chance is None else self.chance


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, as the provider counted them; keyless models count none."""

    #: all prompt tokens, including those read from and written to a provider's prompt cache
    input_tokens: int = 0
    output_tokens: int = 0  #: all reply tokens, including reasoning
    reasoning_tokens: int = 0  #: reasoning tokens within the output
    cache_read_tokens: int = 0  #: input tokens read from the provider's prompt cache
    cache_write_tokens: int = 0  #: input tokens written to that cache

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, name) + getattr(other, name) for name in USAGE_FIELDS))

    def minus(self, part: Usage) -> Usage:
        """Return the usage minus `part`, the usage of some of the calls."""
        return Usage(*(getattr(self, name) - getattr(part, name) for name in USAGE_FIELDS))

    def to_json(self) -> dict[str, int]:
        """Return all five counts by name."""
        return asdict(self)


NO_USAGE = Usage()
USAGE_FIELDS = tuple(part.name for part in fields(Usage))
"""The counts of `Usage`, in its order; step records and cards have them under the same names."""


LOOKED_UP = "the provider says that it looked something up"
"""Note of a reply for which its provider reports a search, a page read or code run on its side."""
UNPARSED_CALL = "a tool call was left in the text"
"""Note of a reply in which a server without a tool parser left a call where the model wrote it."""
THOUGHTS_REFUSED = "earlier thoughts were rejected, and the request was sent without them"
"""Note of a reply to a second try, after the provider rejected its own signatures of thoughts."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer. `reasoning` is its separate reasoning channel, and is never parsed for a
    decision.

    `served_by` is the model that the provider reports (`ktdeval.calls.served_text`). `notes` tell
    readers of the card how the reply was obtained, such as which field the server rejected and what
    replaced it, or that the finish reason is unknown.

    Example:
        call = ToolCall("call_1", "submit_answer", '{"answer": "5"}')
        Reply(tool_calls=(call,), finish_reason="tool_calls")
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = NO_USAGE
    reasoning: str = ""
    served_by: str = ""
    notes: tuple[str, ...] = ()
    opaque: Opaque | None = None  #: data that the provider requires back with this turn
    #: the provider's id for this reply, for traces; not recorded
    response_id: str = field(default="", compare=False)

    @property
    def is_refused(self) -> bool:
        """Return whether the model or its provider's filter refused to answer; any text is then no
        answer.
        """
        return self.finish_reason in ("refusal", "content_filter")

    def as_message(self) -> Message:
        """Return this reply as a turn of the conversation, with the data that its provider requires
        back.
        """
        return Message("assistant", self.content, self.tool_calls, opaque=self.opaque)

    def to_json(self) -> JsonValue:
        """Return a JSON object without empty fields, except for content and finish reason."""
        value: dict[str, JsonValue] = {"content": self.content, "finish_reason": self.finish_reason}
        return {**value, **_shown_fields(self)}


def _shown_fields(value: Any) -> dict[str, JsonValue]:
    """Return the fields of a conversation part as JSON, without fields that have their default
    value. Token counts are always complete.
    """
    shown: dict[str, JsonValue] = {}
    for part in fields(value):
        own = getattr(value, part.name)
        if not part.compare or own in (part.default, []):
            continue

        if isinstance(own, tuple | list):
            shown[part.name] = [_plain(item) for item in own]
        else:
            shown[part.name] = _plain(own)

    return shown


def _plain(value: Any) -> JsonValue:
    plain: JsonValue = value.to_json() if hasattr(value, "to_json") else value
    return plain


def sound(reply: Reply, change: Callable[[str], str] = encodable) -> Reply:
    """Return a reply with `change` applied to each of its texts.

    Raises ModelError (`bad_response`) if the reply exceeds 1,048,576 characters or 256 calls, or
    has impossible token counts. Without these bounds, one reply could stall or end an episode.
    Raises PluginError if a plugin's model did not return a Reply, or returned a Reply with values
    that are not text or with an unknown finish reason.
    """
    problem = _type_problem(reply)
    if problem:
        raise PluginError(problem)

    texts: list[Any] = []

    def note(text: Any) -> Any:
        texts.append(text)
        return text

    _with_texts(reply, note)
    for text in texts:
        if not isinstance(text, str):
            raise PluginError(
                f"the model's reply has {text!r:.80} where a text is expected; arguments of a"
                " ToolCall are JSON text"
            )

    problem = _size_problem(reply, texts)
    if problem:
        raise ModelError("bad_response", f"the reply {problem}")

    changed: Reply = _with_texts(reply, change)
    return changed


def _type_problem(reply: Any) -> str:
    """Return which part of a reply has the wrong type; empty if all types are correct."""
    if not isinstance(reply, Reply):
        return f"the model gave {reply!r:.80}, which is not a ktdeval.api.Reply"

    calls: Any = reply.tool_calls
    is_sequence = isinstance(calls, tuple | list)
    if not is_sequence or not all(isinstance(call, ToolCall) for call in calls):
        return f"the model's reply has tool calls that are not a tuple of ToolCall: {calls!r:.80}"
    if not isinstance(reply.usage, Usage):
        return (
            "the model's reply has a usage that is not a ktdeval.harness.Usage:"
            f" {reply.usage!r:.80}"
        )
    if reply.finish_reason not in _FINISH_REASONS:
        known = ", ".join(_FINISH_REASONS)
        return f"the model's reply ended with {reply.finish_reason!r:.80}, expected one of {known}"

    return ""


def _size_problem(reply: Reply, texts: Sequence[str]) -> str:
    """Return which size limit a reply exceeds; empty if it is within all limits."""
    for name, count in reply.usage.to_json().items():
        if type(count) is not int or not 0 <= count <= MAX_TOKEN_COUNT:
            return f"counts {name} that no call has"

    if sum(map(len, texts)) > MAX_REPLY_CHARS or len(reply.tool_calls) > MAX_REPLY_CALLS:
        return "is larger than 1,048,576 characters or 256 tool calls"

    return ""


_TEXTS: Mapping[type, tuple[str, ...]] = {
    Reply: ("content", "reasoning", "served_by", "response_id", "notes", "tool_calls", "opaque"),
    ToolCall: ("id", "name", "arguments", "opaque"),
    Opaque: ("data", "signed_words"),
}
"""Fields of a reply and its parts that hold texts."""


def _with_texts(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a reply, or part of one, with `change` applied to each string in it."""
    names = next((names for kind, names in _TEXTS.items() if isinstance(value, kind)), None)
    if names is None:
        return change(value)

    changed: dict[str, Any] = {}
    for name in names:
        part = getattr(value, name)
        if name in ("notes", "tool_calls"):
            changed[name] = tuple(_with_texts(item, change) for item in part)
        elif part is not None or name != "opaque":
            changed[name] = _with_texts(part, change)

    return replace(value, **changed)


def with_distinct_ids(reply: Reply, earlier: Iterable[str] = ()) -> Reply:
    """Return a reply whose calls have unique ids, so that each call can be answered.

    Some servers give no id, or give several calls the same id. Such calls are numbered through the
    conversation. `earlier` contains the ids of the conversation's calls so far.
    """
    taken = set(earlier)
    number = len(taken)
    calls: list[ToolCall] = []

    for call in reply.tool_calls:
        number += 1
        call_id = call.id
        if not call_id or call_id in taken:
            call_id = _free_id(number, taken)
            call = replace(call, id=call_id)

        taken.add(call_id)
        calls.append(call)

    return replace(reply, tool_calls=tuple(calls))


def _free_id(number: int, taken: Container[str]) -> str:
    while f"call_{number}" in taken:
        number += 1
    return f"call_{number}"


def readable(call_: ToolCall) -> ToolCall:
    """Return the call. Its arguments are truncated if they are too long or too deeply nested to be
    read, and are then reported as malformed JSON.
    """
    text = call_.arguments
    if len(text) <= MAX_ARGUMENTS_CHARS and is_nested_within(text, MAX_DEPTH):
        return call_
    limits = f"(cut: over {MAX_ARGUMENTS_CHARS:,} characters or {MAX_DEPTH} levels)"
    return replace(call_, arguments=f"{shorten(text, _SHOWN_CHARS)} {limits}")


class Model(Protocol):
    """Turns messages and tools into a reply; raises `ModelError` if the call itself failed.

    A model that uses a network is also a `RemoteModel`; a model that ranks a market is also a
    `Predictor`. Its `traits`, if declared, are `ModelTraits`.

    Example:
        class Echo:
            def reply(self, request):
                return Reply(request.messages[-1].content)
    """

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. The model must not keep state between calls, since the request
        contains the whole conversation.
        """


@runtime_checkable
class Predictor(Protocol):
    """Model trained on style factors. It sees only numbers, in an order derived from those numbers.
    They therefore reveal no code or day, and no mask changes a score; names with the same history
    get the same score.

    The model's predictions are recorded with the step. Each request of the step contains them,
    keyed by handle (`predictions`), with the rank of each name (`places`).
    """

    history_days: int  #: lookback in trading days, 1 or more

    def predict(self, history: FloatArray) -> FloatArray:
        """Return [N] scores (higher is better, NaN if unknown) from raw factors (`FACTOR_NAMES`) of
        shape [history_days, N, K], oldest first, NaN if unknown. A name's score must depend only on
        its own history and on the day.
        """


class RemoteModel(Protocol):
    """A `Model` whose calls cost money and can fail because of the network. The suite puts a cache,
    budgets, a concurrency limit and retries in front of it. An adapter therefore makes exactly one
    attempt per `reply`, and disables the retries of its SDK. Creating the object requires no key,
    SDK or network.
    """

    #: provider whose limits the calls share, such as `openai`; also the provider in the price table
    provider: str
    name: str  #: the model's name at the provider
    endpoint: str  #: base URL without credentials
    #: tool protocols that the model supports, best first; if there are several, a check before a
    #: run finds out which of them works
    protocols: tuple[ToolProtocol, ...]
    #: dated price table of the model's plugin; None if the plugin has no table
    price_table: Path | None

    def connect(self) -> None:
        """Import the SDK, find the key and build the client, without network access. It is safe to
        call this method more than once. Raises ProviderError, which says what to fix.
        """

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt. Thread-safe. Raises ModelError if this attempt failed, and
        ProviderError if every attempt would fail.
        """

    def settings(self) -> JsonValue:
        """Return the model's other parameters that can change a reply. They are part of the cache
        key, and contain no secrets.
        """

    def secrets(self) -> tuple[str, ...]:
        """Return strings that no message may show, such as the API key; empty before `connect`."""


_MEMBERS = (
    "provider",
    "name",
    "endpoint",
    "protocols",
    "price_table",
    "connect",
    "settings",
    "secrets",
)


def as_remote(model: Model) -> RemoteModel | None:
    """Return the model as a `RemoteModel`; None if the model is local."""
    return cast(RemoteModel, model) if all(hasattr(model, name) for name in _MEMBERS) else None
