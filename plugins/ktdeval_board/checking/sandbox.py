"""The process in which a submission's records are read and executed again: `python -m ktdeval_board.checking.sandbox`.

Nothing of a submission is code, and no model is made from it. But what reads its archives and tables is large, so it is read in a
process of its own, with little memory, little time, small files, no secrets in its environment, and the board out of its sight. The
job comes on stdin; what was found is left in files of a private folder.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ktdeval.api import (
    JsonValue,
    KtdevalError,
    Plugins,
    RunFolder,
    dumps_canonical,
    load_card,
    load_plugins,
    loads_strict,
    open_recorded_snapshot,
    verify_card,
    write_atomic,
)
from ktdeval_board.checking.unpacked import lines_problem, table_problem
from ktdeval_board.decisions import make_decisions
from ktdeval_board.series import make_series

RESULT, SERIES, DECISIONS = "result.json", "series.json", "decisions.json"
CARD = "card.json"
"""File name of the card in the run folder, whatever its task is called: no name from a submission becomes a path."""


@dataclass(frozen=True)
class Job:
    """What is to be checked.

    Attributes:
        run: the records as a run folder; the submitted card lies in it as that run's.
        card_id: SHA-256 of the card's file.
        out: the folder for what is found.
        data: the market as the board declares it, for `open_snapshot`.
        data_args: arguments of its provider.
        plugins: further plugins to load.
        unpacked_bytes: largest size of a record unpacked.
        rows: most steps of an episode.
        memory_bytes: address space that this process may take; 0 for no limit.
        seconds: processor time that it may take; 0 for no limit.
        file_bytes: largest file that it may write; 0 for no limit.
    """

    run: str
    card_id: str
    out: str
    data: str
    data_args: dict[str, Any]
    plugins: list[str]
    unpacked_bytes: int
    rows: int
    memory_bytes: int = 0
    seconds: int = 0
    file_bytes: int = 0

    def to_json(self) -> str:
        """The job as text for stdin."""
        return dumps_canonical(asdict(self))


def main() -> int:
    """Do the job on stdin; 0 when there is a result, whatever it is."""
    job = Job(**loads_strict(sys.stdin.read()))
    _set_limits(job)
    found = _check(job)
    write_atomic(Path(job.out) / RESULT, dumps_canonical(found))
    return 0


def _set_limits(job: Job) -> None:
    """Limits of this process and what it starts; they can't be raised again."""
    limits = (
        (resource.RLIMIT_AS, job.memory_bytes),
        (resource.RLIMIT_CPU, job.seconds),
        (resource.RLIMIT_FSIZE, job.file_bytes),
    )
    for kind, value in limits:
        if value:
            resource.setrlimit(kind, (value, value))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _check(job: Job) -> dict[str, JsonValue]:
    """The result: `size` lists files that are not read, `findings` what verification says, or `error` why it came to no end."""
    run = Path(job.run)
    sizes = list(_size_problems(run, job))
    if sizes:
        return {"size": sizes}
    plugins = load_plugins(job.plugins)
    changes = {"data": job.data, "data_args": job.data_args}
    try:
        verified = verify_card(run / "cards" / CARD, plugins, changes)
        if not verified.findings:
            _derive(job, run, plugins, changes)
    except KtdevalError as error:
        return {"error": _short(str(error), run)}
    findings = [_short(finding, run) for finding in verified.findings]
    return {"findings": findings, "episodes": verified.episodes, "steps": verified.steps, "traced": verified.traced_steps}


def _size_problems(run: Path, job: Job) -> Iterator[list[str]]:
    """Path and problem of each file that would become too large."""
    for path in sorted(run.glob("episodes/*/*")):
        problem = None
        if path.suffix == ".parquet":
            problem = table_problem(path, job.unpacked_bytes, job.rows)
        elif path.suffix == ".zst":
            problem = lines_problem(path, job.unpacked_bytes)
        if problem is not None:
            yield [str(path.relative_to(run)), problem]


def _derive(job: Job, run: Path, plugins: Plugins, changes: dict[str, JsonValue]) -> None:
    """Series and decisions of a trading card, once its records are known to be right."""
    card = load_card(run / "cards" / CARD)
    if card["kind"] != "trading":
        return
    folder, out = RunFolder.load(run), Path(job.out)
    snapshot = open_recorded_snapshot(folder, plugins, changes)
    write_atomic(out / SERIES, dumps_canonical(make_series(folder, job.card_id, card, snapshot, plugins)))
    write_atomic(out / DECISIONS, dumps_canonical(make_decisions(folder, job.card_id, card)))


def _short(text: str, run: Path) -> str:
    """A message without the path of the private folder."""
    return text.replace(f"{run}/", "").replace(str(run), "records")


if __name__ == "__main__":
    sys.exit(main())
