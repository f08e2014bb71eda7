"""Context window of a model: which prompts fit it, as far as this is known before they are paid
for.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ktdeval.calls.costs.packaged_prices import packaged_context
from ktdeval.calls.costs.prices import read_price_table
from ktdeval.calls.costs.prompt_size import (
    MIN_TOKENS,
    USUAL_TOKENS,
    PromptBytes,
    prompt_bytes,
    reply_room,
)
from ktdeval.calls.failures.context_refusals import Context, ContextExceeded
from ktdeval.harness.chat_messages import ModelRequest, RemoteModel, Usage
from ktdeval.harness.traits import model_traits
from ktdeval.registry.plugin_boundary import call_through

MIN_ROOM = 512  # tokens; with a lower `--max-output-tokens`, most replies would be cut
_PATIENCE_S = 5.0  #: maximum seconds to wait for what a server reports about a model
_MIN_COUNTED = 100
"""Smallest prompt, in tokens, whose count is used to measure bytes a token: shorter prompts are
mostly what the provider writes around them.
"""


def given_context(tokens: int | None) -> Context | None:
    """Return the context given by the user; None if the user gave no context."""
    return None if tokens is None else Context(tokens, "(--context-tokens)")


# ---- what a server states


def stated_context(model: RemoteModel) -> Context | None:
    """Return the context reported by a model's server; None if the server does not report it."""
    ask_server = model_traits(model).served_context
    if ask_server is None:
        return None

    where = f"model {model.provider}/{model.name}: served_context()"
    stated = call_through(ask_server, where, _PATIENCE_S)
    return stated if isinstance(stated, Context) else None


def listed_context(full_name: str, price_table: Path | None) -> Context | None:
    """Return the context listed for PROVIDER/NAME in the package that a price table refers to; None
    if it is not listed. The figure may be out of date or differ by host, so it is suitable only for
    plans.
    """
    if price_table is None:
        return None

    package = read_price_table(price_table).package
    if package is None:
        return None

    listed = packaged_context(package, full_name)
    if listed is None:
        return None

    tokens, source = listed
    return Context(tokens, f"({source})", is_listed=True)


# ---- what is known during a run


class ContextWindow:
    """Knowledge about the context of a run's model and the token counts of its prompts.
    Thread-safe.

    The tokens of a prompt are estimated from its bytes. Until the provider has counted a prompt,
    the estimate is a likely minimum, so that no prompt that might fit is held back. After that, the
    rate of the largest counted prompt is used.

    A prompt at least as large as one that the server rejected does not fit; a prompt no larger than
    one that was answered does. If the server rejects a prompt of the latter kind as too long, the
    real reason must be another one, and nothing is learned from it.
    """

    def __init__(self, context: Context | None = None) -> None:
        self._lock = threading.Lock()
        self._context = context
        # True if the user gave the context, which then has precedence
        self._is_given = context is not None
        self._largest_answered = 0.0  # estimated tokens of the largest prompt that was answered
        self._largest_counted = 0.0  # estimated tokens of the largest prompt that was counted
        # counted tokens per estimated token, from the largest counted prompt
        self._rate: float | None = None
        self._refused_from: float | None = None  # estimated tokens of the smallest rejected prompt

    @property
    def context(self) -> Context | None:
        """Return the known context."""
        return self._context

    @property
    def cuts_prompts(self) -> bool:
        """Return whether the server is known to truncate prompts silently."""
        return self._context is not None and self._context.cuts_prompts

    def learn(self, context: Context | None) -> None:
        """Adopt the context that the server reports. A context given by the user has precedence,
        unless the server reports a smaller one.
        """
        if context is None:
            return

        with self._lock:
            known = self._context
            if known is None or not self._is_given or context.tokens < known.tokens:
                self._context = context

    def check(self, request: ModelRequest, size: PromptBytes | None = None) -> None:
        """Raise ContextExceeded if a request is known not to fit. `size` is the size of its prompt,
        if already known.
        """
        size = size or prompt_bytes(request)
        usual = size.tokens(USUAL_TOKENS)
        with self._lock:
            context = self._context
            rate = self._rate
            refused_from = self._refused_from
            was_answered = usual <= self._largest_answered

        if was_answered and not self._is_given and not self.cuts_prompts:
            return

        room = reply_room(request)
        estimate = usual * (rate or 1.0)
        problem = ""
        if refused_from is not None and usual >= refused_from:
            problem = (
                f"a prompt of about {round(estimate):,} tokens is at least as long as one that the"
                f" server refused as too long, {_state_context(context)}"
            )
        elif context is not None:
            fewest = size.tokens(MIN_TOKENS)
            if rate is None:
                estimate = fewest
            if context.cuts_prompts:
                estimate = max(estimate, fewest)
            if estimate > context.room(request):
                problem = does_not_fit(round(estimate), context, room)

        if problem:
            advice = ways_out(round(estimate), context, room)
            raise ContextExceeded(f"{problem}; it was not sent; {advice}")

    def explain_refusal(self, request: ModelRequest, error: ContextExceeded) -> ContextExceeded:
        """Return the error for a server's refusal. It gives both token counts, as the server
        reports them or else as known or estimated here, and says what to do.
        """
        with self._lock:
            context = error.context or self._context
            rate = self._rate or 1.0

        tokens = error.prompt_tokens
        about = ""
        if tokens is None:
            tokens = round(prompt_bytes(request).tokens(USUAL_TOKENS) * rate)
            about = "about "

        advice = ways_out(tokens, context, reply_room(request))
        words = (
            f"{error}; the prompt has {about}{tokens:,} tokens, {_state_context(context)}; {advice}"
        )
        return ContextExceeded(words, error.context, error.prompt_tokens, error.retry_after_s)

    def note_count(
        self, request: ModelRequest, usage: Usage, size: PromptBytes | None = None
    ) -> None:
        """Note the token count that the provider reported for an answered prompt. `size`: as in
        `check`.
        """
        usual = (size or prompt_bytes(request)).tokens(USUAL_TOKENS)
        with self._lock:
            self._largest_answered = max(usual, self._largest_answered)
        self._count(usual, usage.input_tokens)

    def note_refusal(self, request: ModelRequest, error: ContextExceeded) -> None:
        """Note a prompt that the server rejected, with the numbers that it reported."""
        usual = prompt_bytes(request).tokens(USUAL_TOKENS)
        with self._lock:
            if usual <= self._largest_answered:
                return

            self._refused_from = min(usual, self._refused_from or usual)

        if error.prompt_tokens is not None:
            self._count(usual, error.prompt_tokens)

        self.learn(error.context)

    def _count(self, usual: float, tokens: int) -> None:
        if tokens < _MIN_COUNTED or usual <= 0:
            return

        with self._lock:
            if usual >= self._largest_counted:
                self._largest_counted = usual
                self._rate = tokens / usual


def does_not_fit(prompt_tokens: int, context: Context, room: int) -> str:
    """Return a message that a prompt does not fit a context together with a reply of at most `room`
    tokens.
    """
    needed = f"a prompt of about {prompt_tokens:,} tokens"
    if context.holds_reply:
        needed += f" and a reply of up to {room:,} (--max-output-tokens)"
    return f"{needed} does not fit: {_state_context(context)}"


def ways_out(prompt_tokens: int, context: Context | None, room: int) -> str:
    """Return what to do about a prompt that does not fit: use a larger context, shorten the prompt
    or, if there is some room left, shorten the reply.
    """
    longer = "use a longer context"
    shorter = ""
    if context is not None:
        holds_reply = context.holds_reply
        needed = prompt_tokens + (room if holds_reply else 0)
        if needed > context.tokens:  # the estimate agrees with the server
            longer = f"use a context of at least {needed:,} tokens"

        left = context.tokens - prompt_tokens
        if holds_reply and MIN_ROOM <= left < room:
            shorter = f", lower --max-output-tokens to {left:,}"

    return f"{longer}{shorter}, or choose a task and an agent with shorter prompts"


def _state_context(context: Context | None) -> str:
    if context is None:
        return "the context is not stated"
    return f"the context is {context.tokens:,} tokens {context.source}"
