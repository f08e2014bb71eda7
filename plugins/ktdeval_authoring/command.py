"""`ktdeval plugin`: write a plugin from templates, and check one by calling its parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click

from ktdeval.cards import count
from ktdeval.cli import (
    JsonOptions,
    OutputPath,
    example,
    flag,
    options_of,
    print_findings,
    print_json,
)
from ktdeval.testing import PluginReport, check_parts
from ktdeval.values import JsonValue, exit_code, findings_json, to_plain
from ktdeval_authoring.checked_plugins import plugins_of
from ktdeval_authoring.plugin_templates import (
    check_name,
    chosen_parts,
    render_package,
    write_package,
)


@example("ktdeval plugin new my-lab --with task,model")
@click.group()
def plugin() -> None:
    """Write a plugin from a template, or check one by calling its parts."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """Options of `plugin new`."""

    parts: str = flag(
        "task,metric",
        name="--with",
        help=(
            "parts, separated by commas: task, metric, model, agent, data, venue, card, runner,"
            " command"
        ),
        metavar="PART,…",
    )
    out: Path | None = flag(
        None,
        help="folder of the package; default: ./NAME",
        type=OutputPath("folder"),
        metavar="DIR",
    )


@example("ktdeval plugin new my-lab --with task,model")
@plugin.command()
@click.argument("name")
@options_of(NewOptions)
def new(name: str, options: NewOptions) -> None:
    """Write a package that can be installed with pip, with tests and a CI file."""
    package = check_name(name)
    files = render_package(name, chosen_parts(options.parts))
    folder = options.out or Path(name)
    write_package(folder, files)

    click.echo(f"{folder}: {count(len(files), 'file')}")
    click.echo(f"next    cd {folder} && pip install -e '.[test]' && pytest")
    click.echo(f"check   ktdeval plugin check {package}")


@example("ktdeval plugin check my-lab")
@plugin.command()
@click.argument("target", required=False)
@options_of(JsonOptions)
def check(target: str | None, options: JsonOptions) -> int:
    """Make and call each part of a plugin with small inputs, and report every fault.

    TARGET is an installed plugin, a .py file, a package folder, or a project with a pyproject.toml;
    without one, all installed plugins of others are checked. Nothing asks a network. Exit code 1
    if there is a fault.
    """
    reports = [check_parts(reference) for reference in plugins_of(target)]
    if options.as_json:
        print_json([_plain_report(report) for report in reports])
    else:
        for report in reports:
            _print_report(report)

    found = chain.from_iterable(report.findings for report in reports)
    return exit_code(found)


def _plain_report(report: PluginReport) -> dict[str, JsonValue]:
    return findings_json(
        report.findings,
        plugin=report.plugin,
        checked=to_plain(report.checked),
        notes=to_plain(report.notes),
    )


def _print_report(report: PluginReport) -> None:
    faults = len(report.findings)
    click.echo(f"{report.plugin}: {len(report.checked)} parts called, {faults} faults")
    print_findings(report.findings, max_shown=None)
    for part, reason in report.notes.items():
        click.echo(f"  note: {part} was not called: {reason}")
