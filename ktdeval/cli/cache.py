"""`ktdeval cache`: list, prune and verify the cache of model replies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import count
from ktdeval.cli.examples import example
from ktdeval.cli.options import FilePath, Number, json_option, warn
from ktdeval.cli.table import print_json, print_table
from ktdeval.errors import StoreError, UsageError
from ktdeval.values.fields import near_matches

if TYPE_CHECKING:
    from ktdeval.calls.cache_admin import CacheAdmin, Checked, ModelUse
    from ktdeval.market.array_cache import ArrayCache

_MEGABYTE = 1_000_000
_MOST_DAYS = 36_500
_MOST_MEGABYTES = 1_000_000_000
_SHOWN_FINDINGS = 100
_HEADER = (
    "MODEL",
    " REPLIES",
    "    BYTES",
    " INPUT TOKENS",
    "OUTPUT TOKENS",
    "FIRST DAY",
    "LAST DAY",
)


_file_option = click.option(
    "--file",
    "file",
    type=FilePath(dir_okay=False),
    metavar="FILE",
    help="a cache file; default: the shared one",
)


@example("ktdeval cache ls")
@click.group(
    name="cache", invoke_without_command=True, subcommand_metavar="[ls|prune|verify [OPTIONS]]"
)
@click.pass_context
def cache(context: click.Context) -> None:
    """List, prune or verify the cache of model replies. Without a subcommand it lists.

    The cache folder also keeps arrays that follow from markets alone (prices, factors), which runs
    map into memory: `ls` lists them, `prune --arrays` removes them, and runs make them again.

    A reply is stored under the hash of its request, so that no call is paid twice. Runs share one
    file in the cache folder ($KTDEVAL_CACHE_DIR, or the user's own), unless they were started with
    `--cache run` or `--cache FILE`; name such a file with --file.
    """
    if context.invoked_subcommand is None:
        context.invoke(ls)


@example("ktdeval cache ls --json")
@cache.command("ls", short_help="List the cached replies by model.")
@_file_option
@json_option
def ls(file: Path | None, as_json: bool) -> None:
    """List the cached replies by provider and model: number, bytes, tokens, first and last day."""
    uses: list[ModelUse] = []
    with _opened(file) as (path, admin):
        if admin is not None:
            uses = admin.models()

    size = _bytes_on_disk(path)
    arrays = _arrays(file)
    entries = [] if arrays is None else arrays.entries()
    if as_json:
        models = [use._asdict() for use in uses]
        kept = [{"path": str(entry.path), "bytes": entry.bytes} for entry in entries]
        print_json({"file": str(path), "file_bytes": size, "models": models, "arrays": kept})
        return

    if uses:
        print_table(_HEADER, map(_row, uses))

    replies = sum(use.replies for use in uses)
    click.echo(f"{path}: {count(replies, 'reply')}, {size:,} bytes on disk")
    if arrays is not None:
        for entry in entries:
            click.echo(f"  {entry.bytes:>13,}  {entry.title or 'damaged, made again when needed'}")
        total = sum(entry.bytes for entry in entries)
        noun = "entry" if len(entries) == 1 else "entries"
        click.echo(f"{arrays.folder}: {len(entries):,} {noun} of arrays, {total:,} bytes on disk")


def _arrays(file: Path | None) -> ArrayCache | None:
    """Return the cache of arrays that follow from markets; None where a file of replies is
    named.
    """
    from ktdeval.runner.data_source import array_cache

    if file is not None:
        return None
    return array_cache()


def _bytes_on_disk(path: Path) -> int:
    """Return the size of a cache file with the write-ahead log that SQLite keeps next to it."""
    log = path.with_name(f"{path.name}-wal")
    return sum(part.stat().st_size for part in (path, log) if part.exists())


def _row(use: ModelUse) -> tuple[str, ...]:
    """Return the listing's row of a model, its numbers flush right below their titles."""
    numbers = (use.replies, use.bytes, use.input_tokens, use.output_tokens)
    cells = [f"{number:>{len(title)},}" for number, title in zip(numbers, _HEADER[1:])]
    return (f"{use.provider}/{use.model}", *cells, use.first_day, use.last_day)


@example("ktdeval cache prune --older-than 90")
@cache.command("prune", short_help="Remove replies.")
@_file_option
@click.option(
    "--older-than",
    type=Number(0, _MOST_DAYS),
    metavar="DAYS",
    help="replies received more than DAYS days ago",
)
@click.option(
    "--model",
    metavar="GLOB",
    help="only replies of models that match, such as 'openai/*'; alone: all of them",
)
@click.option(
    "--max-size",
    type=Number(0, _MOST_MEGABYTES),
    metavar="MB",
    help="the oldest replies, until at most MB megabytes are left",
)
@click.option("--all", "everything", is_flag=True, help="all replies")
@click.option("--arrays", is_flag=True, help="arrays of markets instead of replies; all of them")
@click.option("--dry-run", is_flag=True, help="only count what would be removed")
@json_option
def prune(file: Path | None, everything: bool, dry_run: bool, as_json: bool, **chosen: Any) -> None:
    """Remove the replies that --older-than, --model and --max-size select together, or --all.

    Asking for a removed reply again costs money again. Finished runs don't need the cache.
    """
    from datetime import UTC, datetime

    from ktdeval.calls.cache_admin import Pruned, PruneRule

    older_than = chosen["older_than"]
    model = chosen["model"]
    max_size = chosen["max_size"]
    is_selected = any(value is not None for value in (older_than, model, max_size))
    if chosen["arrays"]:
        if everything or is_selected or file is not None:
            raise UsageError("--arrays: removes arrays alone; leave the other options out")
        _prune_arrays(dry_run, as_json)
        return

    if everything == is_selected:  # neither, or both
        raise UsageError(
            "name what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all by"
            " itself"
        )

    max_bytes = None
    if max_size is not None:
        max_bytes = round(max_size * _MEGABYTE)

    rule = PruneRule(model or "*", older_than, max_bytes)
    pruned = Pruned(0, 0)
    with _opened(file) as (path, admin):
        if admin is not None:
            _warn_of_glob(model, admin.models())
            pruned = admin.prune(rule, datetime.now(UTC), dry_run)

    if as_json:
        print_json({"file": str(path), "dry_run": dry_run, **pruned._asdict()})
        return

    action = "would remove" if dry_run else "removed"
    click.echo(f"{path}: {action} {count(pruned.replies, 'reply')}, {pruned.bytes:,} bytes")


def _prune_arrays(dry_run: bool, as_json: bool) -> None:
    """Remove the arrays of all markets."""
    from ktdeval.runner.data_source import array_cache

    arrays = array_cache()
    entries = arrays.entries() if dry_run else arrays.clear()
    total = sum(entry.bytes for entry in entries)
    if as_json:
        removed = {"arrays": len(entries), "bytes": total}
        print_json({"folder": str(arrays.folder), "dry_run": dry_run, **removed})
        return

    action = "would remove" if dry_run else "removed"
    noun = "entry" if len(entries) == 1 else "entries"
    click.echo(f"{arrays.folder}: {action} {len(entries):,} {noun} of arrays, {total:,} bytes")


@example("ktdeval cache verify")
@cache.command("verify", short_help="Check the file and every reply in it.")
@_file_option
@json_option
def verify(file: Path | None, as_json: bool) -> int:
    """Check the file and every reply in it. Exits with 1 if something is wrong.

    A damaged reply is never used: its call is made again, and the new reply replaces it.
    """
    from ktdeval.calls.cache_admin import Checked

    checked = Checked(0, ())
    with _opened(file) as (path, admin):
        if admin is not None:
            checked = admin.verify()

    exit_code = 1 if checked.findings else 0
    if as_json:
        findings = [finding._asdict() for finding in checked.findings]
        print_json({"file": str(path), "replies": checked.replies, "findings": findings})
    else:
        _print_checked(path, checked)

    return exit_code


def _print_checked(path: Path, checked: Checked) -> None:
    """Print the problems that a check of a cache file found, and how many replies it checked."""
    findings = checked.findings
    for finding in findings[:_SHOWN_FINDINGS]:
        # A finding without a key is about the file as a whole.
        place = f"reply {finding.key[:16]}" if finding.key else "the file"
        click.echo(f"{place}: {finding.problem}")

    if len(findings) > _SHOWN_FINDINGS:
        click.echo(f"… and {len(findings) - _SHOWN_FINDINGS:,} more; --json lists all")

    verdict = "all unchanged"
    if findings:
        verdict = count(len(findings), "problem")

    click.echo(f"{path}: {count(checked.replies, 'reply')} checked, {verdict}")
    if any(not finding.key for finding in findings):
        click.echo(
            "the file itself is damaged: delete it; replies that are asked for again are then paid"
            " again"
        )


@contextmanager
def _opened(file: Path | None) -> Iterator[tuple[Path, CacheAdmin | None]]:
    """Open the cache file that an option names, or the shared one, which may not exist yet.

    Raises StoreError: a named file does not exist.
    """
    from ktdeval.calls.cache_admin import CacheAdmin
    from ktdeval.runner.remote.model_access import cache_path

    path = file
    if path is None:
        path = cache_path("shared")

    if path.exists():
        with CacheAdmin(path) as admin:
            yield path, admin
    elif file is not None:
        raise StoreError(f"{path}: no such file; `ktdeval cache ls` alone shows the shared cache")
    else:
        yield path, None


def _warn_of_glob(glob: str | None, uses: list[ModelUse]) -> None:
    """Warn if a glob matches nothing: it may be mistyped, or the replies were removed before."""
    from fnmatch import fnmatchcase

    if glob is None:
        return

    names = [f"{use.provider}/{use.model}" for use in uses]
    if not any(fnmatchcase(name, glob) for name in names):
        warn(f"--model {glob!r} matches no PROVIDER/MODEL in the cache{near_matches(glob, names)}")
