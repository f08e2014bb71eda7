"""Workspaces of a server, which are opened, found by id, dropped, and forgotten after a long time
without calls.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ktdeval.values import sha256_hex
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.errors import ServiceError, invalid, not_found
from ktdeval_qfinzero.timestamps import DAY, day_start, moment_text, parse_moment

HEADER = "Qfinzero-Workspace"
"""Header that names the workspace on which a request acts."""

MAX_BODY_BYTES = 1_000_000
"""Maximum length of a request body."""
_ID_BYTES = 16
_MAX_WAITING = 64


@dataclass(frozen=True)
class WorkspaceLimits:
    """Limits on a server's workspaces.

    `as_of_ns`: start of clocks, and the latest start that a client may request. If it is None,
    clocks start at the dataset's default, and the latest start is the dataset's end.
    """

    most: int = 64  # maximum number of workspaces at a time
    idle_s: float = 3600.0  # idle seconds after which a workspace is forgotten
    # idle seconds after which it is forgotten if all are taken and another is requested
    yield_s: float = 300.0
    body_s: float = 30.0  # time limit for a request body to arrive, in seconds
    as_of_ns: int | None = None


class HeldWorkspace:
    """A workspace, and the lock that orders its calls. `log`: file for its broker's log, created
    with the first command.
    """

    def __init__(self, workspace: Workspace, used_s: float, log: Path | None = None) -> None:
        import anyio  # noqa: PLC0415 - an extra; the limits are read without

        self.workspace = workspace
        self._log = log
        self._logged = self._logged_bytes = 0
        self.used_s = used_s
        self.turn = anyio.Lock()
        self.waiting = 0

    def check_room(self) -> None:
        """Raise ServiceError `unavailable` if too many calls are already waiting."""
        if self.waiting >= _MAX_WAITING:
            raise ServiceError(
                "unavailable",
                f"{_MAX_WAITING} calls wait for this workspace already; wait for their answers",
            )

    def save_log(self) -> None:
        """Append new lines of the broker's log to its file. Raises ServiceError `unavailable` if
        the file can't be written.
        """
        log = self.workspace.broker.log
        if self._log is None or self._logged == len(log.entries) or len(log.entries) == 1:
            return

        lines = "".join(f"{line}\n" for line in log.to_lines()[self._logged :]).encode()
        try:
            with self._log.open("ab") as stream:
                # remove a partial line left by a full disk
                stream.truncate(min(stream.tell(), self._logged_bytes))
                stream.write(lines)
        except OSError as error:
            raise ServiceError(
                "unavailable", "the call was carried out, but the server can't write its log"
            ) from error

        self._logged, self._logged_bytes = len(log.entries), self._logged_bytes + len(lines)


class Workspaces:
    """Workspaces by id, for use from one event loop.

    `dataset`: read by all workspaces; `limits`: their number, idle time and latest start;
    `clock_s`: monotonic clock, in seconds; `logs`: folder for their logs, named by `log_name`
    (None: logs are not kept).
    """

    def __init__(
        self,
        dataset: Dataset,
        limits: WorkspaceLimits,
        clock_s: Callable[[], float],
        logs: Path | None = None,
    ) -> None:
        self.dataset = dataset
        self._logs = logs
        self.limits = limits
        self._clock_s = clock_s
        self._held: dict[str, HeldWorkspace] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def open(self, as_of_ts: str | None = None) -> str:
        """Open a workspace and return its id, known only to its owner.

        `as_of_ts`: start of its clock. Raises ServiceError `invalid_argument` if the time is
        malformed or out of range; `unavailable` if there are too many workspaces.
        """
        as_of_ns = first_moment(self.dataset, self.limits, as_of_ts)
        self._make_room()
        workspace = Workspace(self.dataset, as_of_ns)
        name = secrets.token_urlsafe(_ID_BYTES)
        log = None if self._logs is None else self._logs / log_name(name)
        self._held[name] = HeldWorkspace(workspace, self._clock_s(), log)

        return name

    def _make_room(self) -> None:
        """Make room for another workspace. Raises ServiceError `unavailable` if there are
        too many.
        """
        self._forget_idle(self.limits.idle_s)
        if len(self._held) >= self.limits.most and not self._forget_idle(
            min(self.limits.idle_s, self.limits.yield_s), most=1
        ):
            raise ServiceError(
                "unavailable",
                f"all {self.limits.most} workspaces are in use; drop one (DELETE"
                " /workspaces/{workspace_id}), or wait until one has been idle for"
                f" {min(self.limits.idle_s, self.limits.yield_s):g} s and gives way",
            )

    def find(self, name: str) -> HeldWorkspace:
        """Return a workspace and mark it as used. Raises ServiceError `not_found` if it
        does not exist.
        """
        self._forget_idle(self.limits.idle_s)
        held = self._held.get(name)
        if held is None:
            raise not_found(
                HEADER,
                "there is no such workspace; it was dropped, or forgotten after"
                f" {self.limits.idle_s:g} s without a call (sooner where others wanted one and all"
                " were taken). Open another with POST /workspaces, or connect anew",
            )

        self.touch(held)
        return held

    def touch(self, held: HeldWorkspace) -> None:
        """Restart a workspace's idle time."""
        held.used_s = self._clock_s()

    def drop(self, name: str) -> bool:
        """Forget a workspace; return whether it existed."""
        return self._held.pop(name, None) is not None

    def _forget_idle(self, idle_s: float, most: int | None = None) -> int:
        """Forget workspaces idle for longer than `idle_s`, the longest idle first, at most `most`
        of them. Return their number.
        """
        latest = self._clock_s() - idle_s
        idle = [
            name for name, held in self._held.items() if held.used_s < latest and not held.waiting
        ]
        forgotten = sorted(idle, key=lambda name: self._held[name].used_s)[:most]

        for name in forgotten:
            del self._held[name]

        return len(forgotten)


def log_name(name: str) -> str:
    """Return the file name for a workspace's log, which does not reveal the workspace's id."""
    return f"{sha256_hex(name)[:32]}.jsonl"


def first_moment(dataset: Dataset, limits: WorkspaceLimits, as_of_ts: str | None) -> int:
    """Return the start of a clock. Raises ServiceError `invalid_argument` if the time is malformed
    or out of range.
    """
    info = dataset.info
    if as_of_ts is None:
        return info.default_as_of_ns if limits.as_of_ns is None else limits.as_of_ns

    moment_ns = parse_moment(as_of_ts, "as_of_ts")
    first_ns = day_start(info.first_day)
    last_ns = day_start(info.last_day) + DAY if limits.as_of_ns is None else limits.as_of_ns
    if not first_ns <= moment_ns <= last_ns:
        raise invalid(
            "as_of_ts", f"expected a moment from {moment_text(first_ns)} to {moment_text(last_ns)}"
        )

    return moment_ns
