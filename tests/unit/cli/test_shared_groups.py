"""A group of commands that several plugins share fits the plugins that are there."""

from __future__ import annotations

from ktdeval.cli.command_tree import SharedGroup, all_commands
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.registry import hints
from ktdeval.registry.plugin_registry import Plugins

VIEW = hints()["shared_groups"]["view"]


class OfCommands:
    """Plugin that offers commands by their words."""

    def __init__(self, words: tuple[str, ...]) -> None:
        self._words = words

    @hookimpl
    def ktdeval_commands(self) -> list[Spec]:
        return [Spec(each, lambda: None, each) for each in self._words]


def plugins_with(*words: str) -> Plugins:
    plugins = Plugins()
    plugins.add(OfCommands(words), "of_commands")
    return plugins


def group_of(name: str, *words: str) -> SharedGroup:
    group = all_commands(plugins_with(*words))[name]
    assert isinstance(group, SharedGroup)
    return group


def test_a_group_has_the_examples_of_the_commands_that_are_there() -> None:
    assert group_of("paper", "paper vote", "paper qfinzero").epilog == (
        "ktdeval paper vote RUN RUN RUN --out voted"
    )
    assert group_of("paper", "paper qfinzero").epilog == "ktdeval paper qfinzero tools"
    assert group_of("paper", "paper ama").epilog == "ktdeval paper ama --help"


def test_a_group_without_its_default_command_has_none_and_names_none() -> None:
    whole = group_of("view", "view episodes", "view report")
    assert (whole.default, whole.help) == ("episodes", VIEW["help"])
    assert whole.epilog == "ktdeval view ktdeval-runs/my-run --open"

    rest = group_of("view", "view roles", "view report")
    assert (rest.default, rest.help) == ("", VIEW["summary"])
    assert rest.epilog == "ktdeval view report --help"
