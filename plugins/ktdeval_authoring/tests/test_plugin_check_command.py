"""`ktdeval plugin check` finds plugins by file, folder, project or name, and reports every fault."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from support.advertised import advertise, modules_forgotten

WRONG = """from ktdeval.hookspecs import Spec, hookimpl


class Wrong:
    def reply(self, request):
        raise ValueError("never")


@hookimpl
def ktdeval_models():
    return [Spec("wrong/one", lambda name: Wrong(), "Always wrong")]
"""
PROJECT = '[project]\nname = "odd"\n[project.entry-points.ktdeval]\nodd = "odd_package"\n'


@pytest.fixture(autouse=True)
def _own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of these tests are forgotten, and so is what was put on the path."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    with modules_forgotten(tmp_path):
        yield


def test_a_fault_is_printed_with_file_line_reason_and_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong_check.py"
    path.write_text(WRONG)

    assert main(["plugin", "check", str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "wrong_check: 0 parts called, 1 faults",
        f"error [raises] {path}:6, model wrong/one: ValueError: never",
        "  fix: correct that line",
    ]


def test_findings_are_given_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "wrong_json.py"
    path.write_text(WRONG)

    assert main(["plugin", "check", str(path), "--json"]) == 1

    ((finding,),) = [report["findings"] for report in json.loads(capsys.readouterr().out)]
    assert finding == {
        "path": str(path),
        "line": 6,
        "part": "model wrong/one",
        "place": "",
        "day": "",
        "rule": "raises",
        "message": "ValueError: never",
        "level": "error",
        "count": 1,
        "examples": [],
        "fix": "correct that line",
        "repairs": [],
    }


@pytest.mark.slow
def test_a_project_is_checked_by_the_modules_that_it_advertises(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    package = tmp_path / "src" / "odd_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(WRONG)

    assert main(["plugin", "check", str(tmp_path)]) == 1
    assert f"{package / '__init__.py'}:6" in capsys.readouterr().out


def test_where_no_plugin_of_others_is_installed_there_is_none_to_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plugin", "check"]) == 2
    assert "no third-party plugin is installed" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["other"], ["other_manifest"]], ids="".join)
def test_installed_plugins_of_others_are_checked_by_default_or_by_name(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    advertise(tmp_path, "other", "other = other_manifest", monkeypatch, other_manifest=WRONG)
    assert main(["plugin", "check", *words]) == 1
    assert "other_manifest: 0 parts called, 1 faults" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "target", "message"),
    [
        ({}, "nothing_here", "no such file, folder or installed plugin"),
        ({}, ".", "holds neither __init__.py nor pyproject.toml"),
        ({"pyproject.toml": "[project"}, ".", "not TOML"),
        ({"pyproject.toml": "[project]\n"}, ".", "declares no plugin; add [project.entry-points"),
        ({"notes.txt": "x"}, "notes.txt", "not a .py file; give one"),
    ],
)
def test_a_target_that_is_no_plugin_is_refused_in_one_line(
    files: dict[str, str],
    target: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    monkeypatch.chdir(tmp_path)

    assert main(["plugin", "check", target]) != 0

    done = capsys.readouterr()
    assert message in done.err + done.out
    assert "Traceback" not in done.err
