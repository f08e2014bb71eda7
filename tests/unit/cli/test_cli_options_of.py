"""Options of a command come from the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner

from ktdeval.cli import FilePath, RunOptionsCommand, flag, given_of, options_of, run_flag
from ktdeval.cli.options import run_options


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


# ---- further kinds of values


@dataclass(frozen=True, kw_only=True)
class Further:
    """Options that the first class has not."""

    models: tuple[str, ...] = flag((), help="models", type=click.STRING, metavar="MODEL,…")
    yes: bool = flag(False, name="--yes -y", help="do not ask")
    rules: Literal["strict", "paper"] | None = run_flag("rules")
    data_args: Mapping[str, Any] | None = run_flag("data_args")
    plugin: tuple[str, ...] = run_flag("plugin")


@click.command()
@options_of(Further)
def further(options: Further) -> None:
    """Show the options."""
    click.echo(repr(options))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Further()),
        (["--models", "a(x=1,y=2)", "--models", "b"], Further(models=("a(x=1,y=2)", "b"))),
        (["-y"], Further(yes=True)),
        (["--yes"], Further(yes=True)),
        (["--rules", "paper"], Further(rules="paper")),
        (["--data-args", "a=1,b=x"], Further(data_args={"a": 1, "b": "x"})),
        (["--plugin", "one.py,two"], Further(plugin=("one.py", "two"))),
    ],
)
def test_each_kind_of_value_arrives_as_its_field_says(words: list[str], expected: Further) -> None:
    assert CliRunner().invoke(further, words).output == f"{expected!r}\n"


def test_options_that_were_not_given_are_left_out() -> None:
    assert given_of(Further(yes=True, rules="paper")) == {"yes": True, "rules": "paper"}
    assert given_of(Further()) == {"yes": False}


@pytest.mark.parametrize("name", ["rules", "data_args", "plugin"])
def test_an_option_of_a_run_has_its_one_help_text_and_no_default(name: str) -> None:
    (of_run,) = (option for option in run_options() if option.name == name)
    (own,) = (option for option in further.params if option.name == name)

    assert isinstance(own, click.Option)
    assert isinstance(of_run, click.Option)
    assert own.help == str(of_run.help).partition(" [default")[0]
    assert own.make_metavar(click.Context(further)) == of_run.make_metavar(click.Context(further))


# ---- options of run


@click.command(cls=RunOptionsCommand, run_names=["seeds", "price"])
@options_of(Shared)
def sharing(options: Shared, **values: Any) -> None:
    """Show the options."""
    click.echo(f"{options} {values}")


def test_a_command_takes_options_of_run_without_defining_them() -> None:
    assert [option.name for option in sharing.params] == ["as_json"]
    words = ["--seeds", "3", "--price", "input=2", "--json"]
    expected = f"{Shared(as_json=True)} {{'seeds': 3, 'price': {{'input': 2}}}}\n"
    assert CliRunner().invoke(sharing, words).output == expected


def test_its_help_names_them_and_does_not_repeat_what_run_says() -> None:
    shown = CliRunner().invoke(sharing, ["--help"]).output
    assert "--json  print JSON" in shown
    assert "Options of `ktdeval run` (see `ktdeval run --help`):\n  --seeds, --price\n" in shown
    assert "number of seeds" not in shown


def test_an_option_of_run_that_it_does_not_take_is_refused() -> None:
    assert "No such option" in CliRunner().invoke(sharing, ["--quiet"]).stderr
