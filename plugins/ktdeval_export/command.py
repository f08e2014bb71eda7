"""`ktdeval export`: training data from runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import (
    OutputPath,
    RunPath,
    config_option,
    example,
    json_option,
    open_plugins,
    plugin_option,
    print_json,
    warn,
)
from ktdeval.errors import UsageError
from ktdeval.values.jsonio import dumps_pretty, write_atomic
from ktdeval.values.typed import to_plain
from ktdeval_export.chat import AuditError, Bound, Export, Options, make_export
from ktdeval_export.measures import STEP_RETURN
from ktdeval_export.metadata import AuditEntry

_MOST_SHOWN = 20


@example("ktdeval export chat ktdeval-runs/my-run --out steps.jsonl")
@click.group()
def export() -> None:
    """Write runs as training data, refused unless a leak audit passes."""


@example("ktdeval export chat ktdeval-runs/my-run --out steps.jsonl")
@export.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN…")
@click.option("--out", type=OutputPath("file"), required=True, metavar="FILE", help="file of rows")
@click.option(
    "--format",
    "form",
    type=click.Choice(["chat", "preference"]),
    default="chat",
    show_default=True,
    help="chat: messages and tools; preference: prompt, chosen, rejected and tools",
)
@click.option(
    "--rows",
    type=click.Choice(["step", "episode"]),
    default="step",
    show_default=True,
    help="what a row holds: a step (or question), or all steps of a trading episode",
)
@click.option(
    "--dialect",
    type=click.Choice(["trl", "openai"]),
    default="trl",
    show_default=True,
    help="arguments of calls: an object (trl), or JSON text (openai)",
)
@click.option(
    "--by",
    metavar="METRIC",
    help=f"what makes a preference: a question's score, {STEP_RETURN}, or with --rows episode any"
    " metric",
)
@click.option(
    "--where",
    metavar="METRIC=VALUE",
    help="only rows that are at least so good, such as exact=1",
)
@click.option(
    "--with-retries", is_flag=True, help="also steps that were decided after a refused attempt"
)
@click.option(
    "--skip-leaks",
    is_flag=True,
    help="leave out steps in which the model itself wrote what the audit refuses",
)
@click.option(
    "--allow-evaluation-data",
    is_flag=True,
    help="also episodes that serve evaluation; the metadata states it",
)
@config_option("data", "data_args", "items")
@json_option
@plugin_option
def chat(
    runs: tuple[Path, ...], out: Path, as_json: bool, extra: tuple[str, ...], **chosen: Any
) -> None:
    """Write finished steps as conversations with tools, for supervised or preference training.

    RUN is a run folder, which is only read. Each step is executed once more on its recorded
    replies, and audited; one finding, and nothing is written. FILE gets one row a line. Its
    metadata lie next to it, in FILE.metadata.json.

    Example: ktdeval export chat runs/a --out steps.jsonl
    """
    changes = {name: chosen.pop(name) for name in ("data", "data_args", "items")}
    options = _options(**chosen)
    plugins = open_plugins(extra)
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        made = make_export(runs, plugins, given, os.environ, options)
    except AuditError as error:
        if len(error.findings) > 1:
            for finding in error.findings[:_MOST_SHOWN]:
                click.echo(f"finding {finding}")
        raise

    beside = metadata_path(out)
    write_atomic(out, made.text)
    write_atomic(beside, dumps_pretty(to_plain(made.metadata)))
    for note in made.notes:
        warn(note)

    if as_json:
        print_json(to_plain(made.metadata))
    else:
        _print(made, out, beside)


def metadata_path(out: Path) -> Path:
    """Return where the metadata of a file of rows lie."""
    return out.with_name(f"{out.name}.metadata.json")


def _options(**chosen: Any) -> Options:
    """Return the options of an export. Raises UsageError: they contradict each other."""
    bound = _bound(chosen.pop("where"))
    options = Options(bound=bound, **chosen)
    if options.form == "preference" and options.by is None:
        raise UsageError(
            "--format preference needs --by METRIC: a question's score such as reference_overall,"
            f" {STEP_RETURN}, or with --rows episode a metric such as total_return"
        )
    if options.form == "chat" and options.by is not None:
        raise UsageError("--by goes with --format preference; --where chooses rows by a figure")
    if bound is not None and options.by not in (None, bound.measure):
        raise UsageError(f"--where and --by name one metric: {bound.measure} is not {options.by}")

    return options


def _bound(text: str | None) -> Bound | None:
    if text is None:
        return None

    name, _, value = text.partition("=")
    try:
        return Bound(name, float(value))
    except ValueError:
        raise UsageError(f"--where {text!r}: expected METRIC=VALUE, such as exact=1") from None


def _print(made: Export, out: Path, beside: Path) -> None:
    metadata = made.metadata
    click.echo(f"rows    {out} ({metadata.rows} of {metadata.format}, {metadata.dialect})")
    click.echo(f"about   {beside}")
    click.echo(f"audit   {_audited(metadata.audit)}")
    for what, count in _counts(metadata.left_out, made):
        click.echo(f"left out {count}: {what}")

    if metadata.allowed:
        click.echo(f"allowed {', '.join(metadata.allowed)}")


def _audited(audit: AuditEntry) -> str:
    if not audit.left_out:
        return f"{audit.steps} steps, no finding"
    return f"{audit.steps} steps; {audit.left_out} left out, no finding in the others"


def _counts(left_out: Mapping[str, int], made: Export) -> list[tuple[str, int]]:
    counts = list(left_out.items())
    pairs = made.metadata.pairs
    if pairs is not None:
        counts += [
            ("pairs with equal values", pairs.tied),
            ("pairs without a value", pairs.undefined),
            ("pairs with different prompts", pairs.another_prompt),
        ]

    return [(what, count) for what, count in counts if count]
