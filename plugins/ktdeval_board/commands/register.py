"""`ktdeval leaderboard register` and `draw`: fix a system, then draw its mask key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ktdeval.cards import count, read_private_key
from ktdeval.cli import FilePath, config_option, example, open_plugins, passphrase_of_key
from ktdeval.errors import UsageError
from ktdeval.runner import Registrant
from ktdeval.values.jsonio import dumps_pretty
from ktdeval.values.typed import to_plain
from ktdeval_board.bundle import Redactor
from ktdeval_board.layout import KEYS, REGISTRATIONS
from ktdeval_board.options import as_day, board_argument, board_option, day_option
from ktdeval_board.register import Draw, RegisterRequest, draw_keys, register as register_system
from ktdeval_board.registrations import Filed


@example(
    "ktdeval leaderboard register --board my-board --division masked --model openai/gpt-5-mini"
    " --submitter 'My team' --contact you@example.org"
)
@click.command()
@board_option("clone of the board")
@click.option(
    "--division",
    required=True,
    metavar="ID",
    help="division of the board that the card is to be of",
)
@click.option(
    "--submitter",
    required=True,
    metavar="NAME",
    help="who registers, and will submit: a person or a team",
)
@click.option(
    "--contact",
    required=True,
    help="e-mail address or https address at which questions are answered",
)
@click.option(
    "--key",
    "key_file",
    type=FilePath(),
    metavar="FILE",
    help="file of your private key, to sign it where the board has your public one",
)
@day_option("registration")
@click.option("--json", "as_json", is_flag=True, help="print the registration as JSON")
@config_option(
    "model",
    "model_args",
    "base_url",
    "agent",
    "agent_args",
    "temperature",
    "max_output_tokens",
    "reasoning_effort",
    "reasoning_tokens",
    "tool_protocol",
    "plugin",
)
@click.pass_context
def register(
    context: click.Context,
    /,
    board: Path,
    division: str,
    key_file: Path | None,
    today: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Register a system with a division whose mask keys the board draws, in a clone of the board.

    The registration fixes model, agent, their parameters, those of calls, windows and seeds, before
    anybody knows the key. It is public, counts as an attempt, and can't be changed. No model is
    called. Exit code 1: the board would not take it.
    """
    if options["model"] is None:
        raise UsageError("no model named; say --model PROVIDER/NAME (see `ktdeval models`)")

    submitter = Registrant(name=options.pop("submitter"), contact=options.pop("contact"))
    plugins = open_plugins(options.pop("plugin") or ())
    redactor = Redactor(os.environ, str(Path.home()))
    key = None
    if key_file is not None:
        key = read_private_key(key_file, passphrase_of_key)

    request = RegisterRequest(division, options, submitter, as_day(today), key)
    registered = register_system(board, request, plugins, redactor)

    if registered.filed is None:
        for problem in registered.problems:
            click.echo(problem)

        click.echo(
            f"nothing was written: {count(len(registered.problems), 'thing')} to fix", err=True
        )
        context.exit(1)

    filed = registered.filed
    if as_json:
        document = {
            "id": filed.id,
            "path": filed.where,
            "registration": to_plain(filed.registration),
        }
        click.echo(dumps_pretty(document), nl=False)
    else:
        _print_next_steps(filed)


def _print_next_steps(filed: Filed) -> None:
    """Print how a registration becomes a pull request, and then a run."""
    click.echo(f"wrote {filed.where}")
    click.echo("next, in the board's repository:")
    click.echo(f"  git switch -c register-{filed.id[:12]}")
    click.echo(f"  git add {REGISTRATIONS}")
    click.echo(f"  git commit -m 'Register {filed.registration.system.model}'")
    click.echo("  git push -u origin HEAD    # then open a pull request")
    click.echo(
        f"when it is merged, the board draws {KEYS}/{filed.id}.json; fetch it, and run under it:"
    )
    click.echo(f"  ktdeval run --registration {KEYS}/{filed.id}.json --out run")


@example("ktdeval leaderboard draw my-board")
@click.command()
@board_argument
@day_option("draw")
@click.option("--json", "as_json", is_flag=True, help="print what was drawn as JSON")
def draw(board: Path, today: str | None, as_json: bool) -> int:
    """Draw the mask key of each open registration of the board in DIR, for maintainers and the
    board's workflow.

    Run it on the main branch, after registrations were merged: a key comes from the randomness of
    this machine, is drawn once, and is published at once. Exit code 1: a registration is refused a
    key.
    """
    drawn = draw_keys(board, as_day(today))
    if as_json:
        keys = [{"id": each.id, "path": f"{KEYS}/{each.id}.json"} for each in drawn.drawn]
        document = {"drawn": keys, "findings": to_plain(list(drawn.findings))}
        click.echo(dumps_pretty(document), nl=False)
    else:
        _print(drawn)

    return 1 if drawn.findings else 0


def _print(drawn: Draw) -> None:
    for each in drawn.drawn:
        click.echo(_line(each))

    for finding in drawn.findings:
        click.echo(str(finding))

    if drawn.drawn:
        click.echo(f"{count(len(drawn.drawn), 'key')} drawn")
    else:
        click.echo("no registration waits for a key")


def _line(filed: Filed) -> str:
    system = filed.registration.system
    submitter = filed.registration.submitter
    return (
        f"{KEYS}/{filed.id}.json: {system.model} with agent {system.agent} in {filed.division}, for"
        f" {submitter.name}"
    )
