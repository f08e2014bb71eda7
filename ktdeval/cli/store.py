"""`ktdeval store`: list the episodes of runs, check their files, compact them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import count
from ktdeval.cli.examples import example
from ktdeval.cli.options import FilePath, RunPath, json_option
from ktdeval.cli.table import print_json, print_table
from ktdeval.errors import VerificationError

if TYPE_CHECKING:
    from ktdeval.runner.run_admin import EpisodeRow, Finding

_HEADER = ("EPISODE", "STATE", "TASK", "MODEL", "AGENT", "WINDOW", "SEED", "BYTES")
_STATES = ("complete", "unfinished", "planned")
_SHOWN_FINDINGS = 100

_PLACE = click.argument("place", type=RunPath(), metavar="RUN")


@example("ktdeval store list ktdeval-runs")
@click.group(name="store")
def store() -> None:
    """List the episodes of runs, check the files of a run, or compact them.

    RUN is a run folder, or a URL such as s3://BUCKET/runs/x. docs/stores.md lists the drivers that
    URLs need.
    """


@example("ktdeval store list ktdeval-runs --state unfinished")
@store.command("list", short_help="List the episodes of a run, or of all runs below a folder.")
@_PLACE
@click.option("--model", metavar="GLOB", help="only of models that match, such as 'openai/*'")
@click.option("--task", metavar="GLOB", help="only of tasks that match")
@click.option("--window", metavar="GLOB", help="only of windows that match")
@click.option("--seed", type=int, metavar="N", help="only of this seed")
@click.option("--state", type=click.Choice(_STATES), help="only in this state")
@json_option
def list_(place: Path, as_json: bool, **chosen: Any) -> None:
    """List episodes with their state. Reads plans and names of files, no records.

    `planned` has not begun, `unfinished` has finished steps, or is being finished.
    """
    from ktdeval.runner.run_admin import EpisodeFilter, list_episodes
    from ktdeval.runner.trials import run_folders
    from ktdeval.values.typed import to_plain

    chosen_episodes = EpisodeFilter(**chosen)
    runs = run_folders([place])

    def rows() -> Iterator[EpisodeRow]:
        for run in runs:
            yield from list_episodes(run, chosen_episodes)

    listed = list(rows())
    if as_json:
        print_json([to_plain(row) for row in listed])
        return

    if listed:
        print_table(_HEADER, map(_cells, listed))

    complete = sum(row.state == "complete" for row in listed)
    size = sum(row.bytes for row in listed)
    click.echo(
        f"{place}: {count(len(listed), 'episode')} of {count(len(runs), 'run')},"
        f" {complete:,} complete, {size:,} bytes"
    )


def _cells(row: EpisodeRow) -> tuple[str, ...]:
    return (
        row.id,
        row.state,
        row.task,
        row.model,
        row.agent,
        row.window or "",
        str(row.seed),
        f"{row.bytes:,}",
    )


@example("ktdeval store check ktdeval-runs/my-run")
@store.command("check", short_help="Check that no file of a run is missing or has changed.")
@_PLACE
@json_option
def check(place: Path, as_json: bool) -> None:
    """Compare each file with the hash that its episode ended with, and each call with the records.

    Also names files that belong to no episode, and those that a killed process left. The exit code
    is 1 if something is missing or damaged. `ktdeval card verify` checks what the files say.
    """
    from ktdeval.runner.run_admin import check_run
    from ktdeval.runner.trials import run_folders

    found: list[tuple[Path, Finding]] = []
    for run in run_folders([place]):
        found += [(run.path, finding) for finding in check_run(run)]

    damaged = [finding for _, finding in found if finding.is_damage]
    if as_json:
        findings = [{"run": str(path), **finding._asdict()} for path, finding in found]
        print_json({"place": str(place), "findings": findings, "damaged": len(damaged)})
    else:
        _print_findings(place, found)

    if damaged:
        raise VerificationError(
            f"{place}: {count(len(damaged), 'file')} missing or damaged, the first is"
            f" {damaged[0].key}: {damaged[0].problem}"
        )


def _print_findings(place: Path, found: list[tuple[Path, Finding]]) -> None:
    for path, finding in found[:_SHOWN_FINDINGS]:
        click.echo(f"{path}/{finding.key}: {finding.kind}: {finding.problem}")

    if len(found) > _SHOWN_FINDINGS:
        click.echo(f"… and {len(found) - _SHOWN_FINDINGS:,} more; --json lists all")

    if not found:
        click.echo(f"{place}: every file is as the records say")


@example("ktdeval store compact ktdeval-runs/my-run")
@store.command("compact", short_help="Delete what a run's records hold twice.")
@click.argument("place", metavar="RUN")
def compact(place: str) -> None:
    """Merge small files of calls, and delete journals of episodes that have ended.

    Nothing is deleted that the run, its cards or their verification need. The run must not be
    running. A run does this itself when it ends.
    """
    from ktdeval.runner.run_admin import compact_run
    from ktdeval.stores.mirror import is_url

    where: str | Path = place
    if not is_url(place):
        where = FilePath().convert(place.removeprefix("file://"), None, None)

    done = compact_run(where)
    click.echo(
        f"{place}: {count(done.files_before, 'file')} before, {count(done.files_after, 'file')}"
        f" now; {done.bytes_before:,} bytes before, {done.bytes_after:,} now"
    )
