"""Logs of an entrant: their clocks, and what the `audit` command finds in them."""

from __future__ import annotations

import contextlib
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import click
import numpy as np

from ktdeval.cli import load_command
from ktdeval.errors import KtdevalError
from ktdeval.market import Venue
from ktdeval.registry import load_plugins
from ktdeval.values import loads_strict
from ktdeval_published.clone import Clone
from ktdeval_published.later_documents import has_later_document
from ktdeval_published.publication import (
    Status,
    deadline_of,
    joint,
    log_clock,
    status_of_clock,
)
from ktdeval_published.report import LogReport


@dataclass(frozen=True)
class ReadLogs:
    """Logs of one entrant."""

    report: LogReport
    status: Mapping[np.datetime64, Status]  #: by day of decision


def read_logs(clone: Clone, pattern: str, clock: str, venue: Venue, audited: bool) -> ReadLogs:
    """Return what the logs of an entrant show. `pattern` has a place `{day}` for the decision."""
    matches = clone.matches(pattern)
    statuses: dict[np.datetime64, list[Status]] = {}
    clocks: Counter[str] = Counter()
    silent = dated = 0
    for inside, places in matches:
        data = clone.read(inside)
        silent += data.count(b"\n") + (not data.endswith(b"\n")) <= 2
        found = log_clock(data, clock) if clock else None
        decision = places.get("day", "")
        status: Status = "unknown"
        if found is not None:
            status = status_of_clock(found, deadline_of(decision, venue))
        clocks["none" if found is None else status] += 1
        statuses.setdefault(np.datetime64(decision[:10]), []).append(status)
        dated += has_later_document(data, date.fromisoformat(decision[:10]))

    later = _Audit(reason="" if audited else "the search was not asked for")
    if audited and matches:
        later = _audit(clone.root, pattern)
    report = LogReport(
        logs=len(matches),
        with_later=len(later.files),
        with_dated=dated,
        silent=silent,
        days=tuple(sorted(later.days)),
        by_part=dict(later.parts),
        clock_after=clocks["after"],
        clock_before=clocks["before"],
        clock_none=clocks["none"] + clocks["unknown"],
        reason=later.reason,
    )
    return ReadLogs(report, {day: joint(found) for day, found in statuses.items()})


@dataclass(frozen=True)
class _Audit:
    files: frozenset[str] = frozenset()
    days: frozenset[str] = frozenset()
    parts: Mapping[str, int] = None  # type: ignore[assignment]  # set below
    reason: str = ""

    def __post_init__(self) -> None:
        if self.parts is None:
            object.__setattr__(self, "parts", {})


def _audit(root: Path, pattern: str) -> _Audit:
    """Run the command `audit` on the folder of an entrant's logs, if a plugin offers it."""
    folder = root / pattern.split("{day}", 1)[0].rstrip("/")
    command = _find_audit()
    if command is None:
        return _Audit(reason="no plugin offers the command audit")
    if not folder.resolve().is_relative_to(root.resolve()):
        return _Audit(reason="the logs lead out of the clone")

    output = io.StringIO()
    arguments = [str(folder), "--json", "--all", "--rules", "date-after"]
    try:
        with contextlib.redirect_stdout(output):
            command.main(arguments, prog_name="ktdeval audit", standalone_mode=False)
    except KtdevalError as error:
        return _Audit(reason=error.line)
    except click.ClickException as error:
        return _Audit(reason=error.message)
    except click.exceptions.Exit:
        pass
    return _findings(loads_strict(output.getvalue()))


def _find_audit() -> click.Command | None:
    spec = load_plugins().specs("commands").get("audit")
    if spec is None:
        return None
    command: click.Command = load_command(spec.make())
    return command


def _findings(document: Any) -> _Audit:
    """Return the files with an error: a later date, price or document in what was shown."""
    shown = [one for one in document["findings"] if one["level"] == "error"]
    parts: Counter[str] = Counter(one["rule"] for one in shown)
    return _Audit(
        files=frozenset(one["path"] for one in shown),
        days=frozenset(one["day"] for one in shown if one.get("day")),
        parts=parts,
    )
