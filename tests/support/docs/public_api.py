"""Snapshots of the public API, names and signatures of what docs/stability.md calls public, and of
the help of the command line.

`make public-api` writes them; a test compares, so that a removal or a changed signature is seen in
review.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

import click
import msgspec

from ktdeval.cli.groups import load_command
from support.docs.docs_commands import provider_commands
from support.paths import REPOSITORY

SNAPSHOT = REPOSITORY / "tests" / "contract" / "public_api.txt"
HELP = REPOSITORY / "tests" / "contract" / "help.txt"
HELP_WIDTH = 100  #: columns of the help that is kept
MODULES = ("ktdeval", "ktdeval.api", "ktdeval.testing")


def public_api() -> str:
    """Return one line a name: of modules, hooks, commands with options, config keys, card fields."""
    lines = [*_names(), *_hooks(), *_commands(), *_config(), *_card()]
    return "\n".join(lines) + "\n"


def _names() -> Iterator[str]:
    for name in MODULES:
        module = importlib.import_module(name)
        names = (
            ("Evaluation", "evaluate", "load_run") if name == "ktdeval" else module_names(module)
        )
        for member in sorted(names):
            yield f"name {name}.{member}{_signature(getattr(module, member))}"


def module_names(module: ModuleType) -> list[str]:
    """Return the names that a module exports: those of `__all__`, else its imports of ktdeval."""
    if hasattr(module, "__all__"):
        return list(module.__all__)

    names = []
    for name, value in vars(module).items():
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("ktdeval"):
            names.append(name)

    return names


def _signature(value: object) -> str:
    """Return names, kinds and optionality of parameters; annotations differ between Pythons."""
    if not callable(value):
        return ""

    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "(…)"

    shown = []
    for each in parameters:
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        optional = "" if each.default is each.empty else "=…"
        kind = " kw" if each.kind is each.KEYWORD_ONLY else ""
        shown.append(f"{stars}{each.name}{optional}{kind}")

    return f"({', '.join(shown)})"


def _hooks() -> Iterator[str]:
    from ktdeval import hookspecs

    for kind in sorted(hookspecs.HOOKS):
        yield f"hook ktdeval_{kind}()"

    yield f"hook ktdeval_event{_signature(hookspecs.ktdeval_event)}"


def _commands() -> Iterator[str]:
    from ktdeval.cli.main import cli

    yield from _command("ktdeval", cli)


def _command(path: str, command: click.Command) -> Iterator[str]:
    options = []
    for each in command.params:
        if isinstance(each, click.Option):
            options += each.opts

    yield f"command {path} {' '.join(sorted(options))}".rstrip()
    for of_provider in provider_commands(command, click.Context(command)):
        own = click.Command(str(of_provider.name), params=of_provider.own)
        yield from _command(f"{path} {of_provider.name}", own)

    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in sorted(command.list_commands(context)):
            below = command.get_command(context, name)
            if below is not None:
                yield from _command(f"{path} {name}", load_command(below))


def help_text() -> str:
    """Return the help of the top, and the words of each command that runs something."""
    from ktdeval.cli.main import cli

    context = click.Context(
        cli, info_name="ktdeval", terminal_width=HELP_WIDTH, help_option_names=["-h", "--help"]
    )
    lines = [cli.get_help(context), "", "Commands that run something:"]
    lines += [f"  {words}" for words in sorted(_leaves("ktdeval", cli))]

    return "\n".join(lines) + "\n"


def _leaves(path: str, command: click.Command) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield path
        return

    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None and not below.hidden:
            yield from _leaves(f"{path} {name}", load_command(below))


def _config() -> Iterator[str]:
    from ktdeval.runner.plans.config import RunConfig

    for name in sorted(RunConfig.__dataclass_fields__):
        yield f"config {name}"


def _card() -> Iterator[str]:
    from ktdeval.cards import ScoringCard, TradingCard

    for type_ in (TradingCard, ScoringCard):
        for field in msgspec.structs.fields(type_):
            yield f"card {type_.__name__}.{field.encode_name}"


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
    HELP.write_text(help_text(), encoding="utf-8")
    for written in (SNAPSHOT, HELP):
        print(written.relative_to(REPOSITORY))
