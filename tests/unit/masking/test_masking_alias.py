import pytest
from hypothesis import given, strategies as st

from ktdeval.masking.draws import AliasMap

INDUSTRIES = ("banks", "brewing", "banks", "software")


@given(st.integers(0, 2**63), st.integers(1, 40))
def test_handles_and_what_they_stand_for_are_one_to_one(seed, n_assets):
    alias = AliasMap(seed, n_assets, INDUSTRIES)
    handles = [alias.asset_handle(asset) for asset in range(n_assets)]
    assert sorted(handles) == [f"asset_{number:04d}" for number in range(1, n_assets + 1)]
    assert [alias.asset_of(handle) for handle in handles] == list(range(n_assets)) == sorted(alias.order)
    sectors = {alias.sector_handle(name): name for name in INDUSTRIES}
    assert sorted(sectors) == ["sector_01", "sector_02", "sector_03"]
    assert {handle: alias.sector_of(handle) for handle in sectors} == sectors


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
        distance = sum((int(alias.asset_handle(asset)[6:]) - 1 - asset) ** 2 for asset in range(n))
        correlations.append(1 - 6 * distance / (n * (n * n - 1)))
    assert abs(sum(correlations) / 200) < 4 / (200 * (n - 1)) ** 0.5


def test_only_an_exact_handle_of_a_column_that_is_there_is_understood():
    alias, wide = AliasMap(1, 3, ()), AliasMap(1, 10_000, ())
    texts = ["", "asset_", "asset_1", "asset_00001", "asset_0000", "asset_0004", "Asset_0001", "asset_٠٠٠١", "asset_-001", "0001"]
    assert [alias.asset_of(text) for text in texts] == [None] * len(texts)
    assert wide.asset_of(wide.asset_handle(9_999)) == 9_999
    assert len(wide.asset_handle(0)) == len("asset_00001"), "a wide market gets wider numbers"
    for asset in (-1, 3):
        with pytest.raises(IndexError):
            alias.asset_handle(asset)
