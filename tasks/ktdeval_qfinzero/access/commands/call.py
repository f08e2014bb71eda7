"""`ktdeval qfinzero call`: one call in a fresh workspace, to try a tool."""

from __future__ import annotations

import sys

import click

from ktdeval.errors import UsageError
from ktdeval.jsonio import dumps_pretty, loads_strict
from ktdeval_qfinzero.access.commands.options import Source, data_options, open_data, start_at
from ktdeval_qfinzero.access.workspaces import Limits
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.workspace import Workspace


@click.command()
@click.argument("name")
@click.argument("arguments", default="{}", metavar="[JSON]")
@data_options
def call(name: str, arguments: str, source: Source, as_of: str | None) -> int:
    """Call one tool once and print its answer.

    NAME is a tool such as UPQ.stock.daily or upq_stock_daily; JSON its arguments, "-" reads them from stdin. The workspace is new,
    so a broker has no accounts yet. A refusal is printed as well, and the exit code is then 1.
    """
    try:
        operation = catalogue().find(name)
    except ServiceError as error:
        raise UsageError(f"{error.message}; see `ktdeval qfinzero tools`") from error
    given = _read(sys.stdin.read() if arguments == "-" else arguments)
    dataset = open_data(source)
    workspace = Workspace(dataset, start_at(dataset, Limits(), as_of).as_of_ns)
    try:
        answer, code = operation.call(workspace, given), 0
    except ServiceError as error:
        answer, code = error.to_json(), 1
    click.echo(dumps_pretty(answer), nl=False)
    return code


def _read(text: str) -> object:
    try:
        return loads_strict(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("the arguments are no JSON; write them as one object in quotes, such as '{\"limit\": 5}'") from error
