"""`ktdeval compare cohorts` and `compare luck`: exposures over models, figures over seeds, trades
declined behind the mask, trials and ranks; refusals.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from ktdeval.attribution import FACTOR_NAMES, factor_panel
from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder, recorded_market
from ktdeval.stats.sharpe_significance import deflated_sharpe_ratio, sharpe_shape
from ktdeval.values import dumps_pretty
from ktdeval_compare.functions import cohort
from ktdeval_compare.ranking.luck import LuckRow, rank
from ktdeval_compare.style_exposures import cohort_means, welch_test
from support.figures.card_cases import RUIN, ruined_card
from support.figures.compare_cards import SELECTION_ALPHA, CardTerminal, make_card, save_card
from support.figures.renewed_cards import derived_fields
from support.figures.scoring_cases import scoring_card


def tilted(
    model: str, exposures: Mapping[str, float | None], figures: Any = None, **changes: Any
) -> dict[str, Any]:
    """A card whose episodes all have these mean exposures."""
    card = make_card(figures or {("A1", 0): 0.01}, model, **changes)
    return derived(
        card, lambda episode: exposures_of(episode, exposures), {"selection_alpha": SELECTION_ALPHA}
    )


def exposures_of(
    episode: dict[str, Any], exposures: Mapping[str, float | None], days: int = 4
) -> None:
    """Give an episode mean exposures, each over this number of days; over no days if there is no
    exposure.
    """
    counts = {factor: 0 if mean is None else days for factor, mean in exposures.items()}
    detail = {
        "linked": {"selection": 0.02},
        "mean_exposures": dict(exposures),
        "exposure_days": counts,
    }
    episode["metrics"]["selection_alpha"] = {"value": 0.02, "n": 5, "detail": detail}


def derived(
    card: dict[str, Any], change: Callable[[dict[str, Any]], None], metrics: Mapping[str, Any] = {}
) -> dict[str, Any]:
    """A card with changed episodes, and recomputed figures."""
    card = copy.deepcopy(card)
    for episode in card["episodes"]:
        change(episode)

    card["metrics"] |= copy.deepcopy(dict(metrics))

    return card | derived_fields(card)


def saved(folder: Path, *cards: dict[str, Any]) -> list[Path]:
    return [save_card(folder / str(number), card) for number, card in enumerate(cards)]


# ---- exposures


def test_exposures_of_two_cohorts_by_hand(tmp_path: Path, terminal: CardTerminal) -> None:
    """Means 2 and -3 of (1, 3) and (-2, -4): t(2 degrees) 4.3027 times sqrt(2/2 + 2/2) reaches
    6.0849 to either side of 5.
    """
    tables = {"ml/a": (1, -1), "ml/b": (3, -1), "llm/c": (-2, -2), "llm/d": (-4, 1)}
    paths = saved(
        tmp_path,
        *(tilted(name, {"MOM_12_1": one, "SKEW": other}) for name, (one, other) in tables.items()),
    )
    words = (*paths, "--cohort", "ML=ml/*", "--cohort", "LLM=llm/c,llm/d")
    report = terminal.report("compare", "cohorts", *words)
    momentum, skew = report["exposures"]

    assert momentum["cohorts"]["ML"] == {
        "mean": 2,
        "members": 2,
        "same_sign": 2,
        "low": pytest.approx(2 - 12.7062),
        "high": pytest.approx(2 + 12.7062),
    }
    assert (
        momentum["cohorts"]["LLM"]["mean"],
        skew["cohorts"]["LLM"]["mean"],
        skew["cohorts"]["LLM"]["same_sign"],
    ) == (
        -3,
        -0.5,
        1,
    )
    assert momentum["models"] == {"ml/a": 1, "ml/b": 3, "llm/c": -2, "llm/d": -4}

    first, second = report["differences"]
    assert (first["value"], first["low"], first["high"]) == pytest.approx(
        (5, 5 - 6.0848698, 5 + 6.0848698)
    )

    # p-value of t with two degrees of freedom: F(t) = 1/2 + t / (2 sqrt(2 + t²))
    p = 1 - 5 / math.sqrt(2) / math.sqrt(2 + 12.5)
    assert (first["p"], first["p_holm"], first["verdict"]) == (
        pytest.approx(p),
        pytest.approx(2 * p),
        "not shown",
    )
    assert second["value"] == -0.5
    assert report["agreement"] == {"factors": 2, "agree": ["SKEW"], "agreement_shown": []}
    assert [(row["cohort"], row["members"], row["same_sign"]) for row in report["cohorts"]] == [
        ("ML", 2, 2),
        ("LLM", 2, 1),
    ]

    text = terminal.text("compare", "cohorts", *words)
    assert "ML: 2 of 2 models have the signs of its mean in all factors" in text
    assert "agree in sign on 1 of 2 factors: SKEW" in text
    assert "+5.000  -1.085 … +11.08" in text


def test_welchs_interval_matches_statsmodels_and_keeps_its_level() -> None:
    rng = np.random.default_rng(3)
    misses = 0
    for _ in range(400):
        one = rng.normal(0, 1, 8)
        other = rng.normal(0, 3, 4)
        row = welch_test(one, other)
        assert row.low is not None
        assert row.high is not None
        misses += not row.low <= 0 <= row.high

    assert misses <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)

    means = CompareMeans(DescrStatsW(one), DescrStatsW(other))
    assert (row.low, row.high) == pytest.approx(means.tconfint_diff(usevar="unequal"))
    assert row.p == pytest.approx(means.ttest_ind(usevar="unequal")[1])


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ([1.0], [2.0, 3.0], "a cohort of one model shows nothing of other models"),
        ([1.0, 1.0], [0.5, 0.5], "the models of each cohort have equal exposures"),
    ],
)
def test_a_difference_without_a_spread_has_no_interval_but_a_reason(
    one: list[float], other: list[float], reason: str
) -> None:
    row = welch_test(np.array(one), np.array(other))
    assert (row.low, row.p, row.reason) == (None, None, reason)
    assert row.value == np.mean(one) - np.mean(other)


def test_a_day_that_was_invested_weighs_as_any_other(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    card = tilted(
        "house/one", {"SKEW": 1.0, "ILLIQ": None}, {("A1", 0): 0.0, ("A2", 0): 0.0, ("A3", 0): 0.0}
    )
    exposures_of(card["episodes"][1], {"SKEW": 5.0, "ILLIQ": None}, days=1)
    exposures_of(card["episodes"][2], {"SKEW": None, "ILLIQ": None})  # never invested
    card |= derived_fields(card)
    (tmp_path / "alone.json").write_text(dumps_pretty(card))
    report = terminal.report("compare", "cohorts", tmp_path / "alone.json")

    # The days of each factor come from the card: 4 days with 1 and one day with 5. A factor without
    # days has no row.
    assert {row["factor"]: row["models"] for row in report["exposures"]} == {
        "SKEW": {"house/one": (4 * 1 + 1 * 5) / 5}
    }
    assert "no row of ILLIQ: a cohort has no holding with a value of it" in report["notes"]


# ---- figures over seeds


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seed", "training_seed"])
def test_the_baseline_table_by_hand(name: str, tmp_path: Path, terminal: CardTerminal) -> None:
    """Returns of 1, 2 and 6 % for three training seeds: median 2, mean 3, standard error sqrt(7/3),
    t(2 degrees) 4.3027.
    """
    repeats = [tilted("ml/a", {"SKEW": 1}, {("A1", 0): value}, args={"depth": 3, name: seed})
               for seed, value in enumerate((0.06, 0.01, 0.02))]  # fmt: skip
    other = tilted("ml/b", {"SKEW": 1}, {("A1", 0): -0.05})
    seeds = tilted("llm/c", {"SKEW": 1}, {("A1", 0): 0.01, ("A1", 1): 0.01})
    paths = saved(tmp_path, *repeats, other, seeds)
    report = terminal.report("compare", "cohorts", *paths)
    index = other["reference"]["benchmark_buy_and_hold"]["A1"]["metrics"]
    rows = {row["model"]: row for row in report["baseline"]}
    returns = [row["figures"]["total_return"]["value"] for row in report["baseline"]]

    assert returns == sorted(returns, reverse=True)

    one = rows["ml/a"]["figures"]["total_return"]
    reach = 4.302653 * math.sqrt(7 / 3) / 100

    assert (rows["ml/a"]["seeds"], one["n"]) == (3, 3)
    assert (one["value"], one["mean"], one["low"], one["high"]) == pytest.approx(
        (0.02, 0.03, 0.03 - reach, 0.03 + reach), rel=1e-6
    )
    assert rows["ml/a"]["figures"]["excess"]["value"] == pytest.approx(
        0.02 - index["total_return"]["value"]
    )

    single = rows["ml/b"]["figures"]["total_return"]
    assert (single["low"], single["high"], single["reason"]) == (
        None,
        None,
        "one seed shows nothing of other seeds",
    )

    alike = rows["llm/c"]["figures"]["total_return"]
    assert (alike["low"], alike["high"], alike["reason"]) == (
        None,
        None,
        "no variation: all values are the same",
    )
    assert [
        row["figures"]["max_drawdown"]["low"] is None or row["figures"]["max_drawdown"]["low"] >= 0
        for row in report["baseline"]
    ]

    held = next(row for model, row in rows.items() if model.endswith("buy-and-hold"))
    assert (held["seeds"], held["figures"]["total_return"]["value"]) == (
        None,
        index["total_return"]["value"],
    )

    text = terminal.text("compare", "cohorts", *paths).splitlines()
    at = next(number for number, line in enumerate(text) if line.startswith("  ml/a"))

    assert "95 % interval" in text[at + 1]
    assert (
        "95 % interval"
        not in text[
            next(number for number, line in enumerate(text) if line.startswith("  ml/b")) + 1
        ]
    )


@pytest.mark.slow
def test_a_seed_is_its_median_over_windows_and_windows_must_be_the_same(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    whole = tilted(
        "ml/a",
        {"SKEW": 1},
        {
            (window, seed): 0.01 * number
            for number, (window, seed) in enumerate(itertools.product(("A1", "A2", "A3"), (0, 1)))
        },
    )
    lacking = tilted("ml/b", {"SKEW": 1}, {("A1", 0): 0.1, ("A2", 0): 0.2})
    one, other = saved(tmp_path, whole, lacking)
    figure = next(
        row
        for row in terminal.report("compare", "cohorts", one)["baseline"]
        if row["model"] == "ml/a"
    )["figures"]["total_return"]

    # medians 0.02 of (0, 0.02, 0.04), 0.03 of the other
    assert (figure["value"], figure["n"]) == (pytest.approx(0.025), 2)

    expected = (
        "ml/b has not finished window A3 seed 0, which another card has; run it, or use the 2 that"
        " all have with --common"
    )

    assert expected in terminal.refusal("compare", "cohorts", one, other)

    report = terminal.report("compare", "cohorts", one, other, "--common")
    common = {row["model"]: row["figures"]["total_return"]["value"] for row in report["baseline"]}

    assert "window A3 is left out: not every seed of every model has finished it" in report["notes"]
    assert (common["ml/a"], common["ml/b"]) == pytest.approx((0.015, 0.15))

    # Windows of one model can be on several cards.
    parts = [
        tilted("ml/a", {"SKEW": 1}, {(window, 0): value})
        for window, value in (("A1", 0.1), ("A2", 0.2), ("A3", 0.6))
    ]
    rows = terminal.report("compare", "cohorts", *saved(tmp_path / "parts", *parts))["baseline"]

    assert [row["figures"]["total_return"]["value"] for row in rows if row["model"] == "ml/a"] == [
        pytest.approx(0.2)
    ]


# ---- declines


def memory_only(mask: str, outcomes: Sequence[str], **changes: Any) -> dict[str, Any]:
    """A card of one model: `t` traded, `d` declined, `f` no order after a failed call, `p` no valid
    submission, `r` no order after refused ones.
    """

    def change(episode: dict[str, Any]) -> None:
        kind = outcomes[int(episode["window"][1:]) - 1]
        if kind != "t":
            episode["orders"] = {
                "submitted": 0,
                "filled": 0,
                "partially_filled": 0,
                "rejected": 0,
                "rules": {},
            }

        episode["failures"] = {"constraint": 3} if kind == "r" else {}
        lost = {"f": "error", "p": "fallback", "r": "model_after_retry"}.get(kind)
        episode["decisions"] = dict.fromkeys(
            ("model", "model_after_retry", "fallback", "error"), 0
        ) | {"model": 4 if lost else 5}
        episode["decisions"] |= {lost: 1} if lost else {}

    figures = {(f"A{number}", 0): 0.0 for number in range(1, len(outcomes) + 1)}

    return derived(make_card(figures, "llm/c", mask=mask, mode="memory_only", **changes), change)


@pytest.mark.slow
def test_declines_by_hand_and_as_statsmodels_counts_them(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    bright = "tttttttdtftt"
    blinded = "ddddddtdpddr"
    paths = saved(tmp_path, memory_only("bright", bright), memory_only("blinded", blinded))
    (row,) = terminal.report("compare", "cohorts", *paths)["declines"]

    # Cells 9, 10 and 12 are not known: no valid submission when blinded, a failed call when bright,
    # and orders that were refused when blinded.
    assert (row["n"], row["not_known"], row["unmatched"]) == (9, 3, 0)
    assert (row["bright"]["declined"], row["blinded"]["declined"]) == (1, 8)
    assert (row["only_bright"], row["only_blinded"], row["p"]) == (0, 7, pytest.approx(2 / 2**7))
    assert row["p"] == pytest.approx(mcnemar([[1, 7], [0, 1]], exact=True).pvalue)

    ends = proportion_confint(8, 9, method="wilson")
    assert (row["blinded"]["low"], row["blinded"]["high"]) == pytest.approx(ends)
    assert [cell["blinded"] for cell in row["cells"] if cell["window"] in ("A10", "A8", "A9")] == [
        "declined",
        "declined",
        "not known",
    ]

    cells = [
        cell.strip()
        for cell in (
            terminal.text("compare", "cohorts", *paths)
            .partition("No order")[2]
            .splitlines()[2]
            .split("  ")
        )
        if cell
    ]

    assert cells == [
        "llm/c",
        "memory_only",
        "9",
        "1 of 9 [0.02, 0.43]",
        "8 of 9 [0.57, 0.98]",
        "0.0156",
        "3",
    ]


@pytest.mark.slow
def test_unmatched_cards_or_those_differing_beyond_the_mask_are_refused(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    bright = memory_only("bright", "ttt")
    short = memory_only("blinded", "dd")
    (row,) = terminal.report("compare", "cohorts", *saved(tmp_path / "short", bright, short))[
        "declines"
    ]

    assert (row["n"], row["unmatched"], row["p"]) == (2, 1, pytest.approx(0.5))

    (row,) = terminal.report(
        "compare",
        "cohorts",
        *saved(tmp_path / "none", memory_only("bright", "f"), memory_only("blinded", "d")),
    )["declines"]

    assert (row["n"], row["p"], row["bright"]["share"]) == (0, None, None)
    assert row["reason"] == "no window and seed whose outcome is known under both masks"

    for number, (card, expected) in enumerate((
        (memory_only("blinded", "ddd", rules="paper"), "different metric rules"),
        (memory_only("blinded", "ddd", snapshot={"id": "0" * 64}), "different snapshots"),
        (memory_only("blinded", "ddd", call={"temperature": 1.5}), "different call parameters"),
        (memory_only("blinded", "ddd", config={"version": "7"}), "different task versions"),
    )):  # fmt: skip
        assert expected in terminal.refusal(
            "compare", "cohorts", *saved(tmp_path / str(number), bright, card)
        )

    alone = terminal.report("compare", "cohorts", *saved(tmp_path / "alone", bright))

    assert alone["declines"] == []


# ---- refusals


@pytest.mark.exhaustive
def test_what_can_not_be_put_together_is_refused_in_one_line(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    base = tilted("ml/a", {"SKEW": 1})
    one, other = saved(tmp_path / "two", base, tilted("llm/c", {"SKEW": 2}))
    both = (one, other, "--cohort", "ML=ml/*", "--cohort")
    moved = {"A1": ("2011-03-02", "2011-03-08")}
    cases: list[tuple[Sequence[Any], str]] = [
        ((*both, "LLM=*/c,ml/a"), "ml/a is in ML and LLM; put each model into one cohort"),
        (
            (*both, "LLM=openai/*"),
            "--cohort LLM: 'openai/*' matches no system here; there are llm/c, ml/a",
        ),
        (
            (*both, "LLM=llm/c,llm/cc"),
            (
                "--cohort LLM: 'llm/cc' matches no system here; there are llm/c, ml/a; did you mean"
                " 'llm/c'?"
            ),
        ),
        ((*both, "LLM=llm/c(seed=1)"), "--cohort LLM: 'llm/c(seed=1)' matches no system here"),
        ((*both, "LLM"), "give NAME=SYSTEMS"),
        ((*both, "LLM="), "give NAME=SYSTEMS"),
        ((), "give run folders or cards"),
        ((one, one), "is given twice"),
        (
            (*both, "LLM=llm/*", "--task", "bright_open_research"),
            "cohort ML: ml/* has no finished card of task bright_open_research",
        ),
        ((tmp_path / "none",), "No such file"),
    ]
    changes: list[tuple[dict[str, Any], str]] = [
        ({"snapshot": {"id": "0" * 64}}, "different snapshots"),
        ({"rules": "paper"}, "different metric rules"),
        ({"config": {"version": "9"}}, "different task versions"),
        ({"windows": moved}, "window A1 is"),
        ({"figures": {("A2", 0): 0.1}}, "has not finished window"),
        (
            {"mask": "bright"},
            (
                "no task has cards of every cohort (ML: blinded_open_research; LLM:"
                " bright_open_research)"
            ),
        ),
    ]

    for number, (change, expected) in enumerate(changes):
        (changed,) = saved(tmp_path / f"changed{number}", tilted("llm/c", {"SKEW": 2}, **change))
        cases.append(((one, changed, "--cohort", "ML=ml/*", "--cohort", "LLM=llm/*"), expected))

    (again,) = saved(tmp_path / "again", base)
    cases.append(((one, again), "both have window A1 seed 0 of ml/a"))
    for words, expected in cases:
        assert expected in terminal.refusal("compare", "cohorts", *words), words


def test_a_model_at_another_temperature_is_another_model(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    """Training seeds make replicates of one model, call settings a different model."""
    cards = [tilted("ml/a", {"SKEW": value}, args={"seed": seed}, call={"temperature": heat})
             for seed, heat, value in ((0, 0.7, 1.0), (1, 0.7, 3.0), (0, 0.1, -1.0))]  # fmt: skip
    paths = saved(tmp_path, *cards)
    report = terminal.report("compare", "cohorts", *paths)

    assert report["exposures"][0]["models"] == {
        "ml/a{temperature=0.7}": 2.0,
        "ml/a{temperature=0.1}": -1.0,
    }

    split = terminal.report(
        "compare",
        "cohorts",
        *paths,
        "--cohort",
        "hot=ml/a{temperature=0.7}",
        "--cohort",
        "cold=ml/a{temperature=0.1}",
    )

    assert split["differences"][0]["value"] == 3.0


@pytest.mark.slow
def test_every_item_of_a_cohort_has_a_card_of_the_task(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    """`ml/b` exists, but under another mask: without it the cohort would be a different one."""
    paths = saved(
        tmp_path, tilted("ml/a", {"SKEW": 1.0}), tilted("ml/b", {"SKEW": 9.0}, mask="bright")
    )
    task = ("--task", "blinded_open_research")
    refusal = (
        "cohort ML: ml/b has no finished card of task blinded_open_research; run it, or name"
        " another task"
    )

    assert refusal in terminal.refusal(
        "compare", "cohorts", *paths, "--cohort", "ML=ml/a,ml/b", *task
    )

    report = terminal.report("compare", "cohorts", *paths, "--cohort", "ML=ml/*", *task)
    assert "ml/b: no finished card of blinded_open_research, so it has no row" in report["notes"]

    folder = saved(tmp_path / "scored", scoring_card())[0].parents[1]
    refusal = (
        f"--cohort ML: {folder} matches no given card; name run folders or cards of trading tasks"
    )
    code, _, message = terminal.call("compare", "cohorts", *paths, "--cohort", f"ML=ml/a,{folder}")

    assert (code, refusal in message) == (2, True)


@pytest.mark.slow
def test_models_without_a_cohort_or_exposures_are_named(
    tmp_path: Path, terminal: CardTerminal
) -> None:
    cash = tilted("ml/cash", {"SKEW": None})
    paths = saved(tmp_path, tilted("ml/a", {"SKEW": 1.0}), cash, tilted("house/x", {"SKEW": 9.0}))
    report = terminal.report("compare", "cohorts", *paths, "--cohort", "ML=ml/*")

    assert report["exposures"][0]["cohorts"]["ML"]["mean"] == 1.0
    assert report["cohorts"] == [{"cohort": "ML", "models": ["ml/a"], "members": 1, "same_sign": 1}]
    assert {row["model"] for row in report["baseline"]} > {"ml/a", "ml/cash", "house/x"}
    assert any(
        note.startswith("ml/cash: no exposures: it never held anything") for note in report["notes"]
    )
    assert "house/x: is not in any cohort" in report["notes"]

    bare = saved(tmp_path / "bare", make_card({("A1", 0): 0.1}, "house/y"))
    assert terminal.report("compare", "cohorts", *bare)["exposures"] == []
    assert "same sign" not in terminal.text("compare", "cohorts", *bare)


# ---- real runs

RULES = {
    f"ml-{sign}{held}": ("linear_factor", f"coefficients=RV_60:{sign}1,positions={held}")
    for sign in ("", "-")
    for held in (15, 20, 25)
}
RANDOM = {f"random-{buys}": ("random", f"max_buys={buys}") for buys in (4, 5, 6, 7)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rules with opposite tilts to volatility, random traders with two seeds, and the model that
    remembers.
    """
    folder = tmp_path_factory.mktemp("cohort")
    short = ["--windows", "W1", "--limit", "5", "--quiet"]

    for name, (model, args) in {**RULES, **RANDOM}.items():
        words = [
            "--model",
            f"builtin/{model}",
            "--model-args",
            args,
            "--tasks",
            "blinded_open_research",
            *short,
        ]
        assert (
            main(
                [*words, "--seeds", "2" if name == "random-4" else "1", "--out", str(folder / name)]
            )
            == 0
        )

    tasks = "bright_memory_only,blinded_memory_only"

    assert (
        main(
            ["--model", "builtin/memory", "--tasks", tasks, *short, "--out", str(folder / "memory")]
        )
        == 0
    )

    return folder


def of(folder: Path, names: Sequence[str]) -> str:
    return ",".join(str(folder / name) for name in names)


@pytest.mark.exhaustive
def test_an_opposite_tilt_is_found_and_equal_cohorts_differ_in_nothing(
    runs: Path, terminal: CardTerminal
) -> None:
    names = list(RULES)
    report = terminal.report(
        "compare",
        "cohorts",
        "--cohort",
        f"wild={of(runs, names[:3])}",
        "--cohort",
        f"quiet={of(runs, names[3:])}",
    )
    rows = {row["factor"]: row for row in report["differences"]}

    assert set(rows) == set(FACTOR_NAMES)
    assert rows["RV_60"]["low"] > 1
    assert rows["RV_60"]["verdict"] == "wild"
    assert "RV_60" not in report["agreement"]["agree"]
    assert {
        row["cohort"]: row["exposures"] if "exposures" in row else row["members"]
        for row in report["cohorts"]
    } == {
        "wild": 3,
        "quiet": 3,
    }

    names = list(RANDOM)
    equal = terminal.report(
        "compare",
        "cohorts",
        "--cohort",
        f"even={of(runs, names[::2])}",
        "--cohort",
        f"odd={of(runs, names[1::2])}",
    )

    assert {row["verdict"] for row in equal["differences"]} == {"not shown"}
    assert sum(row["low"] <= 0 <= row["high"] for row in equal["differences"]) >= 8


def z_scores(run: Path) -> tuple[pd.DataFrame, Any]:
    """Exposures by (day, code) at the close of the day: clipped at 1 and 99 %, z-scored over the
    day's members.
    """
    market = recorded_market(RunFolder.load(run), load_plugins(), None, "no market")
    first = market.day_index(np.datetime64("2024-04-01"))
    rows = range(first, first + 10)
    panel = factor_panel(market, rows)
    index = pd.MultiIndex.from_product(
        [market.days[rows.start : rows.stop], market.codes], names=["day", "code"]
    )
    raw = pd.DataFrame(panel.reshape(len(FACTOR_NAMES), -1).T, index, list(FACTOR_NAMES))
    members = pd.Series(market.member[rows.start : rows.stop].ravel(), index)

    def scored(day: pd.DataFrame) -> pd.DataFrame:
        inside = day[members.loc[day.index]]
        clipped = day.clip(inside.quantile(0.01), inside.quantile(0.99), axis=1)
        values = clipped[members.loc[day.index]]
        return (clipped - values.mean()) / values.std(ddof=0)

    return raw.groupby("day", group_keys=False).apply(scored), market


@pytest.mark.slow
def test_exposures_of_runs_are_those_that_pandas_makes_of_ledgers(
    runs: Path, terminal: CardTerminal
) -> None:
    scores, _ = z_scores(runs / "ml-15")
    expected = {}
    for name in ("ml-15", "random-4"):
        folder = RunFolder.load(runs / name)
        days = []
        for spec in folder.manifest.specs:
            steps = folder.load_ledger(spec).steps
            for before in steps[:-1]:
                held = pd.Series(
                    {
                        position.code: position.value_minor / before.nav_minor
                        for position in before.positions
                    }
                )
                if len(held):
                    today = (
                        scores.loc[np.datetime64(before.filled_on)].reindex(held.index).fillna(0.0)
                    )
                    days.append(today.mul(held, axis=0).sum())

        expected[name] = pd.DataFrame(days).mean()

    report = terminal.report(
        "compare",
        "cohorts",
        "--cohort",
        f"a={runs / 'ml-15'}",
        "--cohort",
        f"b={runs / 'random-4'}",
    )
    table = pd.DataFrame({row["factor"]: row["models"] for row in report["exposures"]})

    for label, name in (("linear_factor", "ml-15"), ("random", "random-4")):
        (row,) = (table.loc[model] for model in table.index if label in model)
        pd.testing.assert_series_equal(row, expected[name], check_names=False, rtol=1e-9)

    cards = [
        json.loads(path.read_text())
        for path in sorted((runs / "random-4" / "cards").glob("*.json"))
    ]
    frame = pd.DataFrame(
        [{**one, "sharpe": one["metrics"]["sharpe"]["value"]} for one in cards[0]["episodes"]]
    )
    (row,) = (row for row in report["baseline"] if "random" in row["model"])

    assert row["figures"]["sharpe"]["value"] == pytest.approx(
        frame.groupby("seed")["sharpe"].median().median()
    )


@pytest.mark.exhaustive
def test_the_sequence_of_cards_changes_nothing_and_python_gives_the_same(
    runs: Path, terminal: CardTerminal
) -> None:
    names = [str(runs / name) for name in (*list(RULES)[:2], *list(RANDOM)[:3], "memory")]
    cohorts = ["rules=builtin/linear_factor", "random=builtin/random"]
    words = [word for text in cohorts for word in ("--cohort", text)]
    outputs = {
        terminal.text("compare", "cohorts", *given, *words, "--json")
        for given in (names, names[::-1], names[2:] + names[:2])
    }

    assert len(outputs) == 1

    tables = cohort(*names, cohorts=cohorts)
    assert tables.report == json.loads(next(iter(outputs)))
    assert list(tables["differences"]["factor"]) == list(FACTOR_NAMES)
    assert str(tables) == terminal.text("compare", "cohorts", *names, *words).rstrip("\n")

    (row,) = tables.report["declines"]
    assert (row["n"], row["bright"]["declined"], row["blinded"]["declined"]) == (1, 0, 1)
    assert any(
        "figures are of blinded_open_research; choose another task with --task" in note
        for note in tables["notes"]
    )


# ==== luck: trials are counted from run folders, and ranks and exposures come from the cards


MODELS = ("random", "momentum", "low_volatility")
WINDOWS = ("W5", "W9")


@pytest.fixture(scope="module")
def traders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three models over two windows, and a run of only the first window that was cut short."""
    folder = tmp_path_factory.mktemp("luck")
    traders = [(model, model, ",".join(WINDOWS), "22") for model in MODELS]

    for name, model, windows, limit in (*traders, ("cut", "hold", "W5", "3")):
        words = [
            "--model",
            f"builtin/{model}",
            "--windows",
            windows,
            "--limit",
            limit,
            "--out",
            str(folder / name),
        ]
        assert main([*words, "--tasks", "blinded_open_research", "--quiet"]) == 0

    return folder


@pytest.mark.exhaustive
def test_trials_ranks_and_exposures_are_of_runs_and_cards(
    traders: Path, tmp_path: Path, terminal: CardTerminal
) -> None:
    cards = [str(traders / model) for model in MODELS]
    assert [row["trials"] for row in terminal.report("compare", "luck", cards[0])["cards"]] == [
        [1, 1]
    ]

    among = terminal.report("compare", "luck", *cards, "--runs", str(traders))
    # the cut run of W5 was a chance too
    assert {tuple(row["trials"]) for row in among["cards"]} == {(3, 4)}

    report = terminal.report("compare", "luck", *cards)
    apart = terminal.report("compare", "luck", cards[0], str(traders / "cut"))

    assert apart["ranks"]["reason"] == "the cards' figures have different windows"
    assert {row["mean"] for row in apart["exposures"]} == {None}
    assert main(["score", cards[0], "--rules", "paper"]) == 0

    other = f"{cards[0]}/cards/paper/blinded_open_research.json"
    assert (
        terminal.report("compare", "luck", cards[0], other)["ranks"]["reason"]
        == "the cards' figures have different metric rules"
    )
    assert "figures have different metric rules" in terminal.refusal(
        "paper", "table", cards[0], other, "--like", "ktdfin-4"
    )

    for name in ("ktdfin-3", "ktdfin-4", "ktdfin-8"):
        assert "figures have different windows" in terminal.refusal(
            "paper", "table", cards[0], traders / "cut", "--like", name
        )

    # two episodes have no quartiles, so both returns are shown; a single one has its own alone
    for card, returns in ((cards[0], 2), (str(traders / "cut"), 1)):
        code, shown, message = terminal.call("paper", "table", card, "--like", "ktdfin-3")
        figures = shown.splitlines()[-1].split("open_research")[1].split(",")
        assert (code, len([float(figure) for figure in figures])) == (0, returns)
        assert "ktdeval: warning: limited: every card\n" in message

    ruined = save_card(tmp_path / "ruined", ruined_card())
    note = f"total_return, sharpe, max_drawdown: median over 2 of 3 episodes: {RUIN}"

    assert note in terminal.call("paper", "table", ruined, "--like", "ktdfin-4")[2]
    assert "is not in a run folder, so its trials can't be counted" in terminal.refusal(
        "compare", "luck", ruined
    )

    (partly,) = terminal.report("compare", "luck", ruined, "--runs", traders)["cards"]
    assert (partly["return"], partly["return_rank"]) == (
        pytest.approx(0.108),
        None,
    ), "of the two episodes that it survived"

    # The deflated Sharpe ratio equals that of the library on the ledgers.
    folders = [RunFolder.load(traders / model) for model in MODELS]
    expected = []

    for number in range(len(WINDOWS)):
        ledgers = [folder.load_ledger(folder.manifest.specs[number]) for folder in folders]
        shapes = [shape.sharpe for ledger in ledgers if (shape := sharpe_shape(ledger)) is not None]
        expected.append(deflated_sharpe_ratio(ledgers[0].returns, shapes, len(ledgers)).value)

    assert report["cards"][0]["dsr"] == pytest.approx(sum(expected) / 2, rel=1e-12)
    assert report["cards"][0]["dsr"] < report["cards"][0]["psr"]

    rows = {row["card"]: row for row in report["cards"]}

    for key in ("return", "selection"):
        assert sorted(rows, key=lambda name: -rows[name][key]) == sorted(
            rows, key=lambda name: rows[name][f"{key}_rank"]
        )

    momentum = next(row for row in report["exposures"] if row["factor"] == "MOM_12_1")["cards"]

    assert momentum["builtin/momentum"] > 1.0 > momentum["builtin/random"]
    assert "fewer than two models have both" in terminal.text("compare", "luck", cards[1])
    assert "no run here" in terminal.refusal("compare", "luck", cards[1], "--runs", tmp_path)


def test_cohort_exposures_average_members_and_count_signs() -> None:
    table = cohort_means(
        {
            "a": {"SKEW": 0.4, "ILLIQ": None},
            "b": {"SKEW": -0.1, "ILLIQ": None},
            "c": {"SKEW": 0.3, "ILLIQ": -0.2},
        }
    )

    assert [(row.mean, row.members, row.same_sign) for row in table] == [
        (pytest.approx(0.2), 3, 2),
        (-0.2, 1, 1),
    ]
    assert table[0].cards == {"a": 0.4, "b": -0.1, "c": 0.3}
    assert [(row.mean, row.members) for row in cohort_means({"cash": {"SKEW": None}})] == [
        (None, 0)
    ]
    assert cohort_means({}) == cohort_means({"a": {"SKEW": 1.0}, "b": {"ILLIQ": 1.0}}) == []


def luck_row(card: str, total_return: float | None, selection: float | None) -> LuckRow:
    return LuckRow(
        card=card,
        total_return=total_return,
        selection=selection,
        paper_selection=None,
        psr=None,
        dsr=None,
        episodes=0,
        trials=(0, 0),
        reason=None,
    )


def test_ranks_by_return_and_by_selection() -> None:
    figures = {
        "a": (0.10, 0.05),
        "b": (0.30, -0.02),
        "c": (0.20, 0.01),
        "d": (0.20, 0.00),
        "e": (None, 0.1),
    }
    ranked, correlations = rank(
        [luck_row(name, total, alpha) for name, (total, alpha) in figures.items()]
    )

    assert [row.return_rank for row in ranked] == [4.0, 1.0, 2.5, 2.5, None]
    assert [row.selection_rank for row in ranked] == [1.0, 4.0, 2.0, 3.0, None]

    pairs = list(zip(*list(figures.values())[:4], strict=True))
    assert correlations.spearman == pytest.approx(stats.spearmanr(*pairs).statistic)
    assert correlations.kendall == pytest.approx(stats.kendalltau(*pairs).statistic)


def test_ranks_without_an_order_have_no_correlation_but_a_reason() -> None:
    _, alone = rank([luck_row("a", 1.0, 2.0)])
    assert alone.reason == "fewer than two models have both"
    _, tie = rank([luck_row("a", 1.0, 2.0), luck_row("b", 1.0, 3.0)])
    assert (tie.spearman, tie.reason) == (None, "all models tie")
