"""Messages API of Anthropic: a neutral request to the body of a call, and what came back to a neutral reply.

Sources: the API's reference (https://platform.claude.com/docs/en/api/messages), its pages on thinking and tool use, and the types
of the `anthropic` package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ktdeval.calls import Caller, bad_response
from ktdeval.errors import ProviderError
from ktdeval.harness import CallParams, FinishReason, Message, ModelRequest, Opaque, Reply, ToolCall, Usage
from ktdeval.jsonio import dumps_canonical, loads_strict
from ktdeval_models.remote.params import AnthropicParams
from ktdeval_models.remote.wire import count, sent_arguments, whole_usage

Body = dict[str, Any]
Block = dict[str, Any]

_FINISH: Mapping[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
"""`pause_turn` is missing: it belongs to tools that run at the provider, which are never offered."""

_NO_SAMPLING = "2026-10-21"
"""From this version of the API on, temperature, top_p and top_k are refused whatever their value (notes of that version)."""

# "What's new in Claude …", pages of the models named: a forced tool_choice returns an error.
_UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|(fable|mythos)-5-[12])(-\d{8})?")

_MIN_BUDGET = 1024
_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")


def encode(request: ModelRequest, caller: Caller, params: AnthropicParams) -> Body:
    """Return the body of a call. Raises ProviderError: an option of the run that this API does not know; says which."""
    thinking = _thinking(request.params, caller, params)
    turns = list(_turns(request.messages, caller.provider))
    if thinking is not None and thinking["type"] == "enabled" and _lacks_thought(turns):
        # The thoughts before the last calls were not kept (they came as text, or the agent wrote the calls). With them missing the
        # API refuses a budget inside a round of tool use, so this one call goes without.
        thinking = {"type": "disabled"}
        turns = list(_turns(request.messages, None))
    body: Body = {"model": caller.model, "max_tokens": request.params.max_output_tokens, "messages": turns}
    system = [text for message in request.messages if message.role == "system" and (text := _said(message))]
    if system:
        body["system"] = "\n\n".join(system)
    if thinking is not None:
        body["thinking"] = thinking
    body |= _sampling(request.params, thinking, caller, params)
    body |= _tools(request, how_forced(caller.model, thinking, params))
    if output := _output(request, caller):
        body["output_config"] = output
    if params.prompt_cache is not None:
        body["cache_control"] = {"type": "ephemeral", "ttl": params.prompt_cache}
    return body


def has_sampling(params: AnthropicParams) -> bool:
    """Whether the version of the API takes a temperature."""
    return params.api_version < _NO_SAMPLING


def how_forced(model: str, thinking: Mapping[str, Any] | None, params: AnthropicParams) -> str:
    """Return how a tool is forced: `named`, `any` or `auto`.

    With thinking switched on it is `auto`: with a budget the API refuses anything else, and in the adaptive mode a forced call
    comes without the thoughts that were asked for. The agent's own words then are what makes the model call the tool.
    """
    if params.forced_tool is not None:
        return params.forced_tool
    thinks = thinking is not None and thinking["type"] in ("enabled", "adaptive")
    return "auto" if thinks or _UNFORCED.fullmatch(model) else "named"


def decode(body: Mapping[str, Any], caller: Caller, *, carries: bool) -> Reply:
    """Return the reply in a message. `carries`: whether the calls are to carry the signed thoughts, for the next call of the round.
    Raises ModelError: `bad_response`: it is no message, or ended for a reason that is not known.
    """
    reason = body.get("stop_reason")
    if not isinstance(reason, str) or reason not in _FINISH:
        raise bad_response(caller, "the reply has no stop_reason that is known")
    texts: list[str] = []
    thoughts: list[Block] = []
    calls: list[ToolCall] = []
    for block in _blocks(body, caller):
        if block["type"] == "text":
            texts.append(_text(block, "text", caller))
        elif block["type"] in ("thinking", "redacted_thinking"):
            thoughts.append(dict(block))
        elif block["type"] == "tool_use":
            calls.append(_call(block, caller))
        else:
            raise bad_response(caller, "the reply holds a block that was not asked for")
    if calls and carries and _is_opaque(thoughts):
        calls[0] = replace(calls[0], opaque=Opaque(caller.provider, dumps_canonical(thoughts)))
    finish = _FINISH[reason]
    served_by = body.get("model")
    return Reply(
        content="".join(texts),
        tool_calls=tuple(calls),
        finish_reason="tool_calls" if calls and finish == "stop" else finish,
        usage=_usage(body.get("usage")),
        reasoning="\n\n".join(text for block in thoughts if (text := _text(block, "thinking", caller))),
        served_by=served_by if isinstance(served_by, str) else "",
    )


# --- a request


def _thinking(call: CallParams, caller: Caller, params: AnthropicParams) -> Block | None:
    mode = params.thinking
    if mode == "auto":
        if call.reasoning_tokens == 0 or call.reasoning_effort == "none":
            mode = "disabled"
        elif call.reasoning_tokens is not None:
            mode = "budget"
        else:
            mode = "adaptive" if call.reasoning_effort is not None else "unset"
    if mode == "unset":
        return None
    if mode in ("disabled", "between_tools"):
        return {"type": mode}
    display = params.thinking_display or ("omitted" if mode == "budget" else "summarized")
    shown = {} if display == "default" else {"display": display}
    if mode == "adaptive":
        return {"type": "adaptive", **shown}
    budget = call.reasoning_tokens or 0
    if not _MIN_BUDGET <= budget < call.max_output_tokens:
        raise ProviderError(
            f"{caller.provider}/{caller.model}: a thinking budget has to be at least {_MIN_BUDGET} tokens and below "
            f"--max-output-tokens {call.max_output_tokens}, was {budget}; set --reasoning-tokens"
        )
    return {"type": "enabled", "budget_tokens": budget, **shown}


def _sampling(call: CallParams, thinking: Block | None, caller: Caller, params: AnthropicParams) -> Body:
    if not has_sampling(params) or (thinking is not None and thinking["type"] in ("enabled", "adaptive")):
        return {}  # with thinking, only the API's own temperature of 1 is taken
    if call.temperature > 1:
        raise ProviderError(
            f"{caller.provider}/{caller.model}: temperatures go from 0 to 1, was {call.temperature:g}; set --temperature"
        )
    return {"temperature": call.temperature}


def _tools(request: ModelRequest, forced: str) -> Body:
    offered: list[Block] = [
        {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)} for tool in request.tools
    ]
    if not offered:
        # A conversation that holds calls needs tools; those that it names are listed and may not be called.
        names = dict.fromkeys(_fit(call.name) for message in request.messages for call in message.tool_calls)
        listed = [{"name": name, "input_schema": {"type": "object"}} for name in names]
        return {"tools": listed, "tool_choice": {"type": "none"}} if listed else {}
    if request.tool_choice is None or forced == "auto":
        return {"tools": offered, "tool_choice": {"type": "auto"}}
    choice = {"type": "any"} if forced == "any" else {"type": "tool", "name": request.tool_choice}
    return {"tools": offered, "tool_choice": choice}


def _output(request: ModelRequest, caller: Caller) -> Body:
    output: Body = {}
    effort = request.params.reasoning_effort
    if effort == "minimal":
        raise ProviderError(f"{caller.provider} knows no --reasoning-effort minimal; choose low, medium, high, xhigh or none")
    if effort not in (None, "none"):
        output["effort"] = effort
    if request.response_schema is not None:
        output["format"] = {"type": "json_schema", "schema": closed_schema(request.response_schema)}
    return output


def _turns(messages: Sequence[Message], provider: str | None) -> Iterator[Body]:
    """Turns of alternating roles: results of calls come first in the user turn that follows the calls.

    Signed thoughts come with the calls that carry them for `provider`; with None, without them.
    """
    role, blocks = "", list[Block]()
    for message in messages:
        more = _blocks_of(message, provider)
        if not more:
            continue
        next_role = "assistant" if message.role == "assistant" else "user"
        if next_role != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = next_role
        blocks.extend(more)
    if blocks:
        yield {"role": role, "content": blocks}


def _blocks_of(message: Message, provider: str | None) -> list[Block]:
    if message.role == "assistant":
        return list(_assistant_blocks(message, provider))
    return [] if message.role == "system" else list(_user_blocks(message))


def _said(message: Message) -> str:
    """A message's text; the API refuses one of nothing but space."""
    return message.content if message.content.strip() else ""


def _user_blocks(message: Message) -> Iterator[Block]:
    if message.tool_call_id is not None:
        yield {"type": "tool_result", "tool_use_id": _fit(message.tool_call_id), "content": message.content}
    elif _said(message):
        yield {"type": "text", "text": message.content}


def _assistant_blocks(message: Message, provider: str | None) -> Iterator[Block]:
    for call in message.tool_calls:
        if provider is not None and (thoughts := call.opaque_of(provider)) is not None:
            yield from loads_strict(thoughts)
    if _said(message):
        yield {"type": "text", "text": message.content}
    for call in message.tool_calls:
        arguments = loads_strict(sent_arguments(call.arguments))  # the API wants an object, whatever the model wrote
        yield {"type": "tool_use", "id": _fit(call.id), "name": _fit(call.name), "input": arguments}


def _lacks_thought(turns: Sequence[Body]) -> bool:
    """Whether the turns end inside a round of tool use whose calls come without the thoughts before them."""
    if len(turns) < 2 or not any(block["type"] == "tool_result" for block in turns[-1]["content"]):
        return False
    return turns[-2]["content"][0]["type"] not in ("thinking", "redacted_thinking")


def _fit(name: str) -> str:
    """An id or name in the characters that the API takes; those that it gave out itself stay as they are."""
    return name if _ID.fullmatch(name) else _NOT_IN_ID.sub("_", name)[:128] or "_"


_BOUNDS = frozenset(
    ("$schema", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems")
)


def closed_schema(schema: Any) -> Any:
    """A JSON Schema as structured outputs take it: every object closed, no bounds of numbers, lengths and counts.

    Source: the page on structured outputs, "JSON Schema limitations". Whoever reads the reply checks it against the whole schema.
    """
    if isinstance(schema, list):
        return [closed_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept = {name: closed_schema(value) for name, value in schema.items() if name not in _BOUNDS or isinstance(value, Mapping)}
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
    if isinstance(kept.get("minItems"), int) and kept["minItems"] > 1:
        del kept["minItems"]
    return kept


# --- a reply


def _blocks(body: Mapping[str, Any], caller: Caller) -> Iterator[Mapping[str, Any]]:
    content = body.get("content")
    if not isinstance(content, list) or not all(
        isinstance(block, dict) and isinstance(block.get("type"), str) for block in content
    ):
        raise bad_response(caller, "the reply has no content of blocks")
    yield from content


def _text(block: Mapping[str, Any], name: str, caller: Caller) -> str:
    text = block.get(name, "" if block["type"] == "redacted_thinking" else None)
    if not isinstance(text, str):
        raise bad_response(caller, "a block of the reply holds no text where it should")
    return text


def _call(block: Mapping[str, Any], caller: Caller) -> ToolCall:
    call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
    if not (isinstance(call_id, str) and call_id and isinstance(name, str) and isinstance(arguments, dict)):
        raise bad_response(caller, "a tool call of the reply lacks its id, name or arguments")
    return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False))


def _is_opaque(thoughts: Sequence[Block]) -> bool:
    """Whether there are thoughts, and none of them as text: only then may they be carried."""
    return bool(thoughts) and not any(block.get("thinking") for block in thoughts)


def _usage(usage: Any) -> Usage:
    usage = usage if isinstance(usage, dict) else {}
    read, written = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    found = Usage(
        input_tokens=count(usage, "input_tokens") + read + written,  # the API counts the three apart
        output_tokens=count(usage, "output_tokens"),
        reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )
    return whole_usage(0, found)
