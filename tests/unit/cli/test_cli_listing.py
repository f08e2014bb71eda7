"""The command line's frame: help, listings, errors in one line, and a quick start."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import ktdeval
from ktdeval.cli.main import COMMANDS, _make_writable, main
from ktdeval.config import RunConfig, load_config
from ktdeval.errors import ConfigError, UsageError

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
    "importlib.metadata",
}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`ktdeval ARGUMENTS` in a process of its own."""
    command = [sys.executable, "-m", "ktdeval", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def modules_after(*arguments: str) -> set[str]:
    """Modules loaded once `ktdeval ARGUMENTS` is done."""
    script = f"import sys\nfrom ktdeval.cli.main import main\nmain({list(arguments)!r})\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.fixture
def broken_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution on sys.path whose plugin can't be imported."""
    folder = tmp_path / "wreck-0.3.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: wreck\nVersion: 0.3\n")
    (folder / "entry_points.txt").write_text("[ktdeval]\nwreck = wreck_manifest\n")
    (tmp_path / "wreck_manifest.py").write_text("import a_module_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))


# ---- start


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["tasks"],
        ["tasks", "--json"],
        ["models"],
        ["agents"],
        ["metrics"],
        ["plugins"],
        ["--version"],
        ["tasks", "--help"],
    ],
)
def test_help_and_listings_import_nothing_heavy(arguments: list[str]) -> None:
    assert modules_after(*arguments) & HEAVY == set()


def test_help_reads_no_task_file_and_no_yaml() -> None:
    assert "yaml" not in modules_after("--help")


@pytest.mark.parametrize("module", ["ktdeval", "ktdeval.api", "ktdeval.registry", "ktdeval.config"])
def test_importing_the_package_loads_neither_pandas_nor_scipy(module: str) -> None:
    script = f"import sys, {module}\nprint(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) & HEAVY == set()


# ---- help


def test_help_shows_every_command_and_every_option_of_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in shown
    for field in fields(RunConfig):
        assert f"--{field.name.replace('_', '-')} " in shown
        if field.default not in (MISSING, None, (), False) or field.default == 0:
            assert field.default is False or f"[default: {field.default}]" in " ".join(shown.split())


def test_no_arguments_show_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Usage: ktdeval")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ktdeval {ktdeval.__version__}\n"


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "Usage: ktdeval" in capsys.readouterr().out


# ---- listings


def test_tasks_are_listed_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["TASK", "GROUPS", "SUMMARY"]
    trading = [
        f"{mask}_{mode}"
        for mask in ("bright", "stock_blind", "date_blind", "blinded")
        for mode in ("memory_only", "fixed_candidate", "open_research")
    ]
    probes = ["deanon_probe", *(f"deanon_probe_{mask}" for mask in ("bright", "stock_blind", "date_blind"))]
    tool_use = [f"qfinzero_{suite}{way}" for suite in ("calling", "planning") for way in ("", "_text", "_live")]
    assert [line.split()[0] for line in lines[1:]] == sorted([*trading, *probes, *tool_use])


@pytest.mark.parametrize("kind", ["tasks", "models", "agents", "metrics", "data", "plugins"])
def test_listings_are_json_on_request(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([kind, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert entries
    assert all("name" in entry for entry in entries)


def test_parameters_of_models_are_listed_with_type_default_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json"]) == 0
    models = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    for parameter in models["builtin/momentum"]["params"]:
        assert set(parameter) == {"name", "type", "required", "default", "help"}
        assert parameter["help"]


def test_show_prints_the_resolved_config_with_data_card_and_sources(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "show", "blinded_open_research", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["name"] == "blinded_open_research"
    assert shown["mask"] == "blinded"
    assert shown["trading"]["initial_cash_cny"] == 1_000_000
    assert shown["data_card"]
    assert shown["sources"]
    assert main(["tasks", "show", "blinded_open_research"]) == 0
    assert "initial_cash_cny: 1000000" in capsys.readouterr().out


def test_show_explains_the_parameters_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "show", "builtin/momentum"]) == 0
    shown = capsys.readouterr().out
    assert "positions   int    20       names held" in shown
    assert "--model-args NAME=VALUE" in shown
    assert main(["agents", "show", "react"]) == 0
    assert "no parameters" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--json", "show", "{}"], ["show", "{}", "--json"]])
@pytest.mark.parametrize(("kind", "name"), [("tasks", "bright_memory_only"), ("models", "builtin/hold"), ("agents", "react")])
def test_options_may_stand_before_or_after_show(words: list[str], kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([kind, *(word.format(name) for word in words)]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == name


def test_a_plugin_given_before_show_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a_provider_of_models.py"
    hook = "@hookimpl\ndef ktdeval_models(): return [Spec('house', lambda name: None, 'Models of my house')]\n"
    path.write_text(f"from ktdeval.api import Spec, hookimpl\n{hook}")
    for name in ("house", "house/any"):
        assert main(["models", "--plugin", str(path), "show", name]) == 0
        assert capsys.readouterr().out.startswith("house: Models of my house (plugin a_provider_of_models)")


def test_a_listing_fits_a_narrow_terminal_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models"]) == 0
    piped = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 60 < max(map(len, piped.splitlines()))
    assert sorted(shown.split()) == sorted(piped.split())


def test_what_a_stream_can_not_write_becomes_a_question_mark() -> None:
    narrow, wide = (io.TextIOWrapper(io.BytesIO(), encoding=name, write_through=True) for name in ("ascii", "utf-8"))
    _make_writable(narrow, wide)
    for stream in (narrow, wide):
        stream.write("W1 · 1…2")
    assert (narrow.buffer.getvalue(), wide.buffer.getvalue().decode()) == (b"W1 ? 1?2", "W1 · 1…2")  # type: ignore[attr-defined]


@pytest.mark.parametrize("words", [["score"], ["card", "verify"]])
def test_commands_on_a_finished_run_show_no_default_of_a_new_one(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    assert "[default:" not in capsys.readouterr().out


def test_a_broken_plugin_is_a_warning_and_the_rest_is_listed(broken_plugin: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    captured = capsys.readouterr()
    assert "builtin/momentum" in captured.out
    assert captured.err == (
        "ktdeval: warning: plugin wreck_manifest is skipped: can't be imported: "
        "ModuleNotFoundError: No module named 'a_module_that_is_not_there'\n"
    )


def test_broken_plugins_are_listed_as_such(broken_plugin: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins"]) == 0
    assert "BROKEN: can't be imported: ModuleNotFoundError" in capsys.readouterr().out
    assert main(["plugins", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert "a_module_that_is_not_there" in entries["wreck_manifest"]["error"]
    assert (entries["wreck_manifest"]["distribution"], entries["wreck_manifest"]["version"]) == ("wreck", "0.3")
    assert entries["ktdeval_builtin"]["error"] is None


def test_a_plugin_may_add_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "adds_command-0.1.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_text("[ktdeval]\nx = adds_command\n")
    code = "import click\nfrom ktdeval.api import Spec, hookimpl\n@click.command()\ndef hello(): click.echo('hello')\n"
    hook = "@hookimpl\ndef ktdeval_commands(): return [Spec('{name}', lambda: hello, 'Says hello.')]\n"
    (tmp_path / "adds_command.py").write_text(code + hook.format(name="hello"))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions of a module within one second look alike to its cache
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "adds_command", raising=False)
    assert main(["hello"]) == 0
    assert main(["--help"]) == 0
    assert "Says hello." in capsys.readouterr().out
    (tmp_path / "adds_command.py").write_text(code + hook.format(name="tasks"))
    monkeypatch.delitem(sys.modules, "adds_command")
    assert main(["--help"]) == 2
    assert "command 'tasks' is offered by ktdeval itself and by plugin adds_command" in capsys.readouterr().err


# ---- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["taks"], "no command 'taks'; did you mean 'tasks'"),
        (["tasks", "show", "blindd_open_research"], "unknown task 'blindd_open_research'; did you mean 'blinded_open_research'"),
        (["tasks", "--jsn"], "No such option"),
        (["--modle", "x"], "No such option"),
        (["--model", "builtin/hold"], "no task named; say --tasks blinded_open_research (see `ktdeval tasks`)"),
        (["--tasks", "blinded_open_research"], "no model named; say --model builtin/momentum (see `ktdeval models`)"),
        (["--model", "builtin/hold", "--tasks", "x", "--seeds", "0"], "options: seeds: expected a value in 1"),
        (["--model", "builtin/hold", "--tasks", "x", "--seeds", "many"], "'many' is not a valid int"),
        (
            ["--model", "builtin/hold", "--tasks", "x", "--rules", "papr"],
            "rules: expected one of strict, paper, was 'papr'; did you mean",
        ),
        (["--model_args", "a"], "--model-args: expected key=value,key=value, was 'a'"),
        (["run", "--config", "no_such_file.yaml"], "no_such_file.yaml: can't read: No such file or directory"),
        (["models", "--plugin", "no_such_plugin"], "--plugin no_such_plugin: can't be imported: ModuleNotFoundError"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("ktdeval: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_missing_command_module_is_an_error_only_when_called(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(COMMANDS, "card", COMMANDS["card"]._replace(module="ktdeval.cli.not_there"))
    assert main(["--help"]) == 0
    capsys.readouterr()
    assert main(["card"]) == 2
    assert "command 'card' is missing from this installation (ktdeval.cli.not_there)" in capsys.readouterr().err


def test_an_interrupt_is_exit_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("ktdeval.cli.listing.open_plugins", interrupt)
    assert main(["tasks"]) == 130
    assert capsys.readouterr().err.endswith("ktdeval: error: interrupted\n")


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m ktdeval tasks --json | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[", "")


# ---- the run's config


def test_both_spellings_of_an_option_and_bare_options_reach_run(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--model-args", "--model_args"):
        assert main([option, '{"broken": ']) == 2
        assert "--model-args: not a JSON object" in capsys.readouterr().err


def test_a_config_file_and_the_command_line_are_merged(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("model: a/b\ntasks: one, two\nmodel_args: {x: 1, y: 2}\nseeds: 5\nwindows: [W1]\n")
    config = load_config(path, {"model": None, "seeds": 2, "model_args": {"y": 3}, "windows": ("W2", "W3")})
    assert (config.model, config.tasks, config.seeds, config.windows) == ("a/b", ("one", "two"), 2, ("W2", "W3"))
    assert config.model_args == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modl: a", "run.yaml: unknown field 'modl'; did you mean 'model'"),
        ("seeds: 0", "run.yaml: seeds: expected a value in 1"),
        ("seeds: many", "run.yaml: seeds: expected int, was str 'many'"),
        ("rules: papr", "run.yaml: rules: expected one of strict, paper, was 'papr'; did you mean 'paper'"),
        ("seeds: 1\nseeds: 2", "run.yaml: line 2: key 'seeds' was already given on line 1"),
        ("seeds: [", "run.yaml: line 2, column 1: not YAML"),
    ],
)
def test_mistakes_in_a_config_file_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, {"model": "a/b", "tasks": ("x",)})
    assert message in str(caught.value)


def test_a_run_needs_a_model_and_a_task() -> None:
    with pytest.raises(UsageError, match="no model named"):
        load_config(None, {"tasks": ("x",)})
    with pytest.raises(UsageError, match="no task named"):
        load_config(None, {"model": "a/b"})


@pytest.mark.parametrize("group", [["card"], ["qfinzero", "data"], ["serve"]], ids=" ".join)
def test_a_group_without_a_command_prints_its_help_as_it_is(group: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(group) == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith(f"Usage: ktdeval {' '.join(group)}")
    assert "\n  -h, --help" in errors
