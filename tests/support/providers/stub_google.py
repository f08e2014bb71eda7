"""The Gemini wire of the stub provider: POST /v1/models/NAME:generateContent, as strict as the real
one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, ToolCall, ToolSpec
from ktdeval.values import dumps_canonical
from ktdeval_command.wire.gemini import json_schema
from support.providers.stub_neutral import (
    NUMBER,
    SERVED_BY,
    Answer,
    Asked,
    Refused,
    StubOptions,
    Types,
    asked_of,
    check_model,
    check_range,
    check_supported,
    check_word,
    offered,
    parse_arguments,
    take,
)

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
SIGNATURE = "c3R1Yi10aG91Z2h0"


def _take(
    value: Any,
    where: str,
    required: Mapping[str, Types],
    optional: Mapping[str, Types] | None = None,
) -> dict[str, Any]:
    """As `take`, with names in camelCase or snake_case: the JSON form of protocol buffers knows
    both.
    """
    if isinstance(value, dict):
        value = {
            re.sub(r"_([a-z])", lambda match: match[1].upper(), name): item
            for name, item in value.items()
        }

    return take(value, where, required, optional)


class GoogleWire:
    """The generateContent method."""

    name = "google"

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("x-goog-api-key", "")

    def error(self, problem: Refused) -> dict[str, Any]:
        """An error in Google's shape. A missing key is its INVALID_ARGUMENT or
        PERMISSION_DENIED.
        """
        words = {
            "unauthorized": "UNAUTHENTICATED",
            "forbidden": "PERMISSION_DENIED",
            "unknown_model": "NOT_FOUND",
            "unknown_path": "NOT_FOUND",
            "rate_limited": "RESOURCE_EXHAUSTED",
            "no_quota": "RESOURCE_EXHAUSTED",
            "no_balance": "RESOURCE_EXHAUSTED",
            "server": "INTERNAL",
            "bad_gateway": "INTERNAL",
            "overloaded": "UNAVAILABLE",
            "gateway_timeout": "DEADLINE_EXCEEDED",
        }
        error: dict[str, Any] = {
            "code": problem.status,
            "message": problem.message,
            "status": words.get(problem.kind, "INVALID_ARGUMENT"),
        }

        if problem.kind == "unknown_model":
            error["message"] = f"models/{problem.message} is not found for API version v1beta"

        if problem.kind == "no_quota":
            error["message"] = (
                "You exceeded your current quota, please check your plan and billing details."
            )

        if problem.kind == "rate_limited":
            error["details"] = [
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}
            ]

        return {"error": error}

    def read(
        self, body: Any, model: str, options: StubOptions, _headers: Mapping[str, str]
    ) -> Asked:
        fields: dict[str, Any] = {
            "systemInstruction": dict,
            "tools": list,
            "toolConfig": dict,
            "generationConfig": dict,
            "safetySettings": list,
            "cachedContent": str,
        }
        body = _take(body, "", {"contents": list}, fields)
        check_model(model, options)
        config = _generation(body.get("generationConfig", {}))
        check_supported({**body, **config}, options)
        tools, choice = _tools(body)

        if options.tools == "refused" and tools:
            raise Refused(
                "Function calling is not enabled for this model", "unsupported", param="tools"
            )

        schema = config.get("responseJsonSchema")
        if schema is not None and config.get("responseMimeType") != "application/json":
            raise Refused("response_schema requires response_mime_type: 'application/json'")

        if tools and config.get("responseMimeType") == "application/json":
            raise Refused(
                "Function calling with a response mime type: 'application/json' is unsupported"
            )

        messages = _messages(body["contents"])
        if "systemInstruction" in body:
            system = _take(
                body["systemInstruction"], "system_instruction", {"parts": list}, {"role": str}
            )
            texts = [
                _take(part, "system_instruction.parts", {"text": str})["text"]
                for part in system["parts"]
            ]
            messages = [Message("system", "".join(texts)), *messages]

        request = ModelRequest(
            tuple(messages), tools, choice, CallParams(seed=config.get("seed", 0)), schema
        )

        return asked_of(self.name, model, request, options)

    def write(self, answer: Answer) -> dict[str, Any]:
        reply = answer.reply
        usage = answer.reply.usage
        parts: list[dict[str, Any]] = []

        if reply.reasoning:
            parts.append({"text": reply.reasoning, "thought": True})

        if reply.content:
            parts.append({"text": reply.content})

        for index, (id_, call) in enumerate(
            zip(answer.call_ids("fc-"), reply.tool_calls, strict=True)
        ):
            part: dict[str, Any] = {
                "functionCall": {
                    "id": id_,
                    "name": call.name,
                    "args": parse_arguments(call.arguments),
                }
            }
            if index == 0:  # parallel calls have the signature on the first
                part["thoughtSignature"] = SIGNATURE

            parts.append(part)

        candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
        candidate["finishReason"] = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}.get(
            reply.finish_reason, "STOP"
        )

        if not parts:
            candidate["content"] = {"role": "model"}

        return {
            "candidates": [candidate],
            "modelVersion": SERVED_BY,
            "responseId": f"resp-{answer.stem}",
            "usageMetadata": {
                "promptTokenCount": usage.input_tokens,
                "cachedContentTokenCount": usage.cache_read_tokens,
                "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
                "thoughtsTokenCount": usage.reasoning_tokens,
                "totalTokenCount": usage.input_tokens + usage.output_tokens,
            },
        }


def _generation(config: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "temperature": NUMBER,
        "topP": NUMBER,
        "topK": NUMBER,
        "maxOutputTokens": int,
        "seed": int,
        "candidateCount": int,
        "stopSequences": list,
        "responseMimeType": str,
        "responseJsonSchema": object,
        "thinkingConfig": dict,
    }
    config = _take(config, "generation_config", {}, fields)
    check_range(config.get("temperature"), "generation_config.temperature", 0, 2)
    check_range(config.get("seed"), "generation_config.seed (TYPE_INT32)", -(2**31), 2**31 - 1)
    check_range(config.get("maxOutputTokens"), "generation_config.max_output_tokens", 1, 10**6)

    if "thinkingConfig" in config:
        thinking = _take(
            config["thinkingConfig"],
            "thinking_config",
            {},
            {"thinkingBudget": int, "thinkingLevel": str, "includeThoughts": bool},
        )
        if "thinkingLevel" in thinking:
            check_word(
                thinking["thinkingLevel"].lower(),
                "thinking_level",
                ("minimal", "low", "medium", "high"),
            )

        if len({"thinkingBudget", "thinkingLevel"} & set(thinking)) == 2:
            raise Refused("You can only set only one of thinking budget and thinking level.")

    return dict(config)


def _tools(body: Mapping[str, Any]) -> tuple[tuple[ToolSpec, ...], str | None]:
    parts = []
    for tool in body.get("tools", ()):
        for declared in _take(tool, "tools", {"functionDeclarations": list})[
            "functionDeclarations"
        ]:
            at = "tools.function_declarations"
            optional = {
                "description": str,
                "parameters": dict,
                "parametersJsonSchema": dict,
                "response": dict,
                "responseJsonSchema": dict,
                "behavior": str,
            }
            declaration = _take(declared, at, {"name": str}, optional)
            if not _NAME.fullmatch(declaration["name"]):
                raise Refused(
                    "Invalid function name. Must start with a letter or an underscore.", param=at
                )

            if {"parameters", "parametersJsonSchema"} <= set(declaration):
                raise Refused(
                    "parameters and parameters_json_schema are mutually exclusive.", param=at
                )

            schema = declaration.get("parametersJsonSchema")
            if "parameters" in declaration:
                schema = json_schema(declaration["parameters"])
            parts.append((declaration["name"], declaration.get("description"), schema))

    tools = offered(parts)
    config = _take(body.get("toolConfig", {}), "tool_config", {}, {"functionCallingConfig": dict})
    calling = _take(
        config.get("functionCallingConfig", {}),
        "function_calling_config",
        {},
        {"mode": str, "allowedFunctionNames": list},
    )
    check_word(
        calling.get("mode", "AUTO"),
        "mode",
        ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"),
    )

    if calling and not tools:
        raise Refused("Function calling config is set without function_declarations.")

    allowed = calling.get("allowedFunctionNames")
    if allowed is not None and calling.get("mode") not in ("ANY", "VALIDATED"):
        raise Refused("allowed_function_names can only be set when mode is ANY or VALIDATED.")

    names = [tool.name for tool in tools]
    for name in allowed or ():
        check_word(name, "allowed_function_names", names)

    if calling.get("mode") == "NONE":
        return (), None

    if calling.get("mode") != "ANY":
        return tools, None

    one = allowed or names

    return tools, one[0] if len(one) == 1 else None


def _messages(contents: Sequence[Any]) -> list[Message]:
    if not contents:
        raise Refused("* GenerateContentRequest.contents: contents is not specified")

    messages: list[Message] = []
    open_calls: list[ToolCall] = []
    for index, item in enumerate(contents):
        at = f"contents[{index}]"
        content = _take(item, at, {"parts": list}, {"role": str})
        role = content.get("role", "user")
        check_word(role, f"{at}.role", ("user", "model", "function"))
        if not content["parts"]:
            raise Refused(f"* GenerateContentRequest.{at}.parts: contents.parts must not be empty.")

        if role == "model":
            if open_calls:
                raise Refused(
                    "Please ensure that function response turn comes immediately after a function"
                    " call turn."
                )

            messages.append(_model_turn(content["parts"], at, index))
            open_calls = list(messages[-1].tool_calls)
            if open_calls and (len(messages) < 2 or messages[-2].role not in ("user", "tool")):
                raise Refused(
                    "Please ensure that function call turn comes immediately after a user turn or a"
                    " function response turn."
                )
        else:
            messages.extend(_user_turn(content["parts"], open_calls, at))
            open_calls = []

    if open_calls:
        raise Refused("Please ensure that the last turn is not a function call.")

    return messages


def _model_turn(parts: Sequence[Any], at: str, index: int) -> Message:
    text = ""
    calls = []
    for item in parts:
        part = _take(
            item,
            at,
            {},
            {"text": str, "thought": bool, "thoughtSignature": str, "functionCall": dict},
        )
        if "functionCall" in part:
            call = _take(
                part["functionCall"],
                f"{at}.function_call",
                {"name": str},
                {"id": str, "args": dict},
            )
            if not _NAME.fullmatch(call["name"]):
                raise Refused(
                    "Invalid function name. Must start with a letter or an underscore.", param=at
                )

            id_ = call.get("id", f"{index}.{len(calls)}")
            calls.append(ToolCall(id_, call["name"], dumps_canonical(call.get("args", {}))))
        elif "text" in part:
            text += "" if part.get("thought") else part["text"]
        else:
            raise Refused(
                f"* {at}.parts: required oneof field 'data' must have one initialized field"
            )

    return Message("assistant", text, tuple(calls))


def _user_turn(parts: Sequence[Any], open_calls: Sequence[ToolCall], at: str) -> list[Message]:
    parts = [_take(part, at, {}, {"text": str, "functionResponse": dict}) for part in parts]
    responses = [part["functionResponse"] for part in parts if "functionResponse" in part]
    if len(responses) != len(open_calls):
        raise Refused(
            "Please ensure that the number of function response parts is equal to the number of"
            " function call parts of the function call turn."
        )

    messages = []
    for call, response in zip(open_calls, responses, strict=True):
        _take(response, f"{at}.function_response", {"name": str, "response": dict}, {"id": str})
        if response["name"] != call.name or response.get("id", call.id) != call.id:
            raise Refused(
                f"{at}: function response {response['name']} does not answer the call of"
                f" {call.name}"
            )

        text = _take(response["response"], f"{at}.function_response.response", {"output": str})[
            "output"
        ]
        messages.append(Message("tool", text, tool_call_id=call.id))

    for part in parts:
        if "functionResponse" not in part:
            if not part.get("text"):
                raise Refused(
                    f"* {at}.parts: required oneof field 'data' must have one initialized field"
                )

            messages.append(Message("user", part["text"]))

    return messages
