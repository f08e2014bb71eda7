"""A group of commands that several plugins share fits the plugins that are there."""

from __future__ import annotations

from itertools import chain

import click

from ktdeval.cli.groups import SharedGroup
from ktdeval.cli.main import command_groups, shared_group
from ktdeval.hookspecs import Spec
from ktdeval.registry import hints

VIEW = hints()["shared_groups"]["view"]


def group_of(name: str, *commands: str) -> SharedGroup:
    return shared_group(name, {words: Spec(words, click.Command, words) for words in commands})


def test_a_group_has_the_examples_of_the_commands_that_are_there() -> None:
    assert group_of("paper", "paper vote", "paper qfinzero").epilog == (
        "ktdeval paper vote RUN RUN RUN --out voted"
    )
    assert group_of("paper", "paper qfinzero").epilog == "ktdeval paper qfinzero tools"
    assert group_of("paper", "paper ama").epilog == "ktdeval paper ama --help"


def test_a_group_without_its_default_command_has_none_and_names_none() -> None:
    whole = group_of("view", "view episodes", "view report")
    assert (whole.default_command, whole.help) == ("episodes", VIEW["help"])
    assert whole.epilog == "ktdeval view ktdeval-runs/my-run --open"

    rest = group_of("view", "view roles", "view report")
    assert (rest.default_command, rest.help) == (None, VIEW["summary"])
    assert rest.epilog == "ktdeval view report --help"


def test_a_group_without_commands_is_not_there() -> None:
    named = set(chain.from_iterable(command_groups({}).values()))
    assert not named & {"compare", "view", "paper", "train"}
