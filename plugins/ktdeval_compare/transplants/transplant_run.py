"""Execute a run's decisions with several capitals. Reads the run's folder, and writes the
transplant's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ktdeval.errors import DataError, UsageError, wrap_os_error
from ktdeval.market import Execution, find_execution, presets
from ktdeval.registry import Plugins
from ktdeval.runner import (
    MANIFEST,
    TRANSPLANT,
    TRANSPLANT_VERSION,
    RunFolder,
    TransplantFile,
    capital_folder,
    load_transplant,
    open_run,
    recorded_market,
    transplant_beside,
)
from ktdeval.task_api import Task
from ktdeval.trading import OrderRecord, TradingConfig
from ktdeval.values import (
    JsonValue,
    Tell,
    check_output,
    dumps_pretty,
    file_sha256,
    near_matches,
    tell_nobody,
    temporary_folder,
    to_mapping,
    to_plain,
    write_atomic,
)
from ktdeval_compare.transplants.transplant_figures import MEASURES, break_even, capital_line
from ktdeval_compare.transplants.transplant_plot import curve_svg
from ktdeval_compare.transplants.transplanter import (
    WEIGHT_TOLERANCE,
    TransplantedTask,
    Transplanter,
    trading_tasks,
)
from ktdeval_compare.unread_orders import unread_notes

_USUAL_STEPS = (1, 10, 100)  #: multiples of the run's own capital, if no capital is given


@dataclass(frozen=True, kw_only=True)
class TransplantSettings:
    """Decisions to execute again, and conditions of their execution."""

    #: if empty, the multiples in `_USUAL_STEPS` of the run's own capital
    capitals: tuple[int, ...] = ()
    execution: str | None = None  #: name of a preset; if None, the run's own execution
    #: half spread in basis points; if None, the half spread of the execution
    spread: float | None = None
    tasks: tuple[str, ...] = ()  #: if empty, all trading tasks
    data: str | None = None  #: folder of the market, if the market has moved

    def execution_of(self, trading: TradingConfig) -> Execution | None:
        """Return the execution model to use instead of the task's own. None means the venue's
        default.

        Raises UsageError if the preset does not exist.
        """
        execution = trading.execution
        if self.execution is not None:
            known = presets()
            if self.execution not in known:
                near = near_matches(self.execution, known) or f"; there are {', '.join(known)}"
                raise UsageError(f"--execution: no preset {self.execution!r}{near}")

            execution = known[self.execution]

        if self.spread is None:
            return execution if execution is None else find_execution(execution)

        base = Execution() if execution is None else find_execution(execution)
        return replace(base, name="own", half_spread_bps=self.spread, spread="fixed")


def load_again(path: Path, settings: TransplantSettings) -> TransplantFile | None:
    """Return the document in a transplant's folder, or None if the folder does not belong to a
    transplant.

    Raises UsageError if any setting differs from its default.
    """
    if not (path / TRANSPLANT).exists():
        return None
    if settings != TransplantSettings():
        raise UsageError(
            f"{path}: is a transplant, which can only be shown; to make another, give the "
            "original run"
        )

    return load_transplant(path)


def transplant_run(
    path: Path,
    settings: TransplantSettings,
    plugins: Plugins,
    out: Path | None = None,
    tell: Tell = tell_nobody,
) -> tuple[TransplantFile, Path]:
    """Execute a run's decisions with each capital. Return the document, and the folder to which it
    was written.

    Raises StoreError if the run has no finished trading episode, DataError if the run's market
    can't be read, and UsageError if a setting is not valid for the run.
    """
    folder = open_run(path, plugins)
    target = transplant_beside(path) if out is None else out
    check_output(target, "new folder", "--out", TRANSPLANT)
    tasks = choose_tasks(trading_tasks(folder, plugins), settings.tasks)
    market = recorded_market(folder, plugins, settings.data, "so nothing can be executed again")
    if isinstance(market, str):
        raise DataError(f"{path}: {market}")

    made: dict[str, list[TransplantedTask]] = {}
    own: dict[str, TradingConfig] = {}
    for task in tasks:
        transplanter = Transplanter(folder, task, market, plugins)
        own[task.name] = task.trading
        execution = settings.execution_of(task.trading)
        changes: dict[str, JsonValue] = {}
        if execution is not None:
            changes["execution"] = to_mapping(execution)

        made[task.name] = []
        for capital in _capitals(settings, task.trading):
            trading = replace(task.trading, initial_cash=capital, execution=execution)
            made[task.name].append(
                transplanter.at(trading, {**changes, "initial_cash": capital}, tell)
            )

    file = _document(folder, made, own)
    with wrap_os_error(f"{target}: can't write", "choose another folder with --out"):
        _write(target, file, made)

    return file, target


def choose_tasks(tasks: Sequence[Task], names: Sequence[str]) -> list[Task]:
    """Return the tasks with these names, or all tasks if no names are given.

    Raises UsageError if the run lacks a named task.
    """
    known = {task.name: task for task in tasks}
    for name in names:
        if name not in known:
            raise UsageError(
                f"--tasks: no trading task {name!r} in this run{near_matches(name, known)}"
            )

    return [task for name, task in known.items() if not names or name in names]


def _capitals(settings: TransplantSettings, trading: TradingConfig) -> list[int]:
    named = settings.capitals or tuple(trading.initial_cash * step for step in _USUAL_STEPS)
    return sorted(set(named))


def _document(
    folder: RunFolder,
    made: dict[str, list[TransplantedTask]],
    own: dict[str, TradingConfig],
) -> TransplantFile:
    first = folder.manifest.specs[0]
    everything = [each for of_task in made.values() for each in of_task]
    found = []
    for of_task in made.values():
        found += [break_even(of_task, measure) for measure in MEASURES]

    return TransplantFile(
        version=TRANSPLANT_VERSION,
        run=folder.path.resolve().name,
        manifest_sha256=file_sha256(folder.path / MANIFEST),
        model=first.model,
        agent=first.agent,
        own_capital={task: trading.initial_cash for task, trading in own.items()},
        execution={task: _describe_trading(each[0].trading) for task, each in made.items()},
        own_execution={task: _describe_trading(trading) for task, trading in own.items()},
        weight_tolerance=WEIGHT_TOLERANCE,
        lines=tuple(map(capital_line, everything)),
        break_even=tuple(found),
        notes=tuple(dict.fromkeys(_notes(everything))),
    )


def _describe_trading(trading: TradingConfig) -> dict[str, JsonValue] | None:
    return None if trading.execution is None else to_mapping(trading.execution)


def _notes(made: Sequence[TransplantedTask]) -> list[str]:
    notes = ["transplanted: the model saw the fills of its run, not these; never ranked"]
    for each in made:
        for window, reason in (each.card.left_out or {}).items():
            notes.append(f"{each.card.task.name}: window {window} is left out: {reason}")

    if any(map(_is_by_shares, _orders(made))):
        notes.append("orders by shares are scaled by the capital, in whole lots")

    # every capital has the same orders
    capital = min((each.trading.initial_cash for each in made), default=0)
    first = [each for each in made if each.trading.initial_cash == capital]
    unread = [
        f"{order.side} {order.stock_id or '(no text)'!r}"
        for order in _orders(first)
        if order.code is None
    ]
    return notes + unread_notes(unread)


def _is_by_shares(order: OrderRecord) -> bool:
    return order.shares is not None and order.target_weight is None


def _orders(made: Sequence[TransplantedTask]) -> Iterator[OrderRecord]:
    for each in made:
        for episode in each.episodes:
            for step in episode.ledger.steps:
                yield from step.orders


def _write(out: Path, file: TransplantFile, made: dict[str, list[TransplantedTask]]) -> None:
    """Write the complete folder. Any earlier transplant in it is replaced."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{out.name}.new-", out.parent) as temporary:
        fresh = temporary / "content"
        fresh.mkdir()
        for of_task in made.values():
            for each in of_task:
                place = capital_folder(fresh, each.trading.initial_cash)
                for episode in each.episodes:
                    target = place / episode.path
                    target.parent.mkdir(parents=True, exist_ok=True)
                    write_atomic(target, episode.encode())

                (place / "cards").mkdir(parents=True, exist_ok=True)
                text = dumps_pretty(each.card.plain)
                write_atomic(place / "cards" / f"{each.card.task.name}.json", text)

        svg = curve_svg(file)
        if svg is not None:
            write_atomic(fresh / "curve.svg", svg)

        write_atomic(fresh / TRANSPLANT, dumps_pretty(to_plain(file)))
        if out.exists():
            out.rename(temporary / "before")

        fresh.rename(out)
