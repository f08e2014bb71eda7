"""`ktdeval doctor`: report the state of an installation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from ktdeval.cli import JsonOptions, example, flag, options_of, print_json, print_table
from ktdeval.values import to_plain
from ktdeval_authoring.doctor import Check, checks, is_broken


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(JsonOptions):
    """Options of `ktdeval doctor`."""

    every: bool = flag(False, name="--all", help="also extras not installed and keys not set")


@example("ktdeval doctor")
@click.command()
@options_of(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Report what this installation has, lacks, and where it is broken.

    Python, ktdeval, extras, names of keys that are set (never their values), how old prices and
    cutoffs are, folders and room, terminal, plugins that fail to load, browser. Exit code 1 if
    something is broken.
    """
    found = checks(os.environ, datetime.now(UTC).date())
    if options.as_json:
        print_json([to_plain(check) for check in found])
    else:
        shown = found
        if not options.every:
            shown = [check for check in found if not _is_optional(check)]

        rows = [(check.name, check.state, check.detail, check.fix) for check in shown]
        print_table(("PART", "STATE", "DETAIL", "FIX"), rows)
        if not options.every:
            _print_absent(found)

    if is_broken(found):
        click.get_current_context().exit(1)


def _is_optional(check: Check) -> bool:
    """Return whether a check concerns an absent extra or key that nothing else needs."""
    return check.state == "absent" and check.name.startswith(("extra ", "key "))


def _print_absent(found: Sequence[Check]) -> None:
    """Print how many extras and keys are absent, and what to do if one is needed."""
    names = [check.name for check in found if _is_optional(check)]
    extras = [name.removeprefix("extra ") for name in names if name.startswith("extra ")]
    keys = [name for name in names if name.startswith("key ")]
    click.echo()
    if extras:
        click.echo(f"extras that are not installed: {', '.join(extras)}")

    if keys:
        click.echo(
            f"keys of providers that are not set: {len(keys)}; a model needs that of its provider"
        )

    if names:
        click.echo("each with its fix: ktdeval doctor --all")
