"""Codes of renumbered assets by day: chains, swaps and codes that another asset has taken over."""

from __future__ import annotations

from ktdeval.market.snapshots.asset_codes import AssetCodes
from ktdeval.market.snapshots.snapshot_facts import NameSpell

EVER = "2200-01-01"


def spell(code: str, first: str, last: str, code_then: str) -> NameSpell:
    return NameSpell(code, first, last, f"{code} Inc.", code_then)


def test_in_a_chain_of_two_renames_each_code_is_its_assets() -> None:
    chain = (
        spell("NEW", "1900-01-01", "2021-12-31", "OLD"),
        spell("NEW", "2022-01-01", "2022-12-31", "MID"),
        spell("NEW", "2023-01-01", EVER, "NEW"),
    )
    codes = AssetCodes(("MSFT", "NEW"), ("", ""), chain)

    assert [codes.columns_of(code) for code in ("OLD", "MID", "NEW")] == [(1,)] * 3
    days = ("2021-06-01", "2022-06-01", "2023-06-01")
    assert [codes.name_on(1, day)[0] for day in days] == ["OLD", "MID", "NEW"]
    assert [codes.column_on("OLD", day) for day in days] == [1, 1, 1]
    assert [codes.column_on("MID", day) for day in days] == [None, 1, 1]
    assert [codes.column_on("NEW", day) for day in days] == [None, None, 1]


def test_a_rename_on_a_day_without_trading_counts_from_the_next_session() -> None:
    """2022-06-11 is a Saturday."""
    weekend = (
        spell("META", "1900-01-01", "2022-06-10", "FB"),
        spell("META", "2022-06-11", EVER, "META"),
    )
    codes = AssetCodes(("META",), ("",), weekend)
    assert codes.name_on(0, "2022-06-10")[0] == "FB"
    assert codes.name_on(0, "2022-06-13")[0] == "META"


def test_a_swapped_code_is_the_asset_that_has_it_on_the_day() -> None:
    swap = (
        spell("AAA", "1900-01-01", "2022-05-31", "BBB"),
        spell("AAA", "2022-06-01", EVER, "AAA"),
        spell("BBB", "1900-01-01", "2022-05-31", "AAA"),
        spell("BBB", "2022-06-01", EVER, "BBB"),
    )
    codes = AssetCodes(("AAA", "BBB"), ("", ""), swap)
    assert [codes.column_on(code, "2022-01-03") for code in ("AAA", "BBB")] == [1, 0]
    assert [codes.column_on(code, "2022-12-01") for code in ("AAA", "BBB")] == [0, 1]
    assert codes.columns_of("AAA") == codes.columns_of("BBB") == (0, 1)


def test_a_code_taken_over_later_is_the_former_asset_until_then() -> None:
    """Another company trades as FB from 2023; nothing dates its name before."""
    taken_over = (
        spell("FB", "2023-01-02", EVER, "FB"),
        spell("META", "1900-01-01", "2022-06-08", "FB"),
        spell("META", "2022-06-09", EVER, "META"),
    )
    codes = AssetCodes(("FB", "META"), ("", ""), taken_over)
    assert codes.columns_of("FB") == (0, 1)
    assert codes.column_on("FB", "2022-01-03") == 1
    assert codes.column_on("FB", "2023-06-01") == 0
    assert codes.column_on("META", "2023-06-01") == 1


def test_an_unknown_code_has_no_asset() -> None:
    codes = AssetCodes(("META",), ("",), (spell("META", "1900-01-01", "2022-06-08", "FB"),))
    assert (codes.columns_of("XYZ"), codes.column_on("XYZ", "2022-01-03")) == ((), None)
