"""Codes that look like those of one asset, and kinds of securities by their codes."""

from __future__ import annotations

import pandas as pd
import pytest

from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.checks.renumbering import renumberings
from ktdeval_raw_markets.checks.security_kinds import kind_of_security
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.market.raw_market import DAYS, bars, market


def market_of(*lives: tuple[str, slice, float]) -> RawMarket:
    """A market in which each code has bars on some of the days, at a price of its own."""
    parts = []
    for code, days, price in lives:
        part = bars((code,), DAYS[days])
        parts.append(
            part.assign(open=price, high=price, low=price, close=price, amount=price * 1000),
        )

    return market(pd.concat(parts, ignore_index=True), synthetic=False)


OTHER = ("600519.SH", slice(0, 5), 10.0)


@pytest.mark.parametrize(
    ("former", "code", "expected"),
    [
        # Beijing's codes of October 2025 end in the digits of the former ones; prices may move by
        # the limit meanwhile.
        (("430047.BJ", slice(0, 2), 10.0), ("920047.BJ", slice(3, 5), 12.0), True),
        (("430047.BJ", slice(0, 2), 10.0), ("920048.BJ", slice(3, 5), 10.0), False),
        (("430047.BJ", slice(0, 2), 10.0), ("920047.BJ", slice(3, 5), 15.0), False),
        (("430047.BJ", slice(0, 4), 10.0), ("920047.BJ", slice(3, 5), 10.0), False),
        # Elsewhere the next day's close near the last one is what tells.
        (("000022.SZ", slice(0, 2), 10.0), ("001872.SZ", slice(2, 5), 10.3), True),
        (("000022.SZ", slice(0, 2), 10.0), ("001872.SZ", slice(2, 5), 20.0), False),
        (("000022.SZ", slice(0, 2), 10.0), ("001872.SZ", slice(3, 5), 10.0), False),
    ],
)
def test_a_code_that_continues_under_another_one_is_named(
    former: tuple[str, slice, float],
    code: tuple[str, slice, float],
    expected: bool,
) -> None:
    raw = market_of(former, code, OTHER)
    found = renumberings(raw)

    assert [(each.former, each.code) for each in found] == [(former[0], code[0])] * expected

    warned = [finding for finding in check(raw) if finding.rule == "renumbered_codes"]
    assert len(warned) == expected
    assert all(f"{code[0]},NAME,," in finding.message for finding in warned)


def test_codes_that_may_go_on_under_several_are_not_named() -> None:
    twice = market_of(
        ("000022.SZ", slice(0, 2), 10.0),
        ("001872.SZ", slice(2, 5), 10.0),
        ("001914.SZ", slice(2, 5), 10.1),
        OTHER,
    )

    assert renumberings(twice) == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("000300.SH", "index"),
        ("399006.SZ", "index"),
        ("900901.SH", "B share"),
        ("200011.SZ", "B share"),
        ("510300.SH", "fund"),
        ("159915.SZ", "fund"),
        ("113050.SH", "bond"),
        ("123001.SZ", "bond"),
        ("204001.SH", "bond"),
        ("031001.SZ", "warrant"),
        ("360001.SH", "preferred share"),
        ("510300", "fund"),
        ("159915", "fund"),
        ("113050", "bond"),
        ("019547", "bond"),
        ("900901", "B share"),
        ("200011", "B share"),
        ("399006", "index"),
        ("00700.HK", "Hong Kong share"),
        ("700 HK Equity", "Hong Kong share"),
        ("00700", "Hong Kong share"),
        ("600519", ""),
        ("AAPL", ""),
        ("600519.SH", ""),
    ],
)
def test_other_securities_are_recognised_by_their_digits(code: str, kind: str) -> None:
    assert kind_of_security(code) == kind
