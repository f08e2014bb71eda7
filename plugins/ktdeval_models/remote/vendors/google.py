"""`google/NAME`: Gemini over the `generateContent` method of the Gemini API, with the headers of
the official SDK.

Sources: the API reference (https://ai.google.dev/api/generate-content), the pages on function
calling, thinking and thought signatures, and the types of the `google-genai` package.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ktdeval.calls import ProviderRefusal, bad_response, one_line
from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness import (
    NO_TOOL,
    CallParams,
    Message,
    ModelRequest,
    Opaque,
    Reply,
    ToolCall,
    Usage,
    with_distinct_ids,
)
from ktdeval.values import JsonValue, loads_strict
from ktdeval_models.remote import base
from ktdeval_models.remote.base import RemoteAdapter, count, error_details, text_of, whole_usage
from ktdeval_models.remote.batch.google import GoogleBatches
from ktdeval_models.remote.params import GoogleParams, presets
from ktdeval_models.remote.replies.read_tool_calls import (
    broken_call,
    read_call,
    sent_arguments,
    sent_ids,
)
from ktdeval_models.remote.replies.turn_parts import TurnRecord, parts_of_turn
from ktdeval_models.remote.requests.own_fields import OwnForm
from ktdeval_models.remote.requests.schema_rewrites import readable_schema

Body = dict[str, Any]

_SEED_BITS = 0x7FFFFFFF  # the API's seed is a 32-bit signed integer
_TOOL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_NOT_IN_TOOL = re.compile(r"[^a-zA-Z0-9_.:-]")
# A name becomes part of the URL, so it must contain neither `..` nor a query.
_MODEL = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._:@-]*(/[A-Za-z0-9][A-Za-z0-9._:@-]*)*")
_THINKING = re.compile(r"thinking|include_?thoughts", re.IGNORECASE)
_EMPTY = re.compile(
    r"credits? (is|are|has been|have been) (depleted|exhausted)|enable billing", re.IGNORECASE
)
_PLAN = re.compile(r"check your plan and billing", re.IGNORECASE)
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_SNAKE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_MALFORMED = "MALFORMED_FUNCTION_CALL"
# placeholder for a signature, used if the API could not parse the call and quoted it
_UNREAD = "unread"


def check_name(name: str, provider: str) -> None:
    """Raise UsageError if a model name can't be part of an address."""
    if not _MODEL.fullmatch(name):
        raise UsageError(
            f"{provider}: {one_line(name)!r} is not a model's name; give one such as"
            f" {provider}/gemini-2.5-pro"
        )


class GoogleModel(RemoteAdapter):
    """A Gemini model over the Gemini API (or a server that speaks it).

    Gemini 3 requires that a call is sent back with its thought signature, which is stored in the
    call's opaque field. It also expects the signatures of text parts, which are stored in the
    reply's opaque field.
    """

    package = "google.genai"
    extra = "google"
    version = r"/v1(alpha|beta)?\Z"
    params: GoogleParams
    may_drop_thoughts = False  # Gemini refuses a call without its own signature
    own_form = OwnForm("generate_content", ("none", "minimal", "low", "medium", "high"))

    def __init__(
        self,
        name: str,
        params: GoogleParams | None = None,
        provider: str = "google",
        default_url: str | None = None,
    ) -> None:
        check_name(name, provider)
        preset = presets()[provider]
        url = preset.base_url if default_url is None else default_url
        super().__init__(provider, name, params or GoogleParams(), url, preset.variables)
        self.extra = preset.extra
        full = name
        if not name.startswith(("models/", "tunedModels/")):
            full = f"models/{name}"
        self.path = f"/{self.params.api_version}/{full}:generateContent"
        if provider == "google":
            self._batches = GoogleBatches(self, self.params.api_version)

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers."""
        agent = f"google-genai-sdk/{sdk.__version__}"
        both = dict.fromkeys(("Accept", "Content-Type"), "application/json")
        return {
            **both,
            "User-Agent": agent,
            "x-goog-api-client": agent,
            "x-goog-api-key": key or "",
        }

    def settings(self) -> dict[str, JsonValue]:
        """Return the parameters that can change a reply."""
        return {
            **super().settings(),
            "api_version": self.params.api_version,
            "thoughts": self.params.thoughts,
            "forced_tool": self.params.forced_tool,
        }

    # --- a request

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call. Raises ProviderError if two of the run's options can't be
        combined in this API.
        """
        body: Body = {
            "contents": list(_contents(request.messages, self.name)),
            "generationConfig": self._generation(request),
        }
        system = []
        for message in request.messages:
            if message.role == "system" and message.content:
                system.append({"text": message.content})
        if system:
            body["systemInstruction"] = {"parts": system}

        if request.tools:
            declared = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parametersJsonSchema": readable_schema(tool.parameters),
                }
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
            calling: Body = {}
            if request.tool_choice == NO_TOOL:
                calling = {"mode": "NONE"}
            elif request.tool_choice is not None and self.params.forced_tool == "named":
                calling = {"mode": "ANY", "allowedFunctionNames": [request.tool_choice]}
            if calling:
                body["toolConfig"] = {"functionCallingConfig": calling}

        body = self._without_omitted(body)
        body["generationConfig"] = self._without_omitted(body.get("generationConfig", {}))
        for name, value in self.params.extra_body.items():
            if isinstance(value, Mapping) and isinstance(body.get(name), dict):
                body[name] = {**body[name], **value}
            else:
                body[name] = value

        return body

    def _generation(self, request: ModelRequest) -> Body:
        call = request.params
        seed = call.seed & _SEED_BITS
        config: Body = {"seed": seed}
        if call.temperature is not None:
            config["temperature"] = call.temperature
        if call.max_output_tokens is not None:
            config["maxOutputTokens"] = call.max_output_tokens

        thinking = self._thinking(call)
        if thinking:
            config["thinkingConfig"] = thinking

        if request.response_schema is not None:
            # API reference: a schema is used only with this response type.
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = readable_schema(request.response_schema)

        return config

    def _thinking(self, call: CallParams) -> Body:
        budget = call.reasoning_tokens
        if budget == 0 or call.reasoning_effort == "none":
            return {"thinkingBudget": 0}

        config: Body = {}
        if self.params.thoughts:
            config["includeThoughts"] = True

        if budget is not None and call.reasoning_effort is not None:
            raise ProviderError(
                f"{self.provider} takes either --reasoning-effort or --reasoning-tokens; leave "
                "one out"
            )

        if budget is not None:
            config["thinkingBudget"] = budget

        if call.reasoning_effort is not None:
            config["thinkingLevel"] = call.reasoning_effort.upper()

        return config

    def _without_omitted(self, fields: Mapping[str, Any]) -> Body:
        """Return the fields that are not omitted. `omit` may list fields in snake case, as the
        API's own error messages do.
        """
        remaining = {}
        for name, value in fields.items():
            if name not in self.params.omit and _snake(name) not in self.params.omit:
                remaining[name] = value

        return remaining

    # --- a reply

    def decode(
        self,
        answer: Mapping[str, Any],
        request: ModelRequest,
        body: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
        """Return the reply in an answer.

        Raises ModelError `bad_response` if the answer has no candidate, or if the candidate ended
        for an unknown reason. Raises ProviderError if the account is blocked.
        """
        usage = _token_usage(answer.get("usageMetadata"))
        blank = Reply(
            usage=usage,
            served_by=text_of(answer.get("modelVersion")),
            response_id=text_of(answer.get("responseId")),
        )
        candidate = self._candidate(answer)
        if candidate is None:
            return self._without_candidate(answer, blank)

        word = candidate.get("finishReason")
        if word == "PUP_LIMITED_DISABLED":
            raise ProviderError(
                f"{self.provider}/{self.name}: Google has limited or disabled the account for its use"
                f" policy; set {self.caller.key} to the key of another"
            )

        turn = TurnRecord()
        # A candidate has no content if it was filtered, or if it used all its tokens for thoughts.
        content: Mapping[str, Any] = {}
        if candidate.get("content") is not None:
            content = base.part(candidate, "content", dict, self.caller)

        for part in base.parts({"parts": [], **content}, "parts", self.caller):
            if "functionCall" in part:
                turn.add_call(self._call(part))
            elif part.get("thought") and isinstance(part.get("text"), str):
                turn.add_thought(part["text"])
            elif isinstance(text := part.get("text", ""), str) and _is_text_part(part):
                turn.add_text(text, _read_signature(part))
            elif part.keys() - {"thoughtSignature", "thought"}:
                kinds = one_line(", ".join(sorted(part)), self.caller.secrets)
                raise bad_response(
                    self.caller, f"the reply holds a part that was not asked for ({kinds})"
                )

        message = candidate.get("finishMessage")
        if word == _MALFORMED and not turn.calls and isinstance(message, str) and request.tools:
            unread = Opaque("google", _UNREAD)
            turn.calls.append(dataclasses.replace(broken_call(message, request), opaque=unread))

        text = "".join(turn.texts)
        ending = self.ending(word, text, turn.calls, request)
        reply = dataclasses.replace(
            blank,
            content=text,
            reasoning="".join(turn.thoughts),
            tool_calls=tuple(turn.calls),
            finish_reason=ending.finish,
            notes=ending.notes,
            opaque=turn.opaque("google", self.name),
        )

        return with_distinct_ids(reply, sent_ids(request))

    def _candidate(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the only candidate; None if absent."""
        match answer.get("candidates"):
            case [dict(candidate)]:
                return candidate
            case None | []:
                return None
        raise bad_response(self.caller, "the reply does not hold one candidate")

    def _without_candidate(self, answer: Mapping[str, Any], blank: Reply) -> Reply:
        """Return the reply for an answer without a candidate, if the prompt was blocked, or if the
        reply is empty but was paid for. Raises ModelError `bad_response` in any other case.
        """
        match answer:
            case {"promptFeedback": {"blockReason": str()}}:
                blocked = one_line(_block_reason(answer), self.caller.secrets)
                return dataclasses.replace(blank, finish_reason="content_filter", notes=(blocked,))

        return base.empty_reply(blank.usage, blank.served_by, "candidates", self.caller)

    def _call(self, part: Mapping[str, Any]) -> ToolCall:
        call = part["functionCall"]
        signature = part.get("thoughtSignature")
        if not isinstance(call, dict):
            raise bad_response(self.caller, "a function call of the reply is not an object")

        # the API omits empty arguments
        found = read_call({"args": {}, **call}, "args", text_of(call.get("id")))
        if not isinstance(signature, str):
            return found
        return dataclasses.replace(found, opaque=Opaque("google", signature))

    # --- a refusal

    def list_fields(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame, in both spellings."""
        names = {*body, *body.get("generationConfig", {})} - {"generationConfig"}
        return names | {_snake(name) for name in names}

    def refusal_error(
        self, refusal: ProviderRefusal, content: bytes, body: Mapping[str, Any]
    ) -> ModelError | ProviderError:
        """Return the error for a refusal, with the details that this API gives."""
        refusal = _add_details(refusal, content)
        if "failed_precondition" in refusal.codes:
            message = one_line(refusal.message, self.caller.secrets)
            return ProviderError(
                f"{self.provider}/{self.name}: access is refused (HTTP {refusal.status}: {message}); check"
                f" the region and the billing of the project that the key in {self.caller.key}"
                " belongs to"
            )
        return super().refusal_error(refusal, content, body)


def _contents(messages: Sequence[Message], model: str) -> Iterator[Body]:
    """Yield the turns. The results of all calls in one turn are joined into one turn."""
    names: dict[str, str] = {}
    as_text: set[str] = set()
    results: list[Body] = []

    for message in messages:
        call_id = message.tool_call_id
        if call_id in as_text:
            results.append({"text": message.content})
            continue

        if call_id is not None:
            # The API requires an object; the model gets the text unchanged under `output`.
            result = {
                "id": call_id,
                "name": _accepted_name(names.get(call_id, "unknown")),
                "response": {"output": message.content},
            }
            results.append({"functionResponse": result})
            continue

        if results:
            yield {"role": "user", "parts": results}
            results = []

        if message.role == "user" and message.content.strip():
            yield {"role": "user", "parts": [{"text": message.content}]}
        elif message.role == "assistant":
            names |= {call.id: call.name for call in message.tool_calls}
            as_text |= {call.id for call in message.tool_calls if _is_text(call)}
            parts = list(_model_parts(message, model))
            if parts:
                yield {"role": "model", "parts": parts}

    if results:
        yield {"role": "user", "parts": results}


def _model_parts(message: Message, model: str) -> Iterator[Body]:
    """Yield the parts of a model's turn, each with its own signature. Parts with a signature are
    neither joined nor moved (page on thought signatures).
    """
    parts = parts_of_turn(message, "google", model)
    if parts is None:
        if message.content.strip():
            yield {"text": message.content}
        yield from map(_call_part, message.tool_calls)
        return

    for part in parts:
        if part.call is not None:
            yield _call_part(part.call)
        elif part.text.strip() or part.marks:
            yield {"text": part.text, **part.marks}


def _call_part(call: ToolCall) -> Body:
    if _is_text(call):
        return {"text": f"{call.name} {call.arguments}".strip()}

    arguments = loads_strict(sent_arguments(call.arguments))  # the API requires an object
    part: Body = {
        "functionCall": {"id": call.id, "name": _accepted_name(call.name), "args": arguments}
    }
    signature = call.opaque_of("google")
    if signature is not None:
        # Page on thought signatures: Gemini 3 refuses a call without its own signature.
        part["thoughtSignature"] = signature
    return part


def _is_text_part(part: Mapping[str, Any]) -> bool:
    """Return whether a part is text of the reply, or only carries the signature of a text."""
    return "text" in part or (bool(_read_signature(part)) and not part.get("thought"))


def _read_signature(part: Mapping[str, Any]) -> Body:
    """Return a part's signature in the form in which it is sent back; empty if absent."""
    signature = part.get("thoughtSignature")
    return {"thoughtSignature": signature} if isinstance(signature, str) else {}


def _is_text(call: ToolCall) -> bool:
    """Return whether an earlier call is sent as text because Gemini itself could not parse it. Such
    a call has no signature, and Gemini 3 refuses calls without one.
    """
    return call.opaque_of("google") == _UNREAD


def _accepted_name(name: str) -> str:
    """Return a tool name in the form that the API accepts."""
    if _TOOL.fullmatch(name):
        return name
    return f"_{_NOT_IN_TOOL.sub('_', name)}"[:128]


def _block_reason(answer: Mapping[str, Any]) -> str:
    """Return why the prompt was blocked, in the API's words."""
    feedback = answer["promptFeedback"]
    reason = f"prompt blocked: {feedback['blockReason']}"
    message = text_of(feedback.get("blockReasonMessage"))
    if message:
        reason += f" ({message})"
    return reason


def _token_usage(usage: Any) -> Usage:
    thought = count(usage, "thoughtsTokenCount")
    counts = Usage(
        input_tokens=count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount"),
        # The API counts thoughts separately.
        output_tokens=count(usage, "candidatesTokenCount") + thought,
        reasoning_tokens=thought,
        cache_read_tokens=count(usage, "cachedContentTokenCount"),
    )
    return whole_usage(0, counts)


def _snake(name: str) -> str:
    return _SNAKE.sub("_", name).lower()


def _add_details(refusal: ProviderRefusal, content: bytes) -> ProviderRefusal:
    """Return a refusal, with the reason and the retry delay taken from the error's `details`.

    An exhausted daily quota and an account without quota become `insufficient_quota`, which is not
    retried. Exhausted per-minute quotas are retried.
    """
    codes = list(refusal.codes)
    wait_s = refusal.retry_after_s
    quotas: list[str] = []

    for detail in _objects(error_details(content)):
        reason = detail.get("reason")
        if isinstance(reason, str):
            codes.append(reason.lower())

        seconds = _SECONDS.fullmatch(text_of(detail.get("retryDelay")))
        if seconds is not None:
            wait_s = max(wait_s or 0.0, float(seconds[1]))

        for violation in _objects(detail.get("violations")):
            quotas.append(str(violation.get("quotaId", "")))

    if refusal.status == 429:
        is_of_a_day = any("PerDay" in quota for quota in quotas)
        has_none = _PLAN.search(refusal.message) is not None and not quotas and wait_s is None
        if is_of_a_day or has_none or _EMPTY.search(refusal.message):
            codes.append("insufficient_quota")

    blamed = refusal.parameter
    if (
        refusal.status == 400
        and blamed is None
        and _THINKING.search(refusal.message)
        and "signature" not in refusal.message
    ):
        blamed = "thinkingConfig"

    return dataclasses.replace(refusal, codes=tuple(codes), retry_after_s=wait_s, parameter=blamed)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; empty if the value is not a list."""
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]
