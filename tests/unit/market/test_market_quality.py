from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import DataError, UsageError
from ktdeval.market.assembly import REPAIRS, apply_repairs, assemble
from ktdeval.market.calendar import sessions
from ktdeval.market.quality import EXAMPLES, LOOKBACK_DAYS, Finding, RawMarket, check, raw_from_snapshot
from ktdeval.market.raw import member_intervals, membership
from raw_market import CODES, DAYS, bars, changed, market, same, without


def finding(raw: RawMarket, kind: str) -> Finding:
    (found,) = [entry for entry in check(raw) if entry.kind == kind]
    return found


def kinds(raw: RawMarket) -> set[str]:
    return {entry.kind for entry in check(raw)}


def with_rows(*rows: dict[str, object]) -> pd.DataFrame:
    return pd.concat([bars(), pd.DataFrame(rows)], ignore_index=True)


def test_a_faultless_market_has_no_findings() -> None:
    assert check(market()) == []


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ({"high": 9.0}, "impossible_bars"),
        ({"open": 11.0}, "impossible_bars"),
        ({"close": 9.0}, "impossible_bars"),
        ({"volume": -1.0}, "impossible_bars"),
        ({"amount": -1.0}, "impossible_bars"),
        ({"volume": np.inf}, "impossible_bars"),
        ({"low": 0.0}, "non_positive_price"),
        ({"low": -1.0}, "non_positive_price"),
        ({"open": np.nan}, "incomplete_bars"),
        ({"high": np.nan}, "incomplete_bars"),
        ({"high": np.inf}, "incomplete_bars"),
        ({"volume": np.nan}, "missing_volume_rows"),
        ({"amount": np.nan}, "missing_amount_rows"),
        ({"amount": 1e6}, "average_price_outside_bar"),
        ({"factor": np.nan}, "factor_missing"),
        ({"factor": 0.0}, "factor_non_positive"),
        ({"factor": np.inf}, "factor_non_positive"),
        ({"factor": 2.0}, "implausible_returns"),
        ({"volume": 0.0}, "suspended_rows"),
    ],
)
def test_one_bad_cell_is_counted_once_and_named(cells: dict[str, float], kind: str) -> None:
    days = sessions("2024-01-02", "2024-01-31").astype(str)
    table = bars(days=tuple(days))
    table.loc[(table["code"] == "600519.SH") & (table["date"] == pd.Timestamp("2024-01-16")), list(cells)] = list(cells.values())
    found = finding(market(table), kind)
    if kind == "implausible_returns":  # there and back
        assert found.count == 2
    else:
        assert found.count == 1
    assert found.examples[0] == "600519.SH 2024-01-16"


def test_duplicate_rows_are_counted_without_their_first() -> None:
    raw = market(with_rows(bars().iloc[3].to_dict(), bars().iloc[3].to_dict()))
    found = finding(raw, "duplicate_rows")
    assert (found.count, found.examples, found.repairs) == (2, ("000001.SZ 2024-01-05",) * 2, ("drop_duplicates",))


def test_examples_are_the_first_few_only() -> None:
    table = bars().assign(high=1.0)
    found = finding(market(table), "impossible_bars")
    assert found.count == len(table)
    assert len(found.examples) == EXAMPLES
    assert found.examples[0] == "000001.SZ 2024-01-02"


def test_gaps_count_days_inside_a_life_and_suspensions_are_no_gaps() -> None:
    found = finding(market(without("600519.SH", "2024-01-03", "2024-01-04")), "gaps")
    assert (found.count, found.examples) == (2, ("600519.SH 2024-01-03…2024-01-04",))
    assert "gaps" not in kinds(market(without("600519.SH", "2024-01-02", "2024-01-08")))
    assert "gaps" not in kinds(market(changed("600519.SH", "2024-01-03", volume=0.0)))


def test_days_before_and_after_a_members_bars_are_named() -> None:
    found = finding(market(without("600519.SH", "2024-01-02", "2024-01-08")), "unrecorded_member_days")
    assert (found.count, found.examples) == (2, ("600519.SH 2024-01-02", "600519.SH 2024-01-08"))


@pytest.mark.parametrize(
    "cells",
    [
        {"volume": 0.0},
        {"volume": np.nan, "open": 10.1, "high": 10.1, "low": 10.1, "close": 10.1},
        {"volume": np.nan, "open": np.nan, "high": np.nan, "low": np.nan, "close": np.nan},
        {"volume": 0.0, "open": 0.0, "high": 0.0, "low": 0.0, "close": 0.0},
    ],
)
def test_days_without_trade_are_suspensions_not_faults(cells: dict[str, float]) -> None:
    raw = market(changed("600519.SH", "2024-01-04", **cells))
    assert kinds(raw) == {"suspended_rows"}


def test_rows_marked_as_not_traded_are_suspensions_whatever_they_say() -> None:
    table = bars().assign(traded=True)
    table.loc[7, ["traded", "high"]] = [False, 1.0]
    assert kinds(market(table)) == {"suspended_rows"}


def test_codes_without_amount_are_told_from_rows_without() -> None:
    table = bars()
    table.loc[table["code"] == "600519.SH", "amount"] = np.nan
    found = finding(market(table), "codes_without_amount")
    assert (found.count, found.examples) == (1, ("600519.SH",))
    assert finding(market(table), "missing_amount_rows").count == 5


def test_members_without_any_bar_are_named_with_their_time() -> None:
    members = pd.concat([market().members, pd.DataFrame({"code": ["600837.SH"], "first": "2024-01-03", "last": "2024-06-30"})])
    raw = market(members=members.astype({"first": "datetime64[ns]", "last": "datetime64[ns]"}))
    assert raw.codes == (*CODES[:2], "600837.SH", CODES[2])
    found = finding(raw, "unpriced_members")
    assert (found.count, found.examples) == (1, ("600837.SH member 2024-01-03…2024-01-08",))


def test_members_that_left_in_the_look_back_are_counted_apart() -> None:
    days = sessions("2023-01-03", "2024-03-29")
    gone, stayed = str(days[LOOKBACK_DAYS - 1]), str(days[LOOKBACK_DAYS])
    members = pd.DataFrame(
        {"code": ["600837.SH", "601989.SH", *CODES], "first": days[0], "last": [gone, stayed, *[str(days[-1])] * 3]}
    )
    raw = market(
        bars(days=tuple(days.astype(str))),
        members=members.astype({"last": "datetime64[s]"}),
        indices=pd.DataFrame({"date": days, "code": "000688.SH", "close": 1.0}),
    )
    assert finding(raw, "unpriced_members").examples[0].startswith("601989.SH")
    assert finding(raw, "unpriced_members_in_lookback").examples == (f"600837.SH member {days[0]}…{gone}",)


def test_membership_intervals_that_overlap_or_end_before_they_begin() -> None:
    day = pd.to_datetime(["2024-01-02", "2024-01-04", "2024-01-05", "2024-01-08"])
    members = pd.DataFrame(
        {"code": [CODES[0], CODES[0], CODES[1]], "first": [day[0], day[1], day[3]], "last": [day[1], day[3], day[2]]}
    )
    raw = market(members=members)
    assert finding(raw, "membership_overlaps").examples == ("000001.SZ 2024-01-02…2024-01-04 and 2024-01-04…2024-01-08",)
    assert finding(raw, "membership_reversed").examples == ("600519.SH 2024-01-08…2024-01-05",)


def test_the_number_of_members_is_compared_with_the_index() -> None:
    raw = market(benchmark="000300.SH", indices=market().indices.assign(code="000300.SH"))
    found = finding(raw, "member_count")
    assert (found.severity, found.count, found.examples[0]) == ("info", 5, "2024-01-02: 3")


def test_codes_of_no_board_are_errors() -> None:
    raw = market(with_rows({**bars().iloc[0].to_dict(), "code": "AAPL"}))
    assert finding(raw, "unknown_codes").examples == ("AAPL",)


def test_days_are_compared_with_the_exchange() -> None:
    saturday = {**bars().iloc[0].to_dict(), "date": pd.Timestamp("2024-01-06")}
    table = with_rows(saturday)
    table = table[table["date"] != pd.Timestamp("2024-01-04")]
    found = finding(market(table), "calendar_mismatch")
    assert (found.count, found.examples) == (2, ("2024-01-06 is no session", "2024-01-04 has no bars"))


def test_days_that_no_calendar_knows_are_said_to_be_unchecked() -> None:
    raw = market(with_rows({**bars().iloc[0].to_dict(), "date": pd.Timestamp("2060-01-06")}))
    assert finding(raw, "calendar_unknown").severity == "info"


def test_adjusted_prices_beside_a_factor_are_errors() -> None:
    table = bars().assign(factor=1.2345)
    for name in ("open", "high", "low", "close"):
        table[name] *= 1.2345
    assert finding(market(table), "prices_look_adjusted").severity == "error"
    assert "prices_look_adjusted" not in kinds(market(bars().assign(factor=1.2345)))
    assert "no_factor" in kinds(market(table, has_factor=False))


def test_wrong_units_show_without_a_factor_too() -> None:
    lots = bars().assign(volume=10.0)
    assert finding(market(lots, has_factor=False), "average_price_outside_bar").count == len(lots)
    assert "average_price_outside_bar" not in kinds(market(bars().assign(amount=11_000.0), has_factor=False))


def test_index_levels_that_are_missing_or_repeated() -> None:
    levels = market().indices
    other = levels.iloc[[0, 0]].assign(code="000300.SH")
    raw = market(indices=pd.concat([levels.iloc[[0, 1, 3, 4]], other]))
    assert finding(raw, "benchmark_gaps").examples == ("2024-01-04",)
    assert finding(raw, "index_gaps").count == 4
    assert finding(raw, "duplicate_index_rows").examples == ("000300.SH 2024-01-02",)
    assert finding(market(indices=levels.assign(close=0.0)), "benchmark_gaps").count == 5


def test_errors_come_first() -> None:
    raw = market(changed("600519.SH", "2024-01-04", high=1.0).assign(amount=np.nan), has_factor=False)
    severities = [entry.severity for entry in check(raw)]
    assert severities == sorted(severities, key=["error", "warning", "info"].index)
    assert severities[0] == "error"


def test_tables_without_a_column_or_a_row_are_refused() -> None:
    with pytest.raises(DataError, match="table bars lacks column 'open'"):
        market(bars().drop(columns="open"))
    with pytest.raises(DataError, match="there are no bars"):
        market(bars().iloc[:0])


# ---- repairs


def test_each_repair_mends_its_fault_and_is_recorded_with_its_count() -> None:
    duplicate = with_rows(bars().iloc[0].to_dict())
    overlap = pd.concat([market().members, market().members.iloc[:1]])
    cases = {
        "drop_duplicates": (market(duplicate), "1 rows"),
        "drop_impossible": (market(changed("600519.SH", "2024-01-04", high=1.0)), "1 rows"),
        "derive_high_low": (market(changed("600519.SH", "2024-01-04", high=np.nan, low=np.nan)), "1 rows"),
        "drop_unknown_codes": (market(with_rows({**bars().iloc[0].to_dict(), "code": "AAPL"})), "1 codes"),
        "drop_non_sessions": (market(with_rows({**bars().iloc[0].to_dict(), "date": pd.Timestamp("2024-01-06")})), "1 rows"),
        "fill_factor": (market(changed("600519.SH", "2024-01-02", factor=np.nan)), "1 rows"),
        "fill_amount": (market(changed("600519.SH", "2024-01-02", amount=np.nan)), "1 rows"),
        "round_prices": (market(bars().assign(close=10.1234567, factor=1.5)), "15 rows"),
        "resolve_overlaps": (market(members=overlap), "1 intervals"),
        "fill_indices": (market(indices=market().indices.iloc[[0, 1, 3, 4]]), "1 rows"),
    }
    assert cases.keys() == REPAIRS.keys()
    for name, (raw, count) in cases.items():
        assert check(raw), name
        repaired = apply_repairs(raw, [name])
        assert repaired.repairs == (f"{name}: {count}",)
        assert kinds(repaired) <= {"gaps"}, name
        assert assemble(raw, [name]).meta.repairs == repaired.repairs


def test_a_repair_that_changes_nothing_is_not_recorded() -> None:
    repaired = apply_repairs(market(), list(REPAIRS))
    assert repaired.repairs == ()
    assert repaired.bars.equals(market().bars)


def test_unknown_repairs_are_refused_with_near_names() -> None:
    with pytest.raises(UsageError, match="'fill_amuont' is unknown; did you mean 'fill_amount'"):
        apply_repairs(market(), ["fill_amuont"])


def test_repairs_fill_what_they_say() -> None:
    raw = apply_repairs(market(changed("600519.SH", "2024-01-04", amount=np.nan, high=np.nan)), ["fill_amount", "derive_high_low"])
    row = raw.bars[(raw.bars["code"] == "600519.SH") & (raw.bars["date"] == "2024-01-04")].iloc[0]
    assert row["high"] == 10.1
    assert row["amount"] == pytest.approx(1000 * (10.1 + 9.9 + 10.1) / 3)


def test_a_missing_factor_takes_the_last_one_before_and_at_the_start_the_next() -> None:
    table = bars(codes=("600519.SH",)).assign(factor=[np.nan, 2.0, np.nan, 3.0, 0.0])
    assert apply_repairs(market(table), ["fill_factor"]).bars["factor"].tolist() == [2, 2, 2, 3, 3]


def test_joined_intervals_cover_what_they_covered() -> None:
    spans = [("A", 2, 4), ("A", 4, 8), ("A", 9, 9), ("A", 3, 3), ("B", 2, 2), ("B", 8, 3)]
    members = pd.DataFrame(
        {
            "code": [code for code, _, _ in spans],
            "first": pd.to_datetime([f"2024-01-0{first}" for _, first, _ in spans]),
            "last": pd.to_datetime([f"2024-01-0{last}" for _, _, last in spans]),
        }
    )
    joined = apply_repairs(market(members=members), ["resolve_overlaps"]).members
    rows = [(code, first.day, last.day) for code, first, last in joined.itertuples(index=False)]
    assert rows == [("A", 2, 8), ("A", 9, 9), ("B", 2, 2)]


# ---- membership


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_intervals_and_grids_of_membership_are_inverse(rows: list[list[bool]]) -> None:
    grid = np.array(rows)
    days = np.arange("2024-01-01", "2024-02-01", dtype="datetime64[D]")[: len(rows)]
    assert same(membership(member_intervals(grid, days, CODES), days, CODES), grid)


def test_intervals_include_both_ends_and_days_between_sessions() -> None:
    days = np.array(DAYS, dtype="datetime64[D]")
    members = pd.DataFrame({"code": [CODES[0]], "first": pd.to_datetime(["2024-01-04"]), "last": pd.to_datetime(["2024-01-07"])})
    assert membership(members, days, CODES)[:, 0].tolist() == [False, False, True, True, False]


def test_a_snapshot_gives_the_findings_of_its_source() -> None:
    table = without("600519.SH", "2024-01-04").assign(traded=True)
    table.loc[0, ["traded", "volume"]] = [False, np.nan]
    table.loc[table["code"] == "688981.SH", "amount"] = np.nan
    raw = market(table)
    assert check(raw_from_snapshot(assemble(raw))) == check(raw)
    assert same(assemble(raw_from_snapshot(assemble(raw))).close, assemble(raw).close)
