"""A column that divides rows into accounts, runs or strategies is named, never ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import DataError
from ktdeval.testing import Terminal
from ktdeval_judge.readers import ReadOptions, read_declared, values_in

TRIPS = [
    ("AAPL", 100, "2025-06-09", 204.39, "2025-06-24", 202.59),
    ("MSFT", 50, "2025-06-16", 475.21, "2025-07-16", 505.18),
]
CLOSED = "symbol,side,quantity,entry_time,entry_price,exit_time,exit_price"


def write(folder: Path, text: str) -> Path:
    path = folder / "file.csv"
    path.write_text(text, "utf-8")
    return path


def closed_of_two(column: str, first: str, second: str) -> str:
    rows = [f"{column},{CLOSED}"]
    for value in (first, second):
        for code, shares, entry, bought, left, sold in TRIPS:
            rows.append(f"{value},{code},long,{shares},{entry},{bought},{left},{sold}")
    return "\n".join(rows) + "\n"


def fills_of_two(column: str, first: str, second: str) -> str:
    rows = [f"{column},date,symbol,side,shares,price"]
    for value in (first, second):
        for code, shares, entry, bought, left, sold in TRIPS:
            rows.append(f"{value},{entry},{code},buy,{shares},{bought}")
            rows.append(f"{value},{left},{code},sell,{shares},{sold}")
    return "\n".join(rows) + "\n"


def weights_of_two(column: str, first: str, second: str) -> str:
    rows = [f"{column},date,symbol,weight"]
    for day in ("2025-06-09", "2025-06-24"):
        for value in (first, second):
            rows += [f"{value},{day},AAPL,0.5", f"{value},{day},MSFT,0.5"]
    return "\n".join(rows) + "\n"


def nav_of_two(column: str, first: str, second: str) -> str:
    rows = [f"{column},date,nav"]
    for number, day in enumerate(("2025-06-09", "2025-06-10", "2025-06-11")):
        rows += [f"{first},{day},{1000 + number}", f"{second},{day},{2000 - number}"]
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("make", [closed_of_two, fills_of_two, weights_of_two, nav_of_two])
@pytest.mark.parametrize(
    ("column", "first", "second"),
    [("model_id", "a", "b"), ("whatever", "x", "y"), ("currency_of_account", "USD", "EUR"), ("no", "7", "8")],
)  # fmt: skip
def test_rows_of_two_accounts_are_refused_by_the_column_that_divides_them(
    tmp_path: Path, make: object, column: str, first: str, second: str
) -> None:
    assert callable(make)
    path = write(tmp_path, make(column, first, second))
    with pytest.raises(DataError) as caught:
        read_declared(path, ReadOptions())
    text = str(caught.value)
    assert f"column {column!r} has 2 values ({first!r}, {second!r})" in text
    assert f"--keep {column}={first}" in text
    assert f"--by {column}" in text


@pytest.mark.parametrize("make", [closed_of_two, fills_of_two, weights_of_two, nav_of_two])
def test_kept_rows_are_those_of_a_file_of_one_account(tmp_path: Path, make: object) -> None:
    assert callable(make)
    path = write(tmp_path, make("model", "a", "b"))
    (tmp_path / "one").mkdir()
    lines = make("model", "a", "b").splitlines(keepends=True)
    alone = write(tmp_path / "one", "".join(line for line in lines if not line.startswith("b,")))
    kept = read_declared(path, ReadOptions(keep={"model": "a"}))
    own = read_declared(alone, ReadOptions())
    for field in ("decisions", "trades", "values"):
        left, right = getattr(kept, field), getattr(own, field)
        assert (left is None) == (right is None)
        if left is None:
            continue
        if field != "values":
            left, right = (frame.drop(columns="line") for frame in (left, right))
        assert left.equals(right)
    assert values_in(path, "model", ReadOptions()) == ("a", "b")


def test_a_value_in_two_currencies_is_refused_by_its_currency(tmp_path: Path) -> None:
    path = write(tmp_path, nav_of_two("currency", "USD", "HKD"))
    with pytest.raises(DataError, match="column 'currency' has 2 values"):
        read_declared(path, ReadOptions())


def test_values_of_two_accounts_at_other_moments_are_refused_because_they_jump(
    tmp_path: Path,
) -> None:
    rows = ["time,source,nav"]
    for day in range(2, 12):
        rows += [f"2025-06-{day:02} 10:00,x,{1000 + day}", f"2025-06-{day:02} 10:05,y,{2000 - day}"]
    path = write(tmp_path, "\n".join(rows) + "\n")
    with pytest.raises(DataError, match="column 'source' has 2 values"):
        read_declared(path, ReadOptions())


def test_strategies_that_hold_other_assets_are_refused_by_the_name_of_the_column(
    tmp_path: Path,
) -> None:
    rows = ["date,strategy,symbol,weight"]
    for day in ("2025-06-09", "2025-06-24"):
        rows += [f"{day},momentum,AAPL,0.5", f"{day},value,NVDA,0.5"]
        rows += [f"{day},momentum,MSFT,0.5", f"{day},value,AMD,0.5"]
    path = write(tmp_path, "\n".join(rows) + "\n")
    with pytest.raises(DataError, match="column 'strategy' has 2 values"):
        read_declared(path, ReadOptions())
    whole = read_declared(path, ReadOptions(keep={"strategy": "*"})).decisions
    assert whole is not None
    assert len(whole) == 8


ONE_ACCOUNT = {
    "a sector of each asset": "date,symbol,sector,weight\n"
    "2025-06-09,AAPL,Tech,0.5\n2025-06-09,KO,Staples,0.5\n"
    "2025-06-24,AAPL,Tech,0.4\n2025-06-24,KO,Staples,0.6\n",
    "a regime for each day": "date,model,symbol,weight\n"
    "2025-06-09,calm,AAPL,0.5\n2025-06-09,calm,KO,0.5\n"
    "2025-06-24,storm,AAPL,0.4\n2025-06-24,storm,KO,0.6\n",
    "parts of orders": "date,symbol,side,shares,price,order_id\n"
    "2025-06-09,AAPL,buy,10,204.39,1\n2025-06-09,AAPL,buy,20,204.40,1\n"
    "2025-06-24,AAPL,sell,30,202.59,2\n",
    "another model later": "date,symbol,side,shares,price,model\n"
    "2025-06-09,AAPL,buy,10,204.39,v1\n2025-06-10,AAPL,buy,20,204.40,v1\n"
    "2025-06-24,AAPL,sell,10,202.59,v2\n2025-06-25,AAPL,sell,20,202.59,v2\n",
    "a reason for each exit": f"{CLOSED},exit_reason\n"
    "AAPL,long,50,2025-06-09,204.39,2025-06-24,202.59,target\n"
    "AAPL,long,50,2025-06-09,204.39,2025-06-25,203.59,stop\n",
    "a name of each asset": "date,fund,symbol,weight\n"
    "2025-06-09,Apple Inc,AAPL,0.5\n2025-06-09,Coca Cola,KO,0.5\n",
    "a signal beside values": "date,signal,nav\n2025-06-09,buy,1000\n2025-06-10,sell,1010\n"
    "2025-06-11,buy,1005\n2025-06-12,sell,1020\n",
}


@pytest.mark.parametrize("text", ONE_ACCOUNT.values(), ids=ONE_ACCOUNT)
def test_rows_of_one_account_are_read(tmp_path: Path, text: str) -> None:
    read_declared(write(tmp_path, text), ReadOptions())


@settings(max_examples=25, deadline=None)
@given(moves=st.lists(st.floats(-0.05, 0.05), min_size=4, max_size=40), words=st.data())
def test_words_beside_the_values_of_one_account_never_divide_it(
    tmp_path_factory: pytest.TempPathFactory, moves: list[float], words: st.DataObject
) -> None:
    value = 1000.0
    rows = ["date,mood,nav"]
    for number, move in enumerate(moves):
        value *= 1 + move
        mood = words.draw(st.sampled_from(["good", "bad"]))
        rows.append(f"2025-{1 + number // 28:02}-{1 + number % 28:02},{mood},{value:.4f}")
    path = write(tmp_path_factory.mktemp("values"), "\n".join(rows) + "\n")
    found = read_declared(path, ReadOptions()).values
    assert found is not None
    assert len(found) == len(moves)


def test_each_account_is_judged_separately(tmp_path: Path, terminal: Terminal) -> None:
    path = write(tmp_path, nav_of_two("account", "north", "south"))
    text = terminal.out("judge", "--nav", path, "--by", "account")
    _, north, south = text.split("=== account = ")
    assert north.startswith("north")
    assert "+0.20 %" in north
    assert south.startswith("south")
    assert "-0.10 %" in south


def test_a_value_that_no_row_has_is_refused_with_the_values(tmp_path: Path) -> None:
    path = write(tmp_path, nav_of_two("account", "north", "south"))
    with pytest.raises(DataError, match="no row has 'west' in column 'account'; it has north, sou"):
        read_declared(path, ReadOptions(keep={"account": "west"}))
    with pytest.raises(DataError, match="--keep fund=west: no such column"):
        read_declared(path, ReadOptions(keep={"fund": "west"}))
