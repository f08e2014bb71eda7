"""`ktdeval compare --factor`: sums of squares, components, permutations, identical runs, AMA's
Table 1, and refusals.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from msgspec import UNSET
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm

from ktdeval.errors import KtdevalError
from ktdeval_compare.functions import compare_tables
from ktdeval_compare.variances.variance import VarianceOptions, VarianceReport, study
from ktdeval_compare.variances.variance_runs import TABLES, table_among
from ktdeval_compare.variances.variance_shares import (
    RESIDUAL,
    component_shares,
    f_p,
    joint_permutation_p,
    mixed_model,
    permutation_p,
    shares,
    sums_of_squares,
    variance_components,
)
from support.figures.compare_cards import CardTerminal, make_card, save_card, save_run


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
    [  # by hand: means of rows and columns relative to the grand mean
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

    tested = [f_p(parts, effect) for effect in parts if effect != RESIDUAL]
    assert tested == pytest.approx(table["PR(>F)"].dropna().tolist())


def test_an_effect_has_no_f_test_where_nothing_is_left_to_chance() -> None:
    parts = sums_of_squares(np.array([[0.0, 0.0], [2.0, 2.0]])[..., None])

    assert f_p(parts, (0,)) is None


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_one_factor_has_the_exact_interval_of_intraclass_correlation(level: float) -> None:
    """With one factor the pivotal interval has a closed form: ratios of mean squares are
    F-distributed.
    """
    levels = 6
    replicates = 4
    rng = np.random.default_rng(8)
    values = rng.normal(0, 1, (levels, 1)) + rng.normal(0, 1, (levels, replicates))
    parts = sums_of_squares(values)
    ratio = parts[0,].ss / (levels - 1) / (parts[RESIDUAL].ss / (levels * (replicates - 1)))
    quantiles = scipy.stats.f.ppf(
        [(1 + level) / 2, (1 - level) / 2], levels - 1, levels * (replicates - 1)
    )
    signal = ratio / quantiles - 1

    component = component_shares(parts, level, 0)[0,]

    assert component.share == pytest.approx((ratio - 1) / (ratio - 1 + replicates))

    ends = signal / (signal + replicates)
    assert [component.low, component.high] == pytest.approx(np.maximum(ends, 0), abs=0.015)


@pytest.mark.parametrize("shape", [(1, 2, 2), (2, 1, 2), (3, 1)])
def test_sums_of_squares_need_two_levels_of_every_factor(
    shape: tuple[int, ...],
) -> None:
    with pytest.raises(ValueError, match="every factor needs two levels"):
        sums_of_squares(np.arange(float(math.prod(shape))).reshape(shape))


def test_a_share_does_not_depend_on_labels_scale_or_order() -> None:
    values = planted(np.random.default_rng(2), (3, 4, 2), (2, 1, 1, 1))
    rng = np.random.default_rng(3)
    before = shares(sums_of_squares(values))

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


@pytest.mark.exhaustive
def test_planted_components_are_recovered_with_their_interval() -> None:
    sds = (2.0, 1.0, 1.0, 1.0)
    truth = np.array([4, 1, 1, 1]) / 7
    rng = np.random.default_rng(4)
    covered = np.zeros(4)
    means = np.zeros(4)

    for seed in range(120):
        parts = sums_of_squares(planted(rng, (6, 6, 2), sds))
        means += variance_components(parts) / 120
        bounds = component_shares(parts, 0.95, seed).values()
        covered += [
            each.low <= share <= each.high for each, share in zip(bounds, truth, strict=True)
        ]

    assert means == pytest.approx(7 * truth, rel=0.2)
    assert (covered >= 120 * 0.90).all(), covered


def test_a_negative_estimate_of_a_component_is_shown_and_counts_as_nothing() -> None:
    """By hand: runs of 0, 2 and 2, 0 have equal means of rows and of columns, and 4 with one degree
    of freedom is left.

    A component is (0 - 4) / 2 = -2: as a share 0, and all of the variance is the residual's.
    """
    parts = sums_of_squares(np.array([[0.0, 2.0], [2.0, 0.0]])[..., None])
    components = component_shares(parts, 0.95, 0)

    assert [each.estimate for each in components.values()] == pytest.approx([-2.0, -2.0, 4.0])
    assert [each.share for each in components.values()] == [0.0, 0.0, 1.0]


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


@pytest.mark.parametrize(
    ("components", "converged", "expected"),
    [
        ([0.3, 0.0, 0.2], True, {"a": 0.3, "b": 0.0, "a x b": 0.2, "residual": 0.5}),
        ([0.3, 0.0, 0.2], False, "the mixed model did not converge"),
        ([math.nan, 0.0, 1.0], True, "the mixed model did not converge"),
        ([math.inf, 0.0, 1.0], True, "the mixed model did not converge"),
        ([-0.5, 0.0, 0.0], True, "the mixed model did not converge"),
    ],
)
def test_a_fit_counts_where_it_converged_to_finite_components(
    components: list[float], converged: bool, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What statsmodels fitted; the scale, 0.5, is the residual's variance."""
    fitted = SimpleNamespace(vcomp=np.array(components), scale=0.5, converged=converged)
    model = SimpleNamespace(fit=lambda *, reml: fitted)
    monkeypatch.setattr("statsmodels.formula.api.mixedlm", lambda *_, **__: model)

    assert mixed_model(np.arange(8.0).reshape(2, 2, 2), ["a", "b"]) == expected


@pytest.mark.parametrize("sign", [1, -1])
def test_the_permutation_test_of_a_small_table_is_that_of_all_its_patterns(sign: int) -> None:
    """2 × 2: each column is kept or swapped; two of the four patterns have the largest
    difference.
    """
    table = sign * np.array([[[1.0], [2]], [[3], [5]]])

    assert permutation_p(table, 0, 0) == pytest.approx(0.5, abs=0.02)


def test_equal_values_have_a_permutation_p_of_one() -> None:
    assert permutation_p(np.ones((2, 2, 1)), 0, 0) == 1.0


@pytest.mark.parametrize("most", [0, 1, 700, 10_000])
def test_permutations_are_the_same_however_many_are_drawn_at_once(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = planted(np.random.default_rng(9), (3, 4, 2), (0.3, 1, 0, 1))
    expected = permutation_p(values, 0, 5, 300)
    monkeypatch.setattr("ktdeval_compare.variances.variance_shares._AT_ONCE", most)

    assert permutation_p(values, 0, 5, 300) == expected
    assert 0.01 < expected < 0.99


@pytest.mark.parametrize("axis", [0, 1])
def test_the_permutation_test_agrees_with_f_on_normal_values(axis: int) -> None:
    values = planted(np.random.default_rng(12), (3, 4, 3), (0.6, 0.6, 0, 1))
    parts = sums_of_squares(values)

    assert permutation_p(values, axis, 0) == pytest.approx(f_p(parts, (axis,)), abs=0.03)


# ---- all assets together


def test_runs_change_places_with_their_figures_on_every_asset() -> None:
    """2 × 2 on two assets that move alike: two of the four patterns have the largest sum of shares.

    If assets were permuted independently, two of sixteen patterns would, and p would be 1/8.
    """
    table = np.array([[[1.0], [2]], [[3], [5]]])

    assert joint_permutation_p([table, 10 * table], 0, 0) == pytest.approx(0.5, abs=0.02)


def test_neither_the_scale_of_an_asset_nor_one_that_never_moves_matters() -> None:
    rng = np.random.default_rng(13)
    calm = planted(rng, (3, 4, 1), (0.5, 0, 0, 1))
    wide = planted(rng, (3, 4, 1), (0.5, 0, 0, 1))
    expected = joint_permutation_p([calm, wide], 0, 0, 999)

    assert joint_permutation_p([calm, 7 - 100 * wide], 0, 0, 999) == expected
    assert joint_permutation_p([calm, np.full_like(calm, 0.1)], 0, 0) == pytest.approx(
        joint_permutation_p([calm], 0, 0), abs=0.015
    )


@pytest.mark.slow
def test_joint_p_is_uniform_without_effect_on_correlated_assets() -> None:
    rng = np.random.default_rng(14)
    p_values = []
    for seed in range(400):
        shared = rng.normal([[[0], [9], [0], [5]]], 1, (3, 4, 1))
        assets = [shared + rng.normal(0, 0.3, shared.shape) for _ in range(3)]
        p_values.append(joint_permutation_p(assets, 0, seed, 99))

    counts = np.histogram(p_values, np.linspace(0.005, 1.005, 11))[0]

    assert ((counts - 40) ** 2 / 40).sum() < 27.9  # chi2, 9 degrees of freedom, 0.1 %


#: two assets; the rows of the second are in a different order
SHUFFLED = """\
agent,model,asset,CR
a,x,one,1
a,y,one,2
b,x,one,3
b,y,one,6
c,x,one,2
c,y,one,4
c,y,two,7
c,x,two,6
b,y,two,8
b,x,two,9
a,y,two,2
a,x,two,1
"""


@pytest.mark.slow
def test_levels_are_matched_by_name_over_assets(tmp_path: Path) -> None:
    """By hand: the agents' share of the squares about the mean is 9 of 16 on asset one, and 52 of
    53.5 on asset two.
    """
    report = split(tmp_path, SHUFFLED)
    in_order = "".join(sorted(SHUFFLED.splitlines(keepends=True)[1:]))
    ordered = split(tmp_path, SHUFFLED.splitlines(keepends=True)[0] + in_order)
    rows = {(row.without, row.source): row for row in report.joint}
    assert rows[UNSET, "agent"].share == pytest.approx((9 / 16 + 52 / 53.5) / 2)
    assert rows[UNSET, "agent"].assets == 2
    assert [row.p for row in report.joint] == [row.p for row in ordered.joint]
    assert set(rows) == {
        (without, source) for without in (UNSET, "a", "b", "c") for source in ("agent", "model")
    }


def test_assets_with_other_levels_have_no_joint_test_and_a_note_says_so(tmp_path: Path) -> None:
    report = split(tmp_path, SHUFFLED.replace("c,y,two", "d,y,two").replace("c,x,two", "d,x,two"))

    assert report.joint == []
    assert "no test of all assets together: their levels or replicates differ" in report.notes


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


@pytest.mark.exhaustive
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

    # A joint test over the four assets does show an effect of the agent, and none of the model.
    together = {(row.get("without"), row["source"]): row for row in report["joint"]}
    assert together["HedgeFundAgent", "agent"]["p"] == pytest.approx(0.026, abs=0.005)
    assert together["HedgeFundAgent", "agent"]["verdict"] == "shown"
    assert together[None, "model"]["verdict"] == "not shown"

    (same,) = report["identical"]
    assert {run[0] for run in same["runs"]} == {"HedgeFundAgent"}
    assert (len(same["runs"]), same["places"], same["is_flat"]) == (6, assets, False)

    text = terminal.text("compare", "--factor", "agent,model", "ama-1")
    assert "HedgeFundAgent: 6 runs (GPT-4o, GPT-4.1" in text
    assert "0.708" in text
    assert "0.505" in text
    assert max(len(line) for line in text.splitlines()) < 160


# ---- tables of runs, by hand


def split(folder: Path, content: str, factors: str = "agent,model", **more: Any) -> VarianceReport:
    """The report on a table with this content."""
    path = folder / "runs.csv"
    path.write_text(content)
    return study([], str(path), VarianceOptions(tuple(factors.split(",")), **more))


@pytest.mark.parametrize(
    ("paths", "table"),
    [
        (["ama-1"], "ama-1"),
        (["there"], None),
        (["other/ama-1"], None),
        (["runs.csv"], "runs.csv"),
        (["other/runs.csv"], "other/runs.csv"),
        (["one", "two"], None),
        ([], None),
    ],
)
def test_a_table_is_a_csv_file_or_the_name_of_one_that_ships(
    paths: list[str], table: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path)

    assert table_among([Path(path) for path in paths]) == table


def test_a_run_of_the_name_of_a_table_is_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ama-1").mkdir()
    monkeypatch.chdir(tmp_path)

    assert table_among([Path("ama-1")]) is None

    with pytest.raises(
        KtdevalError, match=r"x\.csv: a table of runs can't be combined with other inputs"
    ):
        table_among([Path("ama-1"), Path("x.csv")])


#: agent and model -> figures of two seeds, of which the squares are known by hand:
#: 0 of the agents, 32 of the models, 0 of both, and 12 within
BY_HAND = {"a,x": (1, 3), "a,y": (5, 7), "b,x": (2, 2), "b,y": (4, 8)}


def test_windows_are_averaged_first_so_that_only_seeds_are_replicates(tmp_path: Path) -> None:
    """A run's two windows are 10 above and 10 below its figure, which is not noise."""
    rows = ["agent,model,window,seed,CR"]
    for levels, figures in BY_HAND.items():
        for seed, figure in enumerate(figures):
            rows += [f"{levels},W1,{seed},{figure - 10}", f"{levels},W2,{seed},{figure + 10}"]

    report = split(tmp_path, "\n".join(rows))

    assert (report.metric, report.replicates, report.levels) == ("CR", 2, [2, 2])
    assert {row.source: (row.ss, row.df) for row in report.shares} == {
        "agent": (pytest.approx(0, abs=1e-9), 1),
        "model": (pytest.approx(32), 1),
        "agent x model": (pytest.approx(0, abs=1e-9), 1),
        "residual": (pytest.approx(12), 4),
    }


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (["b,y,W1,0,4", "b,y,W2,0,4"], "other seeds or windows of b × y"),
        (["b,y,W1,0,4", "b,y,W2,0,4", "b,y,W1,1,4"], "other seeds or windows of b × y"),
        (["b,y,W1,0,4", "b,y,W3,0,4", "b,y,W1,1,4", "b,y,W3,1,4"], "other seeds or windows of b"),
        ([], "no run of b × y; a split needs every combination, equally often"),
    ],
    ids=["a seed less", "a window of a seed less", "another window", "none"],
)
def test_every_combination_has_the_same_windows_of_as_many_seeds(
    last: list[str], message: str, tmp_path: Path
) -> None:
    rows = ["agent,model,window,seed,CR"]
    for levels in ("a,x", "a,y", "b,x"):
        for seed in (0, 1):
            rows += [f"{levels},W1,{seed},{seed}", f"{levels},W2,{seed},{seed}"]

    with pytest.raises(KtdevalError, match=message):
        split(tmp_path, "\n".join([*rows, *last]))


TWO_ASSETS = """\
agent,model,asset,CR
a,x,TSLA,1
a,y,TSLA,3
b,x,TSLA,5
b,y,TSLA,11
a,x,BTC,0
a,y,BTC,0
b,x,BTC,2
b,y,BTC,2
"""


def test_each_asset_is_split_by_itself_and_p_corrected_over_assets(tmp_path: Path) -> None:
    """By hand: squares are 36, 16 and 4 on one asset, and 4, 0, 0 on the other; Holm doubles the
    smaller of two p-values.
    """
    report = split(tmp_path, TWO_ASSETS)

    squares = [(row.asset, row.source, row.ss) for row in report.shares]

    assert squares == [
        ("TSLA", "agent", pytest.approx(36)),
        ("TSLA", "model", pytest.approx(16)),
        ("TSLA", "residual", pytest.approx(4)),
        ("BTC", "agent", pytest.approx(4)),
        ("BTC", "model", 0),
        ("BTC", "residual", 0),
    ]

    shares_of = [row.share for row in report.shares]
    assert shares_of == pytest.approx([36 / 56, 16 / 56, 4 / 56, 1, 0, 0])

    agents = [row for row in report.shares if row.source == "agent"]
    lower, higher = sorted(row.p or 0 for row in agents)

    assert sorted(row.p_holm or 0 for row in agents) == [
        min(1, 2 * lower),
        max(min(1, 2 * lower), higher),
    ]
    assert [row.p_f for row in report.shares][2:] == [None, None, None, None]
    assert [row.p_holm for row in report.shares if row.source == "residual"] == [None, None]
    assert [row.verdict for row in report.shares if row.source == "residual"] == ["", ""]
    assert report.without == []
    assert report.notes[0] == "one run each: the highest interaction is part of the residual"


def test_a_refusal_names_the_asset_that_lacks_a_level(tmp_path: Path) -> None:
    lacking = TWO_ASSETS.replace("a,y,BTC,0\n", "").replace("b,y,BTC,2\n", "")

    with pytest.raises(
        KtdevalError, match=r"^BTC: factor model has one level, x; a share needs two"
    ):
        split(tmp_path, lacking)


def test_rows_of_ensembles_are_in_no_share_but_among_identical_runs(tmp_path: Path) -> None:
    """The vote of agent a has the same figures as its run with model y."""
    runs = "a,x,1,\na,y,3,\nb,x,5,\nb,y,11,\na,vote,3,yes\n"

    report = split(tmp_path, f"agent,model,CR,ensemble\n{runs}")

    assert report.levels == [2, 2]
    assert [row.ss for row in report.shares] == pytest.approx([36, 16, 4])
    assert report.notes[:2] == [
        "votes and ensembles combine other rows and are excluded from the shares",
        "one run each: the highest interaction is part of the residual",
    ]
    assert report.compared == "all figures of the row"

    (same,) = report.identical
    assert (same.runs, same.places, same.is_flat) == ([["a", "y"], ["a", "vote"]], [""], False)


def test_shares_without_each_level_are_those_of_the_other_levels(tmp_path: Path) -> None:
    """By hand: without agent c the squares are 36, 16 and 4 again."""
    rows = "a,x,1\na,y,3\nb,x,5\nb,y,11\nc,x,100\nc,y,200\n"

    report = split(tmp_path, f"agent,model,CR\n{rows}")

    assert [row.without for row in report.without[::3]] == ["a", "b", "c"]
    assert [row.ss for row in report.without if row.without == "c"] == pytest.approx([36, 16, 4])
    assert {row.reml for row in report.without} == {None}
    assert {row.without for row in report.shares} == {UNSET}


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("a,x,1\na,y,1\nb,x,2\nb,y,3\n", "  a: 2 runs (x, y)"),
        ("a,x,1\na,y,2\nb,x,1\nb,y,3\n", "  across agents: 2 runs (a × x, b × x)"),
        ("a,x,0\na,y,2\nb,x,0\nb,y,3\n", "  across agents: 2 runs (a × x, b × x); never moved"),
        ("a,x,1\na,y,2\nb,x,4\nb,y,3\n", "  none"),
    ],
)
def test_identical_runs_are_listed_by_agent_and_model(
    rows: str, line: str, tmp_path: Path, terminal: CardTerminal
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"agent,model,CR\n{rows}")

    text = terminal.text("compare", "--factor", "agent,model", path).splitlines()

    assert text[0] == "Shares of the variance of CR: 2 agents × 2 models, one run each"
    assert text[text.index("Identical runs (all figures of the row)") + 1] == line
    assert "REML" not in text[1]
    assert "Share of the agent without each agent" not in text


@pytest.mark.exhaustive
def test_report_of_replicates_states_their_number_and_variance_shares(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    values = planted(np.random.default_rng(5), (5, 4, 3), (2, 1, 1, 1))
    rows = []
    for (agent, model, seed), value in np.ndenumerate(values):
        rows.append(f"a{agent},m{model},{seed},{value}\n")

    path = tmp_path / "t.csv"
    path.write_text(f"# AMA, Table 1\nagent,model,seed,CR\n{''.join(rows)}")

    text = terminal.text("compare", "--factor", "agent,model", path).splitlines()

    assert text[0] == "Shares of the variance of CR: 5 agents × 4 models, 3 runs each"
    assert (
        text[1].split()[-9:]
        == ["95", "%", "interval", "REML", "p", "Holm", "p", "F", "p", "verdict"][-9:]
    )

    fitted = mixed_model(values, ["agent", "model"])
    assert isinstance(fitted, dict)

    (agent,) = [line for line in text[2:6] if line.split()[0] == "agent" and "x" not in line]
    assert f"{fitted['agent']:.3f}" in agent
    assert text[text.index("Notes") + 1] == "  AMA, Table 1"


AGENTS = ("direct", "react", "echo")


def saved(
    folder: Path, windows: tuple[str, ...] = ("A1", "A2"), seeds: int = 2, **changes: Any
) -> list[Path]:
    """Runs of agents on two models; those of the agent `echo` have equal paths with both."""
    rng = np.random.default_rng(7)
    paths = []

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


@pytest.mark.exhaustive
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


@pytest.mark.exhaustive
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
    tables = compare_tables(runs, factors=words[0].split(","), metrics=words[1], alpha=0.1)

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
    assert str(compare_tables(table="ama-1", factors="agent,asset")) == terminal.text(
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
            compare_tables(*given, **options)

        assert expected in str(refused.value), (options, refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.exhaustive
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
        ("", ("--factor", "agent,model", "--pairs", "episode", *runs), "apply to paired tests"),
        ("", ("agents", "--factor", "agent,model"), "or with --factor a table of runs"),
        (
            "",
            ("ama-1",),
            "is a table of runs; name the factors to split it by with --factor NAME,…",
        ),
        (
            "",
            ("ama-1", *runs, "--factor", "agent,model"),
            "a table of runs can't be combined with other inputs",
        ),
        ("", ("--table", "ama-1"), "in place of the runs"),
        ("", ("agents",), "needs two cards or run folders"),
        ("", ("--factor", "agent,model", tmp_path / "none.csv"), "No such file"),
        ("", ("--factor", "agent,model", folder), "directory"),
        (b"\xff\xfe", shown, "is not UTF-8"),
        ("", shown, "is not a CSV table"),
        ("agent,model,cr\n", shown, "a row for each run"),
        ("agent,model,cr\na,b,1,2,3\nc,d,1,2,3,4\n", shown, "is not a CSV table"),
        ("agent,model,cr\na,m,1,2\n", shown, "more fields than the head"),
        ("# x\nagent,model,cr\na,m,one\n", shown, "line 3: has a figure"),
        ("agent,model,cr\na,m,inf\n", shown, "line 2: has a figure"),
        ("agent,model,cr\na,,1\n", shown, "line 2: has an empty"),
        ("agent,model,cr\na,m,1\na,m,2\n", shown, "line 3: repeats one"),
        ("agent,model,cr,ensemble\na,m,1,no\n", shown, "other than yes"),
        ("agent,model,cr,ensemble\na,m,1,yes\n", shown, "every row is marked"),
        ("agent,asset,cr\na,m,1\nb,m,2\n", shown, "no column 'model'"),
        ("agent,model,cr\na,m,1\na,n,\nb,m,2\nb,n,3\n", shown, "a × n is undefined"),
        ("agent,model,cr\na,m,1\na,n,2\n", (*shown, "--metric", "sr"), "no metric 'sr'"),
        (
            "agent,model,cr\na,m,1\nb,m,2\n",
            ("--factor", "agent", table),
            "no residual to estimate noise",
        ),
    ]

    for content, words, expected in cases:
        if content or words == shown:
            table.write_bytes(content if isinstance(content, bytes) else content.encode())

        assert expected in terminal.refusal("compare", *words), words


# in floating point, the mean of equal shares is not always equal to the share
@pytest.mark.parametrize("value", [1, 0.1, 5 / 43])
def test_equal_values_have_no_share(value: float, tmp_path: Path, terminal: CardTerminal) -> None:
    rows = "".join(f"{agent},{model},{value}\n" for agent in "abc" for model in "mno")
    (tmp_path / "t.csv").write_text(f"agent,model,cr\n{rows}")
    report = terminal.report("compare", "--factor", "agent,model", tmp_path / "t.csv")

    assert {(row["share"], row["p"], row["reason"]) for row in report["shares"]} == {
        (None, None, "all values are equal")
    }
    assert terminal.text("compare", "--factor", "agent,model", tmp_path / "t.csv")
