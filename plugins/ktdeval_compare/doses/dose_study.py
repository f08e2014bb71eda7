"""Episodes for the detection limit for memory: `builtin/memory` at several doses and under several
masks, and a control without knowledge. A study can be resumed: runs that are already finished in
the folder are not repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ktdeval.cli import check_finished, run_shown
from ktdeval.errors import DataError, UsageError
from ktdeval.registry import Plugins
from ktdeval.runner import RunConfig
from ktdeval.values import Tell, derive_seed, tell_nobody, write_atomic
from ktdeval_compare.doses.dose_cutoff import Daily, cutoff_rows, daily_excess
from ktdeval_compare.doses.dose_plot import dose_svg
from ktdeval_compare.doses.dose_response import DoseReport
from ktdeval_compare.doses.dose_rows import (
    BRIGHT,
    CONTROL,
    HIDDEN,
    MEMORY,
    DoseRow,
    DoseStudy,
    write_rows,
)
from ktdeval_compare.pairs.card_markets import CardMarkets
from ktdeval_compare.pairs.compared_cards import EntrantCard, load_entrants, recorded_ledger
from ktdeval_compare.pairs.signed_ranks import Span

MODEL = "builtin/memory"
DOSES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
WINDOWS = tuple(f"W{number}" for number in range(1, 11))
SECONDS_PER_STEP = 0.02
"""On one core, measured on the embedded market."""
_STEPS = 43  # approximate number of steps in one of the task's windows
_MODE = "open_research"


@dataclass(frozen=True, kw_only=True)
class DosePlan:
    """Runs in the study."""

    doses: tuple[float, ...] = DOSES
    seeds: int = 3  #: number of seeds that select which facts are remembered
    windows: tuple[str, ...] = WINDOWS
    masks: tuple[str, ...] = (BRIGHT, HIDDEN)
    controls: int = 0  #: number of seeds for the control without knowledge

    def __post_init__(self) -> None:
        for dose in self.doses:
            if not 0.0 <= dose <= 1.0:
                raise UsageError(f"--doses: {dose:g} is not a share; give doses between 0 and 1")

        for needed in (BRIGHT, HIDDEN):
            if needed not in self.masks:
                raise UsageError(
                    f"--masks: a premium is the bright return minus the blinded return; {needed} "
                    "is missing"
                )

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        runs = sum(len(unit.masks) for unit in self.units())
        return runs * len(self.windows)

    @property
    def core_minutes(self) -> float:
        """Approximate compute time on one core, in minutes."""
        return self.episodes * _STEPS * SECONDS_PER_STEP / 60

    def units(self) -> Iterator[DoseUnit]:
        """Yield the runs: each dose and seed with labels shown, each dose with labels masked, and
        the controls. With labels masked, nothing can be recalled, so one seed per dose is
        sufficient.
        """
        seen = tuple(mask for mask in self.masks if mask != HIDDEN)
        for dose in self.doses:
            # Dose 0 and dose 1 do not depend on the seed.
            seeds = self.seeds if 0.0 < dose < 1.0 else 1
            for seed in range(seeds):
                yield DoseUnit(MEMORY, dose, seed, seen)

        for dose in self.doses:
            yield DoseUnit(MEMORY, dose, 0, (HIDDEN,))

        for seed in range(self.controls):
            yield DoseUnit(CONTROL, 0.0, seed, (BRIGHT, HIDDEN))


@dataclass(frozen=True)
class DoseUnit:
    """One run in the study."""

    kind: str  #: `MEMORY` or `CONTROL`
    dose: float
    seed: int
    masks: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Name of the run's folder."""
        if self.kind == CONTROL:
            return f"control-{self.seed}"
        if HIDDEN in self.masks:
            return f"dose-{self.dose:g}-{HIDDEN}"
        return f"dose-{self.dose:g}-{self.seed}"

    def config(self, out: Path, windows: Sequence[str]) -> RunConfig:
        """Return the config for the run."""
        args: dict[str, float | int | bool] = {"seed": self.seed}
        if self.kind == CONTROL:
            args["invents"] = True
        else:
            args["recall"] = self.dose

        # The control's labels are aliases, drawn separately for each control run.
        key = f"{derive_seed(self.kind, self.seed, bits=128):032x}"
        if self.kind == MEMORY:
            key = "0" * 32

        return RunConfig(
            model=MODEL,
            model_args=args,
            tasks=tuple(f"{mask}_{_MODE}" for mask in self.masks),
            windows=tuple(windows),
            mask_key=key,
            out=str(out / self.folder),
            quiet=True,
        )


def plan_of(
    doses: Sequence[str], seeds: int | None, controls: int | None, windows: Sequence[str]
) -> DosePlan:
    """Return the plan for the given options. Options that are not given have their defaults.

    Raises UsageError if a dose is not a share between 0 and 1.
    """
    plan = DosePlan()
    if doses:
        try:
            shares = tuple(sorted({float(dose) for dose in doses}))
        except ValueError as error:
            raise UsageError(f"--doses: {','.join(doses)}: expected shares such as 0.1") from error

        plan = replace(plan, doses=shares)
    if seeds is not None:
        plan = replace(plan, seeds=seeds)
    if controls is not None:
        plan = replace(plan, controls=controls)
    if windows:
        plan = replace(plan, windows=tuple(windows))

    return plan


def run_study(plan: DosePlan, out: Path, plugins: Plugins, tell: Tell = tell_nobody) -> DoseStudy:
    """Run the units in `out` that are not finished, and return the figures of all episodes.

    Raises KtdevalError if an episode does not finish, or if a folder contains another run.
    """
    excess: dict[tuple[float, int], Daily] = {}
    spans: dict[str, Span] = {}
    rows: list[DoseRow] = []
    units = list(plan.units())
    for done, unit in enumerate(units):
        tell(unit.folder, done, len(units))
        entrants = _run(unit, plan.windows, out, plugins)
        for episode in entrants[0].card.episodes:
            spans[episode.window] = (episode.first_day, episode.last_day)

        rows += _rows(unit, entrants)
        if unit.kind == MEMORY and BRIGHT in unit.masks:
            excess[unit.dose, unit.seed] = _bright_excess(entrants, plugins)

    return DoseStudy([*rows, *cutoff_rows(excess)], spans)


def run_units(
    units: Sequence[DoseUnit], windows: Sequence[str], out: Path, plugins: Plugins
) -> list[DoseRow]:
    """Return the figures of these runs. Raises KtdevalError in the same cases as `run_study`."""
    rows: list[DoseRow] = []
    for unit in units:
        rows += _rows(unit, _run(unit, windows, out, plugins))

    return rows


def _run(
    unit: DoseUnit, windows: Sequence[str], out: Path, plugins: Plugins
) -> Sequence[EntrantCard]:
    """Run a unit unless it is finished, and return its cards."""
    result = run_shown(unit.config(out, windows), plugins)
    check_finished(result)
    return load_entrants([result.folder])


def _rows(unit: DoseUnit, entrants: Sequence[EntrantCard]) -> Iterator[DoseRow]:
    """Yield the figures of a run, one row per episode."""
    base = DoseRow(kind=unit.kind, dose=unit.dose, seed=unit.seed, mask="", window="", value=0.0)
    for entrant in entrants:
        mask = entrant.card.task.mask
        for (window, _), episode in sorted(entrant.episodes().items()):
            value = episode.metrics["total_return"].value
            if value is None:
                raise UsageError(
                    f"{entrant.path}: no return in {window}, so there is nothing to compare"
                )

            yield replace(base, mask=mask, window=window, value=value)


def _bright_excess(
    entrants: Sequence[EntrantCard], plugins: Plugins
) -> dict[str, dict[str, float]]:
    """Return the daily excess returns of a run with labels shown, by window."""
    excess = {}
    markets = CardMarkets("no excess over the benchmark", plugins=plugins)
    for entrant in entrants:
        if entrant.card.task.mask != BRIGHT:
            continue

        market = markets.need(entrant)
        for episode in entrant.card.episodes:
            ledger = recorded_ledger(entrant, episode.id)
            if isinstance(ledger, str):
                raise DataError(f"{entrant.path}: {ledger}")

            excess[episode.window] = daily_excess(ledger, market)

    return excess


def write_study(out: Path, rows: Sequence[DoseRow], report: DoseReport) -> None:
    """Write the figures of all episodes. If vl-convert is installed, also write the plot of the
    report.
    """
    write_atomic(out / "dose-response.csv", write_rows(rows).encode())
    plot = dose_svg(report)
    if plot is not None:
        write_atomic(out / "dose-response.svg", plot)
