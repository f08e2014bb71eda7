"""Who knows the public history of the index can't time it behind the mask: `blinded_memory_only` shows
nothing that tells one day from another.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accept_runs import import_real, synthetic
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.market.storage import load_snapshot
from ktdeval.registry.plugin_registry import load_plugins
from timing_attack import Evidence, IndexTimer, total_return

PLUGINS = load_plugins()
WINDOWS = PLUGINS.make_task("blinded_memory_only").windows
SHORT = [name for name in WINDOWS if name != "long"]
SEEDS = 3
T_95 = 2.05  # of 29 degrees of freedom


def gains(
    market: MarketSnapshot,
    evidence: Evidence,
    task: str = "blinded_memory_only",
    seeds: int = SEEDS,
) -> tuple[list[float], int]:
    """What the attacker earns beyond `builtin/first_listed`, by window and seed, and the number of
    figures that it read.
    """
    found = []
    read = 0

    for name in SHORT:
        for seed in range(seeds):
            plain = PLUGINS.make_model("builtin/first_listed", {})
            timer = IndexTimer(market, evidence)
            listed = total_return(plain, market, WINDOWS[name], seed, task)
            found.append(total_return(timer, market, WINDOWS[name], seed, task) - listed)
            read += timer.figures_read

    return found, read


def half_interval(values: list[float]) -> float:
    return T_95 * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


@pytest.fixture(scope="module")
def csi300(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> MarketSnapshot:
    return load_snapshot(import_real(shared_data, tmp_path_factory.mktemp("real") / "csi300"))


@pytest.mark.slow
@pytest.mark.shared_data
def test_no_figure_of_the_true_csi300_is_there_to_be_read(csi300: MarketSnapshot) -> None:
    """With the index's daily return in sight it earned 9 points more."""
    gained, read = gains(csi300, "index")
    assert (set(gained), read) == ({0.0}, 0)


@pytest.mark.slow
@pytest.mark.shared_data
def test_the_days_on_which_the_csi300_changed_do_not_time_it(csi300: MarketSnapshot) -> None:
    gained, read = gains(csi300, "universe")
    assert read > 1_000
    assert abs(np.mean(gained)) <= half_interval(gained)


@pytest.mark.slow
@pytest.mark.shared_data
def test_the_accounts_own_nav_is_what_is_left(csi300: MarketSnapshot) -> None:
    """Not hidden (docs/masks.md): ten names go nearly as their index, and their NAV is the account's
    own. It is worth far less than the index's own figure.
    """
    gained, _ = gains(csi300, "account")

    assert abs(np.mean(gained)) < 0.04


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["index", "universe"])
def test_the_embedded_market_is_not_timed_either(evidence: Evidence) -> None:
    gained, _ = gains(synthetic(), evidence, seeds=1)
    assert abs(np.mean(gained)) <= half_interval(gained)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_the_attacker_times_a_task_that_shows_the_index() -> None:
    """The positive control: fixed_candidate shows the day's return of the benchmark."""
    gained, read = gains(synthetic(), "index", "blinded_fixed_candidate", seeds=1)
    assert read > 300
    assert np.mean(gained) > half_interval(gained)
