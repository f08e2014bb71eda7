"""Options of a command come from the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click
import pytest
from click.testing import CliRunner
from inline_snapshot import snapshot

from ktdeval.cli import FilePath, RunOptionsCommand, flag, given_of, options_of, run_flag


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


def test_an_option_that_is_not_given_has_the_default_of_its_field() -> None:
    assert run("--source", "x.csv") == f"{Options(source=Path('x.csv'))!r}\n"


def test_a_field_without_a_default_must_be_given() -> None:
    assert "Missing option '--source'" in run()


def test_help_names_own_options_before_shared_ones_with_their_meaning() -> None:
    assert run("--help") == snapshot("""\
Usage: command [OPTIONS]

  Show the options.

Options:
  --form [text|html]          form of the output [default: text]
  --level LEVEL               level of the interval [default: 0.95]
  --windows WINDOW,…          windows to keep
  --source FILE               file to read  [required]
  --folder DIR                folder to read; may be repeated
  --both / --one              whether both sides count
  --over, --transport [NAME]  way; without a name, any
  --json                      print JSON
  --help                      Show this message and exit.
""")


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


# ---- options of run


@click.command(cls=RunOptionsCommand, run_names=["seeds", "price"])
@options_of(Shared)
def sharing(options: Shared, **values: Any) -> None:
    """Show the options."""
    click.echo(f"{options} {values}")
