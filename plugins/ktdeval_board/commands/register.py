"""`ktdeval leaderboard register` and `draw`: fix a system, then draw its mask key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from msgspec import UnsetType

from ktdeval.cards import count, read_private_key
from ktdeval.cli import (
    FilePath,
    JsonOptions,
    PluginOptions,
    example,
    flag,
    open_plugins,
    options_of,
    passphrase_of_key,
    print_findings,
    print_json,
)
from ktdeval.errors import UsageError
from ktdeval.runner import Registrant, load_config
from ktdeval.values import dumps_pretty, exit_code, findings_json, load_yaml, to_plain
from ktdeval_board.layout import KEYS, REGISTRATIONS
from ktdeval_board.options import (
    BoardOptions,
    KeyOptions,
    SubmitterOptions,
    board_argument,
    recorded_day,
)
from ktdeval_board.ranking.questions import against_words
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.register import KeyDraw, RegisterRequest, draw_keys, register as register_system
from ktdeval_board.registrations import FiledRegistration

#: What a registration fixes about a run, by `RunConfig` field name
_SYSTEM = (
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
)


@dataclass(frozen=True, kw_only=True)
class RegisterOptions(BoardOptions, SubmitterOptions, KeyOptions, PluginOptions, JsonOptions):
    """Options of `leaderboard register`."""

    division: str = flag(metavar="ID", help="division of the board for the future card")
    model: str | None = flag(None, metavar="PROVIDER/NAME", help="the model")
    config: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "YAML file with the run's options, as for `ktdeval run --config`: the model, the "
            "agent, their parameters and the call parameters are registered"
        ),
    )
    question: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "YAML file with the question that the run should answer: metric, effect, against, "
            "windows, looks, spending, alpha, test; a card that follows all of it is confirmatory"
        ),
    )


@example(
    "ktdeval leaderboard register --board my-board --division masked --model openai/gpt-5-mini"
    " --submitter 'My team' --contact you@example.org"
)
@click.command()
@options_of(RegisterOptions)
@click.pass_context
def register(context: click.Context, /, options: RegisterOptions) -> None:
    """Register a system with a division whose mask keys the board draws, in a clone of the board.

    The registration fixes model, agent, their parameters, call parameters, windows and seeds,
    before anyone knows the key. It is public, counts as an attempt, and can't be changed. No model
    is called. Exit code 1: the board would refuse it.
    """
    system = _system_of(options)
    if not system.get("model"):
        raise UsageError(
            "no model is named; give --model PROVIDER/NAME (see `ktdeval list models`)"
        )
    if not (options.submitter and options.contact):
        raise UsageError("give --submitter NAME and --contact ADDRESS")

    plugins = open_plugins((*options.plugin, *system.pop("plugin", ())))
    redactor = Redactor(os.environ, str(Path.home()))
    key = None
    if options.key is not None:
        key = read_private_key(options.key, passphrase_of_key)

    submitter = Registrant(name=options.submitter, contact=options.contact)
    question = None if options.question is None else load_yaml(options.question)
    request = RegisterRequest(options.division, system, submitter, recorded_day(), key, question)
    registered = register_system(options.board, request, plugins, redactor)

    if registered.filed is None:
        for problem in registered.problems:
            click.echo(problem)

        click.echo(
            f"nothing was written: {count(len(registered.problems), 'thing')} to fix", err=True
        )
        context.exit(1)

    if registered.unchecked is not None:
        click.echo(
            f"note: not checked whether the task takes this system: {registered.unchecked}",
            err=True,
        )

    filed = registered.filed
    if options.as_json:
        document = {
            "id": filed.id,
            "path": filed.where,
            "registration": to_plain(filed.registration),
        }
        click.echo(dumps_pretty(document), nl=False)
    else:
        _print_next_steps(filed)


def _system_of(options: RegisterOptions) -> dict[str, Any]:
    """Return the options that define a system, keyed by `RunConfig` field name. `--model` overrides
    `--config`.
    """
    system: dict[str, Any] = {}
    if options.config is not None:
        stated = load_yaml(options.config)
        # Load the config as for a run, so that errors are reported in the same words.
        config = load_config(options.config, {"model": options.model, "tasks": ("any",)})
        for name in (*_SYSTEM, "plugin"):
            if name in stated:
                system[name] = getattr(config, name)

    if options.model is not None:
        system["model"] = options.model
    return system


def _print_next_steps(filed: FiledRegistration) -> None:
    """Print how to turn a registration into a pull request, and then into a run."""
    click.echo(f"wrote {filed.where}")
    question = filed.registration.question
    if not isinstance(question, UnsetType):
        click.echo(f"question {against_words(question)}: {question.words}")

    click.echo("next, in the board's repository:")
    click.echo(f"  git switch -c register-{filed.id[:12]}")
    click.echo(f"  git add {REGISTRATIONS}")
    click.echo(f"  git commit -m 'Register {filed.registration.system.model}'")
    click.echo("  git push -u origin HEAD    # then open a pull request")
    click.echo(
        f"after the merge, the board draws {KEYS}/{filed.id}.json; fetch it, and run under that "
        "key:"
    )
    click.echo(f"  ktdeval run --registration {KEYS}/{filed.id}.json --out run")


@example("ktdeval leaderboard draw my-board")
@click.command()
@board_argument
@options_of(JsonOptions)
def draw(board: Path, options: JsonOptions) -> int:
    """Draw the mask key of each open registration of the board in DIR, for maintainers and the
    board's workflow.

    Run it on the main branch, after registrations were merged. A key is drawn only once, from this
    machine's source of randomness, and published immediately. Exit code 1: a registration got no
    key.
    """
    drawn = draw_keys(board, recorded_day(), open_plugins(()))
    if options.as_json:
        keys = [{"id": each.id, "path": f"{KEYS}/{each.id}.json"} for each in drawn.drawn]
        print_json(findings_json(drawn.findings, drawn=keys))
    else:
        _print_draw(drawn)

    return exit_code(drawn.findings)


def _print_draw(drawn: KeyDraw) -> None:
    for each in drawn.drawn:
        click.echo(_registration_line(each))

    print_findings(drawn.findings, max_shown=None)
    if drawn.drawn:
        click.echo(f"{count(len(drawn.drawn), 'key')} drawn")
    else:
        click.echo("no registration is waiting for a key")


def _registration_line(filed: FiledRegistration) -> str:
    system = filed.registration.system
    submitter = filed.registration.submitter
    return (
        f"{KEYS}/{filed.id}.json: {system.model} with agent {system.agent} in {filed.division}, for"
        f" {submitter.name}"
    )
