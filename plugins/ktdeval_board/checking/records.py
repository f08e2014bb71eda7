"""Check the records of a submission: they must match their list, and re-executing them on the
board's own market must reproduce the card.

The records are copied, and hashed while being copied, into a private folder laid out as a run,
together with the submitted card. Only this copy is read, by a separate process (`record_sandbox`).
The market is always taken from board.yaml, never from a submission.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ktdeval.errors import CardError, os_reason
from ktdeval.registry import Plugins
from ktdeval.values import (
    Finding,
    dumps_pretty,
    encode_canonical,
    open_plain,
    temporary_folder,
    to_plain,
    write_atomic,
)
from ktdeval_board.board_entries import Card
from ktdeval_board.checking.findings import FileMessage
from ktdeval_board.checking.record_sandbox import (
    CARD,
    DECISIONS,
    RESULT,
    SERIES,
    STDERR,
    Job,
    Result,
)
from ktdeval_board.checking.rules import FileFaults, Stage, findings_of
from ktdeval_board.document_types import (
    Decisions,
    RecordFile,
    Records,
    Rerun,
    Series,
    Tier,
    Verdict,
)
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.read_documents import parse_untrusted, read_own, read_text, read_untrusted
from ktdeval_board.rules import Division, Limits, Rules

T = TypeVar("T")
#: A violated rule, and a message about the card or about a path relative to the records folder
Fault = tuple[str, FileMessage]

_BLOCK = 1 << 20
_SPARE_MEMORY = 4_000_000_000
_MEMORY_TIMES_UNPACKED = 6
"""Address space of the process that executes records, as a multiple of the unpacked size. It must
hold libraries, the market, and JSON values, which take more space than their text.
"""

_SPARE_SECONDS = 300
_SECONDS_OF_EPISODE = 120
_MAX_RESULT_BYTES = 1_000_000_000
_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "TZ",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME",
    "KTDEVAL_CACHE_DIR",
    "SYSTEMROOT",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "MKL_CBWR",
    "NPY_DISABLE_CPU_FEATURES",
)
"""Environment variables that a Python process needs to find its installation and the cache of
generated markets, and those that determine the last bits of sums. API keys are not among them.
"""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads in these libraries would use address space without any speed-up here."""


@dataclass(frozen=True)
class RecordEvidence:
    """Evidence derived from a card's records."""

    #: reasons to refuse the records; if there are any, the other fields are unused
    findings: tuple[Finding, ...] = ()
    tier: Tier = "self-reported"  #: tier of the card, based on this evidence
    notes: tuple[str, ...] = ()  #: why the tier is not higher
    episodes: int = 0  #: number of episodes that were re-executed
    steps: int = 0  #: number of steps that were re-executed
    #: derived documents; None if they were not derived
    series: Series | None = None
    decisions: Decisions | None = None
    rerun: Rerun | None = None  #: the board's own run of the same plan, if there is one


@dataclass(frozen=True)
class RecordedCard:
    """A card whose records are to be re-executed."""

    folder: BoardFolder
    rules: Rules
    division: Division
    files: CardFiles
    card: Card
    records: Records
    plugins: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits:
        """The board's limits."""
        return self.rules.limits

    @property
    def source(self) -> Path:
        """Folder of the records on the board."""
        return self.folder.records(self.files.card_id)

    def locate_faults(self, *faults: Fault) -> tuple[Finding, ...]:
        """Return faults as findings, each with the path of its file on the board."""
        where = self.folder.relative(self.source)
        located = []
        for rule, at in faults:
            path = f"{where}/{at.path}".rstrip("/")
            if at.path == CARD:
                path = self.folder.relative(self.files.card)

            located.append((rule, FileMessage(path, at.message)))

        return tuple(findings_of(Stage.RECORDS, FileFaults(where, located)))


def check_records(recorded: RecordedCard) -> RecordEvidence:
    """Re-execute a card's records. Return evidence with tier `re-executed`, series and decisions,
    or the reasons why the records are refused.
    """
    with temporary_folder("ktdeval-check-") as private:
        run = private / "run"
        out = private / "out"
        findings = copy_records(recorded, run)
        if findings:
            return RecordEvidence(findings)

        out.mkdir()
        return _execute_copy(recorded, run, out)


def copy_records(recorded: RecordedCard, run: Path) -> tuple[Finding, ...]:
    """Copy the listed records and the card into a run folder; return findings for records that do
    not match the list.

    Files above the size limits are not read, links are not followed, and each file is hashed and
    copied in a single read.
    """
    listed = {file.path: file for file in recorded.records.files}
    total = sum(file.bytes for file in listed.values())
    most = recorded.limits.bytes_of("records_mb")
    if total > most:
        return recorded.locate_faults(
            ("size", FileMessage("", f"has {total:,} bytes; at most {most:,} are allowed"))
        )

    faults: list[Fault] = [
        ("records", FileMessage(name, "is not in the list of records"))
        for name in _present(recorded.source)
        if name not in listed
    ]

    for file in listed.values():
        target = run / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        for rule, message in _copy_record(recorded, file, target):
            faults.append((rule, FileMessage(file.path, message)))

    card = run / "cards" / CARD
    card.parent.mkdir(parents=True, exist_ok=True)
    card.write_bytes(read_text(recorded.files.card, recorded.limits.bytes_of("card_mb")).encode())

    return recorded.locate_faults(*faults)


def _present(source: Path) -> Iterator[str]:
    """Yield the relative paths of everything in a folder except subfolders, without following
    links.
    """
    for folder, folders, names in os.walk(source, followlinks=False):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118 - names of any bytes
        for name in sorted([*names, *links]):
            yield os.path.relpath(os.path.join(folder, name), source)  # noqa: PTH118


def _copy_record(
    recorded: RecordedCard, file: RecordFile, target: Path
) -> Iterator[tuple[str, str]]:
    """Copy a single record; yield its faults."""
    is_json = file.path.endswith(".json")
    most = recorded.limits.bytes_of("card_mb" if is_json else "file_mb")
    try:
        digest, size = _copy(recorded.source / file.path, target, most)
    except OSError as error:
        yield "records", f"can't be read as a regular file: {os_reason(error)}"
        return

    if size > most:
        yield "size", f"exceeds the limit of {most:,} bytes"
    elif digest != file.sha256 or size != file.bytes:
        found = f"SHA-256 is {digest[:12]}… of {size:,} bytes"
        yield "hash", f"{found}, but the list says {file.sha256[:12]}… of {file.bytes:,}"
    elif is_json:
        try:
            parse_untrusted(target.read_text(encoding="utf-8"), file.path)
        except (CardError, UnicodeDecodeError) as error:
            yield "json", str(error).removeprefix(f"{file.path}: ")


def _copy(source: Path, target: Path, most: int) -> tuple[str, int]:
    """Copy a regular file, but read no more than one block beyond `most` bytes. Return the SHA-256
    and size of the copy.
    """
    digest = hashlib.sha256()
    size = 0
    with open_plain(source, follow=False) as stream, target.open("wb") as copy:
        while size <= most:
            block = stream.read(_BLOCK)
            if not block:
                break

            digest.update(block)
            size += len(block)
            copy.write(block)

    return digest.hexdigest(), size


def _execute_copy(recorded: RecordedCard, run: Path, out: Path) -> RecordEvidence:
    """Execute the copy in a separate process and read the results."""
    changes: dict[str, Any] = {}
    market = recorded.rules.snapshot_of(recorded.division)
    if market is not None:
        changes = {"data": market.data, "data_args": market.data_args}

    unpacked = recorded.limits.bytes_of("unpacked_mb")
    job = Job(
        cwd=str(Path.cwd()),
        run=str(run),
        card_id=recorded.files.card_id,
        out=str(out),
        changes=changes,
        plugins=recorded.plugins,
        unpacked_bytes=unpacked,
        rows=max((window.days for window in recorded.card.windows), default=0),
        memory_bytes=_SPARE_MEMORY + _MEMORY_TIMES_UNPACKED * unpacked,
        seconds=_SPARE_SECONDS + _SECONDS_OF_EPISODE * len(recorded.card.episodes),
        file_bytes=_MAX_RESULT_BYTES,
    )
    failure = _run_job(job)
    if failure is not None:
        return RecordEvidence(recorded.locate_faults(failure))

    result = read_own(out / RESULT, Result)
    findings = recorded.locate_faults(*_faults(recorded, result))
    if findings:
        return RecordEvidence(findings)

    try:
        series = _read_derived(out / SERIES, Series)
        decisions = _read_derived(out / DECISIONS, Decisions)
    except CardError as error:
        reason = str(error).removeprefix(f"{out}/")
        return RecordEvidence(
            recorded.locate_faults(
                ("records", FileMessage("", f"do not give a valid series: {reason}"))
            )
        )

    return RecordEvidence(
        tier="re-executed",
        episodes=result.episodes,
        steps=result.steps,
        series=series,
        decisions=decisions,
    )


def _run_job(job: Job) -> Fault | None:
    """Run a job in a separate process; return why it produced no result, or None."""
    seconds = 2 * job.seconds
    try:
        code = _ask(encode_canonical(job).encode() + b"\n", seconds)
    except TimeoutError:
        return "size", FileMessage("", f"takes more than {seconds:,} seconds to execute again")

    if code == 0 and (Path(job.out) / RESULT).is_file():
        return None

    stderr = ""
    path = Path(job.out) / STDERR
    if path.is_file():
        stderr = path.read_bytes()[:_BLOCK].decode("utf-8", "replace").strip()

    last = stderr.splitlines()[-1] if stderr else f"exit code {code}"
    if code < 0 or "MemoryError" in stderr or "ArrowMemoryError" in stderr:
        allowed = f"{job.memory_bytes:,} bytes, {job.seconds:,} seconds"
        problem = f"takes more memory or time to execute again than allowed ({allowed}): {last}"
        return "size", FileMessage("", problem)

    return "records", FileMessage("", f"can't be executed again: {last}")


def _ask(line: bytes, seconds: int) -> int:
    """Return the exit code of the process that ran a job. Raises TimeoutError if it took longer
    than `seconds`.
    """
    environment = [(name, os.environ[name]) for name in _VARIABLES if name in os.environ]
    server = _server(*sorted(environment))
    assert server.stdin is not None
    assert server.stdout is not None
    answer = b""

    try:
        server.stdin.write(line)
        server.stdin.flush()
        if not select.select([server.stdout], [], [], seconds)[0]:
            raise TimeoutError

        answer = server.stdout.readline()
    except BrokenPipeError:
        pass
    finally:
        # A server that did not reply can't be used for the next job.
        if not answer:
            _server.cache_clear()
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()

    return int(answer or server.returncode)


@cache
def _server(*environment: tuple[str, str]) -> subprocess.Popen[bytes]:
    """Start the sandbox server with these environment variables. It ends when this process exits,
    which closes the server's stdin.
    """
    # -P: nothing is imported from the current folder.
    words = [sys.executable, "-P", "-m", "ktdeval_board.checking.record_sandbox"]
    server = subprocess.Popen(  # noqa: S603 - our own module, and no word of it is from a submission
        words,
        env={**dict(environment), **_ONE_THREAD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    atexit.register(server.communicate)

    return server


def _faults(recorded: RecordedCard, result: Result) -> Iterator[Fault]:
    """Yield the faults in the result, each with the file concerned."""
    for path, problem in result.size:
        yield "size", FileMessage(path, problem)

    paths = {file.path for file in recorded.records.files}
    lines = (result.error,) if result.error else result.findings
    for line in lines:
        name, _, problem = line.partition(": ")
        if name in paths:
            yield (
                "ledger" if name.startswith("episodes/") else "records",
                FileMessage(name, problem),
            )
        elif name == CARD:
            yield "ledger", FileMessage(CARD, problem)
        else:
            yield "records", FileMessage("", line)


def _read_derived(path: Path, type_: type[T]) -> T | None:
    """Read a derived document; None if it does not exist, as for tasks without trading."""
    if not path.is_file():
        return None

    return read_untrusted(path, type_, _MAX_RESULT_BYTES)


_REPLACE = msgspec.structs.replace


def make_verdict(
    card_id: str, division: str, evidence: RecordEvidence, on: str, plugins: Plugins
) -> Verdict:
    """Make a verdict from evidence without findings."""
    info = plugins.info.get("ktdeval_board")
    return Verdict(
        card=card_id,
        division=division,
        tier=evidence.tier,  # type: ignore[arg-type]  # evidence never leaves a card unchecked
        checked_on=on,
        suite_version=info.version if info is not None else "",
        episodes=evidence.episodes,
        steps=evidence.steps,
        notes=evidence.notes,
        rerun=evidence.rerun,
    )


def settle(earlier: Verdict | None, new: Verdict) -> Verdict:
    """Return the verdict to record when a card that already has a verdict is checked again.

    The card's bytes are unchanged, so its tier is never lowered. A check that could not execute the
    records because the market is not on this machine changes nothing. The maintainers' own run
    remains on record.
    """
    if earlier is None:
        return new
    if not new.is_executed and _REPLACE(new, checked_on=earlier.checked_on) == earlier:
        return earlier  # otherwise, the file would change every day
    if not new.is_executed and earlier.is_executed and new.rerun is None:
        return earlier
    if new.rerun is None and earlier.rerun is not None:
        return _REPLACE(new, tier="re-run" if new.is_executed else new.tier, rerun=earlier.rerun)

    return new


def is_whole(folder: BoardFolder, card_id: str, verdict: Verdict, is_trading: bool) -> bool:
    """Return whether all derived files that belong to a verdict exist. If so, the card need not be
    checked again.
    """
    if not is_trading or not verdict.is_executed:
        return True

    return folder.series(card_id).is_file() and folder.decisions(card_id).is_file()


def write_findings(folder: BoardFolder, verdict: Verdict, evidence: RecordEvidence) -> None:
    """Write the derived files before the verdict, so that an interrupted check leaves no verdict
    without its derived files.
    """
    if evidence.series is not None:
        write_own(folder.series(verdict.card), encode_canonical(evidence.series) + "\n")

    if evidence.decisions is not None:
        write_own(folder.decisions(verdict.card), encode_canonical(evidence.decisions) + "\n")

    write_own(folder.verdict(verdict.card), dumps_pretty(to_plain(verdict)))


def write_own(path: Path, text: str) -> None:
    """Write a file on the board unless it already has exactly these bytes."""
    data = text.encode()
    if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
        return

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
