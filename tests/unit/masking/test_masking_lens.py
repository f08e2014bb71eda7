"""What a lens shows and understands under each mask, and how numbers and JSON are rendered."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import chain
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, PluginError
from ktdeval.market.snapshots.snapshot import BAR_FIELDS, Board
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MASK_KINDS, MaskConfig
from ktdeval.masking.payload_types import (
    AssetName,
    AssetRef,
    DayRef,
    Exact,
    IndexLevel,
    OwnFigure,
    Price,
    SectorRef,
    Shares,
    render_json,
    render_number,
    table,
)
from ktdeval.testing import on_each_row
from support.masking.masking_market import (
    BASE_ROW,
    CODES,
    INDEX_CODE,
    MARKET,
    N_DAYS,
    NAMES,
    fields,
    guard_of,
    lens_of,
)
from support.searching import examples

kinds = st.sampled_from(MASK_KINDS)


@examples(40)
@given(kind=kinds, seed=st.integers(0, 2**62))
def test_every_handle_is_resolved_to_its_value(kind, seed):
    lens = lens_of(kind, seed)
    assert [lens.parse_asset(lens.asset_handle(asset)) for asset in range(len(CODES))] == list(
        range(len(CODES))
    )
    assert [lens.parse_day(lens.day_handle(row)) for row in range(N_DAYS)] == list(range(N_DAYS))


def test_the_four_masks_hide_their_documented_fields():
    shown = {
        kind: (
            lens_of(kind).render(
                [
                    AssetRef(0),
                    AssetName(0),
                    SectorRef("银行"),
                    DayRef(BASE_ROW),
                    DayRef(BASE_ROW - 20),
                ]
            )
        )
        for kind in MASK_KINDS
    }
    days = [str(MARKET.days[BASE_ROW]), str(MARKET.days[0])]

    assert shown["bright"] == ["000001.SZ", "平安银行", "银行", *days]
    assert shown["date_blind"] == ["000001.SZ", "平安银行", "银行", "day_+0", "day_-20"]
    assert shown["stock_blind"][3:] == days
    assert shown["blinded"] == [*shown["stock_blind"][:3], "day_+0", "day_-20"]

    handle, name, sector = shown["blinded"][:3]
    assert re.fullmatch("asset_[0-9]{4}", handle)
    assert name is None
    assert sector.startswith("sector_0")


def test_handles_and_order_are_the_same_under_every_mask_of_a_seed():
    assert len({lens_of(kind).order for kind in MASK_KINDS}) == 1
    assert lens_of("blinded").asset_handle(3) == lens_of("stock_blind").asset_handle(3)


@pytest.mark.parametrize(
    "text",
    [
        "600519",
        "600519.SH",
        "SH600519",
        "sh.600519",
        "600519.XSHG",
        "６００５１９",
        " 600519.ss ",
    ],
)
def test_a_code_is_understood_in_any_style_where_codes_are_shown(text):
    column = CODES.index("600519.SH")
    assert lens_of("bright").parse_asset(text) == column
    assert lens_of("date_blind").parse_asset(text) == column
    assert lens_of("blinded").parse_asset(text) is None


@pytest.mark.parametrize(
    "text",
    ["", "asset_0001", "600518", "贵州茅台", "day_+0", pytest.param("0" * 1000, id="1,000 digits")],
)
def test_no_other_text_is_understood_as_an_asset(text):
    assert lens_of("bright").parse_asset(text) is None


def test_a_handle_is_understood_in_any_case_and_width():
    blinded = lens_of("blinded")
    handle = blinded.asset_handle(2)

    assert blinded.parse_asset(f" {handle.upper()} ") == 2
    assert blinded.parse_asset(handle.replace("0", "０")) == 2
    assert blinded.parse_asset("asset_9999") is None


@pytest.mark.parametrize("kind", ["stock_blind", "blinded"])
def test_nothing_is_understood_before_it_was_shown(kind):
    lens = lens_of(kind)
    teller = lens_of(kind)  # the teller knows all handles of the episode
    for asset in range(len(CODES)):
        assert lens.parse_asset(teller.asset_handle(asset)) is None

    lens.render([{AssetRef(4): 1}, [AssetRef(6)], SectorRef("白酒")])

    assert [
        asset
        for asset in range(len(CODES))
        if lens.parse_asset(teller.asset_handle(asset)) == asset
    ] == [4, 6]

    resumed = lens_of(kind)
    resumed.recall((*lens.shown, "asset_x"))

    assert sorted(resumed.shown) == sorted(lens.shown)


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_a_day_is_understood_from_when_it_was_shown(kind):
    lens = lens_of(kind)
    teller = lens_of(kind)

    assert lens.parse_day(teller.day_handle(BASE_ROW + 1)) is None

    lens.day_handle(BASE_ROW + 2)
    assert [lens.parse_day(teller.day_handle(BASE_ROW + ahead)) for ahead in (1, 2)] == [
        BASE_ROW + 1,
        BASE_ROW + 2,
    ]
    assert lens.parse_day(teller.day_handle(BASE_ROW + 3)) is None


def test_indices_come_in_an_order_of_the_key():
    snapshot = replace(
        MARKET,
        indices={f"{code:06d}.SH": MARKET.indices[INDEX_CODE] for code in (16, 300, 852, 905)}
        | MARKET.indices,
    )
    orders = {Lens(MaskConfig("blinded"), seed, snapshot, BASE_ROW).indices for seed in range(40)}

    assert len(orders) > 15
    assert {order[0] for order in orders} == set(snapshot.indices)


@pytest.mark.parametrize("kind", ["bright", "date_blind"])
def test_visible_code_is_understood_from_its_first_day_in_the_universe(
    kind,
):
    member = MARKET.member.copy()
    member[: BASE_ROW + 5, 2] = member[:, 3] = False
    lens = Lens(MaskConfig(kind), 1, replace(MARKET, member=member), BASE_ROW)

    assert [lens.parse_asset(CODES[asset]) for asset in (1, 2, 3)] == [1, None, None]

    lens.day_handle(BASE_ROW + 4)
    assert lens.parse_asset(CODES[2]) is None

    lens.day_handle(BASE_ROW + 5)
    assert [lens.parse_asset(CODES[asset]) for asset in (1, 2, 3)] == [1, 2, None]

    lens.asset_handle(3)  # shown all the same
    assert lens.parse_asset(CODES[3]) == 3


@pytest.mark.parametrize("kind", ["bright", "date_blind"])
def test_visible_code_shown_before_a_resumption_is_understood(kind):
    member = MARKET.member.copy()
    member[:, 3] = member[:, 4] = False
    market = replace(MARKET, member=member)
    lens = Lens(MaskConfig(kind), 1, market, BASE_ROW)
    lens.asset_handle(3)

    resumed = Lens(MaskConfig(kind), 1, market, BASE_ROW)
    assert resumed.parse_asset(CODES[3]) is None

    resumed.recall((*lens.shown, "no code"))
    assert resumed.shown == lens.shown
    assert [resumed.parse_asset(CODES[asset]) for asset in (3, 4)] == [3, None]


@pytest.mark.parametrize(
    "text",
    [
        "day_+999",
        "day_-999",
        "day_5",
        "day_+1.5",
        "2024-01-06",
        "20240102",
        pytest.param("day_+" + "9" * 500, id="500 digits"),
    ],
)
def test_no_other_text_is_understood_as_a_day(text):
    assert lens_of("blinded").parse_day(text) is None
    assert lens_of("bright").parse_day(text) is None


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("bright", [3140, 3147]),
        ("stock_blind", [3140, 3147]),
        ("date_blind", [100, 100 * 3147 / 3140]),
        ("blinded", [100, 100 * 3147 / 3140]),
    ],
)
def test_index_levels_are_rebased_where_dates_are_hidden(kind, shown):
    levels = [IndexLevel(INDEX_CODE, 3140.0), IndexLevel(INDEX_CODE, 3147.0)]
    assert lens_of(kind).render(levels) == pytest.approx(shown)


def test_an_index_without_a_level_yet_has_no_rebased_one():
    levels = np.full(N_DAYS, math.nan)
    levels[-1] = 3000.0
    lens = Lens(MaskConfig("blinded"), 1, replace(MARKET, indices={INDEX_CODE: levels}), BASE_ROW)
    assert lens.render(IndexLevel(INDEX_CODE, 3000.0)) is None


def test_prices_and_shares_are_shown_as_they_are_unless_rebased():
    plain = lens_of("blinded")
    assert plain.render([Price(0, 12.34), Shares(0, 500.0), Shares(0, 0.5)]) == [12.34, 500, 0.5]
    assert plain.figures.shares_in(0, 500) == 500


@pytest.mark.parametrize("first", [BASE_ROW, BASE_ROW + 1, BASE_ROW + 2])
def test_an_asset_is_rebased_to_its_first_close_once_that_day_is_shown(first):
    close = MARKET.close.copy()
    close[:first, 0] = math.nan
    close[first:, 0] = np.linspace(10.0, 20.0, N_DAYS - first)
    lens = Lens(
        MaskConfig("blinded", rebase_prices=True), 1, replace(MARKET, close=close), BASE_ROW
    )
    shown = {}

    for row in range(BASE_ROW, first + 3):
        if row > BASE_ROW:
            lens.move_to(row)

        shown[row] = lens.render(Price(0, 10.0))

    before = range(BASE_ROW, first)

    assert shown == pytest.approx(
        {row: 10.0 if row in before else 100.0 for row in range(BASE_ROW, first + 3)}
    )


@pytest.mark.parametrize("rebase", [False, True])
@examples(40)
@given(asset=st.integers(0, len(CODES) - 1), shares=st.integers(1, 90_000))
def test_shares_as_shown_come_back_as_the_true_number_also_when_rebased(rebase, asset, shares):
    lens = lens_of("blinded", rebase_prices=rebase)
    shown = json.loads(lens.render_text(Shares(asset, shares)))
    assert round(lens.figures.shares_in(asset, shown)) == shares


payloads = st.recursive(
    fields(BASE_ROW) | st.floats() | st.none(),
    lambda part: (
        st.lists(part, max_size=4)
        | st.tuples(part, part)
        | st.dictionaries(st.sampled_from("abc"), part, max_size=3)
    ),
    max_leaves=15,
)


def poisoned(array):
    array = array.copy()
    array[BASE_ROW + 1 :] = 7.77
    return array


SPOILED = replace(
    MARKET,
    indices={INDEX_CODE: poisoned(MARKET.benchmark)},
    **{name: poisoned(getattr(MARKET, name)) for name in BAR_FIELDS},
)


@pytest.mark.slow
@examples(100, search=250)
@given(kind=kinds, rebase=st.booleans(), payload=payloads)
def test_nothing_after_day_0_shines_through_a_lens(kind, rebase, payload):
    lenses = [
        Lens(MaskConfig(kind, rebase), 3, snapshot, BASE_ROW) for snapshot in (MARKET, SPOILED)
    ]

    for lens in lenses:
        lens.move_to(BASE_ROW)

    assert lenses[0].render_text(payload) == lenses[1].render_text(payload)


@pytest.mark.slow
@examples(80, search=200)
@given(kind=kinds, payload=payloads)
def test_a_rendered_payload_is_strict_json(kind, payload):
    lens = lens_of(kind)
    json.dumps(lens.render(payload), allow_nan=False)
    json.loads(lens.render_text(payload), parse_constant=pytest.fail)


def test_numpy_scalars_enums_and_handles_as_keys_are_shown_as_plain_values():
    lens = lens_of("blinded")
    values = [
        np.float64(1.5),
        np.int64(3),
        np.bool_(True),
        Board.STAR,
        np.float64("nan"),
        np.float32(0.5),
    ]

    assert lens.render({str(index): value for index, value in enumerate(values)}) == dict(
        zip("012345", [1.5, 3, True, "star", None, 0.5], strict=True)
    )
    assert lens.render({AssetRef(1): 0.5, DayRef(BASE_ROW): 1}) == {
        lens.asset_handle(1): 0.5,
        "day_+0": 1,
    }


@pytest.mark.parametrize(
    "value",
    [
        np.datetime64("2024-01-02"),
        pd.Timestamp("2024-01-02"),
        np.arange(3),
        {1, 2},
        object(),
        b"600519",
        1j,
        pd.DataFrame(),
    ],
)
def test_what_has_no_field_type_is_refused_with_its_place(value):
    with pytest.raises(
        PluginError, match=rf"payload at rows\[1\]\.day: a {type(value).__name__} can't be shown"
    ):
        lens_of("blinded").render({"rows": [1, {"day": value}]})


@pytest.mark.parametrize("key", [7, None, np.datetime64("2024-01-02")], ids=repr)
def test_a_key_that_is_no_text_or_reference_is_refused(key):
    with pytest.raises(PluginError, match=r"payload at rows \(a key\): a \w+ can't be shown"):
        lens_of("blinded").render({"rows": {key: 1}})


@pytest.mark.parametrize(
    "payload",
    [
        AssetRef(99),
        AssetRef(-1),
        DayRef(-1),
        DayRef(N_DAYS),
        SectorRef("no such"),
        IndexLevel("x", 1.0),
    ],
    ids=repr,
)
def test_a_reference_to_what_the_market_does_not_have_is_refused(payload):
    with pytest.raises(DataError):
        lens_of("blinded").render(payload)


def test_a_lens_of_a_day_after_the_market_ends_is_refused():
    with pytest.raises(DataError, match="day_\\+0"):
        Lens(MaskConfig("blinded"), 1, MARKET, N_DAYS)


HIDDEN_ASSETS = [
    *CODES,
    "600519",
    "SH600519",
    "sh.600519",
    "600519.XSHG",
    "６００５１９",
    "601318",
    "000300.SH",
    "平安银行",
    "五粮甲",
    "quillmark",
    "QUILLMARK",
    "Ocean  Blue Brewery",
    "白酒",
    "[withheld]",
    "Quillmark (688981)",
]


HIDDEN_DATES = [
    "2024-01-02",
    "20240102",
    "2024/1/2",
    "January 2024",
    "2024",
    "１月２日",
    "Monday",
    "[withheld]",
]
NOT_IDENTITIES = [
    "",
    "asset_0001",
    "asset_9999",
    "day_+3",
    "sector_02",
    "momentum",
    "MOM_12_1",
    "AAA",
    "12",
    "0.05",
    "may",
    "bse",
    "x" * 9999,
]


@pytest.mark.parametrize("text", HIDDEN_ASSETS)
def test_an_asset_is_a_hidden_identity_where_assets_are_hidden(text):
    assert lens_of("stock_blind").is_hidden_identity(text)
    assert lens_of("blinded").is_hidden_identity(text)
    assert not lens_of("bright").is_hidden_identity(text)


@pytest.mark.parametrize("text", HIDDEN_DATES)
def test_a_date_is_a_hidden_identity_where_dates_are_hidden(text):
    assert lens_of("date_blind").is_hidden_identity(text)
    assert lens_of("blinded").is_hidden_identity(text)
    assert not lens_of("bright").is_hidden_identity(text)


@pytest.mark.parametrize("day", ["2001-09-10", "2024-01-02", "2031-12-31"])
@pytest.mark.parametrize("digits", ["", "000"], ids=["seconds", "milliseconds"])
def test_a_number_is_a_hidden_date_if_it_is_a_quarter_of_an_hour_since_1970(day, digits):
    """A midnight, open or close somewhere; any other number of this size is a count."""
    lens = lens_of("date_blind")
    midnight = int(pd.Timestamp(day).timestamp())
    found = {
        seconds: lens.is_hidden_identity(f"{midnight + seconds}{digits}")
        for seconds in (-1, 0, 1, 60, 899, 900, 1_800, 34_200)
    }

    assert [seconds for seconds, is_date in found.items() if is_date] == [0, 900, 1_800, 34_200]


@pytest.mark.parametrize("text", NOT_IDENTITIES)
def test_no_other_text_is_a_hidden_identity(text):
    assert not any(lens_of(kind).is_hidden_identity(text) for kind in MASK_KINDS)


@pytest.mark.parametrize("name", sorted({*chain.from_iterable(NAMES.values())}))
def test_every_name_but_that_of_the_unknown_is_a_hidden_identity(name):
    assert lens_of("stock_blind").is_hidden_identity(name) == (name != "unknown")


def test_an_exact_payload_keeps_every_digit_if_nothing_is_hidden():
    answer = {"volume": 4_123_456, "cash": 100_123.4567, "day": "2025-01-06", "none": None}
    shown = json.loads(lens_of("bright").render_text(Exact(answer)))

    assert list(shown.items()) == list(answer.items())

    with pytest.raises(PluginError, match="Exact"):
        lens_of("bright").render_text({"inside": Exact(1)})


@pytest.mark.parametrize("kind", ["stock_blind", "date_blind", "blinded"])
def test_an_exact_payload_is_refused_where_something_is_hidden(kind):
    with pytest.raises(PluginError, match="can't be masked"):
        lens_of(kind).render_text(Exact({"day": "2025-01-06"}))


# -- numbers and JSON as they are rendered


finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = (
    finite
    | st.integers()
    | st.integers(-(10**12), 10**12)
    | st.floats(-1e7, 1e7)
    | st.integers(1980, 2050)
)
numbers |= st.floats(99_990, 100_010) | st.floats(1989, 2041)


@on_each_row(
    "value, text",
    (0, "0"),
    (-0.0, "0"),
    (-1e-09, "0"),
    (1.0, "1"),
    (12.5, "12.5"),
    (-0.123456789, "-0.12346"),
    (1e-05, "0.00001"),
    (99999, "99999"),
    (100_000, "1e5"),
    (600_519, "6.00519e5"),
    (603120.0, "6.0312e5"),
    (24000000.0, "2.4e7"),
    (-123_456_789, "-1.23456789e8"),
    (12345.678, "12345.7"),
    (99999.96, "1e5"),
    (0.999999, "1"),
    (1e300, "1e300"),
    (2024, "2024.0"),
    (2024.0, "2024.0"),
    (-1999, "-1999.0"),
    (2024.3, "2024.3"),
    (1989, "1989"),
    (2040, "2040"),
    (math.nan, "null"),
    (math.inf, "null"),
    (-math.inf, "null"),
)
def test_numbers_are_short_and_never_look_like_codes_or_years(value, text):
    assert render_number(value) == text


@pytest.mark.parametrize(
    ("price", "text"),
    [
        (0.001, "0.001"),
        (0.000999, "9.99e-4"),
        (8.12345678e-6, "8.12346e-6"),
        (4e-7, "4e-7"),
        (0.0, "0"),
    ],
)
def test_a_price_keeps_its_digits_however_small_it_is(price, text):
    payload = table(["close", "return"], [[Price(0, price), price]])
    assert (
        lens_of("blinded").render_text(payload)
        == f'{{"columns":["close","return"],"rows":[[{text},{render_number(price)}]]}}'
    )
    assert (
        Lens(MaskConfig(round_digits=2), 1, MARKET, BASE_ROW).render_text(Price(0, 8.16e-6))
        == "8.2e-6"
    )


@examples(40)
@given(numbers)
def test_a_rendered_number_is_json_and_close_to_the_number(value):
    back = json.loads(render_number(value))
    if isinstance(value, int):
        assert back == value or math.isclose(back, value, rel_tol=1e-15)
    else:
        assert math.isclose(back, value, rel_tol=5.001e-6, abs_tol=5.001e-6)


@pytest.mark.slow
@examples(200)
@given(st.integers(-(10**15), 10**15).map(lambda minor: minor / 100) | st.just(20_240_102.0))
def test_a_sum_of_an_account_is_written_in_full_and_reads_as_no_identity(value):
    lens = lens_of("blinded")
    text = lens.render_text({"cash": OwnFigure(value)})

    assert "e" not in text.removeprefix('{"cash":')
    assert math.isclose(json.loads(text)["cash"], value, rel_tol=5.001e-6, abs_tol=5.001e-6)

    guard_of("blinded").check(text, "a state")


@examples(40)
@given(numbers)
def test_no_rendered_number_has_six_digits_standing_alone_or_is_a_year(value):
    text = render_number(value)
    assert not re.search(r"(?<![0-9.])[0-9]{6}", text)
    assert not re.fullmatch(r"-?(?:199[0-9]|20[0-3][0-9])", text)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9999, 1980)
    | st.floats(-9e4, 9e4).map(lambda x: round(x, 1))
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.slow
@examples(40)
@given(plain)
def test_rendered_json_reads_back_as_what_it_was(value):
    assert json.loads(render_json(value)) == value


@pytest.mark.slow
@examples(40)
@given(st.lists(st.text() | st.text(st.characters(categories=["Cs", "Cc"]))))
def test_a_list_of_texts_is_written_as_each_of_them_is(value):
    assert render_json(value) == f"[{','.join(map(render_json, value))}]"


def test_json_is_compact_and_keeps_the_order_of_keys_and_chinese():
    assert (
        render_json({"b": [1, 2.5, None, True], "a": {}, "名": "五粮"})
        == '{"b":[1,2.5,null,true],"a":{},"名":"五粮"}'
    )
    assert render_json([]) == "[]"


def test_subclasses_and_other_mappings_are_rendered_as_plain_values():
    held = MappingProxyType({"b": Board.STAR, "a": MappingProxyType({"n": np.float64(0.5)})})
    assert render_json(held) == '{"b":"star","a":{"n":0.5}}'  # type: ignore[arg-type]
    assert lens_of("blinded").render(held) == {"b": "star", "a": {"n": 0.5}}


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, [b"bytes"], np.datetime64("2024-01-02")])
def test_values_that_are_not_json_are_refused_by_type(value):
    with pytest.raises(PluginError, match=r"type int|set|bytes|datetime64"):
        render_json(value)
