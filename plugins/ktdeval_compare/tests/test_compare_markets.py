"""Cards of one market that was imported twice, under two names and from files in different formats,
belong to the same market.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.testing import Terminal

RUN = (
    "--tasks",
    "market_bright",
    "--windows",
    "2024-03-01:2024-03-29",
    "--mask-key",
    "0" * 32,
    "--quiet",
)


def bars() -> pd.DataFrame:
    """Bars of two stocks on all weekdays of a year."""
    rng = np.random.default_rng(1)
    days = pd.bdate_range("2023-01-02", "2024-04-30")
    frames = []

    for code in ("AAA", "BBB"):
        close = (100 * np.exp(np.cumsum(rng.normal(0, 0.01, len(days))))).round(2)
        prices = {"open": close, "high": close + 1, "low": close - 1, "close": close}
        frames.append(
            pd.DataFrame({"date": days.astype(str), "code": code, **prices, "volume": 1000.0})
        )

    return pd.concat(frames, ignore_index=True)


@pytest.mark.exhaustive
def test_the_same_bytes_under_two_names_are_one_market(tmp_path: Path, terminal: Terminal) -> None:
    table = bars()
    table.to_csv(tmp_path / "one.csv", index=False)
    shuffled = table.sample(frac=1.0, random_state=2)
    shuffled[table.columns[::-1]].to_parquet(tmp_path / "two.parquet", index=False)
    repair = ("--venue", "us_equity", "--repair", "drop_non_sessions")
    terminal.out(
        "data", "make", "long", "--bars", tmp_path / "one.csv", *repair, "--out", tmp_path / "a"
    )
    named = ("--name", "mine", "--source", "another vendor")
    terminal.out(
        "data",
        "make",
        "long",
        "--bars",
        tmp_path / "two.parquet",
        *repair,
        *named,
        "--out",
        tmp_path / "b",
    )
    first = load_snapshot(tmp_path / "a")
    second = load_snapshot(tmp_path / "b")

    assert (first.meta.name, second.meta.name, second.meta.source) == (
        "one",
        "mine",
        "another vendor",
    )
    assert first.id == second.id

    for model, data in (("momentum", "a"), ("reversal", "b")):
        terminal.out(
            "run",
            "--model",
            f"builtin/{model}",
            "--data",
            tmp_path / data,
            *RUN,
            "--out",
            tmp_path / model,
        )

    assert "Paired differences" in terminal.out(
        "compare", tmp_path / "momentum", tmp_path / "reversal"
    )
    # Either import verifies a card of the other, although its labels differ.
    assert "verified" in terminal.out(
        "card", "verify", tmp_path / "momentum", "--data", tmp_path / "b"
    )
