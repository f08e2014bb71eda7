"""Processes in which the records of submissions are read and executed again: `python -m ktdeval_board.checking.sandbox`.

Nothing of a submission is code, and no model is made from it. But what reads its archives and tables is large, so each is read in a
process of its own, with little memory, little time, small files, no secrets in its environment, and the board out of its sight. A
server imports what they need once, and forks one for each job, a line on its stdin; how that ended is the answer, and its results
are left in files of a private folder.
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
from ktdeval.jsonio import write_atomic
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunFolder, open_recorded_snapshot, verify_card
from ktdeval.typed import Value, decode_json, encode_canonical
from ktdeval_board.series import make_decisions, make_series

RESULT, SERIES, DECISIONS = "result.json", "series.json", "decisions.json"
STDERR = "stderr"
CARD = "card.json"
"""File name of the card in the run folder, whatever its task is called: no name from a submission becomes a path."""

_BLOCK = 1 << 20
_BYTES_OF_VALUE = 8
"""What one value of a column takes at least once it is read, however well it was packed."""


class Job(Value, frozen=True, kw_only=True):
    """Job of a process."""

    cwd: str  #: the folder that paths of plugins and of the market are relative to
    run: str  #: the records as a run folder; the submitted card lies in it as that run's
    card_id: str  #: SHA-256 of the card's file
    out: str  #: the folder for results
    changes: dict[str, Any]  #: `data` and `data_args` of the market as the board declares it; empty without one
    plugins: tuple[str, ...]  #: further plugins to load
    unpacked_bytes: int  #: largest size of a record unpacked
    rows: int  #: most steps of an episode
    memory_bytes: int  #: address space that this process may take
    seconds: int  #: processor time that it may take
    file_bytes: int  #: largest file that it may write


class Result(Value, frozen=True, kw_only=True):
    """Result of a process."""

    size: tuple[tuple[str, str], ...] = ()  #: path and problem of files that are not read
    findings: tuple[str, ...] = ()
    error: str = ""  #: why it came to no end
    episodes: int = 0  #: what was executed again (episodes, steps)
    steps: int = 0


def main() -> int:
    """Do the jobs on stdin, one after the other; answer each with the exit code of its process."""
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what a plugin prints is no answer
    load_plugins(())
    # Python warns of the thread that pyarrow's allocator has: nothing of it is waited for.
    warnings.filterwarnings("ignore", "This process", DeprecationWarning)
    for line in sys.stdin.buffer:
        process = os.fork()
        if process == 0:
            os.close(answers)
            _do(line)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
    return 0


def _do(line: bytes) -> NoReturn:
    """Do a job in this process and end it; 0 when there is a result, whatever it is."""
    code = 1
    try:
        job = decode_json(line, Job, "job")
        os.chdir(job.cwd)
        for stream, path in ((0, os.devnull), (2, f"{job.out}/{STDERR}")):  # the server's own are no job's affair
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), stream)
        _set_limits(job)
        write_atomic(Path(job.out) / RESULT, encode_canonical(_check(job)))
        code = 0
    finally:
        if code != 0:
            traceback.print_exc()
        os._exit(code)


def _set_limits(job: Job) -> None:
    """Limits of this process and what it starts; they can't be raised again."""
    limits = {
        resource.RLIMIT_AS: job.memory_bytes,
        resource.RLIMIT_CPU: job.seconds,
        resource.RLIMIT_FSIZE: job.file_bytes,
        resource.RLIMIT_CORE: 0,
    }
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))


def _check(job: Job) -> Result:
    run = Path(job.run)
    sizes = tuple(_size_problems(run, job))
    if sizes:
        return Result(size=sizes)
    plugins = load_plugins(job.plugins)
    try:
        verified = verify_card(run / "cards" / CARD, plugins, job.changes)
        if not verified.findings:
            _derive(job, run, plugins)
    except KtdevalError as error:
        return Result(error=_short(str(error), run))
    findings = tuple(_short(finding, run) for finding in verified.findings)
    return Result(findings=findings, episodes=verified.episodes, steps=verified.steps)


def _size_problems(run: Path, job: Job) -> Iterator[tuple[str, str]]:
    """Yield path and problem of each file that would become too large."""
    for path in sorted(run.glob("episodes/*/*")):
        problem = None
        if path.suffix == ".parquet":
            problem = table_problem(path, job.unpacked_bytes, job.rows)
        elif path.suffix == ".zst":
            problem = lines_problem(path, job.unpacked_bytes)
        if problem is not None:
            yield str(path.relative_to(run)), problem


def _derive(job: Job, run: Path, plugins: Plugins) -> None:
    """Series and decisions of a trading card, once its records are known to be right."""
    card = load_card(run / "cards" / CARD)
    if not isinstance(card, TradingCard):
        return
    folder, out = RunFolder.load(run), Path(job.out)
    snapshot = open_recorded_snapshot(folder, plugins, job.changes)
    write_atomic(out / SERIES, encode_canonical(make_series(folder, job.card_id, card, snapshot)))
    write_atomic(out / DECISIONS, encode_canonical(make_decisions(folder, job.card_id, card)))


def _short(text: str, run: Path) -> str:
    return text.replace(f"{run}/", "").replace(str(run), "records")


# -- how large a packed record would become, measured before anything reads it whole


def lines_problem(path: Path, most_bytes: int) -> str | None:
    """Return why compressed lines are not to be unpacked, or None.

    The size in the frame's header is looked at first; then everything is unpacked once, a block at a time, for a header may lie.
    """
    try:
        with path.open("rb") as stream:
            stated = zstandard.frame_content_size(stream.read(_BLOCK))
            if stated < 0:
                return "its header does not state the size that it has unpacked"
            if stated > most_bytes:
                return f"would have {stated:,} bytes unpacked; at most {most_bytes:,} are taken"
            stream.seek(0)
            unpacked = 0
            with zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True) as reader:
                while block := reader.read(_BLOCK):
                    unpacked += len(block)
                    if unpacked > stated:
                        return f"has more bytes unpacked than the {stated:,} that its header states"
    except zstandard.ZstdError as error:
        return f"is no whole zstd file: {error}"
    return None if unpacked == stated else f"has {unpacked:,} bytes unpacked, its header states {stated:,}"


def table_problem(path: Path, most_bytes: int, most_rows: int) -> str | None:
    """Return why a Parquet file is not to be read, or None; only its footer is looked at.

    A footer may lie as well, so the reading itself needs a limit of memory besides.
    """
    try:
        footer = pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        return f"is no Parquet file: {' '.join(str(error).split())}"
    if footer.num_rows > most_rows:
        return f"has {footer.num_rows:,} rows; the longest window has {most_rows:,} days"
    chunks = [
        footer.row_group(group).column(column) for group in range(footer.num_row_groups) for column in range(footer.num_columns)
    ]
    size = sum(max(chunk.total_uncompressed_size, 0) for chunk in chunks)
    size = max(size, sum(max(chunk.num_values, 0) for chunk in chunks) * _BYTES_OF_VALUE)
    return f"would have {size:,} bytes unpacked; at most {most_bytes:,} are taken" if size > most_bytes else None


if __name__ == "__main__":
    sys.exit(main())
