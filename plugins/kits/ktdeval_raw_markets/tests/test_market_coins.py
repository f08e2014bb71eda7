"""Table of the most coins that exist (`coins.csv`): each row says how sure it is, and by what."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import ktdeval_raw_markets.checks
from ktdeval.values import csv_rows

ROWS = list(csv_rows(Path(str(ktdeval_raw_markets.checks.__file__)).with_name("coins.csv")))


@pytest.mark.parametrize("row", ROWS, ids=[row["coin"] for row in ROWS])
def test_a_supply_has_its_basis_and_a_sourced_one_a_page_and_a_day(row: dict[str, str]) -> None:
    assert float(row["supply"]) > 0
    assert row["basis"]
    assert row["status"] in ("sourced", "second_hand")
    assert bool(row["source"]) == bool(row["day"])

    if row["status"] == "sourced":
        assert row["source"].startswith("https://")

    if row["day"]:
        assert date.fromisoformat(row["day"]) >= date(2025, 1, 1)


def test_no_coin_stands_twice() -> None:
    coins = [row["coin"] for row in ROWS]
    assert len(coins) == len(set(coins)) >= 20
