"""Fixtures shared by all tests: those of `tests` and those beside the code of a package."""

from __future__ import annotations

import gc
import hashlib
import itertools
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from support.paths import REPOSITORY

# An environment that was installed before ktdeval had fixtures does not name them to pytest.
pytest_plugins = ["ktdeval.testing.fixtures", "support.worlds"]

# How long an example takes depends on what else the machine does. The same examples each time: a
# change passes or it does not. `--hypothesis-profile search` looks at others.
settings.register_profile("suite", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("suite")

CACHE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """A shell starts what runs in its background with SIGINT ignored, which children inherit: tests
    send it to theirs.

    Generated markets are cached in a folder of this test session, which its workers and
    subprocesses share.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # until all is collected
    os.environ["COLUMNS"] = "100"  # what is printed is as wide in any terminal

    if "KTDEVAL_CACHE_DIR" not in os.environ:
        config.stash[CACHE] = os.environ["KTDEVAL_CACHE_DIR"] = tempfile.mkdtemp(
            prefix="ktdeval-test-cache-"
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the cache, in the process that made it."""
    folder = config.stash.get(CACHE, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
        del os.environ["KTDEVAL_CACHE_DIR"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of whole systems, of pages in a browser and of the nightly by their folder."""
    if not item.path.is_relative_to(REPOSITORY):
        return

    folder = item.path.relative_to(REPOSITORY).parts[1]
    if folder in ("accept", "browser"):
        item.add_marker("slow")
    if folder == "nightly":
        item.add_marker("exhaustive")


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marker
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases that a sampled test leaves to `make test-all` as exhaustive."""
    families: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("exhaustive"):
            name = item.nodeid.partition("[")[0]
            families.setdefault((item.path, name), []).append(item)

    for cases in families.values():
        marker = cases[0].get_closest_marker("sampled")
        assert marker is not None
        (size,) = marker.args
        kept = {index * len(cases) // size for index in range(size)}
        for index, item in enumerate(cases):
            if index not in kept:
                item.add_marker("exhaustive")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test about a package that was deleted."""
    for marker in item.iter_markers("needs"):
        missing = [name for name in marker.args if find_spec(name) is None]
        if missing:
            pytest.skip(f"needs {', '.join(missing)}, which is not here")


def pytest_collection_finish() -> None:
    """Let the collector of cycles pass over what stays for the whole session, which it would walk
    over hundreds of times.
    """
    gc.freeze()
    # A twentieth of the time went into looking for cycles. Without the last factor a process of
    # many tests would grow to gigabytes.
    gc.set_threshold(100_000, 50, 4)
    gc.enable()


@pytest.fixture(autouse=True)
def _drawn_keys_are_the_same_each_time(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give the runs of a test the same mask keys each time, each run its own; the profile `search`
    draws others.

    Traders draw from the key of their run: what a test meets would be an accident of the day.
    """
    if request.config.getoption("hypothesis_profile") == "search":
        return

    number = itertools.count()

    def token_hex(nbytes: int = 32) -> str:
        return hashlib.shake_256(f"{request.node.nodeid} {next(number)}".encode()).hexdigest(nbytes)

    monkeypatch.setattr(secrets, "token_hex", token_hex)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """End the command lines that a test started and did not wait for."""
    yield
    running = sys.modules.get("support.runs.run_support")
    if running is not None:
        running.end_what_runs()


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of asynchronous tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with real market data beside the checkout; the test is skipped where there is none."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs real market data in {folder}, which is not there")

    return folder
