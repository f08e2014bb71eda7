"""`ktdeval leaderboard`: a group whose commands are imported only when called."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import click

from ktdeval.api import UsageError, near_matches


class _Lazy(NamedTuple):
    """The module under `commands` that a command is in, which has a function of the command's name, and its line of help."""

    module: str
    attribute: str
    summary: str


COMMANDS = {
    "init": _Lazy("init", "init", "Begin a board: its rules, README, schemas and CI workflow."),
    "baselines": _Lazy("baselines", "baselines", "Run the baselines that a board always shows, and submit them."),
    "submit": _Lazy("submit", "submit", "Check a run against a board's rules and write its submission."),
    "check": _Lazy("check", "check", "Check submissions as the board's CI does, and record what was found."),
    "build": _Lazy("build", "build", "Write the static site of a board."),
    "serve": _Lazy("serve", "serve", "Build the site and serve it on this machine."),
    "export": _Lazy("export", "export", "Write a board's rows as Parquet, a dataset, .eval_results or every_eval_ever."),
    "import": _Lazy("import_results", "import_results", "Take over results of scoring tasks from lm-eval's JSON."),
}


class _Commands(click.Group):
    """The commands on leaderboards."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """In the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - as click calls it
        """Import a command; None when there is none of that name."""
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        command: click.Command = getattr(import_module(f"ktdeval_board.commands.{lazy.module}"), lazy.attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            UsageError: unknown, with near names.
        """
        if args[0] not in COMMANDS:
            near = near_matches(args[0], COMMANDS) or "; see `ktdeval leaderboard --help`"
            raise UsageError(f"leaderboard: no command {args[0]!r}{near}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])


def _settings() -> dict[str, Any]:
    return {"help_option_names": ["-h", "--help"]}


@click.command(cls=_Commands, context_settings=_settings())
def leaderboard() -> None:
    """Keep a leaderboard in a git repository: submissions are checked and re-executed, ranked, and shown on a static site."""
