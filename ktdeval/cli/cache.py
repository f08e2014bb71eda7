"""`ktdeval cache`: content of the reply cache, its integrity, and the removal of replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import count
from ktdeval.cli.options import FilePath, Number, json_option, warn
from ktdeval.cli.table import print_json, print_table
from ktdeval.errors import StoreError, UsageError
from ktdeval.fields import near_matches

if TYPE_CHECKING:
    from ktdeval.calls.cache_admin import CacheAdmin, ModelUse

_MEGABYTE = 1_000_000
_MOST_DAYS, _MOST_MEGABYTES = 36_500, 1_000_000_000
_SHOWN_FINDINGS = 100
_HEADER = ("MODEL", " REPLIES", "    BYTES", " INPUT TOKENS", "OUTPUT TOKENS", "FIRST DAY", "LAST DAY")


_file_option = click.option(
    "--file", "file", type=FilePath(dir_okay=False), metavar="FILE", help="a cache file; default: the shared one"
)


@click.group(name="cache", invoke_without_command=True, subcommand_metavar="[ls|prune|verify [OPTIONS]]")
@click.pass_context
def cache(context: click.Context) -> None:
    """List, prune or verify the cache of model replies; by itself it lists.

    A reply is kept under the hash of what was asked, so that a call is never paid twice. Runs share one file in the cache folder
    ($KTDEVAL_CACHE_DIR, or the user's own), unless they have `--cache run` or `--cache FILE`; name such a file with --file.
    """
    if context.invoked_subcommand is None:
        context.invoke(ls)


@cache.command("ls", short_help="List what is kept, by model.")
@_file_option
@json_option
def ls(file: Path | None, as_json: bool) -> None:
    """List what is kept: replies, bytes and tokens by provider and model, with the days of the first and the last."""
    with _opened(file) as (path, admin):
        uses = [] if admin is None else admin.models()
    # With the log that SQLite keeps next to the file.
    size = sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())
    if as_json:
        print_json({"file": str(path), "file_bytes": size, "models": [use._asdict() for use in uses]})
        return
    rows = []
    for use in uses:
        numbers = (use.replies, use.bytes, use.input_tokens, use.output_tokens)
        cells = (f"{number:>{len(title)},}" for number, title in zip(numbers, _HEADER[1:]))
        rows.append((f"{use.provider}/{use.model}", *cells, use.first_day, use.last_day))
    if rows:
        print_table(_HEADER, rows)
    click.echo(f"{path}: {count(sum(use.replies for use in uses), 'reply')}, {size:,} bytes on disk")


@cache.command("prune", short_help="Remove replies.")
@_file_option
@click.option("--older-than", type=Number(0, _MOST_DAYS), metavar="DAYS", help="those that came in more than DAYS days ago")
@click.option("--model", metavar="GLOB", help="only those of models that fit, such as 'openai/*'; alone: all of these")
@click.option("--max-size", type=Number(0, _MOST_MEGABYTES), metavar="MB", help="the oldest, until at most MB megabytes are left")
@click.option("--all", "everything", is_flag=True, help="all of them")
@click.option("--dry-run", is_flag=True, help="only count what would be removed")
@json_option
def prune(file: Path | None, everything: bool, dry_run: bool, as_json: bool, **chosen: Any) -> None:
    """Remove replies: those that --older-than, --model and --max-size name together, or --all.

    What is removed would have to be paid again if it were asked again; runs that are finished don't need it.
    """
    from datetime import UTC, datetime

    from ktdeval.calls.cache_admin import Pruned, PruneRule

    older_than, model, max_size = chosen["older_than"], chosen["model"], chosen["max_size"]
    if everything == any(value is not None for value in (older_than, model, max_size)):
        raise UsageError("say what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all by itself")
    max_bytes = None if max_size is None else round(max_size * _MEGABYTE)
    pruned = Pruned(0, 0)
    with _opened(file) as (path, admin):
        if admin is not None:
            _warn_of_glob(model, admin.models())
            pruned = admin.prune(PruneRule(model or "*", older_than, max_bytes), datetime.now(UTC), dry_run)
    if as_json:
        print_json({"file": str(path), "dry_run": dry_run, **pruned._asdict()})
        return
    did = "would remove" if dry_run else "removed"
    click.echo(f"{path}: {did} {count(pruned.replies, 'reply')}, {pruned.bytes:,} bytes")


@cache.command("verify", short_help="Check the file and every reply in it.")
@_file_option
@json_option
def verify(file: Path | None, as_json: bool) -> int:
    """Check the file and every reply in it; exits with 1 when something is wrong.

    A damaged reply is never used: its call is made again, and the answer replaces it.
    """
    from ktdeval.calls.cache_admin import Checked

    with _opened(file) as (path, admin):
        checked = Checked(0, ()) if admin is None else admin.verify()
    findings = checked.findings
    if as_json:
        print_json({"file": str(path), "replies": checked.replies, "findings": [finding._asdict() for finding in findings]})
        return 1 if findings else 0
    for finding in findings[:_SHOWN_FINDINGS]:
        click.echo(f"{f'reply {finding.key[:16]}' if finding.key else 'the file'}: {finding.problem}")
    if len(findings) > _SHOWN_FINDINGS:
        click.echo(f"… and {len(findings) - _SHOWN_FINDINGS:,} more; --json lists all")
    verdict = count(len(findings), "problem") if findings else "all as they were stored"
    click.echo(f"{path}: {count(checked.replies, 'reply')} checked, {verdict}")
    if any(not finding.key for finding in findings):
        click.echo("the file itself is damaged: delete it; replies that are asked for again are then paid again")
    return 1 if findings else 0


@contextmanager
def _opened(file: Path | None) -> Iterator[tuple[Path, CacheAdmin | None]]:
    """Open the cache file of an option; the shared one need not have been made yet. StoreError: a named file does not exist."""
    from ktdeval.calls.cache_admin import CacheAdmin
    from ktdeval.runner.access import cache_path

    path = file if file is not None else cache_path("shared", Path())
    if path.exists():
        with CacheAdmin(path) as admin:
            yield path, admin
    elif file is not None:
        raise StoreError(f"{path}: no such file; `ktdeval cache ls` alone shows the shared cache")
    else:
        yield path, None


def _warn_of_glob(glob: str | None, uses: list[ModelUse]) -> None:
    """Warn where a glob matches nothing: it may be a slip, or all may have been removed before."""
    from fnmatch import fnmatchcase

    names = [f"{use.provider}/{use.model}" for use in uses]
    if glob is not None and not any(fnmatchcase(name, glob) for name in names):
        warn(f"--model {glob!r} fits no PROVIDER/MODEL in the cache{near_matches(glob, names)}")
