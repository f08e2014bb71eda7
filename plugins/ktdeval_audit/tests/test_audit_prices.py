"""Later prices: which numbers are hits, and how likely they are by chance."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from audit_play import DAY, conversation, findings_of, market, report_of
from ktdeval_audit.later_prices import chance_of
from ktdeval_audit.printed_numbers import AssetNames, numbers_in

CODE = 0


def _close(offset: int) -> str:
    return f"{market().close[DAY + offset, CODE]:.2f}"


def _code() -> str:
    return market().codes[CODE]


def test_prices_of_next_days_are_an_error_and_of_past_days_are_none(
    tmp_path: Path,
) -> None:
    later = ", ".join(_close(offset) for offset in range(1, 11))
    past = ", ".join(_close(-offset) for offset in range(10))

    (found,) = findings_of(tmp_path, conversation("", tool=f"{_code()}: {later}"), "price-after")
    assert found.level == "error"
    assert "probability of this by chance at most" in found.message
    assert findings_of(tmp_path, conversation("", tool=f"{_code()}: {past}"), "price-after") == []


def test_one_price_of_four_digits_proves_nothing(tmp_path: Path) -> None:
    record = conversation("", tool=f"{_code()} at {_close(1)}")

    assert findings_of(tmp_path, record, "price-after") == []


def test_one_number_of_nine_digits_is_a_finding(tmp_path: Path) -> None:
    amount = market().amount[DAY + 1, CODE]

    found = findings_of(tmp_path, conversation("", tool=f"{_code()} {amount:.2f}"), "price-after")

    assert len(found) == 1


def test_one_price_a_day_is_found_over_the_log(tmp_path: Path) -> None:
    records = []
    for step in range(40):
        row = DAY + step
        day = str(market().days[row])
        tool = f"{_code()} level {market().close[row + 1, CODE]:.2f}"
        records.append(conversation("", tool=tool, metadata={"decided_on": day}))

    found = [each for each in report_of(tmp_path, records).findings if each.rule == "price-after"]

    assert any(not each.part and each.level == "error" for each in found)


def test_random_prices_near_the_market_are_no_finding(tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    records = []
    for step in range(40):
        row = DAY + step
        near = market().close[row, CODE] * (1.0 + rng.normal(0.0, 0.03, 6))
        tool = f"{_code()} levels " + ", ".join(f"{price:.2f}" for price in near)
        records.append(
            conversation("", tool=tool, metadata={"decided_on": str(market().days[row])})
        )

    found = report_of(tmp_path, records).findings

    assert [each for each in found if each.rule == "price-after"] == []


# ---- numbers


NAMES = AssetNames.of(("600001.SH", "600002.SH"), ("Alpha", "Beta"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("600001.SH last 21.64, volume 1,234,567", [(21.64, 0), (1234567.0, 0)]),
        ('["600002.SH","main",21.64,1,115.7]', [(21.64, 1), (1.0, 1), (115.7, 1)]),
        ('{"close":21.64,"code":"600002.SH"}', [(21.64, 1)]),
        ("on 2024-03-08 at 14:30 Beta v1.2.3", []),
        ("Alpha,5,100,200", [(5.0, 0), (100.0, 0), (200.0, 0)]),
        ("cash 1000000.5", [(1000000.5, None)]),
        ("Beta fell -3.5 to 8.509e5", [(-3.5, 1), (850900.0, 1)]),
    ],
)
def test_a_number_belongs_to_the_asset_that_is_named_beside_it(
    text: str, expected: list[tuple[float, int | None]]
) -> None:
    assert [(each.value, each.asset) for each in numbers_in(text, NAMES)] == expected


@pytest.mark.parametrize(
    ("text", "step"),
    [("21.64", 0.01), ("22.50", 0.1), ("22", 1.0), ("2200", 100.0), ("8.5e5", 1e4)],
)
def test_zeros_at_the_end_do_not_count_as_digits(text: str, step: float) -> None:
    (number,) = numbers_in(text, NAMES)

    assert number.step == pytest.approx(step)


# ---- chances


def _exact(hits: int, chances: list[float]) -> float:
    """Probability of at least so many hits, by all outcomes."""
    total = 0.0
    for outcome in itertools.product((0, 1), repeat=len(chances)):
        if sum(outcome) >= hits:
            total += math.prod(
                chance if hit else 1.0 - chance
                for hit, chance in zip(outcome, chances, strict=True)
            )
    return total


def test_three_hits_of_three_have_the_product_of_their_chances() -> None:
    assert chance_of(3, [0.01] * 3) == pytest.approx(1e-6)
    assert chance_of(0, [0.5]) == 1.0


@pytest.mark.exhaustive
@settings(deadline=None, max_examples=150)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8), st.integers(1, 8))
def test_the_chance_is_never_below_the_exact_one(chances: list[float], hits: int) -> None:
    hits = min(hits, len(chances))

    assert chance_of(hits, chances) >= _exact(hits, chances) - 1e-12


def test_a_table_of_json_is_read_row_by_row(tmp_path: Path) -> None:
    rows = [
        [code, round(float(market().close[DAY + 1, number]), 2)]
        for number, code in enumerate(market().codes)
    ]
    rows += [
        [code, round(float(market().close[DAY + 2, number]), 2)]
        for number, code in enumerate(market().codes)
    ]
    rows += [
        [code, round(float(market().close[DAY + 3, number]), 2)]
        for number, code in enumerate(market().codes)
    ]

    record = conversation("", tool=json.dumps({"rows": rows}))
    found = findings_of(tmp_path, record, "price-after")

    assert {each.level for each in found} == {"error"}
