"""Units of volume and amount: what amount / volume says of them, and readings that work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, UsageError
from ktdeval.values.findings import Finding
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import apply_repairs, assemble
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.checks.unit_checks import given_scales
from ktdeval_raw_markets.checks.unit_inference import stored_volume
from ktdeval_raw_markets.sources.column_units import AMOUNT_UNITS, VOLUME_UNITS, Conventions, Unit
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.market.raw_market import CODES, DAYS, bars, market
from support.searching import examples

UNITS = {
    "wrong_units", "turnover_rate", "amount_repeats_volume", "unknown_units",
    "average_price_outside_bar", "units_not_judged",
}  # fmt: skip


def found(raw: RawMarket) -> dict[str, Finding]:
    return {finding.rule: finding for finding in check(raw) if finding.rule in UNITS}


def read_by(volume: str = "share", amount: str = "CNY", **others: str) -> Conventions:
    """The reading of a source whose options are as given."""
    return Conventions(
        volume_unit=Unit.parse(volume, VOLUME_UNITS, "--volume-unit"),
        amount_unit=Unit.parse(amount, AMOUNT_UNITS, "--amount-unit"),
        has_options=True,
        **others,  # type: ignore[arg-type]
    )


def fault_of(table: pd.DataFrame, **changes: object) -> Finding:
    """What the check says of wrong units in some bars."""
    return found(market(table, **{"conventions": read_by(), **changes}))["wrong_units"]


def advised(finding: Finding) -> str:
    """The options that a message names."""
    ways = finding.fix.split(" or ")
    return next((way for way in ways if way.startswith("--") and "--repair" not in way), "")


def scaled(volume: float, amount: float, **changes: object) -> RawMarket:
    table = bars()
    table["volume"] *= volume
    table["amount"] *= amount
    return market(table, **{"conventions": read_by(), **changes})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("has_factor", [True, False])
@pytest.mark.parametrize(
    ("volume", "amount", "options"),
    [
        (0.01, 1.0, "--volume-unit lot"),
        (1.0, 1e-3, "--amount-unit thousand_CNY"),
        (1.0, 1e-4, "--amount-unit ten_thousand_CNY"),
        (0.01, 1e-3, "--volume-unit lot --amount-unit thousand_CNY"),
        (0.01, 1e-4, "--volume-unit lot --amount-unit ten_thousand_CNY"),
        (0.1, 1.0, "--volume-unit 10"),
        (1e-3, 1.0, "--volume-unit 1000"),
        (1.0, 1e-6, "--amount-unit 1000000"),
        (1.0, 1e-8, "--amount-unit 100000000"),
        (1.0, 10.0, "--volume-unit 10"),
    ],
)
def test_units_that_no_option_named_are_an_error_that_names_them(
    volume: float, amount: float, options: str, has_factor: bool
) -> None:
    raw = scaled(volume, amount, has_factor=has_factor)
    assert found(raw).keys() == {"wrong_units"}
    assert advised(found(raw)["wrong_units"]) == options
    assert found(apply_repairs(raw, ["match_units"])) == {}

    with pytest.raises(DataError, match="wrong_units"):
        assemble(raw)


@pytest.mark.parametrize(
    ("given_as", "stored", "options"),
    [
        (("lot", "CNY"), (100, 1), "--volume-unit share"),
        (("share", "thousand_CNY"), (1, 1e3), "--amount-unit CNY"),
        (("share", "ten_thousand_CNY"), (1, 1e4), "--amount-unit CNY"),
        (("lot", "ten_thousand_CNY"), (100, 1), "--volume-unit share"),
        (("lot", "CNY"), (100, 1e-3), "--volume-unit share --amount-unit thousand_CNY"),
    ],
)
def test_wrongly_named_units_are_recognised_from_the_file(
    given_as: tuple[str, str], stored: tuple[float, float], options: str
) -> None:
    raw = scaled(*stored, conventions=read_by(*given_as))
    assert advised(found(raw)["wrong_units"]) == options


LOTS = bars()["volume"] / 100
IS_STAR = bars()["code"] == "688981.SH"
IS_LATE = bars()["date"] >= DAYS[3]
MIXED = [
    (~IS_STAR, "--volume-unit lot,688981.SH=share", "000001.SZ 2024-01-02…2024-01-08"),
    (
        bars()["code"] == "600519.SH",
        "--volume-unit share,600519.SH=lot",
        "600519.SH 2024-01-02…2024",
    ),
    (IS_LATE, "--volume-unit share,2024-01-05..=lot", "000001.SZ 2024-01-05…2024-01-08"),
    (~IS_LATE, "--volume-unit lot,2024-01-05..=share", "000001.SZ 2024-01-02…2024-01-04"),
    (
        bars()["date"] == DAYS[2],
        "--volume-unit share,2024-01-04..2024-01-04=lot",
        "000001.SZ 2024-01-04",
    ),
    (
        ~IS_LATE & (bars()["code"] == CODES[1]),
        "--volume-unit share,600519.SH@..2024-01-04=lot",
        "600519.SH 2024-01-02…2024-01-04",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("has_factor", [True, False])
@pytest.mark.parametrize(("lots", "options", "example"), MIXED)
def test_wrong_units_of_codes_boards_or_days_come_with_a_working_option(
    lots: pd.Series, options: str, example: str, has_factor: bool, tmp_path: Path
) -> None:
    table = bars().assign(volume=bars()["volume"].where(~lots, LOTS))
    raw = market(table, has_factor=has_factor, conventions=read_by())
    fault = found(raw)["wrong_units"]

    assert (fault.count, fault.repairs) == (int(lots.sum()), ("match_units",))
    assert advised(fault).startswith("--volume-unit")
    assert fault.examples[0].startswith(example)
    assert fault.examples[0].endswith("amount / volume is 100 times the price")

    repaired = apply_repairs(raw, ["match_units"])
    assert repaired.bars["volume"].tolist() == bars()["volume"].tolist()

    again = import_with(table.drop(columns="factor"), advised(fault), tmp_path)
    assert again.bars["volume"].tolist() == bars()["volume"].tolist()
    assert found(again) == {}
    assert advised(fault) == options


def import_with(
    table: pd.DataFrame, options: str, folder: Path, venue: str = "a_share"
) -> RawMarket:
    """Read a table from a file, by options in the words of the command line."""
    table.to_csv(folder / "bars.csv", index=False)
    words = options.split()
    names = [key.strip("-").replace("-", "_") for key in words[::2]]
    named = dict(zip(names, words[1::2], strict=True))

    return read_long(LongParams(bars=str(folder / "bars.csv"), venue=venue, **named))  # type: ignore[arg-type]


# ---- advice never goes round in circles

PAIRS = [(volume, amount) for volume in ("share", "lot") for amount in AMOUNT_UNITS]
BOARDS = ("600519.SH", "601318.SH", "000001.SZ", "300750.SZ", "300059.SZ", "688981.SH")


def priced(seed: int, codes: tuple[str, ...] = BOARDS, count: int = 12) -> pd.DataFrame:
    """Bars of raw prices with whole shares and amounts that belong to them."""
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2024-03-01", periods=count)
    rows = []

    for code in codes:
        close = rng.uniform(3, 300) * np.exp(np.cumsum(rng.normal(0, 0.02, count)))
        low = close * 0.98
        high = close * 1.02
        volume = np.round(10 ** rng.uniform(5, 8, count))
        amount = volume * rng.uniform(low, high)
        prices = {"open": close, "high": high, "low": low, "close": close}
        rows.append(
            pd.DataFrame({"date": days, "code": code, **prices, "volume": volume, "amount": amount})
        )

    table = pd.concat(rows, ignore_index=True)

    return table.round(dict.fromkeys(("open", "high", "low", "close", "amount"), 2))


def stored_in(table: pd.DataFrame, groups: pd.Series, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """The table as files hold it whose groups of rows have units of their own."""
    volume = groups.map(lambda group: VOLUME_UNITS[pairs[group % len(pairs)][0]])
    amount = groups.map(lambda group: AMOUNT_UNITS[pairs[group % len(pairs)][1]])
    return table.assign(volume=table["volume"] / volume, amount=table["amount"] / amount)


def group_numbers(table: pd.DataFrame, by: str, first: int) -> pd.Series:
    """Numbers of groups: of all rows, of boards, of codes, or of the days before and after one."""
    boards = table["code"].str[:2].map({"60": 0, "00": 0, "30": 1, "68": 2})
    codes = table["code"].map({code: number for number, code in enumerate(BOARDS)})
    late = (table["date"] >= pd.bdate_range("2024-03-01", periods=12)[first]).astype(int)

    numbers = {"all": boards * 0, "boards": boards, "codes": codes, "days": late}
    return numbers.get(by, boards + late)


@pytest.mark.exhaustive
@examples(40)
@given(
    seed=st.integers(0, 2**32),
    by=st.sampled_from(["all", "boards", "codes", "days", "both"]),
    first=st.integers(3, 9),
    pairs=st.lists(st.sampled_from(PAIRS), min_size=1, max_size=3, unique=True),
    given_as=st.sampled_from(PAIRS),
)
def test_following_the_advice_ends_in_the_right_units_after_one_step(
    seed: int,
    by: str,
    first: int,
    pairs: list[tuple[str, str]],
    given_as: tuple[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    table = priced(seed)
    stored = stored_in(table, group_numbers(table, by, first), pairs)
    folder = tmp_path_factory.mktemp("mixed")
    raw = import_with(stored, f"--volume-unit {given_as[0]} --amount-unit {given_as[1]}", folder)
    faults = found(raw)

    if "wrong_units" in faults:
        repaired = apply_repairs(raw, ["match_units"])
        options = advised(faults["wrong_units"])
        given_words = {"--volume-unit": given_as[0], "--amount-unit": given_as[1]}
        words = given_words | dict(zip(options.split()[::2], options.split()[1::2], strict=True))
        again = import_with(
            stored, " ".join(f"{key} {word}" for key, word in words.items()), folder
        )
        results = [repaired, again] if options else [repaired]
    else:
        results = [raw]

    ratios = [result.bars["volume"] / table["volume"] for result in results]

    assert [found(result) for result in results] == [{}] * len(results)

    if by != "all" or len(pairs) == 1:
        assert [ratio.round(6).unique().tolist() for ratio in ratios] == [[1.0]] * len(results)


def test_small_volumes_in_whole_lots_are_no_fault() -> None:
    table = priced(4)
    table["volume"] = np.random.default_rng(2).integers(100, 2000, len(table))
    table["amount"] = table["volume"] * table["close"]
    lots = table.assign(volume=table["volume"] // 100 * 100.0, factor=np.nan)

    assert found(market(lots, has_factor=False, conventions=read_by("lot"))) == {}


def test_small_amounts_in_whole_thousands_are_no_fault() -> None:
    """1,209.60 is stored as 1, and 1,000 / 120 = 8.33 is below a bar from 9.90 to 10.20."""
    table = bars().assign(volume=120.0, amount=1_000.0)

    stored = market(table, conventions=read_by("share", "thousand_CNY"))
    whole = market(table, conventions=read_by("share", "CNY"))

    assert found(stored) == {}
    assert found(whole).keys() == {"unknown_units"}


@pytest.mark.exhaustive
def test_wrong_units_of_many_codes_are_repaired_by_name() -> None:
    codes = tuple(f"6005{number:02d}.SH" for number in range(60))
    table = priced(1, codes)
    odd = table["code"].str[5].astype(int) % 2 == 1
    raw = market(
        table.assign(volume=table["volume"].mask(odd, table["volume"] / 100), factor=np.nan),
        has_factor=False,
        conventions=read_by(),
    )
    fault = found(raw)["wrong_units"]

    assert (advised(fault), fault.repairs) == ("", ("match_units",))

    repaired = apply_repairs(raw, ["match_units"])
    np.testing.assert_allclose(repaired.bars["volume"], table["volume"])

    assert repaired.repairs == ("match_units: 360 rows",)


# ---- single odd rows, adjusted prices, rounding


def test_lots_are_detected_on_days_where_forward_adjusted_prices_are_raw() -> None:
    table = priced(3, count=60)
    early = table["date"] < table["date"].unique()[20]
    for name in ("open", "high", "low", "close"):
        table[name] = table[name].where(~early, table[name] / 1.37)

    is_star = table["code"] == "688981.SH"
    stored = table.assign(
        volume=table["volume"].where(is_star, table["volume"] / 100), factor=np.nan
    )
    fault = fault_of(stored, has_factor=False)

    assert advised(fault) == "--volume-unit lot,688981.SH=share"


# ---- the factor in volumes and prices


@pytest.mark.slow
def test_volumes_divided_by_the_factor_are_recognised() -> None:
    table = bars().assign(factor=3.7)
    divided = market(table.assign(volume=table["volume"] / 3.7), conventions=read_by())

    assert advised(found(divided)["wrong_units"]) == "--volume divided"
    assert found(apply_repairs(divided, ["match_units"])) == {}

    multiplied = market(table.assign(volume=table["volume"] * 3.7), conventions=read_by())
    assert found(multiplied)["wrong_units"].examples[0].endswith("is 1 / factor times the price")
    assert found(apply_repairs(multiplied, ["match_units"])) == {}

    as_divided = Conventions(volume="divided", has_options=True)
    twice = table.assign(volume=table["volume"] * 3.7)
    assert advised(fault_of(twice, conventions=as_divided)) == "--volume raw"

    lots = table.assign(volume=table["volume"] / 370)
    assert advised(fault_of(lots)) == "--volume-unit lot --volume divided"


def test_volumes_divided_by_some_codes_factor_are_repaired_by_name() -> None:
    table = bars().assign(factor=3.7)
    raw = market(
        table.assign(volume=table["volume"].where(~IS_STAR, table["volume"] / 3.7)),
        conventions=read_by(),
    )
    fault = found(raw)["wrong_units"]

    assert (fault.count, advised(fault), fault.repairs) == (5, "", ("match_units",))
    assert apply_repairs(raw, ["match_units"]).bars["volume"].tolist() == bars()["volume"].tolist()


def test_a_factor_near_a_power_of_ten_is_read_as_those_of_the_other_codes() -> None:
    table = priced(9).assign(factor=2.7)
    table.loc[table["code"] == "688981.SH", "factor"] = 10.004
    table.loc[table["code"] == "300750.SZ", "factor"] = 10.004**0.5
    divided = table.assign(volume=table["volume"] / table["factor"])
    fault = fault_of(divided)

    assert advised(fault) == "--volume divided"


def test_unit_change_hidden_by_adjusted_prices_has_no_option() -> None:
    table = priced(10, count=60)
    days = table["date"].unique()
    early = table["date"] < days[45]

    for name in ("open", "high", "low", "close"):
        table[name] = table[name].where(~early, table[name] / 1.37)

    table["volume"] = table["volume"].where(table["date"] < days[55], table["volume"] / 100)
    raw = market(table.assign(factor=np.nan), has_factor=False, conventions=read_by())
    fault = found(raw)["wrong_units"]

    assert fault.fix.startswith("no option helps: adjusted prices hide the day")
    assert apply_repairs(raw, ["match_units"]).repairs == ()


def test_adjusted_prices_next_to_a_factor_are_recognised() -> None:
    table = bars().assign(factor=3.71)
    for name in ("open", "high", "low", "close"):
        table[name] *= 3.71

    fault = fault_of(table)

    assert (advised(fault), fault.repairs) == ("--prices adjusted", ())


# ---- rates of turnover, and amounts that are volumes


def test_amounts_that_repeat_the_volume_are_values_or_left_out(tmp_path: Path) -> None:
    table = priced(8, ("BTC-USD", "ETH-USD"))
    values = table.assign(volume=table["amount"])
    raw = import_with(values, "", tmp_path, "crypto_spot")

    assert found(raw).keys() == {"amount_repeats_volume"}
    assert apply_repairs(raw, ["drop_amount"]).bars["amount"].isna().all()

    as_values = import_with(values, "--volume-unit value", tmp_path, "crypto_spot")
    assert found(as_values) == {}

    np.testing.assert_allclose(as_values.bars["volume"], table["volume"], rtol=0.03)
    assert any("traded values" in note for note in as_values.notes)


# ---- options


def test_a_unit_applies_to_all_codes_and_named_units_override_it() -> None:
    unit = Unit.parse(
        "lot,star=share,600519.SH@2024-01-03..2024-01-04=10,..2024-01-02=1",
        VOLUME_UNITS,
        "--volume-unit",
    )
    scopes = ["star", "600519.SH@2024-01-03..2024-01-04", "..2024-01-02"]

    assert [str(scope) for scope, _ in unit.scopes] == scopes

    table = bars()
    column = table["code"].map(CODES.index).to_numpy()
    scales = unit.scales(CODES, column, table["date"].to_numpy().astype("M8[D]"))

    assert scales.tolist() == [1, 100, 100, 100, 100, 1, 10, 10, 100, 100, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lots", "'lots' is not a unit; did you mean 'lot'"),
        ("0", "'0' is not a unit"),
        ("-1", "'-1' is not a unit"),
        ("share,=lot", "'' lacks a code, board or days"),
        ("share,2024-13-01..=lot", "'2024-13-01' is not a day"),
    ],
)
def test_a_text_that_is_no_unit_is_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Unit.parse(text, VOLUME_UNITS, "--volume-unit")


@pytest.mark.parametrize("name", ["688982.SH", "starr"])
def test_a_unit_of_a_code_or_board_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError,
        match=f"--volume-unit: '{name}' is neither a code of the bars nor a board; did you mean '",
    ):
        import_with(bars(), f"--volume-unit share,{name}=lot", tmp_path)


# ---- whole shares


@examples(40)
@given(
    seed=st.integers(0, 2**32),
    assets=st.integers(1, 30),
    largest=st.floats(3, 9),
    lots=st.booleans(),
)
def test_whole_shares_never_tell_the_wrong_convention(
    seed: int, assets: int, largest: float, lots: bool
) -> None:
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
        assert (
            stored_volume((volume / factor).astype(np.float32).astype(np.float64), factor)
            == "divided"
        )

    assert stored_volume(volume * 0.37, np.ones(500)) == "raw", (
        "without a factor there is nothing to undo"
    )

    large = rng.integers(10**7, 10**9, 500).astype(np.float32).astype(np.float64)
    assert stored_volume(large, factor) is None, "single precision has no single shares there"
    assert stored_volume(np.array([3000.0, 6000.0]), np.array([2.0, 2.0])) is None, (
        "whole both ways"
    )


@pytest.mark.parametrize(
    ("volume", "amount", "volumes", "amounts"),
    [
        ("share", "CNY", [1, 1, 1], [1, 1, 1]),
        ("lot", "thousand_CNY", [100, 100, 100], [1_000, 1_000, 1_000]),
        ("lot,688981.SH=share", "CNY", [100, 100, 1], [1, 1, 1]),
        ("share", "CNY,600519.SH=thousand_CNY", [1, 1, 1], [1, 1_000, 1]),
    ],
)
def test_scales_of_a_reading_are_those_of_its_units_by_code(
    volume: str, amount: str, volumes: list[float], amounts: list[float]
) -> None:
    raw = market(conventions=read_by(volume, amount))

    given_volumes, given_amounts = given_scales(raw)

    column = raw.table.column
    assert given_volumes.tolist() == np.take(volumes, column).tolist()
    assert given_amounts.tolist() == np.take(amounts, column).tolist()
