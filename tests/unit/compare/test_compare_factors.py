"""`ktdeval compare --factor`: sums of squares, components, permutations, identical runs, AMA's
Table 1, and what is refused.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from compare_cards import CardTerminal, make_card, save_card, save_run
from ktdeval.errors import KtdevalError
from ktdeval_compare.functions import compare
from ktdeval_compare.variance_runs import TABLES
from ktdeval_compare.variance_shares import (
    RESIDUAL,
    component_shares,
    mixed_model,
    permutation_p,
    shares,
    sums_of_squares,
    variance_components,
)


def planted(
    rng: np.random.Generator, shape: tuple[int, int, int], sds: tuple[float, float, float, float]
) -> Any:
    agents, models, _ = shape
    agent, model, both, chance = sds
    return (
        rng.normal(0, agent, (agents, 1, 1))
        + rng.normal(0, model, (1, models, 1))
        + rng.normal(0, both, (agents, models, 1))
        + rng.normal(0, chance, shape)
    )


@pytest.mark.parametrize(
    ("values", "expected"),
    [  # by hand: means of rows and columns about the grand mean
        ([[1, 3], [5, 11]], {(0,): (36, 1), (1,): (16, 1), RESIDUAL: (4, 1)}),
        ([[1, 2, 3], [4, 8, 6]], {(0,): (24, 1), (1,): (7, 2), RESIDUAL: (3, 2)}),
        ([[0, 0], [2, 2]], {(0,): (4, 1), (1,): (0, 1), RESIDUAL: (0, 1)}),
        (
            [[[1, 3], [5, 7]], [[2, 2], [4, 8]]],
            {(0,): (0, 1), (1,): (32, 1), (0, 1): (0, 1), RESIDUAL: (12, 4)},
        ),
    ],
)
def test_sums_of_squares_by_hand(values: Any, expected: Any) -> None:
    array = np.array(values, dtype=float)
    parts = sums_of_squares(array if array.ndim == 3 else array[..., None])
    assert {
        effect: (pytest.approx(part.ss, abs=1e-12), part.df) for effect, part in parts.items()
    } == expected


@pytest.mark.parametrize("replicates", [1, 3])
def test_sums_of_squares_match_anova_lm(replicates: int) -> None:
    values = planted(np.random.default_rng(1), (3, 4, replicates), (2, 1, 1, 1))
    places = np.indices(values.shape).reshape(3, -1)
    frame = pd.DataFrame({"a": places[0], "m": places[1], "y": values.ravel()})
    table = anova_lm(
        OLS.from_formula(f"y ~ C(a) {'*' if replicates > 1 else '+'} C(m)", frame).fit()
    )
    parts = sums_of_squares(values)
    assert [part.ss for part in parts.values()] == pytest.approx(table["sum_sq"].tolist())
    assert [part.df for part in parts.values()] == table["df"].tolist()
    assert math.fsum(value or 0 for value in shares(parts).values()) == pytest.approx(1)


def test_a_share_does_not_depend_on_labels_scale_or_order() -> None:
    values = planted(np.random.default_rng(2), (3, 4, 2), (2, 1, 1, 1))
    rng, before = np.random.default_rng(3), shares(sums_of_squares(values))
    for other in (
        values[rng.permutation(3)],
        values[:, rng.permutation(4)],
        values[..., ::-1],
        7 - 3 * values,
    ):
        assert shares(sums_of_squares(other)) == pytest.approx(before)
    turned = shares(sums_of_squares(values.swapaxes(0, 1)))
    assert [turned[key] for key in ((1,), (0,), (0, 1), RESIDUAL)] == pytest.approx(
        list(before.values())
    )


def test_planted_components_are_recovered_with_their_interval() -> None:
    sds, truth = (2.0, 1.0, 1.0, 1.0), np.array([4, 1, 1, 1]) / 7
    rng, covered, means = np.random.default_rng(4), np.zeros(4), np.zeros(4)
    for seed in range(120):
        parts = sums_of_squares(planted(rng, (6, 6, 2), sds))
        means += variance_components(parts) / 120
        bounds = component_shares(parts, 0.95, seed).values()
        covered += [
            each.low <= share <= each.high for each, share in zip(bounds, truth, strict=True)
        ]
    assert means == pytest.approx(7 * truth, rel=0.2)
    assert (covered >= 120 * 0.90).all(), covered


def test_a_negative_estimate_of_a_component_is_shown_and_counts_as_nothing(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    """By hand: runs of 0, 2 and 2, 0 have equal means of rows and of columns, and 4 with one degree
    of freedom is left.

    A component is (0 - 4) / 2 = -2: as a share 0, and all of the variance is the residual's.
    """
    parts = sums_of_squares(np.array([[0.0, 2.0], [2.0, 0.0]])[..., None])
    components = component_shares(parts, 0.95, 0)
    assert [each.estimate for each in components.values()] == pytest.approx([-2.0, -2.0, 4.0])
    assert [each.share for each in components.values()] == [0.0, 0.0, 1.0]
    (tmp_path / "runs.csv").write_text("agent,model,CR\na,x,0\na,y,2\nb,x,2\nb,y,0\n")
    words = ("compare", "--factor", "agent,model", tmp_path / "runs.csv")
    assert [row["variance"] for row in terminal.report(*words)["shares"]] == pytest.approx(
        [-2.0, -2.0, 4.0]
    )
    message = (
        "agent: the variance is estimated at -2 (squared unit of CR), which no variance can be"
    )
    assert message in terminal.text(*words)


def test_the_mixed_model_agrees_with_mean_squares_and_reports_its_absence() -> None:
    values = planted(np.random.default_rng(5), (5, 4, 3), (2, 1, 1, 1))
    expected = [each.share for each in component_shares(sums_of_squares(values), 0.95, 0).values()]
    fitted = mixed_model(values, ["agent", "model"])
    assert list(fitted.values()) == pytest.approx(expected, abs=2e-3)
    assert "no replicates" in str(mixed_model(values[..., :1], ["agent", "model"]))
    assert mixed_model(np.zeros((2, 2, 2)), ["a", "b"]) == "all values are equal"


def test_a_fit_that_does_not_converge_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr("statsmodels.formula.api.mixedlm", broken)
    assert (
        mixed_model(np.arange(8.0).reshape(2, 2, 2), ["a", "b"])
        == "the mixed model did not converge: Singular matrix"
    )


def test_permutation_p_is_uniform_without_an_effect_and_exact_on_a_small_table() -> None:
    rng = np.random.default_rng(6)
    p_values = [
        permutation_p(rng.normal([[[0], [9], [0], [5]]], 1, (3, 4, 1)), 0, seed, 99)
        for seed in range(400)
    ]
    counts = np.histogram(p_values, np.linspace(0.005, 1.005, 11))[0]
    assert ((counts - 40) ** 2 / 40).sum() < 27.9  # chi2, 9 degrees of freedom, 0.1 %
    # 2 × 2: each column is as it is or turned; two of the four patterns have the largest
    # difference.
    assert permutation_p(np.array([[[1.0], [2]], [[3], [5]]]), 0, 0) == pytest.approx(0.5, abs=0.02)
    assert permutation_p(np.ones((2, 2, 1)), 0, 0) == 1.0


def test_table_1_of_ama_is_whole_and_agrees_with_itself() -> None:
    frame = pd.read_csv(TABLES / "ama-1.csv", comment="#")
    assert frame.groupby(["agent", "asset"]).size().tolist() == [6] * 16
    year = frame["asset"].map({"TSLA": 252, "BMRN": 252, "BTC": 365, "ETH": 365})
    moved = frame["cr"] != 0
    days = year * np.log1p(frame["cr"] / 100) / np.log1p(frame["ar"] / 100)
    assert (days[(year == 365) & moved] - 61).abs().max() < 0.7  # AR from CR over 61 days
    # their code drops days without a return
    assert (days[(year == 252) & moved] - days.round()).abs().max() < 0.4
    # Sharpe is the arithmetic mean over the volatility, so log growth, plus half the variance, over
    # it.
    volatility = frame["av"][moved] / 100
    sharpe = (np.log1p(frame["ar"][moved] / 100) + volatility**2 / 2) / volatility
    assert ((sharpe - frame["sr"][moved]).abs() < 0.12 + 0.03 * frame["sr"][moved].abs()).all()


def test_one_command_shows_the_agents_share_in_ama(terminal: CardTerminal) -> None:
    report = terminal.report("compare", "--factor", "agent,model", "ama-1")
    assets = ["TSLA", "BMRN", "BTC", "ETH"]
    agent = {row["asset"]: row for row in report["shares"] if row["source"] == "agent"}
    assert [round(agent[asset]["share"], 2) for asset in assets] == [0.71, 0.83, 0.34, 0.86]
    left = {
        row["asset"]: row
        for row in report["without"]
        if row["source"] == "agent" and row["without"] == "HedgeFundAgent"
    }
    assert [round(left[asset]["share"], 2) for asset in assets] == [0.51, 0.33, 0.18, 0.27]
    # and none after Holm's correction
    assert [asset for asset in assets if left[asset]["p"] <= 0.05] == ["TSLA"]
    assert {row["verdict"] for row in left.values()} == {"not shown"}
    (same,) = report["identical"]
    assert {run[0] for run in same["runs"]} == {"HedgeFundAgent"}
    assert (len(same["runs"]), same["places"], same["is_flat"]) == (6, assets, False)
    text = terminal.text("compare", "--factor", "agent,model", "ama-1")
    assert "HedgeFundAgent: 6 runs (GPT-4o, GPT-4.1" in text
    assert "0.708" in text
    assert "0.505" in text
    assert max(len(line) for line in text.splitlines()) < 160


AGENTS = ("direct", "react", "echo")


def saved(
    folder: Path, windows: tuple[str, ...] = ("A1", "A2"), seeds: int = 2, **changes: Any
) -> list[Path]:
    """Runs of agents on two models; those of the agent `echo` have equal paths on both."""
    rng, paths = np.random.default_rng(7), []
    for number, agent in enumerate(AGENTS):
        for model in ("house/one", "house/two"):
            cells = [(window, seed) for window in windows for seed in range(seeds)]
            daily = {cell: rng.normal(0.002 * number, 0.01, 5) for cell in cells}
            if agent == "echo":
                daily = {cell: np.full(5, 0.001 * position) for position, cell in enumerate(cells)}
            figures = {cell: float(np.prod(1 + daily[cell]) - 1) for cell in cells}
            card = make_card(figures, model, agent={"name": agent, "args": {}}, **changes)
            paths.append(save_run(folder / f"{agent}-{model[6:]}", card, daily))
    return [path.parent.parent for path in paths]


def test_cards_are_split_with_replicates_and_identical_paths_are_named(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    runs = saved(tmp_path)
    report = terminal.report("compare", "--factor", "agent,model", *runs)
    assert [row["source"] for row in report["shares"]] == [
        "agent",
        "model",
        "agent x model",
        "residual",
    ]
    assert (report["replicates"], report["levels"], report["compared"]) == (2, [3, 2], "daily NAV")
    assert math.fsum(row["share"] for row in report["shares"]) == pytest.approx(1)
    assert all(
        row["reml"] is not None or "converge" in row["reml_reason"] for row in report["shares"]
    )
    (same, *_) = report["identical"]  # flat is that of seed 0 in A1, which never moved
    assert (same["runs"], same["is_flat"]) == (
        [["echo", "house/one", "0"], ["echo", "house/two", "0"]],
        True,
    )
    assert {row["without"] for row in report["without"]} == set(AGENTS)
    wide = terminal.report("compare", "--factor", "agent,model,window,seed", *runs)
    assert wide["levels"] == [3, 2, 2, 2]
    assert terminal.text("compare", "--factor", "agent,model", *runs)


@pytest.mark.slow
def test_asset_and_seed_are_factors_and_python_gives_what_the_command_does(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    runs = [
        run
        for asset in ("tsla", "btc")
        for run in saved(tmp_path / asset, ("A1",), config={"name": asset})
    ]
    words = ("agent,model,asset,seed", "total_return")
    report = terminal.report(
        "compare", "--factor", words[0], "--metric", words[1], *runs, "--alpha", "0.1"
    )
    tables = compare(runs, factors=words[0].split(","), metrics=words[1], alpha=0.1)
    assert tables.report == report
    assert (tables["levels"], tables["replicates"]) == ([3, 2, 2, 2], 1)
    assert {"asset", "seed", "agent x seed", "residual"} <= set(tables["shares"]["source"])
    assert tables["shares"]["share"].sum() == pytest.approx(1)
    # By hand: the share of the asset, from the means of its two levels.
    cards = [
        json.loads(path.read_text())["episodes"]
        for run in runs
        for path in run.glob("cards/*.json")
    ]
    values = np.array(
        [
            np.mean(
                [one["metrics"]["total_return"]["value"] for one in episodes if one["seed"] == seed]
            )
            for episodes in cards
            for seed in (0, 1)
        ]
    ).reshape(2, -1)
    by_hand = (
        12
        * ((values.mean(axis=1) - values.mean()) ** 2).sum()
        / ((values - values.mean()) ** 2).sum()
    )
    assert tables["shares"].set_index("source")["share"]["asset"] == pytest.approx(by_hand)
    assert str(compare(table="ama-1", factors="agent,asset")) == terminal.text(
        "compare", "--factor", "agent,asset", "ama-1"
    ).rstrip("\n")
    one_seed = saved(tmp_path / "eth", ("A1",), seeds=1, config={"name": "eth"})
    for given, options, expected in (
        (
            (*runs, *one_seed),
            {"factors": words[0]},
            "no run of direct × house/one × eth × 1; a split needs every combination",
        ),
        (
            (*runs, *one_seed),
            {"factors": "agent,model,asset"},
            "other seeds or windows of direct × house/one × eth",
        ),
        (runs[1:], {"factors": words[0]}, "no run of direct × house/one × tsla × 0"),
        (runs[:6], {"factors": words[0]}, "factor asset has one level"),
        (runs, {"factors": "agent,model", "against_first": True}, "unknown field 'against_first'"),
        (
            runs,
            {"factors": "agent,model", "alpha": 0.95},
            "alpha: expected a value from 0.0001 to 0.5, was 0.95",
        ),
        (
            runs[:2],
            {"alpha": 0.95},
            "compare: alpha: expected a value from 0.0001 to 0.5, was 0.95",
        ),
        (runs[:2], {"draws": 0}, "compare: draws: expected a value of at least 1, was 0"),
        (
            runs,
            {"factors": "agent,model", "table": "ama-1"},
            "either cards of runs or a table of runs",
        ),
        (runs, {"table": "ama-1"}, "table goes with factors"),
    ):
        with pytest.raises(KtdevalError) as refused:
            compare(*given, **options)
        assert expected in str(refused.value), (options, refused.value)
        assert "\n" not in str(refused.value)


def test_an_incomplete_crossing_is_refused_in_one_line(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    runs = saved(tmp_path / "runs")
    twice = save_card(
        tmp_path / "again",
        make_card({("A1", 0): 0.1, ("A2", 0): 0.2}, agent={"name": "echo", "args": {}}),
    )
    table = tmp_path / "t.csv"
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    shown = "--factor", "agent,model", table
    cases: list[tuple[str | bytes, tuple[Any, ...], str]] = [
        ("", ("--factor", "agent,model", *runs[:-1]), "no run of echo × house/two"),
        ("", ("--factor", "agent,model", *runs[:2]), "factor agent has one level"),
        ("", ("--factor", "agent", "--factor", "agent,agent", *runs), "each factor once"),
        ("", ("--factor", "agent,colour", *runs), "no factor 'colour'"),
        (
            "",
            ("--factor", "agent,model", "--metric", "sharpe,total_return", *runs),
            "one metric at a time",
        ),
        (
            "",
            ("--factor", "agent,model", *runs, twice, "--common"),
            "are both of agent echo with model house/one",
        ),
        ("", ("--factor", "agent,model", "--pairs", "episode", *runs), "of paired tests"),
        ("", ("agents", "--factor", "agent,model"), "or with --factor a table of runs"),
        ("", ("ama-1",), "is a table of runs, which --factor NAME,… splits"),
        ("", ("ama-1", *runs, "--factor", "agent,model"), "a table of runs stands alone"),
        ("", ("--table", "ama-1"), "in place of the runs"),
        ("", ("agents",), "needs two cards or run folders"),
        ("", ("--factor", "agent,model", tmp_path / "none.csv"), "No such file"),
        ("", ("--factor", "agent,model", folder), "directory"),
        (b"\xff\xfe", shown, "is not UTF-8"),
        ("", shown, "is no CSV table"),
        ("agent,model,cr\n", shown, "a row for each run"),
        ("agent,model,cr\na,b,1,2,3\nc,d,1,2,3,4\n", shown, "is no CSV table"),
        ("agent,model,cr\na,m,1,2\n", shown, "more fields than the head"),
        ("# x\nagent,model,cr\na,m,one\n", shown, "line 3: has a figure"),
        ("agent,model,cr\na,m,inf\n", shown, "line 2: has a figure"),
        ("agent,model,cr\na,,1\n", shown, "line 2: has an empty"),
        ("agent,model,cr\na,m,1\na,m,2\n", shown, "line 3: is a second row"),
        ("agent,model,cr,ensemble\na,m,1,no\n", shown, "other than yes"),
        ("agent,model,cr,ensemble\na,m,1,yes\n", shown, "every row is marked"),
        ("agent,asset,cr\na,m,1\nb,m,2\n", shown, "no column 'model'"),
        ("agent,model,cr\na,m,1\na,n,\nb,m,2\nb,n,3\n", shown, "a × n is undefined"),
        ("agent,model,cr\na,m,1\na,n,2\n", (*shown, "--metric", "sr"), "no metric 'sr'"),
        (
            "agent,model,cr\na,m,1\nb,m,2\n",
            ("--factor", "agent", table),
            "nothing to estimate chance by",
        ),
    ]
    for content, words, expected in cases:
        if content or words == shown:
            table.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert expected in terminal.refusal("compare", *words), words


# the mean of equal shares is not always that share, to a computer
@pytest.mark.parametrize("value", [1, 0.1, 5 / 43])
def test_equal_values_have_no_share(value: float, tmp_path: Path, terminal: CardTerminal) -> None:
    rows = "".join(f"{agent},{model},{value}\n" for agent in "abc" for model in "mno")
    (tmp_path / "t.csv").write_text(f"agent,model,cr\n{rows}")
    report = terminal.report("compare", "--factor", "agent,model", tmp_path / "t.csv")
    assert {(row["share"], row["p"], row["reason"]) for row in report["shares"]} == {
        (None, None, "all values are equal")
    }
    assert terminal.text("compare", "--factor", "agent,model", tmp_path / "t.csv")
