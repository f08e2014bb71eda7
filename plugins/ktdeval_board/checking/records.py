"""A submission's records: that they are there as listed, and that executed again on the board's own market they give the card.

The records are copied, hashed as they are, into a private folder shaped as a run with the submitted card in it; only this copy is
read, by a process of its own (`sandbox`). The market is the one that board.yaml names, never one that a submission names.
"""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.api import CardError, JsonValue
from ktdeval_board.checking.findings import Finding
from ktdeval_board.checking.sandbox import CARD, DECISIONS, RESULT, SERIES, Job
from ktdeval_board.documents import Kind, load_own, parse_json, read_document, read_text
from ktdeval_board.entries import Card, Tier
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.rules import Division, Limits, Rules

_BLOCK = 1 << 20
_SPARE_MEMORY = 4_000_000_000
_MEMORY_TIMES_UNPACKED = 6
"""Address space of the process that executes again: libraries and market, and values of JSON, which take more than their text."""

_SPARE_SECONDS, _SECONDS_OF_EPISODE = 300, 120
_MOST_RESULT_BYTES = 1_000_000_000
_KEPT_VARIABLES = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_LIBRARY_PATH",
    "XDG_CACHE_HOME", "KTDEVAL_CACHE_DIR", "SYSTEMROOT",
)  # fmt: skip
"""What a Python process needs to find itself and the cache of generated markets; keys of providers are not among it."""

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Each thread of these libraries takes address space, and there is nothing here that they would quicken."""


@dataclass(frozen=True)
class Evidence:
    """What a card's records show.

    Attributes:
        findings: why they are refused; then nothing else counts.
        tier: how far the card's figures are confirmed by them.
        notes: why the tier is not higher.
        episodes, steps: what was executed again.
        series, decisions: what was derived from them; None where there is nothing.
        rerun: the board's own run of the same plan, as a verdict says it; None where there is none.
    """

    findings: tuple[Finding, ...] = ()
    tier: Tier = "self-reported"
    notes: tuple[str, ...] = ()
    episodes: int = 0
    steps: int = 0
    series: JsonValue | None = None
    decisions: JsonValue | None = None
    rerun: Mapping[str, JsonValue] | None = None


@dataclass(frozen=True)
class Case:
    """A card whose records are to be executed again.

    Attributes:
        folder: the board.
        rules: its rules, whose market of the division can be opened.
        division: the division that the card belongs to.
        files: where the card lies.
        card: the card, which is sound in itself.
        records: the list of its records, which follows its schema.
        plugins: further plugins to load, as given on the command line.
    """

    folder: BoardFolder
    rules: Rules
    division: Division
    files: CardFiles
    card: Card
    records: Mapping[str, JsonValue]
    plugins: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits:
        """The board's limits."""
        return self.rules.limits

    @property
    def source(self) -> Path:
        """The folder of the records in the board."""
        return self.folder.records(self.files.card_id)

    def refuse(self, name: str, rule: str, message: str) -> Finding:
        """A finding on one of the records, by its path in the run folder."""
        return Finding(f"{self.source.relative_to(self.folder.path)}/{name}".rstrip("/"), rule, message)

    def refuse_card(self, message: str) -> Finding:
        """A finding on the card, which its records do not give."""
        return Finding(str(self.files.card.relative_to(self.folder.path)), "ledger", message)


def check_records(case: Case) -> Evidence:
    """Execute a card's records again.

    Returns:
        `re-executed` with series and decisions, or why the records are refused.
    """
    with tempfile.TemporaryDirectory(prefix="ktdeval-check-") as private:
        run, out = Path(private) / "run", Path(private) / "out"
        findings = list(copy_records(case, run))
        if findings:
            return Evidence(tuple(findings))
        out.mkdir()
        return _executed(case, run, out)


def copy_records(case: Case, run: Path) -> Iterator[Finding]:
    """Copy the listed records and the card into a run folder, and tell everything that is not as listed.

    Nothing larger than the limits is read, no link is followed, and what is copied is what was hashed.
    """
    listed = {str(entry["path"]): entry for entry in case.records["files"]}
    total = sum(int(entry["bytes"]) for entry in listed.values())
    if total > case.limits.bytes_of("records_mb"):
        yield case.refuse("", "size", f"has {total:,} bytes; at most {case.limits.bytes_of('records_mb'):,} are taken")
        return
    yield from (
        case.refuse(name, "records", "is not in the list of records") for name in _present(case.source) if name not in listed
    )
    for name, entry in listed.items():
        target = run / name
        target.parent.mkdir(parents=True, exist_ok=True)
        finding = _copied(case, name, entry, target)
        if finding is not None:
            yield finding
    card = run / "cards" / CARD
    card.parent.mkdir(parents=True, exist_ok=True)
    card.write_bytes(read_text(case.files.card, case.limits.bytes_of("card_mb")).encode())


def _present(source: Path) -> Iterator[str]:
    """Everything in the folder that is no folder, by its path in it; links are named and not followed."""
    for folder, folders, names in os.walk(source, followlinks=False):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118 - names of any bytes
        for name in sorted([*names, *links]):
            yield os.path.relpath(os.path.join(folder, name), source)  # noqa: PTH118


def _copied(case: Case, name: str, entry: Mapping[str, JsonValue], target: Path) -> Finding | None:
    """Copy one record; what is wrong with it, if anything is."""
    is_json = name.endswith(".json")
    most = case.limits.bytes_of("card_mb" if is_json else "file_mb")
    try:
        digest, size = _copy(case.source / name, target, most)
    except OSError as error:
        return case.refuse(name, "records", f"can't be read as a plain file: {error.strerror or error}")
    if size > most:
        return case.refuse(name, "size", f"has more than {most:,} bytes, the most that is taken")
    if digest != entry["sha256"] or size != entry["bytes"]:
        return case.refuse(
            name,
            "hash",
            f"SHA-256 is {digest[:12]}… of {size:,} bytes, the list says {entry['sha256'][:12]}… of {entry['bytes']:,}",
        )
    if is_json:
        try:
            parse_json(target.read_text(encoding="utf-8"), name)
        except (CardError, UnicodeDecodeError) as error:
            return case.refuse(name, "json", str(error).removeprefix(f"{name}: "))
    return None


def _copy(source: Path, target: Path, most: int) -> tuple[str, int]:
    """Copy at most one block more than `most` bytes of a plain file; SHA-256 and size of what was copied."""
    # O_NONBLOCK: opening a pipe would wait for ever for someone to write into it.
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    digest, size = hashlib.sha256(), 0
    with os.fdopen(descriptor, "rb") as stream, target.open("wb") as copy:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError("it is none")
        while size <= most and (block := stream.read(_BLOCK)):
            digest.update(block)
            size += len(block)
            copy.write(block)
    return digest.hexdigest(), size


def _executed(case: Case, run: Path, out: Path) -> Evidence:
    """What the process that executes the copy again found."""
    episodes, market = len(case.card["episodes"]), case.rules.snapshot_of(case.division)
    job = Job(
        run=str(run),
        card_id=case.files.card_id,
        out=str(out),
        data=market.data,
        data_args=dict(market.data_args),
        plugins=list(case.plugins),
        unpacked_bytes=case.limits.bytes_of("unpacked_mb"),
        rows=max((int(window["days"]) for window in case.card["windows"]), default=0),
        memory_bytes=_SPARE_MEMORY + _MEMORY_TIMES_UNPACKED * case.limits.bytes_of("unpacked_mb"),
        seconds=_SPARE_SECONDS + _SECONDS_OF_EPISODE * episodes,
        file_bytes=_MOST_RESULT_BYTES,
    )
    problem = _run(job)
    if problem is not None:
        return Evidence((case.refuse("", "size" if problem.startswith("takes more") else "records", problem),))
    result = load_own(out / RESULT)
    findings = tuple(_findings(case, result))
    if findings:
        return Evidence(findings)
    try:
        series, decisions = _derived(out / SERIES, "series"), _derived(out / DECISIONS, "decisions")
    except CardError as error:
        return Evidence((case.refuse("", "records", f"give no sound series: {str(error).removeprefix(f'{out}/')}"),))
    return Evidence((), "re-executed", (), int(result["episodes"]), int(result["steps"]), series, decisions)


def _run(job: Job) -> str | None:
    """Do a job in a process of its own; why it gave no result, or None."""
    # -P: a folder that the check happens to be called in is no place to import from.
    words = [sys.executable, "-P", "-m", "ktdeval_board.checking.sandbox"]
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ} | _ONE_THREAD
    with (Path(job.out) / "stderr").open("w+b") as errors:
        try:
            done = subprocess.run(  # noqa: S603 - our own module, and no word of it is from a submission
                words, input=job.to_json().encode(), env=environment, stdout=subprocess.DEVNULL, stderr=errors,
                timeout=2 * job.seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"takes more than {2 * job.seconds:,} seconds to execute again"
        errors.seek(0)
        said = errors.read(_BLOCK).decode("utf-8", "replace").strip()
    if done.returncode == 0 and (Path(job.out) / RESULT).is_file():
        return None
    last = said.splitlines()[-1] if said else f"exit code {done.returncode}"
    if done.returncode < 0 or "MemoryError" in said or "ArrowMemoryError" in said:
        given = f"{job.memory_bytes:,} bytes, {job.seconds:,} seconds"
        return f"takes more memory or time to execute again than is given ({given}): {last}"
    return f"can't be executed again: {last}"


def _findings(case: Case, result: Mapping[str, JsonValue]) -> Iterator[Finding]:
    """The result's lines as findings, each on the file that it names."""
    for name, problem in result.get("size", ()):
        yield case.refuse(name, "size", problem)
    lines: Sequence[str] = [result["error"]] if "error" in result else result.get("findings", ())
    known = {str(entry["path"]) for entry in case.records["files"]}
    for line in lines:
        name, _, problem = line.partition(": ")
        if name in known:
            yield case.refuse(name, "ledger" if name.startswith("episodes/") else "records", problem)
        elif name == CARD:
            yield case.refuse_card(problem)
        else:
            yield case.refuse("", "records", line)


def _derived(path: Path, kind: Kind) -> JsonValue | None:
    """A document that was derived; None where there is none, as of a task that does not trade."""
    return read_document(path, kind, _MOST_RESULT_BYTES) if path.is_file() else None
