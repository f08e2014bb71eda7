"""What a mask promises: handles that only its key gives, noise on every dated figure of an asset, and dates told from decimals."""

from dataclasses import replace

from ktdeval.contracts import EpisodeSpec, Window
from ktdeval.masking.dates import find_dates
from ktdeval.masking.draws import AliasMap
from ktdeval.masking.lens import Lens, MaskConfig
from ktdeval.masking.payload import AssetRef, DayRef, Figure
from ktdeval.masking.text import Shape
from ktdeval.seeds import derive_seed
from masking_market import BASE_ROW, MARKET

N = 60
SPEC = EpisodeSpec("t", "1", "", "s", "blinded", "open_research", Window("W", "2024-01-02", "2024-02-01"), "m", {}, "react", {})


def handles(seed: int) -> list[str]:
    alias = AliasMap(seed, N, ("banks",))
    return [alias.asset_handle(asset) for asset in range(N)]


def test_who_knows_seed_window_code_and_all_earlier_runs_names_handles_no_better_than_chance() -> None:
    runs = [handles(replace(SPEC, mask_key=f"{number:032x}").mask_seed) for number in range(40)]
    guesses = [handles(replace(SPEC, mask_draw=draw).mask_seed) for draw in range(3)]  # the derivation that needs no key
    guesses += [handles(derive_seed(0, "2024-01-02", "2024-02-01", "mask", bits=128))]
    for number, run in enumerate(runs):
        book = [*guesses, *runs[:number]]
        hits = sum(mine == theirs for other in book for mine, theirs in zip(run, other, strict=True))
        assert hits <= 6, f"{hits} of {N * len(book)} guesses, 1 in 9,999 by chance"
    assert len({replace(SPEC, mask_key="0" * 32, seed=seed).mask_seed for seed in range(9)}) == 9
    assert replace(SPEC, mask_key="0" * 32).id != replace(SPEC, mask_key="1" * 32).id


def test_every_dated_figure_of_an_asset_has_the_noise_that_the_mask_promises() -> None:
    lens = Lens(MaskConfig("blinded", noise_pct=5.0), 1, MARKET, BASE_ROW)
    for figure in (AssetRef(1).figure(123.4, "amount_cny", BASE_ROW), AssetRef(0).figure(9.876, "RV_60", 0)):
        shown = lens.render(figure)
        assert shown != figure.value
        assert shown == lens.render(figure)
        assert abs(shown / figure.value - 1) < 0.3
    for exact in (DayRef(BASE_ROW).figure(1.234), Figure(1.234, asset=1)):
        assert lens.render(exact) == 1.234


def test_a_decimal_beside_a_dotted_date_is_no_year() -> None:
    text = "on 5.1.2024 the ratio was 1.2024"
    assert [text[start:end] for start, end in find_dates(text, Shape(text), ())] == ["5.1.2024"]
