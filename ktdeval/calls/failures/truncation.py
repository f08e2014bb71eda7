"""Replies that were cut off: what cut them, and what helps."""

from __future__ import annotations

from ktdeval.harness.chat_messages import ModelRequest, Reply

#: share of the output limit above which a truncated reply is taken to have hit the limit: some
#: servers count a few tokens less
_CUT_BY_LIMIT = 0.9


def truncation_advice(request: ModelRequest, reply: Reply) -> str:
    """Return what cut a reply off, and which setting to change."""
    limit = request.params.max_output_tokens
    written = reply.usage.output_tokens or limit or 0
    problem = f"a reply was cut at {written:,} tokens"
    if limit is None:
        return f"{problem}, the provider's own limit; set --max-output-tokens"
    if written >= _CUT_BY_LIMIT * limit:
        return f"{problem}; raise --max-output-tokens"

    return (
        f"{problem}, below --max-output-tokens {limit}: its context was full; give the model a"
        " longer context, or choose a task and an agent with shorter prompts"
    )
