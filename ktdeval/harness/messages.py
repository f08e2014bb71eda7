"""The neutral conversation between the suite and a model: what every adapter translates to its wire format and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ktdeval.jsonio import JsonValue

Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "tool_calls", "length", "refusal", "content_filter"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asks for. `arguments` is the raw text it wrote: JSON if it behaved."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `tool_calls` belongs to assistant turns, `tool_call_id` to tool turns."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def to_json(self) -> JsonValue:
        """A JSON object without empty fields."""
        value: dict[str, JsonValue] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            value["tool_calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.tool_calls]
        if self.tool_call_id is not None:
            value["tool_call_id"] = self.tool_call_id
        return value


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as offered to a model. `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class CallParams:
    """Sampling and transport parameters of a model call (defaults of KTD-Fin Appendix I).

    `seed` is derived per call by the harness, so that a keyless model may use chance and still be a pure function of its request.
    """

    temperature: float = 0.7
    max_tokens: int = 4096
    timeout_s: float = 120.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything that can change a reply. `tool_choice` None lets the model choose; a name forces that tool."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str | None = None
    params: CallParams = CallParams()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, as the provider counted them; keyless models count none."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens)


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's answer. `reasoning` is its separate reasoning channel and is never parsed for a decision."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: FinishReason = "stop"
    usage: Usage = field(default_factory=Usage)
    reasoning: str = ""

    def to_json(self) -> JsonValue:
        """A JSON object without empty fields."""
        value: dict[str, JsonValue] = {"content": self.content, "finish_reason": self.finish_reason}
        if self.tool_calls:
            value["tool_calls"] = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.tool_calls]
        if self.reasoning:
            value["reasoning"] = self.reasoning
        if self.usage != Usage():
            value["usage"] = {"input_tokens": self.usage.input_tokens, "output_tokens": self.usage.output_tokens}
        return value


class Model(Protocol):
    """Turns messages and tools into a reply; raises `ModelError` when the call itself failed."""

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request. Must not keep state between calls: the request holds the whole conversation."""
        ...
