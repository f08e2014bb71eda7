"""State of a folder of data: a dataset, one that was imported by half, plain files, or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import numpy as np

from ktdeval.errors import DataError
from ktdeval.values import Value
from ktdeval_qfinzero.access.pages.health.coverage import Coverage, Days, coverage_of
from ktdeval_qfinzero.access.pages.health.file_days import SUFFIXES, DayCache
from ktdeval_qfinzero.data.dataset_storage import file_problem
from ktdeval_qfinzero.data.layout import (
    MANIFEST,
    BarFile,
    DatasetManifest,
    bar_file_of,
    generation_of,
    load_manifest,
)

_MAX_FILES: Final = 20_000
_DEEPEST: Final = 6
_SHOWN_PROBLEMS: Final = 50

Kind = Literal["dataset", "unfinished dataset", "files", "empty", "absent"]


class FolderState(Value, frozen=True):
    """State of a folder."""

    path: str
    name: str
    kind: Kind
    files: int
    bytes: int
    groups: tuple[Coverage, ...]
    problems: tuple[str, ...]  #: `file: what is wrong`; at most 50
    more_problems: int  #: how many further ones there are
    synthetic: bool = False
    content_id: str = ""


def folder_state(folder: Path, cache: DayCache) -> FolderState:
    """Look at a folder; whatever is wrong in it is named, and nothing is raised."""
    problems: list[str] = []
    if not folder.is_dir():
        return _state_of_files(folder, "absent", [], (), ["there is no such folder"])

    files = list(_files_in(folder, problems))
    if not files:
        return _state_of_files(folder, "empty", files, (), problems)

    manifest: DatasetManifest | None = None
    has_manifest = (folder / MANIFEST).is_file()
    if has_manifest:
        try:
            manifest = load_manifest(folder)
        except DataError as error:
            problems.append(str(error).removeprefix(f"{folder}/"))

    is_laid_out = any(_bar_file_at(folder, path) is not None for path in files)
    if manifest is None and not has_manifest and not is_laid_out:
        groups = _plain_groups(folder, files, cache, problems)
        return _state_of_files(folder, "files", files, groups, problems)

    if manifest is not None:
        problems += _missing_parts(folder, manifest)
    elif not has_manifest:
        problems.append(f"{MANIFEST} is missing: an import or update did not end; import again")

    bars = _bar_files(folder, files, manifest)
    calendar = "XNYS" if manifest is None else manifest.info.calendar
    groups = _bar_groups(folder, bars, calendar, cache, problems)
    kind: Kind = "unfinished dataset"
    if manifest is not None and not problems:
        kind = "dataset"

    return _state_of_files(folder, kind, files, groups, problems, manifest)


def _state_of_files(
    folder: Path,
    kind: Kind,
    files: list[Path],
    groups: tuple[Coverage, ...],
    problems: list[str],
    manifest: DatasetManifest | None = None,
) -> FolderState:
    name, content_id, synthetic = folder.name, "", False
    if manifest is not None:
        info = manifest.info
        name, content_id, synthetic = info.name, info.content_id, info.synthetic

    return FolderState(
        path=str(folder),
        name=name,
        kind=kind,
        files=len(files),
        bytes=sum(_file_size(path) for path in files),
        groups=groups,
        problems=tuple(problems[:_SHOWN_PROBLEMS]),
        more_problems=max(0, len(problems) - _SHOWN_PROBLEMS),
        synthetic=synthetic,
        content_id=content_id,
    )


def _file_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _files_in(folder: Path, problems: list[str]) -> Iterator[Path]:
    """Yield the plain files of a folder in order, without following links."""
    count = 0
    depth_of_folder = len(folder.parts)
    for where, folders, names in os.walk(folder, onerror=lambda error: problems.append(str(error))):
        folders.sort()
        if len(Path(where).parts) - depth_of_folder >= _DEEPEST:
            folders.clear()

        for name in sorted(names):
            path = Path(where) / name
            if path.is_symlink() or not path.is_file():
                continue

            count += 1
            if count > _MAX_FILES:
                problems.append(f"more than {_MAX_FILES} files; the rest is not looked at")
                return

            yield path


def _bar_file_at(folder: Path, path: Path) -> BarFile | None:
    """Return what a file of bars holds, by its name; None for any other."""
    name = path.relative_to(folder).as_posix()
    generation = generation_of(name)
    if generation is None or not name.endswith(".parquet"):
        return None

    key = name.removesuffix(".parquet")
    if generation > 1:
        key = key.rpartition("-")[0]
    return bar_file_of(key)


def _missing_parts(folder: Path, manifest: DatasetManifest) -> list[str]:
    problems = []
    for part in manifest.parts.values():
        problem = file_problem(folder, part)
        if problem:
            problems.append(f"{part.file}: {problem}")

    return problems


def _bar_files(
    folder: Path, files: list[Path], manifest: DatasetManifest | None
) -> list[tuple[BarFile, Path]]:
    """Return the files of bars: those of the manifest that are there, or without one all."""
    if manifest is None:
        found = [(_bar_file_at(folder, path), path) for path in files]
        return [(bars, path) for bars, path in found if bars is not None]

    there = set(files)
    named = [(bars, folder / part.file) for bars, part in manifest.bar_files().items()]
    return [(bars, path) for bars, path in named if path in there]


def _bar_groups(
    folder: Path,
    files: list[tuple[BarFile, Path]],
    calendar: str,
    cache: DayCache,
    problems: list[str],
) -> tuple[Coverage, ...]:
    """Return the coverage by kind of instrument and length of bars."""
    by_group: dict[str, dict[str, list[Days]]] = {}
    for bars, path in files:
        try:
            days = cache.days_of(path)
        except DataError as error:
            problems.append(f"{path.relative_to(folder).as_posix()}: {error}")
            continue

        group = by_group.setdefault(f"{bars.asset_class} {bars.resolution}", {})
        group.setdefault(bars.symbol, []).extend(days.values())

    groups = []
    for name, series in sorted(by_group.items()):
        joined = {symbol: np.unique(np.concatenate(parts)) for symbol, parts in series.items()}
        own_calendar = "24/7" if name.startswith("crypto") else calendar
        groups.append(coverage_of(name, joined, own_calendar))

    return tuple(groups)


def _plain_groups(
    folder: Path, files: list[Path], cache: DayCache, problems: list[str]
) -> tuple[Coverage, ...]:
    """Return the coverage of each file with dates."""
    groups = []
    for path in files:
        if not path.name.lower().endswith(SUFFIXES):
            continue

        name = path.relative_to(folder).as_posix()
        try:
            groups.append(coverage_of(name, cache.days_of(path)))
        except DataError as error:
            problems.append(f"{name}: {error}")

    return tuple(groups)
