"""Smallest memory that an evaluation can detect: premium by dose, detection limits, false alarms.

The premium in a window is the return with labels shown minus the return with labels masked. It is
tested as in `compare masks`, by a signed-rank test whose null distribution allows for shared days.
Power is computed as in `compare power`, for normal differences whose mean and spread are those
measured at the dose. Additional windows are assumed to share days in the same pattern as the
windows of the study.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from ktdeval import stats
from ktdeval.errors import DataError
from ktdeval.stats import normal_effect
from ktdeval_compare.doses.dose_rows import (
    BRIGHT,
    CONTROL,
    CUTOFF,
    CUTOFF_ERROR,
    HIDDEN,
    MEMORY,
    DoseRow,
    DoseStudy,
)
from ktdeval_compare.pairs.signed_ranks import RankTest, pattern_of, rank_test_of

FloatArray = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

WINDOWS_SHOWN = (6, 8, 10, 15, 20, 30)
CUTOFF_WINDOWS = (10, 20, 40)
STUDY_WINDOWS = 10
"""Number of windows in the study, half of them before the planted cutoff."""
PROBES_SHOWN = (50, 100, 200, 400)
#: probability that random guessing names both stock and day, or only the stock, on the embedded
#: market
JOINT_BASELINE = 0.0051
STOCK_BASELINE = 0.0473
_DRAWS = 400  # number of resamples of the windows, for the limits' intervals
_STUDIES = 2_000  # number of studies drawn for each curve
_NOT_EVEN_ALL = "not even a full memory"
_FALSE_RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)


@dataclass(frozen=True, kw_only=True)
class DoseLine:
    """Premium at one dose."""

    dose: float
    windows: int
    seeds: int  #: number of seeds that select which facts are remembered
    bright: float  #: mean return with labels shown
    hidden: float  #: mean return with labels masked
    premium: float
    low: float | None
    high: float | None
    sd: float  #: standard deviation of one window's premium with one seed
    effect_sd: float | None  #: premium divided by `sd`; None if there is no spread
    found: int  #: number of seeds for which the test over all windows is significant and positive
    power: float  #: modelled power with the number of windows in the study


@dataclass(frozen=True, kw_only=True)
class LimitLine:
    """Smallest dose that a detector detects."""

    detector: str
    count: int  #: number of windows or probes
    unit: str
    limit: float | None  #: share of facts; None if even a full memory is not detected
    low: float | None = None  #: lower end of the interval for the limit
    high: float | None = None  #: upper end; None if it may lie above a full memory
    #: True if even the smallest dose in the study is detected, so that the limit lies below this
    #: dose
    is_below: bool = False
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class AlarmLine:
    """False-alarm rate: how often a test finds memory in a control that has none."""

    alarms: int
    studies: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class CurveLine:
    """Separation of one dose from the control, in studies with this number of windows."""

    dose: float
    windows: int
    auc: float
    low: float  #: lower end of the interval over resampled controls
    high: float
    false_rates: tuple[float, ...]
    true_rates: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class DoseReport:
    """Report of `compare masks --dose-response`."""

    alpha: float
    wanted: float
    doses: Sequence[DoseLine]
    limits: Sequence[LimitLine]
    false_alarms: AlarmLine
    curves: Sequence[CurveLine]
    #: largest difference between the returns of two doses with labels masked, in any window
    hidden_spread: float
    notes: Sequence[str]


class Premiums:
    """Premiums by dose, [windows, seeds] each, with windows in the order used by the study."""

    def __init__(self, study: DoseStudy) -> None:
        self.bright: dict[float, FloatArray] = {}
        self.hidden: dict[float, FloatArray] = {}
        self.correlation = stats.overlap_correlation(list(study.spans.values()))
        labels = stats.blocks_of(self.correlation)
        self.blocks = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        self.controls = _controls(study)
        memory = [row for row in study.rows if row.kind == MEMORY]
        for dose in sorted({row.dose for row in memory}):
            own = [row for row in memory if row.dose == dose]
            self.bright[dose] = _table(own, BRIGHT, study.spans)
            self.hidden[dose] = _table(own, HIDDEN, study.spans)[:, :1]

        self.doses = list(self.bright)

    def at(self, dose: float) -> FloatArray:
        """Return the premiums at a dose, [windows, seeds]."""
        premiums: FloatArray = self.bright[dose] - self.hidden[dose]
        return premiums

    @property
    def windows(self) -> int:
        """Number of windows."""
        return len(self.correlation)

    def test(self, alpha: float) -> RankTest:
        """Return the signed-rank test of the premium, over windows that share days in the same
        pattern as the study's windows.
        """
        return RankTest(alpha, pattern_of(self.correlation))

    def is_found(self, premiums: FloatArray, alpha: float) -> bool:
        """Return whether the premiums of one study, [windows], are significant."""
        p = rank_test_of(premiums, self.correlation).p
        return p is not None and p <= alpha

    def drawn_windows(self, chance: np.random.Generator) -> Indices:
        """Return windows resampled with replacement; windows that share days are drawn together."""
        count = len(self.blocks)
        return np.concatenate([self.blocks[index] for index in chance.integers(count, size=count)])


def _table(rows: Sequence[DoseRow], mask: str, windows: Iterable[str]) -> FloatArray:
    """Return the returns under one mask, [windows, seeds].

    Raises DataError if a cell is missing.
    """
    cells = {(row.window, row.seed): row.value for row in rows if row.mask == mask}
    windows = list(windows)
    seeds = sorted({seed for _, seed in cells})
    table = np.full((len(windows), len(seeds)), np.nan)
    for (window, seed), value in cells.items():
        table[windows.index(window), seeds.index(seed)] = value

    if not cells or np.isnan(table).any():
        raise DataError(f"{mask}: not every seed has every window")

    return table


def _controls(study: DoseStudy) -> list[FloatArray]:
    """Return the premiums in each control study, [windows]."""
    controls = [row for row in study.rows if row.kind == CONTROL]
    studies = []
    for seed in sorted({row.seed for row in controls}):
        own = [row for row in controls if row.seed == seed]
        bright = _table(own, BRIGHT, study.spans)
        studies.append((bright - _table(own, HIDDEN, study.spans))[:, 0])

    return studies


# ---- effect by dose


def effect_sizes(premiums: Mapping[float, FloatArray]) -> FloatArray:
    """Return the effect size at each dose, [doses]: the mean premium divided by the spread of a
    window's premium. An effect size is infinite if the spread is 0. Effect sizes are made
    non-decreasing in the dose, because a larger dose contains every smaller dose.
    """
    sizes = []
    for table in premiums.values():
        sd = table.std(ddof=1) if table.size > 1 else 0.0
        mean = table.mean()
        if sd > 0:
            sizes.append(mean / sd)
        else:
            sizes.append(math.inf if mean > 0 else 0.0)

    return np.maximum.accumulate(np.array(sizes))


def limit_of(doses: Sequence[float], sizes: FloatArray, needed: float | None) -> float | None:
    """Return the smallest dose whose effect size is at least `needed`, interpolated on the
    logarithm of the dose, or None if no dose is sufficient. The result is never below the smallest
    dose above 0.
    """
    if needed is None:
        return None

    previous: tuple[float, float] | None = None
    for dose, size in zip(doses, sizes, strict=True):
        if dose <= 0:
            continue
        if size >= needed:
            if previous is None or not math.isfinite(size):
                return dose

            share = (needed - previous[1]) / (size - previous[1])
            return float(previous[0] * (dose / previous[0]) ** share)

        previous = (dose, float(size))

    return None


def size_at(doses: Sequence[float], sizes: FloatArray, dose: float) -> float:
    """Return the effect size at any dose. Between the doses in `doses`, the effect size is
    interpolated on the logarithm of the dose. Below the smallest of these doses, the effect size is
    proportional to the dose.
    """
    positive = [one for one in doses if one > 0]
    of_positive = sizes[len(doses) - len(positive) :]
    if dose <= positive[0]:
        return float(of_positive[0] * dose / positive[0])

    return float(np.interp(math.log(dose), np.log(positive), of_positive))


def drawn_sizes(premiums: Premiums, seed: int = 0, draws: int = _DRAWS) -> list[FloatArray]:
    """Return the effect sizes in resampled studies. Windows, and seeds within each dose, are drawn
    with replacement. Windows that share days are drawn together.
    """
    chance = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        windows = premiums.drawn_windows(chance)
        tables = {}
        for dose in premiums.doses:
            table = premiums.at(dose)
            seeds = chance.integers(table.shape[1], size=table.shape[1])
            tables[dose] = table[np.ix_(windows, seeds)]

        drawn.append(effect_sizes(tables))

    return drawn


def interval_of(values: Sequence[float | None], alpha: float) -> tuple[float | None, float | None]:
    """Return the percentile interval, treating None as infinity. An end is None if it is
    infinite.
    """
    ordered = sorted(math.inf if value is None else value for value in values)
    last = len(ordered) - 1
    low = ordered[round(alpha / 2 * last)]
    high = ordered[round((1 - alpha / 2) * last)]

    return (low if math.isfinite(low) else None, high if math.isfinite(high) else None)


# ---- the report


def dose_report(study: DoseStudy, alpha: float = 0.05, wanted: float = 0.8) -> DoseReport:
    """Return the report of a study.

    Raises DataError if not every seed has every window.
    """
    premiums = Premiums(study)
    sizes = effect_sizes({dose: premiums.at(dose) for dose in premiums.doses})
    drawn = drawn_sizes(premiums)
    lines = [
        _dose_line(premiums, dose, size, alpha)
        for dose, size in zip(premiums.doses, sizes, strict=True)
    ]
    levels = (alpha, wanted)
    limits = [effects_limit(premiums, sizes, drawn, count, levels) for count in WINDOWS_SHOWN]
    limits += _cutoff_limits(study.rows, alpha, wanted)
    limits += _probe_limits(alpha, wanted)

    hidden = np.hstack([premiums.hidden[dose] for dose in premiums.doses])
    return DoseReport(
        alpha=alpha,
        wanted=wanted,
        doses=lines,
        limits=limits,
        false_alarms=_false_alarms(premiums, alpha),
        curves=list(_curves(premiums, alpha)),
        hidden_spread=float(np.ptp(hidden, axis=1).max()),
        notes=[],
    )


def _dose_line(premiums: Premiums, dose: float, size: float, alpha: float) -> DoseLine:
    table = premiums.at(dose)
    by_window = table.mean(axis=1)
    mean = stats.estimate_mean(by_window, premiums.correlation, 1.0 - alpha)
    found = 0
    for column in table.T:
        if column.mean() > 0 and premiums.is_found(column, alpha):
            found += 1

    is_finite = math.isfinite(size)
    if not table.any():
        power = 0.0  # all premiums are 0, so no test can be significant
    else:
        power = premiums.test(alpha).power(_finite(size), premiums.windows)

    return DoseLine(
        dose=dose,
        windows=len(table),
        seeds=table.shape[1],
        bright=float(premiums.bright[dose].mean()),
        hidden=float(premiums.hidden[dose].mean()),
        premium=float(by_window.mean()),
        low=mean.low,
        high=mean.high,
        sd=float(table.std(ddof=1)),
        effect_sd=size if is_finite else None,
        found=found,
        power=power,
    )


def effects_limit(
    premiums: Premiums,
    sizes: FloatArray,
    drawn: Sequence[FloatArray],
    windows: int,
    levels: tuple[float, float],
) -> LimitLine:
    """Return the smallest dose that the premium's test detects with `windows` windows, at the
    significance level and power in `levels`.
    """
    alpha, wanted = levels
    needed = premiums.test(alpha).effect(windows, wanted)
    limit = limit_of(premiums.doses, sizes, needed)
    low, high = None, None
    if len(premiums.blocks) > 1:  # with a single block, every resample equals the study
        low, high = interval_of([limit_of(premiums.doses, one, needed) for one in drawn], alpha)

    smallest = next(dose for dose in premiums.doses if dose > 0)
    reason = None
    if needed is None:
        reason = f"{windows} such windows can't give a significant result"
    elif limit is None:
        reason = _NOT_EVEN_ALL

    return LimitLine(
        detector="effects",
        count=windows,
        unit="windows",
        limit=limit,
        low=low,
        high=high,
        is_below=limit == smallest,
        reason=reason,
    )


def probe_power(dose: float, probes: int, baseline: float, alpha: float) -> float:
    """Return the probability of detecting a memory that correctly names the facts that it remembers
    and never guesses. The memory is detected if it gives more correct answers than a random guesser
    gives with probability `1 - alpha`.
    """
    bar = binom.ppf(1.0 - alpha, probes, baseline)
    return float(binom.sf(bar, probes, dose))


def probe_limit(probes: int, baseline: float, alpha: float, wanted: float) -> float | None:
    """Return the smallest share of remembered facts that `probes` probes detect with probability
    `wanted`, to within 0.001 %. Return None if even a full memory is not detected.
    """
    if probe_power(1.0, probes, baseline, alpha) < wanted:
        return None

    low = 0.0
    high = 1.0
    while high - low > 1e-5:
        middle = (low + high) / 2
        if probe_power(middle, probes, baseline, alpha) < wanted:
            low = middle
        else:
            high = middle

    return high


def _probe_limits(alpha: float, wanted: float) -> Iterator[LimitLine]:
    for what, baseline in (("stock", STOCK_BASELINE), ("stock and day", JOINT_BASELINE)):
        for probes in PROBES_SHOWN:
            limit = probe_limit(probes, baseline, alpha, wanted)
            yield LimitLine(
                detector=f"probes: {what}",
                count=probes,
                unit="probes",
                limit=limit,
                reason=None if limit is not None else _NOT_EVEN_ALL,
            )


def _cutoff_limits(rows: Sequence[DoseRow], alpha: float, wanted: float) -> Iterator[LimitLine]:
    """Yield the smallest dose that `compare cutoff` detects at a planted cutoff, for several
    numbers of windows. A dose is detected if the difference at the cutoff is large enough, in
    standard errors, for the interval to exclude 0 with probability `wanted`. Standard errors are
    assumed to be inversely proportional to the square root of the number of windows.
    """
    added = _by_dose(rows, CUTOFF)
    errors = _by_dose(rows, CUTOFF_ERROR)
    if not added:
        return

    needed = normal_effect(1.0, 1, alpha, wanted)
    doses = sorted(added)
    ratios = np.array([added[dose] / errors[dose] for dose in doses])
    for windows in CUTOFF_WINDOWS:
        sizes = np.maximum.accumulate(ratios * math.sqrt(windows / STUDY_WINDOWS))
        limit = limit_of(doses, sizes, needed)
        yield LimitLine(
            detector="cutoff",
            count=windows,
            unit="windows",
            limit=limit,
            is_below=limit == doses[0],
            reason=None if limit is not None else _NOT_EVEN_ALL,
        )


def _by_dose(rows: Sequence[DoseRow], kind: str) -> dict[float, float]:
    """Return the mean of one kind of figure over seeds, by dose."""
    values: dict[float, list[float]] = {}
    for row in rows:
        if row.kind == kind:
            values.setdefault(row.dose, []).append(row.value)

    return {dose: float(np.mean(of_seeds)) for dose, of_seeds in values.items()}


def _false_alarms(premiums: Premiums, alpha: float) -> AlarmLine:
    alarms = sum(premiums.is_found(study, alpha) for study in premiums.controls)
    studies = len(premiums.controls)
    if not studies:
        return AlarmLine(alarms=0, studies=0, reason="no control was run")

    half = 1.0 - alpha / 2
    return AlarmLine(
        alarms=alarms,
        studies=studies,
        value=alarms / studies,
        # the lower bound for hits is 1 minus the upper bound for misses
        low=1.0 - stats.clopper_pearson_upper(studies - alarms, studies, half),
        high=stats.clopper_pearson_upper(alarms, studies, half),
    )


def _curves(premiums: Premiums, alpha: float) -> Iterator[CurveLine]:
    """Yield a curve for each dose: how well its resampled studies are separated from the controls.
    The score of a study is the mean premium divided by its standard error.
    """
    nulls = np.array([_standardise_mean(study) for study in premiums.controls])
    if not nulls.size:
        return

    chance = np.random.default_rng(0)
    # The same resampled controls are used for each dose.
    again = chance.integers(len(nulls), size=(_DRAWS, len(nulls)))
    for dose in premiums.doses:
        if dose <= 0:
            continue

        scores = _drawn_scores(premiums, dose, chance)
        # For each control: the share of studies with a higher score; ties count half.
        higher = (scores[:, None] > nulls).mean(axis=0) + 0.5 * (scores[:, None] == nulls).mean(
            axis=0
        )
        drawn = higher[again].mean(axis=1)
        ends = np.quantile(drawn, [alpha / 2, 1 - alpha / 2])
        bars = np.quantile(nulls, [1 - rate for rate in _FALSE_RATES], method="higher")
        yield CurveLine(
            dose=dose,
            windows=len(premiums.controls[0]),
            auc=float(higher.mean()),
            low=float(ends[0]),
            high=float(ends[1]),
            false_rates=_FALSE_RATES,
            true_rates=tuple(float((scores > bar).mean()) for bar in bars),
        )


def _drawn_scores(premiums: Premiums, dose: float, chance: np.random.Generator) -> FloatArray:
    """Return the scores, [studies], of studies whose windows and seeds are drawn with
    replacement.
    """
    table = premiums.at(dose)
    scores = []
    for _ in range(_STUDIES):
        rows = premiums.drawn_windows(chance)
        columns = chance.integers(table.shape[1], size=len(rows))
        scores.append(_standardise_mean(table[rows, columns]))

    return np.array(scores)


def _standardise_mean(study: FloatArray) -> float:
    """Return the mean divided by its standard error. If the spread is 0, the result is infinite, or
    0 if the mean is also 0.
    """
    sd = float(study.std(ddof=1))
    mean = float(study.mean())
    if sd > 0:
        return mean / sd * math.sqrt(len(study))
    return math.copysign(math.inf, mean) if mean else 0.0


# ---- before a run


@dataclass(frozen=True, kw_only=True)
class MemoryPower:
    """Power of a plan to detect a memory, based on the study that is shipped with the package."""

    memory: float  #: share of facts
    windows: int
    #: number of windows without shared days that would give the same amount of information
    effective_windows: float
    alpha: float
    wanted: float
    power: float
    low: float  #: lower end of the interval for the power, over resampled windows
    high: float
    limit: LimitLine
    probes: Sequence[LimitLine]


def memory_power(
    study: DoseStudy, memory: float, windows: int, alpha: float, wanted: float
) -> MemoryPower:
    """Return the power of `windows` windows to detect a memory of a given share of facts."""
    premiums = Premiums(study)
    test = premiums.test(alpha)
    sizes = effect_sizes({dose: premiums.at(dose) for dose in premiums.doses})
    drawn = drawn_sizes(premiums)
    # Power increases with the effect, so the ends of the effect's interval give the ends of the
    # power's interval.
    of_memory = [size_at(premiums.doses, one, memory) for one in drawn]
    ends = np.quantile(of_memory, [alpha / 2, 1 - alpha / 2], method="nearest")
    low, high = (test.power(_finite(end), windows) for end in ends)
    return MemoryPower(
        memory=memory,
        windows=windows,
        alpha=alpha,
        wanted=wanted,
        effective_windows=test.effective(windows),
        power=test.power(_finite(size_at(premiums.doses, sizes, memory)), windows),
        low=low,
        high=high,
        limit=effects_limit(premiums, sizes, drawn, windows, (alpha, wanted)),
        probes=[line for line in _probe_limits(alpha, wanted) if line.detector.endswith("day")],
    )


def _finite(size: float) -> float:
    """Return an effect size that a simulation can use. The size is capped at 64 standard
    deviations, an effect that is always detected.
    """
    return min(size, 64.0)
