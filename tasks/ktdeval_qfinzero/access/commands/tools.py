"""`ktdeval qfinzero tools`: what the services offer."""

from __future__ import annotations

import click

from ktdeval.jsonio import dumps_pretty
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.operations import Operation


@click.command()
@click.option(
    "--format", "form", type=click.Choice(["names", "json"]), default="names", show_default=True, help="names, or whole schemas"
)
def tools(form: str) -> None:
    """Print the tools: their names and routes, or their whole schemas."""
    operations = catalogue().operations
    if form == "json":
        click.echo(dumps_pretty([_described(operation) for operation in operations]), nl=False)
        return
    width = max(len(operation.name) for operation in operations)
    for operation in operations:
        click.echo(f"{operation.name:<{width}}  {operation.method:<4} {operation.path}")


def _described(operation: Operation) -> dict[str, object]:
    return {
        "name": operation.name,
        "tool": operation.wire_name,
        "method": operation.method,
        "path": operation.path,
        "summary": operation.summary,
        "changes": operation.changes,
        "parameters": operation.parameters,
        "result": operation.result,
    }
