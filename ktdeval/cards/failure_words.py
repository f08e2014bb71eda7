"""Words on what a model did not manage: failures, retries, held steps, refused orders, silent roles.

A sentence that reads a decision as prudence ("no order") must look at all of these first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards.fields.episode_parts import Decisions, Finished, Orders
from ktdeval.cards.fields.replies.roles import episode_turns
from ktdeval.cards.fields.words import read_words
from ktdeval.cards.table_types import count, tally
from ktdeval.harness.steps.step_record import SILENT_ROLE


def failure_words(
    decisions: Decisions,
    failures: Mapping[str, int],
    orders: Orders | None,
    episodes: Sequence[Finished],
    step: str,
) -> str:
    """Return one line on all failures and repairs behind a card's figures; empty if nothing failed.

    `orders` is None without an account. `step` is the name of a step, such as `sample`.
    """
    return "; ".join(_parts(decisions, failures, orders, episodes, step))


def tally_failures(failures: Mapping[str, int]) -> str:
    """Return failures by kind, in the words of cards, most frequent first."""
    named: dict[str, int] = {}
    for kind, times in failures.items():
        words = read_words().failures.get(kind)
        named[kind if words is None else words.label] = times

    return tally(named)


def _parts(
    decisions: Decisions,
    failures: Mapping[str, int],
    orders: Orders | None,
    episodes: Sequence[Finished],
    step: str,
) -> Iterator[str]:
    steps = decisions.steps
    if decisions.model_after_retry:
        yield f"{decisions.model_after_retry:,} of {count(steps, step)} decided after a retry"

    held = {
        "no valid submission": decisions.fallback,
        "the model call failed": decisions.error,
    }
    if any(held.values()):
        yield f"{sum(held.values()):,} of {count(steps, step)} not decided: {tally(held)}"

    turns = episode_turns(episodes)
    if any(role.silent for role in turns):
        silent = sum(role.silent for role in turns)
        total = sum(role.turns for role in turns)
        yield f"{silent:,} of {count(total, 'turn')} of roles without an answer"

    others = {kind: times for kind, times in failures.items() if times and kind != SILENT_ROLE}
    if others:
        yield f"{count(sum(others.values()), 'failure')}: {tally_failures(others)}"

    if orders is not None and (orders.rejected or orders.partially_filled or any(orders.rules)):
        affected = orders.rejected + orders.partially_filled
        listed = tally(orders.rules)
        yield f"{affected:,} of {count(orders.submitted, 'order')} rejected or cut: {listed}"
