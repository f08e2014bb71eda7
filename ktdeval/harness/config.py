"""Limits of one step's conversation; defaults of KTD-Fin Appendix I."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.fields import option


@dataclass(frozen=True)
class HarnessConfig:
    """Budgets of a step. Part of every task config, and so of the card."""

    max_candidates: int = option(30, help="most candidates shown in a step", minimum=1)
    max_tool_calls: int = option(12, help="research tool calls in a step, malformed ones included", minimum=0)
    schema_retries: int = option(3, help="further submissions after an invalid one, with feedback", minimum=0, maximum=20)
    min_reason_chars: int = option(10, help="shortest reason of an order, in characters", minimum=0)
