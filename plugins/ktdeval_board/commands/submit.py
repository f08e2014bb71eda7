"""`ktdeval leaderboard submit`: write the submission of a run, or what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ktdeval.cards import count, read_private_key
from ktdeval.cli import FilePath, RunPath, example, open_plugins, passphrase_of_key, plugin_option
from ktdeval.values.jsonio import dumps_pretty
from ktdeval_board.bundle import Redactor
from ktdeval_board.claims import Claims
from ktdeval_board.documents import to_object
from ktdeval_board.options import as_day, board_option, day_option, market_options, moved_market
from ktdeval_board.submit import Outcome, Request, submit_run

_CLAIMS = Claims.__struct_fields__


@example(
    "ktdeval leaderboard submit ktdeval-runs/my-run --board my-board --submitter 'My team' --contact you@example.org"
)
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@board_option("clone of the board")
@click.option(
    "--card",
    metavar="TASK",
    help="the card of this task alone [default: of all tasks that the board has]",
)
@click.option("--submitter", default="", metavar="NAME", help="who submits: a person or a team")
@click.option(
    "--contact", default="", help="e-mail address or https address at which questions are answered"
)
@click.option("--organisation", default="", metavar="NAME", help="of the submitter")
@click.option("--url", default="", help="of the submitter, https://…")
@click.option(
    "--cutoff",
    default="",
    metavar="YYYY-MM-DD",
    help="last day of the model's training data; none: nothing was trained; unknown",
)
@click.option(
    "--cutoff-source", default="", metavar="TEXT", help="where that is from, or why it is unknown"
)
@click.option(
    "--released-on", default="", metavar="YYYY-MM-DD", help="day on which the model was released"
)
@click.option(
    "--open-weights/--closed-weights", default=None, help="whether the model's weights can be had"
)
@click.option("--model-url", default="", metavar="URL", help="page of the model, https://…")
@click.option(
    "--strategy",
    default="",
    metavar="WORD",
    help="what the agent is told to do; the site filters by it",
)
@click.option("--agent-url", default="", metavar="URL", help="page of the agent, https://…")
@click.option(
    "--attempts",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help=(
        "runs made of this model and agent on the task's windows: this one, limited and aborted"
        " ones included"
    ),
)
@click.option("--attempts-note", default="", metavar="TEXT", help="what the other runs were")
@click.option("--note", default="", metavar="TEXT", help="a line for readers")
@click.option(
    "--records",
    "stored",
    type=click.Choice(["repository", "elsewhere"]),
    default="repository",
    show_default=True,
    help="where ledgers and transcripts are kept",
)
@click.option(
    "--records-url",
    default="",
    metavar="URL",
    help="where records that are kept elsewhere can be had, https://…",
)
@click.option(
    "--records-out",
    type=FilePath(),
    metavar="DIR",
    help="folder to write these to, without secrets",
)
@click.option(
    "--key",
    type=FilePath(),
    metavar="FILE",
    help=(
        "file of your private key, to sign the card as it is submitted [default: the signature that"
        " `ktdeval card sign` left next to it]"
    ),
)
@market_options("the market, if it has moved since the run: a snapshot folder or data provider")
@click.option(
    "--dry-run", "is_dry", is_flag=True, help="only say what is missing, or what would be written"
)
@day_option("submission")
@click.option("--json", "as_json", is_flag=True, help="print the outcome as JSON")
@plugin_option
@click.pass_context
def submit(
    context: click.Context,
    /,
    run: Path,
    board: Path,
    today: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Check the run folder RUN as `ktdeval leaderboard check` does, and write its submission into a
    clone of the board.

    Secrets are taken out of transcripts. By submitting you state that the records are those of one
    run as it was made, which you chose before its result was known. Exit code 1: something is
    missing, a line each, and nothing was written.
    """
    changes = moved_market(options.pop("data"), options.pop("data_args"))
    day = as_day(today)
    claims = Claims(**{name: options.pop(name) for name in _CLAIMS})
    extra = options.pop("extra")
    key_file = options.pop("key")
    key = None
    if key_file is not None:
        key = read_private_key(key_file, passphrase_of_key)

    request = Request(run, day, changes=changes, plugins=extra, key=key, **options)
    redactor = Redactor(os.environ, str(Path.home()))
    outcome = submit_run(board, request, claims, open_plugins(extra), redactor)

    if as_json:
        document = {"dry_run": request.is_dry, **to_object(outcome)}
        click.echo(dumps_pretty(document), nl=False)
    else:
        for note in outcome.notes:
            click.echo(f"note: {note}", err=True)

        for line in (*outcome.missing, *_lines(outcome, request)):
            click.echo(line)

    if not outcome.submitted:
        if not as_json:
            click.echo(
                f"nothing was written: {count(len(outcome.missing), 'thing')} to fix", err=True
            )

        context.exit(1)


def _lines(outcome: Outcome, request: Request) -> Iterator[str]:
    """Yield what was written, and how it becomes a pull request."""
    verb = "would write" if request.is_dry else "wrote"
    folders = set()
    for submitted in outcome.submitted:
        yield (
            f"{submitted.model} in division {submitted.division}: {submitted.episodes} episodes,"
            f" {submitted.record_bytes / 1e6:.1f} MB of records"
        )
        for path in submitted.paths:
            folders.add(path.partition("/")[0])
            yield f"  {verb} {path}"

        for leak in submitted.redacted:
            yield f"  redacted {leak.kind} in {leak.place}"

    if outcome.submitted and not request.is_dry:
        ids = [card.card_id[:12] for card in outcome.submitted]
        yield "next, in the board's repository:"
        yield f"  git switch -c submit-{ids[0]}"
        yield f"  git add {' '.join(sorted(folders))}"
        yield f"  git commit -m 'Submit {', '.join(ids)}'"
        yield "  git push -u origin HEAD    # then open a pull request"
