"""Sanity checks of datasets, each in a thread of its own and once for each state of its folder."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ktdeval.values import Value
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.layout import MANIFEST

_SHOWN = 200


class CheckState(Value, frozen=True):
    """State of a check: what was found, errors first, once it is done."""

    state: Literal["not begun", "running", "done", "failed"]
    errors: int = 0
    warnings: int = 0
    findings: tuple[str, ...] = ()  #: at most 200


@dataclass
class _FolderCheck:
    stamp: tuple[int, int]
    state: CheckState


class FolderChecks:
    """Checks by folder. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._checks: dict[Path, _FolderCheck] = {}

    def state_of(self, folder: Path) -> CheckState:
        """Return the state of the check of a folder as it is now."""
        with self._lock:
            check = self._checks.get(folder)
            if check is None or check.stamp != _stamp(folder):
                return CheckState(state="not begun")
            return check.state

    def begin(self, folder: Path) -> CheckState:
        """Begin a check, unless one of this state of the folder runs or is done."""
        with self._lock:
            check = self._checks.get(folder)
            stamp = _stamp(folder)
            if check is not None and check.stamp == stamp and check.state.state != "failed":
                return check.state

            check = self._checks[folder] = _FolderCheck(stamp, CheckState(state="running"))

        threading.Thread(target=self._run, args=(folder, check), daemon=True).start()
        return check.state

    def _run(self, folder: Path, check: _FolderCheck) -> None:
        state = CheckState(state="failed", findings=("the check failed: a defect of it",))
        try:
            findings = check_dataset(folder)
            errors = sum(finding.severity == "error" for finding in findings)
            state = CheckState(
                state="done",
                errors=errors,
                warnings=len(findings) - errors,
                findings=tuple(str(finding) for finding in findings[:_SHOWN]),
            )
        finally:
            with self._lock:
                check.state = state


def _stamp(folder: Path) -> tuple[int, int]:
    """Return what changes with each update of a dataset; zeros without a manifest."""
    try:
        status = (folder / MANIFEST).stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns
