"""Processes that read and execute the records in submissions: `python -m
ktdeval_board.checking.record_sandbox`.

No part of a submission is code, and no model is created from it. But the libraries that read its
archives and tables are large and may have flaws. Each submission is therefore read in a separate
process with limited memory, time and file sizes, without secrets in its environment, and without a
path to the board.

A server imports the libraries once and forks a process for each job. It reads jobs line by line
from stdin and replies with exit codes; the results are written as files to a private folder.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pandas  # noqa: F401 - which pyarrow imports where it first reads a market
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from ktdeval.cards import TradingCard, load_card
from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunFolder, open_recorded_snapshot, verify_card
from ktdeval.values import Value, decode_json, encode_canonical, write_atomic
from ktdeval_board.derived_documents import make_decisions, make_series

RESULT = "result.json"
SERIES = "series.json"
DECISIONS = "decisions.json"
STDERR = "stderr"
CARD = "card.json"
"""File name of the card in the run folder. It is the same for all tasks, since names from a
submission must not become paths.
"""

_BLOCK = 1 << 20
_BYTES_OF_VALUE = 8
"""Minimum size of a column value in memory, however well it is compressed."""


class Job(Value, frozen=True, kw_only=True):
    """Job of a sandbox process."""

    cwd: str  #: folder to which the paths of plugins and of the market are relative
    run: str  #: run folder that contains the records and the submitted card
    card_id: str  #: SHA-256 of the card's file
    out: str  #: folder for results
    #: `data` and `data_args` of the market as the board declares it; empty without a market
    changes: dict[str, Any]
    plugins: tuple[str, ...]  #: additional plugins to load
    unpacked_bytes: int  #: maximum unpacked size of a record
    rows: int  #: maximum number of steps per episode
    memory_bytes: int  #: limit on this process's address space
    seconds: int  #: limit on this process's CPU time
    file_bytes: int  #: limit on the size of files that this process writes


class Result(Value, frozen=True, kw_only=True):
    """Result of a sandbox process."""

    size: tuple[tuple[str, str], ...] = ()  #: path and problem of each file that was not read
    findings: tuple[str, ...] = ()
    error: str = ""  #: why the process stopped early
    episodes: int = 0  #: number of episodes that were re-executed
    steps: int = 0  #: number of steps that were re-executed


def main() -> int:
    """Process the jobs on stdin one by one, and reply to each with the exit code of the job's
    process.
    """
    answers = os.dup(1)
    # a plugin's output must not be mistaken for a reply
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    load_plugins(())
    # Python warns about forking while pyarrow's allocator has a thread, but no job waits for that
    # thread.
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)

    for line in sys.stdin.buffer:
        process = os.fork()
        if process == 0:
            os.close(answers)
            _do(line)

        _, status = os.waitpid(process, 0)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))

    return 0


def _do(line: bytes) -> NoReturn:
    """Process a job in this process, then exit. The exit code is 0 if there is a result of any
    kind.
    """
    code = 1
    try:
        job = decode_json(line, Job, "job")
        os.chdir(job.cwd)
        # A job must not share the server's stdin or stderr.
        for stream, path in ((0, os.devnull), (2, f"{job.out}/{STDERR}")):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), stream)

        _set_limits(job)
        write_atomic(Path(job.out) / RESULT, encode_canonical(_check_records(job)))
        code = 0
    finally:
        if code != 0:
            traceback.print_exc()

        os._exit(code)


def _set_limits(job: Job) -> None:
    """Limit the resources of this process and its children. They can't raise the limits again."""
    limits = {
        resource.RLIMIT_AS: job.memory_bytes,
        resource.RLIMIT_CPU: job.seconds,
        resource.RLIMIT_FSIZE: job.file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def _check_records(job: Job) -> Result:
    run = Path(job.run)
    sizes = tuple(_size_problems(run, job))
    if sizes:
        return Result(size=sizes)

    plugins = load_plugins(job.plugins)
    try:
        verified = verify_card(run / "cards" / CARD, plugins, job.changes, is_published=True)
        if not verified.findings:
            _derive(job, run, plugins)
    except KtdevalError as error:
        return Result(error=_without_run_path(str(error), run))

    findings = tuple(_without_run_path(str(finding), run) for finding in verified.findings)
    return Result(findings=findings, episodes=verified.episodes, steps=verified.steps)


def _size_problems(run: Path, job: Job) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that would become too large when unpacked, and the problem."""
    for path in sorted(run.glob("episodes/*/*")):
        problem = None
        if path.suffix == ".parquet":
            problem = table_problem(path, job.unpacked_bytes, job.rows)
        elif path.suffix == ".zst":
            problem = lines_problem(path, job.unpacked_bytes)

        if problem is not None:
            yield str(path.relative_to(run)), problem


def _derive(job: Job, run: Path, plugins: Plugins) -> None:
    """Write the series and decisions of a trading card whose records were verified."""
    card = load_card(run / "cards" / CARD)
    if not isinstance(card, TradingCard):
        return

    folder = RunFolder.load(run)
    out = Path(job.out)
    snapshot = open_recorded_snapshot(folder, plugins, job.changes)
    write_atomic(out / SERIES, encode_canonical(make_series(folder, job.card_id, card, snapshot)))
    write_atomic(out / DECISIONS, encode_canonical(make_decisions(folder, job.card_id, card)))


def _without_run_path(text: str, run: Path) -> str:
    return text.replace(f"{run}/", "").replace(str(run), "records")


# -- unpacked size of a record, measured before the record is read as a whole


def lines_problem(path: Path, max_bytes: int) -> str | None:
    """Return why a file of compressed lines must not be unpacked, or None.

    The size in the frame's header is checked first. Then the whole file is unpacked once, block by
    block, since the header may be wrong.
    """
    try:
        with path.open("rb") as stream:
            stated = zstandard.frame_content_size(stream.read(_BLOCK))
            if stated < 0:
                return "its header does not state its unpacked size"
            if stated > max_bytes:
                return f"would unpack to {stated:,} bytes; at most {max_bytes:,} are allowed"

            stream.seek(0)
            unpacked = 0
            with zstandard.ZstdDecompressor().stream_reader(
                stream, read_across_frames=True
            ) as reader:
                while True:
                    block = reader.read(_BLOCK)
                    if not block:
                        break

                    unpacked += len(block)
                    if unpacked > stated:
                        return f"unpacks to more than the {stated:,} bytes that its header states"
    except zstandard.ZstdError as error:
        return f"is not a complete zstd file: {error}"

    if unpacked != stated:
        return f"unpacks to {unpacked:,} bytes, but its header states {stated:,}"

    return None


def table_problem(path: Path, max_bytes: int, max_rows: int) -> str | None:
    """Return why a Parquet file must not be read, judging by its footer, or None.

    The footer may be wrong, and it does not give the lengths of lists, so reading the file still
    needs a memory limit.
    """
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        return f"is not a Parquet file: {' '.join(str(error).split())}"

    if footer.num_rows > max_rows:
        return f"has {footer.num_rows:,} rows, but the longest window has {max_rows:,} days"

    stated = [footer.row_group(group) for group in range(footer.num_row_groups)]
    unpacked = sum(max(group.total_byte_size, 0) for group in stated)
    size = max(unpacked, footer.num_rows * footer.num_columns * _BYTES_OF_VALUE)
    if size > max_bytes:
        return f"would unpack to {size:,} bytes; at most {max_bytes:,} are allowed"

    return None


if __name__ == "__main__":
    sys.exit(main())
