"""What a mask promises: handles that say nothing and only its key gives, noise on each dated
figure, dates told from decimals.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from ktdeval.masking.aliases_and_noise import AliasMap, DocumentAlias
from ktdeval.masking.dates.date_detection import find_dates
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.masking.payload_types import AssetRef, MarketFigure
from ktdeval.masking.text_normalisation import TextViews
from ktdeval.task_api import EpisodeSpec, Window
from ktdeval.values import derive_seed
from support.masking.masking_market import BASE_ROW, MARKET

N = 60
SPEC = EpisodeSpec(
    "t",
    "1",
    "",
    "s",
    "blinded",
    "open_research",
    Window("W", "2024-01-02", "2024-02-01"),
    "m",
    {},
    "react",
    {},
)


def handles_of(alias: AliasMap) -> list[str]:
    return [alias.asset_handle(asset) for asset in range(len(alias.order))]


def handles(seed: int) -> list[str]:
    return handles_of(AliasMap(seed, N, ("banks",)))


def agreeing(run: list[str], guessed: list[str]) -> int:
    return sum(mine == theirs for mine, theirs in zip(run, guessed, strict=True))


NOISY = Lens(MaskConfig("blinded", noise_pct=5.0), 1, MARKET, BASE_ROW)


@pytest.mark.parametrize(
    "figure",
    [AssetRef(1).figure(123.4, "amount_cny", BASE_ROW), AssetRef(0).figure(9.876, "RV_60", 0)],
    ids=["amount", "volatility"],
)
def test_every_dated_figure_of_an_asset_has_the_promised_noise(figure: MarketFigure) -> None:
    shown = NOISY.render(figure)
    assert shown != figure.value
    assert shown == NOISY.render(figure)
    assert abs(shown / figure.value - 1) < 0.3


def test_handles_cannot_be_guessed_from_the_seed_or_earlier_runs() -> None:
    runs = [handles(replace(SPEC, mask_key=f"{number:032x}").mask_seed) for number in range(40)]
    guesses = [handles(SPEC.mask_seed)]  # the derivation that needs no key
    guesses += [handles(derive_seed(0, "2024-01-02", "2024-02-01", "mask", bits=128))]

    for number, run in enumerate(runs):
        book = [*guesses, *runs[:number]]
        hits = sum(agreeing(run, guessed) for guessed in book)
        assert hits <= 6, f"{hits} of {N * len(book)} guesses, 1 in 9,999 by chance"

    assert len({replace(SPEC, mask_key="0" * 32, seed=seed).mask_seed for seed in range(9)}) == 9
    assert replace(SPEC, mask_key="0" * 32).id != replace(SPEC, mask_key="1" * 32).id


def test_a_decimal_next_to_a_dotted_date_is_not_a_year() -> None:
    text = "on 5.1.2024 the ratio was 1.2024"
    assert [text[start:end] for start, end in find_dates(text, TextViews(text), ())] == ["5.1.2024"]


# ---- maps of handles


INDUSTRIES = ("banks", "brewing", "banks", "software")


@given(st.integers(0, 2**63), st.integers(1, 40))
def test_handles_and_their_assets_are_one_to_one(seed, n_assets):
    alias = AliasMap(seed, n_assets, INDUSTRIES)
    handles = [alias.asset_handle(asset) for asset in range(n_assets)]

    assert all(re.fullmatch("asset_[0-9]{4}", handle) for handle in handles)
    assert len(set(handles)) == n_assets
    assert sorted(alias.order) == list(range(n_assets))
    assert sorted({alias.sectors[name] for name in INDUSTRIES}) == [
        "sector_01",
        "sector_02",
        "sector_03",
    ]


def test_equal_seeds_give_equal_maps_and_others_differ():
    first, again, other = (AliasMap(seed, 300, INDUSTRIES) for seed in (7, 7, 8))
    assert handles_of(first) == handles_of(again) != handles_of(other)
    assert first.order == again.order != other.order

    numbers = [first.asset_handle(asset) for asset in first.order]
    assert numbers != sorted(numbers), "the listing order ignores the numbers"


def test_numbers_reveal_nothing_about_columns():
    """Rank correlation of number and column over many seeds is that of chance: mean 0, standard
    deviation 1/sqrt(n-1).
    """
    n = 50
    correlations = []

    for seed in range(200):
        alias = AliasMap(seed, n, ())
        handles = sorted(alias.asset_handle(asset) for asset in range(n))
        distance = sum(
            (handles.index(alias.asset_handle(asset)) - asset) ** 2 for asset in range(n)
        )
        correlations.append(1 - 6 * distance / (n * (n * n - 1)))

    assert abs(sum(correlations) / 200) < 4 / (200 * (n - 1)) ** 0.5


@pytest.mark.parametrize("n_assets", [50, 300])
def test_the_largest_number_reveals_no_present_or_future_count(n_assets):
    for seed in range(20):
        handles = handles_of(AliasMap(seed, n_assets, ()))
        assert max(int(handle[6:]) for handle in handles) > 8_000


@pytest.mark.parametrize("asset", [-1, 3])
def test_a_column_that_is_not_there_has_no_handle(asset):
    alias = AliasMap(1, 3, ())
    with pytest.raises(IndexError):
        alias.asset_handle(asset)


def test_names_and_orders_of_a_seed_are_stable_over_machines_and_versions() -> None:
    """Records of old runs name assets by these draws."""
    alias = AliasMap(7, 4, INDUSTRIES)
    documents = DocumentAlias(7)
    draws = [1 + derive_seed(7, "asset_alias", draw) % 9_999 for draw in range(4)]

    assert [alias.asset_handle(asset) for asset in range(4)] == [
        f"asset_{number:04d}" for number in draws
    ]
    assert list(alias.order) == sorted(
        range(4), key=lambda asset: derive_seed(7, "listing_order", asset)
    )

    by_number = sorted(range(3), key=lambda number: derive_seed(7, "sector_alias", number))
    assert list(alias.sectors.items()) == [
        (sorted(set(INDUSTRIES))[number], f"sector_{place:02d}")
        for place, number in enumerate(by_number, start=1)
    ]
    assert [documents.handle(row) for row in (0, 1, 2**30 - 1)] == [
        "doc_pfstbkf",
        "doc_czhbgzk",
        "doc_trwnvdp",
    ]


LAST_DOCUMENT = 2**30 - 1


@given(st.integers(0, 2**63), st.integers(0, LAST_DOCUMENT))
def test_a_documents_handle_is_understood_as_its_row(seed: int, row: int) -> None:
    documents = DocumentAlias(seed)
    assert re.fullmatch("doc_[bcdfghjkmnpqrstvwxyz]{7}", documents.handle(row))
    assert documents.row(documents.handle(row)) == row


@pytest.mark.parametrize("row", [0, 1, 2**15 - 1, 2**15, 2**15 + 1, LAST_DOCUMENT])
def test_rows_at_the_ends_of_both_halves_have_handles(row: int) -> None:
    assert DocumentAlias(3).row(DocumentAlias(3).handle(row)) == row


@pytest.mark.parametrize("row", [-1, LAST_DOCUMENT + 1])
def test_rows_without_a_handle_are_refused(row: int) -> None:
    with pytest.raises(IndexError):
        DocumentAlias(3).handle(row)


def test_texts_that_are_no_handle_are_of_no_row() -> None:
    documents = DocumentAlias(3)
    handle = documents.handle(5)
    for text in (
        "",
        handle[4:],
        f"{handle}b",
        handle[:-1],
        f"doc_a{handle[5:]}",
        f"dok_{handle[4:]}",
        "doc_zzzzzzz",
    ):
        assert documents.row(text) is None, text
