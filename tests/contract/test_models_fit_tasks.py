"""Every built-in model on every built-in task: it can act, or it is refused before the first step
with what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ConfigError, UsageError
from ktdeval.runner import open_snapshot
from ktdeval.runner.rehearsals.model_task_fit import check_model
from ktdeval.runner.rehearsals.rehearsal import rehearse
from ktdeval.task_api import is_scoring
from ktdeval.testing import not_empty
from ktdeval_board.baselines import train_coefficients
from ktdeval_board.init import DEFAULT_BASELINES, BegunBoard, NewBoard, init_board
from support.tasks.planned_tasks import PLUGINS, TASKS, market_of, planned

MODELS = sorted(name for name in PLUGINS.specs("models") if name.startswith("builtin/"))
ARGS: dict[str, dict[str, Any]] = {
    "builtin/linear_factor": {"coefficients": "MOM_12_1:1"},
    "builtin/script": {"file": str(Path(__file__).with_name("test_models_fit_tasks.yaml"))},
}

BARS = "atr bollinger kdj_rsi macd mean_reversion sma_cross zigzag"
RANKS = "equal_weight linear_factor low_volatility momentum reversal"
SHOWN = f"buy_and_hold chaos first_listed hold memory random {RANKS}"

#: what fits a family with the agent `react`; the first pattern that a task's name ends or begins
#: with counts
FIT = {
    "_memory_only": "chaos first_listed hold memory random",
    "_memory_only_paper": "chaos first_listed hold memory random",
    "_open_research": f"chaos hold memory random {RANKS}",
    "_open_research_paper": f"chaos hold memory random {RANKS}",
    "views_blinded": f"{SHOWN} {BARS} tally",
    "_history_bright": f"{SHOWN} {BARS} turn_of_month",
    "ama_btc_bright": f"{SHOWN} {BARS} turn_of_month",
    "ama_tsla_bright": f"{SHOWN} {BARS} turn_of_month",
    "_history": f"{SHOWN} {BARS}",
    "ama_": f"{SHOWN} {BARS}",
    "deanon_": "chaos memory",
    "memory_floor": "chaos first_listed memory random",
    "qfinzero_": "chaos",
}


def fit(task: str) -> set[str]:
    """Models that fit a task, without `builtin/`. A script and trivial answers fit every task."""
    return {"script", "trivial"} | set(
        next(
            (names for part, names in FIT.items() if task.startswith(part) or task.endswith(part)),
            SHOWN,
        ).split()
    )


class Asked:
    """One task's plan and episodes, on the market of its family."""

    def __init__(self, task: str, agent: str = "react") -> None:
        self.task = task
        plan = planned(task, agent)
        self.rehearsal = rehearse(plan.specs, lambda: plan.factory)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Each model that is refused, with the words."""
        for name in MODELS:
            try:
                check_model(
                    name,
                    PLUGINS.make_model(name, ARGS.get(name, {})),
                    self.rehearsal,
                    PLUGINS,
                )
            except UsageError as error:
                yield name, str(error)


def check(task: str) -> None:
    refused = dict(Asked(task).refusals())
    assert {name.removeprefix("builtin/") for name in MODELS} - {
        name.removeprefix("builtin/") for name in refused
    } == fit(task)

    fitting = sorted(f"builtin/{name}" for name in fit(task) - {"chaos", "linear_factor", "script"})

    for name, reason in refused.items():
        assert reason.startswith(f"{name} ")
        assert reason.endswith(
            f"; models that fit: {', '.join(fitting) or 'none that is built in'}"
        )
        assert f"task {task} " in reason
        assert "\n" not in reason


#: one task of each form of prompt
FORMS = (
    "blinded_open_research",
    "blinded_fixed_candidate",
    "blinded_memory_only",
    "market_blinded",
    "investorbench_msft",
    "investorbench_msft_history_bright",
    "views_blinded",
    "deanon_probe",
    "memory_floor_blinded",
)


@pytest.mark.parametrize("task", FORMS)
def test_a_model_acts_or_is_refused_with_what_it_needs_and_what_fits(task: str) -> None:
    check(task)


@pytest.mark.sampled(8)
@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task in TASKS if task not in FORMS])
def test_so_does_it_on_every_other_task(task: str) -> None:
    check(task)


@pytest.mark.slow
@pytest.mark.parametrize(("agent", "is_refused"), [("react", True), ("finmem", False)])
def test_model_learning_from_lessons_needs_an_agent_that_requests_them(
    agent: str, is_refused: bool
) -> None:
    assert ("builtin/recall" in dict(Asked("investorbench_msft", agent).refusals())) == is_refused


@pytest.mark.parametrize(
    ("model", "needs"),
    [
        (
            "buy_and_hold",
            "needs a table of candidates in the prompt; task blinded_open_research shows",
        ),
        (
            "recall",
            (
                "needs news of one asset, and lessons of a warm-up from an agent that remembers,"
                " such as finmem; task"
            ),
        ),
        (
            "tally",
            "needs candidates, and documents in the words of the market synthetic_views; task",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_run_and_plan_refuse_before_the_first_step(
    command: str, model: str, needs: str, tmp_path: Path, terminal: Any
) -> None:
    words = [
        "--model",
        f"builtin/{model}",
        "--tasks",
        "blinded_open_research",
        "--windows",
        "W1",
        "--out",
        tmp_path / "run",
    ]
    printed = terminal.error(command, *map(str, words))

    assert f"builtin/{model} {needs}" in printed
    assert "models that fit: builtin/equal_weight, " in printed
    assert not (tmp_path / "run").exists()


# ---- what a new board shows by default


def begun(folder: Path, *tasks: str) -> BegunBoard:
    """A board of tasks that take one market, on their default windows where that has them."""
    options = {**market_of(tasks[0]), "contact": "board@example.org"}
    if options.get("data") == "synthetic":
        options["windows"] = ()

    return init_board(folder, NewBoard("new", "New", tasks, "2026-03-01", **options), PLUGINS)


def boards() -> list[Any]:
    """One task of each form, and all tasks by the market that they take."""
    together: dict[str, list[str]] = {}
    for task in TASKS:
        together.setdefault(str(market_of(task)), []).append(task)

    whole = [pytest.param(tasks, marks=pytest.mark.exhaustive) for tasks in together.values()]
    return [*([form] for form in FORMS), *whole]


def _first(tasks: list[str]) -> str:
    return f"{tasks[0]} of {len(tasks)}"


@pytest.mark.slow
@pytest.mark.parametrize("tasks", boards(), ids=_first)
def test_new_board_shows_default_baselines_able_to_act_in_each_division(
    tasks: list[str], tmp_path: Path
) -> None:
    rules = begun(tmp_path / "board", *tasks).rules
    trained = "builtin/linear_factor"  # acts where the market has days to train it on, too

    for division in not_empty(rules.divisions):
        shown = {baseline.model for baseline in rules.baselines_of(division)}
        if is_scoring(PLUGINS.make_task(division.task)):
            continue

        fitting = {f"builtin/{name}" for name in fit(division.task)} & set(DEFAULT_BASELINES)
        assert shown - {trained} == fitting - {trained}
        assert shown <= fitting


@pytest.mark.slow
def test_a_market_on_which_nothing_can_be_trained_is_refused_in_one_line() -> None:
    """It has 1,000 days before, and a factor that is never known."""
    market = open_snapshot(PLUGINS, "synthetic_investorbench", {})
    with pytest.raises(ConfigError, match="has 0 training days with all factors before") as raised:
        train_coefficients(market, "2020-10-02")

    assert "\n" not in str(raised.value)
