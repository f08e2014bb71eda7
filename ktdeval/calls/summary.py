"""Figures of a run's calls for the card, from their record."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ktdeval.calls.record import ANSWERED, CACHED, NO_EPISODE, CallRecord
from ktdeval.harness.messages import Usage
from ktdeval.jsonio import JsonValue


def summarise_calls(records: Iterable[CallRecord], episodes: Collection[str]) -> dict[str, JsonValue] | None:
    """Summarise the calls of some episodes, those of earlier sessions included. `records`: of a run
    (`ktdeval.calls.call_log.read_calls`); `episodes`: ids of the episodes that count, as those of one card. Figures by name, as
    `provenance.calls` of a card has them; None where there is no call of these episodes. `checks` holds the calls that belong to no
    episode and serve the whole run.
    """
    own, checks = _Tally(), _Tally()
    for record in records:
        if record.episode in episodes:
            own.add(record)
        elif record.episode in NO_EPISODE:
            checks.add(record)
    if not own.requests:
        return None
    return {
        "requests": len(own.requests),
        "attempts": own.attempts,
        "answered": len(own.latencies_s),
        "cached": own.cached,
        "failed_attempts": dict(sorted(own.failed.items())),
        "tokens": own.usage.to_json(),
        "paid_usd": own.paid_usd,
        "possibly_paid_usd": own.possibly_paid_usd,
        "latency_s": _latencies(sorted(own.latencies_s)),
        "lost_s": round(own.lost_s, 3),
        "served_by": dict(sorted(Counter(name for name in own.requests.values() if name).items())),
        "checks": {
            "requests": len(checks.requests),
            "attempts": checks.attempts,
            "paid_usd": checks.paid_usd,
            "possibly_paid_usd": checks.possibly_paid_usd,
        },
    }


@dataclass(slots=True)
class _Tally:
    """Running totals. A request that a resumed run asks again is the same request; its answer then comes from the cache. `requests`
    maps episode and key to what served the answer: "" where there is none, or the provider does not say.
    """

    requests: dict[tuple[str, str], str] = field(default_factory=dict)
    attempts: int = 0
    cached: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    latencies_s: list[float] = field(default_factory=list)
    lost_s: float = 0.0
    usage: Usage = field(default_factory=Usage)
    costs_usd: list[float | None] = field(default_factory=list)
    held_usd: list[float] = field(default_factory=list)

    def add(self, record: CallRecord) -> None:
        """Count one record."""
        self.requests[record.episode, record.key] = record.served_by or self.requests.get((record.episode, record.key), "")
        if record.outcome == CACHED:
            self.cached += 1
            return
        self.attempts += 1
        self.held_usd.append(record.held_usd)
        if record.outcome == ANSWERED:
            self.latencies_s.append(record.latency_s)
            self.usage += record.usage or Usage()
            self.costs_usd.append(record.cost_usd)
        else:
            self.failed[record.outcome] += 1
            self.lost_s += record.latency_s

    @property
    def paid_usd(self) -> float | None:
        """US dollars of all answers; None where that of one is not known, for a sum of the others would look like all."""
        known = [cost for cost in self.costs_usd if cost is not None]
        return math.fsum(known) if len(known) == len(self.costs_usd) else None

    @property
    def possibly_paid_usd(self) -> float:
        """US dollars reserved for attempts that may have been billed without an answer."""
        return math.fsum(self.held_usd)


def _latencies(ordered_s: Sequence[float]) -> dict[str, float | None]:
    """Percentiles by nearest rank, so that each is the time of a call that was made."""
    shares = {"median": 50, "p90": 90, "p99": 99, "longest": 100}
    if not ordered_s:
        return dict.fromkeys(shares)
    return {name: round(ordered_s[max(math.ceil(share * len(ordered_s) / 100), 1) - 1], 3) for name, share in shares.items()}
