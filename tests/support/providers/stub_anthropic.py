"""The Anthropic wire of the stub provider: POST /v1/messages, as strict as the real one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ktdeval.harness.chat_messages import Message, ModelRequest, ToolCall, ToolSpec
from ktdeval.values import dumps_canonical
from support.providers.protocol_speaker import writes_maps
from support.providers.stub_neutral import (
    JSON_OBJECT,
    NUMBER,
    SERVED_BY,
    Answer,
    Asked,
    Refused,
    StubOptions,
    asked_of,
    check_model,
    check_range,
    check_strict_schema,
    check_supported,
    check_type,
    check_word,
    offered,
    parse_arguments,
    take,
)

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NULL = type(None)
_CACHE = {"cache_control": (dict, _NULL)}
OLD_VERSION = "2023-06-01"  # the last that has a temperature
SIGNATURE = "c3R1Yi1zaWduYXR1cmU="


class AnthropicWire:
    """The Messages API."""

    name = "anthropic"

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that came along, in either of its two headers; the version of the API has to come
        too.
        """
        if not headers.get("anthropic-version"):
            raise Refused("anthropic-version: header is required")

        return headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")

    def error(self, problem: Refused) -> dict[str, Any]:
        kinds = {
            "unauthorized": "authentication_error",
            "forbidden": "permission_error",
            "unknown_model": "not_found_error",
            "unknown_path": "not_found_error",
            "too_large": "request_too_large",
            "rate_limited": "rate_limit_error",
            "server": "api_error",
            "bad_gateway": "api_error",
            "overloaded": "overloaded_error",
            "gateway_timeout": "timeout_error",
            "no_balance": "billing_error",
        }
        message = problem.message

        if problem.kind == "no_quota":
            message = (
                "Your credit balance is too low to access the Anthropic API. Please go to Plans &"
                " Billing to purchase credits."
            )

        if problem.kind == "filtered":
            message = "Output blocked by content filtering policy"

        if problem.kind == "unknown_model":
            message = f"model: {problem.message}"

        kind = kinds.get(problem.kind, "invalid_request_error")

        return {
            "type": "error",
            "error": {"type": kind, "message": message},
            "request_id": "req_stub",
        }

    def read(
        self, body: Any, _model: str, options: StubOptions, headers: Mapping[str, str]
    ) -> Asked:
        fields: dict[str, Any] = {
            "system": (str, list),
            "tools": list,
            "tool_choice": dict,
            "thinking": dict,
            "output_config": dict,
            "stop_sequences": list,
            "stream": bool,
            "metadata": dict,
            "service_tier": str,
            **_CACHE,
        }

        if headers["anthropic-version"] == OLD_VERSION:
            fields |= {"temperature": NUMBER, "top_p": NUMBER, "top_k": int}

        take(body, "", {"model": str, "max_tokens": int, "messages": list}, fields)
        check_model(body["model"], options)
        check_supported(body, options)
        check_range(body["max_tokens"], "max_tokens", 1, 10**7)
        check_range(body.get("temperature"), "temperature", 0, 1)

        tools, choice = _tools(body)
        if options.tools == "refused" and tools:
            raise Refused(
                "tools: this model does not support tool use.", "unsupported", param="tools"
            )

        thinks = _check_thinking(body)
        _check_marks(body)
        system = body.get("system", "")
        text = system if isinstance(system, str) else "".join(_texts(system, "system"))
        messages = _messages(body["messages"], thinks)

        if text:
            messages = [Message("system", text), *messages]

        request = ModelRequest(
            tuple(messages), tools, choice, response_schema=_format(body.get("output_config", {}))
        )

        if request.response_schema is None and writes_maps(request):
            # Structured outputs have no words for maps: the prompt alone asks for the reply.
            request = replace(request, response_schema=JSON_OBJECT)

        thinking = body.get("thinking", {})
        seen = (
            "none"
            if thinking.get("type") == "disabled"
            else "hidden"
            if thinking.get("display") == "omitted"
            else "shown"
        )

        return replace(asked_of(self.name, body["model"], request, options), thoughts=seen)

    def write(self, answer: Answer) -> dict[str, Any]:
        reply = answer.reply
        usage = answer.reply.usage
        content: list[dict[str, Any]] = []

        if reply.reasoning:
            shown = reply.reasoning if answer.asked.thoughts == "shown" else ""
            content.append({"type": "thinking", "thinking": shown, "signature": SIGNATURE})

        if reply.content:
            content.append({"type": "text", "text": reply.content, "citations": None})

        for id_, call in zip(answer.call_ids("toolu_"), reply.tool_calls, strict=True):
            content.append(
                {
                    "type": "tool_use",
                    "id": id_,
                    "name": call.name,
                    "input": parse_arguments(call.arguments),
                }
            )

        reasons = {
            "stop": "end_turn",
            "tool_calls": "tool_use",
            "length": "max_tokens",
            "refusal": "refusal",
        }
        thought = (
            {"output_tokens_details": {"thinking_tokens": usage.reasoning_tokens}}
            if reply.reasoning
            else {}
        )

        return {
            "id": f"msg_{answer.stem}",
            "type": "message",
            "role": "assistant",
            "model": SERVED_BY,
            "content": content,
            "stop_reason": reasons[reply.finish_reason],
            "stop_sequence": None,
            "usage": {
                "input_tokens": (
                    usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
                ),
                "cache_creation_input_tokens": usage.cache_write_tokens,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "output_tokens": usage.output_tokens,
                "service_tier": "standard",
                **thought,
            },
        }


def _tools(body: Mapping[str, Any]) -> tuple[tuple[ToolSpec, ...], str | None]:
    parts = []
    for index, tool in enumerate(body.get("tools", ())):
        at = f"tools.{index}"
        take(
            tool,
            at,
            {"name": str, "input_schema": dict},
            {"description": str, "type": (str, _NULL), "strict": bool, **_CACHE},
        )
        _check_name(tool["name"], f"{at}.name")
        if tool["input_schema"].get("type") != "object":
            raise Refused(f"{at}.custom.input_schema.type: Input should be 'object'")

        if any(name in tool["input_schema"] for name in ("oneOf", "allOf", "anyOf")):
            raise Refused(
                f"{at}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at"
                " the top level"
            )

        if tool.get("strict"):
            check_strict_schema(tool["input_schema"], f"{at}.input_schema")

        parts.append((tool["name"], tool.get("description"), tool["input_schema"]))

    tools = offered(parts)
    choice = body.get("tool_choice")
    if len({tool.name for tool in tools}) != len(tools):
        raise Refused("tools: Tool names must be unique.")

    if choice is None:
        return tools, None

    if not tools:
        raise Refused("tool_choice: tools must be given when tool_choice is.")

    take(choice, "tool_choice", {"type": str}, {"name": str, "disable_parallel_tool_use": bool})
    check_word(choice["type"], "tool_choice.type", ("auto", "any", "tool", "none"))
    if choice["type"] == "tool" and choice.get("name") not in [tool.name for tool in tools]:
        raise Refused(f"Tool '{choice.get('name')}' not found in provided tools")

    if choice["type"] != "tool" and "name" in choice:
        raise Refused("tool_choice.name: Extra inputs are not permitted")

    if choice["type"] == "none":
        return (), None

    forced = choice["type"] == "any" and len(tools) == 1

    return tools, choice.get("name") or (tools[0].name if forced else None)


def _check_marks(body: Mapping[str, Any]) -> None:
    """Refuse more marks for the prompt cache than the API takes."""
    system = body.get("system", "")
    blocks = [*body.get("tools", ()), *(system if isinstance(system, list) else ())]

    for turn in body["messages"]:
        if isinstance(turn.get("content"), list):
            blocks += turn["content"]

    marks = sum(isinstance(block, dict) and bool(block.get("cache_control")) for block in blocks)
    if marks + bool(body.get("cache_control")) > 4:
        raise Refused(
            "A maximum of 4 blocks with cache_control may be provided. Found"
            f" {marks + bool(body.get('cache_control'))}."
        )


def _check_thinking(body: Mapping[str, Any]) -> bool:
    """Whether extended thinking is on in the form that demands thinking blocks back."""
    thinking = body.get("thinking")
    if thinking is None:
        return False

    take(thinking, "thinking", {"type": str}, {"budget_tokens": int, "display": (str, _NULL)})
    check_word(
        thinking["type"], "thinking.type", ("enabled", "adaptive", "between_tools", "disabled")
    )

    if thinking["type"] == "disabled":
        return False

    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        raise Refused("Thinking may not be enabled when tool_choice forces tool use.")

    if body.get("temperature", 1) != 1:
        raise Refused("`temperature` may only be set to 1 when thinking is enabled.")

    if thinking["type"] != "enabled":
        return False

    check_range(
        thinking.get("budget_tokens", 0),
        "thinking.enabled.budget_tokens",
        1024,
        body["max_tokens"] - 1,
    )

    return True


def _messages(items: Sequence[Any], thinks: bool) -> list[Message]:
    """The turns. Consecutive turns of one role count as one, as in the real API."""
    turns: list[tuple[str, list[dict[str, Any]]]] = []
    for index, item in enumerate(items):
        at = f"messages.{index}"
        take(item, at, {"role": str, "content": (str, list)})
        check_word(item["role"], f"{at}.role", ("user", "assistant"))
        content = item["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks or (isinstance(content, str) and not content):
            raise Refused(
                f"{at}: all messages must have non-empty content except for the optional final"
                " assistant message"
            )

        if turns and turns[-1][0] == item["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((item["role"], list(blocks)))

    if not turns or turns[0][0] != "user":
        raise Refused("messages: first message must use the 'user' role")

    messages: list[Message] = []
    open_ids: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        if role == "user":
            messages.extend(_user_turn(blocks, open_ids, f"messages.{index}"))
            open_ids = []
        else:
            messages.append(_assistant_turn(blocks, f"messages.{index}"))
            open_ids = [call.id for call in messages[-1].tool_calls]

    if open_ids:
        raise Refused(
            "`tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(open_ids)}."
        )

    if thinks:
        _check_thought(turns)

    return messages


def _check_thought(turns: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
    """Within a round of tool use, the last assistant turn has to begin with the thinking that led
    to it.
    """
    in_round = any(block["type"] == "tool_result" for block in turns[-1][1])
    last = next((blocks for role, blocks in reversed(turns) if role == "assistant"), None)

    if in_round and last is not None and last[0]["type"] not in ("thinking", "redacted_thinking"):
        raise Refused(
            "messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When"
            " `thinking` is enabled, a final `assistant` message must start with a thinking block."
        )


def _user_turn(blocks: Sequence[Any], open_ids: Sequence[str], at: str) -> list[Message]:
    results = [
        block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"
    ]

    if list(blocks[: len(results)]) != results:
        raise Refused(f"{at}: `tool_result` blocks must come first in the content.")

    answered = [block.get("tool_use_id") for block in results]
    if unknown := [id_ for id_ in answered if id_ not in open_ids]:
        raise Refused(
            f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {unknown[0]}."
        )

    if missing := [id_ for id_ in open_ids if id_ not in answered]:
        raise Refused(
            f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(missing)}."
        )

    if answered != list(open_ids):
        raise Refused(f"{at}: results are not in the order of the calls")

    messages = []
    for index, block in enumerate(results):
        here = f"{at}.content.{index}"
        take(
            block,
            here,
            {"type": str, "tool_use_id": str},
            {"content": (str, list), "is_error": bool, **_CACHE},
        )
        content = block.get("content", "")
        text = content if isinstance(content, str) else "".join(_texts(content, here))
        messages.append(Message("tool", text, tool_call_id=block["tool_use_id"]))

    texts: list[str] = []
    for text in _texts(blocks[len(results) :], at):
        # one text in blocks goes on with a line break; a message begins with a word
        if texts and text.startswith("\n"):
            texts[-1] += text
        else:
            texts.append(text)

    messages.extend(Message("user", text) for text in texts)

    return messages


def _assistant_turn(blocks: Sequence[Any], at: str) -> Message:
    text = ""
    calls = []
    for index, block in enumerate(blocks):
        here = f"{at}.content.{index}"
        kind = block.get("type") if isinstance(block, dict) else None
        check_word(kind, f"{here}.type", ("text", "tool_use", "thinking", "redacted_thinking"))
        if kind == "text":
            text += "".join(_texts([block], here))
        elif kind == "tool_use":
            take(block, here, {"type": str, "id": str, "name": str, "input": dict}, dict(_CACHE))
            _check_name(block["name"], f"{here}.tool_use.name")
            if not _ID.fullmatch(block["id"]):
                raise Refused(f"{here}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")

            calls.append(ToolCall(block["id"], block["name"], dumps_canonical(block["input"])))
        elif kind == "thinking":
            take(block, here, {"type": str, "thinking": str, "signature": str})
            if block["signature"] != SIGNATURE:
                raise Refused(f"{here}: Invalid `signature` in `thinking` block")

    if len({call.id for call in calls}) != len(calls):
        raise Refused(f"{at}: `tool_use` ids must be unique")

    return Message("assistant", text, tuple(calls))


def _texts(blocks: Sequence[Any], at: str) -> list[str]:
    check_type(blocks, list, at)
    texts = []
    for index, block in enumerate(blocks):
        here = f"{at}.{index}"
        take(block, here, {"type": str, "text": str}, {"citations": (list, _NULL), **_CACHE})
        check_word(block["type"], f"{here}.type", ("text",))
        if not block["text"].strip():
            raise Refused(f"{here}: text content blocks must contain non-whitespace text")

        texts.append(block["text"])

    return texts


def _check_name(name: str, at: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(f"{at}: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")


def _format(config: Mapping[str, Any]) -> dict[str, Any] | None:
    take(config, "output_config", {}, {"effort": (str, _NULL), "format": (dict, _NULL)})
    if config.get("effort") is not None:
        check_word(
            config["effort"], "output_config.effort", ("low", "medium", "high", "xhigh", "max")
        )

    if config.get("format") is None:
        return None

    take(config["format"], "output_config.format", {"type": str, "schema": dict})
    check_word(config["format"]["type"], "output_config.format.type", ("json_schema",))
    _check_closed(config["format"]["schema"])

    return dict(config["format"]["schema"])


def _check_closed(schema: Any) -> None:
    """Structured outputs want `additionalProperties: false` on every object, and know no bounds of
    numbers or lengths.
    """
    if isinstance(schema, list):
        for item in schema:
            _check_closed(item)

    if not isinstance(schema, dict):
        return

    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise Refused(
            "output_config.format.schema: For 'object' type, 'additionalProperties' must be"
            " explicitly set to false"
        )

    for word in ("minimum", "maximum", "minLength", "maxLength", "multipleOf"):
        if word in schema and not isinstance(schema[word], dict):
            raise Refused(f"output_config.format.schema: property '{word}' is not supported")

    for item in schema.values():
        _check_closed(item)
