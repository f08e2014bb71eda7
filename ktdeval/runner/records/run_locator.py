"""Runs and cards as users specify them: by a local path or by a URL, which is read through a local
copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ktdeval.errors import StoreError
from ktdeval.runner.records.run_file_names import CARDS, MANIFEST
from ktdeval.runner.records.url_run import RemoteRun, remote_run, remote_run_at
from ktdeval.stores.concurrent_requests import at_once
from ktdeval.stores.mirror import Mirror, is_url, open_mirror
from ktdeval.values.options.user_input import user_path

_DEPTH = 4  #: maximum depth of a run below a URL, as for a folder
_FILE = ".json"


def local_run_path(named: str | Path) -> Path:
    """Return the local path of a run, a card, or a folder with several runs.

    A URL is copied to this machine: the plan and the cards immediately, the files of an episode
    when they are read. Raises StoreError if the URL has no run or it can't be read. Raises
    UsageError if `named` is not a path.
    """
    if not is_url(named):
        if isinstance(named, str):
            named = named.removeprefix("file://")
        return user_path(named)

    url = str(named).rstrip("/")
    if url.endswith(_FILE):
        return _card_path(url)

    mirror = open_mirror(url, "read")
    if not remote_run(mirror, "").bring_head():
        _bring_heads(mirror)

    return mirror.path


def local_copy(url: str) -> Path:
    """Return the local copy of a run at a URL, even if the run has not begun."""
    mirror = open_mirror(url, "read")
    remote_run(mirror, "").bring_head()
    return mirror.path


def paths_of_runs(runs: Iterable[Any]) -> list[Path]:
    """Return the paths of runs, given individually or in lists.

    Each run is a path as a string, a URL, a path object, or an object with a `folder`. Raises
    UsageError for other values, and as `local_run_path` does.
    """
    paths: list[Path] = []
    for run in runs:
        if isinstance(run, (list, tuple)):
            paths += paths_of_runs(run)
            continue

        named = getattr(run, "folder", run)
        if isinstance(named, str):
            paths.append(local_run_path(named))
        else:
            paths.append(user_path(named))

    return paths


def runs_beside(run: Path) -> list[Path]:
    """Return the folders with a manifest next to a run's folder, including that folder.

    At a URL, these are the run's siblings, found with a single listing of everything below the
    parent.
    """
    remote = remote_run_at(run)
    if remote is None:
        manifests = run.resolve().parent.glob(f"*/{MANIFEST}")
        return sorted(manifest.parent for manifest in manifests)

    above, _, name = f"{remote.mirror.url}/{remote.prefix}".rstrip("/").rpartition("/")
    if above.endswith("/") or not name:  # a run at the root of a bucket has no siblings
        return [run]

    mirror = open_mirror(above, "read")
    folders = [key.partition("/")[0] for key in mirror.stats() if _is_manifest_of_child(key)]
    siblings = [remote_run(mirror, f"{folder}/") for folder in folders]
    at_once(RemoteRun.bring_head, siblings)
    return [sibling.path for sibling in siblings]


def _is_manifest_of_child(key: str) -> bool:
    return key.count("/") == 1 and key.endswith(f"/{MANIFEST}")


def _card_path(url: str) -> Path:
    """Return the local copy of a card. Its run is fetched as well, so that the card can be
    verified.
    """
    run, is_of_run, name = url.rpartition(f"/{CARDS}/")
    if is_of_run:
        mirror = open_mirror(run, "read")
        if remote_run(mirror, "").bring_head():
            return _existing(mirror, f"{CARDS}/{name}")

    folder, _, name = url.rpartition("/")
    mirror = open_mirror(folder, "read")
    mirror.fetch_file(name)
    return _existing(mirror, name)


def _existing(mirror: Mirror, key: str) -> Path:
    path = mirror.path / key
    if not path.is_file():
        raise StoreError(f"{mirror.url}/{key}: there is no such file")
    return path


def _bring_heads(mirror: Mirror) -> None:
    """Fetch the plan and cards of each run below a URL. Raises StoreError if no run is found."""
    runs: list[RemoteRun] = []
    for key in mirror.stats():
        folder, _, name = key.rpartition("/")
        if name == MANIFEST and folder.count("/") < _DEPTH:
            runs.append(remote_run(mirror, f"{folder}/"))

    if not runs:
        raise StoreError(f"{mirror.url}: no run here (manifest.json is missing)")

    at_once(RemoteRun.bring_head, runs)
