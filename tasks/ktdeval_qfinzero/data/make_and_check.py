"""Functions that `ktdeval data` uses to make, check and describe datasets for the services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import click

from ktdeval.errors import UsageError
from ktdeval.values import loads_untrusted, read_plain
from ktdeval_qfinzero.data.ingest import IngestReport, ingest_dataset, ingest_update
from ktdeval_qfinzero.data.ingest_spec import load_spec
from ktdeval_qfinzero.data.manifest import (
    FORMAT,
    MANIFEST,
    DatasetManifest,
    kind_of,
    load_manifest,
)
from ktdeval_qfinzero.data.problems import DatasetRefused
from ktdeval_qfinzero.data.providers import DATASET, FilesParams
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.data.synthetic.market import generate
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams, ranges_of
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.timestamps import moment_text


def generate_market(params: SyntheticMarketParams, folder: Path) -> Iterator[str]:
    """Write an invented market from one seed, and yield lines that describe it.

    The folder must be absent, empty, or contain this same dataset. Raises DataError if the days do
    not form a range; StoreError if the folder can't be written.
    """
    ranges_of(params)  # before the line that announces the work
    click.echo("generating the market: some seconds", err=True)
    market = generate(params)
    info = save_dataset(folder, market.prices, market.events, market.news, market.info)
    yield from _dataset_lines(folder, info)


def of_files(params: FilesParams, folder: Path) -> Iterator[str]:
    """Make a dataset from files, or update one. Yield lines about the rows read and written.

    Every row is checked, and nothing is written if a row is wrong: the problems are yielded, each
    with its file and line, before DatasetRefused is raised.
    """
    if params.replace and not params.update:
        raise UsageError("--replace goes with --update; add that, or omit it")

    try:
        if params.update:
            yield from _update_dataset(params, folder)
            return

        spec = Path(params.ingest)
        info, report = ingest_dataset(load_spec(spec), spec.parent, folder)
    except DatasetRefused as refused:
        yield from refused.problems
        if refused.count > len(refused.problems):
            yield f"… and {refused.count - len(refused.problems)} more"

        raise

    yield from _read_lines(report)
    yield from _dataset_lines(folder, info)


def _update_dataset(params: FilesParams, folder: Path) -> Iterator[str]:
    """Add files to a dataset. Services that have the dataset open keep the version that they
    opened.
    """
    spec = Path(params.ingest)
    done, report = ingest_update(load_spec(spec), spec.parent, folder, replace=params.replace)
    yield from _read_lines(report)
    for kind, tally in done.tallies.items():
        added = f"{tally.new} new, {tally.same} as stored"
        yield f"{kind}: {added}, {tally.grown} grown, {tally.other} replaced"

    for line in done.replaced:
        yield f"replaced: {line}"

    yield from _dataset_lines(folder, done.info)
    if done.info.content_id == done.before:
        yield "nothing has changed"


def is_dataset(folder: Path) -> bool:
    """Return whether a folder's manifest declares a dataset for the services."""
    try:
        manifest = loads_untrusted(read_plain(folder / MANIFEST))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def facts_of_folder(folder: Path) -> dict[str, Any]:
    """Return facts about a dataset, keyed by name and read only from its manifest. Raises DataError
    if the manifest is missing or malformed.
    """
    manifest = load_manifest(folder)
    info = manifest.info

    return {
        "name": info.name,
        "id": info.content_id,
        "form": DATASET.name,
        "synthetic": info.synthetic,
        "currency": info.currency,
        "calendar": info.calendar,
        "day_bars": _day_range(info.first_day, info.last_day),
        "minute_bars": _day_range(info.minute_first_day, info.minute_last_day),
        "clock_starts": moment_text(info.default_as_of_ns),
        "rows": _row_counts(manifest),
        "bytes": manifest.file.bytes,
        "files": 1,
    }


def _row_counts(manifest: DatasetManifest) -> dict[str, int]:
    """Return the number of rows of each kind: `stock minute`, `events`, …"""
    rows: Counter[str] = Counter()
    for key, part in manifest.parts.items():
        rows[kind_of(key)] += part.rows

    return dict(sorted(rows.items()))


def _dataset_lines(folder: Path, info: DatasetInfo) -> Iterator[str]:
    kind = "synthetic market" if info.synthetic else "market"
    yield f"{folder}: {info.name}, {kind}, id {info.content_id}"
    yield f"day bars     {_day_range(info.first_day, info.last_day)}"
    yield f"minute bars  {_day_range(info.minute_first_day, info.minute_last_day)}"
    yield f"clock        starts at {moment_text(info.default_as_of_ns)}"


def _day_range(first: date, last: date) -> str:
    if first > last:
        return "none"
    return f"{first} … {last}"


def _read_lines(report: IngestReport) -> Iterator[str]:
    for kind, count in report.rows.items():
        yield f"read  {count:>10,}  {kind}"

    for note in report.notes:
        yield f"note: {note}"

    if report.duplicates:
        yield f"note: {report.duplicates} rows repeat others; each was taken once"
