"""`ktdeval leaderboard submit`: write a run's submission, or report what is missing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from ktdeval.cards import count, read_private_key
from ktdeval.cli import (
    FilePath,
    JsonOptions,
    PluginOptions,
    RunPath,
    example,
    flag,
    open_plugins,
    options_of,
    passphrase_of_key,
)
from ktdeval.errors import ConfigError, UsageError
from ktdeval.values import dumps_pretty, from_plain, load_yaml, to_object
from ktdeval_board.document_types import Stored
from ktdeval_board.options import (
    BoardOptions,
    KeyOptions,
    MovedOptions,
    SubmitterOptions,
    moved_market,
    recorded_day,
)
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.submit import Outcome, SubmitRequest, submit_run
from ktdeval_board.submitter_claims import Claims


@dataclass(frozen=True, kw_only=True)
class SubmitOptions(
    BoardOptions, SubmitterOptions, KeyOptions, MovedOptions, PluginOptions, JsonOptions
):
    """Options of `leaderboard submit`."""

    card: str | None = flag(
        None,
        metavar="TASK",
        help="submit only the card of this task [default: all tasks that the board has]",
    )
    cutoff: str = flag(
        "",
        metavar="YYYY-MM-DD",
        help="last day of the model's training data; none: nothing was trained; unknown",
    )
    cutoff_source: str = flag("", metavar="TEXT", help="source of the cutoff, or why it is unknown")
    attempts: int | None = flag(
        None,
        type=click.IntRange(1, 1_000_000),
        metavar="N",
        help=(
            "number of runs of this model and agent on the task's windows, including this run "
            "and limited or aborted runs"
        ),
    )
    claims: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help=(
            "YAML file with further claims, such as organisation, strategy, released_on, note; "
            "options override the file"
        ),
    )
    records: str = flag(
        "repository",
        metavar="repository|elsewhere|URL",
        help=(
            "where ledgers and transcripts are stored: in the repository, elsewhere, or at an "
            "https://… address for downloading them"
        ),
    )
    records_out: Path | None = flag(
        None,
        type=FilePath(),
        metavar="DIR",
        help="folder to write ledgers and transcripts to, without secrets",
    )
    is_dry: bool = flag(
        False, name="--dry-run", help="only report what is missing, or what would be written"
    )


@example(
    "ktdeval leaderboard submit ktdeval-runs/my-run --board my-board --submitter 'My team' "
    "--contact you@example.org"
)
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(SubmitOptions)
@click.pass_context
def submit(context: click.Context, /, run: Path, options: SubmitOptions) -> None:
    """Check the run folder RUN like `ktdeval leaderboard check`, and write its submission into a
    clone of the board.

    Secrets are removed from transcripts. By submitting, you state that the records are those of one
    unaltered run, which you chose before its result was known. Exit code 1: something is missing
    (one line each), and nothing was written.
    """
    key = None
    if options.key is not None:
        key = read_private_key(options.key, passphrase_of_key)

    stored, address = _storage_of(options.records)
    request = SubmitRequest(
        run,
        recorded_day(),
        card=options.card,
        stored=stored,
        records_url=address,
        records_out=options.records_out,
        changes=moved_market(options),
        plugins=options.plugin,
        is_dry=options.is_dry,
        key=key,
    )
    claims = _claims_of(options)
    redactor = Redactor(os.environ, str(Path.home()))
    outcome = submit_run(options.board, request, claims, open_plugins(options.plugin), redactor)

    if options.as_json:
        document = {"dry_run": request.is_dry, **to_object(outcome)}
        click.echo(dumps_pretty(document), nl=False)
    else:
        for note in outcome.notes:
            click.echo(f"note: {note}", err=True)

        for line in (*outcome.missing, *_outcome_lines(outcome, request)):
            click.echo(line)

    if not outcome.submitted:
        if not options.as_json:
            click.echo(
                f"nothing was written: {count(len(outcome.missing), 'thing')} to fix", err=True
            )

        context.exit(1)


def _storage_of(records: str) -> tuple[Stored, str]:
    """Return where the records are stored, and the address of that place. Raises UsageError if
    `records` names neither a kind of place nor an address.
    """
    if records == "repository":
        return "repository", ""
    if records == "elsewhere":
        return "elsewhere", ""
    if "://" in records:
        return "elsewhere", records

    raise UsageError(
        f"--records: expected repository, elsewhere or an https://… address, was {records!r}"
    )


def _claims_of(options: SubmitOptions) -> Claims:
    """Return the submitter's claims; options override the file. Raises ConfigError if the file is
    not a valid claims file.
    """
    claims = Claims()
    if options.claims is not None:
        where = str(options.claims)
        claims = from_plain(load_yaml(options.claims), Claims, where, ConfigError)

    given: dict[str, Any] = {}
    for name in ("submitter", "contact", "cutoff", "cutoff_source", "attempts"):
        value = getattr(options, name)
        if value not in ("", None):
            given[name] = value

    return msgspec.structs.replace(claims, **given)


def _outcome_lines(outcome: Outcome, request: SubmitRequest) -> Iterator[str]:
    """Yield lines that say what was written and how to turn it into a pull request."""
    verb = "would write" if request.is_dry else "wrote"
    folders = set()
    for submitted in outcome.submitted:
        yield (
            f"{submitted.model} in division {submitted.division}:"
            f" {count(submitted.episodes, 'episode')},"
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
