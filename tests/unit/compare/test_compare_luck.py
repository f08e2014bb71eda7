"""`ktdeval luck`: trials are counted from run folders, and ranks and exposures come from the cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy import stats

from compare_cards import CardTerminal
from ktdeval.cli.main import main
from ktdeval.runner.store import RunFolder
from ktdeval.stats.luck import deflated_sharpe_ratio, sharpe_shape
from ktdeval_compare.luck import cohort_means, rank

MODELS = ("random", "momentum", "low_volatility")
WINDOWS = ("W5", "W9")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models over two windows, and one run of the first window alone that was cut short."""
    folder = tmp_path_factory.mktemp("luck")
    runs = [(model, model, ",".join(WINDOWS), "12") for model in MODELS]
    for name, model, windows, limit in (*runs, ("cut", "hold", "W5", "3")):
        words = ["--model", f"builtin/{model}", "--windows", windows, "--limit", limit, "--out", str(folder / name)]
        assert main([*words, "--tasks", "blinded_open_research", "--quiet"]) == 0
    return folder


def test_trials_ranks_and_exposures_are_of_runs_and_cards(runs: Path, tmp_path: Path, terminal: CardTerminal) -> None:
    cards = [str(runs / model) for model in MODELS]
    assert [row["trials"] for row in terminal.report("luck", cards[0])["cards"]] == [[1, 1]]
    among = terminal.report("luck", *cards, "--runs", str(runs))
    assert {tuple(row["trials"]) for row in among["cards"]} == {(3, 4)}  # the cut run of W5 was a chance too
    report = terminal.report("luck", *cards)
    apart = terminal.report("luck", cards[0], str(runs / "cut"))
    assert apart["ranks"]["reason"] == "the cards' figures are of different windows"
    assert {row["mean"] for row in apart["exposures"]} == {None}
    assert main(["score", cards[0], "--rules", "paper"]) == 0
    other = f"{cards[0]}/cards/paper/blinded_open_research.json"
    assert terminal.report("luck", cards[0], other)["ranks"]["reason"] == "the cards' figures are of different metric rules"
    assert "figures are of different metric rules" in terminal.refusal("table", cards[0], other, "--like", "ktdfin-4")
    for name in ("ktdfin-3", "ktdfin-4", "ktdfin-8"):
        assert "figures are of different windows" in terminal.refusal("table", cards[0], runs / "cut", "--like", name)
    for card, spread in ((cards[0], True), (str(runs / "cut"), False)):  # of one episode there are no quartiles
        assert ("[" in terminal.text("table", card, "--like", "ktdfin-3")) == spread
    # The deflated Sharpe ratio is that of the library on the ledgers.
    folders = [RunFolder.load(runs / model) for model in MODELS]
    expected = []
    for number in range(len(WINDOWS)):
        ledgers = [folder.load_ledger(folder.manifest.specs[number]) for folder in folders]
        shapes = [shape.sharpe for ledger in ledgers if (shape := sharpe_shape(ledger)) is not None]
        expected.append(deflated_sharpe_ratio(ledgers[0].returns, shapes, len(ledgers)).value)
    assert report["cards"][0]["dsr"] == pytest.approx(sum(expected) / 2, rel=1e-12)
    assert report["cards"][0]["dsr"] < report["cards"][0]["psr"]
    rows = {row["card"]: row for row in report["cards"]}
    for key in ("return", "selection"):
        assert sorted(rows, key=lambda name: -rows[name][key]) == sorted(rows, key=lambda name: rows[name][f"{key}_rank"])
    momentum = next(row for row in report["exposures"] if row["factor"] == "MOM_12_1")["cards"]
    assert momentum["builtin/momentum"] > 1.0 > momentum["builtin/random"]
    assert "fewer than two models have both" in terminal.text("luck", cards[1])
    assert "no run here" in terminal.refusal("luck", cards[1], "--runs", tmp_path)


def test_cohort_exposures_average_members_and_count_signs() -> None:
    table = cohort_means({"a": {"SKEW": 0.4, "ILLIQ": None}, "b": {"SKEW": -0.1, "ILLIQ": None}, "c": {"SKEW": 0.3, "ILLIQ": -0.2}})
    assert [(row["mean"], row["members"], row["same_sign"]) for row in table] == [(pytest.approx(0.2), 3, 2), (-0.2, 1, 1)]
    assert table[0]["cards"] == {"a": 0.4, "b": -0.1, "c": 0.3}
    assert [(row["mean"], row["members"]) for row in cohort_means({"cash": {"SKEW": None}})] == [(None, 0)]
    assert cohort_means({}) == cohort_means({"a": {"SKEW": 1.0}, "b": {"ILLIQ": 1.0}}) == []


def test_ranks_by_return_and_by_selection() -> None:
    figures = {"a": (0.10, 0.05), "b": (0.30, -0.02), "c": (0.20, 0.01), "d": (0.20, 0.00), "e": (None, 0.1)}
    rows = [{"card": name, "return": total, "selection": alpha} for name, (total, alpha) in figures.items()]
    correlations = rank(rows)
    assert [row["return_rank"] for row in rows[:4]] == [4.0, 1.0, 2.5, 2.5]
    assert [row["selection_rank"] for row in rows[:4]] == [1.0, 4.0, 2.0, 3.0]
    assert "return_rank" not in rows[4]
    pairs = list(zip(*list(figures.values())[:4], strict=True))
    assert correlations["spearman"] == pytest.approx(stats.spearmanr(*pairs).statistic)
    assert correlations["kendall"] == pytest.approx(stats.kendalltau(*pairs).statistic)


def test_ranks_without_an_order_have_no_correlation_and_say_why() -> None:
    assert rank([{"return": 1.0, "selection": 2.0}])["reason"] == "fewer than two models have both"
    tie = rank([{"return": 1.0, "selection": 2.0}, {"return": 1.0, "selection": 3.0}])
    assert (tie["spearman"], tie["reason"]) == (None, "all models tie")
