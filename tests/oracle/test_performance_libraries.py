"""Returns, positions and transactions of a run: they agree with its card, and quantstats, pyfolio and
empyrical take them as they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ktdeval
from ktdeval.api import UsageError
from ktdeval.stats import sharpe

pytestmark = pytest.mark.slow

TASK = "blinded_open_research"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ktdeval.Evaluation:
    out = tmp_path_factory.mktemp("frames") / "run"
    return ktdeval.evaluate(
        "builtin/momentum", TASK, windows="W1,W4", limit=6, out=str(out), quiet=True
    )


@pytest.mark.exhaustive
def test_returns_of_several_episodes_form_a_frame_compounding_to_equity(
    run: ktdeval.Evaluation,
) -> None:
    returns = run.returns()
    equity = run.equity(benchmark=True)
    against = run.benchmark_returns()

    assert list(returns.columns) == [(TASK, "W1", 0), (TASK, "W4", 0)]
    for window in ("W1", "W4"):
        path = equity[TASK, window, 0].dropna()
        pd.testing.assert_series_equal(
            returns[TASK, window, 0].dropna(),
            path.pct_change().iloc[1:],
            check_names=False,
            check_freq=False,
        )
        index = equity[TASK, window, "benchmark"].dropna()
        assert (1 + against[TASK, window, 0].dropna()).prod() == pytest.approx(index.iloc[-1])


def test_frames_of_one_episode_agree_with_its_card_and_ledger(run: ktdeval.Evaluation) -> None:
    returns = run.returns(window="W4")
    nav = run.ledger(window="W4").nav.to_numpy()

    assert returns.name == f"{TASK} W4 0"
    assert sharpe(returns.to_numpy()).value == run.episodes().sharpe[TASK, "W4", 0]
    assert run.positions(window="W4").sum(axis=1).to_numpy() == pytest.approx(nav)


def test_positions_of_several_episodes_are_refused_with_one_to_choose(
    run: ktdeval.Evaluation,
) -> None:
    with pytest.raises(UsageError, match=r"2 episodes; choose one, such as .*window='W1', seed=0"):
        run.positions()


# ---- the libraries themselves


def test_quantstats_takes_the_returns_and_writes_its_page(
    run: ktdeval.Evaluation, tmp_path: Path
) -> None:
    quantstats = pytest.importorskip("quantstats", reason="pip install quantstats")
    returns = run.returns(window="W4")
    figures = run.episodes().loc[TASK, "W4", 0]

    assert quantstats.stats.sharpe(returns) == pytest.approx(figures.sharpe)
    assert quantstats.stats.comp(returns) == pytest.approx(figures.total_return)
    assert -quantstats.stats.max_drawdown(returns) == pytest.approx(figures.max_drawdown)

    page = tmp_path / "page.html"
    against = run.benchmark_returns(window="W4")
    quantstats.reports.html(returns, benchmark=against, output=str(page))
    assert "<html" in page.read_text("utf-8").lower()


def test_pyfolio_takes_returns_positions_and_transactions(run: ktdeval.Evaluation) -> None:
    pyfolio = pytest.importorskip("pyfolio", reason="pip install pyfolio-reloaded")
    returns = run.returns(window="W4")
    positions = run.positions(window="W4")
    fills = run.transactions(window="W4")
    stats = pyfolio.timeseries.perf_stats(
        returns,
        factor_returns=run.benchmark_returns(window="W4"),
        positions=positions,
        transactions=fills,
    )

    assert stats["Sharpe ratio"] == pytest.approx(sharpe(returns.to_numpy()).value)
    traded = (fills.amount.abs() * fills.price).groupby(fills.index).sum()
    volume = pyfolio.txn.get_txn_vol(fills).txn_volume
    assert volume.to_numpy() == pytest.approx(traded.to_numpy())
    assert pyfolio.pos.get_percent_alloc(positions).sum(axis=1).to_numpy() == pytest.approx(1.0)


def test_empyrical_takes_the_returns_and_the_benchmark(run: ktdeval.Evaluation) -> None:
    empyrical = pytest.importorskip("empyrical", reason="pip install empyrical-reloaded")
    returns = run.returns(window="W4")
    against = run.benchmark_returns(window="W4")
    beta = np.cov(returns, against)[0, 1] / np.var(against, ddof=1)

    assert empyrical.beta(returns, against) == pytest.approx(beta)
    assert empyrical.cum_returns_final(returns) == pytest.approx((1 + returns).prod() - 1)
