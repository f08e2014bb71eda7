"""A process's claim on a run, in a folder or at a URL: no other process can run it at the same
time.
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

LOCK_FOLDER = "lock"  #: folder of the claim at the store
LEASE_VARIABLE = "KTDEVAL_LEASE_S"

_LOCK = ".lock"  #: file that is locked in a folder
_LEASE_S = 30.0
_UNIT = "run"
#: maximum number of checks per lease for a takeover by another process
_FRESH_PARTS = 60
_LOOKS = 10  #: number of times that another process is checked during its lease


class RunClaim:
    """Claim on a run folder: a lock held by this process, released when the process ends. See
    `claim_folder` and `claim_url`.
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
        """Raise FencedError if another process has taken the run over. Only a claim at a store can
        be lost.
        """

    def release(self) -> None:
        """Let other processes run it; safe to call more than once."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def claim_folder(path: Path) -> RunClaim:
    """Claim a run folder, which is created if missing. Raises StoreError if it can't be created,
    holds something other than a run, or is claimed by another process.
    """
    with wrap_os_error(f"{path}: can't make the run folder", "choose another --out"):
        path.mkdir(parents=True, exist_ok=True)
        check_vacant(path)

    return RunClaim(path)


def claim_url(url: str) -> RunClaim:
    """Claim a run at a URL, and build the working folder from the store. Raises StoreError if
    another process runs it, the URL holds something else, or the store can't be used.

    Two processes on one machine exclude each other by a lock on the working folder. Between
    machines the store decides: a process that has stopped loses its claim after a lease.
    """
    mirror = open_mirror(url, "run")
    claim = _UrlClaim(mirror)
    with undone_on_error(lambda _: claim.release()):
        _check_vacant_url(mirror)
        claim.take()
        claim.remote.restore()

    return claim


class _UrlClaim(RunClaim):
    """Claim on a run at a store, where a lease decides between machines, and on the run's working
    folder.
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
        # The folder lock shows that no earlier process of this user on this machine is alive.
        worker = _worker_name(mirror.path.parent.with_name("worker"))
        self._board = ClaimBoard(mirror.store, LOCK_FOLDER, worker, lease_s(), previous_ended=True)
        self._board.start()
        self._claim = self._board.claim(_UNIT)
        if self._claim is not None:
            return

        # A killed holder shows no sign of life for a lease.
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
        """Raise FencedError if another process has taken the run over."""
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
        """Compact files where possible, and release the claim; safe to call more than once."""
        claim = self._claim
        board = self._board
        self._claim = None
        self._board = None
        if claim is not None:
            # Everything is already at the store. Remaining work is done at the next start.
            with contextlib.suppress(StoreError):
                self.remote.end()
                claim.release()

        if board is not None:
            board.close()
        super().release()


def lease_s() -> float:
    """Return how many seconds a run stays claimed after its process has stopped."""
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
    """Raise StoreError if a folder contains anything other than a run or the remains of an aborted
    start. Raises OSError if it is unreadable.
    """
    if (path / MANIFEST).exists():
        check_head(read_plain(path / MANIFEST), path / MANIFEST)
    elif path.exists() and any(not _is_trace_of_a_start(entry.name) for entry in path.iterdir()):
        raise StoreError(f"{path}: the folder is not empty and is not a run; choose another --out")


def _is_trace_of_a_start(name: str) -> bool:
    """Return whether a file of this name may be left by a run that was killed before it wrote its
    manifest.
    """
    return name == _LOCK or name.startswith((f".{MANIFEST}.", LOG_FILE, f".{LOG_FILE}."))


def _check_vacant_url(mirror: Mirror) -> None:
    """Raise StoreError if a URL contains anything other than a run or the remains of an aborted
    start.
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
    """Return a name for this user and machine, drawn once per URL."""
    with wrap_os_error(f"{path}: can't store the name of this machine", "set KTDEVAL_CACHE_DIR"):
        if not path.exists():
            write_atomic(path, secrets.token_hex(8))
        return path.read_text().strip()
