"""`google/NAME`: Gemini over the `generateContent` method of the Gemini API, with the headers of the official SDK.

Sources: the API's reference (https://ai.google.dev/api/generate-content), its pages on function calling, thinking and thought
signatures, and the types of the `google-genai` package.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ktdeval.calls import Refusal, bad_response, one_line
from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness import CallParams, FinishReason, Message, ModelRequest, Opaque, Reply, ToolCall, Usage
from ktdeval.jsonio import JsonValue, loads_strict
from ktdeval_models.remote import base
from ktdeval_models.remote.base import RemoteAdapter, count, earlier_calls, error_details, finish_of, sent_arguments, whole_usage
from ktdeval_models.remote.params import GoogleParams

Body = dict[str, Any]

_WORDS = base.wire_words("google")
_FINISH: Mapping[Any, FinishReason] = _WORDS["finish"]
_SEED_BITS = 0x7FFFFFFF  # the API's seed is a signed integer of 32 bits
_TOOL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NOT_IN_TOOL = re.compile(r"[^a-zA-Z0-9_.:-]")
_MODEL = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:@-]*(/[A-Za-z0-9][A-Za-z0-9._:@-]*)*")  # it becomes part of an address
_THINKING = re.compile(r"thinking|include_?thoughts", re.IGNORECASE)
_EMPTY = re.compile(r"credits? (is|are|has been|have been) (depleted|exhausted)|enable billing", re.IGNORECASE)
_PLAN = re.compile(r"check your plan and billing", re.IGNORECASE)
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_ALTERNATIVES = ("anyOf", "oneOf")


class GoogleModel(RemoteAdapter):
    """A Gemini model over the Gemini API (or a server that speaks it).

    Signatures of thoughts, which Gemini 3 wants back with the calls they came with, are the calls' opaque field.
    """

    package = "google.genai"
    extra = "google"
    version = r"/v1(alpha|beta)?\Z"
    params: GoogleParams

    def __init__(self, name: str, params: GoogleParams | None = None) -> None:
        if not _MODEL.fullmatch(name):
            raise UsageError(f"google: {one_line(name)!r} is not a model's name; give one such as google/gemini-3-pro")
        url = "https://generativelanguage.googleapis.com"
        super().__init__("google", name, params or GoogleParams(), url, ("GEMINI_API_KEY", "GOOGLE_API_KEY"))
        full = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
        self.path = f"/{self.params.api_version}/{full}:generateContent"

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers."""
        agent = f"google-genai-sdk/{sdk.__version__}"
        both = dict.fromkeys(("Accept", "Content-Type"), "application/json")
        return {**both, "User-Agent": agent, "x-goog-api-client": agent, "x-goog-api-key": key or ""}

    def settings(self) -> JsonValue:
        """Return parameters that can change a reply."""
        own: dict[str, JsonValue] = {name: getattr(self.params, name) for name in ("api_version", "thoughts", "forced_tool")}
        return {**own, "omit": list(self.params.omit), "extra_body": dict(self.params.extra_body)}

    # --- a request

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call. Raises ProviderError: this API does not take two options of the run together."""
        body: Body = {"contents": list(_contents(request.messages)), "generationConfig": self._generation(request)}
        if system := [{"text": message.content} for message in request.messages if message.role == "system" and message.content]:
            body["systemInstruction"] = {"parts": system}
        if request.tools:
            declared = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": readable_schema(tool.parameters)}
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
            if request.tool_choice is not None and self.params.forced_tool == "named":
                calling = {"mode": "ANY", "allowedFunctionNames": [request.tool_choice]}
                body["toolConfig"] = {"functionCallingConfig": calling}
        body = self._without_omitted(body)
        body["generationConfig"] = self._without_omitted(body.get("generationConfig", {}))
        for name, value in self.params.extra_body.items():
            merges = isinstance(value, Mapping) and isinstance(body.get(name), dict)
            body[name] = {**body[name], **value} if merges else value
        return body

    def _generation(self, request: ModelRequest) -> Body:
        call = request.params
        seed = call.seed & _SEED_BITS
        config: Body = {"temperature": call.temperature, "maxOutputTokens": call.max_output_tokens, "seed": seed}
        if thinking := self._thinking(call):
            config["thinkingConfig"] = thinking
        if request.response_schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = readable_schema(request.response_schema)
        return config

    def _thinking(self, call: CallParams) -> Body:
        budget = 0 if call.reasoning_effort == "none" else call.reasoning_tokens
        if budget == 0:
            return {"thinkingBudget": 0}
        config: Body = {"includeThoughts": True} if self.params.thoughts else {}
        if budget is not None and call.reasoning_effort is not None:
            raise ProviderError("google takes --reasoning-effort or --reasoning-tokens, not both; leave one of them out")
        if budget is not None:
            config["thinkingBudget"] = budget
        if call.reasoning_effort is not None:
            config["thinkingLevel"] = call.reasoning_effort.upper()
        return config

    def _without_omitted(self, fields: Mapping[str, Any]) -> Body:
        """Return fields without those to omit; `max_output_tokens` means `maxOutputTokens`, as in the API's own messages."""
        return {name: value for name, value in fields.items() if not {name, _snake(name)} & set(self.params.omit)}

    # --- a reply

    def decode(self, answer: Mapping[str, Any], request: ModelRequest, body: Mapping[str, Any]) -> Reply:  # noqa: ARG002
        """Return the reply in an answer.

        Raises ModelError `bad_response`: it holds no candidate, or one that ended for an unknown reason; ProviderError: the account
        is barred.
        """
        served_by = answer.get("modelVersion")
        blank = Reply(usage=_usage(answer.get("usageMetadata")), served_by=served_by if isinstance(served_by, str) else "")
        candidate = self._candidate(answer)
        if candidate is None:
            return dataclasses.replace(blank, finish_reason="content_filter")
        reason = candidate.get("finishReason")
        if reason == "PUP_LIMITED_DISABLED":
            raise ProviderError(
                f"google/{self.name}: Google has limited or disabled the account for its use policy; set {self.caller.key} to "
                "the key of another"
            )
        if not isinstance(reason, str) or reason not in _FINISH:
            raise bad_response(self.caller, "the reply has no known finishReason")
        texts: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        # A candidate that was filtered, or used its tokens for thoughts, has no content.
        content = {} if candidate.get("content") is None else base.part(candidate, "content", dict, self.caller)
        for part in base.parts({"parts": [], **content}, "parts", self.caller):
            if "functionCall" in part:
                calls.append(self._call(part, earlier_calls(request) + len(calls) + 1))
            elif isinstance(part.get("text"), str):
                (thoughts if part.get("thought") else texts).append(part["text"])
            elif part.keys() - {"thoughtSignature", "thought"}:
                raise bad_response(self.caller, "the reply holds a part that was not asked for")
        said, reasoning, finish = "".join(texts), "".join(thoughts), finish_of(_FINISH[reason], calls)
        return dataclasses.replace(blank, content=said, reasoning=reasoning, tool_calls=tuple(calls), finish_reason=finish)

    def _candidate(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the one candidate; None where the prompt was blocked."""
        match answer:
            case {"candidates": [dict(candidate)]}:
                return candidate
            case {"promptFeedback": {"blockReason": str()}} if not answer.get("candidates"):
                return None
        raise bad_response(self.caller, "the reply does not hold one candidate")

    def _call(self, part: Mapping[str, Any], number: int) -> ToolCall:
        call, signature = part["functionCall"], part.get("thoughtSignature")
        if not isinstance(call, dict):
            raise bad_response(self.caller, "a function call of the reply is not an object")
        name, arguments, call_id = call.get("name"), call.get("args", {}), call.get("id") or f"call_{number}"
        if not (isinstance(name, str) and isinstance(arguments, dict) and isinstance(call_id, str)):
            raise bad_response(self.caller, "a function call of the reply lacks its name or arguments")
        opaque = Opaque("google", signature) if isinstance(signature, str) else None
        return ToolCall(call_id, name, json.dumps(arguments, ensure_ascii=False), opaque)

    # --- a refusal

    def sent(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame, in both spellings."""
        names = {*body, *body.get("generationConfig", {})} - {"generationConfig"}
        return names | {_snake(name) for name in names}

    def refusal_error(self, refusal: Refusal, content: bytes, body: Mapping[str, Any]) -> ModelError | ProviderError:
        """Return the error for a refusal, with the details of this API."""
        refusal = _detailed(refusal, content)
        if "failed_precondition" in refusal.codes:
            message = one_line(refusal.message, self.caller.secrets)
            return ProviderError(
                f"google/{self.name}: access is refused (HTTP {refusal.status}: {message}); check the region and the billing of "
                f"the project that the key in {self.caller.key} belongs to"
            )
        return super().refusal_error(refusal, content, body)


def _contents(messages: Sequence[Message]) -> Iterator[Body]:
    """Return the turns: the results of one turn's calls come together, in one turn of their own."""
    names: dict[str, str] = {}
    results: list[Body] = []
    for message in messages:
        if message.tool_call_id is not None:
            # The API wants an object; under `output` a tool's text reaches the model as it is.
            result = {"id": message.tool_call_id, "name": _fit(names.get(message.tool_call_id, "unknown"))}
            results.append({"functionResponse": {**result, "response": {"output": message.content}}})
            continue
        if results:
            yield {"role": "user", "parts": results}
            results = []
        if message.role == "user" and message.content:
            yield {"role": "user", "parts": [{"text": message.content}]}
        elif message.role == "assistant" and (parts := list(_model_parts(message))):
            names |= {call.id: call.name for call in message.tool_calls}
            yield {"role": "model", "parts": parts}
    if results:
        yield {"role": "user", "parts": results}


def _model_parts(message: Message) -> Iterator[Body]:
    if message.content:
        yield {"text": message.content}
    for call in message.tool_calls:
        arguments = loads_strict(sent_arguments(call.arguments))  # the API wants an object, whatever the model wrote
        part: Body = {"functionCall": {"id": call.id, "name": _fit(call.name), "args": arguments}}
        signature = call.opaque_of("google")
        yield part if signature is None else {**part, "thoughtSignature": signature}


def _fit(name: str) -> str:
    """Return a tool's name in the form that the API takes."""
    return name if _TOOL.fullmatch(name) else f"_{_NOT_IN_TOOL.sub('_', name)}"[:128]


def readable_schema(schema: Mapping[str, JsonValue]) -> Body:
    """Return a JSON Schema without the words that the API refuses or misreads.

    Alternatives that only list required fields are removed, too: they are conditions, and the API takes an alternative for a whole
    type. An enumeration gets its type. The reader of the reply checks it against the whole schema.
    """
    kept: Body = {}
    for word, value in schema.items():
        if word in ("properties", "$defs"):
            kept[word] = {name: readable_schema(part) for name, part in value.items()}
        elif word in _ALTERNATIVES:
            if all(part.keys() & {"type", "enum", "const", "$ref", "properties", *_ALTERNATIVES} for part in value):
                kept[word] = [readable_schema(part) for part in value]
        elif word == "const":
            kept["enum"] = [value]
        elif word in _WORDS["schema_words"]:
            kept[word] = _readable(value)
    if "type" not in kept and kept.get("enum") and all(isinstance(value, str) for value in kept["enum"]):
        kept["type"] = "string"
    return kept


def _readable(value: Any) -> Any:
    if isinstance(value, Mapping):  # items, additionalProperties
        return readable_schema(value)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):  # prefixItems
        return [readable_schema(item) for item in value]
    return value


def _usage(usage: Any) -> Usage:
    thought = count(usage, "thoughtsTokenCount")
    counts = Usage(
        input_tokens=count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
        output_tokens=count(usage, "candidatesTokenCount") + thought,  # the API counts the two separately
        reasoning_tokens=thought,
        cache_read_tokens=count(usage, "cachedContentTokenCount"),
    )
    return whole_usage(0, counts)


def _snake(name: str) -> str:
    return _SNAKE.sub("_", name).lower()


def _detailed(refusal: Refusal, content: bytes) -> Refusal:
    """Return a refusal with the error's `details`: the reason, the quota, and the time to wait.

    Only quotas of a minute are worth waiting for, not one of a day, nor an account without any.
    """
    codes, wait_s = list(refusal.codes), refusal.retry_after_s
    quotas: list[str] = []
    for detail in _objects(error_details(content)):
        if isinstance(reason := detail.get("reason"), str):
            codes.append(reason.lower())
        if isinstance(delay := detail.get("retryDelay"), str) and (seconds := _SECONDS.fullmatch(delay)):
            wait_s = max(wait_s or 0.0, float(seconds[1]))
        quotas += [str(violation.get("quotaId", "")) for violation in _objects(detail.get("violations"))]
    if refusal.status == 429:
        is_of_a_day = any("PerDay" in quota for quota in quotas)
        has_none = _PLAN.search(refusal.message) is not None and not quotas and wait_s is None
        if is_of_a_day or has_none or _EMPTY.search(refusal.message):
            codes.append("insufficient_quota")
    blamed = refusal.parameter
    if refusal.status == 400 and blamed is None and _THINKING.search(refusal.message) and "signature" not in refusal.message:
        blamed = "thinkingConfig"
    return dataclasses.replace(refusal, codes=tuple(codes), retry_after_s=wait_s, parameter=blamed)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
