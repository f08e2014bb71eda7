"""Options that say how a file is to be read: what each gives, and that the option which a refusal names
reads the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from ktdeval.errors import DataError, UsageError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared

FILLS = (
    "date,symbol,side,shares,price,fee\n2024-01-02,AAA,buy,5,10.5,1\n2024-01-03,AAA,sell,5,11,1\n"
)
DEPOSITS = "day,flow\n2024-01-03,100\n"


def read(folder: Path, text: str, options: dict[str, object]) -> Declared:
    path = folder / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return read_declared(path, ReadOptions(**options))  # type: ignore[arg-type]


def answers_of(declared: Declared) -> list[tuple[object, ...]]:
    """Return fills as day, code, side, shares, price; else values by day, rounded."""
    if declared.trades is not None:
        columns = ["day", "code", "side", "shares", "price"]
        return list(declared.trades[columns].itertuples(index=False, name=None))
    assert declared.values is not None
    return [(day, round(value, 6)) for day, value in declared.values.items()]


class Case(NamedTuple):
    """A file that is refused, what the refusal names, and what the file gives with that option."""

    name: str
    text: str
    without: dict[str, object]
    words: str
    options: dict[str, object]
    expected: list[tuple[object, ...]]


CASES = [
    Case(
        "flows in a column",
        "date,equity,net deposit\n2024-01-02,1000,0\n2024-01-03,1210,110\n2024-01-04,1320,0\n",
        {},
        "column net deposit: '110' is not read; it is not a return: give --flows 'net deposit'",
        {"flows": "net deposit"},
        [(20240102, 1000.0), (20240103, 1100.0), (20240104, 1200.0)],
    ),
    Case(
        "a role by its column",
        "date,Endwert A,Endwert B\n2024-01-02,1000,5\n2024-01-03,1010,6\n",
        {},
        "these look like account values; for one account, give --map nav='Endwert A'",
        {"roles": {"nav": "Endwert A"}},
        [(20240102, 1000.0), (20240103, 1010.0)],
    ),
    Case(
        "the size of a closed trade",
        "symbol,entry_time,exit_time,entry_price,exit_price,units held\n"
        "AAA,2024-01-02,2024-01-03,10,12,3\n",
        {},
        "lacks the column shares; its columns: symbol, entry_time, exit_time, entry_price, exit_price,"
        " units held; add it, or name it: --map shares=COLUMN",
        {"roles": {"shares": "units held"}},
        [(20240102, "AAA", "buy", 3.0, 10.0), (20240103, "AAA", "sell", 3.0, 12.0)],
    ),
    Case(
        "one of two columns",
        "date,symbol,side,shares,price,unit price\n2024-01-02,AAA,buy,5,10.5,10.75\n",
        {},
        "columns 'price' and 'unit price' all mean price; keep one, or choose: --map price='price'",
        {"roles": {"price": "price"}},
        [(20240102, "AAA", "buy", 5.0, 10.5)],
    ),
    Case(
        "no column has a role",
        "date,symbol,side,shares,price,leverage\n2024-01-02,AAA,buy,5,10.5,2\n",
        {},
        "column leverage: '2' is not read",
        {"roles": {"multiplier": "-"}},
        [(20240102, "AAA", "buy", 5.0, 10.5)],
    ),
    Case(
        "the code of a file of one asset",
        "date,side,shares,price\n2024-01-02,buy,5,10.5\n",
        {},
        "give the file's asset: --code CODE",
        {"code": "AAA"},
        [(20240102, "AAA", "buy", 5.0, 10.5)],
    ),
    Case(
        "a decimal comma",
        'date,symbol,side,shares,price,version\n2024-01-02,AAA,buy,5,"10,25",1.5\n',
        {},
        "column price: expected a number, was '10,25'; if the comma is the decimal mark, give --decimal comma",
        {"decimal": "comma"},
        [(20240102, "AAA", "buy", 5.0, 10.25)],
    ),
    Case(
        "points that may group thousands",
        "date;symbol;side;shares;price\n2024-01-02;AAA;buy;5;1.250\n",
        {},
        "column price: expected a number, was '1.250'",
        {"decimal": "point"},
        [(20240102, "AAA", "buy", 5.0, 1.25)],
    ),
    Case(
        "days in the order of the United States",
        "date,nav\n02/01/2024,1000\n03/01/2024,1010\n",
        {},
        "'02/01/2024' can mean two days; say how days are written: --date-format '%m/%d/%Y'",
        {"date_format": "%m/%d/%Y"},
        [(20240201, 1000.0), (20240301, 1010.0)],
    ),
    Case(
        "days of Excel",
        "date,nav\n45293.5,1000\n45294.5,1010\n",
        {},
        "'45293.5' is not a date; write it as 2024-01-02; if it is Excel's number for a day, say"
        " --date-format excel",
        {"date_format": "excel"},
        [(20240102, 1000.0), (20240103, 1010.0)],
    ),
    Case(
        "returns of a size that both may have",
        "date,return\n2024-01-02,0.2\n2024-01-03,-0.2\n2024-01-04,0.1\n",
        {},
        "may be fractions or per cent; choose: --map return_fraction='return' or"
        " --map return_percent='return'",
        {"roles": {"return_percent": "return"}},
        [(20240102, 1.002), (20240103, 0.999996), (20240104, 1.000996)],
    ),
    Case(
        "the names of columns without a header",
        "2024-01-02,7,1000\n2024-01-03,8,1010\n",
        {},
        "is a row of data: the file has no header; name its columns in order, `-` for others: --columns",
        {"columns": ("date", "-", "nav")},
        [(20240102, 1000.0), (20240103, 1010.0)],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_option_that_a_refusal_names_reads_the_file(tmp_path: Path, case: Case) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, case.text, case.without)
    assert case.words in str(caught.value)
    assert answers_of(read(tmp_path, case.text, case.options)) == case.expected


def test_flows_of_a_file_are_taken_out_at_the_close_of_their_day(tmp_path: Path) -> None:
    flows = tmp_path / "deposits.csv"
    flows.write_text(DEPOSITS, encoding="utf-8")
    text = "date,equity\n2024-01-02,1000\n2024-01-03,1200\n2024-01-04,1260\n"
    declared = read(tmp_path, text, {"flows": str(flows)})

    assert answers_of(declared) == [(20240102, 1000.0), (20240103, 1100.0), (20240104, 1155.0)]
    note = "Deposits and withdrawals of 100.00 in total are removed, each at the close of its day."
    assert note in declared.notes


WRONG = [
    (
        {"roles": {"nav": "wealth"}},
        DataError,
        "--map nav=wealth: no such column; columns: date, symbol",
    ),
    (
        {"roles": {"prize": "price"}},
        UsageError,
        "--map: 'prize' is not a role; did you mean 'price'",
    ),
    ({"flows": "paid"}, DataError, "--flows paid: no such column; columns: date, symbol"),
    ({"date_format": "%d.%m.%Y %H"}, None, ""),
    ({"date_format": "unix_s"}, None, ""),
]


@pytest.mark.parametrize(("options", "error", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_an_option_that_fits_nothing_is_refused_or_changes_nothing(
    tmp_path: Path, options: dict[str, object], error: type[Exception] | None, words: str
) -> None:
    if error is None:
        assert answers_of(read(tmp_path, FILLS, options)) == answers_of(read(tmp_path, FILLS, {}))
        return
    with pytest.raises(error) as caught:
        read(tmp_path, FILLS, options)
    assert words in str(caught.value)


def test_a_format_that_fits_some_days_names_the_others(tmp_path: Path) -> None:
    text = "date,nav\n13/01/2024,1000\n2024-01-15,1010\n"
    with pytest.raises(DataError, match="'2024-01-15' is not a day of --date-format %d/%m/%Y"):
        read(tmp_path, text, {"date_format": "%d/%m/%Y"})


def test_equal_rows_count_each_and_are_named(tmp_path: Path) -> None:
    row = "2024-01-02,AAA,buy,5,10.5,1\n"
    text = FILLS.replace(row, row * 3)
    declared = read(tmp_path, text, {})

    fill = (20240102, "AAA", "buy", 5.0, 10.5)
    assert answers_of(declared) == [fill, fill, fill, (20240103, "AAA", "sell", 5.0, 11.0)]
    assert "Identical rows: 2; each is read as a separate fill." in declared.notes


def test_entry_and_exit_are_days_or_prices_by_their_cells(tmp_path: Path) -> None:
    text = "symbol,entry_time,exit_time,entry,exit,lot\nAAA,2024-01-02,2024-01-03,10,12,3\n"
    expected = [(20240102, "AAA", "buy", 3.0, 10.0), (20240103, "AAA", "sell", 3.0, 12.0)]
    assert answers_of(read(tmp_path, text, {})) == expected

    days = "symbol,entry,exit,entry_price,exit_price,shares\nAAA,2024-01-02,2024-01-03,10,12,3\n"
    assert answers_of(read(tmp_path, days, {})) == expected


def test_closed_trades_say_how_many_profits_are_others(tmp_path: Path) -> None:
    row = "AAA,2024-01-02,2024-01-03,10,12,3,{profit}\n"
    text = "symbol,entry_date,exit_date,entry_price,exit_price,shares,pnl\n"
    rows = [row.format(profit=6)] * 5 + [row.format(profit=60)]
    declared = read(tmp_path, text + "".join(rows), {})
    assert "Profits that do not match shares and prices: 1 of 6 rows." in declared.notes


def test_a_position_of_one_is_the_side_of_a_closed_trade(tmp_path: Path) -> None:
    text = (
        "symbol,entry_time,exit_time,position,entry_price,exit_price,shares,pnl\n"
        "AAA,2024-01-02,2024-01-03,-1,10,12,3,-6\n"
    )
    expected = [(20240102, "AAA", "sell", 3.0, 10.0), (20240103, "AAA", "buy", 3.0, 12.0)]
    assert answers_of(read(tmp_path, text, {})) == expected


def test_profits_of_other_sides_are_refused(tmp_path: Path) -> None:
    text = (
        "symbol,side,entry_time,exit_time,entry_price,exit_price,shares,pnl\n"
        "AAA,long,2024-01-02,2024-01-03,10,12,3,6\n"
        "AAA,long,2024-01-04,2024-01-05,10,12,3,-6\n"
    )
    with pytest.raises(
        DataError, match=r"column pnl: -6, but the shares and prices give 6: .* other sides"
    ):
        read(tmp_path, text, {})


def test_a_fee_that_some_fills_lack_stays_with_the_others(tmp_path: Path) -> None:
    declared = read(tmp_path, FILLS.replace("10.5,1", "10.5,"), {})
    assert declared.trades is not None
    assert declared.trades["fee"].fillna(-1.0).tolist() == [-1.0, 1.0]

    without = read(tmp_path, FILLS.replace("10.5,1", "10.5,").replace("11,1", "11,"), {})
    assert without.trades is not None
    assert "fee" not in without.trades


def test_a_fee_of_the_entry_alone_is_that_of_the_entry(tmp_path: Path) -> None:
    text = (
        "symbol,entry_time,exit_time,entry_price,exit_price,shares,entry_fee\n"
        "AAA,2024-01-02,2024-01-03,10,12,3,0.5\n"
    )
    declared = read(tmp_path, text, {})
    assert declared.trades is not None
    assert declared.trades["fee"].fillna(-1.0).tolist() == [0.5, -1.0]


def test_an_order_that_was_filled_in_part_counts_with_its_filled_shares(tmp_path: Path) -> None:
    text = (
        "date,symbol,side,shares,filled shares,price,status\n"
        "2024-01-02,AAA,buy,5,2,10.5,partially filled\n"
        "2024-01-03,AAA,buy,5,5,11,filled\n"
        "2024-01-04,AAA,buy,5,0,11,canceled\n"
    )
    declared = read(tmp_path, text, {})
    fills = [(20240102, "AAA", "buy", 2.0, 10.5), (20240103, "AAA", "buy", 5.0, 11.0)]
    assert answers_of(declared) == fills


def test_an_action_that_is_no_number_is_refused_with_its_place(tmp_path: Path) -> None:
    text = "date,AAA,BBB\n2024-01-02,3,-2\n2024-01-03,x,1\n"
    with pytest.raises(DataError, match="line 3: column AAA: expected a number, was 'x'"):
        read(tmp_path, text, {"program": "finrl"})
