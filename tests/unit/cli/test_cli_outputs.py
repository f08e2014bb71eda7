"""Outputs are tested before the work on them begins: of every command that writes a file or folder
which the user names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from ktdeval.cli.groups import load_command
from ktdeval.cli.main import cli
from ktdeval.cli.options import OutputPath
from ktdeval.errors import StoreError
from ktdeval.testing import Terminal
from ktdeval.values import check_output

NAMES = {"--out", "--output", "--plots", "--save-probes"}
RUN = (
    "--model",
    "builtin/momentum",
    "--tasks",
    "blinded_open_research",
    "--data",
    "/nowhere/at-all",
)
"""Commands whose output is also a field of the config file, so that it is tested once the config is
read: before the market is.
"""


def commands(
    command: click.Command, words: tuple[str, ...], context: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            inner = load_command(found)
            yield from commands(
                inner, (*words, name), click.Context(inner, info_name=name, parent=context)
            )


def outputs() -> list[Any]:
    """Words of a command, an option of it that names an output, and its type."""
    found = []
    for words, command in commands(cli, (), click.Context(cli, info_name="ktdeval")):
        # click keeps a command's help option, so it must be the one of the command line.
        context = click.Context(command, help_option_names=["-h", "--help"])
        for parameter in command.get_params(context):
            names = NAMES.intersection(parameter.opts)
            if isinstance(parameter, click.Option) and names:
                option = names.pop()
                found.append(
                    pytest.param(words, option, parameter.type, id=" ".join((*words, option)))
                )

    return found


OUTPUTS = outputs()


def test_all_commands_that_write_are_found() -> None:
    names = {parameter.id for parameter in OUTPUTS}
    of_runs = {
        "run --out",
        "plan --out",
        "demo --out",
        "view episodes --out",
        "view report --out",
        "view report --plots",
    }
    of_models = {"train qlib --out", "train rl --output", "certify --out", "paper ama --out"}
    of_data = {"data make --out"}
    of_boards = {"leaderboard build --out", "leaderboard export --out"}

    assert names >= of_runs | of_models | of_data | of_boards


OF_RUN = {("run",): RUN, ("plan",): RUN}


@pytest.mark.sampled(30)
@pytest.mark.parametrize(
    "place", ["below a file", "where nothing can be written", "of the other kind"]
)
@pytest.mark.parametrize(("words", "option", "kind"), OUTPUTS)
def test_an_output_that_can_not_be_written_is_one_line_before_the_work(
    tmp_path: Path,
    terminal: Terminal,
    words: tuple[str, ...],
    option: str,
    kind: click.ParamType,
    place: str,
) -> None:
    assert isinstance(kind, OutputPath) or words in OF_RUN

    file = tmp_path / "file"
    file.write_text("mine")
    is_file = isinstance(kind, OutputPath) and kind.kind == "file"
    of_other_kind = tmp_path if is_file else file
    out = {
        "below a file": file / "out",
        "where nothing can be written": Path("/proc/out"),
        "of the other kind": of_other_kind,
    }[place]
    error = terminal.refusal(*words, *OF_RUN.get(words, ()), option, out)

    assert error.startswith(f"ktdeval: error: {out}: ")
    assert f"choose another {option}" in error
    assert file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_of_a_dataset_is_tested_too(tmp_path: Path, terminal: Terminal) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    assert "holds something else; choose another --out" in terminal.refusal(
        "data", "make", "qfinzero", "--out", tmp_path
    )


def test_a_test_of_an_output_leaves_nothing_and_makes_nothing(tmp_path: Path) -> None:
    for kind in ("file", "folder", "new folder"):
        check_output(tmp_path / "a" / "b", kind, "--out")

    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "manifest.json").write_text("{}")
    check_output(tmp_path / "held", "new folder", "--out", mark="manifest.json")

    assert [path.name for path in tmp_path.iterdir()] == ["held"]

    with pytest.raises(StoreError, match="File name too long; choose another --out"):
        check_output(tmp_path / ("x" * 300), "file", "--out")
