"""What is known of the servers that speak OpenAI's Chat Completions, as data: addresses, variables, and where each departs from it.

Facts are from the servers' own documentation, or from reports of what they answer where that is silent; each entry says which.
A parameter of `--model-args` overrides what may have changed since (`CompatibleParams`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ForcedTool = Literal["named", "required", "auto"]
JsonMode = Literal["json_schema", "json_object"]
TokensField = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True)
class Preset:
    """A server and its ways.

    Attributes:
        provider: the provider's name.
        summary: for listings.
        base_url: its address; "" when there is none by default.
        variables: environment variables that may hold its key.
        needs_key: whether it serves nobody without one. Such servers are paid for, so that their replies must say what they used.
        thinks: whether its models think unless told not to.
        forced_tool: how a tool is forced while the model does not think: by name, as the one tool on offer that is `required`, or
            (`auto`) by the conversation alone, with no other tool on offer.
        forced_tool_thinking: the same while it thinks.
        max_tokens_field: the field that limits a reply, reasoning included.
        takes_seed: whether it has a field `seed`.
        json_mode: how a reply is held to a JSON Schema: by the schema, or as any JSON object with the schema in the prompt.
        takes_effort: whether it has a field `reasoning_effort`.
        budget_field: the field for the most tokens of reasoning.
        think_on: fields that switch thinking on, sent with an effort other than none, or with a budget.
        think_off: fields that switch it off, sent with the effort `none`.
        empty_thought: what to send as `reasoning_content` of an earlier turn with tool calls, for servers that refuse such a turn
            without the field while they think. The reasoning itself is not sent back.
        extra_body: fields that every request has.
        meanings: see `ktdeval_models.remote.errors.Caller`.
    """

    provider: str
    summary: str
    base_url: str
    variables: tuple[str, ...]
    needs_key: bool = True
    thinks: bool = False
    forced_tool: ForcedTool = "named"
    forced_tool_thinking: ForcedTool = "named"
    max_tokens_field: TokensField = "max_tokens"
    takes_seed: bool = False
    json_mode: JsonMode = "json_object"
    takes_effort: bool = True
    budget_field: str | None = None
    think_on: Mapping[str, Any] = field(default_factory=dict)
    think_off: Mapping[str, Any] = field(default_factory=dict)
    empty_thought: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    meanings: Mapping[str, int] = field(default_factory=dict)


_TYPE_ON: Mapping[str, Any] = {"thinking": {"type": "enabled"}}
_TYPE_OFF: Mapping[str, Any] = {"thinking": {"type": "disabled"}}

# The reference: platform.openai.com/docs/api-reference/chat, as in the types of the `openai` package.
OPENAI_CHAT = Preset(
    "openai",
    "OpenAI",
    "https://api.openai.com/v1",
    ("OPENAI_API_KEY",),
    max_tokens_field="max_completion_tokens",
    takes_seed=True,
    json_mode="json_schema",
    think_off={"reasoning_effort": "none"},
)

COMPATIBLE = Preset(
    "openai_compatible",
    "Any server that speaks OpenAI's Chat Completions, at --base-url",
    "",
    ("OPENAI_COMPATIBLE_API_KEY",),
    needs_key=False,
    takes_seed=True,
    json_mode="json_schema",
    think_off={"reasoning_effort": "none"},
)

# docs.vllm.ai, "Tool Calling" (named, required, auto) and "Reasoning Outputs": Qwen3 thinks unless its chat template is told not
# to; `thinking_token_budget` caps it. `reasoning` was `reasoning_content` before 0.11; both are read.
VLLM = Preset(
    "vllm",
    "A vLLM server, on port 8000 of this machine or at --base-url",
    "http://localhost:8000/v1",
    ("VLLM_API_KEY",),
    needs_key=False,
    takes_seed=True,
    json_mode="json_schema",
    budget_field="thinking_token_budget",
    think_off={"chat_template_kwargs": {"enable_thinking": False}},
)

# docs.ollama.com/api/openai-compatibility: tools, tool_choice, response_format, seed, max_tokens; reasoning_effort high, medium,
# low or none (ollama PR 14821). Versions that don't know tool_choice ignore it. Prompts beyond its context length are cut
# silently: set OLLAMA_CONTEXT_LENGTH on the server.
OLLAMA = Preset(
    "ollama",
    "An Ollama server, on port 11434 of this machine or at --base-url",
    "http://localhost:11434/v1",
    ("OLLAMA_API_KEY",),
    needs_key=False,
    takes_seed=True,
    json_mode="json_schema",
    think_off={"reasoning_effort": "none"},
)

# alibabacloud.com/help/en/model-studio: "OpenAI compatible - Chat" and "Error messages" (Arrearage and DataInspectionFailed are
# 400, AllocationQuota.FreeTierOnly 403, Throttling.AllocationQuota 429: an allocation of tokens a minute, which passes). "The
# tool_choice parameter does not support being set to required or object in thinking mode" (cloudwego/eino issue 994). Singapore
# is at dashscope-intl.aliyuncs.com. Models that only stream (QwQ, some open Qwen3 while thinking) can't be asked.
DASHSCOPE = Preset(
    "dashscope",
    "Alibaba Cloud Model Studio (Qwen and others), in Beijing unless --base-url says otherwise",
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    ("DASHSCOPE_API_KEY",),
    forced_tool_thinking="auto",
    takes_seed=True,
    takes_effort=False,
    budget_field="thinking_budget",
    think_on={"enable_thinking": True},
    think_off={"enable_thinking": False},
    meanings={
        "arrearage": 402,
        "allocationquota.freetieronly": 402,
        "insufficient_quota": 429,
        "throttling": 429,
        "datainspectionfailed": 451,
        "data_inspection_failed": 451,
    },
)

# api-docs.deepseek.com: "Error Codes" (402), "Thinking Mode" (on by default; effort high or max, others are mapped; after a tool
# call `reasoning_content` must come back, and an empty one is taken: earendil-works/pi PR 4178). Forced tools are 400 while
# thinking, and taken without (BerriAI/litellm PR 37470).
DEEPSEEK = Preset(
    "deepseek",
    "DeepSeek",
    "https://api.deepseek.com",
    ("DEEPSEEK_API_KEY",),
    thinks=True,
    forced_tool_thinking="auto",
    think_on=_TYPE_ON,
    think_off=_TYPE_OFF,
    empty_thought="",
)

# platform.stepfun.com/docs/zh/api-reference/chat (and platform.stepfun.ai, whose API is at api.stepfun.ai): no seed and no
# tool_choice among the fields; its Responses API takes only "auto".
STEPFUN = Preset(
    "stepfun",
    "StepFun",
    "https://api.stepfun.com/v1",
    ("STEPFUN_API_KEY", "STEP_API_KEY"),
    forced_tool="auto",
    forced_tool_thinking="auto",
    json_mode="json_object",
)

# platform.kimi.ai/docs/api: "Chat", "Errors" and "Models overview" (api.moonshot.ai outside China). Thinking is on by default;
# K2.x takes `thinking`, K3 `reasoning_effort`, and both together are refused (HKUDS/nanobot issue 3939). Forced tools are 400
# while thinking (inspect_ai PR 5152, can1357/oh-my-pi issue 1077). After a tool call `reasoning_content` must come back and not
# be empty: a space is taken (earendil-works/pi PR 4178). Models with a fixed temperature need omit=temperature.
MOONSHOT = Preset(
    "moonshot",
    "Moonshot AI (Kimi)",
    "https://api.moonshot.cn/v1",
    ("MOONSHOT_API_KEY",),
    thinks=True,
    forced_tool_thinking="auto",
    max_tokens_field="max_completion_tokens",
    think_off=_TYPE_OFF,
    empty_thought=" ",
    meanings={
        "exceeded_current_quota_error": 402,
        "engine_overloaded_error": 529,
        "invalid_authentication_error": 401,
        "incorrect_api_key_error": 401,
    },
)

# docs.z.ai/api-reference (open.bigmodel.cn and api.z.ai/api/paas/v4 are the same API): "Errors" (1113 arrears, 1211 no such
# model, 1301 sensitive content, 1302 too many at once), `thinking`. Any tool_choice but auto is refused, or never answered
# (vectorize-io/hindsight issue 4246, Smana/runlore issue 391).
ZHIPU = Preset(
    "zhipu",
    "Zhipu AI, Z.ai (GLM)",
    "https://open.bigmodel.cn/api/paas/v4",
    ("ZHIPUAI_API_KEY", "ZAI_API_KEY"),
    thinks=True,
    forced_tool="auto",
    forced_tool_thinking="auto",
    takes_effort=False,
    think_on=_TYPE_ON,
    think_off=_TYPE_OFF,
    meanings={
        **dict.fromkeys(("1000", "1001", "1002", "1003", "1004"), 401),
        **dict.fromkeys(("1110", "1111", "1112", "1121", "1220"), 403),
        "1113": 402,
        "1211": 404,
        "1301": 451,
        **dict.fromkeys(("1302", "1303", "1305"), 429),
    },
)

# platform.minimax.io/docs/api-reference (api.minimaxi.com in China): "OpenAI compatible" (reasoning_split moves thoughts out of
# the content), "Error Codes", which come as `base_resp` of a 200. No tool_choice is documented, and M2 ignores response_format
# (MiniMax-AI/MiniMax-M2.5 issue 4).
MINIMAX = Preset(
    "minimax",
    "MiniMax",
    "https://api.minimax.io/v1",
    ("MINIMAX_API_KEY",),
    thinks=True,
    forced_tool="auto",
    forced_tool_thinking="auto",
    extra_body={"reasoning_split": True},
    meanings={
        **dict.fromkeys(("1000", "1024", "1033"), 500),
        "1001": 504,
        "1002": 429,
        "1004": 401,
        "1008": 402,
        **dict.fromkeys(("1026", "1027"), 451),
        "1039": 429,
        "2013": 400,
        "2049": 401,
    },
)

# volcengine.com/docs/82379 (docs.byteplus.com/en/docs/ModelArk outside China): "ChatCompletions" (max_tokens leaves out
# reasoning, max_completion_tokens has it; effort minimal … high) and "Error codes".
VOLCENGINE = Preset(
    "volcengine",
    "Volcengine Ark (Doubao and others)",
    "https://ark.cn-beijing.volces.com/api/v3",
    ("ARK_API_KEY",),
    thinks=True,
    max_tokens_field="max_completion_tokens",
    think_on=_TYPE_ON,
    think_off=_TYPE_OFF,
    meanings={
        "accountoverdueerror": 402,
        "serveroverloaded": 529,
        "authenticationerror": 401,
        "invalidendpointormodel": 404,
        "sensitivecontentdetected": 451,
        "inputtextsensitivecontentdetected": 451,
        "outputtextsensitivecontentdetected": 451,
    },
)

COMPATIBLE_SERVERS = {
    preset.provider: preset
    for preset in (COMPATIBLE, VLLM, OLLAMA, DASHSCOPE, DEEPSEEK, STEPFUN, MOONSHOT, ZHIPU, MINIMAX, VOLCENGINE)
}
"""The providers of `ktdeval models` that are served by `ktdeval_models.remote.openai_chat`, by name."""
