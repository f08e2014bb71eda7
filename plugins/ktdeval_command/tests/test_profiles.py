"""Profiles: what is started for a step, worked by hand for each known program, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError
from ktdeval.testing import error_lines, errors_of
from ktdeval_command.placeholders import StepValues
from ktdeval_command.profiles import (
    PreparedProgram,
    Profile,
    load_profile,
    prepare_start,
    profile_hash,
    profile_of,
    run_words,
    shipped_profiles,
)
from ktdeval_command.sandboxes.program import Start, run_program
from ktdeval_command.sandboxes.sandbox import Sandbox
from ktdeval_command.sandboxes.workspace import ProgramWorkspaces

VALUES = StepValues(
    bridge="http://127.0.0.1:1001",
    bridge_token="B-TOKEN",
    tools_url="http://127.0.0.1:1002/mcp",
    tools_token="T-TOKEN",
    tools_stdio=("/usr/bin/python3", "-c", "RELAY"),
    prompt="Decide for {day} 7.",
    model="openai/some-model",
)


def ready(name: str, *words: str) -> PreparedProgram:
    return prepare_start(load_profile(shipped_profiles()[name]), words, VALUES)


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    return path


# ---- known programs


def test_codex() -> None:
    assert ready("codex", "codex", "--search") == PreparedProgram(
        argv=(
            "codex",
            "exec",
            "--search",
            "--strict-config",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "--model",
            "openai/some-model",
            "-c",
            "model_provider=ktdeval",
            "-c",
            'model_providers.ktdeval={name="ktdeval",base_url="http://127.0.0.1:1001/v1",'
            'env_key="OPENAI_API_KEY",wire_api="responses"}',
            "-c",
            'mcp_servers.ktdeval={url="http://127.0.0.1:1002/mcp",'
            'bearer_token_env_var="KTDEVAL_TOOLS_TOKEN",required=true}',
            "-c",
            'web_search="disabled"',
            "-c",
            "check_for_update_on_startup=false",
            "-c",
            "analytics.enabled=false",
            "-",
        ),
        environment={
            "CODEX_HOME": "../tmp",
            "OPENAI_API_KEY": "B-TOKEN",
            "KTDEVAL_TOOLS_TOKEN": "T-TOKEN",
        },
        files={},
        stdin=b"Decide for {day} 7.",
    )


@pytest.mark.parametrize(
    ("name", "off"),
    [
        ("claude", "--disallowedTools WebSearch,WebFetch"),
        ("codex", '-c web_search="disabled"'),
        ("gemini", '[[rule]] toolName = ["google_web_search", "web_fetch"] decision = "deny"'),
        ("opencode", '"permission": { "webfetch": "deny", "websearch": "deny" }'),
    ],
)
def test_a_known_program_looks_nothing_up_by_itself(name: str, off: str) -> None:
    step = ready(name, name)
    said = [" ".join(step.argv), *(data.decode() for data in step.files.values())]

    assert off in " ".join(" ".join(said).split())


@pytest.mark.parametrize("name", shipped_profiles())
def test_no_token_and_no_address_of_a_step_is_written_into_the_folder(name: str) -> None:
    """Folders are archived, and equal steps have equal folders."""
    step = ready(name, name)
    elsewhere = replace(VALUES, bridge="http://127.0.0.1:9", tools_url="http://127.0.0.1:8/mcp")

    assert not any(b"TOKEN}" not in data and b"-TOKEN" in data for data in step.files.values())
    assert (
        prepare_start(load_profile(shipped_profiles()[name]), (name,), elsewhere).files
        == step.files
    )


def test_a_subcommand_of_the_user_is_not_repeated() -> None:
    assert ready("codex", "codex", "exec", "-c", "x=1").argv[:5] == (
        "codex",
        "exec",
        "-c",
        "x=1",
        "--strict-config",
    )


# ---- which profile


@pytest.mark.parametrize(
    ("run", "profile", "expected"),
    [
        ("codex exec", "", "codex"),
        ("/opt/tools/claude --print", "", "claude"),
        ("gemini", "", "gemini"),
        ("opencode run", "", "opencode"),
        ("python3 agent.py", "", "default"),
        ("codex-wrapper", "", "default"),
        ("codex-wrapper", "codex", "codex"),
        ("codex", "default", "default"),
    ],
)
def test_the_name_of_the_program_chooses(run: str, profile: str, expected: str) -> None:
    known = load_profile(shipped_profiles()[expected])
    found, _ = profile_of(run, profile)
    assert (found.arguments, found.files) == (known.arguments, known.files)


def test_a_file_of_the_user_is_a_profile(tmp_path: Path) -> None:
    path = own(tmp_path, "arguments: [--task, '{task_file}']\nstdin: ''\n")
    step = prepare_start(profile_of("agent", str(path))[0], ("agent",), VALUES)

    assert step.argv == ("agent", "--task", "task.md")
    assert step.stdin == b""
    assert step.environment == {}


def test_an_unknown_profile_names_the_near_ones() -> None:
    with pytest.raises(ConfigError) as error:
        profile_of("codex", "codexx")
    assert str(error.value) == (
        "profile=codexx: no such file, and no profile with this name; did you mean 'codex' or 'opencode' or 'claude'?;"
        " profiles that ship with the suite are claude, codex, default, gemini, opencode"
    )


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("codex exec", ("codex", "exec")),
        ("agent 'two words' $HOME *.py; ls", ("agent", "two words", "$HOME", "*.py;", "ls")),
        ("awk '{print} {prompt}'", ("awk", "{print} {prompt}")),
    ],
)
def test_a_command_line_is_split_and_not_expanded(run: str, words: tuple[str, ...]) -> None:
    assert run_words(run) == words


def test_braces_of_a_command_line_are_the_programs_own() -> None:
    words = run_words("sh -c 'x=${prompt}; echo {tools_token}' {tools_stdio}")

    assert prepare_start(Profile(), words, VALUES).argv == (
        "sh",
        "-c",
        "x=${prompt}; echo {tools_token}",
        "{tools_stdio}",
    )


def test_a_path_of_a_program_holds_from_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "link").symlink_to("bin")
    monkeypatch.chdir(tmp_path)

    assert run_words("./link/agent -x") == (f"{tmp_path.resolve()}/bin/agent", "-x")


def test_bad_command_lines() -> None:
    assert errors_of(
        run_words,
        "",
        "''",
        "agent 'x",
        "agent a\0b",
    ) == snapshot("""\
ConfigError: run: is empty; give a command line, such as run='codex exec'
ConfigError: run: is empty; give a command line, such as run='codex exec'
ConfigError: run: No closing quotation in "agent 'x"; close it
ConfigError: run[1]: contains the character U+0000; remove it
""")


# ---- filling


def test_values_are_filled_once() -> None:
    values = replace(VALUES, prompt="{bridge_token} {prompt}")
    profile = Profile(arguments=("{prompt}", "{model}/{folder}", "{A}", "$x"), stdin="<{prompt}>")

    with_braces = prepare_start(profile, ("agent",), values)
    assert with_braces.argv == (
        "agent",
        "{bridge_token} {prompt}",
        "openai/some-model/.",
        "{A}",
        "$x",
    )
    assert with_braces.stdin == b"<{bridge_token} {prompt}>"


def test_the_tool_server_over_stdio_is_several_words() -> None:
    profile = Profile(
        arguments=("--tools", "{tools_stdio}", "--end"),
        files={"mcp.json": {"command": "/usr/bin/env", "args": ["-S", "{tools_stdio}"]}},
    )
    step = prepare_start(profile, ("agent",), VALUES)

    assert step.argv == ("agent", "--tools", "/usr/bin/python3", "-c", "RELAY", "--end")
    assert json.loads(step.files["mcp.json"]) == {
        "command": "/usr/bin/env",
        "args": ["-S", "/usr/bin/python3", "-c", "RELAY"],
    }


def test_json_is_written_whatever_a_value_contains() -> None:
    values = replace(VALUES, prompt='"},\n\\', model="ü")
    profile = Profile(files={"a/b.json": {"{prompt}": ["{prompt}", 1, None, {"m": "{model}"}]}})

    written = prepare_start(profile, ("agent",), values).files["a/b.json"]
    assert json.loads(written) == {values.prompt: ['"},\n\\', 1, None, {"m": "ü"}]}


def test_values_that_the_system_can_not_pass_on() -> None:
    def prepare(profile: Profile, prompt: str) -> None:
        prepare_start(profile, ("agent",), replace(VALUES, prompt=prompt))

    in_environment = Profile(environment={"TASK": "{prompt}"})

    assert error_lines(
        lambda: prepare(Profile(arguments=("{prompt}",)), "x" * 131_072),
        lambda: prepare(in_environment, "\ud800"),
        lambda: prepare(in_environment, "a\0b"),
    ) == snapshot("""\
ConfigError: profile: 1: 131,072 bytes are more than the system passes on in one argument or variable (131,071); give {prompt} by stdin, or let the program read {task_file}
ConfigError: profile: TASK: contains half a surrogate pair, which is not valid text; remove it
ConfigError: profile: TASK: contains the character U+0000; remove it
""")


# ---- files that are no profile


def test_bad_profiles(tmp_path: Path) -> None:
    assert errors_of(
        lambda text: load_profile(own(tmp_path, text)),
        "",
        "argument: [x]\n",
        "arguments: x\n",
        "arguments: [1]\n",
        "environment: {A: 1}\n",
        "environment: {A: x, A: y}\n",
        "arguments: ['{tool_url}']\n",
        "stdin: '{prompts}'\n",
        "stdin: '{tools_stdio}'\n",
        "files: {a.json: {command: '{tools_stdio}'}}\n",
        "files: {a.json: {x: ['{nope}']}}\n",
        "files: {a.json: {x: [.nan]}}\n",
        "files: {a.txt: '{nope}'}\n",
        "files: {a.txt: [x]}\n",
        "files: {../a: x}\n",
        "files: {/a: x}\n",
        "files: {a//b: x}\n",
        "files: {task.md: x}\n",
        "files: {a: x, a/b: y}\n",
        "files: {state.json/b: y}\n",
        "arguments: ['--token={tools_token}']\n",
        "environment: {A-B: x}\n",
        "environment: {HOME: /root}\n",
        "environment: {A: '{nope}'}\n",
        "subcommand: '{prompt}'\n",
        "readable: [lib]\n",
        "readable: ['/a/{folder}']\n",
        folder=tmp_path,
    ) == snapshot("""\
ConfigError: FOLDER/own.yaml: expected a mapping of fields, was nothing
ConfigError: FOLDER/own.yaml: unknown field 'argument'; did you mean 'arguments' or 'environment'?
ConfigError: FOLDER/own.yaml: arguments: expected a list, was 'x'
ConfigError: FOLDER/own.yaml: arguments[0]: expected a string, was 1
ConfigError: FOLDER/own.yaml: environment.A: expected a string, was 1
ConfigError: FOLDER/own.yaml: line 1: key 'A' was already given on line 1; keep one of the two
ConfigError: FOLDER/own.yaml: arguments[0]: unknown placeholder {tool_url}; did you mean 'tools_url' or 'tools_token' or 'tools_stdio'?; known are bridge, bridge_token, tools_url, tools_token, tools_stdio, prompt, model, task_file, folder, temporary
ConfigError: FOLDER/own.yaml: stdin: unknown placeholder {prompts}; did you mean 'prompt'?; known are bridge, bridge_token, tools_url, tools_token, tools_stdio, prompt, model, task_file, folder, temporary
ConfigError: FOLDER/own.yaml: stdin: {tools_stdio} expands to several words; make it a list item of its own
ConfigError: FOLDER/own.yaml: files.a.json.command: {tools_stdio} expands to several words; make it a list item of its own
ConfigError: FOLDER/own.yaml: files.a.json.x[0]: unknown placeholder {nope}; known are bridge, bridge_token, tools_url, tools_token, tools_stdio, prompt, model, task_file, folder, temporary
ConfigError: FOLDER/own.yaml: files.a.json.x[0]: JSON has no number nan; quote it, or use another one
ConfigError: FOLDER/own.yaml: files.a.txt: unknown placeholder {nope}; known are bridge, bridge_token, tools_url, tools_token, tools_stdio, prompt, model, task_file, folder, temporary
ConfigError: FOLDER/own.yaml: files.a.txt: expected a string, was a list
ConfigError: FOLDER/own.yaml: files: '../a' is outside the program's folder; use a path like a/b.json
ConfigError: FOLDER/own.yaml: files: '/a' is outside the program's folder; use a path like a/b.json
ConfigError: FOLDER/own.yaml: files: 'a//b' is outside the program's folder; use a path like a/b.json
ConfigError: FOLDER/own.yaml: files: task.md always holds the task; choose another name
ConfigError: FOLDER/own.yaml: files: 'a' is a file, and cannot be a folder for 'a/b'
ConfigError: FOLDER/own.yaml: files: 'state.json' is a file, and cannot be a folder for 'state.json/b'
ConfigError: FOLDER/own.yaml: arguments[0]: {tools_token} would be visible in the list of processes; pass it in environment or files
ConfigError: FOLDER/own.yaml: environment.A-B: not a name of an environment variable; correct it
ConfigError: FOLDER/own.yaml: environment.HOME: is always set to the program's folder; remove it
ConfigError: FOLDER/own.yaml: environment.A: unknown placeholder {nope}; known are bridge, bridge_token, tools_url, tools_token, tools_stdio, prompt, model, task_file, folder, temporary
ConfigError: FOLDER/own.yaml: subcommand: expected a word without a placeholder
ConfigError: FOLDER/own.yaml: readable[0]: expected the absolute path of a folder, was 'lib'
ConfigError: FOLDER/own.yaml: readable[0]: expected the absolute path of a folder, was '/a/{folder}'
""")


# ---- where programs lie


def program(path: Path, first_line: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{first_line}\n")
    path.chmod(0o755)
    return path


def place_of(program: Path | str) -> tuple[list[str], str]:
    """What is shown of a program, and its PATH."""
    profile, installed = profile_of(str(program), "default")
    return [str(part.path) for part in installed.parts], profile.environment.get("PATH", "")


def test_a_program_of_npm_shows_its_packages_and_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = program(tmp_path / "node-20" / "bin" / "node")
    modules = tmp_path / "app" / "node_modules"
    target = program(modules / "@o" / "p" / "node_modules" / "q" / "x.js", "#!/usr/bin/env node")
    (modules / ".bin").mkdir()
    (modules / ".bin" / "agent").symlink_to(target)
    monkeypatch.setenv("PATH", f"{node.parent}:/usr/bin:/bin")

    assert place_of(modules / ".bin" / "agent") == (
        [str(modules), str(node.parent)],
        f"{modules}/.bin:{node.parent}:/usr/local/bin:/usr/bin:/bin",
    )


def test_a_script_of_a_virtual_environment_shows_its_parts_and_its_python(tmp_path: Path) -> None:
    """Never the folder that the environment was made in: it may be a project's, with its data."""
    base = program(tmp_path / "python" / "bin" / "python3.12")
    program(tmp_path / "python" / "lib" / "python3.12" / "os.py")
    venv = tmp_path / "venv"
    script = program(venv / "bin" / "agent", f"#!{venv}/bin/python")
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin" / "python").symlink_to(base)
    (venv / "lib").mkdir()
    (venv / "lib64").symlink_to("lib")
    (venv / "data").mkdir()

    shown, path = place_of(script)
    own = [f"{venv}/{name}" for name in ("bin", "lib", "lib64", "pyvenv.cfg")]
    assert shown == [*own, str(base.parent), str(tmp_path / "python" / "lib")]
    assert path.startswith(f"{venv}/bin:")


def test_an_interpreter_outside_the_system_shows_its_library_too(tmp_path: Path) -> None:
    python = program(tmp_path / "3.11.7" / "bin" / "python3.11")
    library = tmp_path / "3.11.7" / "lib" / "python3.11"
    library.mkdir(parents=True)
    (library / "os.py").write_text("")
    script = program(tmp_path / "home" / "agent.py", f"#!{python}")

    assert place_of(script)[0] == [str(python.parent), str(library.parent)]


@pytest.mark.parametrize("name", ["sh", "no-such-program-here", "/no/such/folder/agent"])
def test_a_program_of_the_system_or_none_shows_nothing(name: str) -> None:
    assert place_of(name) == ([], "")


def test_a_script_at_home_or_in_an_environments_project_shows_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "pyvenv.cfg").write_text("")
    for folder in ("agents", "home"):
        assert place_of(program(tmp_path / folder / "agent.sh", "#!/bin/sh"))[0] == []


@pytest.mark.parametrize(
    "line", ["#!", "#! 'x", "#!/usr/bin/env", "#!/usr/bin/env -S A=1 -i", "#!\0"]
)
def test_odd_first_lines_name_no_interpreter(line: str, tmp_path: Path) -> None:
    script = program(tmp_path / "bin" / "agent", line)
    assert place_of(script)[0] == [str(script.parent)]


# ---- folders of a step


@pytest.mark.exhaustive
def test_folder_and_temporary_folder_are_where_a_program_finds_them(
    sandbox: Sandbox, workspaces: ProgramWorkspaces
) -> None:
    profile = Profile(
        arguments=("-c", "cd {folder} && pwd -P && cd {temporary} && pwd -P && ls -A")
    )
    step = prepare_start(profile, ("sh",), VALUES)
    script = 'echo "$(cd "$HOME" && pwd -P)"; echo "$(cd "$TMPDIR" && pwd -P)"'

    by_placeholder = run_program(Start(step.argv), sandbox, workspaces)
    by_variable = run_program(Start(("sh", "-c", script)), sandbox, workspaces)

    names = [[Path(line).name for line in each.stdout.text().splitlines()]
             for each in (by_placeholder, by_variable)]  # fmt: skip
    assert names == [["home", "tmp"], ["home", "tmp"]]


# ---- sizes for a plan


def test_a_size_does_not_count_in_a_profiles_hash() -> None:
    profile = load_profile(shipped_profiles()["codex"])
    assert profile_hash(replace(profile, measured=None, version=())) == profile_hash(profile)
    assert profile_hash(replace(profile, stdin="x")) != profile_hash(profile)
