"""Claim of a process on a run, in a folder or at a URL. It prevents other processes from running
the same run at the same time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

from ktdeval.calls.remote_call_log import LOG_FILE, LOG_FOLDER
from ktdeval.errors import ConfigError, FencedError, StoreError, wrap_os_error
from ktdeval.runner.records.run_file_names import MANIFEST
from ktdeval.runner.records.run_manifest import check_head
from ktdeval.runner.records.url_run import RemoteRun, remote_run
from ktdeval.stores.claims import Claim, ClaimBoard
from ktdeval.stores.mirror import Mirror, open_mirror
from ktdeval.values.files import read_plain, write_atomic
from ktdeval.values.rollback import undone_on_error
from ktdeval.values.temporary import try_lock

LOCK_FOLDER = "lock"  #: name of the claim's folder in the store
LEASE_VARIABLE = "KTDEVAL_LEASE_S"

_LOCK = ".lock"  #: locked file in the run folder
_LEASE_S = 30.0
_UNIT = "run"
#: maximum number of checks per lease whether another process has taken over the run
_FRESH_PARTS = 60
_LOOKS = 10  #: number of attempts per lease to claim a run that another process holds


class RunClaim:
    """Claim on a run folder: a lock that this process holds and that is released when the process
    ends. See `claim_folder` and `claim_url`.
    """

    def __init__(self, path: Path) -> None:
        """Lock an existing folder. Raises StoreError if another process has locked it."""
        self.path = path
        self._descriptor: int | None = None
        with wrap_os_error(f"{path}: can't lock the run folder", "choose another --out"):
            self._descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            is_ours = try_lock(self._descriptor)

        if not is_ours:
            self.release()
            raise StoreError(
                f"{path}: another process is running this run; wait for it or choose another --out"
            )

    def check(self) -> None:
        """Raise FencedError if another process has taken over the run.

        Only a claim at a store can be lost, so a claim on a local folder never raises.
        """

    def release(self) -> None:
        """Let other processes run this run. Safe to call more than once."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def claim_folder(path: Path) -> RunClaim:
    """Claim a run folder, creating it if it is missing.

    Raises StoreError if the folder can't be created, contains something other than a run, or is
    claimed by another process.
    """
    with wrap_os_error(f"{path}: can't make the run folder", "choose another --out"):
        path.mkdir(parents=True, exist_ok=True)
        check_vacant(path)

    return RunClaim(path)


def claim_url(url: str) -> RunClaim:
    """Claim a run at a URL, and build its working folder from the store.

    Raises StoreError if another process is running it, if the URL contains something other than a
    run, or if the store can't be used.

    Two processes on one machine exclude each other by a lock on the working folder. Between
    machines, the store decides: when a process has stopped, its claim expires at the end of its
    lease.
    """
    mirror = open_mirror(url, "run")
    claim = _UrlClaim(mirror)
    with undone_on_error(lambda _: claim.release()):
        _check_vacant_url(mirror)
        claim.take()
        claim.remote.restore()

    return claim


class _UrlClaim(RunClaim):
    """Claim on a run at a store, combined with a lock on its working folder. Between machines, a
    lease in the store decides who holds the claim.
    """

    def __init__(self, mirror: Mirror) -> None:
        """Lock the working folder. Raises StoreError if another process on this machine has locked
        it.
        """
        super().__init__(mirror.path)
        self.remote: RemoteRun = remote_run(mirror, "")
        self._mirror = mirror
        self._board: ClaimBoard | None = None
        self._claim: Claim | None = None

    def take(self) -> None:
        """Claim the run at the store. Raises StoreError if another process holds the claim."""
        mirror = self._mirror
        # The folder lock proves that earlier processes of this user on this machine have ended.
        worker = _worker_name(mirror.path.parent.with_name("worker"))
        self._board = ClaimBoard(mirror.store, LOCK_FOLDER, worker, lease_s(), previous_ended=True)
        self._board.start()
        self._claim = self._board.claim(_UNIT)
        if self._claim is not None:
            return

        # If the holder was killed, its claim expires after one lease.
        holder = self._board.holder(_UNIT)
        lease = lease_s() if holder is None else holder.lease_s
        end = time.monotonic() + lease * (1 + 2 / _LOOKS)
        while self._claim is None and time.monotonic() < end:
            time.sleep(lease / _LOOKS)
            self._claim = self._board.claim(_UNIT)

        if self._claim is None:
            name = "another process" if holder is None else f"another process ({holder.worker})"
            raise StoreError(
                f"{mirror.url}: {name} is running this run; wait for it or choose another --out"
            )

    def check(self) -> None:
        """Raise FencedError if another process has taken over the run."""
        if self._claim is None:
            return
        try:
            self._claim.check(lease_s() / _FRESH_PARTS)
        except FencedError as error:
            raise FencedError(
                f"{self._mirror.url}: another process has taken this run over; this process stops,"
                " and no data is lost"
            ) from error

    def release(self) -> None:
        """Compact files if possible, and release the claim. Safe to call more than once."""
        claim = self._claim
        board = self._board
        self._claim = None
        self._board = None
        if claim is not None:
            # All records are already in the store. If this fails, the next start does the remaining
            # work.
            with contextlib.suppress(StoreError):
                self.remote.end()
                claim.release()

        if board is not None:
            board.close()
        super().release()


def lease_s() -> float:
    """Return how many seconds a run remains claimed after its process has stopped."""
    text = os.environ.get(LEASE_VARIABLE)
    if not text:
        return _LEASE_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0

    if not 0 < seconds < float("inf"):
        raise ConfigError(f"{LEASE_VARIABLE}: expected seconds above 0, was {text!r:.40}")
    return seconds


def check_vacant(path: Path) -> None:
    """Raise StoreError if a folder contains anything other than a run or remnants of an aborted
    start. Raises OSError if the folder is unreadable.
    """
    if (path / MANIFEST).exists():
        check_head(read_plain(path / MANIFEST), path / MANIFEST)
    elif path.exists() and any(not _is_trace_of_a_start(entry.name) for entry in path.iterdir()):
        raise StoreError(f"{path}: the folder is not empty and is not a run; choose another --out")


def _is_trace_of_a_start(name: str) -> bool:
    """Return whether a run that was killed before writing its manifest may have left a file with
    this name.
    """
    return name == _LOCK or name.startswith((f".{MANIFEST}.", LOG_FILE, f".{LOG_FILE}."))


def _check_vacant_url(mirror: Mirror) -> None:
    """Raise StoreError if a URL contains anything other than a run or remnants of an
    aborted start.
    """
    traces = (f"{LOCK_FOLDER}/", f"{LOG_FOLDER}/")
    if mirror.store.exists(MANIFEST):
        return

    for stat in mirror.store.list():
        if not stat.key.startswith(traces):
            raise StoreError(
                f"{mirror.url}: is not empty and is not a run ({stat.key}); choose another --out"
            )


def _worker_name(path: Path) -> str:
    """Return the name of this user and machine, generated once per URL."""
    with wrap_os_error(f"{path}: can't store the name of this machine", "set KTDEVAL_CACHE_DIR"):
        if not path.exists():
            write_atomic(path, secrets.token_hex(8))
        return path.read_text().strip()
