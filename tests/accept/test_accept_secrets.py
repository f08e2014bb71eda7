"""Runs that fail in every way, and not one of the files, messages, logs and tracebacks that they
leave behind holds the key.
"""

from __future__ import annotations

import base64
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from support.providers.stub_provider import FaultPlan, Stub, skip_without_sdks
from support.providers.stub_runs import TASK_APART, WIRES, apart, contents, environment_of, words_of
from support.runs.run_support import PLUGIN, Done, ktdeval, start

skip_without_sdks()

KEY = "stub-secret-key-Zq7RkV2mXw9TtPzB"
STUB = {"key": KEY}  # which it quotes wherever it can
TRACES = (
    KEY.encode(),
    KEY[16:].encode(),
    KEY[:-4].encode(),
    base64.b64encode(KEY.encode()),
    KEY[::-1].encode(),
)
"""The key, most of it, and its usual disguises."""
SHORT = (*apart(2, 2), "--canary", 1)


@pytest.fixture(autouse=True)
def _calm_again(stub: Stub) -> Iterator[None]:
    yield
    stub.plan = FaultPlan()


def assert_no_trace(done: Done | str, folder: Path | None = None) -> None:
    """Neither what was printed nor any file below the folder, unpacked, holds the key."""
    text = done if isinstance(done, str) else done.out + done.err

    assert not [trace for trace in TRACES if trace in text.encode()]

    if folder is not None:
        for path, data in contents(folder):
            assert not [trace for trace in TRACES if trace in data], path


def attempt(
    wire: str, stub: Stub, market: Path, out: Path, *words: object, **environment: str
) -> Done:
    """A run over a wire."""
    command = words_of(WIRES[wire], stub, *SHORT, "--data", market, "--out", out, *words)
    environment = environment_of(WIRES[wire], KEY) | environment

    if "PYTHON_KEYRING_BACKEND" in environment:  # which keyring looks at once in a process
        return start(*command, cwd=out.parent, environment=environment).wait()

    return ktdeval(*command, cwd=out.parent, environment=environment)


def _packed_file(path: Path) -> None:
    path.write_bytes(b"before" + zstandard.ZstdCompressor().compress(f"a {KEY} b".encode()))


def _page(path: Path) -> None:
    path.write_text(
        f"<script>{base64.b64encode(zlib.compress(f'a {KEY} b'.encode())).decode()}</script>"
    )


def _database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE kept (reply BLOB)")
        database.execute(
            "INSERT INTO kept VALUES (?)",
            [os.urandom(5000) + zstandard.ZstdCompressor().compress(KEY.encode())],
        )
        database.commit()


@pytest.mark.parametrize(
    "write", [_packed_file, _page, _database, lambda path: path.with_name(KEY).mkdir()]
)
def test_the_search_finds_what_is_there(tmp_path: Path, write: Callable[[Path], None]) -> None:
    assert_no_trace("", tmp_path)
    write(tmp_path / "file")
    with pytest.raises(AssertionError):
        assert_no_trace("", tmp_path)

    with pytest.raises(AssertionError):
        assert_no_trace(f"…{KEY}…")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("wire", ["responses", "anthropic"])
def test_a_run_through_all_faults_leaves_no_trace_of_the_key(
    stub: Stub, market: Path, tmp_path: Path, wire: str
) -> None:
    retried = (
        "rate_limited server overloaded malformed wrong_shape html error_200 reset_body context"
    )
    faults = tuple(retried.split())
    stub.plan = FaultPlan(faults=faults)
    done = attempt(wire, stub, market, tmp_path / "run", "--max-failures", 1000)

    assert done.code == 0, done
    assert {seen.outcome for seen in stub.requests if seen.wire == WIRES[wire].name} >= set(faults)

    environment = environment_of(WIRES[wire], KEY)
    for words in ("card show", "card verify", "score", "view"):
        finished = ktdeval(*words.split(), "run", cwd=tmp_path, environment=environment)
        assert finished.code == 0, finished
        assert_no_trace(finished)

    assert list(tmp_path.rglob("*.html"))

    assert_no_trace(done, tmp_path)


@pytest.mark.parametrize(
    ("wire", "fault"),
    [("chat", "unauthorized"), ("anthropic", "forbidden"), ("google", "unauthorized")],
)
def test_a_run_that_is_turned_away_leaves_no_trace_of_the_key(
    stub: Stub, market: Path, tmp_path: Path, wire: str, fault: str
) -> None:
    first = len(stub.requests)
    stub.plan = FaultPlan(by_number=dict.fromkeys(range(first + 6, first + 1000), fault))
    done = attempt(wire, stub, market, tmp_path / "run")

    assert done.code != 0
    assert "HTTP 40" in done.err
    assert "[key]" in done.err  # the provider's words are shown without it

    assert_no_trace(done, tmp_path)


@pytest.mark.parametrize("fault", ["server", "html"])
def test_a_run_that_gives_up_leaves_no_trace_of_the_key(
    stub: Stub, market: Path, tmp_path: Path, fault: str
) -> None:
    stub.plan = FaultPlan(faults=(fault,), attempts=1000, phase="submission")
    words = ("--max-retries", 0, "--max-failures", 1, "--tool-protocol", "native")
    done = attempt("chat", stub, market, tmp_path / "run", *words)

    assert done.code != 0
    assert "same command again" in done.err

    assert_no_trace(done, tmp_path)


def test_a_log_of_everything_holds_no_key(stub: Stub, market: Path, tmp_path: Path) -> None:
    stub.plan = FaultPlan(faults=("server", "malformed", "forbidden"))
    more = ("--canary", 0, "--data", market, "--out", tmp_path / "run")
    words = words_of(WIRES["chat"], stub, *apart(1, 1), *more)
    program = (
        "import logging, sys; logging.basicConfig(level=1); from ktdeval.cli.main import main;"
        " sys.exit(main())"
    )
    command = [sys.executable, "-X", "dev", "-c", program, *map(str, words)]
    environment = os.environ | environment_of(WIRES["chat"], KEY)
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    assert "DEBUG" in done.stderr

    assert_no_trace(done.stdout + done.stderr, tmp_path)


def test_a_key_from_the_keyring_is_protected_too(stub: Stub, market: Path, tmp_path: Path) -> None:
    pytest.importorskip("keyring")
    ring = {
        "OPENAI_API_KEY": "",
        "PYTHON_KEYRING_BACKEND": "support.providers.stub_keyring.StubKeyring",
        "STUB_RING_HOLDS": KEY,
    }
    done = attempt("responses", stub, market, tmp_path / "run", **ring)

    assert done.code == 0, done

    stub.plan = FaultPlan(faults=("unauthorized",), attempts=1000)
    refused = attempt("responses", stub, market, tmp_path / "refused", **ring)

    assert refused.code == 2

    assert_no_trace(done)
    assert_no_trace(refused, tmp_path)


def test_a_key_from_any_variable_is_protected_and_the_variable_named(
    stub: Stub, market: Path, tmp_path: Path
) -> None:
    words = ("--model-args", "api_key_env=WORKPLACE_THING")
    keys = {"OPENAI_API_KEY": "", "WORKPLACE_THING": KEY}
    done = attempt("responses", stub, market, tmp_path / "run", *words, **keys)

    assert done.code == 0, done
    assert "WORKPLACE_THING" in (tmp_path / "run" / "cards" / f"{TASK_APART}.json").read_text()

    assert_no_trace(done)
    stub.plan = FaultPlan(faults=("forbidden",), attempts=1000, phase="submission")
    done = attempt(
        "responses", stub, market, tmp_path / "refused", *words, "--tool-protocol", "native", **keys
    )

    assert done.code == 2, done

    assert_no_trace(done, tmp_path)


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "WORKPLACE_THING"])
def test_an_agent_that_fails_and_prints_its_environment_shows_no_key(
    stub: Stub, market: Path, tmp_path: Path, variable: str
) -> None:
    words = ("--plugin", PLUGIN, "--agent", "leaky", "--model-args", f"api_key_env={variable}")
    done = attempt(
        "responses", stub, market, tmp_path / "run", *words, **{"OPENAI_API_KEY": "", variable: KEY}
    )

    assert done.code == 1, done
    assert "unexpected environment" in done.err

    assert_no_trace(done, tmp_path)


@pytest.mark.parametrize("words", [
    ("--model-args", f"api_key_env={KEY}"),
    ("--model-args", f"api_key={KEY}"),
    ("--api-key", KEY),
    ("--base-url", f"http://key:{KEY}@127.0.0.1/v1"),
    ("--base-url", f"http://127.0.0.1/v1?api_key={KEY}"),
])  # fmt: skip
def test_a_key_in_a_wrong_place_is_refused_and_neither_shown_nor_recorded(
    stub: Stub, market: Path, tmp_path: Path, words: tuple[str, str]
) -> None:
    done = attempt("responses", stub, market, tmp_path / "run", *words)
    assert done.code == 2, done
    assert done.err.count("\n") == 1
    assert_no_trace(done, tmp_path)
