"""Commands in `ktdeval mcp`: `serve`, and `config` and `skill`, which print the texts with which a
client is connected.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template

import click

from ktdeval.cli import example, flag, options_of
from ktdeval.values import later, load_yaml

_FOLDER = Path(__file__).parent
CLIENTS: dict[str, dict[str, str]] = load_yaml(_FOLDER / "clients.yaml")
"""Path of each client's configuration file, and a template for its contents."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `mcp serve`."""

    root: tuple[Path, ...] = flag(
        (),
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="FOLDER",
        help=(
            "folder that tools may read and write, repeatable; relative paths start at the first "
            "one; default: the working folder"
        ),
    )


@example("ktdeval mcp serve")
@click.command()
@options_of(ServeOptions)
@click.pass_context
def serve(context: click.Context, /, options: ServeOptions) -> None:
    """Serve the tools over stdin and stdout, until the client closes one of them.

    Tools read and write files below the folders --root only, links resolved.

    A client starts this by itself: `ktdeval mcp config CLIENT` prints what it needs.
    """
    import anyio

    # imported when called, so that help needs no extra
    serve_stdio = later("ktdeval_mcp.server:serve_stdio")()
    if sys.stdin.isatty():
        click.echo("waits for a client of MCP; see `ktdeval mcp config --help`", err=True)

    folders = later("ktdeval_mcp.folders:Folders")().of(options.root)
    anyio.run(serve_stdio, context.find_root().command, folders)


@example("ktdeval mcp config claude-code")
@click.command()
@click.argument("client", type=click.Choice(list(CLIENTS)))
def config(client: str) -> None:
    """Print the configuration by which a client starts the server, and on stderr where it belongs.

    CLIENT is an assistant with tools: Claude Code, Codex, Gemini CLI or VS Code.
    """
    # -P: files in the folder where the client starts the server can't shadow modules
    words = ["-P", "-m", "ktdeval", "mcp", "serve"]
    form = CLIENTS[client]
    text = Template(form["text"]).substitute(
        command=json.dumps(sys.executable), arguments=json.dumps(words)
    )
    click.echo(text, nl=False)
    click.echo(f"put this into {form['file']}", err=True)


@example("ktdeval mcp skill")
@click.command()
def skill() -> None:
    """Print a skill file, which tells an assistant which tool answers which question.

    Claude Code reads it as .claude/skills/ktdeval/SKILL.md.
    """
    click.echo((_FOLDER / "skill.md").read_text(encoding="utf-8"), nl=False)
