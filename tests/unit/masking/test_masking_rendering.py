"""One pass writes the text of the rendered value, and episodes share prepared texts only where masks
allow it.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from ktdeval.errors import PluginError
from ktdeval.masking import (
    AssetName,
    AssetRef,
    DayRef,
    IndexLevel,
    Lens,
    MaskConfig,
    OwnFigure,
    Price,
    SectorRef,
    Shares,
    filled_table,
    prepare_payload,
    render_json,
    table,
)
from ktdeval.masking.mask_config import MASK_KINDS
from ktdeval.testing import not_empty
from support.masking.masking_market import BASE_ROW, INDEX_CODE, MARKET

PAYLOAD: dict[str, Any] = {
    "day": DayRef(BASE_ROW + 2),
    "none": None,
    "flag": True,
    "empty": [[], {}],
    "text": 'a "quoted" name',
    "rows": table(
        ("stock_id", "name", "sector", "price", "volume", "figure", "change"),
        [
            (
                AssetRef(asset),
                AssetName(asset),
                SectorRef(MARKET.industries[asset]),
                Price(asset, 12.345678 + asset, BASE_ROW, "high", 1.05),
                Shares(asset, 1234567.0, BASE_ROW),
                AssetRef(asset).figure(0.0123456, "RV_60", BASE_ROW),
                AssetRef(asset).change_pct(2024.0, BASE_ROW, BASE_ROW - 1),
            )
            for asset in (3, 0, 2)
        ],
    ),
    "by_asset": {AssetRef(1): float("nan"), "other": 123456},
    "index": IndexLevel(INDEX_CODE, 3000.5),
    "market": DayRef(BASE_ROW).figure(1e9),
}
EXACT = [MaskConfig(kind) for kind in MASK_KINDS]
COARSE = [
    MaskConfig("blinded", rebase_prices=True),
    MaskConfig("bright", round_digits=3),
    MaskConfig("date_blind", noise_pct=1.0),
]


def lens_of(mask: MaskConfig) -> Lens:
    return Lens(mask, 1, MARKET, BASE_ROW)


@pytest.mark.parametrize("mask", [*EXACT, *COARSE])
def test_the_text_is_that_of_the_rendered_value(mask: MaskConfig) -> None:
    assert lens_of(mask).render_text(PAYLOAD) == render_json(lens_of(mask).render(PAYLOAD))


def test_a_prepared_text_holds_no_identity() -> None:
    words = "".join(part for part in prepare_payload(PAYLOAD).parts if isinstance(part, str))
    hidden_texts = [*MARKET.codes, *MARKET.names, *MARKET.industries, *map(str, MARKET.days)]
    for hidden in not_empty(hidden_texts):
        assert hidden not in words


@pytest.mark.parametrize("mask", EXACT)
def test_prepared_text_renders_as_its_payload_with_the_same_handles(
    mask: MaskConfig,
) -> None:
    plain = lens_of(mask)
    shared = lens_of(mask)
    text = prepare_payload(PAYLOAD)

    assert shared.render_text(text) == plain.render_text(PAYLOAD)
    assert shared.render_text({"inside": [text]}) == plain.render_text({"inside": [PAYLOAD]})
    assert shared.render(text) == json.loads(plain.render_text(PAYLOAD))
    assert shared.shown == plain.shown


@pytest.mark.parametrize("mask", COARSE)
def test_masks_that_change_figures_refuse_a_prepared_text(mask: MaskConfig) -> None:
    lens = lens_of(mask)
    assert not lens.shares_prepared_texts
    with pytest.raises(PluginError, match="Prepared"):
        lens.render_text([prepare_payload([1.5])])


@pytest.mark.parametrize("own", [OwnFigure(1.5), Shares(0, 300.0)])
def test_figures_of_an_account_can_not_be_prepared(own: Any) -> None:
    with pytest.raises(PluginError, match="belongs to one episode"):
        prepare_payload({"rows": [[own]]})


@pytest.mark.parametrize(
    ("optional", "columns", "rows"),
    [
        (None, ["a", "b"], [[1, None], [None, 2.5]]),
        (("b",), ["a", "b", "c"], [[1, None, None], [None, 2.5, math.nan]]),
        (("c",), ["a", "b"], [[1, None], [None, 2.5]]),
    ],
)
def test_a_column_without_any_value_is_left_out_and_one_with_some_is_not(
    optional: tuple[str, ...] | None, columns: list[str], rows: list[list[float | None]]
) -> None:
    cells = [(1, None, None), (None, 2.5, math.nan)]
    assert filled_table(("a", "b", "c"), cells, optional) == {"columns": columns, "rows": rows}
