"""A policy's file and features: hand-worked networks, and files that are none."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.contracts import Window
from ktdeval.errors import DataError
from ktdeval_models.rl import policy as module
from ktdeval_models.rl.policy import features, overlap, read_policy
from rl_policies import write_policy
from tables import on_each_row

ONE = [[[1, 0, 0], [0, 1, 0], [0, 0, 1]]]


def test_networks_worked_by_hand(tmp_path: Path) -> None:
    weights, biases = [[[1, 2, 0], [-1, 0, 3]], [[1, 0], [0, 1], [1, -1]]], [[0.5, 0], [0, 0.25, 0]]
    vectors = np.array([[0.5, -1, 1], [0, 1, -1]], dtype=np.float32)
    hidden = np.array([[0.5 - 2 + 0.5, -0.5 + 3], [2.5, -3]])  # [-1, 2.5], [2.5, -3]
    for activation, shown in (("relu", np.maximum(hidden, 0)), ("tanh", np.tanh(hidden))):
        expected = np.column_stack([shown[:, 0], shown[:, 1] + 0.25, shown[:, 0] - shown[:, 1]])
        found = read_policy(write_policy(tmp_path / "p", weights, biases, activation=activation)).values(vectors)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert read_policy(write_policy(tmp_path / "p", ONE, [[0, 0, 0]])).values(vectors).tolist() == vectors.tolist()


def test_features_are_the_last_scaled_log_returns_within_bounds_and_the_side() -> None:
    closes = 100 * np.exp(np.array([0.5, 0, 0.02, 0.01, 0.21]))
    np.testing.assert_allclose(features(closes, -1, 3, 0.01), [2, -1, 10, -1], rtol=1e-5)
    np.testing.assert_allclose(features(closes[1:], 0, 3, 0.02), [1, -0.5, 10, 0], rtol=1e-5)
    with pytest.raises(DataError, match="3 closes are known, and 3 returns need 4"):
        features(closes[2:], 0, 3, 0.01)


@on_each_row
def test_what_is_no_policy_is_refused_in_one_line(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    path = write_policy(tmp_path / "p.json", **{"weights": ONE, "biases": [[0, 0, 0]], **changes})
    with pytest.raises(DataError) as caught:
        read_policy(path)
    assert str(caught.value).startswith(f"policy {path}: ")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value).replace(str(path), "")


def test_bytes_that_are_no_policy_are_refused_and_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    path, whole = tmp_path / "p", write_policy(tmp_path / "whole", ONE, [[0, 0, 0]]).read_bytes()
    assert read_policy(tmp_path / "whole").sha256
    not_finite = whole.replace(b"[[0, 0, 0]]", b"[[NaN, 0, 0]]"), whole.replace(b"[[0, 0, 0]]", b"[[1e999, 0, 0]]")
    for data in (b"", whole[:-5], whole + b"x", b"\xff\xfe", pickle.dumps(Trap()), b"[" * 100_000, b"PK\x03\x04", *not_finite):
        path.write_bytes(data)
        with pytest.raises(DataError, match=r"^policy .*p: "):
            read_policy(path)
    assert not (tmp_path / "ran").exists()
    os.mkfifo(tmp_path / "pipe")
    for other, told in (
        (tmp_path / "pipe", "no plain file"),
        (tmp_path, "directory"),
        (tmp_path / "none", "make one with `ktdeval rl"),
    ):
        with pytest.raises(DataError, match=told):
            read_policy(other)
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    with pytest.raises(DataError, match="more than 100 bytes"):
        read_policy(tmp_path / "whole")
    assert json.loads(whole)["format"] == "ktdeval-rl-policy/1"


@pytest.mark.parametrize(("last", "refused"), [("2020-10-01", False), ("2020-10-02", True), ("2022-01-03", True)])
def test_a_window_has_to_lie_after_the_days_of_training(last: str, refused: bool) -> None:
    problem = overlap("2020-04-01", last, Window("stock", "2020-10-02", "2021-05-05"))
    assert (problem is not None) == refused
    assert problem is None or f"does not lie after the days of training, 2020-04-01:{last}; train on earlier days" in problem
