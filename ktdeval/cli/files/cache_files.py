"""Actions of `ktdeval files` on the cache of model replies: list, check and prune.

A reply is stored under the hash of its request, so that no call is paid for twice. Runs share one
file in the cache folder, unless they were started with `--cache run` or `--cache FILE`. The cache
folder also holds arrays derived from markets. Runs memory-map these arrays, and rebuild them if
they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cards import count
from ktdeval.cli.options import warn
from ktdeval.cli.terminal_tables import print_json, print_table, report_findings
from ktdeval.errors import StoreError, UsageError
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.config_options import near_matches

if TYPE_CHECKING:
    from ktdeval.calls.records.cache_admin import CacheAdmin, ModelUse
    from ktdeval.cli.files.files_options import PruneOptions
    from ktdeval.market.snapshots.array_cache import ArrayCache

_MEGABYTE = 1_000_000
_HEADER = (
    "MODEL",
    " REPLIES",
    "    BYTES",
    " INPUT TOKENS",
    "OUTPUT TOKENS",
    "FIRST DAY",
    "LAST DAY",
)


def list_cache(file: Path | None, as_json: bool) -> None:
    """List the cached replies by provider and model, with their number, bytes, tokens, and first
    and last day.
    """
    uses: list[ModelUse] = []
    with _open_cache(file) as (path, admin):
        if admin is not None:
            uses = admin.models()

    size = _bytes_on_disk(path)
    arrays = _arrays(file)
    entries = [] if arrays is None else arrays.entries()
    if as_json:
        models = [asdict(use) for use in uses]
        kept = [{"path": str(entry.path), "bytes": entry.bytes} for entry in entries]
        print_json({"file": str(path), "file_bytes": size, "models": models, "arrays": kept})
        return

    if uses:
        print_table(_HEADER, map(_model_row, uses))

    replies = sum(use.replies for use in uses)
    click.echo(f"{path}: {count(replies, 'reply')}, {size:,} bytes on disk")
    if arrays is not None:
        for entry in entries:
            click.echo(f"  {entry.bytes:>13,}  {entry.title or 'damaged, made again when needed'}")
        total = sum(entry.bytes for entry in entries)
        click.echo(
            f"{arrays.folder}: {count(len(entries), 'entry')} of arrays, {total:,} bytes on disk"
        )


def _arrays(file: Path | None) -> ArrayCache | None:
    """Return the cache of arrays derived from markets; None if a specific cache file was given."""
    from ktdeval.runner.plans.data_source import array_cache

    if file is not None:
        return None
    return array_cache()


def _bytes_on_disk(path: Path) -> int:
    """Return the size of a cache file, including the write-ahead log that SQLite keeps next
    to it.
    """
    log = path.with_name(f"{path.name}-wal")
    return sum(part.stat().st_size for part in (path, log) if part.exists())


def _model_row(use: ModelUse) -> tuple[str, ...]:
    """Return the table row for a model, with numbers right-aligned under their titles."""
    numbers = (use.replies, use.bytes, use.input_tokens, use.output_tokens)
    cells = [f"{number:>{len(title)},}" for number, title in zip(numbers, _HEADER[1:])]
    return (f"{use.provider}/{use.model}", *cells, use.first_day, use.last_day)


def prune_cache(file: Path | None, options: PruneOptions) -> None:
    """Remove the replies that the options select. Raises UsageError if the options are
    incompatible.
    """
    from datetime import UTC, datetime

    from ktdeval.calls.records.cache_admin import CachePruneRule, PrunedReplies

    selected = (options.older_than, options.model, options.max_size)
    is_selected = any(value is not None for value in selected)
    if options.arrays:
        if options.everything or is_selected or file is not None:
            raise UsageError("--arrays removes only arrays; leave the other options out")
        _prune_arrays(options.dry_run, options.as_json)
        return

    if options.everything == is_selected:  # either neither or both
        raise UsageError(
            "name what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all"
            " without other options"
        )

    max_bytes = None
    if options.max_size is not None:
        max_bytes = round(options.max_size * _MEGABYTE)

    rule = CachePruneRule(options.model or "*", options.older_than, max_bytes)
    pruned = PrunedReplies(0, 0)
    with _open_cache(file) as (path, admin):
        if admin is not None:
            _warn_of_glob(options.model, admin.models())
            pruned = admin.prune(rule, datetime.now(UTC), options.dry_run)

    if options.as_json:
        print_json({"file": str(path), "dry_run": options.dry_run, **asdict(pruned)})
        return

    action = "would remove" if options.dry_run else "removed"
    click.echo(f"{path}: {action} {count(pruned.replies, 'reply')}, {pruned.bytes:,} bytes")


def _prune_arrays(dry_run: bool, as_json: bool) -> None:
    """Remove the arrays of all markets."""
    from ktdeval.runner.plans.data_source import array_cache

    arrays = array_cache()
    entries = arrays.entries() if dry_run else arrays.clear()
    total = sum(entry.bytes for entry in entries)
    if as_json:
        removed = {"arrays": len(entries), "bytes": total}
        print_json({"folder": str(arrays.folder), "dry_run": dry_run, **removed})
        return

    action = "would remove" if dry_run else "removed"
    click.echo(
        f"{arrays.folder}: {action} {count(len(entries), 'entry')} of arrays, {total:,} bytes"
    )


def check_cache(file: Path | None, as_json: bool) -> int:
    """Check a cache file and every reply in it. Return 1 if anything is wrong.

    A damaged reply is never used: its call is repeated, and the new reply replaces it.
    """
    from ktdeval.calls.records.cache_admin import CheckedReplies

    checked = CheckedReplies(0, ())
    with _open_cache(file) as (path, admin):
        if admin is not None:
            checked = admin.verify()

    verdict = "all unchanged"
    if checked.findings:
        verdict = count(len(checked.findings), "problem")

    summary = f"{path}: {count(checked.replies, 'reply')} checked, {verdict}"
    facts: dict[str, JsonValue] = {"file": str(path), "replies": checked.replies}
    return report_findings(checked.findings, as_json, summary, **facts)


@contextmanager
def _open_cache(file: Path | None) -> Iterator[tuple[Path, CacheAdmin | None]]:
    """Open the cache file that an option names or, by default, the shared cache, which may not
    exist yet.

    Raises StoreError if a named file does not exist.
    """
    from ktdeval.calls.records.cache_admin import CacheAdmin
    from ktdeval.runner.models.model_connection import cache_path

    path = file
    if path is None:
        path = cache_path("shared")

    if path.exists():
        with CacheAdmin(path) as admin:
            yield path, admin
    elif file is not None:
        raise StoreError(f"{path}: no such file; `ktdeval files list cache` shows the shared one")
    else:
        yield path, None


def _warn_of_glob(glob: str | None, uses: list[ModelUse]) -> None:
    """Warn if a glob matches nothing: it may be mistyped, or the replies may already have been
    removed.
    """
    from fnmatch import fnmatchcase

    if glob is None:
        return

    names = [f"{use.provider}/{use.model}" for use in uses]
    if not any(fnmatchcase(name, glob) for name in names):
        warn(f"--model {glob!r} matches no PROVIDER/MODEL in the cache{near_matches(glob, names)}")
