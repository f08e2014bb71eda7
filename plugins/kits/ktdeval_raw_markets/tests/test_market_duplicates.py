"""Rows of one code and day: equal ones may be dropped, those that differ are shown and never are
unasked.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError, UsageError
from ktdeval.market.snapshots.minutes import MinuteBars
from ktdeval.values.findings import Finding
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import apply_repairs, assemble
from ktdeval_raw_markets.checks.quality import check
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from support.market.raw_market import DAYS, bars, market

REPEATED = {
    "duplicate_rows", "conflicting_rows", "duplicate_index_rows", "conflicting_index_rows",
    "minutes_repeated", "minutes_conflicting",
}  # fmt: skip


def found(raw: RawMarket) -> dict[str, Finding]:
    return {each.rule: each for each in check(raw) if each.rule in REPEATED}


def with_bars(*changes: dict[str, object]) -> pd.DataFrame:
    """The bars, with the first one again under each change."""
    first = bars().iloc[0].to_dict()
    return pd.concat(
        [bars(), pd.DataFrame([{**first, **change} for change in changes])], ignore_index=True
    )


def counts(raw: RawMarket) -> dict[str, int]:
    return {kind: finding.count for kind, finding in found(raw).items()}


def close_of(raw: RawMarket, repair: str) -> float:
    """The first bar's close after a repair."""
    table = apply_repairs(raw, [repair]).bars
    own = table[(table["code"] == "000001.SZ") & (table["date"] == DAYS[0])]

    assert len(own) == 1

    return float(own["close"].iloc[0])


# ---- bars


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([{}], {"duplicate_rows": 1}),
        ([{"close": 10.0}], {"conflicting_rows": 1}),
        ([{"volume": np.nan}], {"conflicting_rows": 1}),
        ([{"factor": 2.0}], {"conflicting_rows": 1}),
        ([{}, {"close": 10.0}], {"duplicate_rows": 1, "conflicting_rows": 1}),
        ([{"close": 10.0}, {}], {"duplicate_rows": 1, "conflicting_rows": 1}),
        ([{"close": 10.0}, {"close": 10.05}], {"conflicting_rows": 2}),
    ],
)
def test_rows_that_differ_are_no_duplicates(
    changes: list[dict[str, object]], expected: dict[str, int]
) -> None:
    raw = market(with_bars(*changes))
    assert counts(raw) == expected
    assert {finding.level for finding in found(raw).values()} == {"error"}


def test_equal_rows_with_missing_values_are_duplicates() -> None:
    table = with_bars({}).assign(amount=np.nan)
    assert counts(market(table)) == {"duplicate_rows": 1}
    assert counts(apply_repairs(market(table), ["drop_duplicates"])) == {}


def test_rows_that_differ_in_a_mark_of_trade_are_no_duplicates() -> None:
    table = with_bars({}).assign(traded=True)
    table.loc[len(table) - 1, "traded"] = False
    assert counts(market(table)) == {"conflicting_rows": 1}


def test_the_first_or_the_last_of_rows_that_differ_is_kept_by_name() -> None:
    raw = market(with_bars({"close": 10.0}, {"close": 10.15}))
    assert (close_of(raw, "keep_first"), close_of(raw, "keep_last")) == (10.1, 10.15)
    assert apply_repairs(raw, ["keep_first"]).repairs == ("keep_first: 2 rows",)

    with pytest.raises(UsageError, match="keep_first and keep_last contradict each other"):
        apply_repairs(raw, ["keep_first", "keep_last"])

    # The last in the file counts, though an equal one stands before it.
    twice = market(with_bars({"close": 10.0}, {}))

    assert close_of(twice, "keep_last") == 10.1
    assert apply_repairs(market(with_bars({})), ["keep_first"]).repairs == (), (
        "equal rows are left to the other repair"
    )


# ---- what the message shows


CSV = """date,code,open,high,low,close,volume,amount
2024-01-02,600519.SH,10,10.2,9.9,10.1,1000,10080
2024-01-03,600519.SH,10,10.2,9.9,10.1,1000,10080
2024-01-03,600519.SH,10,10.2,9.9,10.0,1200,12090
2024-01-04,600519.SH,10,10.2,9.9,10.1,1000,10080
"""


def read(path: Path, **options: object) -> RawMarket:
    return read_long(LongParams(bars=str(path), **options))  # type: ignore[arg-type]


def test_lines_are_those_of_the_file_also_where_rows_before_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "bars.csv"
    path.write_text(CSV)
    (example,) = found(read(path, first="2024-01-03"))["conflicting_rows"].examples

    assert "line 3 of bars.csv" in example
    assert "line 4 of bars.csv" in example

    members = tmp_path / "members.csv"
    members.write_text("code,in_date,out_date\n600519.SH,2024-01-01,\n")
    path.write_text(CSV.replace("\n2024-01-02,600519.SH", "\n2024-01-02,600000.SH"))
    (example,) = found(read(path, members=str(members)))["conflicting_rows"].examples

    assert "line 3 of bars.csv" in example


def test_rows_of_two_files_of_a_folder_are_shown_with_their_files(tmp_path: Path) -> None:
    header, *rows = CSV.splitlines()
    (tmp_path / "2023.csv").write_text("\n".join([header, *rows[:2]]))
    (tmp_path / "2024.csv").write_text("\n".join([header, *rows[2:]]))
    (example,) = found(read(tmp_path))["conflicting_rows"].examples

    assert "line 3 of 2023.csv has" in example
    assert "line 2 of 2024.csv has" in example


def test_rows_of_a_parquet_file_are_shown_by_their_number(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text(CSV)
    pd.read_csv(tmp_path / "bars.csv").to_parquet(tmp_path / "bars.parquet")
    (example,) = found(read(tmp_path / "bars.parquet"))["conflicting_rows"].examples
    assert "row 2 of bars.parquet has" in example


# ---- index levels


def levels(*closes: float) -> pd.DataFrame:
    """The levels, with the first day's again at each close."""
    table = market().indices
    return pd.concat(
        [table, *(table.iloc[:1].assign(close=close) for close in closes)], ignore_index=True
    )


def test_filling_index_levels_drops_none_that_differ() -> None:
    table = levels(99.0)
    raw = market(indices=table[table["date"] != DAYS[3]])

    assert counts(apply_repairs(raw, ["fill_indices"])) == {"conflicting_index_rows": 1}
    assert assemble(raw, ["keep_last", "fill_indices"]).benchmark.tolist() == [
        99,
        101,
        102,
        102,
        104,
    ]


# ---- bars within days


def test_bars_within_days_that_differ_are_no_duplicates() -> None:
    row = {"code": "600519.SH", "ends_at": np.datetime64("2024-01-02T02:00"), "volume": 500.0}
    row |= {"open": 10.0, "high": 10.2, "low": 9.9, "close": 10.1}
    table = pd.DataFrame([row, row, {**row, "close": 10.0}])
    raw = market(minutes=MinuteBars.of(table))

    assert counts(raw) == {"minutes_repeated": 1, "minutes_conflicting": 1}

    (example,) = found(raw)["minutes_conflicting"].examples
    assert example.startswith("600519.SH 2024-01-02T02:00 UTC: one row has open 10, ")

    assert counts(apply_repairs(raw, ["drop_duplicates"])) == {"minutes_conflicting": 1}

    rows = [
        apply_repairs(raw, [repair]).minutes.rows["close"].tolist()
        for repair in ("keep_first", "keep_last")
    ]

    assert rows == [[10.1], [10.0]]


# ---- splits


def test_contradicting_splits_are_refused_with_both(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text(CSV)
    path = tmp_path / "splits.csv"
    path.write_text(
        "code,date,ratio\n600519.SH,2024-01-03,2\n600000.SH,2024-01-03,5\n600519.SH,2024-01-03,3\n"
    )
    both = (
        r"600519.SH 2024-01-03: ratio 2 \(line 2 of splits.csv\) and ratio 3 \(line 4 of"
        r" splits.csv\)"
    )

    with pytest.raises(DataError, match=both):
        read(tmp_path / "bars.csv", splits=str(path))
