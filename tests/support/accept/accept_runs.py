"""Whole runs through the command line, and their records, read back for acceptance
tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

from ktdeval.cli.main import main
from ktdeval.harness.chat_messages import ToolSpec
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.plans.data_source import open_snapshot
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.trading.ledger import Ledger
from ktdeval.values import loads_strict
from support.runs.run_support import SAME_MASK

PLUGINS = load_plugins()
MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")
TASKS = tuple(f"{mask}_{mode}" for mask, mode in product(MASKS, MODES))
HIDES_ASSETS = ("stock_blind", "blinded")
HIDES_DATES = ("date_blind", "blinded")
REAL = {
    "bars": "csi300_ever_daily.parquet",
    "benchmark": "index_daily.csv.gz",
    "members": "csi300_members_by_rebalance.csv",
    "industry": "stock_industry.csv",
}
"""Files of the real A-share market by the option that imports them."""


def evaluate(out: Path, model: str, tasks: Sequence[str], *words: str) -> RunFolder:
    """`ktdeval --model … --tasks … --out …` to its end, all episodes finished; returns the run
    folder.
    """
    arguments = [
        "--model",
        model,
        "--tasks",
        ",".join(tasks),
        "--out",
        str(out),
        "--quiet",
        *SAME_MASK,
        *words,
    ]

    assert silently(arguments) == 0, arguments

    folder = RunFolder.load(out)
    assert all(folder.is_complete(spec) for spec in folder.manifest.specs)

    return folder


def ledgers(folder: RunFolder) -> Iterator[tuple[EpisodeSpec, Ledger]]:
    """Every episode of a run with its ledger."""
    return ((spec, folder.load_ledger(spec)) for spec in folder.manifest.specs)


def card(folder: RunFolder, task: str) -> dict[str, Any]:
    """The result card of one task."""
    value: dict[str, Any] = loads_strict((folder.path / "cards" / f"{task}.json").read_bytes())
    return value


def verify(path: Path) -> None:
    """`ktdeval card verify`, the card alone and by its records, on a run folder: all its cards."""
    assert silently(["card", "verify", "--card-only", str(path)]) == 0
    assert silently(["card", "verify", str(path)]) == 0


def silently(arguments: Sequence[str]) -> int:
    """Run the command line without its tables, which would bury a failure's message."""
    with redirect_stdout(StringIO()):
        return main(arguments)


def conversations(entry: TranscriptEntry) -> Iterator[list[dict[str, Any]]]:
    """The whole list of messages of each model call of one transcript line, put together from what
    is kept and what is new.
    """
    previous: list[dict[str, Any]] = []

    for exchange in entry.exchanges:
        assert 0 <= exchange["kept"] <= len(previous)
        previous = [*previous[: exchange["kept"]], *exchange["sent"]]
        yield previous


def offered_tools(spec: EpisodeSpec, market: MarketSnapshot) -> tuple[ToolSpec, ...]:
    """The tools of an episode as a model is told of them in each request: those of research, then
    the one to submit with.
    """
    task = PLUGINS.make_task(spec.task)
    research = (tool.spec for tool in PLUGINS.tools(task.tools))
    at_book = task.mode == "memory_only"
    form = ActionForm(task.harness, task.scene(spec, market).lens, weights_only=at_book)

    return (*research, form.tool)


def synthetic() -> MarketSnapshot:
    """The embedded market."""
    return open_snapshot(PLUGINS, "synthetic", {})


def import_real(shared_data: Path, out: Path) -> Path:
    """The real A-share market, imported with the command that docs/data.md gives."""
    words = []
    for name, file in REAL.items():
        words += [f"--{name}", str(shared_data / "a_share" / file)]

    columns = "open=raw_open,high=raw_high,low=raw_low,close=raw_close"

    assert silently(["data", "make", "long", *words, "--map", columns, "--out", str(out)]) == 0

    return out
