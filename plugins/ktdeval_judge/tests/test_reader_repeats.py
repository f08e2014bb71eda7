"""A day's account value that stands in several rows is read once; other values are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers import ReadOptions, read_declared

REPEATED = """date,code,close,nav
2025-06-02,AAA,10,1000
2025-06-02,BBB,5,1000
2025-06-03,AAA,11,1050
2025-06-03,BBB,5,1050
2025-06-04,AAA,9,945
"""


def read(tmp_path: Path, text: str, **options: object) -> Declared:
    path = tmp_path / "equity.csv"
    path.write_text(text, "utf-8")
    return read_declared(path, ReadOptions(is_nav=True, **options))  # type: ignore[arg-type]


def without_codes(text: str) -> str:
    """Return a file that has only days and account values."""
    rows = [line.split(",") for line in text.splitlines()]
    return "".join(f"{row[0]},{row[-1]}\n" for row in rows)


def test_an_equal_value_of_a_day_is_read_once(tmp_path: Path) -> None:
    declared = read(tmp_path, without_codes(REPEATED))

    # 1000, 1050, 945: one value a day, so 5 % up and then 10 % down
    assert declared.values.to_dict() == {20250602: 1000.0, 20250603: 1050.0, 20250604: 945.0}
    told = "Left out: 2 rows with the same moment and account value as another row."
    assert told in declared.notes


def test_rows_of_systems_with_the_value_of_one_account_are_one_account(tmp_path: Path) -> None:
    text = REPEATED.replace("code", "kind").replace("AAA", "slow").replace("BBB", "fast")
    declared = read(tmp_path, text)
    assert declared.values.to_list() == [1000.0, 1050.0, 945.0]


def test_other_values_of_one_day_are_refused(tmp_path: Path) -> None:
    text = without_codes(REPEATED).replace("2025-06-03,1050\n", "2025-06-03,1060\n", 1)
    with pytest.raises(DataError, match="line 3: column date: the day 20250602 appears twice"):
        read(tmp_path, text)


def test_equal_values_with_a_deposit_are_refused(tmp_path: Path) -> None:
    text = "date,nav,deposit\n2025-06-02,1000,0\n2025-06-03,1500,500\n2025-06-03,1500,500\n"
    with pytest.raises(DataError, match="the day 20250603 appears twice"):
        read(tmp_path, text, flows="deposit")


SYSTEMS = """date,kind,signal,quantity,model assets
2025-06-02,slow,buy,10,1000
2025-06-02,fast,buy,20,1000
2025-06-03,slow,sell,10,945
2025-06-03,fast,sell,20,945
"""


def test_the_advice_for_values_without_a_known_name_leads_to_them(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="name its column: --map nav=COLUMN"):
        read(tmp_path, SYSTEMS)

    declared = read(tmp_path, SYSTEMS, roles={"nav": "model assets"})
    assert declared.values.to_dict() == {20250602: 1000.0, 20250603: 945.0}


def test_the_advice_for_values_within_days_leads_to_their_closes(tmp_path: Path) -> None:
    """A day's times were cut off: 1000, then 1100 and 990 on the second day."""
    text = "date,nav\n2025-06-02,1000\n2025-06-03,1100\n2025-06-03,990\n"
    with pytest.raises(DataError, match=r"line 4: .*keep the latest row of each day"):
        read(tmp_path, text)

    declared = read(tmp_path, text.replace("2025-06-03,1100\n", ""))
    assert declared.values.to_list() == [1000.0, 990.0]
