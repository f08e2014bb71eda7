"""Snapshots that users choose with `--data`: a stored folder or a data provider. Generated markets
are cached.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from ktdeval.errors import DataError, UsageError, wrap_os_error
from ktdeval.market.snapshots.array_cache import ArrayCache
from ktdeval.market.snapshots.documents import DOCUMENT_COLUMNS
from ktdeval.market.snapshots.manifest import FORMAT_VERSION, with_id
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot, save_snapshot
from ktdeval.registry.plugin_registry import Plugins
from ktdeval.runner.plans.config import RunConfig
from ktdeval.stores.cache_folder import cache_folder as cache_folder
from ktdeval.task_api.scoring import needs_market
from ktdeval.task_api.trading_task import Task
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.hashes import content_hash
from ktdeval.values.options.config_options import (
    build_params,
    near_matches,
    stored_market,
    user_path,
)


def open_snapshot(
    plugins: Plugins, data: str, data_args: Mapping[str, JsonValue]
) -> MarketSnapshot:
    """Return the snapshot from a stored folder, or from a data provider called with `data_args`.

    Raises DataError if `data` is neither a folder with a snapshot nor a provider, or is both: what
    a name means must not depend on the folder in which a run or a board begins.
    """
    providers = plugins.specs("data")
    if (folder := stored_market(data)) is not None:
        if data in providers:
            raise DataError(
                f"--data {data} is both a data provider and a folder here; write ./{data} for the"
                " folder, or rename the folder"
            )

        if data_args:
            raise DataError(
                f"--data {data} is a stored snapshot and takes no arguments, was given"
                f" {', '.join(sorted(data_args))}"
            )

        return _read_stored(folder)

    if data in providers:
        if providers[data].extra.get("generated"):
            return _make_cached(plugins, data, data_args)

        return with_id(plugins.make_snapshot(data, data_args))

    if user_path(data).exists():
        raise DataError(
            f"{data} is not a snapshot (manifest.json is missing); create one from it with"
            " `ktdeval data make`"
        )

    known = [*providers, *_markets_beside(data)]
    raise DataError(
        f"--data {data!r} is neither a folder nor a data provider{near_matches(data, known)}"
        " (see `ktdeval data`)"
    )


def _markets_beside(data: str) -> list[str]:
    """Return the paths of stored markets in the same parent folder as `data`, as a user would type
    them.
    """
    wanted = user_path(data)
    try:
        manifests = sorted(wanted.parent.glob("*/manifest.json"))
    except OSError:
        return []
    return [str(Path(data).with_name(path.parent.name)) for path in manifests]


def _read_stored(folder: Path) -> MarketSnapshot:
    """Return the snapshot in a folder. Until a file changes, repeated calls return the same
    object.
    """
    try:
        states = [(file.name, file.stat()) for file in sorted(folder.iterdir())]
    except OSError:
        return load_snapshot(folder)  # reports the error
    return _loaded_snapshot(
        folder,
        tuple((name, at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns) for name, at in states),
    )


@lru_cache(maxsize=2)
def _loaded_snapshot(
    folder: Path,
    files: tuple[tuple[str, int, int, int, int], ...],  # noqa: ARG001 - key of the cache
) -> MarketSnapshot:
    return load_snapshot(folder, array_cache())


def private_paths(named: JsonValue) -> tuple[Path, ...]:
    """Return the absolute paths of files and folders on this machine that agents must not read.

    These are the user's cache and every existing path in a run's options, at any depth of nested
    lists and mappings.
    """
    found = [cache_folder()]
    for text in filter(None, _texts(named)):
        try:
            path = user_path(text)
        except UsageError:  # can't be a file name
            continue
        if os.path.exists(path):  # noqa: PTH110 - Path.exists raises for a long string
            found.append(path)

    return tuple(path.resolve() for path in found)


def _texts(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def array_cache() -> ArrayCache:
    """Return the user's cache of arrays computed from markets."""
    return ArrayCache(cache_folder() / "arrays")


def open_market(
    plugins: Plugins, config: RunConfig, tasks: Iterable[Task]
) -> MarketSnapshot | None:
    """Open the market that a config names. Returns None if no task needs a market. Raises DataError
    as `open_snapshot` does.
    """
    return (
        open_snapshot(plugins, config.data, config.data_args)
        if any(map(needs_market, tasks))
        else None
    )


def store_snapshot(
    plugins: Plugins, provider: str, data_args: Mapping[str, JsonValue], folder: Path
) -> MarketSnapshot:
    """Create a snapshot with a data provider, and store it with any additional files from the
    provider.

    Raises UsageError, DataError or StoreError.
    """
    spec = plugins.spec("data", provider)
    files: Mapping[str, bytes] = {}
    if "make_with_files" in spec.extra:
        params = (
            build_params(spec.params, data_args, f"data provider {provider}")
            if spec.params is not None
            else None
        )
        snapshot, files = spec.extra["make_with_files"](params)
    else:
        snapshot = plugins.make_snapshot(provider, data_args)

    return save_snapshot(snapshot, folder, files)


def _make_cached(plugins: Plugins, name: str, data_args: Mapping[str, JsonValue]) -> MarketSnapshot:
    """Return a generated market.

    A generated market depends only on its parameters, so it is created once and cached under their
    hash.
    """
    spec = plugins.specs("data")[name]
    made = {"provider": name, "version": spec.extra.get("version", 1), "args": dict(data_args)}
    # The key includes the document columns: a market that was cached before a column was added
    # lacks that column.
    layout: dict[str, JsonValue] = {
        "format": FORMAT_VERSION,
        "documents": list(DOCUMENT_COLUMNS),
    }
    key = content_hash({**made, **layout})[:16]
    folder = cache_folder() / "snapshots" / f"{name}-{key}"

    if stored_market(folder) is not None:
        try:
            return _read_stored(folder)
        except DataError as error:
            raise DataError(f"{error}; delete {folder} to generate it again") from error

    with wrap_os_error(
        f"{folder.parent}: can't store generated markets here",
        "set KTDEVAL_CACHE_DIR to a writable folder",
    ):
        folder.parent.mkdir(parents=True, exist_ok=True)

    return store_snapshot(plugins, name, data_args, folder)
