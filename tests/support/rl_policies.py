"""Policies of `rl/policy` made by hand."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

FACTS = {
    "format": "ktdeval-rl-policy/1", "algorithm": "ppo", "activation": "tanh", "lookback": 2, "scale": 0.01, "hold": "flat",
    "task": "investorbench_msft_history", "snapshot": "", "first": "2020-04-01", "last": "2020-09-30", "steps": 1, "seed": 0,
    "libraries": {},
}  # fmt: skip


def write_policy(path: Path, weights: list[Any], biases: list[Any], **changes: Any) -> Path:
    """Write the file of a policy; returns its path."""
    path.write_text(json.dumps({**FACTS, "weights": weights, "biases": biases, **changes}), encoding="utf-8")
    return path


def drawn_policy(path: Path, lookback: int = 5, seed: int = 1, **changes: Any) -> Path:
    """Write a policy of one hidden layer whose weights are drawn, which takes each decision now and then."""
    rng, sizes = np.random.default_rng(seed), (lookback + 1, 8, 3)
    weights = [rng.normal(size=(outputs, inputs)).tolist() for inputs, outputs in pairwise(sizes)]
    return write_policy(path, weights, [[0.0] * size for size in sizes[1:]], lookback=lookback, **changes)
