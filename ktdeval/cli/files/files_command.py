"""`ktdeval files`: list, check, compact and prune the files of runs and the reply cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from ktdeval.cli.files.files_options import PruneOptions
from ktdeval.cli.help.examples import example
from ktdeval.cli.options import (
    FilePath,
    JsonOptions,
    RunPath,
    flag,
    given_of,
    options_of,
)
from ktdeval.errors import UsageError

CACHE = "cache"  #: word for the shared reply cache; a folder with this name is written `./cache`


class FilesPlace(RunPath):
    """Run, folder of runs, URL or cache file. The word `cache` means the shared cache."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path, or the word `cache` unchanged."""
        if value == CACHE:
            return Path(CACHE)

        path = super().convert(value, param, ctx)
        if str(path) == CACHE:  # file or folder given as ./cache
            return path.absolute()
        return path


_PLACE = click.argument("place", type=FilesPlace(), metavar=f"RUN|{CACHE}|FILE")


@example("ktdeval files list ktdeval-runs")
@click.group(name="files")
def files() -> None:
    """List, check, compact or prune the files of runs and the cache of replies.

    RUN is a run folder, a folder of runs, or a URL such as s3://BUCKET/runs/x (docs/grid-workers.md lists
    the drivers that URLs need). The word `cache` is the cache that runs share; FILE is another cache.
    """


# ---- list


@dataclass(frozen=True, kw_only=True)
class ListOptions(JsonOptions):
    """Options for `files list`: which episodes of runs."""

    model: str | None = flag(
        None, help="only those of models that match, such as 'openai/*'", metavar="GLOB"
    )
    task: str | None = flag(None, help="only episodes of tasks that match", metavar="GLOB")
    window: str | None = flag(None, help="only episodes of windows that match", metavar="GLOB")
    seed: int | None = flag(None, help="only episodes of this seed", metavar="N")
    state: Literal["complete", "unfinished", "planned"] | None = flag(
        None, help="only episodes in this state"
    )


@example("ktdeval files list ktdeval-runs --state unfinished")
@files.command("list", short_help="List the episodes of runs, or the replies in a cache.")
@_PLACE
@options_of(ListOptions)
def list_(place: Path, options: ListOptions) -> None:
    """List the episodes of runs with their state, or the replies in a cache by model.

    Of runs it reads plans and names of files, no records: `planned` has not begun, `unfinished` has
    finished steps, or is being finished. Of a cache it lists number, bytes, tokens and days of the
    replies; of the shared one also arrays that follow from markets alone (prices, factors).
    """
    chosen = given_of(options)
    as_json = chosen.pop("as_json")
    if not _is_cache(place):
        from ktdeval.cli.files.run_files import list_runs

        list_runs(place, as_json, chosen)
        return

    if chosen:
        name = next(iter(chosen))
        raise UsageError(f"--{name} selects episodes of runs, but {place} is a cache; leave it out")

    from ktdeval.cli.files.cache_files import list_cache

    list_cache(_cache_file(place), as_json)


# ---- check


@example("ktdeval files check ktdeval-runs/my-run")
@files.command("check", short_help="Check that no file of a run or reply in a cache has changed.")
@_PLACE
@options_of(JsonOptions)
def check(place: Path, options: JsonOptions) -> int:
    """Check that no file of a run is missing or has changed, or every reply in a cache.

    Of a run it compares each file with the hash that its episode ended with, and each call with the
    records. It also names files that belong to no episode, and those that a killed process left.
    `ktdeval card verify` checks what the files say. A damaged reply in a cache is never used: its
    call is made again. The exit code is 1 if something is missing or damaged.
    """
    if not _is_cache(place):
        from ktdeval.cli.files.run_files import check_runs

        return check_runs(place, options.as_json)

    from ktdeval.cli.files.cache_files import check_cache

    return check_cache(_cache_file(place), options.as_json)


# ---- compact, prune


@example("ktdeval files compact ktdeval-runs/my-run")
@files.command("compact", short_help="Delete data that a run's records hold twice.")
@click.argument("place", metavar="RUN")
def compact(place: str) -> None:
    """Merge small files of calls, and delete journals of episodes that have ended.

    Nothing is deleted that the run, its cards or their verification need. The run must not be
    running. A run does this itself when it ends.
    """
    from ktdeval.cli.files.run_files import compact_runs

    compact_runs(place)


@example("ktdeval files prune --older-than 90")
@files.command("prune", short_help="Remove replies from the cache.")
@click.argument("file", type=FilePath(dir_okay=False), metavar="[FILE]", required=False)
@options_of(PruneOptions)
def prune(file: Path | None, options: PruneOptions) -> None:
    """Remove the replies that --older-than, --model and --max-size select together, or --all.

    Asking for a removed reply again costs money again. Finished runs don't need the cache. FILE: a
    cache file of runs that were started with `--cache run` or `--cache FILE`; without it the cache
    that runs share, in the cache folder ($KTDEVAL_CACHE_DIR, or the user's own).
    """
    from ktdeval.cli.files.cache_files import prune_cache

    prune_cache(file, options)


def _is_cache(place: Path) -> bool:
    """Return whether a place is a cache: either the word `cache`, or an existing path that is not a
    folder.
    """
    return place == Path(CACHE) or (place.exists() and not place.is_dir())


def _cache_file(place: Path) -> Path | None:
    """Return a cache file; None for the shared cache."""
    if place == Path(CACHE):
        return None
    return place
