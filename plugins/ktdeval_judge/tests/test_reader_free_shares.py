"""Bonus shares and splits among trades are named as such, because they are no trades."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import DataError
from ktdeval_judge.readers import ReadOptions, read_declared


def test_shares_without_a_price_are_refused_with_their_count(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(
        "date,code,side,shares,price\n2025-06-02,AAA,buy,42,2000\n2025-07-11,AAA,buy,42,0\n"
        "2025-07-25,AAA,buy,210,0\n2025-07-28,AAA,sell,294,400\n"
    )
    with pytest.raises(
        DataError, match=r"line 3: column price: 2 rows with a price of 0.*--splits"
    ):
        read_declared(path, ReadOptions())
