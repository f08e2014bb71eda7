"""Options of a command come from the fields of a dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import pytest
from click.testing import CliRunner

from ktdeval.cli import FilePath, flag, options_of


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Options that several commands have."""

    as_json: bool = flag(False, name="--json", help="print JSON")


@dataclass(frozen=True, kw_only=True)
class Options(Shared):
    """Options of one command."""

    form: Literal["text", "html"] = flag("text", help="form of the output")
    level: float = flag(0.95, help="level of the interval", metavar="LEVEL")
    windows: tuple[str, ...] = flag((), help="windows to keep")
    source: Path = flag(help="file to read", type=FilePath(), metavar="FILE")
    folders: tuple[Path, ...] = flag(
        (), name="--folder", help="folder to read; may be repeated", type=FilePath(), metavar="DIR"
    )
    sides: bool | None = flag(None, name="--both/--one", help="whether both sides count")
    over: str | None = flag(
        None, name="--over --transport", metavar="[NAME]", help="way; without a name, any"
    )


@click.command()
@options_of(Options)
def command(options: Options) -> None:
    """Show the options."""
    click.echo(repr(options))


def run(*words: str) -> str:
    result = CliRunner().invoke(command, words)
    return result.output + result.stderr


def test_each_field_is_an_option_whose_value_has_the_type_of_the_field() -> None:
    given = ["--json", "--form", "html", "--level", "0.9", "--windows", "a,b", "--source", "x.csv"]
    expected = Options(
        as_json=True, form="html", level=0.9, windows=("a", "b"), source=Path("x.csv")
    )
    assert run(*given) == f"{expected!r}\n"


def test_a_tuple_of_values_with_a_type_is_an_option_that_may_be_repeated() -> None:
    expected = Options(source=Path("x.csv"), folders=(Path("a,b"), Path("c")))
    assert run("--source", "x.csv", "--folder", "a,b", "--folder", "c") == f"{expected!r}\n"


@pytest.mark.parametrize(("word", "value"), [("--both", True), ("--one", False)])
def test_a_flag_with_two_names_is_true_false_or_not_given(word: str, value: bool) -> None:
    expected = Options(source=Path("x.csv"), sides=value)
    assert run("--source", "x.csv", word) == f"{expected!r}\n"


def test_a_word_that_is_no_choice_is_refused() -> None:
    refused = run("--source", "x.csv", "--form", "pdf")
    assert "'pdf' is not one of 'text', 'html'" in refused


def test_an_option_that_is_not_given_has_the_default_of_its_field() -> None:
    assert run("--source", "x.csv") == f"{Options(source=Path('x.csv'))!r}\n"


def test_a_field_without_a_default_must_be_given() -> None:
    assert "Missing option '--source'" in run()


def test_help_names_the_options_of_a_command_before_those_that_it_shares() -> None:
    shown = run("--help")
    assert shown.index("--form") < shown.index("--source") < shown.index("--json")


@pytest.mark.parametrize(
    "line",
    [
        "--json print JSON",
        "--form [text|html] form of the output [default: text]",
        "--level LEVEL level of the interval [default: 0.95]",
        "--windows WINDOW,… windows to keep",
        "--source FILE file to read [required]",
        "--folder DIR folder to read; may be repeated",
        "--both / --one whether both sides count",
    ],
)
def test_help_says_value_meaning_and_default(line: str) -> None:
    assert line in " ".join(run("--help").split())


@pytest.mark.parametrize("name", ["--over", "--transport"])
@pytest.mark.parametrize(("value", "expected"), [((), ""), (("tcp",), "tcp")])
def test_an_option_may_have_several_names_and_a_value_that_may_be_left_out(
    name: str, value: tuple[str, ...], expected: str
) -> None:
    options = Options(source=Path("x.csv"), over=expected)
    assert run("--source", "x.csv", name, *value) == f"{options!r}\n"


def test_that_an_option_must_be_given_is_said_once() -> None:
    assert run("--help").count("[required]") == 1
