from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError
from ktdeval.market.assembly import assemble
from ktdeval.market.quality import RawMarket, check
from ktdeval.market.units import stored_volume
from raw_market import CODES, DAYS, bars, changed, market
from searching import examples


def words(raw: RawMarket) -> dict[str, str]:
    return {finding.kind: finding.hint for finding in check(raw) if finding.kind != "short_history"}


@pytest.mark.parametrize("has_factor", [True, False])
@pytest.mark.parametrize(
    ("volume", "amount", "named"),
    [
        (0.01, 1.0, "--volume-unit lot)"),
        (1.0, 1e-3, "--amount-unit thousand_CNY)"),
        (1.0, 1e-4, "--amount-unit ten_thousand_CNY)"),
        (0.01, 1e-3, "--volume-unit lot --amount-unit thousand_CNY)"),
        (0.01, 1e-4, "--volume-unit lot --amount-unit ten_thousand_CNY)"),
        (1.0, 1e3, "--amount-unit CNY)"),
        (1.0, 1e4, "--amount-unit CNY)"),
        (10.0, 100.0, "the units given are not those of the file"),
        (1.0, 1e-6, "millions of CNY; multiply"),
        (1.0, 1e-8, "hundreds of millions of CNY; multiply"),
    ],
)
def test_amounts_that_fit_only_after_a_constant_of_units_are_an_error_that_names_it(
    volume: float, amount: float, named: str, has_factor: bool
) -> None:
    table = bars()
    table["volume"] *= volume
    table["amount"] *= amount
    raw = market(table, has_factor=has_factor)
    assert named in words(raw)["wrong_units"]
    assert "average_price_outside_bar" not in words(raw)
    with pytest.raises(DataError, match="wrong_units"):
        assemble(raw)


def test_volumes_of_another_convention_are_an_error_and_a_few_odd_days_are_none() -> None:
    table = bars().assign(factor=3.7)
    assert "divided by the factor" in words(market(table.assign(volume=table["volume"] / 3.7)))["wrong_units"]
    assert (
        "prices look adjusted (--prices adjusted), or volumes were multiplied"
        in words(market(table.assign(volume=table["volume"] * 3.7)))["wrong_units"]
    )
    odd = words(market(changed("600519.SH", "2024-01-04", amount=1e6)))
    assert odd.keys() == {"average_price_outside_bar"}
    # Units that change on a day are named, and so are numbers that no unit explains.
    late = table["date"] >= DAYS[3]
    lots = market(table.assign(volume=table["volume"].where(~late, table["volume"] / 100)))
    assert "--volume-unit lot)" in words(lots)["wrong_units"]
    assert "don't belong together" in words(market(table.assign(amount=table["amount"] * 37)))["wrong_units"]
    # Adjusted prices without a factor never agree with amounts, whatever the quotient.
    mixed = table.assign(amount=table["amount"] * (1 + np.arange(len(table)) % 7))
    assert "wrong_units" not in words(market(mixed, has_factor=False))
    # Volumes that are no counts of shares are named where no amount shows more.
    bare = table.assign(amount=np.nan, volume=1234.5678)
    assert "lots with decimals" in words(market(bare))["volume_not_whole"]
    one = bare.assign(volume=np.where(bare["code"] == CODES[1], 1234.5678, 1000.0))
    (found,) = (finding for finding in check(market(one)) if finding.kind == "volume_not_whole")
    assert found.count == len(DAYS), "one code of many"


@examples(40)
@given(seed=st.integers(0, 2**32), assets=st.integers(1, 30), largest=st.floats(3, 9), lots=st.booleans())
def test_whole_shares_never_tell_the_wrong_convention(seed: int, assets: int, largest: float, lots: bool) -> None:
    rng = np.random.default_rng(seed)
    volume = np.round(10 ** rng.uniform(2, largest, (60, assets))) * (100 if lots else 1)
    volume = volume.astype(np.float32).astype(np.float64).ravel()
    factor = np.tile(rng.uniform(1.02, 250, assets), 60)
    single = factor.astype(np.float32).astype(np.float64)
    assert stored_volume(volume, single) != "divided"
    assert stored_volume((volume / factor).astype(np.float32).astype(np.float64), single) != "raw"


def test_whole_shares_or_whole_lots_tell_how_volumes_are_stored() -> None:
    rng = np.random.default_rng(0)
    factor = rng.uniform(1.1, 40, 500).astype(np.float32).astype(np.float64)
    for volume in (rng.integers(1, 10**6, 500), rng.integers(1, 10**5, 500) * 100):
        assert stored_volume(volume.astype(np.float64), factor) == "raw"
        assert stored_volume((volume / factor).astype(np.float32).astype(np.float64), factor) == "divided"
    assert stored_volume(volume * 0.37, np.ones(500)) == "raw", "without a factor there is nothing to undo"
    large = rng.integers(10**7, 10**9, 500).astype(np.float32).astype(np.float64)
    assert stored_volume(large, factor) is None, "single precision has no single shares there"
    assert stored_volume(np.array([3000.0, 6000.0]), np.array([2.0, 2.0])) is None, "whole both ways"
