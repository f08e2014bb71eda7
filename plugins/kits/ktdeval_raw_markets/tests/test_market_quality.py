"""What the check of a market finds, what repairs do, and units and conventions that are wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import DataError, UsageError
from ktdeval.market.rules.calendar import sessions
from ktdeval.market.snapshots.snapshot import Instrument
from ktdeval.market.snapshots.vendor_price_limits import NO_PRICE_LIMITS, PriceLimits
from ktdeval.values.findings import MAX_EXAMPLES, Finding
from ktdeval_raw_markets.assembly import REPAIRS, apply_repairs, assemble
from ktdeval_raw_markets.checks.quality import check, raw_from_snapshot
from ktdeval_raw_markets.sources.raw_tables import (
    SILENT_DAYS,
    RawMarket,
    member_intervals,
    members_by_bars,
    membership,
)
from support.market.raw_market import CODES, DAYS, bars, changed, market, same, without
from support.searching import examples


def finding(raw: RawMarket, kind: str) -> Finding:
    (only,) = [entry for entry in check(raw) if entry.rule == kind]
    return only


def kinds(raw: RawMarket) -> set[str]:
    return {entry.rule for entry in check(raw)} - {"short_history"}  # five days are


def with_rows(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.concat([bars(), pd.DataFrame(rows)], ignore_index=True)


BAD_CELLS = [
    ({"high": 9.0}, "impossible_bars"),
    ({"open": 11.0}, "impossible_bars"),
    ({"close": 9.0}, "impossible_bars"),
    ({"volume": -1.0}, "impossible_bars"),
    ({"volume": np.inf}, "impossible_bars"),
    ({"amount": -1.0}, "impossible_bars"),
    ({"low": 0.0}, "non_positive_price"),
    ({"low": -1.0}, "non_positive_price"),
    ({"open": np.nan}, "incomplete_bars"),
    ({"high": np.nan}, "incomplete_bars"),
    ({"high": np.inf}, "incomplete_bars"),
    ({"close": np.inf}, "incomplete_bars"),
    ({"volume": np.nan}, "missing_volume_rows"),
    ({"amount": np.nan}, "missing_amount_rows"),
    ({"amount": 3e5}, "average_price_outside_bar"),
    ({"amount": 1_008_000.0}, "wrong_units"),
    ({"factor": np.nan}, "factor_missing"),
    ({"factor": 0.0}, "factor_non_positive"),
    ({"factor": np.inf}, "factor_non_positive"),
    ({"high": 2e8, "open": 1e8}, "untradable_price"),
    ({"factor": 2.0}, "implausible_returns"),
    ({"volume": 0.0}, "suspended_rows"),
]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("cells", "kind"), BAD_CELLS)
def test_one_bad_cell_is_counted_once_and_named(cells: dict[str, float], kind: str) -> None:
    table = bars(days=tuple(sessions("2024-01-02", "2024-01-31").astype(str)))
    row = (table["code"] == "600519.SH") & (table["date"] == pd.Timestamp("2024-01-16"))
    table.loc[row, list(cells)] = list(cells.values())
    fault = finding(market(table), kind)

    assert fault.count == (2 if kind == "implausible_returns" else 1), (
        "a move there and back is two"
    )
    assert fault.examples[0].partition(":")[0] == "600519.SH 2024-01-16"


def first_bar(**changes: object) -> dict[str, object]:
    return {**bars().iloc[0].to_dict(), **changes}


def dated(rows: list[tuple[str, str, str]]) -> pd.DataFrame:
    """Intervals of membership."""
    table = pd.DataFrame(rows, columns=["code", "first", "last"])
    return table.astype({"first": "datetime64[ns]", "last": "datetime64[ns]"})


LEVELS = market().indices
OTHER_INDEX = pd.concat([LEVELS.iloc[[0, 1, 3, 4]], LEVELS.iloc[[0, 0]].assign(code="000300.SH")])
SPELLS = dated(
    [
        (CODES[0], "2024-01-02", "2024-01-04"),
        (CODES[0], "2024-01-04", "2024-01-08"),
        (CODES[1], "2024-01-08", "2024-01-05"),
    ]
)
ENDS = without("600519.SH", "2024-01-02", "2024-01-08")
SATURDAY = with_rows(first_bar(date=pd.Timestamp("2024-01-06"))).loc[
    lambda table: table["date"] != pd.Timestamp("2024-01-04")
]
BARE = bars().assign(amount=lambda table: table["amount"].where(table["code"] != "600519.SH"))
FINDINGS = [  # market, kind, count, first examples
    (
        market(with_rows(first_bar(), first_bar())),
        "duplicate_rows",
        2,
        ("000001.SZ 2024-01-02",) * 2,
    ),
    (market(bars().assign(high=1.0)), "impossible_bars", 15, ("000001.SZ 2024-01-02",)),
    (
        market(without("600519.SH", "2024-01-03", "2024-01-04")),
        "gaps",
        2,
        ("600519.SH 2024-01-03…2024-01-04",),
    ),
    (market(ENDS), "unrecorded_member_days", 2, ("600519.SH 2024-01-02", "600519.SH 2024-01-08")),
    (market(BARE), "codes_without_amount", 1, ("600519.SH",)),
    (
        market(
            members=dated(
                [
                    ("600837.SH", "2024-01-03", "2024-06-30"),
                    *((code, DAYS[0], DAYS[-1]) for code in CODES),
                ]
            )
        ),
        "unpriced_members",
        1,
        ("600837.SH member 2024-01-03…2024-01-08",),
    ),
    (
        market(members=SPELLS),
        "membership_overlaps",
        1,
        ("000001.SZ 2024-01-02…2024-01-04 and 2024-01-04…2024-01-08",),
    ),
    (market(members=SPELLS), "membership_reversed", 1, ("600519.SH 2024-01-08…2024-01-05",)),
    (
        market(benchmark="000300.SH", indices=LEVELS.assign(code="000300.SH")),
        "member_count_far",
        5,
        ("2024-01-02: 3",),
    ),
    (market(with_rows(first_bar(code="AAPL"))), "unknown_codes", 1, ("AAPL",)),
    (market(with_rows(first_bar(code="000300.SH"))), "unknown_codes", 1, ("000300.SH (index)",)),
    (
        market(SATURDAY),
        "calendar_mismatch",
        2,
        ("2024-01-06 is not a session", "2024-01-04 has no bars"),
    ),
    (market(with_rows(first_bar(date=pd.Timestamp("2060-01-06")))), "calendar_unknown", 1, ()),
    (market(indices=OTHER_INDEX), "benchmark_gaps", 1, ("2024-01-04",)),
    (
        market(indices=OTHER_INDEX),
        "index_gaps",
        4,
        ("2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08"),
    ),
    (market(indices=OTHER_INDEX), "duplicate_index_rows", 1, ("000300.SH 2024-01-02",)),
    (market(indices=LEVELS.assign(close=0.0)), "benchmark_gaps", 5, ("2024-01-02",)),
]


@pytest.mark.parametrize(("raw", "kind", "count", "examples"), FINDINGS)
def test_a_fault_is_counted_with_its_first_examples(
    raw: RawMarket, kind: str, count: int, examples: tuple[str, ...]
) -> None:
    fault = finding(raw, kind)
    assert (fault.count, fault.examples[: len(examples)]) == (count, examples)
    assert len(fault.examples) in (len(examples), MAX_EXAMPLES)
    assert (fault.level == "note") == (kind == "calendar_unknown"), fault.level
    assert "drop_duplicates" in fault.repairs or kind != "duplicate_rows"


def test_adjusted_prices_next_to_a_factor_are_errors() -> None:
    table = bars().assign(factor=1.2345)
    for name in ("open", "high", "low", "close"):
        table[name] *= 1.2345

    assert finding(market(table), "prices_look_adjusted").level == "error"
    assert "prices_look_adjusted" not in kinds(market(bars().assign(factor=1.2345)))
    assert "no_factor" in kinds(market(table, has_factor=False))
    assert "average_price_outside_bar" not in kinds(
        market(bars().assign(amount=11_000.0), has_factor=False)
    )


@pytest.mark.slow
def test_universe_far_from_its_index_size_is_an_error_unless_accepted() -> None:
    codes = tuple(f"60{number:04d}.SH" for number in range(50))
    levels = LEVELS.assign(code="000016.SH")
    cases = {50: set(), 49: {"member_count"}, 45: {"member_count"}, 44: {"member_count_far"}}

    for count, expected in cases.items():
        members = pd.DataFrame(
            {"code": codes[:count], "first": pd.Timestamp(DAYS[0]), "last": pd.Timestamp(DAYS[-1])}
        )
        raw = market(bars(codes), members=members, indices=levels, benchmark="000016.SH")
        assert kinds(raw) == expected, count

    assert (finding(raw, "member_count_far").level, finding(raw, "member_count_far").count) == (
        "error",
        5,
    )

    with pytest.raises(DataError, match=r"5 member_count_far.*--repair accept_member_count"):
        assemble(raw)

    accepted = assemble(raw, ["accept_member_count"])

    assert accepted.meta.repairs == ("accept_member_count: 5 days",)
    assert {
        entry.level
        for entry in check(raw_from_snapshot(accepted))
        if entry.rule.startswith("member_count")
    } == {"warning"}


def test_errors_come_first_and_tables_without_columns_or_rows_are_refused() -> None:
    raw = market(
        changed("600519.SH", "2024-01-04", high=1.0).assign(amount=np.nan), has_factor=False
    )
    severities = [entry.level for entry in check(raw)]

    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert severities[0] == "error"

    with pytest.raises(DataError, match="table bars lacks column 'open'"):
        market(bars().drop(columns="open"))

    with pytest.raises(DataError, match="there are no bars"):
        market(bars().iloc[:0])


# ---- repairs


NO_FACTOR = [1.0] * 10 + [np.nan] * 5
LEFT = {
    "drop_amount": ("codes_without_amount",),
    "drop_before_gap": ("calendar_mismatch", "unrecorded_member_days"),
    "accept_breaks": ("calendar_mismatch",),
}


def reused_ticker() -> RawMarket:
    """A ticker that another company has after 80 sessions."""
    days = sessions("2024-01-02", "2024-07-31").astype(str)
    table = bars(("AAPL", "META"), tuple(days))
    is_later = (table["code"] == "META") & (table["date"] >= days[100])
    names = ["open", "high", "low", "close", "amount"]
    table[names] = table[names].mask(is_later, table[names] * 3.4)
    between = (table["code"] == "META") & table["date"].isin(pd.to_datetime(days[20:100]))
    stock = Instrument("stock", "USD", "us_equity")

    return market(
        table[~between],
        instruments={"AAPL": stock, "META": stock},
        indices=pd.DataFrame({"date": pd.to_datetime(days), "code": "000688.SH", "close": 100.0}),
        members=members_by_bars(table),
    )


def in_hundredths(code: str, day: str) -> pd.DataFrame:
    table = bars()
    row = (table["code"] == code) & (table["date"] == pd.Timestamp(day))
    names = ["open", "high", "low", "close"]
    table.loc[row, names] = table.loc[row, names] * 100

    return table


def one_day_late() -> RawMarket:
    """Bars and levels from Wednesday to Saturday, and on Tuesday."""
    day = pd.Timedelta(days=1)
    indices = LEVELS.assign(date=LEVELS["date"] + day)
    return market(bars().assign(date=bars()["date"] + day), indices=indices)


@pytest.mark.exhaustive
def test_each_repair_fixes_its_fault_and_is_recorded_with_its_count() -> None:
    duplicate = with_rows(bars().iloc[0].to_dict())
    split = bars()
    late = (split["date"] >= DAYS[2]) & (split["code"] == "600519.SH")
    split.loc[late, ["open", "high", "low", "close", "amount", "factor"]] *= 0.5
    overlap = pd.concat([market().members, market().members.iloc[:1]])
    standing = bars()
    standing.loc[standing["code"] == "600519.SH", "low"] = [9.9, 9.9, 9.9, 9.9, 9.95]
    cases = {
        "drop_duplicates": (market(duplicate), "1 rows"),
        "keep_first": (market(with_rows(first_bar(close=10.0))), "1 rows"),
        "keep_last": (market(with_rows(first_bar(close=10.0))), "1 rows"),
        "drop_impossible": (market(changed("600519.SH", "2024-01-04", high=1.0)), "1 rows"),
        "derive_high_low": (
            market(changed("600519.SH", "2024-01-04", high=np.nan, low=np.nan)),
            "1 rows",
        ),
        "drop_unknown_codes": (market(with_rows(first_bar(code="AAPL"))), "1 codes"),
        "drop_non_sessions": (
            market(with_rows(first_bar(date=pd.Timestamp("2024-01-06")))),
            "1 rows",
        ),
        "shift_days": (one_day_late(), "15 rows"),
        "drop_before_gap": (reused_ticker(), "20 rows"),
        "drop_frozen": (market(standing), "3 rows"),
        "accept_breaks": (reused_ticker(), "1 breaks"),
        "match_prices": (market(in_hundredths("600519.SH", "2024-01-04")), "1 rows"),
        "fill_factor": (market(changed("600519.SH", "2024-01-02", factor=np.nan)), "1 rows"),
        "factor_of_one": (market(bars().assign(factor=NO_FACTOR)), "5 rows"),
        "invert_factor": (market(split), "5 rows"),
        "chain_factor": (market(changed("600519.SH", "2024-01-04", factor=2.0)), "1 rows"),
        "match_units": (market(bars().assign(volume=10.0)), "15 rows"),
        "drop_amount": (market(bars().assign(amount=0.0016)), "15 rows"),
        "fill_amount": (market(changed("600519.SH", "2024-01-02", amount=np.nan)), "1 rows"),
        "drop_quotes": (market(bars().assign(bid=11.0, ask=10.0)), "15 rows"),
        "round_prices": (market(bars().assign(close=10.1234567, factor=1.5)), "15 rows"),
        "resolve_overlaps": (market(members=overlap), "1 intervals"),
        "accept_member_count": (
            market(benchmark="000300.SH", indices=LEVELS.assign(code="000300.SH")),
            "5 days",
        ),
        "fill_indices": (market(indices=market().indices.iloc[[0, 1, 3, 4]]), "1 rows"),
    }

    assert cases.keys() == REPAIRS.keys()

    for name, (raw, count) in cases.items():
        assert check(raw), name
        repaired = apply_repairs(raw, [name])
        assert repaired.repairs == (f"{name}: {count}",)
        assert kinds(repaired) <= {"gaps", "member_count", *LEFT.get(name, ())}, (
            name,
            kinds(repaired),
        )
        assert assemble(raw, [name]).meta.repairs == repaired.repairs


def test_repairs_fill_only_the_named_values() -> None:
    every = [name for name in REPAIRS if name != "keep_last"]
    repaired = apply_repairs(market(), every)

    assert repaired.repairs == ()
    assert repaired.bars.equals(market().bars)

    with pytest.raises(UsageError, match="'fill_amuont' is unknown; did you mean 'fill_amount'"):
        apply_repairs(market(), ["fill_amuont"])

    raw = apply_repairs(
        market(changed("600519.SH", "2024-01-04", amount=np.nan, high=np.nan)),
        ["fill_amount", "derive_high_low"],
    )
    row = raw.bars[(raw.bars["code"] == "600519.SH") & (raw.bars["date"] == "2024-01-04")].iloc[0]

    assert row["high"] == 10.1
    assert row["amount"] == pytest.approx(1000 * (10.1 + 9.9 + 10.1) / 3)

    # A missing factor takes the last one before, and at the start the next.
    table = bars(codes=("600519.SH",)).assign(factor=[np.nan, 2.0, np.nan, 3.0, 0.0])
    assert apply_repairs(market(table), ["fill_factor"]).bars["factor"].tolist() == [2, 2, 2, 3, 3]


def test_joined_intervals_cover_what_they_covered() -> None:
    spans = [("A", 2, 4), ("A", 4, 8), ("A", 9, 9), ("A", 3, 3), ("B", 2, 2), ("B", 8, 3)]
    members = dated(
        [(code, f"2024-01-0{first}", f"2024-01-0{last}") for code, first, last in spans]
    )
    joined = apply_repairs(market(members=members), ["resolve_overlaps"]).members
    rows = [(code, first.day, last.day) for code, first, last in joined.itertuples(index=False)]

    assert rows == [("A", 2, 8), ("A", 9, 9), ("B", 2, 2)]


# ---- membership


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8))
@examples(30)
def test_intervals_and_grids_of_membership_are_inverse(rows: list[list[bool]]) -> None:
    grid = np.array(rows)
    days = np.arange("2024-01-01", "2024-02-01", dtype="datetime64[D]")[: len(rows)]
    assert same(membership(member_intervals(grid, days, CODES), days, CODES), grid)


@pytest.mark.exhaustive
@given(st.sets(st.integers(0, 199), min_size=1), st.integers(0, 199))
@examples(100)
def test_membership_by_bars_is_that_of_the_days_so_far(own: set[int], today: int) -> None:
    """Day by day: a member while one of the last 60 days, or this one, has a bar; what comes later
    changes no day before it.
    """
    days = np.arange("2024-01-01", "2025-01-01", dtype="datetime64[D]")[:200]
    rows = [
        *((row, "000001.SZ") for row in range(200)),
        *((row, "600519.SH") for row in sorted(own)),
    ]
    table = pd.DataFrame(
        {"date": [days[row] for row, _ in rows], "code": [code for _, code in rows]}
    )
    member = membership(members_by_bars(table), days, ["000001.SZ", "600519.SH"])

    assert member[:, 0].all()
    assert member[:, 1].tolist() == [
        bool(own & set(range(day - SILENT_DAYS, day + 1))) for day in range(200)
    ]

    so_far = membership(
        members_by_bars(table[table["date"] <= days[today]]),
        days[: today + 1],
        ["000001.SZ", "600519.SH"],
    )

    assert same(so_far, member[: today + 1])


@pytest.mark.slow
def test_a_snapshot_gives_the_findings_of_its_source() -> None:
    table = without("600519.SH", "2024-01-04").assign(traded=True)
    table.loc[0, ["traded", "volume"]] = [False, np.nan]
    table.loc[table["code"] == "688981.SH", "amount"] = np.nan
    raw = market(table)

    assert check(raw_from_snapshot(assemble(raw))) == check(raw)
    assert same(assemble(raw_from_snapshot(assemble(raw))).close, assemble(raw).close)


# ---- facts on price limits


@pytest.mark.parametrize(
    ("row", "count"),
    [
        ({"limit_up": 10.20}, 0),  # the high is 10.20
        ({"limit_up": 10.1951}, 0),  # half a fen: vendors round
        ({"limit_up": 10.19}, 1),
        ({"limit_up": 0.0}, 0),  # not known
        ({"limit_up": np.nan}, 0),
        ({"limit_down": 9.90}, 0),  # the low is 9.90
        ({"limit_down": 9.9049}, 0),
        ({"limit_down": 9.91}, 1),
        ({"limit_up": 10.19, "volume": 0.0, "amount": 0.0}, 0),  # nothing was traded
        ({"limit_up": 10.19, "limit_down": 9.91}, 1),  # one bar, once
    ],
)
def test_a_bar_beyond_the_limit_prices_of_its_source_is_counted(
    row: dict[str, float], count: int
) -> None:
    limits = {"limit_up": 11.0, "limit_down": 9.0}
    table = bars().assign(**limits)
    is_changed = (table["code"] == "600519.SH") & (table["date"] == pd.Timestamp("2024-01-04"))

    for name, value in row.items():
        table.loc[is_changed, name] = value

    fault = [each for each in check(market(table)) if each.rule == "bar_beyond_limit_prices"]

    assert sum(each.count for each in fault) == count
    assert [each.examples for each in fault] == [("600519.SH 2024-01-04",)] * count


def test_price_limits_are_true_where_a_source_has_any() -> None:
    upper = np.array([[11.0]])

    assert not NO_PRICE_LIMITS
    assert NO_PRICE_LIMITS.arrays == {}
    assert PriceLimits(listed=("2020-01-02",))
    assert PriceLimits(listed=("2020-01-02",)).arrays == {}
    assert PriceLimits(upper=upper)
    assert PriceLimits(upper=upper).arrays == {"upper": upper}
    assert list(PriceLimits(np.array([[True]]), upper, upper).arrays) == [
        "special",
        "upper",
        "lower",
    ]


# ---- days without a level of an index

FILL = "--repair fill_indices uses the index's previous level"
LATER = "excludes the days before its first level"


@pytest.mark.parametrize(
    ("missing", "fix"),
    [
        ((2,), FILL),
        ((3, 4), FILL),
        ((0,), f"--first {DAYS[1]} {LATER}"),  # nothing before it can be taken
        ((0, 1, 2), f"--first {DAYS[3]} {LATER}"),
        ((0, 2), f"--first {DAYS[1]} {LATER}, and {FILL}"),
        ((0, 1, 2, 3, 4), "no option helps: add index levels above zero to its file"),
    ],
)
def test_days_without_a_level_are_named_with_the_option_that_helps(
    missing: tuple[int, ...], fix: str
) -> None:
    levels = market().indices.copy()
    levels.loc[list(missing), "close"] = np.nan

    gaps = finding(market(indices=levels), "benchmark_gaps")

    assert gaps.count == len(missing)
    assert gaps.examples == tuple(DAYS[row] for row in missing)[:MAX_EXAMPLES]
    assert fix in gaps.fix
    assert (FILL in gaps.fix) is (FILL in fix)
    assert (LATER in gaps.fix) is (LATER in fix)
