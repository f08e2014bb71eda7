"""`ktdeval grid`: a group whose commands are imported only when called; a plan is a launch."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from ktdeval.cli import LazyCommand, LazyGroup

LAUNCH = "launch"


def _in(module: str, attribute: str, summary: str) -> LazyCommand:
    return LazyCommand(f"ktdeval_grid.{module}", attribute, summary)


COMMANDS = {
    LAUNCH: _in(
        "launch.launch_command",
        "launch",
        "Run a plan; the same command again resumes, and amends it.",
    ),
    "worker": _in(
        "workers.worker_command", "worker", "Work on a grid, beside any number of other workers."
    ),
    "status": _in("commands", "status", "Show the progress of a grid, once or until it ends."),
    "ctl": _in(
        "state.ctl_command",
        "ctl",
        "Pause, resume, retune, drop a model, try failed episodes again.",
    ),
    "tables": _in(
        "outputs.tables_command",
        "tables",
        "Make tables and pages of the finished cells, at any time.",
    ),
}
#: Commands that launches call
_HIDDEN = {
    "drive": _in("launch.launch_command", "drive", "Drive a launch in the background."),
    "forecast": _in("launch.forecast", "forecast", "Estimate a launch."),
}


class GridGroup(LazyGroup):
    """Group whose first word is a command, or else the plan of a launch."""

    default_command = LAUNCH
    default_takes_words = True

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options, commands, and plans to launch."""
        items = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            plan, *_ = self.load(LAUNCH).params
            items += plan.shell_complete(ctx, incomplete)

        return items

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """Names in the order of help, without those that launches call."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """List the commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in COMMANDS.items()])

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, commands, and the options of a launch."""
        formatter.write_usage("ktdeval grid", "[PLAN] [OPTIONS OF launch] | COMMAND [ARGS]…")
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        self.format_epilog(ctx, formatter)
        self.format_commands(ctx, formatter)
        launch = self.load(LAUNCH)
        with formatter.section("Launch"):
            launch.format_options(ctx, formatter)


grid = GridGroup(
    "ktdeval grid",
    COMMANDS | _HIDDEN,
    help=(
        "Run models × agents × tasks × windows × seeds as one command, on processes of this machine,"
        " shards, or a cluster. PLAN is a YAML file, or a plan that ships (`ktdeval list plans`)."
    ),
    examples=(
        "ktdeval grid ktd-fin --models builtin/random --out anchor",
        "ktdeval grid PLAN.yaml --out lab",
        "ktdeval grid --models builtin/momentum,builtin/reversal --tasks blinded_open_research"
        " --out first",
    ),
)
