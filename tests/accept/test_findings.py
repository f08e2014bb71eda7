"""Every figure of docs/findings.md, recomputed by the section's own command; those of the
papers, looked up in their texts where these lie beside the checkout.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.runner.records.run_folder import RunFolder
from support.accept.accept_runs import card, import_real, silently
from support.docs.findings import (
    FINDINGS,
    Statement,
    half_unit,
    number,
    printed_by_papers,
    recomputed,
    value_at,
)
from support.paths import REPOSITORY

RUNS: dict[str, tuple[str, str]] = {**FINDINGS["runs"], **FINDINGS["shared_runs"]}
#: The paper's rules as the public code has them, on tasks of the public file
PUBLIC_TASKS = """\
family: silence
version: "1"
variants:
  public_reference:
    extends: qfinzero_planning_text
    tasks_file: {file}
    rules: reference
"""

ReportOf = Callable[[str], Any]


@pytest.fixture(scope="module")
def report_of(folder: Path, request: pytest.FixtureRequest) -> ReportOf:
    """Report by its name in findings.yaml; each is made once."""

    @cache
    def market() -> Path:
        return import_real(request.getfixturevalue("shared_data"), folder / "csi300")

    def filled_in(words: str) -> Iterator[str]:
        for word in words.split():
            if word == "CSI300":
                yield str(market())
            elif word == "PUBLIC":
                data = request.getfixturevalue("shared_data") / "qfinzero"
                tasks = folder / "public.yaml"
                tasks.write_text(PUBLIC_TASKS.format(file=data / "planning_tasks_esp_public.jsonl"))
                yield str(tasks)
            else:
                yield word

    @cache
    def run(words: str) -> RunFolder:
        out = folder / str(len(list(folder.iterdir())))
        assert silently([*filled_in(words), "--out", str(out), "--quiet"]) == 0
        return RunFolder.load(out)

    @cache
    def report(name: str) -> Any:
        if name in FINDINGS["reports"]:
            printed = StringIO()
            with redirect_stdout(printed):
                assert main([*FINDINGS["reports"][name].split(), "--json"]) == 0
            return json.loads(printed.getvalue())

        words, task = RUNS[name]
        return card(run(words), task)

    return report


def marked(statement: Statement) -> Any:
    """Case of a statement; slow where it needs a run, and skipped without the data that it is
    of.
    """
    marks = []
    if statement.reports & set(RUNS):
        # the first figure of a section makes the runs of all
        marks += [pytest.mark.slow, pytest.mark.timeout(1800)]
    if statement.reports & set(FINDINGS["shared_runs"]):
        marks.append(pytest.mark.shared_data)

    name = f"{statement.section}: {statement.phrase[:60]}"
    return pytest.param(statement, marks=marks, id=name)


@pytest.mark.exhaustive
@pytest.mark.parametrize("statement", [marked(each) for each in recomputed()])
def test_a_figure_is_what_its_command_prints(statement: Statement, report_of: ReportOf) -> None:
    found = []
    for figure, place in zip(statement.figures, statement.places, strict=True):
        name, _, path = place.partition(": ")
        found.append(pytest.approx(value_at(report_of(name), path), abs=1.0001 * half_unit(figure)))

    assert [number(figure) for figure in statement.figures] == found


@pytest.mark.parametrize("statement", [*printed_by_papers()], ids=lambda each: each.phrase[:60])
def test_a_figure_of_a_paper_is_in_its_text(statement: Statement) -> None:
    paper = REPOSITORY.parent / "shared" / "papers" / f"{statement.places[0]}.txt"
    if not paper.is_file():
        pytest.skip(f"needs the paper's text in {paper}, which is not there")

    text = paper.read_text(encoding="utf-8")

    assert [figure for figure in statement.figures if figure not in text] == []
