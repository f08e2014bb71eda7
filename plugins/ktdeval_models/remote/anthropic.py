"""`anthropic/NAME`: Claude over the native Messages API, with the headers of the official SDK.

Sources: the API's reference (https://platform.claude.com/docs/en/api/messages), its pages on thinking and tool use, and the types
of the `anthropic` package.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ktdeval.calls import Refusal, bad_response, one_line
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import CallParams, FinishReason, Message, ModelRequest, Opaque, Reply, ToolCall, Usage
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_strict
from ktdeval_models.remote import base
from ktdeval_models.remote.base import RemoteAdapter, count, finish_of, sent_arguments, whole_usage
from ktdeval_models.remote.params import AnthropicParams

Body = dict[str, Any]

_WORDS = base.wire_words("anthropic")
_FINISH: Mapping[Any, FinishReason] = _WORDS["finish"]
_NO_SAMPLING = "2026-10-21"
"""From this version of the API on, temperature, top_p and top_k are refused at any value (notes of that version)."""

# "What's new in Claude …", pages of the models named: a forced tool_choice returns an error.
_UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|(fable|mythos)-5-[12])(-\d{8})?")

_FILTERED = "blocked by content filtering policy"
"""Part of the message of the 400 that replaces a reply withdrawn by the provider's filter."""

_MIN_BUDGET = 1024
_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_THOUGHTS = ("thinking", "redacted_thinking")
_THINKS = ("enabled", "adaptive")


class AnthropicModel(RemoteAdapter):
    """A Claude model over the Messages API (or a server that speaks it).

    Not sent: the seed, which the API does not have, and from API version 2026-10-21 on the temperature, which it no longer takes.
    Thoughts are sent back only where the API requires them: with a thinking budget, the signed thoughts before calls, which are
    the first call's opaque field. In the adaptive mode it does not require them, and newer models refuse them after the tools on
    offer have changed, as they do between research and submission.
    """

    package = "anthropic"
    extra = "anthropic"
    version = r"/v1\Z"
    path = "/v1/messages"
    params: AnthropicParams

    def __init__(self, name: str, params: AnthropicParams | None = None) -> None:
        super().__init__("anthropic", name, params or AnthropicParams(), "https://api.anthropic.com", ("ANTHROPIC_API_KEY",))
        self._has_sampling = self.params.api_version < _NO_SAMPLING

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers, with values that it would take from the environment set here."""
        version = {"anthropic-version": self.params.api_version}
        own = {"base_url": self.endpoint, "http_client": base.no_network(sdk), "default_headers": version}
        with sdk.Anthropic(api_key=key, **own) as client:
            return base.plain_headers(client)

    def settings(self) -> JsonValue:
        """Return parameters that can change a reply, how tools are forced, and the run's options that the API does not have."""
        return {
            **{name: getattr(self.params, name) for name in ("api_version", "thinking", "thinking_display")},
            "omit": list(self.params.omit),
            "extra_body": dict(self.params.extra_body),
            "forced_tool": self._how_forced(None),
            "forced_tool_while_thinking": self._how_forced("enabled"),
            "not_sent": ["seed"] if self._has_sampling else ["seed", "temperature"],
        }

    # --- a request

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call. Raises ProviderError: an option of the run is unknown to this API."""
        thinking = self._thinking(request.params)
        turns = list(_turns(request.messages, with_thoughts=True))
        if thinking is not None and thinking["type"] == "enabled" and _lacks_thought(turns):
            # The thoughts before the last calls were not kept (they came as text, or the agent wrote the calls). Without them
            # the API refuses a budget inside a round of tool use, so this call has none.
            thinking = {"type": "disabled"}
            turns = list(_turns(request.messages, with_thoughts=False))
        body: Body = {"model": self.name, "max_tokens": request.params.max_output_tokens, "messages": turns}
        if system := [text for message in request.messages if message.role == "system" and (text := _text_or_empty(message))]:
            body["system"] = "\n\n".join(system)
        if thinking is not None:
            body["thinking"] = thinking
        mode = None if thinking is None else thinking["type"]
        if self._has_sampling and mode not in _THINKS:  # with thinking, only the API's own temperature of 1 is taken
            if request.params.temperature > 1:
                raise self._refused(f"temperatures go from 0 to 1, was {request.params.temperature:g}; set --temperature")
            body["temperature"] = request.params.temperature
        body |= self._tools(request, self._how_forced(mode))
        if output := self._output(request):
            body["output_config"] = output
        if self.params.prompt_cache is not None:
            body["cache_control"] = {"type": "ephemeral", "ttl": self.params.prompt_cache}
        body = {name: value for name, value in body.items() if name not in self.params.omit}
        return {**body, **self.params.extra_body}

    def _refused(self, why: str) -> ProviderError:
        return ProviderError(f"anthropic/{self.name}: {why}")

    def _how_forced(self, mode: str | None) -> str:
        """Return how a tool is forced: `named`, `any` or `auto`.

        With thinking switched on it is `auto`: with a budget the API refuses other values, and in the adaptive mode a forced call
        comes without the thoughts that were asked for. The agent's own words then make the model call the tool.
        """
        if self.params.forced_tool is not None:
            return self.params.forced_tool
        return "auto" if mode in _THINKS or _UNFORCED.fullmatch(self.name) else "named"

    def _thinking(self, call: CallParams) -> Body | None:
        mode: str = self.params.thinking
        if mode == "auto":
            if call.reasoning_tokens == 0 or call.reasoning_effort == "none":
                mode = "disabled"
            elif call.reasoning_tokens is not None:
                mode = "budget"
            else:
                mode = "adaptive" if call.reasoning_effort is not None else "unset"
        if mode in ("unset", "disabled", "between_tools"):
            return None if mode == "unset" else {"type": mode}
        display = self.params.thinking_display or ("omitted" if mode == "budget" else "summarized")
        shown = {} if display == "default" else {"display": display}
        if mode == "adaptive":
            return {"type": "adaptive", **shown}
        budget = call.reasoning_tokens or 0
        if not _MIN_BUDGET <= budget < call.max_output_tokens:
            raise self._refused(
                f"a thinking budget has to be at least {_MIN_BUDGET} tokens and below "
                f"--max-output-tokens {call.max_output_tokens}, was {budget}; set --reasoning-tokens"
            )
        return {"type": "enabled", "budget_tokens": budget, **shown}

    def _tools(self, request: ModelRequest, forced: str) -> Body:
        if not request.tools:
            # A conversation with calls needs tools; those that it names are listed and can't be called.
            names = dict.fromkeys(_fit(call.name) for message in request.messages for call in message.tool_calls)
            listed = [{"name": name, "input_schema": {"type": "object"}} for name in names]
            return {"tools": listed, "tool_choice": {"type": "none"}} if listed else {}
        offered = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)} for tool in request.tools
        ]
        choice: Body = {"type": "any"} if forced == "any" else {"type": "tool", "name": request.tool_choice}
        if request.tool_choice is None or forced == "auto":
            choice = {"type": "auto"}
        return {"tools": offered, "tool_choice": choice}

    def _output(self, request: ModelRequest) -> Body:
        output: Body = {}
        effort = request.params.reasoning_effort
        if effort == "minimal":
            raise ProviderError("anthropic knows no --reasoning-effort minimal; choose low, medium, high, xhigh or none")
        if effort not in (None, "none"):
            output["effort"] = effort
        if request.response_schema is not None:
            output["format"] = {"type": "json_schema", "schema": closed_schema(request.response_schema)}
        return {name: value for name, value in output.items() if name not in self.params.omit}

    # --- a reply

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in a message; with a thinking budget its calls carry the signed thoughts, for the next one of the round.

        Raises ModelError `bad_response`: it is not a message, or ended for an unknown reason.
        """
        reason, served_by = answer.get("stop_reason"), answer.get("model")
        if not isinstance(reason, str) or reason not in _FINISH:
            raise bad_response(self.caller, "the reply has no known stop_reason")
        texts: list[str] = []
        thoughts: list[Body] = []
        calls: list[ToolCall] = []
        blocks = base.parts(answer, "content", self.caller)
        for block in blocks:
            if block.get("type") == "text":
                texts.append(self._text(block, "text"))
            elif block.get("type") in _THOUGHTS:
                thoughts.append(dict(block))
            elif block.get("type") == "tool_use":
                calls.append(self._call(block, is_cut=block is blocks[-1] and _FINISH[reason] in ("length", "refusal")))
            else:
                raise bad_response(self.caller, "the reply holds a block that was not asked for")
        carries = body.get("thinking", {}).get("type") == "enabled"
        if calls and carries and thoughts and not any(block.get("thinking") for block in thoughts):
            # Only where none of the thoughts came as text may they be carried.
            calls[0] = replace(calls[0], opaque=Opaque("anthropic", dumps_canonical(thoughts)))
        return Reply(
            content="".join(texts),
            tool_calls=tuple(calls),
            finish_reason=finish_of(_FINISH[reason], calls),
            usage=_usage(answer.get("usage")),
            reasoning="\n\n".join(text for block in thoughts if (text := self._text(block, "thinking"))),
            served_by=served_by if isinstance(served_by, str) else "",
        )

    def _text(self, block: Mapping[str, Any], name: str) -> str:
        text = block.get(name, "" if block["type"] == "redacted_thinking" else None)
        if not isinstance(text, str):
            raise bad_response(self.caller, "a block of the reply holds no text where it should")
        return text

    def _call(self, block: Mapping[str, Any], is_cut: bool) -> ToolCall:
        """Return a call. Where the reply broke off in it, its arguments are a part that may look whole; their text is cut, too."""
        call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
        if not (isinstance(call_id, str) and call_id and isinstance(name, str) and isinstance(arguments, dict)):
            raise bad_response(self.caller, "a tool call of the reply lacks its id, name or arguments")
        text = json.dumps(arguments, ensure_ascii=False)
        return ToolCall(call_id, name, text[:-1] if is_cut else text)

    # --- a refusal

    def sent(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame and `omit` may name; the API requires `max_tokens`."""
        return {*body, *body.get("output_config", {})} - {"max_tokens"}

    def refusal_error(self, refusal: Refusal, content: bytes, body: Mapping[str, Any]) -> ModelError | ProviderError:
        """Return the error for a refusal; some of this API's need a closer look than their status."""
        if _FILTERED in refusal.message:
            refusal = replace(refusal, codes=("content_filter",))
        elif isinstance(details := base.error_details(content), dict) and details.get("error_code") in _WORDS["no_money"]:
            refusal = replace(refusal, codes=("billing_error",))
        was_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        if refusal.status == 400 and "tool_choice" in refusal.message and was_forced:
            message = one_line(refusal.message, self.caller.secrets)
            return ProviderError(
                f"anthropic/{self.name} takes no forced tool (HTTP {refusal.status}: {message}); "
                "ask for the tool instead, with --model-args forced_tool=auto"
            )
        return super().refusal_error(refusal, content, body)


def _turns(messages: Sequence[Message], with_thoughts: bool) -> Iterator[Body]:
    """Turns of alternating roles: results of calls come first in the user turn that follows the calls."""
    role, blocks = "", list[Body]()
    for message in messages:
        more = _blocks_of(message, with_thoughts)
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


def _blocks_of(message: Message, with_thoughts: bool) -> list[Body]:
    if message.role == "system":
        return []
    text = [{"type": "text", "text": message.content}] if _text_or_empty(message) else []
    if message.role == "assistant":
        carried = [call.opaque_of("anthropic") for call in message.tool_calls] if with_thoughts else []
        thoughts = [block for opaque in carried if opaque is not None for block in loads_strict(opaque)]
        return [*thoughts, *text, *map(_call_block, message.tool_calls)]
    if message.tool_call_id is not None:
        return [{"type": "tool_result", "tool_use_id": _fit(message.tool_call_id), "content": message.content}]
    return text


def _call_block(call: ToolCall) -> Body:
    arguments = loads_strict(sent_arguments(call.arguments))  # the API wants an object, whatever the model wrote
    return {"type": "tool_use", "id": _fit(call.id), "name": _fit(call.name), "input": arguments}


def _text_or_empty(message: Message) -> str:
    """Return a message's text, empty if it is only space, which the API refuses."""
    return message.content if message.content.strip() else ""


def _lacks_thought(turns: Sequence[Body]) -> bool:
    """Whether the turns end inside a round of tool use whose calls come without the thoughts before them."""
    if len(turns) < 2 or not any(block["type"] == "tool_result" for block in turns[-1]["content"]):
        return False
    return turns[-2]["content"][0]["type"] not in _THOUGHTS


def _fit(name: str) -> str:
    """Return an id or name in the characters that the API takes; its own stay as they are."""
    return name if _ID.fullmatch(name) else _NOT_IN_ID.sub("_", name)[:128] or "_"


def closed_schema(schema: Any) -> Any:
    """Return a JSON Schema as structured outputs take it: every object closed, no bounds of numbers, lengths and counts.

    Source: the page on structured outputs, "JSON Schema limitations". The reader of the reply checks it against the whole schema.
    """
    if isinstance(schema, list):
        return [closed_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    bounds = _WORDS["bounds"]
    kept = {name: closed_schema(value) for name, value in schema.items() if name not in bounds or isinstance(value, Mapping)}
    if kept.get("type") == "object":
        kept["additionalProperties"] = False
    if isinstance(kept.get("minItems"), int) and kept["minItems"] > 1:
        del kept["minItems"]
    return kept


def _usage(usage: Any) -> Usage:
    read, write = count(usage, "cache_read_input_tokens"), count(usage, "cache_creation_input_tokens")
    counts = Usage(
        input_tokens=count(usage, "input_tokens", missing=base.NO_COUNT) + read + write,  # the API counts the three separately
        output_tokens=count(usage, "output_tokens", missing=base.NO_COUNT),
        reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
    )
    return whole_usage(0, counts)
