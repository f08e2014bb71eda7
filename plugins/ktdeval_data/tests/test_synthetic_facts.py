"""How real the generated markets are: the figures of the documentation, and that clusters of
volatility bring no alpha.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ktdeval.market import MarketSnapshot
from ktdeval_data.params import SyntheticParams, TwinParams
from ktdeval_data.synthetic import build
from ktdeval_data.synthetic_us_crypto import GROUPS, clustered_volatility, make_twin
from ktdeval_raw_markets.daily_panels import panels_of
from ktdeval_raw_markets.stylised_facts import StylisedFact, stylised_facts

EMPHASIS = {"*": "unclear", "**": "outside"}


def facts_of(market: MarketSnapshot, kind: str) -> dict[str, StylisedFact]:
    [panel] = [panel for panel in panels_of(market) if panel.kind == kind]
    return {fact.words.replace("|r|", "absolute r"): fact for fact in stylised_facts(panel)}


def documented(repository: Path, header: str) -> dict[str, str]:
    """Cells of a column of the tables of facts, by fact; of the first table with that column."""
    lines = iter((repository / "benchmarks/market_tables.md").read_text("utf-8").splitlines())
    for line in lines:
        if line.startswith("| fact |") and header in line:
            column = [cell.strip() for cell in line.split("|")].index(header)
            break

    next(lines)
    cells = {}
    for line in lines:
        if not line.startswith("|"):
            break
        row = [cell.strip() for cell in line.split("|")]
        cells[row[1]] = row[column]

    return cells


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("provider", "kind"), [("synthetic", "stock"), ("us", "stock"), ("crypto", "crypto")]
)
def test_the_documented_figures_are_those_of_the_markets(
    repository: Path, provider: str, kind: str
) -> None:
    if provider == "synthetic":
        market = build(SyntheticParams())[0]
        header = "`synthetic`"
    else:
        market = make_twin(provider, TwinParams())
        header = f"`synthetic_{provider}`"

    cells = documented(repository, header)
    facts = facts_of(market, kind)
    assert len(cells) >= 20
    for words, cell in cells.items():
        fact = facts[words]
        assert float(cell.strip("*")) == pytest.approx(fact.value, abs=0.0006), words
        marks = cell[: len(cell) - len(cell.lstrip("*"))]
        assert fact.verdict == EMPHASIS.get(marks, "inside"), words


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [8, 9])
@pytest.mark.parametrize(("twin", "kind"), [("us", "stock"), ("crypto", "crypto")])
def test_volatility_clusters_as_in_real_markets_for_other_seeds(
    twin: str, kind: str, seed: int
) -> None:
    facts = facts_of(make_twin(twin, TwinParams(seed=seed)), kind)
    for whose in ("", "market "):
        for lag in (1, 5, 20):
            name = f"autocorrelation of {whose}absolute r at lag {lag}"
            assert facts[name].verdict in {"inside", "unclear"}, name

    for lag in (1, 5):
        clusters = facts[f"autocorrelation of absolute r at lag {lag}"]
        assert clusters.interval.low > 0
        assert facts[f"autocorrelation of r at lag {lag}"].verdict == "inside"


@pytest.mark.exhaustive
def test_clusters_of_volatility_bring_neither_momentum_nor_reversal() -> None:
    figures = []
    for seed in range(20, 32):
        facts = facts_of(make_twin("us", TwinParams(seed=seed, effect=0)), "stock")
        names = ("momentum (rank correlation)", "reversal (rank correlation)")
        figures.append([facts[name].value for name in names])

    means = np.mean(figures, axis=0)
    errors = np.std(figures, axis=0, ddof=1) / np.sqrt(len(figures))
    assert np.abs(means / errors).max() < 3


@pytest.mark.parametrize("group", ["us_stock", "coin"])
def test_multipliers_of_volatility_keep_the_planted_variance(group: str) -> None:
    clusters = GROUPS[group].own_clusters
    drawn = clustered_volatility(np.random.default_rng(0), clusters, (2000, 30))
    assert np.mean(drawn**2, axis=0) == pytest.approx(np.ones(30))

    logs = np.log(drawn)
    assert logs.std(axis=0).mean() == pytest.approx(clusters[0], rel=0.1)
    memory = [np.corrcoef(column[:-1], column[1:])[0, 1] for column in logs.T]
    assert np.mean(memory) == pytest.approx(clusters[1], abs=0.01)


def test_a_day_s_volatility_is_known_before_it_and_says_nothing_of_signs() -> None:
    """Later days change multipliers by one factor only: the scale of the sample."""
    clusters = (0.6, 0.95)
    long, short = (
        clustered_volatility(np.random.default_rng(0), clusters, (days, 1)) for days in (400, 300)
    )
    ratio = long[:300] / short
    assert ratio == pytest.approx(np.full((300, 1), ratio[0, 0]))
