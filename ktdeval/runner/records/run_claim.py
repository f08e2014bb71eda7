"""Claim of a process on a run, in a folder or at a URL. It prevents other processes from running
the same run at the same time.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import socket
import time
from pathlib import Path

from ktdeval.calls.records.remote_call_log import LOG_FILE, LOG_FOLDER
from ktdeval.errors import FencedError, StoreError, wrap_os_error
from ktdeval.runner.records.run_file_names import MANIFEST
from ktdeval.runner.records.run_manifest import check_head
from ktdeval.runner.records.url_run import RemoteRun, remote_run
from ktdeval.stores.mirror import Mirror, open_mirror
from ktdeval.stores.typed_files import encode_value, find_value
from ktdeval.values.disk.files import read_plain, write_atomic
from ktdeval.values.disk.rollback import undone_on_error
from ktdeval.values.disk.temporary import try_lock
from ktdeval.values.documents.typed_json import Value

LOCK_FOLDER = "lock"  #: name of the claim's folder in the store
OWNER = f"{LOCK_FOLDER}/owner.json"  #: marker of the process that runs a run at a URL

_LOCK = ".lock"  #: locked file in the run folder
_FRESH_S = 0.5  #: how long an answer of the store about the marker counts


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

    Two processes on one machine exclude each other by a lock on the working folder. A second
    machine is refused by a marker at the store, which a killed process leaves: its own machine
    resumes at once, and another one as soon as a person has deleted the marker.
    """
    mirror = open_mirror(url, "run")
    claim = _UrlClaim(mirror)
    with undone_on_error(lambda _: claim.release()):
        _check_vacant_url(mirror)
        claim.take()
        claim.remote.restore()

    return claim


class RunOwner(Value):
    """Marker of the process that runs a run at a URL. It stays if the process is killed."""

    machine: str  #: drawn once for each user, machine and URL
    host: str
    session: str  #: drawn for each process


class _UrlClaim(RunClaim):
    """Claim on a run at a store: a lock on its working folder and a marker at the store."""

    def __init__(self, mirror: Mirror) -> None:
        """Lock the working folder. Raises StoreError if another process on this machine has locked
        it.
        """
        super().__init__(mirror.path)
        self.remote: RemoteRun = remote_run(mirror, "")
        self._mirror = mirror
        self._owner: RunOwner | None = None
        self._asked_at_s = -math.inf  # when the store was last asked

    def take(self) -> None:
        """Write the marker. Raises StoreError if it is another machine's."""
        store = self._mirror.store
        owner = RunOwner(
            machine=_machine_name(self._mirror.path.parent.with_name("machine")),
            host=socket.gethostname(),
            session=secrets.token_hex(8),
        )
        found = find_value(store, OWNER, RunOwner)
        if found is not None and found.machine == owner.machine:
            # the lock on the folder proves that the process which wrote the marker has ended
            store.replace(OWNER, encode_value(owner))
        elif found is not None or not store.create(OWNER, encode_value(owner)):
            host = "another machine" if found is None else f"machine {found.host}"
            raise StoreError(
                f"{self._mirror.url}: {host} is running this run; wait for it or choose another"
                f" --out. If that process was killed, delete {self._mirror.url}/{OWNER} to take"
                " the run over"
            )
        self._owner = owner

    def check(self) -> None:
        """Raise FencedError if the marker is no longer this process's."""
        is_fresh = time.monotonic() - self._asked_at_s < _FRESH_S
        if self._owner is not None and not is_fresh and not self._is_ours(self._owner):
            raise FencedError(
                f"{self._mirror.url}: another process has taken this run over; this process stops,"
                " and no data is lost"
            )

    def _is_ours(self, owner: RunOwner) -> bool:
        # taken before the answer, so that a pause in between counts
        asked_at_s = time.monotonic()
        is_ours = find_value(self._mirror.store, OWNER, RunOwner) == owner
        if is_ours:
            self._asked_at_s = asked_at_s
        return is_ours

    def release(self) -> None:
        """Compact files if possible, and delete the marker. Safe to call more than once."""
        owner = self._owner
        self._owner = None
        # All records are already in the store. If this fails, the next start does the remaining
        # work.
        with contextlib.suppress(StoreError):
            if owner is not None and self._is_ours(owner):
                with contextlib.suppress(StoreError):
                    self.remote.end()
                self._mirror.store.delete(OWNER)

        super().release()


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


def _machine_name(path: Path) -> str:
    """Return the name of this user and machine, generated once per URL."""
    with wrap_os_error(f"{path}: can't store the name of this machine", "set KTDEVAL_CACHE_DIR"):
        if not path.exists():
            write_atomic(path, secrets.token_hex(8))
        return path.read_text().strip()
