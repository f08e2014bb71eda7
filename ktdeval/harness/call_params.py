"""Sampling and transport parameters of a model call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ToolProtocol = Literal["native", "json_schema", "text"]
"""How tools reach a model: the provider's own tool calling, a reply that must follow a JSON Schema,
or plain text.
"""
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class CallParams:
    """Sampling and transport parameters of a model call (defaults from KTD-Fin Appendix I). The
    harness derives `seed` for each call, so that a keyless model may use randomness and still be a
    pure function of its request.

    Example:
        CallParams(temperature=0.0, max_output_tokens=1024)
    """

    temperature: float = 0.7  #: sampling temperature
    #: maximum tokens of a reply, including reasoning if the provider counts it
    max_output_tokens: int = 4096
    #: maximum seconds from sending a request to receiving the last byte of the reply
    timeout_s: float = 120.0
    seed: int = 0  #: seed, for providers that accept one
    #: reasoning effort of a reasoning model; None leaves the choice to the provider
    reasoning_effort: ReasoningEffort | None = None
    #: maximum reasoning tokens, for providers that accept such a budget; None leaves the choice to
    #: the provider
    reasoning_tokens: int | None = None
    tool_protocol: ToolProtocol = "native"  #: how tools are offered to the model


DEFAULT_PARAMS = CallParams()
