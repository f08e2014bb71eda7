"""The command line's frame: help, listings, errors in one line, and a quick start."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

import ktdeval
from ktdeval.cli.command_tree import BUILT_IN
from ktdeval.cli.main import _make_writable
from ktdeval.runner import load_config
from ktdeval.testing import Terminal, on_each_row
from support.advertised import advertise

HEAVY = {
    "pandas",
    "numpy",
    "scipy",
    "statsmodels",
    "datasets",
    "pyarrow",
    "jsonschema",
    "rich",
    "exchange_calendars",
}


# ---- start


LIGHT = """
import sys
import ktdeval, ktdeval.api, ktdeval.registry.plugin_registry, ktdeval.runner.plans.config
from ktdeval.cli.main import main
for words in ("", "--help", "--version", "list --help", "list tasks", "list tasks --json", "list models", "list agents", "list metrics", "list plugins"):
    if words:
        main(words.split())
    print("after", words.replace(" ", "_") or "import", *sys.modules, file=sys.stderr)
"""


@pytest.mark.exhaustive
def test_the_package_help_and_listings_import_nothing_heavy() -> None:
    """In a process of their own, one after the other: what is not loaded at the end was not loaded
    before.
    """
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    loaded = {
        words: set(modules) for _, words, *modules in map(str.split, done.stderr.splitlines())
    }

    assert {words: modules & HEAVY for words, modules in loaded.items() if modules & HEAVY} == {}
    assert "yaml" not in loaded["--help"], "help reads no task file"
    assert "msgspec" not in loaded["--help"], "help reads no options"
    assert "zoneinfo" not in loaded["list_metrics"], "only the list of plugins makes venues"


# ---- help


@on_each_row(
    "words, expected",
    ("ls", "listings are `ktdeval list KIND`"),
    (
        "list metric",
        "unknown kind 'metric'; did you mean 'metrics'?; kinds are tasks, models, agents",
    ),
    ("help", "`ktdeval --help`, or `ktdeval COMMAND --help`"),
    (
        "--model builtin/hold --tasks ktdfin --output_path x",
        "no such option --output-path; the folder of a run is `--out`",
    ),
    (
        "--model gpt-4.1 --tasks ktdfin",
        "unknown model 'gpt-4.1'; name its provider: openai/gpt-4.1",
    ),
    ("--model hf --tasks ktdfin", "vllm/NAME --base-url http://localhost:8000/v1"),
    ("--model hf/my/model --tasks ktdfin", "vllm/NAME --base-url http://localhost:8000/v1"),
    ("list tasks nonsense", "no task or group matches 'nonsense'"),
    ("list metrics nonsense", "unknown metric 'nonsense'"),
    ("list venues us_equit", "unknown venue 'us_equit'; did you mean 'us_equity'?"),
    ("list commands rum", "unknown command 'rum'; did you mean 'run'?"),
    (
        "list plugins ktdeval_buildin",
        "unknown plugin 'ktdeval_buildin'; did you mean 'ktdeval_builtin'",
    ),
)
def test_terms_of_other_suites_get_the_term_of_this_one(
    terminal: Terminal, words: str, expected: str
) -> None:
    assert expected in terminal.refusal(*words.split())


def test_listings_take_names_groups_and_the_word_list(terminal: Terminal) -> None:
    assert terminal.text("list", "tasks", "list") == terminal.text("list", "tasks")

    shown = terminal.text("list", "tasks", "blinded_*", "qfinzero_planning").splitlines()[1:]
    assert {line.split()[0] for line in shown if not line.startswith(" ")} >= {
        "blinded_open_research",
        "qfinzero_planning",
    }
    assert len(shown) < len(terminal.text("list", "tasks", "--all").splitlines()) / 2
    assert terminal.text("list", "tasks", "--json", "blinded_*", "ktdfin") == terminal.text(
        "list", "tasks", "blinded_*", "ktdfin", "--json"
    )
    assert terminal.text("list", "metrics", "sharpe") == snapshot("""\
name      sharpe
formula   sharpe/1: sqrt(252)*mean/std, ddof 1, of daily NAV returns, risk-free rate 0
unit      annualised ratio
range     -∞ … ∞
better    higher
source    KTD-Fin Appendix G
headline  yes
summary   annualised Sharpe ratio of daily NAV returns, risk-free rate 0
plugin    ktdeval_builtin
""")
    assert terminal.report("list", "metrics", "sharpe")["unit"] == "annualised ratio"


@pytest.mark.parametrize("command", BUILT_IN)
def test_every_command_has_help(command: str, terminal: Terminal) -> None:
    assert "Usage: ktdeval" in terminal.text(command, "--help")


def test_commands_are_listed_by_group_with_what_they_do(terminal: Terminal) -> None:
    head, *lines = terminal.text("list", "commands").splitlines()
    assert head.split() == ["COMMAND", "GROUP", "SUMMARY"]

    listed = json.loads(terminal.text("list", "commands", "--json"))
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in listed]
    assert {"run", "compare", "leaderboard"} <= {entry["name"] for entry in listed}
    assert all(entry["summary"] for entry in listed)

    of_groups = {entry["name"]: entry["group"] for entry in listed}
    assert (of_groups["run"], of_groups["compare"]) == ("Evaluate", "Compare")


def test_the_version_is_that_of_the_package(terminal: Terminal) -> None:
    assert terminal.text("--version") == f"ktdeval {ktdeval.__version__}\n"


@pytest.mark.parametrize("group", [["card"], ["paper", "qfinzero"]], ids=" ".join)
def test_a_group_without_a_command_prints_its_help_as_it_is(
    group: list[str], terminal: Terminal
) -> None:
    code, out, errors = terminal.call(*group)
    assert (code, out) == (2, "")
    assert errors.startswith(f"Usage: ktdeval {' '.join(group)}")
    assert "\n  -h, --help" in errors


# ---- listings


def test_show_prints_a_whole_task_and_parameters_of_models_and_agents(
    terminal: Terminal,
) -> None:
    shown = terminal.report("list", "tasks", "blinded_open_research")
    assert (shown["name"], shown["mask"]) == ("blinded_open_research", "blinded")
    assert shown["trading"]["initial_cash"] == 1_000_000
    assert shown["data_card"]
    assert shown["sources"]
    assert "initial_cash: 1000000" in terminal.text("list", "tasks", "blinded_open_research")

    assert terminal.text("list", "models", "builtin/momentum") == snapshot("""\
builtin/momentum: Holds the highest 12-minus-1 month momentum (plugin ktdeval_models)

NAME        TYPE        DEFAULT  MEANING (set with --model-args NAME=VALUE,…)
positions   int         20       number of names held (all in a smaller market); never more than the task allows
keep_rank   int         30       a holding is kept while it ranks this high or higher
invested    float       0.98     share of NAV to invest; the rest covers costs and gaps at the open
trim_above  float       1.5      a holding is cut back when it exceeds this multiple of its target weight
by          str | None  null     rank by another shown figure, such as return_20d_pct; null: the model's own
shorts      int | None  null     number of names sold short, the worst of the ranking, if the market allows it; null: none
""")
    assert terminal.text("list", "agents", "show", "react") == snapshot("""\
react: Two phases: free research with tools, then one forced submission with retries (plugin ktdeval_builtin)

no parameters
""")


@pytest.mark.parametrize(
    ("kind", "name"),
    [("tasks", "bright_memory_only"), ("models", "builtin/hold"), ("agents", "react")],
)
def test_options_may_stand_before_or_after_show(kind: str, name: str, terminal: Terminal) -> None:
    before = terminal.text("list", kind, "--json", "show", name)
    after = terminal.text("list", kind, "show", name, "--json")
    assert json.loads(before)["name"] == json.loads(after)["name"] == name


def test_a_listing_fits_a_narrow_terminal_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    words = {
        "agents": ["list", "agents"],
        "models": ["list", "models", "--all"],
        "tasks": ["list", "tasks", "--all"],
    }
    piped = {kind: terminal.text(*each) for kind, each in words.items()}
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    for kind in ("models", "tasks"):
        assert max(map(len, terminal.text("list", kind).splitlines())) <= 60

    shown = {kind: terminal.text(*each) for kind, each in words.items()}

    for kind, text in shown.items():
        assert max(map(len, text.splitlines())) <= 60 < max(map(len, piped[kind].splitlines()))

    assert sorted(shown["agents"].split()) == sorted(piped["agents"].split())

    for kind in ("models", "tasks"):
        for entry in terminal.report("list", kind):
            assert entry["name"] in shown[kind]
            assert entry["summary"] in " ".join(shown[kind].split())

    # Tasks stand under the groups that select them, models under their provider.
    of_core = shown["tasks"].partition("ktdfin, ktdfin_core (6)")[2]

    assert "  blinded_fixed_candidate" in of_core.partition("(")[0]
    assert "builtin (" in shown["models"]


def test_models_are_listed_by_family_with_every_name_on_one_screen(terminal: Terminal) -> None:
    lines = terminal.text("list", "models").splitlines()
    words = set(" ".join(lines).split())

    assert len(lines) <= 40
    for entry in terminal.report("list", "models"):
        assert entry["name"].rpartition("/")[2] in words

    members = [
        line.split()[0] for line in terminal.text("list", "models", "rl", "elected").splitlines()
    ]
    assert members == ["MODEL", "rl/policy", "elected/majority"]


def test_what_a_stream_can_not_write_becomes_a_question_mark() -> None:
    narrow, wide = (
        io.TextIOWrapper(io.BytesIO(), encoding=name, write_through=True)
        for name in ("ascii", "utf-8")
    )
    _make_writable(narrow, wide)

    for stream in (narrow, wide):
        stream.write("W1 · 1…2")

    assert (narrow.buffer.getvalue(), wide.buffer.getvalue().decode()) == (b"W1 ? 1?2", "W1 · 1…2")  # type: ignore[attr-defined]


def test_a_broken_plugin_is_a_warning_and_listed_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    advertise(
        tmp_path, "wreck", "wreck = wreck", monkeypatch, wreck="import a_module_that_is_not_there\n"
    )
    code, out, err = terminal.call("list", "models", "builtin")

    assert (code, "builtin/momentum" in out) == (0, True)

    reason = (
        "can't be imported: ModuleNotFoundError: No module named 'a_module_that_is_not_there'"
        " (wreck.py:1)"
    )

    assert err == f"ktdeval: warning: plugin wreck is skipped: {reason}\n"
    assert "BROKEN: can't be imported: ModuleNotFoundError" in terminal.text("list", "plugins")

    entries = {entry["name"]: entry for entry in terminal.report("list", "plugins")}
    wreck = entries["wreck"]

    assert (wreck["distribution"], wreck["version"], wreck["error"]) == ("wreck", "1.2", reason)
    assert entries["ktdeval_builtin"]["error"] is None


def test_a_plugin_may_add_a_command_but_not_take_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    code = (
        "import click\nfrom ktdeval.api import Spec, hookimpl\n@click.command()\ndef hello():"
        " click.echo('hello')\n"
    )
    hook = (
        "@hookimpl\ndef ktdeval_commands(): return [Spec('{name}', lambda: hello, 'Says hello.')]\n"
    )
    advertise(
        tmp_path,
        "adds",
        "x = adds_command",
        monkeypatch,
        adds_command=code + hook.format(name="hello"),
    )

    assert terminal.text("hello") == "hello\n"
    assert "Others" in terminal.text("--help")
    assert "Says hello." in terminal.text("list", "commands")

    advertise(
        tmp_path,
        "adds",
        "x = adds_command",
        monkeypatch,
        adds_command=code + hook.format(name="plan"),
    )

    for words in (["--help"], ["list", "plugins"]):
        assert (
            "command 'plan' is offered by ktdeval itself and by plugin adds_command"
            in terminal.refusal(*words)
        )

    kind = (code + hook.format(name="trading")).replace("commands", "cards")
    advertise(tmp_path, "adds", "x = adds_command", monkeypatch, adds_command=kind)

    assert (
        "card kind 'trading' is offered by ktdeval itself and by plugin adds_command"
        in terminal.refusal("list", "plugins")
    )


# ---- errors


def test_a_missing_command_module_is_an_error_only_when_called(
    monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.setattr(BUILT_IN["card"], "module", "ktdeval.cli.not_there")
    terminal.text("--help")

    assert (
        "command 'card' is missing from this installation (ktdeval.cli.not_there)"
        in terminal.refusal("card")
    )


def test_an_interrupt_is_exit_130(monkeypatch: pytest.MonkeyPatch, terminal: Terminal) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ktdeval.cli.listing.open_plugins", interrupt)
    code, _, errors = terminal.call("list", "tasks")

    assert (code, errors.splitlines()[-1]) == (130, "ktdeval: error: interrupted")


@pytest.mark.exhaustive
def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m ktdeval list tasks --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[", "")


# ---- the run's config


def test_a_config_file_and_the_command_line_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(
        "model: a/b\ntasks: one, two\nmodel_args: {x: 1, y: 2}\nseeds: 5\nwindows: [W1]\n"
    )
    config = load_config(
        path, {"model": None, "seeds": 2, "model_args": {"y": 3}, "windows": ("W2", "W3")}
    )

    assert (config.model, config.tasks, config.seeds, config.windows) == (
        "a/b",
        ("one", "two"),
        2,
        ("W2", "W3"),
    )
    assert config.model_args == {"x": 1, "y": 3}
