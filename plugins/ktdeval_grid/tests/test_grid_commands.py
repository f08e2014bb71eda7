"""The command line of grids, on a store made by hand: help, status, ctl, plans, completion."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from inline_snapshot import snapshot

import ktdeval.runner
from grid_store import HandMade, done, failure, record_of, small_plan, unit_id
from grid_workers import board_of
from ktdeval.registry import find_entry_points, plugin_registry
from ktdeval.testing import Terminal, on_each_row
from ktdeval_grid.command_group import COMMANDS
from ktdeval_grid.commands import EstimateOptions, estimate
from ktdeval_grid.launch.launch_command import LaunchOptions
from ktdeval_grid.planning.estimate_types import SCENARIOS
from ktdeval_grid.state.grid_control import change_control, read_control, set_paused

#: Questions that need no market, and a model that says 5
QUESTIONS = """
from ktdeval.api import ModelTraits, QATask, Reply, Spec, ToolCall, hookimpl

class Parrot:
    traits = ModelTraits(is_free=True)

    def reply(self, request):
        if request.tool_choice == "submit_answer":
            return Reply(tool_calls=(ToolCall("call_1", "submit_answer", '{"answer":"5"}'),))
        return Reply("Enough.")

@hookimpl
def ktdeval_models():
    return [Spec("mine/parrot", lambda name: Parrot(), "says 5")]

@hookimpl
def ktdeval_tasks():
    samples = [{"question": "2 + 3?", "gold": "5"}]
    return [QATask(samples, lambda answer, sample: answer == sample["gold"], name="sums").spec()]
"""


@pytest.fixture
def grid(grid: HandMade) -> HandMade:
    """The grid with a finished unit and two that failed."""
    grid.finish(done(unit_id(0, 0)))
    grid.fail(failure(unit_id(0, 1), "the server is down"))
    grid.fail(failure(unit_id(1, 2), "the server is down"))

    return grid


def place(grid: HandMade) -> str:
    return grid.store.place


def test_help_of_the_group_has_the_options_of_a_launch(terminal: Terminal) -> None:
    assert terminal.text("grid", "--help") == snapshot("""\
Usage: ktdeval grid [PLAN] [OPTIONS OF launch] | COMMAND [ARGS]…

Run models × agents × tasks × windows × seeds as one command, on processes of this machine or a
cluster. PLAN is a YAML file, or a plan that ships (`ktdeval list plans`).

Example:
  ktdeval grid ktd-fin --models builtin/random --out anchor

Commands:
  launch  Run a plan; repeating the command resumes or amends it.
  worker  Work on a grid, together with any number of other workers.
  status  Show the progress of a grid, once or until it ends.
  ctl     Pause, resume, retune, drop a model, retry failed episodes.
  tables  Make tables and pages of the finished cells, at any time.

Launch:

  Options:
    --out DIR         folder of the grid [default: ktdeval-grids/NAME]
    --workers N       worker processes [default: this machine's cores]  [1<=x<=10000]
    --only [failed]   run only units that failed before
    --json            print one JSON object a line: launch, units, end
    --detach          run in the background, with a log in the folder
    -y, --yes         do not ask before money is spent
    --models MODEL,…  models: PROVIDER/NAME or PROVIDER/NAME(option=…) (see `ktdeval list models`)
    --agents AGENT,…  agents, NAME or NAME(option=value,…) (see `ktdeval list agents`) [default:
                      react]
    --prune PRUNE,…   pruning rules that leave out cells (see `ktdeval list plans`); none: no rule
    --tables TABLE,…  tables of papers to make at the end, as of `ktdeval paper table --like`
    --pages PAGE,…    pages besides the bundle's index: report, views; none: neither [default: none]
    --stop-when WHEN  settled: stop running a system once its order against every other system is
                      settled by the plan's rule; never: run all windows
    -h, --help        Show this message and exit.

  Options of `ktdeval run` (see `ktdeval run --help`):
    --tasks, --windows, --seeds, --seed, --data, --data-args, --mask-key, --plugin, --max-cost,
    --max-tokens, --max-hours, --base-url, --price, --concurrency, --runner, --limit, --items,
    --metrics, --rules, --certificate, --knowledge-cutoff, --temperature, --max-output-tokens,
    --context-tokens, --reasoning-effort, --reasoning-tokens, --tool-protocol, --timeout-s,
    --first-timeout-s, --max-retries, --max-wait-s, --max-failures, --call-gap-s, --price-table,
    --cache, --canary, --batch
""")


def test_status_is_printed_as_text_and_as_json(grid: HandMade, terminal: Terminal) -> None:
    assert terminal.text("grid", "status", place(grid)) == snapshot("""\
small: 1 of 8 episodes done, 2 failed

MODEL             done  failed  left     USD
builtin-momentum   1/4       1     2  0.2500
builtin-reversal   0/4       1     3    0.00
total              1/8       2     5  0.2500

2 failed: the server is down (first builtin-momentum_react blinded_open_research W1 seed 1)
""")

    report = json.loads(terminal.text("grid", "status", place(grid), "--json"))
    assert (report["total"]["done"], report["total"]["failed"]) == (1, 2)
    assert report["failures"][0]["units"] == [unit_id(0, 1), unit_id(1, 2)]


def test_steering_changes_the_control_of_the_grid(grid: HandMade, terminal: Terminal) -> None:
    paused = terminal.text("grid", "ctl", place(grid), "pause")
    for words in (("concurrency", 3), ("drop", "builtin/reversal"), ("requeue", "failed")):
        terminal.text("grid", "ctl", place(grid), *words)

    assert paused.startswith("paused; go on with `ktdeval grid ctl ")

    control = read_control(grid.store)

    assert (control.paused, control.concurrency) == (True, 3)
    assert control.dropped == ("builtin-reversal",)
    assert control.requeued == {unit_id(0, 1): 1, unit_id(1, 2): 1}

    terminal.text("grid", "ctl", place(grid), "resume")
    terminal.text("grid", "ctl", place(grid), "restore", "builtin-reversal")
    terminal.text("grid", "ctl", place(grid), "requeue", "W1 seed 1")
    control = read_control(grid.store)

    assert (control.paused, control.dropped) == (False, ())
    assert control.requeued == {unit_id(0, 1): 2, unit_id(1, 2): 1}


@on_each_row(
    "words, message",
    (["drop", "builtin/momentu"], "no model 'builtin/momentu'; did you mean 'builtin-momentum'"),
    (["requeue", "W9"], "W9: no failed episode is called so"),
    (["concurrency", "0"], "0 is not in the range"),
    (["concurrency"], "concurrency takes N: `ktdeval grid ctl DIR concurrency N`"),
    (["pause", "now"], "pause takes no value: `ktdeval grid ctl DIR pause`"),
    (["drop"], "drop takes MODEL: `ktdeval grid ctl DIR drop MODEL`"),
    (["requeue"], "requeue takes failed|UNIT…"),
    (["paus"], "no action 'paus'; did you mean 'pause'?; actions are pause, resume"),
)
def test_steering_by_an_unknown_name_is_refused(
    words: tuple[str, ...], message: str, grid: HandMade, terminal: Terminal
) -> None:
    assert message in terminal.refusal("grid", "ctl", place(grid), *words)


def test_a_folder_without_a_grid_can_not_be_steered(tmp_path: Path, terminal: Terminal) -> None:
    assert "no grid here" in terminal.refusal("grid", "ctl", tmp_path, "pause")
    assert "no grid here" in terminal.refusal("grid", "status", tmp_path)


def test_a_shipped_plan_is_printed_to_be_changed(terminal: Terminal) -> None:
    assert terminal.text("list", "plans", "ktd-fin").startswith("# KTD-Fin")
    assert "did you mean 'ktd-fin'" in terminal.refusal("list", "plans", "ktdfin")


@on_each_row(
    "words, message",
    (["ktdfin"], "no such file, and no plan of this name; did you mean 'ktd-fin'"),
    (["--models", "a/b"], "a grid needs a plan"),
    (["--models", "a/b", "--tasks", "t"], "--out: name the folder of the grid"),
    (["ktd-fin", "--only", "failed", "--out", "new"], "the grid does not exist yet"),
)
def test_a_launch_that_can_not_begin_says_why(
    words: tuple[str, ...],
    message: str,
    terminal: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in terminal.refusal("grid", *words)


@on_each_row(
    "option, text, found",
    ("models", "builtin/mom", "builtin/momentum"),
    ("models", "builtin/random,open", "builtin/random,openai/"),
    ("agents", "rea", "react"),
    ("tasks", "blinded_open", "blinded_open_research"),
    ("prune", "inf", "informative"),
    ("plan", "ktd", "ktd-fin"),
)
def test_names_are_completed(option: str, text: str, found: str) -> None:
    command = COMMANDS["launch"].load()
    context = click.Context(command, help_option_names=["-h", "--help"])
    parameters = {each.name: each for each in command.get_params(context)}
    items = parameters[option].shell_complete(context, text)

    assert found in [item.value for item in items]


@pytest.mark.exhaustive
def test_options_of_run_stand_over_a_plan(terminal: Terminal) -> None:
    words = ["ktd-fin", "--models", "builtin/random", "--windows", "W1,W2", "--seeds", "2"]
    assert terminal.out("plan", *words) == "builtin-random: 48 episodes, no provider is asked\n"


@pytest.mark.exhaustive
def test_a_list_of_models_may_be_given_by_repeating_the_option(terminal: Terminal) -> None:
    words = ["--models", "builtin/momentum(positions=5)", "--models", "builtin/hold"]
    printed = terminal.out("plan", *words, "--tasks", "ktdfin", "--windows", "W1")

    assert printed == (
        "builtin-momentum-5b313d25, builtin-hold: 24 episodes, no provider is asked\n"
    )


@pytest.mark.exhaustive
@on_each_row(
    "words",
    (["ktd-fin", "--models", "builtin/random", "--windows", "W1"],),
    (["--models", "builtin/random", "--windows", "W1", "ktd-fin"],),
    (["--workers", "2", "ktd-fin", "--models", "builtin/random", "--windows", "W1"],),
    (["--windows", "W1", "ktd-fin", "--models", "builtin/random"],),
)
def test_a_plan_may_stand_before_or_after_options(words: list[str], terminal: Terminal) -> None:
    assert terminal.out("plan", *words) == "builtin-random: 60 episodes, no provider is asked\n"


def test_an_option_that_neither_runs_nor_grids_have_is_refused_by_its_name(
    terminal: Terminal,
) -> None:
    assert "--temprature" in terminal.refusal("plan", "--temprature", "1")


def test_without_the_plugin_of_grids_a_plan_is_refused(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [each for each in find_entry_points() if each.value != "ktdeval_grid"]
    monkeypatch.setattr(plugin_registry, "find_entry_points", lambda: entries)

    words = (("plan", "ktd-fin"), ("plan", "--workers", "2"), ("list", "plans"))
    assert "".join(terminal.refusal(*each) for each in words) == snapshot("""\
ktdeval: error: plan: PLAN and --models apply to grids, and no installed plugin has grids; name one model by --model
ktdeval: error: No such option '--workers'. Did you mean '--rules'?
ktdeval: error: list: unknown kind 'plans'; did you mean 'plugins' or 'agents'?; kinds are tasks, models, agents, metrics, venues, data, runners, tools, cards, plugins, commands
""")


def test_scenarios_are_those_of_a_run() -> None:
    assert ktdeval.runner.SCENARIOS == SCENARIOS


# ---- what steering prints


@on_each_row(
    "words, printed",
    (["resume"], "resumed"),
    (["concurrency", "10000"], "10000 at once"),
    (
        ["drop", "builtin-reversal"],
        "builtin-reversal is dropped; resume it with `restore builtin-reversal`",
    ),
    (["restore", "builtin/reversal"], "builtin-reversal is resumed"),
    (["requeue", "failed"], "2 to be tried again"),
    (["requeue", "W1", "W2"], "2 to be tried again"),
    (["requeue", "01000000000000000002", "builtin-reversal_react"], "1 to be tried again"),
)
def test_steering_says_what_it_did(
    words: list[str], printed: str, grid: HandMade, terminal: Terminal
) -> None:
    assert terminal.text("grid", "ctl", place(grid), *words).strip() == printed


def test_a_name_of_several_models_is_refused_with_their_labels(
    tmp_path: Path, terminal: Terminal
) -> None:
    models = [
        {"name": "builtin/momentum", "label": "one"},
        {"name": "builtin/momentum", "label": "two", "args": {"positions": 5}},
    ]
    grid = HandMade(tmp_path / "grid", record_of(small_plan(models=models)))

    refusal = terminal.refusal("grid", "ctl", place(grid), "drop", "builtin/momentum")

    assert "builtin/momentum: 2 models have this name; choose from one, two" in refusal

    terminal.text("grid", "ctl", place(grid), "drop", "two")
    assert read_control(grid.store).dropped == ("two",)


def test_status_as_json_names_the_units_that_run(grid: HandMade, terminal: Terminal) -> None:
    board = board_of(grid)
    for unit in (unit_id(1, 1), unit_id(0, 2)):
        assert board.claim(unit) is not None

    report = json.loads(terminal.text("grid", "status", place(grid), "--json"))

    assert report["running"] == [unit_id(0, 2), unit_id(1, 1)]
    assert report["total"]["running"] == 2


def test_a_watch_ends_where_nothing_runs(grid: HandMade, terminal: Terminal) -> None:
    words = ("grid", "status", place(grid), "--watch", "--json")
    assert len(terminal.text(*words).splitlines()) == 3

    change_control(grid.store, set_paused(True))
    for _, unit in grid.record.units():
        grid.finish(done(unit.id))

    assert len(terminal.text(*words).splitlines()) == 8


def test_plans_and_rules_of_pruning_are_listed_with_their_reasons(terminal: Terminal) -> None:
    assert terminal.text("list", "plans") == snapshot("""\
plans
  ktd-fin-appendix-j
  ktd-fin
  reference
pruning rules
  informative: Table 3 of KTD-Fin (§4.2) compares bright with blinded in each mode; stock_blind and date_blind only split that difference between the stock and the date, which pays where there is one to split
  no_stock_to_remember: memory_only shows no market figure, and under stock_blind no handle says which stock it is, so that an order can rest on nothing (KTD-Fin §4.2 finds no order under blinded); blinded memory_only is run in its place
""")


@pytest.mark.parametrize("command", [estimate, COMMANDS["launch"].load()], ids=["plan", "launch"])
def test_workers_are_one_to_ten_thousand(command: click.Command) -> None:
    (workers,) = [each for each in command.params if each.name == "workers"]

    assert (EstimateOptions().workers, LaunchOptions().workers) == (1, None)
    assert isinstance(workers.type, click.IntRange)
    assert (workers.type.min, workers.type.max) == (1, 10_000)


@pytest.mark.slow
def test_a_grid_of_questions_without_a_market_runs(tmp_path: Path, terminal: Terminal) -> None:
    plugin = tmp_path / "sums.py"
    plugin.write_text(QUESTIONS, encoding="utf-8")
    plan = tmp_path / "plan.yaml"
    plan.write_text("tasks: [sums]\nmodels: [mine/parrot]\n", encoding="utf-8")

    words = ("--plugin", plugin, "--out", tmp_path / "grid", "--workers", 1)
    code, _, _ = terminal.call("grid", plan, *words)
    assert code == 0

    assert "1 of 1 episode done" in terminal.text("grid", "status", tmp_path / "grid")
