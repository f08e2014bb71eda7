"""`ktdeval doctor`: state of an installation."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from ktdeval.cli import JsonOptions, example, options_of, print_json, print_table
from ktdeval.values import to_plain
from ktdeval_authoring.doctor import checks, is_broken


@example("ktdeval doctor")
@click.command()
@options_of(JsonOptions)
def doctor(options: JsonOptions) -> None:
    """Report what this installation has, lacks, and where it is broken.

    Python, ktdeval, extras, names of keys that are set (never their values), how old prices and
    cutoffs are, folders and room, terminal, plugins that fail to load, browser. Exit code 1 if
    something is broken.
    """
    found = checks(os.environ, datetime.now(UTC).date())
    if options.as_json:
        print_json([to_plain(check) for check in found])
    else:
        rows = [(check.name, check.state, check.detail, check.fix) for check in found]
        print_table(("PART", "STATE", "DETAIL", "FIX"), rows)

    if is_broken(found):
        click.get_current_context().exit(1)
