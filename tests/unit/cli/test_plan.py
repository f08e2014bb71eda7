"""`ktdeval plan`: what it measures, that it asks nobody, and that a part that is finished speaks
for itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.attribution.style_factors import FACTORS
from ktdeval.calls.costs.prompt_size import USUAL_TOKENS, PromptBytes
from ktdeval.cli.main import main
from ktdeval.errors import ConfigError, PluginError, UsageError
from ktdeval.harness.agent import HarnessConfig, StepCounts
from ktdeval.harness.chat_messages import Usage
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.market.snapshots.snapshot import NameSpell
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig
from ktdeval.runner.episodes.episode_execution import EpisodeFactory
from ktdeval.runner.estimate import estimate_run
from ktdeval.runner.estimate_values import RunEstimate
from ktdeval.runner.plans.plan import choose_tasks, make_plan
from ktdeval.runner.rehearsals import conversation_size
from ktdeval.runner.rehearsals.conversation_size import (
    ASSUMED,
    HIGH,
    LOW,
    TYPICAL,
    AssumedBehaviour,
    CallLimits,
    FinishedStep,
    StepRate,
    StepSize,
)
from ktdeval.task_api import TaskTraits
from ktdeval.testing import Terminal, on_each_row, small_market
from ktdeval.values import loads_strict
from support.providers import far_plugin
from support.runs.run_support import DAYS_IN_WINDOW, TASK, WINDOW

PLUGIN = str(Path(far_plugin.__file__))
MEMORY = "blinded_memory_only"
PAPER = "blinded_open_research_paper"


@pytest.fixture(scope="module")
def desk(desk: Path) -> Path:
    """A folder with a small market and a price table."""
    (desk / "prices.yaml").write_text(far_plugin.TABLE)
    return desk


@pytest.fixture(autouse=True)
def _table(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_PLUGIN_TABLE", str(desk / "prices.yaml"))
    monkeypatch.chdir(desk)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins([PLUGIN])


def config(**changes: Any) -> RunConfig:
    fields: dict[str, Any] = {
        "model": "far/momentum",
        "tasks": (TASK,),
        "windows": (WINDOW,),
        "data": "market",
        "out": "run",
    }
    return RunConfig(**fields | changes)


def plan(plugins: Plugins, **changes: Any) -> RunEstimate:
    return estimate_run(config(**changes), plugins)


# ---- a step, measured


def size(plugins: Plugins, behaviour: AssumedBehaviour, task: str = TASK) -> StepSize:
    settings = config(model="builtin/hold", tasks=(task,))
    tasks = choose_tasks(settings, plugins)
    snapshot = replace(small_market(), id="0" * 64)
    spec = make_plan(settings, plugins, tasks, snapshot, None).specs[0]
    factory = EpisodeFactory(tasks, plugins, snapshot)
    (measured,) = conversation_size.measure_steps(spec, tasks[task], factory, behaviour, [1])

    return measured


@pytest.mark.parametrize(
    ("behaviour", "task", "requests"),
    [
        (LOW, TASK, 1),  # a submission
        (LOW, PAPER, 2),  # the end of research, a submission
        (TYPICAL, TASK, 4),  # six calls in three turns, a submission
        (TYPICAL, PAPER, 5),  # six calls in three turns, the end of research, a submission
        (HIGH, TASK, 16),  # twelve calls in as many turns, four submissions
        (TYPICAL, MEMORY, 1),
        (HIGH, MEMORY, 4),
    ],
    ids=[
        "low",
        "low of the paper",
        "typical",
        "typical of the paper",
        "high",
        "typical without research",
        "high without research",
    ],
)
def test_a_step_is_measured_as_the_real_agent_would_ask(
    plugins: Plugins, behaviour: Any, task: str, requests: int
) -> None:
    assert size(plugins, behaviour, task).requests == requests


@on_each_row(
    "schema, text, value",
    ({"enum": ["BUY", "SELL"]}, None, "BUY"),
    ({"type": "integer", "minimum": 3}, None, 3),
    ({"type": "boolean"}, None, False),
    ({"type": "array", "items": {"type": "number"}, "minItems": 2}, None, [0, 0]),
    (
        {"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["a"]},
        None,
        {"a": 0},
    ),
    (
        {
            "type": "object",
            "properties": {"stock_id": {"type": "string"}},
            "required": ["stock_id"],
        },
        None,
        None,
    ),
    (
        {"type": "object", "properties": {"reason": {"type": "string"}}, "required": ["reason"]},
        "why",
        {"reason": "why"},
    ),
    ({"type": "object", "minProperties": 1}, None, None),
    ({"type": "array", "items": {"type": "string"}, "minItems": 1}, None, None),
    ({"type": "array", "items": {"type": "string"}}, None, []),
)
def test_the_smallest_value_of_a_schema_and_none_where_a_handle_is_needed(
    schema: Any, text: str | None, value: Any
) -> None:
    assert conversation_size.example(schema, text) == value


def test_a_defect_of_an_agent_is_named(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    from ktdeval_builtin.react import ReactAgent

    monkeypatch.setattr(ReactAgent, "decide", lambda *_: 1 / 0)
    with pytest.raises(
        PluginError, match=f"task {TASK}, agent react: a step can't be measured: ZeroDivisionError"
    ):
        plan(plugins)


# ---- from a step to a run


#: 1,000 tokens in letters and 1,000 in digits at the usual rates
SENT = PromptBytes(
    letters=round(1000 * USUAL_TOKENS.letters), digits=round(1000 * USUAL_TOKENS.digits)
)
SIZE = StepSize(requests=3, sent=SENT, seconds=0.5, failed_calls=0)


def assumed_rates(limits: CallLimits) -> dict[str, StepRate]:
    return {name: scenario.rate_of(SIZE, limits) for name, scenario in ASSUMED.items()}


def finished_steps(tokens: Sequence[int]) -> list[FinishedStep]:
    """Steps of four calls each, with so many tokens of prompts."""
    entry = TranscriptEntry(step=0, exchanges=({},) * 4, submission=None)
    return [FinishedStep(StepCounts(usage=Usage(each, 50)).record(), entry) for each in tokens]


def test_finished_steps_take_the_place_of_assumptions() -> None:
    limits = CallLimits(4096, 120.0, [2.0] * 44)
    assumed = assumed_rates(limits)
    steps = finished_steps([1000 * number for number in range(1, 12)])
    rates = conversation_size.observed_rates(assumed, steps, are_counted=True)
    typical = rates["typical"]

    assert (typical.calls, typical.input_tokens, typical.own_s) == (4.0, 6000.0, 0.5)
    assert limits.call_s(ASSUMED["typical"]) == 2.0
    assert (rates["low"].input_tokens, rates["high"].input_tokens) == (2000.0, 10_000.0)
    assert {rate.output_tokens for rate in rates.values()} == {50.0}

    # A mean beyond the percentiles stays between low and high.
    steps = finished_steps([*[100] * 30, 100_000])
    rates = conversation_size.observed_rates(assumed, steps, are_counted=True)

    assert rates["low"].input_tokens <= rates["typical"].input_tokens <= rates["high"].input_tokens

    rates = conversation_size.observed_rates(assumed, steps, are_counted=False)

    assert rates["typical"] == replace(assumed["typical"], calls=4.0), "tokens that nobody counted"


@pytest.mark.exhaustive
def test_no_model_is_called_and_no_key_is_needed(plugins: Plugins) -> None:
    made = plan(plugins, seeds=2)  # the model fails when it is connected to or asked
    assert (made.protocol, made.tasks[0].episodes, made.tasks[0].steps) == (
        "native",
        2,
        2 * DAYS_IN_WINDOW,
    )
    assert made.left["typical"].calls == 4 * 2 * DAYS_IN_WINDOW
    assert not Path("run").exists()


@pytest.mark.exhaustive
def test_model_able_to_answer_an_episode_is_not_refused_for_its_measure() -> None:
    of = {
        "tasks": ("investorbench_msft_history",),
        "windows": (),
        "data": "synthetic_investorbench",
        "agent": "by_asset",
    }

    assert plan(load_plugins(), model="builtin/zigzag", **of).warnings == ()


@pytest.mark.exhaustive
def test_a_warm_up_is_asked_once_an_episode_by_agents_that_learn() -> None:
    plugins = load_plugins()
    days = 148
    of = {
        "model": "openai/gpt-4o-mini",
        "tasks": ("investorbench_msft",),
        "windows": (),
        "data": "synthetic_investorbench",
        "seeds": 2,
    }
    react = plan(plugins, **of)
    learns = plan(plugins, **of, agent="finmem")

    for scenario, calls, looking_back in (("low", 1, 0), ("typical", 1, 1), ("high", 4, 1)):
        assert react.left[scenario].calls == 2 * days * calls
        assert learns.left[scenario].calls == 2 * (days * (calls + looking_back) + 64)

    assert (
        "investorbench_msft: 64 warm-up questions from 2020-07-01 precede the first step of an episode in window stock"
    ) in learns.assumptions
    assert (
        "investorbench_msft: window stock has a warm-up from 2020-07-01, in which agent react"
        " makes no requests"
    ) in react.assumptions
    assert learns.left["typical"].input_tokens > react.left["typical"].input_tokens + 2 * 64 * 500
    assert learns.left["typical"].hours > react.left["typical"].hours


@pytest.mark.exhaustive
def test_window_without_the_warm_up_of_others_is_named_and_adds_no_calls() -> None:
    custom = "2020-11-02:2020-11-13"
    of = {
        "model": "openai/gpt-4o-mini",
        "tasks": ("investorbench_msft",),
        "data": "synthetic_investorbench",
        "agent": "finmem",
    }
    plugins = load_plugins()
    note = f"task investorbench_msft: window {custom} has no warm-up, so "
    alone = plan(plugins, **of, windows=(custom,))

    assert [line for line in alone.warnings if "warm-up" in line] == [
        f"{note}agents that learn begin it with an empty memory; windows with a warm-up: stock, crypto,"
        " ether, crypto_long, etf, stock_warm_0702, crypto_warm_0119"
    ]
    assert alone.left["low"].calls == alone.tasks[0].steps
    assert not any("warm-up" in line for line in alone.assumptions)

    both = plan(plugins, **of, windows=(custom, "stock"))
    assert both.left["low"].calls == both.tasks[0].steps + 64
    assert sum(line.startswith(note) for line in both.warnings) == 1


@pytest.mark.exhaustive
def test_upper_call_bound_assumes_the_last_attempt_of_each_asset_is_valid(
    plugins: Plugins,
) -> None:
    left = plan(
        plugins,
        model="builtin/hold",
        agent="by_asset",
        tasks=("market_blinded",),
        windows=(WINDOW,),
    ).left

    # as many assets may not be shown on every day, so high is above it by what days differ
    assert left["high"].calls >= 4 * left["typical"].calls > 0
    assert left["high"].calls == pytest.approx(4 * left["typical"].calls, rel=0.01)


def test_what_a_run_refuses_before_its_first_step_is_refused(terminal: Terminal) -> None:
    wrong = (
        "--certificate no.json",
        "--knowledge-cutoff 2024-13",
        "--out .",
        "--model builtin/zigzag",
    )
    refused = [terminal.refusal("plan", *words(*each.split())) for each in wrong]
    assert "".join(refused) == snapshot("""\
ktdeval: error: no.json: can't read the card: No such file or directory; give a run folder, or a card in its folder cards
ktdeval: error: --knowledge-cutoff: '2024-13' is neither a day (2024-06-01) nor a month (2024-06)
ktdeval: error: .: the folder is not empty and is not a run; choose another --out
ktdeval: error: builtin/zigzag decides BUY, SELL or HOLD, and the task asks for orders; set its answers: stances; task blinded_memory_only shows account, constraints, positions, universe and offers no research tools; models that fit: builtin/first_listed, builtin/hold, builtin/memory, builtin/random, builtin/trivial
""")


@pytest.mark.slow
def test_a_folder_may_be_given_as_a_file_url(plugins: Plugins, desk: Path) -> None:
    assert plan(plugins, out=f"file://{desk}/new").folder == f"{desk}/new"


@pytest.mark.exhaustive
def test_cost_is_tokens_times_the_dated_price_of_the_plugins_table(plugins: Plugins) -> None:
    made = plan(plugins)
    typical = made.left["typical"]

    assert made.price is not None
    assert made.price.as_of == "2026-01-02"
    assert typical.cost_usd == pytest.approx(
        (typical.input_tokens * 2.0 + typical.output_tokens * 8.0) / 1e6
    )

    dear = plan(plugins, price={"input": 20.0, "output": 80.0}).left["typical"]
    assert dear.cost_usd == pytest.approx(10 * (typical.cost_usd or 0))

    unknown = plan(plugins, model="far/nameless", max_cost=1.0)
    assert unknown.left["high"].cost_usd is None
    assert "--max-cost can't be enforced without a price" in unknown.warnings[0]


@pytest.mark.parametrize("limit", [{"max_cost": 1.0}, {"max_tokens": 1000}], ids=str)
def test_no_limit_is_taken_for_a_model_that_makes_its_calls_by_itself(limit: Any) -> None:
    with pytest.raises(
        ConfigError,
        match=r"--max-.*: test/mixed makes its own calls, so no limit can be enforced",
    ):
        plan(load_plugins(["support.runs.run_plugin"]), model="test/mixed", **limit)


@pytest.mark.exhaustive
def test_self_calling_model_costs_by_the_given_price_or_is_unknown() -> None:
    stranger = load_plugins(["support.runs.run_plugin"])  # it may call anybody
    assert plan(stranger, model="test/mixed").left["high"].cost_usd is None
    assert plan(stranger, model="test/mixed", price={"input": 1.0, "output": 1.0}).price is not None


@pytest.mark.exhaustive
def test_a_model_of_this_machine_costs_nothing_and_keeps_limits(plugins: Plugins) -> None:
    own = plan(plugins, model="builtin/momentum")  # of this machine
    assert (own.protocol, own.left["high"].cost_usd, own.left["high"].input_tokens) == (
        None,
        0.0,
        0,
    )
    assert plan(plugins, model="builtin/momentum", max_cost=1.0, max_tokens=1).price == own.price


@pytest.mark.parametrize(
    "option",
    [{"price": {"input": 1.0, "output": 1.0}}, {"price_table": "no such file"}],
    ids=["price", "price_table"],
)
def test_no_price_is_taken_for_a_model_of_this_machine(plugins: Plugins, option: Any) -> None:
    with pytest.raises(
        UsageError,
        match=r"--price(-table)?: builtin/momentum runs on .* at no cost; omit the option",
    ):
        plan(plugins, model="builtin/momentum", **option)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("lanes", "longest"), [(1, 3), (2, 2), (50, 1)])
def test_episodes_side_by_side_take_as_long_as_their_longest_lane(
    plugins: Plugins, lanes: int, longest: int
) -> None:
    one = plan(plugins, seeds=1).left["typical"].hours
    made = plan(plugins, seeds=3, concurrency=lanes).left["typical"]
    # what a slow machine takes for a step is in it
    assert made.hours == pytest.approx(longest * one, rel=0.2)


@pytest.mark.slow
def test_a_gap_between_calls_holds_over_all_episodes(plugins: Plugins) -> None:
    made = plan(plugins, seeds=3, concurrency=50, call_gap_s=60.0).left["typical"]
    assert made.hours == pytest.approx(made.calls * 60 / 3600)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "warning"),
    [
        ({"max_cost": 0.5}, "--max-cost 0.5 would"),
        ({"max_cost": 10.0}, "--max-cost 10 might"),
        ({"max_tokens": 1000}, "--max-tokens 1000 would"),
        ({"max_hours": 0.01}, "--max-hours 0.01 would"),
    ],
)
def test_a_budget_that_would_end_the_run_is_named(
    plugins: Plugins, budget: Any, warning: str
) -> None:
    (shown,) = plan(plugins, **budget).warnings
    assert shown == f"{warning} stop the run before its end (it can be resumed)"


def test_a_budget_that_suffices_is_not_mentioned(plugins: Plugins) -> None:
    assert plan(plugins, max_cost=1e9, max_tokens=10**9, max_hours=1e9).warnings == ()


# ---- a run that was begun


def words(*more: str) -> list[str]:
    task = [
        "--model",
        "far/momentum",
        "--plugin",
        PLUGIN,
        "--tasks",
        f"{TASK},{MEMORY}",
        "--windows",
        WINDOW,
        "--data",
        "market",
    ]
    return [*task, *more]


@pytest.fixture(scope="module")
def begun(desk: Path) -> Path:
    """A run that its budget stopped in the second of two tasks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(desk)
        patch.setenv("FAR_PLUGIN_TABLE", str(desk / "prices.yaml"))
        patch.setenv(far_plugin.ANSWERS, "1")
        budget = [
            "--max-cost",
            "0.70",
            "--tool-protocol",
            "native",
            "--canary",
            "0",
            "--cache",
            "run",
            "--out",
            "begun",
            "--quiet",
        ]
        assert main(words(*budget)) == 3

    return desk / "begun"


@pytest.mark.exhaustive
def test_finished_steps_are_counted_and_used_to_estimate_the_rest(
    begun: Path, plugins: Plugins, terminal: Terminal
) -> None:
    made = json.loads(terminal.out("plan", *words("--out", "begun", "--json")))
    first, second = made["tasks"]

    assert first["finished"]["steps"] == first["steps"] == DAYS_IN_WINDOW
    assert 0 < second["finished"]["steps"] < second["steps"]
    assert {amount["calls"] for amount in first["left"].values()} == {0}

    card = json.loads((begun / "cards" / f"{TASK}.json").read_text())

    for name in ("input_tokens", "output_tokens"):
        assert first["finished"][name] == card["usage"][name]

    assert second["is_observed"]

    each = second["finished"]["input_tokens"] / second["finished"]["steps"]
    left = second["left"]["typical"]["input_tokens"]

    assert left == pytest.approx(each * (second["steps"] - second["finished"]["steps"]), abs=1)
    assert f"{'paid':<10}{made['paid']['cost_usd']:.4f} USD" in terminal.out(
        "plan", *words("--out", "begun")
    )
    # Every call of the second task is a step, so that none was paid for a step that did not finish.
    assert made["paid"]["cost_usd"] == pytest.approx(
        first["finished"]["cost_usd"] + second["finished"]["cost_usd"]
    )


@pytest.mark.exhaustive
def test_an_existing_folder_shows_its_tool_protocol(begun: Path, plugins: Plugins) -> None:
    made = plan(plugins, tasks=(TASK, MEMORY), out=str(begun), tool_protocol="auto")
    assert (made.protocol, made.warnings) == ("native", ())


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"seeds": 3}, {"seeds": 1, "tool_protocol": "text"}], ids=str)
def test_steps_of_a_folder_with_another_plan_do_not_count(
    begun: Path, plugins: Plugins, changed: Any
) -> None:
    other = plan(plugins, tasks=(TASK,), out=str(begun), **changed)
    assert other.tasks[0].finished.steps == 0
    assert other.warnings[0].startswith("the folder contains another run (task: ")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"rules": "paper"}, "rules: strict; now paper"),
        ({"metrics": ("cash_ratio",)}, "metrics: no further metrics; now cash"),
    ],
    ids=["rules", "metrics"],
)
def test_a_folder_scored_otherwise_belongs_to_another_run(
    begun: Path, plugins: Plugins, changed: Any, reason: str
) -> None:
    (warning,) = plan(plugins, tasks=(TASK, MEMORY), out=str(begun), **changed).warnings
    assert warning.startswith(f"the folder contains another run ({reason}")


# ---- the command


@pytest.mark.exhaustive
def test_a_dry_run_prints_what_plan_prints_and_starts_nothing(terminal: Terminal) -> None:
    printed = []
    for arguments in (["plan", *words("--out", "dry")], words("--out", "dry", "--dry-run")):
        printed.append(
            [
                line
                for line in terminal.out(*arguments).splitlines()
                if not line.startswith("  hours  ")
            ]
        )

    assert printed[0] == printed[1]
    assert not Path("dry").exists()


@pytest.mark.slow
def test_the_text_names_price_tools_folder_figures_and_what_they_rest_on(
    terminal: Terminal,
) -> None:
    text = terminal.out("plan", *words("--out", "new", "--max-cost", "0.01", "--canary", "99"))
    head, _, tables = text.partition("\n\n")
    notes = text[text.index("assumed\n") :]

    assert head == snapshot("""\
model     far/momentum, tool calling: native
context   not known; give it with --context-tokens
price     2 in, 8 out USD a million tokens (as of 2026-01-02, the tests)
folder    new
at once   1 episode\
""")
    assert notes == snapshot("""\
assumed
  low: no research, one submission, no positions yet
  typical: half of the research calls (or a task's usual number), two per turn; as many positions as the task allows
  high: all research calls, one per turn; each submission is valid only at the last attempt
  150 / 600 / 4,096 tokens per reply, including reasoning
  2 / 8 / 30 s per call
  hours exclude waits for rate limits and repeated attempts
  cost, no cache: nothing is read from the provider's prompt cache
  cost, cached: 68 / 82 / 91 % of the input begins an earlier request of the same episode, read at 0.5 USD a million tokens
  prompt cache, as OpenAI: every prompt from 1,024 tokens on in steps of 128, until 5 minutes after the last use
  budget by the cost without cache: no provider promises that a prompt is read from it
  in addition, 48 short questions at start and end (--canary)
  tool calling: native; a short check before the run may change this

warning: --max-cost 0.01 would stop the run before its end (it can be resumed)
""")

    first, heads, calls, *others = tables.splitlines()
    assert first == f"{TASK}: 1 episode, {DAYS_IN_WINDOW} steps"
    assert heads.split() == ["low", "typical", "high"]
    assert calls.split() == ["calls", "21", "84", "336"]
    assert "all tasks, steps that are left" in others
    assert max(map(len, text.splitlines())) <= 132

    made = loads_strict(terminal.out("plan", *words("--out", "new", "--json")))
    assert made["tool_protocol"] == "native"
    assert [task["left"]["typical"]["calls"] for task in made["tasks"]] == [
        4 * DAYS_IN_WINDOW,
        DAYS_IN_WINDOW,
    ]
    assert made["left"]["typical"]["calls"] == 5 * DAYS_IN_WINDOW
    assert re.fullmatch(
        "[^\\n]*builtin/momentum[^\\n]*\\n",
        terminal.error("plan", "--model", "builtin/momentun", "--tasks", TASK),
    )


def test_tasks_that_show_names_warn_if_these_are_known_for_one_day_only(
    plugins: Plugins,
) -> None:
    real = replace(small_market(), meta=replace(small_market().meta, synthetic=False))
    spell = NameSpell(real.codes[0], "2000-01-01", "2100-01-01", "a name", real.codes[0])
    for market, task, expected in (
        (real, "bright_open_research", True),
        (real, "date_blind_memory_only", True),
        (real, "blinded_open_research", False),
        (replace(real, spells=(spell,)), "bright_open_research", False),
        (small_market(), "bright_open_research", False),
    ):
        chosen = config(tasks=(task,))
        notes = make_plan(chosen, plugins, choose_tasks(chosen, plugins), market, None).notes
        assert [task in note for note in notes if "names and codes" in note] == [True] * expected


def test_plan_of_a_call_scoring_task_uses_its_usual_number_of_tool_calls() -> None:
    class Calls:
        harness = HarnessConfig(max_tool_calls=24)
        traits = TaskTraits(usual_tool_calls=lambda: 2)

    assert [
        conversation_size._research_calls(Calls(), behaviour) for behaviour in (LOW, TYPICAL, HIGH)
    ] == [
        0,
        2,
        24,
    ]


@pytest.mark.exhaustive
def test_history_too_short_for_factors_is_named_by_plan_and_run(
    plugins: Plugins, desk: Path, terminal: Terminal
) -> None:
    assert not [line for line in plan(plugins).warnings if "look back" in line]

    early = "2023-03-01:2023-03-02"
    (warning,) = (line for line in plan(plugins, windows=(early,)).warnings if "look back" in line)
    before = int(np.searchsorted(small_market().days, np.datetime64("2023-03-01")))

    assert f"only {before} days of data precede it" in warning
    assert re.findall(r"([A-Z0-9_]+) \((\d+)\)", warning) == [
        (factor.name, str(factor.window)) for factor in FACTORS if factor.window > before
    ]

    words = [
        "--model",
        "builtin/hold",
        "--tasks",
        MEMORY,
        "--windows",
        early,
        "--data",
        "market",
        "--out",
        str(desk / "early"),
    ]
    code, _, message = terminal.call("run", *words)

    assert (code, warning in " ".join(message.split())) == (0, True)


def test_venue_in_another_currency_than_prices_is_refused_at_once(
    terminal: Terminal,
) -> None:
    task = (
        "{extends: market_bright, trading: {venue: frictionless}, windows: {w: {first: 2024-03-01,"
        " last: 2024-03-29}}, "
    )
    Path("usd.yaml").write_text(
        f'{{family: mine, version: "1", variants: {{my_usd: {task}default_windows: [w], summary:'
        " x}}}"
    )
    given = ["--model", "builtin/hold", "--tasks", "usd.yaml", "--data", "market", "--out", "usd"]

    for words in (["plan", *given], [*given, "--dry-run"], ["run", *given]):
        assert terminal.error(*words).splitlines() == [
            "ktdeval: error: snapshot small: prices are in CNY, but venue frictionless uses 1/100 USD; an account has one currency: choose a venue with CNY"
        ]

    assert not Path("usd").exists()


@pytest.mark.exhaustive
def test_reasoning_that_leaves_no_room_for_an_answer_is_a_note(plugins: Plugins) -> None:
    given = {"reasoning_tokens": 4096, "max_output_tokens": 4096}
    (note,) = (line for line in plan(plugins, **given).warnings if "--reasoning-tokens" in line)

    assert "is not below --max-output-tokens 4096" in note

    fitting = plan(plugins, **given | {"reasoning_tokens": 4095})
    assert not [line for line in fitting.warnings if "--reasoning-tokens" in line]
