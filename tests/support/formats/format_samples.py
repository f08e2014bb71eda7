"""Samples of each format, a small one for each release:

    PYTHONPATH=tests python tests/support/formats/format_samples.py

makes those of the installed release, by real commands, or those of the formats that it names. Those
of earlier releases stay as they are.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import zstandard
from exchange_calendars import get_calendar

import ktdeval
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import CacheEntry
from ktdeval.harness.chat_messages import Reply, Usage
from support.paths import REPOSITORY

FOLDER = Path(__file__).parent
MAX_BYTES = 40_000  #: of one packed sample
KEY = "5eed" * 8
_TASK = ("--tasks", "blinded_open_research", "--windows", "W1", "--limit", "1")

#: By format: the command that opens its sample, with `{}` for where it was unpacked
OPENED_BY = {
    "file of calls": ("files", "list", "{}/replies.sqlite"),
    "run folder": ("view", "{}/run", "--out", "{}/pages"),
    "card": ("card", "show", "{}/card.json"),
    "grid": ("grid", "status", "{}/grid"),
    "board": ("leaderboard", "check", "{}/board"),
    "forward test": ("live", "status", "{}/test"),
    "market": ("data", "info", "{}/market"),
    "transplant": ("compare", "transplant", "{}/run-transplanted"),
    "fork": ("fork", "{}/run-fork"),
    "judge": ("judge", "{}/judged"),
}

_PLAN = """
name: sample
kind: rehearsal
first: 2024-02-21
last: 2024-02-22
shadow_days: 0
markets:
  us: {data: market, task: market_bright, source: stored}
entrants:
  - {name: still, model: builtin/hold}
"""
_SESSIONS = 40  #: of the sample's market, from the first of 2024 on


def release() -> str:
    """Return the release that is installed, such as `0.1`."""
    return ".".join(ktdeval.__version__.split(".")[:2])


def sample_path(of_release: str, name: str) -> Path:
    """Return the file of a sample."""
    return FOLDER / of_release / f"{name.replace(' ', '-')}.tar.zst"


def unpack(sample: Path, target: Path) -> None:
    """Unpack a sample into a folder."""
    data = zstandard.ZstdDecompressor().decompress(sample.read_bytes(), max_output_size=50_000_000)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(target, filter="data")


def _run(*words: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "ktdeval", *map(str, words)]
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def _make_all(work: Path) -> dict[str, list[str]]:
    """Make a sample of each format in a folder; return the names that belong to each."""
    reply = Reply("hold", usage=Usage(12, 3), served_by="sample-1")
    entry = CacheEntry("ab" * 32, "openai", "sample", reply, "2026-01-02T03:04:05.000Z")

    with CallDatabase(work / "replies.sqlite") as cache:
        cache.put([entry])

    _run(
        "run", "--model", "builtin/hold", *_TASK, "--mask-key", KEY, "--out", "run", "--quiet",
        cwd=work,
    )  # fmt: skip
    _run("compare", "transplant", "run", "--cash", "1e6", cwd=work)
    _run("fork", "run", cwd=work)
    weights = REPOSITORY / "examples" / "judge" / "weights.csv"
    _run("judge", weights, "--data", "synthetic", "--out", "judged", cwd=work)
    (card,) = (work / "run" / "cards").glob("*.json")
    (work / "card.json").write_bytes(card.read_bytes())
    _run(
        "grid", "--models", "builtin/hold", *_TASK, "--mask-key", KEY, "--pages", "none",
        "--workers", "1", "--out", "grid", "--yes",
        cwd=work,
    )  # fmt: skip
    _make_market(work)
    (work / "plan.yaml").write_text(_PLAN)
    _run("live", "init", "plan.yaml", "--out", "test", "--replay", cwd=work)
    _make_board(work)

    return {
        "file of calls": ["replies.sqlite"],
        "run folder": ["run"],
        "card": ["card.json"],
        "grid": ["grid/grid.json", "grid/done", "grid/launches"],
        "board": [f"board/{name}" for name in ("board.yaml", "errata.yaml", *_BOARD_FOLDERS)],
        "forward test": [f"test/{name}" for name in _TEST_PARTS],
        "market": ["market"],
        "transplant": ["run-transplanted/transplant.json"],
        "fork": ["run-fork"],
        "judge": ["judged/judge.json", "judged/declared.json"],
    }


#: Of a board, folders of documents; the schemas are those of the installed release
_BOARD_FOLDERS = ("registrations", "keys")
#: Of a forward test, all but its git repository, which `verify` alone needs
_TEST_PARTS = ("base", "chain.jsonl", "data", "plan.json", "private", "published.jsonl", "records")
_TEST_PARTS += ("schedules", ".gitignore")


def _make_market(work: Path) -> None:
    """Store a market of two stocks."""
    sessions = get_calendar("XNYS").sessions_in_range("2024-01-01", "2024-12-31")[:_SESSIONS]
    lines = ["date,code,open,high,low,close,volume"]

    for number, day in enumerate(sessions):
        for code, first in (("AAPL", 185), ("MSFT", 370)):
            price = first + number % 7
            bar = (price, price + 2, price - 1, price + 1, 1_000_000 + 1_000 * number)
            lines.append(f"{day:%Y-%m-%d},{code},{','.join(map(str, bar))}")

    (work / "bars.csv").write_text("\n".join(lines) + "\n")
    _run(
        "data", "make", "long", "--bars", "bars.csv", "--venue", "us_equity", "--out", "market",
        cwd=work,
    )  # fmt: skip


def _make_board(work: Path) -> None:
    """Begin a board, with a registration and the key that was drawn for it."""
    day = ("--on", "2026-01-02")
    contact = ("--contact", "sample@example.org")
    (work / "wishes.yaml").write_text("baselines: [builtin/equal_weight]\n")
    _run(
        "leaderboard", *day, "init", "board", "--name", "sample", "--title", "Sample",
        *_TASK[:4], "--config", "wishes.yaml", *contact,
        cwd=work,
    )  # fmt: skip
    _run(
        "leaderboard", *day, "register", "--board", "board", "--division", "blinded-open-research",
        "--model", "builtin/hold", "--submitter", "Sample", *contact,
        cwd=work,
    )  # fmt: skip
    _run("leaderboard", *day, "draw", "board", cwd=work)


def _pack(work: Path, names: list[str], target: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in names:
            archive.add(work / name, name, filter=_plain)

    target.parent.mkdir(exist_ok=True)
    target.write_bytes(zstandard.ZstdCompressor(level=19).compress(buffer.getvalue()))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = 0
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Make the samples of the installed release, or those of the formats that are named."""
    wanted = sys.argv[1:] or list(OPENED_BY)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name, parts in _make_all(work).items():
            if name in wanted:
                _pack(work, parts, sample_path(release(), name))


if __name__ == "__main__":
    main()
