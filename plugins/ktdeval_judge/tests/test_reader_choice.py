"""The reader of a file is found by its columns or keys alone; several files of a program are one
declaration.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.errors import DataError, UsageError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared
from ktdeval_judge.readers.program_forms import rating_of
from ktdeval_judge.readers.programs import check_program, programs
from program_files import ALL_FILES, FILES, READERS_BY_FILE, UNNAMED, declared

SHUFFLED = [name for name in ALL_FILES if name.endswith(".csv") and "writer" not in name
            and "flex" not in name and "statement" not in name]  # fmt: skip


def without_lines(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="line", errors="ignore")


def same(one: Declared, other: Declared) -> None:
    """Assert that two declarations are equal but for the name of their source."""
    for field in ("decisions", "trades"):
        left, right = getattr(one, field), getattr(other, field)
        assert (left is None) == (right is None)
        if left is not None:
            pd.testing.assert_frame_equal(without_lines(left), without_lines(right))
    for field in ("values", "benchmark"):
        left, right = getattr(one, field), getattr(other, field)
        assert (left is None) == (right is None)
        if left is not None:
            pd.testing.assert_series_equal(left, right)
    assert (one.cash, one.notes, one.program) == (other.cash, other.notes, other.program)


@pytest.mark.parametrize("name", READERS_BY_FILE)
def test_each_file_is_recognised_by_one_reader_whatever_it_is_called(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / f"x{Path(name).suffix}"
    shutil.copy(FILES / name, path)
    found = read_declared(path, ReadOptions(sessions=_sessions()))
    assert found.program == READERS_BY_FILE[name]
    same(declared(name), found)


def _sessions() -> tuple[int, ...]:
    from program_files import bars

    return tuple(bars("close").index)


WEIGHTS = "finrl_portfolio/actions.csv"


def test_shares_without_names_of_their_own_need_their_program() -> None:
    with pytest.raises(DataError, match="500 is more than the whole account"):
        read_declared(FILES / "finrl/actions.csv", ReadOptions())
    assert declared("finrl/actions.csv", "finrl").program == "finrl"


@pytest.mark.parametrize("name", ["bt/values.csv", "bt_prices/prices.csv", "vectorbt/value.csv"])
def test_values_without_names_of_their_own_are_values(name: str) -> None:
    plain = read_declared(FILES / name, ReadOptions())
    assert plain.program == "plain"
    own = declared(name, UNNAMED[name]).values
    assert plain.values is not None
    assert own is not None
    # bt's first row is the account before its first day
    pd.testing.assert_series_equal(plain.values.loc[own.index[0] :], own)


def test_weights_of_no_program_are_read_as_decisions_and_say_so() -> None:
    plain = read_declared(FILES / WEIGHTS, ReadOptions())
    assert plain.program == "plain"
    assert any(
        "if they are not, give --dated fill, or the program with --from" in each
        for each in plain.notes
    )

    # FinRL's own row is that of the day after the decision
    named = declared(WEIGHTS, UNNAMED[WEIGHTS])
    assert plain.decisions is not None
    assert named.decisions is not None
    assert named.decisions["day"].max() < plain.decisions["day"].max()


def test_a_file_of_two_programs_is_refused_with_both_names(tmp_path: Path) -> None:
    path = tmp_path / "both.csv"
    path.write_text("datetime,account,return,cost,turnover,date,account_value\n")
    with pytest.raises(
        DataError, match=r"both\.csv: may have been written by finrl or by qlib; choose with --from"
    ):
        read_declared(path, ReadOptions())


def test_an_unknown_program_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="--from: no reader 'quantopian'; there are ai-hedge"):
        check_program("quantopian")


# ---- folders


@pytest.mark.parametrize("name", ["qlib", "finrl", "bt", "vectorbt", "zipline", "backtrader"])
def test_a_folder_declares_what_its_files_declare_together(name: str) -> None:
    found = declared(name)
    assert found.source == name
    assert found.values is not None
    assert found.decisions is not None or found.trades is not None


def test_a_folder_with_two_programs_is_refused(tmp_path: Path) -> None:
    shutil.copy(FILES / "qlib/report.csv", tmp_path / "report.csv")
    shutil.copy(FILES / "finrl/account_value.csv", tmp_path / "values.csv")
    with pytest.raises(
        DataError, match=r"values\.csv \(finrl\), report\.csv \(qlib\); use one folder"
    ):
        read_declared(tmp_path, ReadOptions())


def test_a_folder_with_two_declarations_of_one_thing_is_refused(tmp_path: Path) -> None:
    shutil.copy(FILES / "backtrader/orders.csv", tmp_path / "a.csv")
    shutil.copy(FILES / "backtrader_transactions/transactions.csv", tmp_path / "b.csv")
    with pytest.raises(DataError, match=r"a\.csv and b\.csv both contain trades; keep one of them"):
        read_declared(tmp_path, ReadOptions())


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"contains no \.csv, \.json or \.parquet file"):
        read_declared(tmp_path, ReadOptions())


# ---- order and form


@pytest.mark.parametrize("name", SHUFFLED)
def test_the_order_of_rows_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    header, *rows = (FILES / name).read_text().splitlines()
    path = tmp_path_factory.mktemp("shuffled") / Path(name).name

    @settings(max_examples=5)
    @given(st.randoms(use_true_random=False))
    def check(random: object) -> None:
        mixed = list(rows)
        random.shuffle(mixed)  # type: ignore[attr-defined]
        path.write_text("\n".join([header, *mixed, ""]))
        options = ReadOptions(sessions=_sessions())
        same(
            declared(name, ALL_FILES[name]),
            read_declared(path, replace(options, program=ALL_FILES[name])),
        )

    check()


@pytest.mark.parametrize("name", ["bt/values.csv", "finrl/actions.csv", "zipline/positions.csv"])
def test_a_frame_with_its_index_is_read_from_parquet(tmp_path: Path, name: str) -> None:
    frame = pd.read_csv(FILES / name, index_col=0, parse_dates=True)
    path = tmp_path / "frame.parquet"
    frame.to_parquet(path)
    program = ALL_FILES[name]
    same(declared(name, program), read_declared(path, ReadOptions(program=program)))


# ---- ratings


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("**Rating**: Overweight\n\nBuy more later.", "overweight"),
        ("rating - **Sell**", "sell"),
        ("Rating: undecided\nI would hold it.", "hold"),
        ("My view.\nFINAL TRANSACTION PROPOSAL: **BUY**", "buy"),
        ("Sell half.\nFINAL TRANSACTION PROPOSAL: **HOLD**", "hold"),
        ("We should buy.", "buy"),
        ("Nothing is said.", ""),
    ],
)
def test_a_rating_is_found_by_the_rule_of_tradingagents(text: str, rating: str) -> None:
    assert rating_of(text) == rating


def test_readers_are_listed_by_name_and_named_once() -> None:
    assert list(programs()) == sorted(programs())
