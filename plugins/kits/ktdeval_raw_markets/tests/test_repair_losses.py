"""What repairs lose is part of the advice, alone and together."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_data.long_table import read_long
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.assembly import assemble

HEAD = "date,code,open,high,low,close,volume"
DAYS = [f"2024-01-{day:02}" for day in (*range(2, 6), *range(8, 13), *range(16, 20), 22)]


def refusal(folder: Path, rows: list[str]) -> str:
    path = folder / "bars.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n", "utf-8")
    with pytest.raises(DataError) as caught:
        assemble(read_long(LongParams(bars=str(path), venue="us_equity")))
    return str(caught.value)


def bar(day: str, number: int, factor: float = 1.0) -> str:
    price = 100 + number
    return (
        f"{day},AAPL,{price},{price + 1},{price - 1},{(price + 0.5) * factor:.2f},{1000 + number}"
    )


def test_adjusted_closes_are_named_where_the_repair_would_drop_half_of_the_days(
    tmp_path: Path,
) -> None:
    rows = [bar(day, number, 0.9 if number < 7 else 1) for number, day in enumerate(DAYS)]
    words = refusal(tmp_path, rows)
    assert "drop_impossible leaves 7 of 14 days" in words
    assert "if closes are adjusted for splits or dividends" in words


def test_a_repair_that_loses_a_bar_of_many_is_advised_as_it_is(tmp_path: Path) -> None:
    rows = [bar(day, number, 0.9 if number == 3 else 1) for number, day in enumerate(DAYS)]
    words = refusal(tmp_path, rows)
    assert "--repair drop_impossible" in words
    assert "leaves" not in words


def test_repairs_of_several_errors_are_tried_together(tmp_path: Path) -> None:
    rows = [bar(day, number, 0.9 if number == 3 else 1) for number, day in enumerate(DAYS)]
    rows.append(rows[5])
    words = refusal(tmp_path, rows)
    assert "together: --repair drop_duplicates,drop_impossible" in words
