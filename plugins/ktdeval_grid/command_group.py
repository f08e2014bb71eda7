"""`ktdeval grid`: a group whose commands are imported only when they are called. If the first word
is a plan, the plan is launched.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from ktdeval.cli import LazyCommand, LazyGroup

LAUNCH = "launch"


def _in(module: str, attribute: str, summary: str, hidden: bool = False) -> LazyCommand:
    return LazyCommand(f"ktdeval_grid.{module}", attribute, summary, hidden=hidden)


COMMANDS = {
    LAUNCH: _in(
        "launch.launch_command",
        "launch",
        "Run a plan; repeating the command resumes or amends it.",
    ),
    "worker": _in(
        "workers.worker_command",
        "worker",
        "Work on a grid, together with any number of other workers.",
    ),
    "status": _in("commands", "status", "Show the progress of a grid, once or until it ends."),
    "ctl": _in(
        "state.ctl_command",
        "ctl",
        "Pause, resume, retune, drop a model, retry failed episodes.",
    ),
    "tables": _in(
        "outputs.tables_command",
        "tables",
        "Make tables and pages of the finished cells, at any time.",
    ),
}
#: internal commands that launches call
_HIDDEN = {
    "drive": _in(
        "launch.launch_command", "drive", "Drive a launch in the background.", hidden=True
    ),
    "forecast": _in("launch.forecast", "forecast", "Estimate a launch.", hidden=True),
}


class GridGroup(LazyGroup):
    """Group whose first word is either a command or a plan to launch."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options, commands, and plans that can be launched."""
        items = super().shell_complete(ctx, incomplete)
        if not incomplete.startswith("-"):
            plan, *_ = COMMANDS[LAUNCH].load().params
            items += plan.shell_complete(ctx, incomplete)

        return items

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, the commands, and the options for a launch."""
        formatter.write_usage("ktdeval grid", "[PLAN] [OPTIONS OF launch] | COMMAND [ARGS]…")
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        self.format_epilog(ctx, formatter)
        self.format_commands(ctx, formatter)
        launch = COMMANDS[LAUNCH].load()
        with formatter.section("Launch"):
            # click wraps option texts as if they were indented only once
            formatter.width -= formatter.indent_increment
            launch.format_options(ctx, formatter)


grid = GridGroup(
    "grid",
    COMMANDS | _HIDDEN,
    default=LAUNCH,
    help=(
        "Run models × agents × tasks × windows × seeds as one command, on processes of this "
        "machine or a cluster. PLAN is a YAML file, or a plan that ships (`ktdeval list "
        "plans`)."
    ),
    line="ktdeval grid ktd-fin --models builtin/random --out anchor",
)
