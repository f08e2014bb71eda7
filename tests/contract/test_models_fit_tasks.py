"""Every built-in model on every built-in task: it can act, or it is refused before the first step with what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ktdeval.config import RunConfig
from ktdeval.errors import UsageError
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.data_source import open_market
from ktdeval.runner.execute import EpisodeFactory
from ktdeval.runner.plan import choose_tasks, make_plan
from ktdeval.runner.preflight import check_model

PLUGINS = load_plugins()
TASKS = sorted(PLUGINS.specs("tasks"))
MODELS = sorted(name for name in PLUGINS.specs("models") if name.startswith("builtin/"))
ARGS: dict[str, dict[str, Any]] = {"builtin/linear_factor": {"coefficients": "MOM_12_1:1"}}
MARKETS = {
    "investorbench": "synthetic_investorbench",
    "ama": "synthetic_arena",
    "views": "synthetic_views",
    "deepfund": "synthetic_deepfund",
}
MINUTES = {"data": "synthetic_mixed", "data_args": {"first": "2024-02-01", "last": "2024-04-10", "minute_days": 12}}

BARS = "atr bollinger kdj_rsi macd mean_reversion sma_cross zigzag"
RANKS = "equal_weight linear_factor low_volatility momentum reversal"
SHOWN = f"buy_and_hold chaos first_listed hold memory random {RANKS}"

#: what fits a family with the agent `react`; the first pattern that a task's name ends or begins with counts
FIT = {
    "_memory_only": "chaos first_listed hold memory random",
    "_open_research": f"chaos hold memory random {RANKS}",
    "views_blinded": f"{SHOWN} {BARS} tally",
    "_history_bright": f"{SHOWN} {BARS} turn_of_month",
    "ama_btc_bright": f"{SHOWN} {BARS} turn_of_month",
    "ama_tsla_bright": f"{SHOWN} {BARS} turn_of_month",
    "_history": f"{SHOWN} {BARS}",
    "ama_": f"{SHOWN} {BARS}",
    "deanon_": "chaos",
    "qfinzero_": "chaos",
}


def fit(task: str) -> set[str]:
    """Models that fit a task, without `builtin/`."""
    return set(next((names for part, names in FIT.items() if task.startswith(part) or task.endswith(part)), SHOWN).split())


class Asked:
    """One task's plan and episodes, on the market of its family."""

    _markets: ClassVar[dict[str, MarketSnapshot | None]] = {}

    def __init__(self, task: str, agent: str = "react") -> None:
        self.task = task
        family = PLUGINS.spec("tasks", task).groups[0]
        has_market = "qfinzero" not in task
        data: dict[str, Any] = {"data": MARKETS[family]} if family in MARKETS else {}
        if "minutes" in task:
            data = MINUTES
        windows: tuple[str, ...] = () if family in MARKETS or not has_market else ("W1",)
        if family == "markets":
            windows = ("2024-04-01:2024-04-05",)
        config = RunConfig(model="builtin/hold", tasks=(task,), agent=agent, limit=3, windows=windows, **data)
        tasks = choose_tasks(config, PLUGINS)
        if repr(data) not in self._markets and has_market:
            self._markets[repr(data)] = open_market(PLUGINS, config, tasks.values())
        snapshot = self._markets[repr(data)] if has_market else None
        self.specs = make_plan(config, PLUGINS, tasks, snapshot, None).specs
        self.factory = EpisodeFactory(tasks, PLUGINS, snapshot)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Each model that is refused, with the words."""
        for name in MODELS:
            try:
                check_model(name, PLUGINS.make_model(name, ARGS.get(name, {})), self.specs, lambda: self.factory, PLUGINS)
            except UsageError as error:
                yield name, str(error)


def check(task: str) -> None:
    refused = dict(Asked(task).refusals())
    assert {name.removeprefix("builtin/") for name in MODELS} - {name.removeprefix("builtin/") for name in refused} == fit(task)
    fitting = sorted(f"builtin/{name}" for name in fit(task) - {"chaos", "linear_factor"})
    for name, said in refused.items():
        assert said.startswith(f"{name} ")
        assert said.endswith(f"; models that fit: {', '.join(fitting) or 'none that is built in'}")
        assert f"task {task} " in said
        assert "\n" not in said


#: one task of each form of prompt
FORMS = ("blinded_open_research", "blinded_fixed_candidate", "blinded_memory_only", "market_blinded", "investorbench_msft",
         "investorbench_msft_history_bright", "views_blinded", "deanon_probe")  # fmt: skip


@pytest.mark.parametrize("task", FORMS)
def test_a_model_acts_or_is_refused_with_what_it_needs_and_what_fits(task: str) -> None:
    check(task)


@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task in TASKS if task not in FORMS])
def test_so_does_it_on_every_other_task(task: str) -> None:
    check(task)


def test_a_model_that_learns_from_lessons_needs_an_agent_that_asks_about_them() -> None:
    for agent, is_refused in (("react", True), ("finmem", False)):
        assert ("builtin/recall" in dict(Asked("investorbench_msft", agent).refusals())) == is_refused


@pytest.mark.parametrize(
    ("model", "needs"),
    [
        ("buy_and_hold", "needs a table of candidates in the prompt; task blinded_open_research shows"),
        ("recall", "needs news of one asset, and lessons of a warm-up from an agent that remembers, such as finmem; task"),
        ("tally", "needs candidates, and documents in the words of the market synthetic_views; task"),
    ],
)
def test_run_and_plan_refuse_before_the_first_step(model: str, needs: str, tmp_path: Path, terminal: Any) -> None:
    words = ["--model", f"builtin/{model}", "--tasks", "blinded_open_research", "--windows", "W1", "--out", tmp_path / "run"]
    for command in (["run"], ["plan"]):
        printed = terminal.error(*command, *map(str, words))
        assert f"builtin/{model} {needs}" in printed
        assert "models that fit: builtin/equal_weight, " in printed
    assert not (tmp_path / "run").exists()
