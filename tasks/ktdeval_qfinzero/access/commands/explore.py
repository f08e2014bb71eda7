"""`ktdeval qfinzero tools`, `call`, `items`, `replay` and `connect`: what the services offer, and
what connects an agent.
"""

from __future__ import annotations

import sys
from pathlib import Path
from string import Template
from typing import cast

import click

from ktdeval.cli import FilePath, example
from ktdeval.errors import DataError, UsageError
from ktdeval.values.jsonio import (
    JsonValue,
    dumps_canonical,
    dumps_pretty,
    loads_untrusted,
    read_plain,
)
from ktdeval_qfinzero.access.commands.options import (
    Source,
    data_options,
    open_data,
    source_options,
    start_at,
)
from ktdeval_qfinzero.access.served_market import check_rules, load_rules, served
from ktdeval_qfinzero.access.workspaces import Limits
from ktdeval_qfinzero.benchmark.items import prove
from ktdeval_qfinzero.benchmark.templates import make_items
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.pmb.broker import verify
from ktdeval_qfinzero.pmb.log import EventLog, read_lines, state_of_log
from ktdeval_qfinzero.scoring.tasks_file import publish_tasks, task_to_row
from ktdeval_qfinzero.scoring.types import Suite
from ktdeval_qfinzero.workspace import Workspace


@example("ktdeval qfinzero tools")
@click.command()
@click.option(
    "--format",
    "form",
    type=click.Choice(["names", "json"]),
    default="names",
    show_default=True,
    help="names, or whole schemas",
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


def _described(operation: Operation) -> dict[str, JsonValue]:
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


@example(
    'ktdeval qfinzero call UPQ.stock.daily \'{"tickers": "AVLN", "start": "2025-01-06", "end": "2025-01-07"}\''
)
@click.command()
@click.argument("name")
@click.argument("arguments", default="{}", metavar="[JSON]")
@data_options
def call(name: str, arguments: str, source: Source, as_of: str | None) -> int:
    """Call one tool once and print its answer.

    NAME is a tool such as UPQ.stock.daily or upq_stock_daily; JSON its arguments, "-" reads them
    from stdin. The workspace is new, so a broker has no accounts yet. A refusal is printed as well,
    and the exit code is then 1.
    """
    try:
        operation = catalogue().find(name)
    except ServiceError as error:
        raise UsageError(f"{error.message}; see `ktdeval qfinzero tools`") from error

    values = _read(sys.stdin.read() if arguments == "-" else arguments)
    dataset = open_data(source)
    workspace = Workspace(dataset, start_at(dataset, Limits(), as_of).as_of_ns)

    try:
        answer = operation.call(workspace, values)
        code = 0
    except ServiceError as error:
        answer = error.to_json()
        code = 1

    click.echo(dumps_pretty(answer), nl=False)
    return code


def _read(text: str) -> JsonValue:
    try:
        return loads_untrusted(text)
    except ValueError as error:
        raise UsageError(
            "the arguments are no JSON; write them as one object in quotes, such as"
            " '{\"limit\": 5}'"
        ) from error


@example("ktdeval qfinzero items planning --prove")
@click.command()
@click.argument("suite", type=click.Choice(["calling", "planning"]))
@click.option(
    "--items-seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="seed of the items; the tasks use 0",
)
@click.option(
    "--prove",
    "is_proved",
    is_flag=True,
    help="carry every item out on the services instead of printing it",
)
@click.option(
    "--publish",
    "target",
    type=FilePath(),
    metavar="FOLDER",
    help="write the items as a dataset for Hugging Face's datasets instead of printing them",
)
@source_options
def items(
    suite: str, items_seed: int, is_proved: bool, target: Path | None, source: Source
) -> None:
    """Print the items with their expected calls, one JSON object a line, as the public task files
    have them.

    With --prove each item's expected calls are made in a workspace of its own; the first that fails
    is named. With --publish they are written as a new folder, a Parquet file and a dataset card,
    which `--items` of `ktdeval run` reads.
    """
    dataset = open_data(source)
    all_items = make_items(dataset, cast("Suite", suite), items_seed)
    if target is not None:
        title = f"QFinZero {suite} items, seed {items_seed}, on {dataset.info.name}"
        publish_tasks(target, title, tuple(item.task for item in all_items))
        click.echo(f"{target}: {len(all_items)} items")
    elif not is_proved:
        for item in all_items:
            click.echo(dumps_canonical(task_to_row(item.task)))

    if is_proved:
        for item in all_items:
            prove(item, dataset)

        refused = sum(item.task.refuse for item in all_items)
        click.echo(
            f"{len(all_items)} items: {len(all_items) - refused} carried out, {refused} to be"
            " refused"
        )


@example("ktdeval qfinzero replay broker.jsonl --rerun")
@click.command()
@click.argument("log", type=FilePath(), metavar="LOG")
@click.option(
    "--rerun",
    "is_rerun",
    is_flag=True,
    help="also carry out its commands again over the data, and compare every byte",
)
@click.option(
    "--rules",
    type=FilePath(),
    metavar="FILE",
    help="also check that it was made under the rules of this served market",
)
@source_options
def replay(log: Path, is_rerun: bool, rules: Path | None, source: Source) -> None:
    """Verify a broker's log and print the state at its end.

    The chain of hashes is followed from line to line, and accounts are built anew from the events
    alone. With --rerun the commands are carried out again over the data that the log was made with:
    every line must come out the same.
    """
    lines = _lines(log)
    entries = read_lines(lines)
    state = state_of_log(lines)
    click.echo(
        f"{log}: {len(entries)} lines follow from each other; the last hash is"
        f" {EventLog(entries).last_hash}"
    )

    if rules is not None:
        check_rules(entries, load_rules(rules), str(log))

    held = f"{len(state.accounts)} accounts, {len(state.sessions)} sessions"
    click.echo(f"{held}, {len(state.orders)} orders, {len(state.trades)} trades")
    for account in state.accounts.values():
        units = [
            f"{name} {position.qty}"
            for name, position in sorted(account.positions.items())
            if position.qty
        ]
        click.echo(f"{account.id}: {', '.join([f'cash {account.cash_e4 / 10_000:.2f}', *units])}")

    if not is_rerun:
        return

    verify(lines, open_data(source))
    click.echo("carried out again: the same, byte for byte")


def _lines(log: Path) -> list[str]:
    try:
        # bytes: texts may hold U+2028, which ends lines of text
        return [line.decode() for line in read_plain(log).splitlines()]
    except OSError as error:
        raise DataError(f"{log}: can't read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{log}: not UTF-8 text") from error


@example("ktdeval qfinzero connect mcp --data my-market")
@click.command()
@click.argument("form", type=click.Choice(["mcp", "skill"]))
@data_options
@click.option(
    "--rules",
    type=FilePath(),
    metavar="FILE",
    help="rules of the served market, as of `ktdeval serve qfinzero`",
)
@click.option(
    "--logs",
    type=FilePath(),
    metavar="DIR",
    help="folder in which the broker leaves its log, as of `ktdeval serve qfinzero`",
)
def connect(
    form: str, source: Source, as_of: str | None, rules: Path | None, logs: Path | None
) -> None:
    """Print what connects an agent to the services.

    mcp: the JSON by which a client of the Model Context Protocol starts a server of its own, with
    absolute paths, so that it works from any folder and with any PATH. skill: a SKILL.md that tells
    an agent how to work with the tools, with the same JSON in it.
    """
    paths = {"--data": source.folder, "--rules": rules, "--logs": logs}
    words = [
        word
        for name, path in paths.items()
        if path is not None
        for word in (name, str(path.resolve()))
    ]
    seed = ["--seed", str(source.seed)] if source.folder is None and source.seed else []
    moment = [] if as_of is None else ["--as-of", as_of]
    arguments = ["-m", "ktdeval", "serve", "qfinzero", "--over", "stdio", *words, *seed, *moment]
    config = dumps_pretty(
        {"mcpServers": {"qfinzero": {"command": sys.executable, "args": arguments}}}
    )

    if form == "mcp":
        click.echo(config, nl=False)
        return

    tools = "\n".join(
        f"* `{each.wire_name}`: {each.summary}" for each in served(catalogue()).operations
    )
    text = (Path(__file__).parents[1] / "skill.md").read_text(encoding="utf-8")
    click.echo(Template(text).substitute(config=config.rstrip(), tools=tools), nl=False)
