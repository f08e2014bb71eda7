"""Claim of this process on a run whose folder is at a URL: nobody else runs it meanwhile."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

from ktdeval.calls.call_parts import LOG_FOLDER
from ktdeval.errors import ConfigError, FencedError, StoreError, explained
from ktdeval.runner.folder_claim import FolderClaim
from ktdeval.runner.remote_run import RemoteRun, remote_run
from ktdeval.stores.claims import Claim, ClaimBoard
from ktdeval.stores.mirror import Mirror, open_mirror
from ktdeval.values.jsonio import write_atomic
from ktdeval.values.undo import undone_on_error

LOCK_FOLDER = "lock"  #: Folder of the claim at the store
LEASE_VARIABLE = "KTDEVAL_LEASE_S"

_LEASE_S = 30.0
_UNIT = "run"
_FRESH_PARTS = 60  #: That nobody has taken the run over is asked so often in a lease at most
_LOOKS = 10  #: How often another process is looked at during its lease


class RemoteClaim(FolderClaim):
    """Lock of this process on a run at a URL, and its working folder.

    Two processes of one machine exclude each other by a lock on the working folder. Over several
    machines the store decides: a process that has stopped loses its claim after a lease.
    """

    def __init__(self, url: str) -> None:
        """Take the claim, and make the working folder of what the store has. Raises StoreError:
        another process runs it, the URL holds something else, or the store can't be used.
        """
        mirror = open_mirror(url, "run")
        self.path = mirror.path
        self._remote: RemoteRun = remote_run(mirror, "")
        self._lock: int | None = None
        self._board: ClaimBoard | None = None
        self._claim: Claim | None = None
        self._lock_folder()
        with undone_on_error(lambda _: self.release()):
            _check_vacant(mirror)
            self._take(mirror)
            self._remote.restore()

    def check(self) -> None:
        """Raise FencedError where another process has taken the run over."""
        if self._claim is None:
            return
        try:
            self._claim.check(lease_s() / _FRESH_PARTS)
        except FencedError as error:
            raise FencedError(
                f"{self._remote.mirror.url}: another process has taken this run over; this one"
                " stops, and nothing is lost"
            ) from error

    def release(self) -> None:
        """Compact what can be, and let other processes run it; safe to call again."""
        claim = self._claim
        board = self._board
        self._claim = None
        self._board = None
        if claim is not None:
            # Everything is at the store already. What is left is done at the next start.
            with contextlib.suppress(StoreError):
                self._remote.end()
                claim.release()

        if board is not None:
            board.close()

        super().release()

    def _take(self, mirror: Mirror) -> None:
        """Claim the run at the store. Raises StoreError: another process holds it."""
        # The lock of the folder shows that no earlier process of this machine and user is alive.
        worker = _worker_name(mirror.path.parent.with_name("worker"))
        self._board = ClaimBoard(mirror.store, LOCK_FOLDER, worker, lease_s(), previous_ended=True)
        self._board.start()
        self._claim = self._board.claim(_UNIT)
        if self._claim is not None:
            return

        # A holder that was killed shows no sign of life for a lease.
        holder = self._board.state(_UNIT).holder
        lease = lease_s() if holder is None else holder.lease_s
        end = time.monotonic() + lease * (1 + 2 / _LOOKS)
        while self._claim is None and time.monotonic() < end:
            time.sleep(lease / _LOOKS)
            self._claim = self._board.claim(_UNIT)

        if self._claim is None:
            name = "another process" if holder is None else f"another process ({holder.worker})"
            raise StoreError(
                f"{mirror.url}: {name} is running this; wait for it or choose another --out"
            )


def lease_s() -> float:
    """Return for how many seconds a run stays claimed after its process has stopped."""
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


def _worker_name(path: Path) -> str:
    """Return a name of this machine and user for one URL, drawn once."""
    with explained(f"{path}: can't keep the name of this machine", "set KTDEVAL_CACHE_DIR"):
        if not path.exists():
            write_atomic(path, secrets.token_hex(8))
        return path.read_text().strip()


def _check_vacant(mirror: Mirror) -> None:
    """Raise StoreError where a URL holds something else than a run, or the traces of a start."""
    traces = (f"{LOCK_FOLDER}/", f"{LOG_FOLDER}/")
    if mirror.store.exists("manifest.json"):
        return

    for stat in mirror.store.list():
        if not stat.key.startswith(traces):
            raise StoreError(
                f"{mirror.url}: is not empty and holds no run ({stat.key}); choose another --out"
            )
