"""The close by which an entry must be public."""

from __future__ import annotations

from datetime import datetime

from ktdeval.market import find_venue
from ktdeval_published.publication import close_of


def test_on_a_half_day_an_entry_is_public_before_the_early_close() -> None:
    at = close_of("2025-07-03", find_venue("us_equity"))
    assert at == datetime.fromisoformat("2025-07-03T17:00Z")


def test_the_close_of_coins_is_the_end_of_the_day() -> None:
    at = close_of("2025-07-03", find_venue("crypto_spot"))
    assert at == datetime.fromisoformat("2025-07-04T00:00Z")
