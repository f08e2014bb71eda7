"""The truth saved beside a synthetic market, and the parameters that it is made from."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import DataError
from ktdeval.market.storage import load_snapshot, save_snapshot
from ktdeval_data.params import SyntheticParams
from ktdeval_data.synthetic import build, make_synthetic

SHORT = {"first": "2024-03-01", "last": "2024-07-31"}


def test_truth_lies_beside_the_snapshot_and_leaves_it_valid(tmp_path: Path) -> None:
    snapshot, truth = build(SyntheticParams(seed=3, **SHORT))
    saved = save_snapshot(snapshot, tmp_path / "market", truth.files())
    assert load_snapshot(tmp_path / "market").id == saved.id
    frame = pd.read_parquet(tmp_path / "market" / "truth.parquet")
    np.testing.assert_array_equal(frame["date"].to_numpy().astype("datetime64[D]"), snapshot.days)
    np.testing.assert_array_equal(frame["factor:ILLIQ"], truth.factor_returns["ILLIQ"])
    np.testing.assert_array_equal(frame["market"], truth.market)
    facts = json.loads((tmp_path / "market" / "truth.json").read_text())
    assert facts["seed"] == 3
    assert facts["alpha"] == 0
    assert len(facts["regimes"]) == 10


def test_truth_files_are_the_same_bytes_each_time() -> None:
    one, other = (build(SyntheticParams(seed=3, **SHORT))[1].files() for _ in range(2))
    assert one == other


def test_an_empty_range_is_refused() -> None:
    with pytest.raises(DataError, match="fewer than two trading days"):
        build(SyntheticParams(first="2024-10-01", last="2024-10-07"))


def test_a_malformed_date_is_refused() -> None:
    with pytest.raises(DataError, match="not a date"):
        build(SyntheticParams(first="last spring"))


def test_a_short_range_starts_at_its_control_level() -> None:
    snapshot = make_synthetic(SyntheticParams(seed=3, **SHORT))
    assert set(snapshot.member.sum(axis=1)) == {300}
    assert snapshot.benchmark[-1] == pytest.approx(820.0, rel=1e-4)
    assert abs(np.diff(np.log(snapshot.benchmark))).max() < 0.06


def test_every_parameter_is_documented() -> None:
    assert all(parameter.metadata["help"] for parameter in fields(SyntheticParams))
