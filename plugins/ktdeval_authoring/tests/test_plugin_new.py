"""`ktdeval plugin new` writes packages of any parts; what can't be one is refused."""

from __future__ import annotations

import ast
import tomllib
from itertools import combinations
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval.values import parse_yaml, requirement
from ktdeval_authoring.plugin_templates import check_name, parts, render_package

ALL = tuple(parts())
CHOICES = [*combinations(ALL, 1), *combinations(ALL, 2), ALL]


def hooks_in(source: str) -> list[str]:
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.name.startswith("ktdeval_")]


@pytest.mark.parametrize("names", CHOICES, ids="-".join)
def test_every_choice_of_parts_gives_whole_files_and_one_hook_for_each(
    names: tuple[str, ...],
) -> None:
    files = render_package("my-lab", names)
    hooks = hooks_in(files["src/my_lab/__init__.py"])
    hook_of = {"data": "ktdeval_data"}

    assert hooks == [hook_of.get(name, f"ktdeval_{name}s") for name in names]

    for path, text in files.items():
        assert "{{" not in text, path
        assert "{%" not in text, path
        assert text.endswith("\n"), path
        assert not text.endswith("\n\n"), path
        if path.endswith(".py"):
            compile(text, path, "exec")
            assert max(map(len, text.splitlines())) <= 100, path
        elif path.endswith((".yaml", ".yml")):
            parse_yaml(text, path)

    project = tomllib.loads(files["pyproject.toml"])["project"]

    assert project["entry-points"]["ktdeval"] == {"my_lab": "my_lab"}
    assert {f"tests/test_{name}.py" for name in names} < set(files)


def test_the_ci_file_installs_tests_and_checks() -> None:
    steps = parse_yaml(render_package("my-lab", ("task",))[".github/workflows/test.yml"], "ci")
    run = [step["run"] for step in steps["jobs"]["test"]["steps"] if "run" in step]
    assert run == [
        f"pip install '{requirement()}'",
        "pip install -e '.[test]'",
        "pytest",
        "ktdeval plugin check my_lab",
    ]


@pytest.mark.parametrize(
    "name", ["", "My-Lab", "1lab", "my lab", "../lab", "json", "class", "ktdeval", "a" * 61, "-x"]
)
def test_a_name_that_can_be_no_package_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "new", "--out", str(tmp_path / "x"), "--", name]) == 2
    line = capsys.readouterr().err
    assert "can't name a package" in line or "is a name that Python or ktdeval uses" in line
    assert not (tmp_path / "x").exists()


def test_a_name_of_an_installed_plugin_is_refused() -> None:
    assert check_name("my-lab") == "my_lab"
    with pytest.raises(Exception, match="is a name that Python or ktdeval uses; choose another"):
        check_name("ktdeval-models")


def test_an_unknown_part_and_a_folder_in_use_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "new", "my-lab", "--with", "metrics", "--out", str(tmp_path)]) == 2
    assert "--with: no part 'metrics'; did you mean 'metric'?" in capsys.readouterr().err
    assert main(["plugin", "new", "my-lab", "--with", " , ", "--out", str(tmp_path)]) == 2
    assert "--with: names no part; parts are task, metric" in capsys.readouterr().err

    (tmp_path / "mine").write_text("precious")
    assert main(["plugin", "new", "my-lab", "--with", "task", "--out", str(tmp_path)]) == 2
    assert "exists already; choose another folder with --out" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_the_next_commands_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "lab"
    assert main(["plugin", "new", "my-lab", "--with", "runner", "--out", str(folder)]) == 0

    out = capsys.readouterr().out
    assert f"cd {folder} && pip install -e '.[test]' && pytest" in out
    assert "ktdeval plugin check my_lab" in out
    assert (folder / "src/my_lab/runner.py").is_file()
