"""`ktdeval data`: one command for all providers, and folders of several forms."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from inline_snapshot import snapshot

from ktdeval.registry import find_entry_points, plugin_registry
from ktdeval.testing import Terminal
from ktdeval_data.command import data

SMALL = ("--first", "2024-01-02", "--last", "2024-02-08")
NOTES = '''
"""Data that are notes in a file."""
from dataclasses import dataclass
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import DataForm
from ktdeval.values import Finding, option


def write(params, folder):
    folder.mkdir()
    (folder / "notes.txt").write_text(params.text)
    yield f"{folder}: {len(params.text)} letters"


NOTES = DataForm(
    "notebook",
    lambda folder: (folder / "notes.txt").exists(),
    lambda folder: [
        Finding(path="notes.txt", message="is dull"),
        Finding(path="notes.txt", message="is short", level="warning"),
    ],
    lambda folder: {"letters": len((folder / "notes.txt").read_text())},
)


@dataclass(frozen=True)
class Params:
    text: str = option("hello", help="what to write")
    NAME: str = option("", help="a name that may be taken")


@hookimpl
def ktdeval_data():
    return [Spec("notes", write, "notes", Params, extra={"form": NOTES, "kind": "imported"})]
'''


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A plugin whose data have a form of their own."""
    monkeypatch.delitem(sys.modules, "notes_plugin", raising=False)
    path = tmp_path / "notes_plugin.py"
    path.write_text(NOTES.replace("NAME", "heading"))

    return path


def test_there_are_three_commands_with_few_options() -> None:
    options = {}
    for name, command in data.commands.items():
        options[name] = [each.opts[0] for each in command.params if isinstance(each, click.Option)]

    assert options == {
        "make": ["--out", "--check-only", "--recipe", "--set", "--spec", "--json"],
        "check": ["--facts", "--json"],
        "info": ["--json"],
    }


@pytest.mark.slow
def test_common_options_may_precede_the_provider(tmp_path: Path, terminal: Terminal) -> None:
    first = tmp_path / "first"
    then = tmp_path / "then"
    before = terminal.out("data", "make", "--set", "seed=3", "--out", first, "synthetic", *SMALL)
    after = terminal.out("data", "make", "synthetic", *SMALL, "--set", "seed=3", "--out", then)

    assert before.removeprefix(str(first)) == after.removeprefix(str(then))


@pytest.mark.slow
def test_a_check_alone_stores_nothing_and_takes_json(tmp_path: Path, terminal: Terminal) -> None:
    words = ("data", "make", "synthetic", *SMALL, "--check-only")
    assert "0 kinds of error" in terminal.text(*words)

    report = json.loads(terminal.text(*words, "--out", tmp_path / "m", "--json"))
    assert (report["market"], report["errors"]) == ("synthetic-7", 0)
    assert not (tmp_path / "m").exists()


# ---- data of another form


def test_data_of_another_form_are_made_checked_and_described(
    tmp_path: Path, terminal: Terminal, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    group = ("data", "--plugin", notes)
    listed = [line.split()[:2] for line in terminal.text(*group).splitlines()]

    assert ["notes", "imported"] in listed

    printed = terminal.text(*group, "make", "notes", "--text", "good", "--out", "mine")
    assert printed == "mine: 4 letters\n"

    code, out, _ = terminal.call(*group, "check", "mine")
    assert code == 1
    assert out == snapshot("""\
error notes.txt: is dull
warning notes.txt: is short
mine: 1 error
""")

    code, out, _ = terminal.call(*group, "check", "mine", "--json")
    assert code == 1
    report = json.loads(out)
    assert [(each["path"], each["level"], each["message"]) for each in report.pop("findings")] == [
        ("notes.txt", "error", "is dull"),
        ("notes.txt", "warning", "is short"),
    ]
    assert report == {"form": "notebook", "errors": 1, "warnings": 1}
    assert terminal.report(*group, "info", "mine") == {"letters": 4}


def test_data_of_another_form_are_no_market(terminal: Terminal, notes: Path) -> None:
    words = ("plan", "--model", "builtin/hold", "--tasks", "blinded_open_research")
    refused = terminal.refusal(*words, "--plugin", notes, "--data", "notes")

    assert refused == snapshot(
        "ktdeval: error: data provider 'notes' makes a notebook, not a market; write it with `ktdeval data make notes --out DIR`\n"
    )

    refused = terminal.refusal("data", "--plugin", notes, "make", "notes", "--check-only")
    assert refused == snapshot(
        "ktdeval: error: --check-only is for markets; check a notebook once it is made: `ktdeval data check DIR`\n"
    )


@pytest.mark.parametrize("name", ["out", "check_only", "as_json", "spec", "set", "json"])
def test_a_parameter_with_the_name_of_a_common_option_is_refused(
    terminal: Terminal, notes: Path, name: str
) -> None:
    notes.write_text(NOTES.replace("NAME", name))
    refused = terminal.refusal("data", "--plugin", notes, "make", "notes", "--help")
    assert f"its parameter '{name}' has the name of an option of `ktdeval data make`" in refused


def test_without_the_plugin_of_a_form_the_rest_works(
    tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def others() -> list[Any]:
        return [each for each in find_entry_points() if "qfinzero" not in each.module]

    monkeypatch.setattr(plugin_registry, "find_entry_points", others)

    assert "unknown data provider 'qfinzero'" in terminal.refusal("data", "make", "qfinzero")

    terminal.out("data", "make", "synthetic", *SMALL, "--out", tmp_path / "m")
    assert "0 kinds of error" in terminal.text("data", "check", tmp_path / "m")


# ---- words that moved


def test_old_words_that_no_table_rewrites_are_refused_with_what_to_type(terminal: Terminal) -> None:
    lines = (
        "qfinzero data import ingest.yaml mine",
        "qfinzero data update ingest.yaml mine --replace",
        "data check long --bars x.csv --json",
        "data fetch",
    )
    assert "".join(terminal.error(*line.split()) for line in lines) == snapshot("""\
ktdeval: moved: ktdeval data make qfinzero_files …
ktdeval: error: unexpected argument 'mine'; the folder to write is given by --out mine
ktdeval: moved: ktdeval data make qfinzero_files --update …
ktdeval: error: unexpected argument 'mine'; the folder to write is given by --out mine
ktdeval: error: 'long' is a data provider, and `data check` takes a folder; check a source with `ktdeval data make long --bars x.csv --json --check-only`
ktdeval: moved: ktdeval data make …
ktdeval: error: name a provider (`ktdeval data` lists them), or the recipe of a fetched market: --recipe FILE --out DIR
""")


def test_the_old_build_of_a_dataset_is_rewritten(terminal: Terminal) -> None:
    error = terminal.error("qfinzero", "data", "build", "m", "--as-of-day", "soon")
    assert error == snapshot("""\
ktdeval: moved: ktdeval data make qfinzero --out …
ktdeval: error: synthetic market: --as-of-day must be a day such as 2025-01-02
""")
