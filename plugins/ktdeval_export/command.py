"""`ktdeval train export`: write runs as training data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cards import count
from ktdeval.cli import (
    JsonOptions,
    OutputPath,
    PluginOptions,
    RunPath,
    config_option,
    example,
    flag,
    open_plugins,
    options_of,
    print_findings,
    print_json,
    warn,
)
from ktdeval.errors import UsageError
from ktdeval.values import dumps_pretty, to_plain, write_atomic
from ktdeval_export.metadata import AuditEntry
from ktdeval_export.row_figures import STEP_RETURN, Rows
from ktdeval_export.runs_to_rows import (
    AuditError,
    ExportedRows,
    ExportSettings,
    Form,
    MeasureBound,
    make_export,
)
from ktdeval_export.training_rows import Dialect

_MAX_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class RunExportOptions(JsonOptions, PluginOptions):
    """Export options."""

    out: Path = flag(type=OutputPath("file"), metavar="FILE", help="output file of rows")
    form: Form = flag(
        "chat",
        name="--format",
        help="chat: messages and tools; preference: prompt, chosen, rejected and tools",
    )
    rows: Rows = flag(
        "step",
        help="content of a row: a step (or question), or all steps of a trading episode",
    )
    dialect: Dialect = flag(
        "trl", help="arguments of calls: an object (trl), or JSON text (openai)"
    )
    by: str | None = flag(
        None,
        metavar="METRIC",
        help=(
            f"figure that decides a preference: a question's score, {STEP_RETURN}, or with "
            "--rows episode any metric"
        ),
    )
    where: str | None = flag(
        None,
        metavar="METRIC=VALUE",
        help="only rows whose figure is at least this good, such as exact=1",
    )
    with_retries: bool = flag(False, help="include steps that were decided after a refused attempt")
    skip_leaks: bool = flag(False, help="leave out steps whose model text the audit refuses")
    allow_evaluation_data: bool = flag(
        False, help="include episodes that are used for evaluation; the metadata states it"
    )


@example("ktdeval train export ktdeval-runs/my-run --out steps.jsonl")
@click.command()
@click.argument("runs", nargs=-1, required=True, type=RunPath(), metavar="RUN…")
@options_of(RunExportOptions)
@config_option("data", "data_args", "items")
def export(runs: tuple[Path, ...], options: RunExportOptions, **changes: Any) -> None:
    """Write finished steps as conversations with tools, for supervised or preference training.

    RUN is a run folder, which is only read. Each step is executed once more on its recorded
    replies, and audited; one finding, and nothing is written. FILE gets one row a line. Its
    metadata lie next to it, in FILE.metadata.json.
    """
    chosen = _export_settings(options)
    plugins = open_plugins(options.plugin)
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        made = make_export(runs, plugins, given, os.environ, chosen)
    except AuditError as error:
        if len(error.findings) > 1:
            print_findings(error.findings[:_MAX_SHOWN])
        raise

    beside = metadata_path(options.out)
    write_atomic(options.out, made.text)
    write_atomic(beside, dumps_pretty(to_plain(made.metadata)))
    for note in made.notes:
        warn(note)

    if options.as_json:
        print_json(to_plain(made.metadata))
    else:
        _print_export(made, options.out, beside)


def metadata_path(out: Path) -> Path:
    """Return the path of the metadata file that belongs to an output file of rows."""
    return out.with_name(f"{out.name}.metadata.json")


def _export_settings(options: RunExportOptions) -> ExportSettings:
    """Return the export settings.

    Raises UsageError if options contradict each other.
    """
    bound = _parse_bound(options.where)
    if options.form == "preference" and options.by is None:
        raise UsageError(
            "--format preference needs --by METRIC: a question's score such as reference_overall,"
            f" {STEP_RETURN}, or with --rows episode a metric such as total_return"
        )
    if options.form == "chat" and options.by is not None:
        raise UsageError("--by goes with --format preference; --where chooses rows by a figure")
    if bound is not None and options.by not in (None, bound.measure):
        raise UsageError(f"--where and --by name one metric: {bound.measure} is not {options.by}")

    return ExportSettings(
        form=options.form,
        rows=options.rows,
        dialect=options.dialect,
        by=options.by,
        bound=bound,
        with_retries=options.with_retries,
        skip_leaks=options.skip_leaks,
        allow_evaluation_data=options.allow_evaluation_data,
    )


def _parse_bound(text: str | None) -> MeasureBound | None:
    if text is None:
        return None

    name, _, value = text.partition("=")
    try:
        return MeasureBound(name, float(value))
    except ValueError:
        raise UsageError(f"--where {text!r}: expected METRIC=VALUE, such as exact=1") from None


def _print_export(made: ExportedRows, out: Path, beside: Path) -> None:
    metadata = made.metadata
    click.echo(f"rows    {out} ({metadata.rows} of {metadata.format}, {metadata.dialect})")
    click.echo(f"about   {beside}")
    click.echo(f"audit   {_describe_audit(metadata.audit)}")
    for what, number in _left_out_counts(metadata.left_out, made):
        click.echo(f"left out {number}: {what}")

    if metadata.allowed:
        click.echo(f"allowed {', '.join(metadata.allowed)}")


def _describe_audit(audit: AuditEntry) -> str:
    if not audit.left_out:
        return f"{count(audit.steps, 'step')}, no finding"
    return f"{count(audit.steps, 'step')}; {audit.left_out} left out, no finding in the others"


def _left_out_counts(left_out: Mapping[str, int], made: ExportedRows) -> list[tuple[str, int]]:
    counts = list(left_out.items())
    pairs = made.metadata.pairs
    if pairs is not None:
        counts += [
            ("pairs with equal values", pairs.tied),
            ("pairs without a value", pairs.undefined),
            ("pairs with different prompts", pairs.another_prompt),
        ]

    return [(what, count) for what, count in counts if count]
