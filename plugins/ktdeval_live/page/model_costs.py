"""Costs of an entry: totals over its model calls, by session. The calls themselves are private."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from ktdeval.calls import CACHED, CallRecord, read_calls
from ktdeval_live.page.data import Costs, Series
from ktdeval_live.record.entrant_episode import EntrantMarket
from ktdeval_live.record.folder import LiveFolder

_USD_DIGITS = 6


def entry_costs(folder: LiveFolder, entry: EntrantMarket, public: Sequence[bool]) -> Costs:
    """Return the costs of an entry, from its call log. Raises StoreError if the log can't be read.

    `public`: [D] whether the outcome of each session may be shown.
    """
    home = folder.private / entry.entrant.name / entry.market
    return costs_of(read_calls(home), public)


def costs_of(records: Iterable[CallRecord], public: Sequence[bool]) -> Costs:
    """Return the costs of model calls. Replies taken from a record cost nothing."""
    answered: dict[int, list[CallRecord]] = {}
    attempts = 0
    failed = 0
    for record in records:
        step = record.step
        if record.outcome == CACHED or step is None or step >= len(public) or not public[step]:
            continue

        attempts += 1
        if record.is_answered:
            answered.setdefault(step, []).append(record)
        else:
            failed += 1

    usd = tuple(_usd(answered.get(number, ())) for number in range(len(public)))
    tokens = tuple(_tokens(answered.get(number, ())) for number in range(len(public)))
    usd_total = _total(usd, answered)
    tokens_total = _total(tokens, answered)
    return Costs(
        calls=attempts or None,
        failed=failed if attempts else None,
        error_rate=_ratio(failed, attempts),
        usd=usd,
        tokens=tokens,
        usd_total=usd_total,
        usd_a_day=_ratio(usd_total, len(answered)),
        tokens_a_day=_ratio(tokens_total, len(answered)),
    )


def _usd(answers: Collection[CallRecord]) -> float | None:
    """Return a session's cost in US dollars; None without an answer, or if a price is unknown."""
    known = [record.cost_usd for record in answers if record.cost_usd is not None]
    if not answers or len(known) != len(answers):
        return None
    return round(math.fsum(known), _USD_DIGITS)


def _tokens(answers: Collection[CallRecord]) -> float | None:
    """Return the number of tokens in a session; None without an answer, or if the tokens of an
    answer are unknown.
    """
    known = [record.usage for record in answers if record.usage is not None]
    if not answers or len(known) != len(answers):
        return None
    return float(sum(usage.input_tokens + usage.output_tokens for usage in known))


def _total(series: Series, sessions: Iterable[int]) -> float | None:
    """Return the sum over sessions; None if any value is unknown, since the sum would be
    too low.
    """
    known = []
    for session in sessions:
        value = series[session]
        if value is None:
            return None
        known.append(value)

    if not known:
        return None
    return math.fsum(known)


def _ratio(value: float | None, count: int) -> float | None:
    if value is None or not count:
        return None
    return value / count
