"""Agents without skill on a market without alpha: the comparison must call about one in twenty of them different, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner.data_source import open_snapshot
from ktdeval.runner.store import RunFolder
from ktdeval.stats.envelope import EnvelopeSettings, random_envelope
from ktdeval.stats.paired import sign_flip, signed_rank
from ktdeval.trading.types import TradingConfig

pytestmark = pytest.mark.slow

COMPARISONS = 1_000
LEVEL, MARGIN = 0.05, 0.015


@pytest.mark.slow
def test_random_traders_of_the_embedded_market_differ_as_often_as_the_level_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pairs of random traders over W1…W10: same market, same rules, other names. Selection there is zero by construction."""
    out = tmp_path / "run"
    words = ["--model", "builtin/reversal", "--tasks", "blinded_open_research", "--windows", "W*", "--out", str(out), "--quiet"]
    assert main(words) == 0
    capsys.readouterr()
    folder, market = RunFolder.load(out), open_snapshot(load_plugins(), "synthetic", {})
    assert market.meta.synthetic
    config = TradingConfig()
    returns = np.array(
        [
            random_envelope(folder.load_ledger(spec), market, config, EnvelopeSettings(COMPARISONS, seed)).returns
            for seed, spec in enumerate(folder.manifest.specs)
        ]
    )
    assert returns.shape == (10, COMPARISONS)
    differences = returns - np.roll(returns, 1, axis=1)  # each trader against the one before
    by_rank = np.mean([(signed_rank(column).p or 1.0) <= LEVEL for column in differences.T])
    by_flip = np.mean([(sign_flip(column).p or 1.0) <= LEVEL for column in differences.T])
    print(json.dumps({"wilcoxon": by_rank, "sign flip": by_flip}))
    assert abs(by_rank - LEVEL) <= MARGIN
    assert abs(by_flip - LEVEL) <= MARGIN
