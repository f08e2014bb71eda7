"""Venues: what the built-in files say, and what a venue may not be."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ktdeval.errors import ConfigError, UsageError
from ktdeval.fields import to_mapping
from ktdeval.market.venue import built_in_venues, find_venue, parse_venue
from ktdeval.trading.types import TradingConfig


@pytest.mark.parametrize(
    ("name", "ticks_per_minor", "days", "calendar", "shorts", "fill"),
    [
        ("a_share", 100, 252, "XSHG", False, "next_open"),
        ("us_equity", 10_000 * 10_000 // 100, 252, "XNYS", True, "next_open"),
        ("crypto_spot", 10**14, 365, "24/7", False, "next_open"),
        ("frictionless", 10**14, 252, "24/7", True, "same_close"),
        ("frictionless_long", 10**14, 252, "24/7", False, "same_close"),
    ],
)
def test_built_in_venues(name: str, ticks_per_minor: int, days: int, calendar: str, shorts: bool, fill: str) -> None:
    venue = find_venue(name)
    assert venue.name == name
    assert (venue.ticks_per_minor, venue.days_a_year, venue.calendar) == (ticks_per_minor, days, calendar)
    assert (venue.short is not None, venue.fill) == (shorts, fill)


def test_the_a_share_venue_has_the_costs_and_lots_that_tasks_trade_with_unless_they_say_otherwise() -> None:
    venue, config = find_venue("a_share"), TradingConfig()
    assert (venue.fees.buy_bps, venue.fees.sell_bps, venue.fees.minimum) == (
        config.buy_fee_bps, config.sell_fee_bps, config.min_fee_cny,
    )  # fmt: skip
    assert venue.lot_steps == config.lot_shares


def test_every_field_of_a_venue_is_documented_and_written_out_it_is_read_as_itself() -> None:
    for venue in built_in_venues().values():
        assert all(field.metadata["help"] for field in dataclasses.fields(venue))
        assert parse_venue(to_mapping(venue), "again") == venue


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ticks_per_unit": 1, "minor_per_unit": 100}, "must be a multiple of minor_per_unit"),
        ({"short": {"borrow_pct_a_year": 1, "initial_margin_pct": 20, "maintenance_margin_pct": 30}}, "swap them"),
        ({"has_boards": True, "steps_per_unit": 100}, "leave steps_per_unit at 1"),
        ({"fees": {"buy_bp": 5}}, "unknown field 'buy_bp'; did you mean 'buy_bps'"),
        ({"fill": "open"}, "expected one of next_open, next_close, same_close"),
        ({"days_a_year": 0}, "expected a value in 1 … 366"),
    ],
)
def test_a_venue_whose_rules_do_not_go_together_is_an_error(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_venue({**to_mapping(find_venue("a_share")), **change}, "mine.yaml")


def test_an_unknown_venue_is_named_with_what_is_near() -> None:
    with pytest.raises(UsageError, match="venue 'us_equities' is unknown; did you mean 'us_equity'"):
        find_venue("us_equities")
