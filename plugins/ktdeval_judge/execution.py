"""Execute a plan as an ordinary run, with a task, a folder and a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktdeval.errors import StoreError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import DECLARED_FILE, RunConfig, RunFolder, evaluate
from ktdeval.trading import AccountConfig, Ledger, TradingConfig
from ktdeval.values import JsonValue, build, content_hash, dumps_pretty, plain, write_atomic
from ktdeval_judge.decisions_model import MODEL, keep_plan
from ktdeval_judge.market_plan import MarketPlan

BASE_TASK = "market_bright"
WINDOW = "declared"
#: nothing is masked, and with a fixed key the same file always gives the same run
MASK_KEY = "0" * 32
_MAX_POSITIONS = 100_000


@dataclass(frozen=True, kw_only=True)
class JudgeRules:
    """Account and rules under which a file is judged."""

    cash: int
    venue: str | None = None  #: if None, each asset's own venue
    execution: str | None = None
    changes: Mapping[str, Any] | None = None  #: additional `trading` options, nested

    def options(self) -> dict[str, Any]:
        """Return the `trading` options for the task."""
        changes = dict(self.changes or {})
        own: dict[str, Any] = {
            "initial_cash": self.cash,
            "max_positions": _MAX_POSITIONS,
            "max_weight": 1.0,
            "constraint_feedback": False,
        }
        if self.venue is not None:
            own["venue"] = self.venue
        if self.execution is not None:
            own["execution"] = self.execution
        return {**own, **changes}

    def trading(self, plugins: Plugins) -> TradingConfig:
        """Return the executor's configuration. Raises ConfigError if an option or value is not
        known, or if costs are given without a venue.
        """
        options = self.options()
        if self.venue is not None:
            plugins.make_venue(self.venue)  # raises an error that lists the venues
        return build(AccountConfig, options, "--set").rules("--set")


@dataclass(frozen=True)
class Executed:
    """A finished run of a plan."""

    folder: Path
    task: str
    card: Path
    ledger: Ledger


def window_of(made: MarketPlan, snapshot: MarketSnapshot) -> tuple[str, str]:
    """Return the first and the last fill day."""
    return str(snapshot.days[made.first_row + 1]), str(snapshot.days[made.last_row])


def execute_plan(
    made: MarketPlan,
    rules: JudgeRules,
    config: Mapping[str, Any],
    snapshot: MarketSnapshot,
    plugins: Plugins,
) -> Executed:
    """Run a plan and return the run's records. `config` has the run's `data`, `data_args` and
    `out`.

    Raises the KtdevalErrors that a run raises.
    """
    if made.last_row <= made.first_row:
        raise UsageError(
            "the market ends on the day of the first decision, so nothing can be filled"
        )

    kept = keep_plan(made.plan)
    first, last = window_of(made, snapshot)
    name, text = task_file(rules, first, last)
    # a permanent path, so that a later judgement with the same plugins can read the file again
    path = kept.with_name(f"{name}.yaml")
    write_atomic(path, text)
    if name not in plugins.specs("tasks"):
        plugins.add_task_file(str(path))

    run = RunConfig(
        model=MODEL,
        model_args={"sha256": made.plan.sha256},
        tasks=(name,),
        mask_key=MASK_KEY,
        quiet=True,
        **config,
    )
    result = evaluate(run, plugins)
    if result.failed or not result.cards:
        reasons = "; ".join(str(each.error) for each in result.failed)
        raise StoreError(f"{result.folder}: the run did not finish: {reasons}")

    write_atomic(result.folder / DECLARED_FILE, kept.read_bytes())
    folder = RunFolder.load(result.folder)
    spec = next(spec for spec in folder.manifest.specs if spec.task == name)
    return Executed(result.folder, name, result.cards[0], folder.load_ledger(spec))


def task_file(rules: JudgeRules, first: str, last: str) -> tuple[str, str]:
    """Return the name and text of the task for these rules and days. They depend on nothing else,
    so that two files judged under the same task are comparable.
    """
    variant: dict[str, JsonValue] = {
        "extends": BASE_TASK,
        "summary": f"Declared decisions, {first} to {last}",
        "windows": {WINDOW: {"first": first, "last": last, "regime": "declared"}},
        "default_windows": [WINDOW],
        # The decisions are already made, so no prompt is shown to a model.
        "shown": 1,
        "trading": plain(rules.options()),
    }
    name = f"declared_{content_hash(variant)[:8]}"
    file: dict[str, JsonValue] = {
        "family": "declared",
        "version": "1",
        "summary": "Decisions made elsewhere",
        "variants": {name: variant},
    }
    return name, dumps_pretty(file)
