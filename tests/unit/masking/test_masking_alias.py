import re

import pytest
from hypothesis import given, strategies as st

from ktdeval.masking.draws import AliasMap

INDUSTRIES = ("banks", "brewing", "banks", "software")


@given(st.integers(0, 2**63), st.integers(1, 40))
def test_handles_and_what_they_stand_for_are_one_to_one(seed, n_assets):
    alias = AliasMap(seed, n_assets, INDUSTRIES)
    handles = [alias.asset_handle(asset) for asset in range(n_assets)]
    assert all(re.fullmatch("asset_[0-9]{4}", handle) for handle in handles)
    assert len(set(handles)) == n_assets
    assert sorted(alias.order) == list(range(n_assets))
    assert sorted({alias.sector_handle(name) for name in INDUSTRIES}) == ["sector_01", "sector_02", "sector_03"]


def test_equal_seeds_give_equal_maps_and_others_differ():
    first, again, other = (AliasMap(seed, 300, INDUSTRIES) for seed in (7, 7, 8))
    handles = [[alias.asset_handle(asset) for asset in range(300)] for alias in (first, again, other)]
    assert handles[0] == handles[1] != handles[2]
    assert first.order == again.order != other.order
    numbers = [first.asset_handle(asset) for asset in first.order]
    assert numbers != sorted(numbers), "the listing order ignores the numbers"


def test_numbers_say_nothing_about_columns():
    """Rank correlation of number and column over many seeds is that of chance: mean 0, standard deviation 1/sqrt(n-1)."""
    n = 50
    correlations = []
    for seed in range(200):
        alias = AliasMap(seed, n, ())
        handles = sorted(alias.asset_handle(asset) for asset in range(n))
        distance = sum((handles.index(alias.asset_handle(asset)) - asset) ** 2 for asset in range(n))
        correlations.append(1 - 6 * distance / (n * (n * n - 1)))
    assert abs(sum(correlations) / 200) < 4 / (200 * (n - 1)) ** 0.5


def test_the_largest_number_says_nothing_about_how_many_there_are_or_will_be():
    maps = [AliasMap(seed, n, ()) for seed in range(20) for n in (50, 300)]
    assert min(max(int(alias.asset_handle(asset)[6:]) for asset in range(len(alias.order))) for alias in maps) > 8_000


def test_a_wide_market_gets_wider_numbers_and_a_column_that_is_not_there_none():
    alias, wide = AliasMap(1, 3, ()), AliasMap(1, 10_000, ())
    assert len(wide.asset_handle(0)) == len("asset_00001")
    for asset in (-1, 3):
        with pytest.raises(IndexError):
            alias.asset_handle(asset)
