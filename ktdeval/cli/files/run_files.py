"""Actions of `ktdeval files` on runs: list episodes, check files, and compact files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ktdeval.cards import count
from ktdeval.cli.options import FilePath
from ktdeval.cli.terminal_tables import print_json, print_table, report_findings
from ktdeval.values.findings import Finding, count_level

if TYPE_CHECKING:
    from ktdeval.runner.run_maintenance import EpisodeRow

_HEADER = ("EPISODE", "STATE", "TASK", "MODEL", "AGENT", "WINDOW", "SEED", "BYTES")


def list_runs(place: Path, as_json: bool, chosen: Mapping[str, Any]) -> None:
    """List the episodes of a run, or of all runs below a folder. `chosen`: fields of
    `EpisodeFilter`.
    """
    from ktdeval.runner.plans.trial_count import run_folders
    from ktdeval.runner.run_maintenance import EpisodeFilter, list_episodes
    from ktdeval.values.documents.typed_json import to_plain

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
        print_table(_HEADER, map(_episode_cells, listed))

    complete = sum(row.state == "complete" for row in listed)
    size = sum(row.bytes for row in listed)
    click.echo(
        f"{place}: {count(len(listed), 'episode')} of {count(len(runs), 'run')},"
        f" {complete:,} complete, {size:,} bytes"
    )


def _episode_cells(row: EpisodeRow) -> tuple[str, ...]:
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


def check_runs(place: Path, as_json: bool) -> int:
    """Check the files of a run, or of all runs below a folder. Return the exit code, which is 1 if
    anything is missing or damaged.
    """
    from ktdeval.runner.plans.trial_count import run_folders
    from ktdeval.runner.run_maintenance import check_run

    found: list[Finding] = []
    for run in run_folders([place]):
        for finding in check_run(run):
            found.append(replace(finding, path=f"{run.path}/{finding.path}"))

    damaged = count_level(found, "error")
    verdict = "every file agrees with the records"
    if found:
        verdict = (
            f"{count(damaged, 'file')} missing or damaged, {len(found) - damaged} unneeded or"
            " half-written"
        )

    return report_findings(found, as_json, f"{place}: {verdict}", place=str(place))


def compact_runs(place: str) -> None:
    """Compact a run at a path or URL, and report what was removed."""
    from ktdeval.runner.run_maintenance import compact_run
    from ktdeval.stores.mirror import is_url

    where: str | Path = place
    if not is_url(place):
        where = FilePath().convert(place.removeprefix("file://"), None, None)

    done = compact_run(where)
    click.echo(
        f"{place}: {count(done.files_before, 'file')} before, {count(done.files_after, 'file')}"
        f" now; {done.bytes_before:,} bytes before, {done.bytes_after:,} now"
    )
