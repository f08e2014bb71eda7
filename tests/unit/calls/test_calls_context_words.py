"""Refusals of prompts that are longer than the context, in the words of each server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktdeval.calls import Caller, http_error, is_retryable
from ktdeval.calls.failures.context_refusals import Context, ContextExceeded
from ktdeval.errors import ModelError, ProviderError
from ktdeval.testing import on_each_row

CALLER = Caller("openai", "m", "http://localhost:8000/v1", ("OPENAI_API_KEY",))


def refusal(status: int, body: Any) -> ModelError | ProviderError:
    return http_error(
        status, json.dumps(body).encode(), {}, CALLER, ("model", "messages", "max_tokens", "tools")
    )


# What servers answer to a prompt that is too long: status, body, context, whether it holds the reply, tokens counted in the prompt.
@on_each_row(
    "server, status, body, tokens, holds_reply, counted",
    (
        "openai",
        400,
        {
            "error": {
                "message": (
                    "This model's maximum context length is 8192 tokens. However, your "
                    "messages resulted in 9000 tokens. Please reduce the length of the "
                    "messages."
                ),
                "type": "invalid_request_error",
                "param": "messages",
                "code": "context_length_exceeded",
            }
        },
        8192,
        True,
        9000,
    ),
    (
        "openai responses",
        400,
        {
            "error": {
                "message": (
                    "Your input exceeds the context window of this model. Please "
                    "adjust your input and try again."
                ),
                "code": "context_length_exceeded",
            }
        },
        None,
        None,
        None,
    ),
    (
        "openai per minute",
        429,
        {
            "error": {
                "message": (
                    "Request too large for gpt-4 in organization org-1 on tokens per "
                    "min (TPM): Limit 10000, Requested 12500. The input or output "
                    "tokens must be reduced."
                ),
                "type": "tokens",
                "code": "rate_limit_exceeded",
            }
        },
        10000,
        True,
        None,
    ),
    (
        "vllm",
        400,
        {
            "object": "error",
            "message": (
                "This model's maximum context length is 4096 tokens. However, you "
                "requested 5100 tokens (4100 in the messages, 1000 in the completion). "
                "Please reduce the length of the messages or completion."
            ),
            "type": "BadRequestError",
            "code": 400,
        },
        4096,
        True,
        4100,
    ),
    (
        "vllm max_tokens",
        400,
        {
            "error": {
                "message": (
                    "'max_tokens' or 'max_completion_tokens' is too large: 4096. This "
                    "model's maximum context length is 8192 tokens and your request "
                    "has 5000 input tokens (4096 > 8192 - 5000)."
                ),
                "type": "BadRequestError",
                "param": "max_tokens",
                "code": 400,
            }
        },
        8192,
        True,
        5000,
    ),
    (
        "vllm new",
        400,
        {
            "error": {
                "message": (
                    "You passed 5000 input tokens and requested 4096 output tokens. "
                    "However, the model's context length is only 8192 tokens, "
                    "resulting in a maximum input length of 4096 tokens."
                ),
                "code": 400,
            }
        },
        8192,
        True,
        5000,
    ),
    (
        "vllm least",
        400,
        {
            "error": {
                "message": (
                    "This model's maximum context length is 40960 tokens. However, you "
                    "requested 4096 output tokens and your prompt contains at least "
                    "36865 input tokens, for a total of at least 40961 tokens."
                ),
                "code": 400,
            }
        },
        40960,
        True,
        36865,
    ),
    (
        "vllm engine",
        400,
        {
            "error": {
                "message": (
                    "The decoder prompt (length 9000) is longer than the maximum model "
                    "length of 8192. Make sure that `max_model_len` is no smaller than "
                    "the number of text tokens."
                ),
                "code": 400,
            }
        },
        8192,
        False,
        9000,
    ),
    (
        "anthropic",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
        200_000,
        False,
        210_000,
    ),
    (
        "anthropic sum",
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": (
                    "input length and `max_tokens` exceed context limit: 188240 + "
                    "21333 > 200000, decrease input length or `max_tokens` and try again"
                ),
            },
        },
        200_000,
        True,
        188_240,
    ),
    (
        "gemini",
        400,
        {
            "error": {
                "code": 400,
                "message": (
                    "The input token count (1200000) exceeds the maximum number of "
                    "tokens allowed (1048576)."
                ),
                "status": "INVALID_ARGUMENT",
            }
        },
        1_048_576,
        False,
        1_200_000,
    ),
    (
        "gemini old",
        400,
        {
            "error": {
                "code": 400,
                "message": (
                    "The input token count exceeds the maximum number of tokens allowed 30720."
                ),
                "status": "INVALID_ARGUMENT",
            }
        },
        30720,
        False,
        None,
    ),
    (
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": (
                    "the request exceeds the available context size. try increasing "
                    "the context size or enable context shift"
                ),
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 9000,
                "n_ctx": 8192,
            }
        },
        8192,
        False,
        9000,
    ),
    (
        "llama.cpp words",
        400,
        {
            "error": {
                "code": 400,
                "message": (
                    "request (9000 tokens) exceeds the available context size (8192 "
                    "tokens), try increasing it"
                ),
                "type": "exceed_context_size_error",
            }
        },
        8192,
        False,
        9000,
    ),
    (
        "llama-cpp-python",
        400,
        {
            "error": {
                "message": (
                    "This model's maximum context length is 512 tokens. However, you "
                    "requested 621 tokens (113 in the messages, 508 in the "
                    "completion). Please reduce the length of the messages or completion."
                ),
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        512,
        True,
        113,
    ),
    (
        "llama-cpp-python 500",
        500,
        {
            "error": {
                "message": "Requested tokens (2047) exceed context window of 512",
                "type": "internal_server_error",
            }
        },
        512,
        True,
        2047,
    ),
    ("ollama", 400, {"error": "the input length exceeds the context length"}, None, None, None),
    (
        "text-generation-inference",
        422,
        {
            "error": "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
            "error_type": "validation",
        },
        4096,
        False,
        5000,
    ),
    (
        "text-generation-inference sum",
        422,
        {
            "error": (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= "
                "8192. Given: 5000 `inputs` tokens and 4096 `max_new_tokens`"
            ),
            "error_type": "validation",
        },
        8192,
        True,
        5000,
    ),
    (
        "sglang",
        400,
        {
            "object": "error",
            "message": "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
            "type": "BadRequestError",
            "code": 400,
        },
        8192,
        False,
        9000,
    ),
    (
        "openrouter",
        400,
        {
            "error": {
                "message": (
                    "This endpoint's maximum context length is 65536 tokens. However, "
                    "you requested about 70000 tokens (60000 of text input, 10000 in "
                    "the output). Please reduce the length of either one."
                ),
                "code": 400,
            }
        },
        65536,
        True,
        60000,
    ),
    (
        "lm studio",
        400,
        {
            "error": (
                "Trying to keep the first 9000 tokens when context the overflows. However, "
                "the model is loaded with context length of only 4096 tokens, which is not "
                "enough."
            )
        },
        4096,
        True,
        None,
    ),
    (
        "xai",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": (
                "This model's maximum prompt length is 131072 but the request contains "
                "140000 tokens."
            ),
        },
        131_072,
        False,
        140_000,
    ),
    (
        "moonshot",
        400,
        {
            "error": {
                "message": "Invalid request: Your request exceeded model token limit: 8192",
                "type": "invalid_request_error",
            }
        },
        8192,
        True,
        None,
    ),
    (
        "dashscope",
        400,
        {
            "error": {
                "message": "Range of input length should be [1, 30720]",
                "code": "invalid_parameter_error",
            }
        },
        30720,
        False,
        None,
    ),
    (
        "groq",
        400,
        {
            "error": {
                "message": "Please reduce the length of the messages or completion.",
                "type": "invalid_request_error",
                "code": "context_length_exceeded",
            }
        },
        None,
        None,
        None,
    ),
    (
        "mistral",
        400,
        {
            "object": "error",
            "message": (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
                "32768 maximum context length"
            ),
            "code": 3051,
        },
        32768,
        True,
        40000,
    ),
    (
        "cohere",
        400,
        {
            "message": (
                "too many tokens: total number of tokens in the prompt cannot exceed 4081 "
                "- received 5000. Try using a shorter prompt."
            )
        },
        4081,
        False,
        5000,
    ),
    (
        "minimax",
        200,
        {
            "base_resp": {
                "status_code": 2013,
                "status_msg": "invalid params, context window exceeds limit (2013)",
            }
        },
        None,
        None,
        None,
    ),
    (
        "volcengine",
        400,
        {
            "error": {
                "message": "Input length 130000 exceeds the maximum length 98304.",
                "code": "InvalidParameter",
            }
        },
        98304,
        False,
        130_000,
    ),
    (
        "fireworks",
        400,
        {
            "error": {
                "message": "The prompt is too long: 140000, model maximum context length: 131071",
                "code": "invalid_request_error",
            }
        },
        131_071,
        False,
        140_000,
    ),
    (
        "deepseek",
        400,
        {
            "error": {
                "message": (
                    "This model's maximum context length is 131,072 tokens. However, "
                    "you requested 140,000 tokens (136,000 in the messages, 4,000 in "
                    "the completion)."
                ),
                "type": "invalid_request_error",
            }
        },
        131_072,
        True,
        136_000,
    ),
)
def test_a_refusal_of_a_long_prompt_is_known_by_each_servers_words(
    server: str,
    status: int,
    body: Any,
    tokens: int | None,
    holds_reply: bool | None,
    counted: int | None,
) -> None:
    error = refusal(status, body)
    assert isinstance(error, ContextExceeded), server
    assert error.kind == "context_exceeded"
    assert not is_retryable(error)
    assert not error.may_be_billed
    assert error.prompt_tokens == counted

    if tokens is None:
        assert error.context is None
    else:
        assert isinstance(error.context, Context)
        assert (error.context.tokens, error.context.holds_reply) == (tokens, holds_reply)


@on_each_row(
    "server, status, body, kind",
    (
        "size in bytes",
        413,
        {"error": {"message": "Request exceeds the maximum size", "type": "request_too_large"}},
        "bad_request",
    ),
    (
        "minute",
        429,
        {
            "error": {
                "message": (
                    "Rate limit reached for gpt-4 on tokens per min (TPM): Limit "
                    "10000, Used 9000, Requested 2000. Please try again in 6s."
                ),
                "code": "rate_limit_exceeded",
            }
        },
        "rate_limited",
    ),
    ("server", 500, {"error": {"message": "The server had an error"}}, "server"),
    (
        "tools",
        400,
        {"error": {"message": "tools[0].description is longer than 1024 characters"}},
        "bad_request",
    ),
    (
        "call_id",
        400,
        {
            "error": {
                "message": (
                    "Invalid 'call_id': string too long. Expected a string with maximum length 64."
                )
            }
        },
        "bad_request",
    ),
)
def test_another_refusal_is_none_of_a_long_prompt(
    server: str, status: int, body: Any, kind: str
) -> None:
    error = refusal(status, body)
    assert isinstance(error, ModelError), server
    assert error.kind == kind


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_the_key_or_the_model_stays_one(status: int) -> None:
    body = {"error": {"message": "no access to the maximum context length"}}
    assert isinstance(refusal(status, body), ProviderError)
