"""A planted cutoff of memory: windows before it have a dose, windows after it have none."""

from __future__ import annotations

import numpy as np
import pytest

from ktdeval_compare.doses.dose_cutoff import cutoff_rows
from ktdeval_compare.doses.dose_response import LimitLine, dose_report
from ktdeval_compare.doses.dose_rows import CUTOFF, CUTOFF_ERROR, DoseRow, DoseStudy

DAYS = 40
NOISE = 0.01


def study(added: float, seed: int = 1) -> dict[str, dict[str, float]]:
    """Daily excess of four windows, with `added` on each day."""
    chance = np.random.default_rng(seed)
    windows = {}
    for number in range(4):
        days = [f"2024-{number + 1:02d}-{day:02d}" for day in range(1, DAYS + 1)]
        values = chance.normal(0.0, NOISE, DAYS) + added
        windows[f"A{number}"] = dict(zip(days, values.tolist(), strict=True))

    return windows


def test_what_a_dose_adds_is_a_year_of_its_days() -> None:
    """The noise is the same: 0.002 more on each day before the cutoff is 0.504 more per year."""
    rows = list(cutoff_rows({(0.0, 0): study(0.0), (0.1, 3): study(0.002)}))
    added, error = rows
    assert (added.kind, added.dose, added.seed) == (CUTOFF, 0.1, 3)
    assert added.window == "A0-A1|A2-A3"
    assert added.value == pytest.approx(0.002 * 252)

    assert error.kind == CUTOFF_ERROR


@pytest.mark.exhaustive
def test_the_error_is_that_of_two_means_a_year() -> None:
    """Both sides have 80 days: 252 · 0.01 / √80 each, in quadrature; a mean over twelve markets, as
    that of one depends on the order of its days.
    """
    errors = []
    for seed in range(12):
        _, error = cutoff_rows({(0.0, 0): study(0.0, seed), (0.1, 0): study(0.002, seed)})
        errors.append(error.value)

    expected = 252 * NOISE / np.sqrt(2 * DAYS) * np.sqrt(2)
    assert np.mean(errors) == pytest.approx(expected, rel=0.15)


def test_days_of_windows_before_the_cutoff_count_on_no_other_side() -> None:
    """A2 begins before A1 ends: it contains the cutoff and is left out."""
    shared = study(0.0)
    shared["A2"] = {"2024-02-39": 1.0, **shared["A2"]}
    dosed = study(0.002)
    dosed["A2"] = shared["A2"]
    added, _ = cutoff_rows({(0.0, 0): shared, (0.1, 0): dosed})
    assert added.window == "A0-A1|A3-A3"


@pytest.mark.parametrize("doses", [[(0.1, 0)], [(0.0, 0)]])
def test_without_both_doses_there_is_nothing_to_compare(doses: list[tuple[float, int]]) -> None:
    assert not list(cutoff_rows({dose: study(0.0) for dose in doses}))


@pytest.mark.exhaustive
def test_the_limit_is_where_the_difference_is_2_8_standard_errors() -> None:
    """1.96 + 0.84: ratios of 2 at 1 % and 4 at 10 % cross it at 10^(-2 + 0.4)."""
    rows = []
    for dose, ratio in ((0.01, 2.0), (0.1, 4.0)):
        for kind, value in ((CUTOFF, ratio), (CUTOFF_ERROR, 1.0)):
            rows.append(
                DoseRow(kind=kind, dose=dose, seed=0, mask="bright", window="A|B", value=value)
            )

    for dose, mask in ((0.0, "bright"), (0.0, "blinded"), (0.1, "bright"), (0.1, "blinded")):
        for window in ("A", "B"):
            rows.append(
                DoseRow(kind="memory", dose=dose, seed=0, mask=mask, window=window, value=0.0)
            )

    spans = {"A": ("2024-01-01", "2024-02-29"), "B": ("2024-03-01", "2024-04-30")}
    report = dose_report(DoseStudy(rows, spans))
    lines: list[LimitLine] = [line for line in report.limits if line.detector == "cutoff"]
    share = (2.8016 - 2.0) / 2.0
    assert lines[0].count == 10
    assert lines[0].limit == pytest.approx(0.01 * 10**share, rel=1e-3)
