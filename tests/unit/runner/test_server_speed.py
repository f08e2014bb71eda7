"""Speed of a server on this machine, from the small calls of the check before a run."""

from __future__ import annotations

import pytest

from ktdeval.calls.records.record import CallRecord
from ktdeval.harness.chat_messages import Usage
from ktdeval.runner.rehearsals.server_speed import is_on_this_machine, server_speed


def call(seconds: float, usage: Usage | None, outcome: str = "answered") -> CallRecord:
    at = "2026-01-31T23:59:59.123Z"
    return CallRecord(at, "check", "0" * 16, outcome, 1, seconds, usage)


#: of the 420 prompt tokens, 120 came from the cache; 60 were written
CHECK = [
    call(6.0, Usage(200, 30)),
    call(2.0, Usage(220, 30, cache_read_tokens=120)),
    call(99.0, None, "timeout"),
    call(99.0, Usage(9000, 10), "cached"),
]


def test_time_scales_with_the_tokens_of_prompt_and_reply() -> None:
    speed = server_speed(CHECK)

    assert speed is not None
    assert (speed.calls, speed.seconds, speed.fresh_tokens, speed.written_tokens) == (
        2,
        8.0,
        300,
        60,
    )
    # 8 s for 300 + 5 x 60 = 600 units: 75 prompt tokens a second, 15 written ones
    assert 1 / speed.token_s("high") == pytest.approx(75)
    # 8 s for 300 + 10 x 60 = 900 units
    assert speed.seconds_of(11_300, 100, "typical") == pytest.approx((11_300 + 1000) * 8 / 900)


@pytest.mark.parametrize("records", [[], [call(1.0, None)], [call(1.0, Usage())]])
def test_without_counted_tokens_no_speed_is_known(records: list[CallRecord]) -> None:
    assert server_speed(records) is None


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost:11434", True),
        ("http://[::1]:8080/v1", True),
        ("http://192.168.1.7/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://8.8.8.8/v1", False),
    ],
)
def test_addresses_of_this_machine_and_its_network(address: str, expected: bool) -> None:
    assert is_on_this_machine(address) is expected
