"""Speed of a server on this machine, from timed calls.

Such a server takes from seconds to many minutes for a call, by the length of prompt and reply, so
that no usual duration of hosted models fits. The check before a run makes a few small calls; their
time for each token scales to any prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

from ktdeval.calls.records.record import CallRecord

#: prompt tokens that a server reads in the time in which it writes one token, by scenario. Measured
#: on two processor cores: 5 (61 read and 12 written tokens a second); on graphics cards about 50.
READ_PER_WRITTEN: Mapping[str, float] = {"low": 50.0, "typical": 10.0, "high": 5.0}


@dataclass(frozen=True)
class ServerSpeed:
    """Time that timed calls took, and their tokens."""

    calls: int
    seconds: float
    #: prompt tokens that were not read from a prompt cache
    fresh_tokens: int
    written_tokens: int

    def token_s(self, scenario: str) -> float:
        """Return the seconds for one prompt token in a scenario."""
        ratio = READ_PER_WRITTEN[scenario]
        return self.seconds / (self.fresh_tokens + ratio * self.written_tokens)

    def seconds_of(self, fresh_tokens: float, written_tokens: float, scenario: str) -> float:
        """Return the seconds for prompts and replies with this many tokens in a scenario."""
        ratio = READ_PER_WRITTEN[scenario]
        return (fresh_tokens + ratio * written_tokens) * self.token_s(scenario)

    def words(self) -> str:
        """Return what the timed calls say about longer ones, by scenario."""
        units_s = {scenario: self.token_s(scenario) for scenario in READ_PER_WRITTEN}
        read = " / ".join(f"{1 / unit_s:,.0f}" for unit_s in units_s.values())
        written = " / ".join(
            f"{1 / (READ_PER_WRITTEN[scenario] * unit_s):,.1f}"
            for scenario, unit_s in units_s.items()
        )
        return (
            f"{read} prompt tokens and {written} written ones a second, from {self.calls:,} calls"
            " so far, including those of the check; long prompts may be slower than that"
        )


def server_speed(records: Iterable[CallRecord]) -> ServerSpeed | None:
    """Return the speed of a server from its answered calls; None if none of them counted tokens."""
    counted = [each for each in records if each.is_answered and each.usage is not None]
    fresh = written = 0
    for each in counted:
        assert each.usage is not None
        fresh += each.usage.input_tokens - each.usage.cache_read_tokens
        written += each.usage.output_tokens

    seconds = math.fsum(each.latency_s for each in counted)
    if fresh + written == 0 or seconds <= 0:
        return None
    return ServerSpeed(len(counted), seconds, fresh, written)


def is_on_this_machine(address: str) -> bool:
    """Return whether a server's address is of this machine or of its private network."""
    host = urlsplit(address).hostname or ""
    if host == "localhost" or host.endswith(".local"):
        return True
    try:
        return ip_address(host).is_private
    except ValueError:
        return False
