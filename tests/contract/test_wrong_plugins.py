"""Plugins that are wrong on purpose: each is refused for its reason, with file and line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.testing import ConformanceError, check_parts, check_plugin
from support.advertised import modules_forgotten
from support.tables import on_each_row

HEADER = """\
from dataclasses import dataclass
from ktdeval.api import (
    AgentTraits, Decision, ModelError, ModelTraits, QATask, Reply, Spec, hookimpl, metric, option,
    task_specs, tool
)
"""
TASK_FILE = """\
family: wrong
version: "1"
variants:
  wrong_task:
    extends: blinded_open_research
    summary: with a tool that raises
    tools: [wrong_tool]
"""
HERE = "# here"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with modules_forgotten(tmp_path):
        yield tmp_path


def write_plugin(folder: Path, code: str) -> Path:
    path = folder / "wrong_plugin.py"
    path.write_text(HEADER + code)
    path.with_suffix(".yaml").write_text(TASK_FILE)
    return path


def marked_line(path: Path) -> int:
    lines = path.read_text().splitlines()
    return next((number for number, line in enumerate(lines, 1) if HERE in line), 1)


@pytest.mark.sampled(20)
@on_each_row
def test_a_wrong_plugin_is_refused_for_its_reason_with_file_and_line(
    folder: Path, name: str, code: str, part: str, reason: str, fix: str
) -> None:
    path = write_plugin(folder, code)
    (finding,) = check_parts(str(path)).findings

    assert finding.part == part
    assert reason in finding.message
    assert fix in finding.fix
    assert (finding.path, finding.line) == (str(path), marked_line(path))


RIGHT = """
class Quiet:
    traits = ModelTraits(is_free=True)
    def reply(self, request):
        from ktdeval.api import Reply
        return Reply("Nothing to say.")

@hookimpl
def ktdeval_models():
    return [Spec("right/quiet", lambda name: Quiet(), "Says nothing of use")]
"""


def test_a_plugin_without_a_fault_is_checked_by_calling_it(folder: Path) -> None:
    report = check_parts(str(write_plugin(folder, RIGHT)))
    assert (report.findings, report.notes) == ([], {})
    assert report.checked == ["model right/quiet"]


@pytest.mark.slow
def test_every_fault_of_a_plugin_is_reported_at_once(folder: Path) -> None:
    code = RIGHT.replace(
        'return [Spec("right/quiet", lambda name: Quiet(), "Says nothing of use")]',
        'return [Spec("a/b", lambda name: 1, "x"), Spec("c/d", lambda name: 2, "x")]',
    )
    path = str(write_plugin(folder, code))

    assert [finding.part for finding in check_parts(path).findings] == ["model a/b", "model c/d"]

    with pytest.raises(ConformanceError) as caught:
        check_plugin(path)

    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.slow
def test_a_manifest_that_imports_something_heavy_is_refused_as_a_package(folder: Path) -> None:
    package = folder / "wrong_package"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import rich\nfrom ktdeval.api import ModelTraits, Spec, hookimpl\n\n\n" + RIGHT
    )
    (finding,) = check_parts(str(package)).findings

    assert "listing imports" in finding.message
    assert "rich" in finding.message
    assert finding.path == str(package / "__init__.py")
