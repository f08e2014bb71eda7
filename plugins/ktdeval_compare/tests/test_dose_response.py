"""How little memory an evaluation sees: arithmetic by hand, planted studies, and the study itself."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from ktdeval.errors import DataError, UsageError
from ktdeval_compare.doses.dose_plot import dose_svg
from ktdeval_compare.doses.dose_response import (
    Premiums,
    dose_report,
    effect_sizes,
    interval_of,
    limit_of,
    memory_power,
    probe_limit,
    probe_power,
    size_at,
)
from ktdeval_compare.doses.dose_rows import DoseRow, DoseStudy, read_rows, shipped_study, write_rows
from ktdeval_compare.doses.dose_study import DosePlan, plan_of
from ktdeval_compare.doses.dose_texts import dose_parts, short_percent
from ktdeval_compare.pairs.signed_ranks import RankTest, published_spans
from ktdeval_compare.table_columns import lines_of
from support.figures.compare_cards import CardTerminal

WINDOWS = 10


def planted(
    means: Mapping[float, float], sd: float = 0.05, controls: int = 0, shared: bool = False
) -> DoseStudy:
    """A study whose premiums have these means, and a control without any; `shared`: over windows
    that share days as those of KTD-Fin do.
    """
    chance = np.random.default_rng(0)
    rows = []

    def add(kind: str, dose: float, seed: int, mask: str, values: object) -> None:
        for number, value in enumerate(np.asarray(values), 1):
            window = f"W{number}"
            rows.append(
                DoseRow(
                    kind=kind, dose=dose, seed=seed, mask=mask, window=window, value=float(value)
                )
            )

    for dose, mean in means.items():
        hidden = np.linspace(-0.1, 0.1, WINDOWS)
        for seed in range(4):
            noise = chance.normal(mean, sd, WINDOWS) if dose else 0.0
            add("memory", dose, seed, "bright", hidden + noise)
        add("memory", dose, 0, "blinded", hidden)

    for seed in range(controls):
        for mask in ("bright", "blinded"):
            add("control", 0.0, seed, mask, chance.normal(0.0, 0.02, WINDOWS))

    spans = published_spans("ktdfin-windows")
    if not shared:
        years = range(2010, 2010 + WINDOWS)
        spans = {f"W{year - 2009}": (f"{year}-01-04", f"{year}-02-26") for year in years}

    return DoseStudy(rows, spans)


# ---- by hand


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        (0.75, 0.01 * math.sqrt(10)),  # half-way between 0.01 and 0.1, by logarithms
        (1.0, 0.1),
        (0.3, 0.01),  # below the smallest dose
        (3.0, None),
        (None, None),
    ],
)
def test_a_limit_lies_between_doses_by_their_logarithm(
    needed: float | None, expected: float | None
) -> None:
    limit = limit_of([0.0, 0.01, 0.1, 1.0], np.array([0.0, 0.5, 1.0, 2.0]), needed)
    assert limit == (None if expected is None else pytest.approx(expected))


def test_effect_size_is_mean_over_spread_and_is_monotone_in_the_dose() -> None:
    """1, 3: mean 2, standard deviation √2. A larger dose that looks weaker counts as equal."""
    tables = {
        0.0: np.zeros((2, 1)),
        0.1: np.array([[1.0], [3.0]]),
        0.2: np.array([[0.0], [2.0]]),
        1.0: np.ones((2, 1)),
    }
    expected = [0.0, math.sqrt(2), math.sqrt(2), math.inf]
    assert effect_sizes(tables).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("dose", "expected"),
    [(0.005, 0.25), (0.01, 0.5), (0.01 * math.sqrt(10), 0.75), (0.1, 1.0), (0.5, 1.0)],
)
def test_the_effect_of_any_dose(dose: float, expected: float) -> None:
    assert size_at([0.0, 0.01, 0.1], np.array([0.0, 0.5, 1.0]), dose) == pytest.approx(expected)


def test_an_interval_may_lie_beyond_a_full_memory() -> None:
    values: list[float | None] = [0.1, 0.2, 0.3, None, None]
    assert interval_of(values, 0.05) == (0.1, None)
    assert interval_of([None, None], 0.05) == (None, None)


# ---- probes


@pytest.mark.parametrize("probes", [50, 200])
def test_where_guessing_never_hits_one_hit_is_enough(probes: int) -> None:
    """Power 1 - (1 - r)^n: at 0.8 r is 1 - 0.2^(1/n)."""
    expected = 1 - 0.2 ** (1 / probes)
    assert probe_power(expected, probes, 0.0, 0.05) == pytest.approx(0.8)
    assert probe_limit(probes, 0.0, 0.05, 0.8) == pytest.approx(expected, abs=2e-5)


def test_probes_are_seen_by_the_exact_binomial_test() -> None:
    """Of 200 probes with 5.8 % by chance: the fewest hits that the test calls more than chance."""
    bar = next(hits for hits in range(200) if binomtest(hits, 200, 0.058, "greater").pvalue <= 0.05)
    chance = np.random.default_rng(0)
    dose = 0.1
    hits = chance.binomial(200, dose, size=40_000)
    assert probe_power(dose, 200, 0.058, 0.05) == pytest.approx((hits >= bar).mean(), abs=0.01)
    assert probe_power(0.0, 200, 0.058, 0.05) <= 0.05


# ---- planted studies


@pytest.mark.exhaustive
def test_a_planted_premium_is_reported_with_its_limit() -> None:
    report = dose_report(planted({0.0: 0.0, 0.01: 0.02, 0.1: 0.05, 1.0: 0.10}, controls=40))
    nothing, small, middle, full = report.doses

    assert nothing.premium == 0.0
    assert nothing.power == 0.0
    assert nothing.found == 0
    for line, mean in ((small, 0.02), (middle, 0.05), (full, 0.10)):
        assert line.low is not None
        assert line.high is not None
        assert line.low < mean < line.high

    assert middle.effect_sd is not None
    assert middle.power == pytest.approx(RankTest().power(middle.effect_sd, WINDOWS))
    assert full.found == full.seeds == 4
    assert report.hidden_spread == 0.0

    by_windows = [line.limit for line in report.limits if line.detector == "effects"]
    known = [limit for limit in by_windows if limit is not None]
    assert known == sorted(known, reverse=True), "more windows see less memory"

    alarms = report.false_alarms
    exact = binomtest(alarms.alarms, 40).proportion_ci(0.95, "exact")
    assert (alarms.low, alarms.high) == pytest.approx((exact.low, exact.high))

    areas = [line.auc for line in report.curves]
    assert areas == sorted(areas)
    assert areas[-1] > 0.99

    text = "\n".join(lines_of(dose_parts(report), 100))
    assert f"False alarms: {alarms.alarms} of 40 studies" in text
    assert dose_svg(report) == dose_svg(report)


@pytest.mark.exhaustive
def test_a_plan_of_more_windows_sees_more() -> None:
    study = planted({0.0: 0.0, 0.01: 0.02, 0.1: 0.05, 1.0: 0.10})
    few, many = (memory_power(study, 0.1, windows, 0.05, 0.8) for windows in (6, 20))
    size = size_at(*_sizes(study), 0.1)

    assert few.power < many.power
    assert few.power == pytest.approx(RankTest().power(size, 6))
    assert few.low <= few.power <= few.high


def _sizes(study: DoseStudy) -> tuple[list[float], np.ndarray]:
    premiums = Premiums(study)
    return premiums.doses, effect_sizes({dose: premiums.at(dose) for dose in premiums.doses})


@pytest.mark.exhaustive
def test_windows_that_share_days_are_tested_by_the_null_of_shared_days() -> None:
    """The same premiums: what shared days allow for costs power, and moves each figure's test."""
    means = {0.0: 0.0, 0.01: 0.05, 1.0: 0.10}
    shared = dose_report(planted(means, controls=40, shared=True))
    apart = dose_report(planted(means, controls=40))
    of_shared, of_apart = shared.doses[1], apart.doses[1]

    assert of_shared.power < of_apart.power
    assert of_shared.found <= of_apart.found
    assert shared.false_alarms.alarms < apart.false_alarms.alarms
    assert of_shared.low is not None
    assert of_apart.low is not None
    assert of_shared.low < of_apart.low

    limits = [line for line in shared.limits if line.detector == "effects"]
    assert limits[0].reason == "6 such windows can't give a significant result"


@pytest.mark.exhaustive
def test_the_shipped_study_has_the_power_of_the_command_that_tests_it() -> None:
    """Figures that an audit computed by itself, with the test of `compare masks`."""
    study = shipped_study()
    power = memory_power(study, 0.01, 10, 0.05, 0.8)
    assert power.power == pytest.approx(0.80, abs=0.01)
    assert power.limit.limit == pytest.approx(0.0098, abs=0.0002)

    half_a_percent = next(line for line in dose_report(study).doses if line.dose == 0.005)
    assert (half_a_percent.found, half_a_percent.seeds) == (2, 3)


@pytest.mark.slow
def test_five_windows_see_nothing() -> None:
    plan = memory_power(planted({0.0: 0.0, 0.1: 0.05, 1.0: 0.10}), 1.0, 5, 0.05, 0.8)
    assert plan.power == 0.0
    assert plan.limit.limit is None
    assert plan.limit.reason == "5 such windows can't give a significant result"


@pytest.mark.parametrize(
    ("share", "text"), [(0.0035, "0.35 %"), (0.127, "13 %"), (1.0, "100 %"), (0.02, "2 %")]
)
def test_shares_have_two_digits(share: float, text: str) -> None:
    assert short_percent(share) == text


# ---- files and plans


def test_rows_survive_their_file() -> None:
    rows = planted({0.0: 0.0, 0.1: 0.25}).rows
    read = read_rows(write_rows(rows), "here")
    assert [row.value for row in read] == pytest.approx([row.value for row in rows], abs=1e-8)
    assert [(row.kind, row.dose, row.seed, row.mask, row.window) for row in read] == [
        (row.kind, row.dose, row.seed, row.mask, row.window) for row in rows
    ]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("memory,x,0,bright,W1,0.1", "here, line 2: not a row"),
        ("memory,0.1,0", "here, line 2: not a row"),
    ],
)
def test_a_row_of_another_form_is_refused(row: str, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read_rows(f"kind,dose,seed,mask,window,value\n{row}\n", "here")


def test_a_study_with_a_missing_episode_is_refused() -> None:
    study = planted({0.0: 0.0, 0.1: 0.05})
    rows = list(study.rows)
    rows.remove(next(row for row in rows if row.dose == 0.1 and row.seed == 2))
    with pytest.raises(DataError, match="bright: not every seed has every window"):
        Premiums(DoseStudy(rows, study.spans))


def test_a_plan_counts_its_episodes() -> None:
    """Two doses at both ends, one seed each, and three between; each once behind the mask; two
    masks of each control.
    """
    plan = DosePlan(doses=(0.0, 0.1, 1.0), seeds=3, windows=("W1", "W2"), controls=4)
    assert plan.episodes == 2 * ((1 + 3 + 1) + 3 + 2 * 4)
    assert len({unit.folder for unit in plan.units()}) == 5 + 3 + 4


@pytest.mark.parametrize(
    ("doses", "problem"), [(["0.1", "1.5"], "1.5 is not a share"), (["x"], "expected shares")]
)
def test_doses_are_shares(doses: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        plan_of(doses, None, None, ())


# ---- commands


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["compare", "masks"], "needs cards or run folders, or --dose-response"),
        (["compare", "masks", "--seeds", "2", "x"], "--seeds goes with --dose-response"),
        (["compare", "masks", "--dose-response", "--common"], "makes its own runs"),
        (["compare", "power", "--memory", "0.1", "--seeds", "3"], "--memory takes only --windows"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str], problem: str, terminal: CardTerminal, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    given = [str(tmp_path / "x") if word == "x" else word for word in arguments]
    code, _, error = terminal.call(*given)
    assert code != 0
    assert problem in error


@pytest.mark.exhaustive
def test_the_study_runs_once_and_is_shown_again(terminal: CardTerminal, tmp_path: Path) -> None:
    """Full memory against none, in two windows: bright earns more, blinded is the same."""
    out = str(tmp_path / "study")
    given = ("compare", "masks", "--dose-response", "--doses", "0,1", "--windows", "W3,W4")
    # The command says on stderr what it will take.
    printed = terminal.out(*given, "--out", out, "--json")
    report = json.loads(printed)
    nothing, full = report["doses"]

    assert nothing["bright"] == nothing["hidden"]
    assert full["hidden"] == nothing["hidden"]
    assert full["premium"] > 0.3
    assert report["hidden_spread"] == 0.0

    written = (tmp_path / "study" / "dose-response.csv").read_text()
    assert len(read_rows(written, "study")) == 8
    assert terminal.out(*given, "--out", out, "--json") == printed
