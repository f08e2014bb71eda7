"""Calls to a remote model: their number and cost, and whether the counts are consistent with each
other, with the episodes, and with the tokens that the episodes report.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import field
from msgspec.structs import replace

from ktdeval.calls.costs.prices import PriceEntry
from ktdeval.calls.records.call_counts import EpisodeCalls, call_figures
from ktdeval.calls.records.record import CallRecord
from ktdeval.calls.served_model_name import is_other_model
from ktdeval.cards.fields.base_types import (
    Count,
    Counts,
    EpisodeId,
    Name,
    NonNegative,
    Problem,
    decode_part,
)
from ktdeval.cards.fields.episode_parts import UsageCounts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.json_paths import JsonPath
from ktdeval.cards.table_types import Row, count, dollars
from ktdeval.harness.chat_messages import USAGE_FIELDS, Usage
from ktdeval.values.documents.typed_json import Value


class Latencies(Value, frozen=True):
    """Response times of the answered attempts, in seconds."""

    median: NonNegative | None
    p90: NonNegative | None
    p99: NonNegative | None
    longest: NonNegative | None


class CheckCalls(Value, frozen=True):
    """Calls outside episodes, shared by all cards of the run: the capability check and the fixed
    questions.
    """

    requests: Count
    attempts: Count
    paid_usd: NonNegative | None
    possibly_paid_usd: NonNegative


class ModelCalls(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Calls of the card's episodes to one of its models."""

    requests: Count
    attempts: Count
    answered: Count
    tokens: Counts  #: tokens of the answered attempts
    paid_usd: NonNegative | None
    possibly_paid_usd: NonNegative
    #: on cards written before `episodes.served` existed: answered requests by the model that the
    #: provider named
    served_by: Counts = field(default_factory=dict)

    def are_of_another_model(self, asked: str) -> bool:
        """Return whether the provider named a model other than `asked` in any reply."""
        return any(is_other_model(asked, served) for served in self.served_by)


class Calls(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Calls of the card's episodes, over all sessions of the run."""

    requests: Count  #: number of different requests, whatever their outcome
    attempts: Count  #: number of attempts, including failed ones
    answered: Count  #: number of attempts that were answered
    cached: Count  #: replies taken from the reply cache, paid by earlier calls
    #: replies repeated for steps that were interrupted and ran again; not included in the two
    #: counts above
    repeated: Count
    #: replies that no transcript contains: of steps that ran again and then got a different reply
    unused: Count
    failed_attempts: Counts  #: attempts without a reply, by kind of failure
    tokens: Counts  #: tokens of the answered attempts
    #: cost of the answered attempts in US dollars; null if a price is unknown
    paid_usd: NonNegative | None
    #: maximum US dollars that may have been charged for attempts without a reply
    possibly_paid_usd: NonNegative
    latency_s: Latencies
    lost_s: NonNegative  #: seconds spent on attempts without a reply
    #: on cards written before `episodes.served` existed: answered requests by the model that the
    #: provider named
    served_by: Counts = field(default_factory=dict)
    checks: CheckCalls
    episodes: dict[EpisodeId, EpisodeCalls]  #: calls of each episode that made any, by its id
    #: calls of each model, PROVIDER/NAME; absent if only one model was called
    models: dict[Name, ModelCalls] = field(default_factory=dict)
    #: number of answered attempts made by the provider's batch interface; absent if none
    batched: Count = 0

    def are_of_another_model(self, asked: str) -> bool:
        """Return whether the provider named a model other than `asked` in any reply. With several
        models, each reply is compared with the model that was called.
        """
        if self.models:
            parts = self.models.items()
            return any(own.are_of_another_model(name.partition("/")[2]) for name, own in parts)

        return any(is_other_model(asked, served) for served in self.served_by)

    def without_served(self) -> Calls:
        """Return the figures in the form of cards that count the answering models in
        `episodes.served`.
        """
        models = {name: replace(own, served_by={}) for name, own in self.models.items()}
        return replace(self, served_by={}, models=models)


def gather_calls(records: Iterable[CallRecord], episodes: Collection[str]) -> Calls:
    """Return the call figures for the given episodes, over all sessions of the run."""
    return decode_part("provenance", call_figures(records, episodes), Calls)


# ---- checks

_SUMS = ("attempts", "answered", "cached", "repeated", "unused", "failed_attempts", "tokens")
"""Counts of a card that are sums over its episodes."""

_CALLS = ("provenance", "calls")


def call_problems(calls: Calls, usage: Mapping[str, UsageCounts]) -> Iterator[Problem]:
    """Yield contradictions in a card's call counts. `usage` is keyed by finished episode."""
    for name in _SUMS:
        parts = [getattr(own, name) for own in calls.episodes.values()]
        if _summed_counts(parts) != _summed_counts([getattr(calls, name)]):
            yield (*_CALLS, name), "is not the sum over its episodes"

    yield from _model_problems(calls)
    yield from _count_problems(calls)
    for id_, own in calls.episodes.items():
        where = (*_CALLS, "episodes", id_)
        if own.openings == 0:
            yield (*where, "openings"), "is 0 for an episode with calls"

        if own.answered + sum(own.failed_attempts.values()) != own.attempts:
            yield (*where, "attempts"), "are not the sum of answered and failed attempts"

        if own.replies < 0:
            yield (*where, "unused"), "are more than the answers"

        problem = _token_problem(own, usage[id_]) if id_ in usage else None
        if problem is not None:
            yield (*where, "tokens"), problem


def unpaid_problems(
    calls: Calls, own: str, prices: Mapping[str, PriceEntry | None]
) -> Iterator[str]:
    """Yield a problem for each model whose calls are reported as free although the model has a
    price. `own` is the card's model; `prices` holds the prices of all models, keyed by name.
    """
    parts: Mapping[str, Calls | ModelCalls] = calls.models or {own: calls}
    for model, counted in parts.items():
        price = prices.get(model)
        tokens = Usage(*(counted.tokens.get(name, 0) for name in USAGE_FIELDS))
        if counted.paid_usd == 0 and price is not None and price.cost(tokens):
            yield (
                f"provenance.calls.paid_usd: is 0 for {model}, but the tokens of its answers have"
                " a price"
            )


def batch_problem(calls: Calls, price: PriceEntry | None) -> str | None:
    """Return how the number of batched replies contradicts a card's price. A batch price applies to
    either all replies or none.
    """
    if price is None:
        return None
    if price.batch is True and calls.batched != calls.answered:
        return f"are {calls.batched:,} of {calls.answered:,} answers, though the price is that of a batch"
    if price.batch is not True and calls.batched:
        return f"are {calls.batched:,}, though the price is that of ordinary calls"
    return None


def several_models_problem(calls: Calls, asked: Collection[str]) -> str | None:
    """Return why the calls can't all have been made to one model. `asked` contains the additional
    models of an agent's roles, and an empty name for the card's own model.
    """
    if calls.models or len(asked) < 2:
        return None
    return f"provenance.calls.models: are missing, but {len(asked)} models were asked"


def uncounted_problems(calls: Calls, usage: Mapping[str, UsageCounts]) -> Iterator[str]:
    """Yield a problem for each episode that reports model tokens but no calls to a provider.
    `usage` is the usage of each finished episode.
    """
    for id_, used in usage.items():
        if id_ not in calls.episodes and any(getattr(used, name) for name in USAGE_FIELDS):
            yield (
                f"provenance.calls.episodes: no calls are counted for episode {id_}, which used"
                " tokens"
            )


def _count_problems(calls: Calls) -> Iterator[Problem]:
    """Yield a problem for each impossible request count or response time."""
    if calls.batched > calls.answered:
        yield (*_CALLS, "batched"), f"are more than the {calls.answered:,} that were answered"

    parts: list[tuple[Calls | ModelCalls, JsonPath]] = [(calls, _CALLS)]
    for name, own in calls.models.items():
        parts.append((own, (*_CALLS, "models", name)))

    for counted, where in parts:
        if not counted.requests and counted.attempts:
            yield (*where, "requests"), f"is 0 with {counted.attempts:,} attempts"

    seconds = (
        calls.latency_s.median,
        calls.latency_s.p90,
        calls.latency_s.p99,
        calls.latency_s.longest,
    )
    known = [each for each in seconds if each is not None]
    if len(known) != (len(seconds) if calls.answered else 0):
        yield (*_CALLS, "latency_s"), "must be given if a call was answered, and null otherwise"
    elif known != sorted(known):
        yield (*_CALLS, "latency_s"), "must rise from median to longest"


def _model_problems(calls: Calls) -> Iterator[Problem]:
    """Yield a problem for each count whose sum over models differs from the card's total."""
    if not calls.models:
        return

    paid = [own.paid_usd for own in calls.models.values()]
    known = [each for each in paid if each is not None]
    total = math.fsum(known) if len(known) == len(paid) else None
    if not _is_sum(calls.paid_usd, total):
        yield (*_CALLS, "paid_usd"), "is not the sum over its models"

    for name in ("requests", "attempts", "answered", "tokens", "served_by"):
        parts = [getattr(own, name) for own in calls.models.values()]
        if _summed_counts(parts) != _summed_counts([getattr(calls, name)]):
            yield (*_CALLS, "models"), f"{name} do not add up to {name} of the card"


def _is_sum(stated: float | None, total: float | None) -> bool:
    """Return whether an amount in dollars equals a total, up to rounding in the last bits. Null
    means that the amount is unknown, and equals only null.
    """
    if stated is None or total is None:
        return stated is total
    return math.isclose(stated, total, rel_tol=1e-9, abs_tol=1e-12)


def _summed_counts(counts: Iterable[int | dict[str, int]]) -> dict[str, int]:
    """Return the sum of counts under an empty name, or one sum per name. Names with a sum of zero
    are omitted.
    """
    total: Counter[str] = Counter()
    for each in counts:
        total.update({"": each} if isinstance(each, int) else each)
    return {name: number for name, number in sorted(total.items()) if number}


def _token_problem(calls: EpisodeCalls, usage: UsageCounts) -> str | None:
    """Return how the tokens that an episode reports differ from the tokens that were paid for. The
    two need not agree if a reply came from the cache or was dropped.
    """
    if calls.cached or calls.unused:
        return None

    for name in USAGE_FIELDS:
        used = getattr(usage, name)
        paid = calls.tokens.get(name, 0)
        if used != paid:
            return (
                f"{name}: {paid:,} were answered and no reply was cached, but the episode reports"
                f" {used:,}"
            )

    return None


# ---- wording


def call_count_rows(calls: Calls) -> Iterator[Row]:
    """Yield rows on the number of calls, failures, response times, payments and the models that
    answered.
    """
    yield field_label("provenance.calls.requests"), _request_words(calls)
    if calls.unused:
        openings = max(own.openings for own in calls.episodes.values())
        drawn = f"an episode was opened {openings:,} times, and its last answers differ"
        yield "unused answers", f"{count(calls.unused, 'answer')} that no transcript holds: {drawn}"

    if calls.latency_s.median is not None:
        yield field_label("provenance.calls.latency_s"), _latency_words(calls)

    yield field_label("provenance.calls.paid_usd"), _payment_words(calls)
    if calls.served_by:
        names = [f"{name} ({number:,})" for name, number in calls.served_by.items()]
        yield field_label("provenance.calls.served_by"), ", ".join(names)


def _request_words(calls: Calls) -> str:
    failed = f"{sum(calls.failed_attempts.values()):,} failed attempts"
    kinds = [f"{kind} {number:,}" for kind, number in calls.failed_attempts.items()]
    if kinds:
        failed += f": {', '.join(kinds)}"

    by_batch = f" ({calls.batched:,} by batch)" if calls.batched else ""
    answered = (
        f"{calls.answered:,} answered by the provider{by_batch}, {calls.cached:,} from the cache"
    )
    if calls.repeated:
        answered += f", {calls.repeated:,} answered again from the record after an interruption"

    return f"{calls.requests:,}: {answered}; {failed}"


def _latency_words(calls: Calls) -> str:
    seconds = calls.latency_s
    most = f"99 % within {seconds.p99:.2f} s, longest {seconds.longest:.2f} s"
    words = f"median {seconds.median:.2f} s, {most}"
    if calls.lost_s:
        words += f"; {calls.lost_s:,.1f} s in failed attempts"

    return words


def _payment_words(calls: Calls) -> str:
    words = "not known" if calls.paid_usd is None else f"{dollars(calls.paid_usd)} USD"
    if calls.possibly_paid_usd:
        words += f", possibly {dollars(calls.possibly_paid_usd)} USD more"
    if calls.checks.paid_usd:
        words += f"; checks of the run {dollars(calls.checks.paid_usd)} USD"

    return words
