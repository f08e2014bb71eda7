"""`ktdeval qfinzero connect`: what an agent outside ktdeval needs to use the services: a configuration of MCP, or a skill file."""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template

import click

from ktdeval.cli import FilePath
from ktdeval.jsonio import dumps_pretty
from ktdeval_qfinzero.access.commands.options import Source, data_options
from ktdeval_qfinzero.access.served_market import served
from ktdeval_qfinzero.catalogue import catalogue

_PATH = FilePath()


@click.command()
@click.argument("form", type=click.Choice(["mcp", "skill"]))
@data_options
@click.option("--rules", type=_PATH, metavar="FILE", help="rules of the served market, as of `ktdeval serve qfinzero`")
@click.option("--logs", type=_PATH, metavar="DIR", help="folder in which the broker leaves its log, as of `ktdeval serve qfinzero`")
def connect(form: str, source: Source, as_of: str | None, rules: Path | None, logs: Path | None) -> None:
    """Print what connects an agent to the services.

    mcp: the JSON by which a client of the Model Context Protocol starts a server of its own, with absolute paths, so that it works
    from any folder and with any PATH. skill: a SKILL.md that tells an agent how to work with the tools, with the same JSON in it.
    """
    paths = {"--data": source.folder, "--rules": rules, "--logs": logs}
    words = [word for name, path in paths.items() if path is not None for word in (name, str(path.resolve()))]
    seed = ["--seed", str(source.seed)] if source.folder is None and source.seed else []
    moment = [] if as_of is None else ["--as-of", as_of]
    arguments = ["-m", "ktdeval", "serve", "qfinzero", "--transport", "stdio", *words, *seed, *moment]
    config = dumps_pretty({"mcpServers": {"qfinzero": {"command": sys.executable, "args": arguments}}})
    if form == "mcp":
        click.echo(config, nl=False)
        return
    tools = "\n".join(f"* `{each.wire_name}`: {each.summary}" for each in served(catalogue()).operations)
    text = (Path(__file__).parents[1] / "skill.md").read_text(encoding="utf-8")
    click.echo(Template(text).substitute(config=config.rstrip(), tools=tools), nl=False)
