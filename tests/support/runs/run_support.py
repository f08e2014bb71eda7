"""Runs of the real command line, and what to look at afterwards.

`ktdeval` runs a command here, in a folder and environment of its own, which takes a third of the
time of a process. What is to be killed or waited for is a process (`start`): it comes from a fork
server that has imported what a command needs, has its own pid, folder, environment, limits and
signals, and ends with the exit code of `ktdeval.cli.main.main`, as `python -m ktdeval`.
"""

from __future__ import annotations

import faulthandler
import functools
import io
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import product
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ktdeval.cli.main import main
from ktdeval.errors import BudgetError
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.runner import RunFolder, local_run_path
from ktdeval.testing import small_market
from ktdeval.values import dumps_pretty
from support.paths import TESTS

PLUGIN = Path(__file__).with_name("run_plugin.py")
TASK = "blinded_open_research"
WINDOW = "2024-03-01:2024-03-29"
DAYS_IN_WINDOW = 21
MASK_KEY = "5eed" * 8
MIXED_RUN = ("--plugin", PLUGIN, "--model", "test/mixed", "--tasks", TASK, "--windows", WINDOW)
"""Words of a run with orders of all kinds, failures and retries."""

SAME_MASK = ("--mask-key", MASK_KEY)  # for runs that are compared byte by byte

_DIES = "RUN_PLUGIN_DIE"  # how the variables begin that tell `run_plugin` when to kill its process

_SERVER = multiprocessing.get_context("forkserver")
PRELOADED = [
    "pandas",
    "pyarrow.dataset",
    "pytest",
    "ktdeval.cards.show",
    "ktdeval.cli.main",
    "ktdeval.runner.scoring.verify",
    "ktdeval_builtin.react",
    "ktdeval_ktdfin.task",
    "ktdeval_ktdfin.tools",
    "ktdeval_builtin.attribution_metrics",
    "ktdeval_models.builtin_models",
    "ktdeval.stats.metric_panel",
    "support.runs.run_support",
    "yaml",
    "support.runs.warm_commands",
]
_SERVER.set_forkserver_preload(PRELOADED)


def preload(*modules: str) -> None:
    """Have the fork server import more, where it does not run yet; what is not installed is passed
    over.
    """
    PRELOADED[-1:-1] = modules  # before what freezes all that is there
    _SERVER.set_forkserver_preload(PRELOADED)


@functools.cache
def _start_server() -> None:
    """Python 3.11's server finds no module to preload but by PYTHONPATH, and says nothing;
    `warm_commands` takes it out again.
    """
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), *([path] if path else [])])

    try:
        forkserver.ensure_running()
    finally:
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path


@dataclass(frozen=True)
class Done:
    """How a process ended: its exit code (negative: the signal that killed it), stdout and
    stderr.
    """

    code: int
    out: str
    err: str


class Running:
    """A `ktdeval` process that runs."""

    def __init__(
        self, words: tuple[str, ...], cwd: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        _start_server()
        self._out, out = _SERVER.Pipe(duplex=False)
        self._err, err = _SERVER.Pipe(duplex=False)
        arguments = (words, str(cwd), dict(environment or {}), out, err)
        self._process = _SERVER.Process(target=_main, args=arguments)
        self._process.start()
        _STARTED.append(self)
        out.close()
        err.close()

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it as a power cut would, and wait for its end."""
        self.signal(signal.SIGKILL)
        assert self.wait().code == -signal.SIGKILL

    def is_alive(self) -> bool:
        """True while it runs."""
        return self._process.is_alive()

    def wait(self) -> Done:
        """Wait for its end."""
        # both at once: a full pipe stops the process that nobody reads
        with ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(_read_all, (self._out, self._err)))

        self._process.join()

        assert self._process.exitcode is not None

        return Done(self._process.exitcode, *texts)


_STARTED: list[Running] = []


def end_what_runs() -> None:
    """Kill the processes that a test left behind, as one does that fails half-way: they would ask
    the next test's server.
    """
    while _STARTED:
        if (left := _STARTED.pop()).is_alive():
            left.signal(signal.SIGKILL)


def _read_all(connection: Connection) -> str:
    pieces = []
    while piece := os.read(connection.fileno(), 1 << 16):
        pieces.append(piece)

    connection.close()

    return b"".join(pieces).decode()


def _main(
    words: tuple[str, ...],
    cwd: str,
    environment: Mapping[str, str],
    out: Connection,
    err: Connection,
) -> None:
    """The life of a process, in that process."""
    os.chdir(cwd)
    os.environ.update({"COLUMNS": "120", **environment})
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    out.close()
    err.close()
    faulthandler.enable()  # a process that crashes says where
    sys.exit(main(words))


def start(*words: object, cwd: Path, environment: Mapping[str, str] | None = None) -> Running:
    """Start `ktdeval WORDS` in the folder `cwd`."""
    return Running(tuple(map(str, words)), cwd, environment)


def ktdeval(
    *words: object,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    max_file_bytes: int | None = None,
) -> Done:
    """Run `ktdeval WORDS` to its end: here, or in a process of its own where it is to die. No file
    grows past `max_file_bytes`.
    """
    if any(name.startswith(_DIES) for name in environment or ()):
        return start(*words, cwd=cwd, environment=environment).wait()

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n") for _ in range(2))
    _, unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    with _as_process_of(cwd, environment or {}), redirect_stdout(out), redirect_stderr(err):
        if max_file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, unlimited))

        try:
            code = main([str(word) for word in words])
        except Exception as error:  # noqa: BLE001 - a defect ends a process with its traceback
            sys.excepthook(type(error), error, error.__traceback__)
            code = 1
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (unlimited, unlimited))

    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]

    return Done(code, *texts)


@contextmanager
def _as_process_of(cwd: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Folder and variables of a process for the while; plugins that it imported by their paths are
    forgotten.
    """
    before = dict(os.environ)
    hook = sys.excepthook
    modules = set(sys.modules)
    at = Path.cwd()
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    os.environ.update({"COLUMNS": "120", **environment})
    os.chdir(cwd)

    try:
        yield
    finally:
        os.chdir(at)
        os.environ.clear()
        os.environ.update(before)
        sys.excepthook = hook
        sys.dont_write_bytecode = writes_none
        for name in set(sys.modules) - modules:
            file = getattr(sys.modules[name], "__file__", None)
            if file and not file.startswith(tuple(filter(None, sys.path))):
                del sys.modules[name]


def error_line(done: Done) -> str:
    """Return the one line on stderr with the reason of a failed command; anything else there, or a traceback,
    fails the test.
    """
    assert done.code not in (0, -signal.SIGKILL), done
    assert "Traceback" not in done.out + done.err, done
    assert done.err.count("\n") == 1, done

    how = "ktdeval: stopped: " if done.code == BudgetError.exit_code else "ktdeval: error: "
    assert done.err.startswith(how), done

    return done.err.removeprefix(how).rstrip("\n")


def store_market(folder: Path) -> Path:
    """The small market as a stored snapshot: quick to load, and it covers `WINDOW`."""
    save_snapshot(small_market(), folder)
    return folder


def local_copy(url: str) -> Path:
    """The copy on this machine of a run at a URL, with all that it has there."""
    folder = RunFolder.load(local_run_path(url))
    for spec in folder.manifest.specs:
        folder.episode_path(spec)

    return folder.path


def episodes(run: Path) -> list[Path]:
    """The folders of a run's episodes."""
    return sorted((run / "episodes").iterdir())


def records(run: Path) -> dict[str, bytes]:
    """Every byte that must be equal in two runs of one plan: ledgers and transcripts, by path."""
    files = {
        f"{folder.name}/{name}": (folder / name).read_bytes()
        for folder, name in product(episodes(run), ("ledger.parquet", "transcript.jsonl.zst"))
    }

    assert files

    return files


def cards(run: Path) -> dict[str, str]:
    """The text of a run's cards without their provenance and what code was there, by name."""
    texts = {}
    for path in sorted((run / "cards").glob("*.json")):
        card = json.loads(path.read_text())
        assert path.read_text() == dumps_pretty(card)  # so that equal values are equal bytes
        del card["provenance"]
        if card.pop("foreign", None):
            card["labels"] = [label for label in card["labels"] if label != "not isolated"]
            reasons = card["rankable"]["reasons"]
            kept = [reason for reason in reasons if "is not part of ktdeval" not in reason]
            card["rankable"] = {"value": not kept, "reasons": kept}

        for episode in card["episodes"]:
            episode.pop("made_by", None)

        texts[path.name] = dumps_pretty(card)

    assert texts

    return texts


def assert_same(run: Path, other: Path) -> None:
    """Ledgers and transcripts byte for byte, cards but for their provenance, and nothing left
    over.
    """
    assert records(run) == records(other)
    assert cards(run) == cards(other)

    names = {path.name for path in run.glob("episodes/*/*")}
    assert names == {"ledger.parquet", "transcript.jsonl.zst", "episode.json"}


def card_of(run: Path, task: str = TASK) -> dict[str, Any]:
    """The card of one task of a run."""
    card: dict[str, Any] = json.loads((run / "cards" / f"{task}.json").read_text())
    return card


def copy_run(run: Path, target: Path) -> Path:
    """A copy of a run to tamper with."""
    shutil.copytree(run, target)
    return target


def finished_steps(run: Path) -> int:
    """Whole lines in the journals of a run; 0 before there is one."""
    return sum(path.read_bytes().count(b"\n") for path in run.glob("episodes/*/journal.jsonl"))
