"""`ktdeval paper qfinzero tools`, `items` and `replay`: list the tools, print the benchmark's
items, and verify a broker's log.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import click

from ktdeval.cards import count
from ktdeval.cli import FilePath, example, flag, options_of
from ktdeval.errors import DataError, UsageError, os_reason
from ktdeval.values import JsonValue, dumps_canonical, dumps_pretty, loads_untrusted, read_plain
from ktdeval_qfinzero.access.commands.options import (
    ClockOptions,
    SourceOptions,
    open_data,
    start_at,
)
from ktdeval_qfinzero.access.server_rules import check_rules, load_rules
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits
from ktdeval_qfinzero.benchmark.item_generation import make_items
from ktdeval_qfinzero.benchmark.items import prove
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.log import EventLog, read_lines, state_of_log
from ktdeval_qfinzero.scoring.tasks_file import publish_tasks, task_to_row
from ktdeval_qfinzero.scoring.types import Suite


@dataclass(frozen=True, kw_only=True)
class ToolOptions(ClockOptions):
    """Options of the `tools` command, which lists tools or calls one."""

    form: Literal["names", "json"] = flag(
        "names", name="--format", help="detail of the list: names, or whole schemas"
    )


@example("ktdeval paper qfinzero tools")
@click.command()
@click.argument("name", required=False)
@click.argument("arguments", default="{}", metavar="[JSON]")
@options_of(ToolOptions)
def tools(name: str | None, arguments: str, options: ToolOptions) -> int:
    """Print the tools with names and routes or whole schemas, or call one once.

    NAME is a tool such as UPQ.stock.daily or upq_stock_daily; JSON its arguments, "-" reads them
    from stdin. Its answer is printed. The workspace is new, so a broker has no accounts yet. A
    refusal is printed as well, and the exit code is then 1.
    """
    if name is not None:
        return _call(name, arguments, options)

    _list_operations(options.form)
    return 0


def _list_operations(form: str) -> None:
    operations = catalogue().operations
    if form == "json":
        click.echo(
            dumps_pretty([_described_operation(operation) for operation in operations]), nl=False
        )
        return

    width = max(len(operation.name) for operation in operations)
    for operation in operations:
        click.echo(f"{operation.name:<{width}}  {operation.method:<4} {operation.path}")


def _described_operation(operation: Operation) -> dict[str, JsonValue]:
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


def _call(name: str, arguments: str, options: ClockOptions) -> int:
    """Call a tool, print its answer, and return the exit code."""
    try:
        operation = catalogue().find(name)
    except ServiceError as error:
        raise UsageError(f"{error.message}; see `ktdeval paper qfinzero tools`") from error

    values = _parse_arguments(sys.stdin.read() if arguments == "-" else arguments)
    dataset = open_data(options.source)
    start = start_at(dataset, WorkspaceLimits(), options.as_of)
    workspace = Workspace(dataset, start.as_of_ns)

    try:
        answer = operation.call(workspace, values)
        code = 0
    except ServiceError as error:
        answer = error.to_json()
        code = 1

    click.echo(dumps_pretty(answer), nl=False)
    return code


def _parse_arguments(text: str) -> JsonValue:
    try:
        return loads_untrusted(text)
    except ValueError as error:
        raise UsageError(
            "the arguments are not JSON; write them as one object in quotes, such as "
            "'{\"limit\": 5}'"
        ) from error


@dataclass(frozen=True, kw_only=True)
class ItemOptions(SourceOptions):
    """Options of the `items` command."""

    items_seed: int = flag(0, type=click.IntRange(0), help="seed of the items; the tasks use 0")
    prove: bool = flag(False, help="execute every item on the services instead of printing it")
    publish: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FOLDER",
        help="write the items as a dataset for Hugging Face's datasets instead of printing them",
    )


@example("ktdeval paper qfinzero items planning --prove")
@click.command()
@click.argument("suite", type=click.Choice(["calling", "planning"]))
@options_of(ItemOptions)
def items(suite: str, options: ItemOptions) -> None:
    """Print the items with their expected calls, one JSON object a line, as the public task files
    have them.

    With --prove each item's expected calls are made in a workspace of its own; the first that fails
    is named. With --publish they are written as a new folder, a Parquet file and a dataset card,
    which `--items` of `ktdeval run` reads.
    """
    dataset = open_data(options.source)
    seed = options.items_seed
    all_items = make_items(dataset, cast("Suite", suite), seed)
    target = options.publish
    if target is not None:
        title = f"QFinZero {suite} items, seed {seed}, on {dataset.info.name}"
        publish_tasks(target, title, tuple(item.task for item in all_items))
        click.echo(f"{target}: {len(all_items)} items")
    elif not options.prove:
        for item in all_items:
            click.echo(dumps_canonical(task_to_row(item.task)))

    if options.prove:
        for item in all_items:
            prove(item, dataset)

        refused = sum(item.task.refuse for item in all_items)
        click.echo(
            f"{len(all_items)} items: {len(all_items) - refused} carried out, {refused} to be"
            " refused"
        )


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(SourceOptions):
    """Options of the `replay` command, which verifies a broker's log."""

    rerun: bool = flag(
        False, help="also execute its commands again on the data, and compare every byte"
    )
    rules: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help="also check that it was made under the rules of this served market",
    )


@example("ktdeval paper qfinzero replay broker.jsonl --rerun")
@click.command()
@click.argument("log", type=FilePath(), metavar="LOG")
@options_of(ReplayOptions)
def replay(log: Path, options: ReplayOptions) -> None:
    """Verify a broker's log and print the state at its end.

    The chain of hashes is followed from line to line, and accounts are built anew from the events
    alone. With --rerun the commands are carried out again over the data that the log was made with:
    every line must come out the same.
    """
    lines = _read_log_lines(log)
    entries = read_lines(lines)
    state = state_of_log(lines)
    click.echo(
        f"{log}: {len(entries)} lines follow from each other; the last hash is"
        f" {EventLog(entries).last_hash}"
    )

    if options.rules is not None:
        check_rules(entries, load_rules(options.rules), str(log))

    held = f"{count(len(state.accounts), 'account')}, {count(len(state.sessions), 'session')}"
    click.echo(f"{held}, {count(len(state.orders), 'order')}, {count(len(state.trades), 'trade')}")
    for account in state.accounts.values():
        units = [
            f"{name} {position.qty}"
            for name, position in sorted(account.positions.items())
            if position.qty
        ]
        click.echo(f"{account.id}: {', '.join([f'cash {account.cash_e4 / 10_000:.2f}', *units])}")

    if not options.rerun:
        return

    verify(lines, open_data(options.source))
    click.echo("carried out again: the same, byte for byte")


def _read_log_lines(log: Path) -> list[str]:
    try:
        # bytes, since strings may contain U+2028, which ends a line of text
        return [line.decode() for line in read_plain(log).splitlines()]
    except OSError as error:
        raise DataError(f"{log}: can't read: {os_reason(error)}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{log}: not UTF-8 text") from error
