"""`ktdeval files` on the cache: what is kept, whether it is whole, and removing it, in the words of the command
line.
"""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import CacheEntry
from ktdeval.harness.chat_messages import Reply, Usage
from ktdeval.testing import Terminal
from ktdeval.values import sha256_hex


def aged(days: float) -> str:
    moment = datetime.now(UTC) - timedelta(days=days)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fill(path: Path) -> Path:
    """Three replies of one model, 1, 20 and 40 days old, and two of another."""
    with CallDatabase(path) as cache:
        for provider, model, ages in (
            ("openai", "gpt-9", (1, 20, 40)),
            ("anthropic", "opus-7", (2, 50)),
        ):
            entries = [
                CacheEntry(
                    sha256_hex(f"{model} {age}"),
                    provider,
                    model,
                    Reply(f"{age}" * 50, usage=Usage(1000, age)),
                    aged(age),
                )
                for age in ages
            ]
            cache.put(entries)

    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KTDEVAL_CACHE_DIR", str(tmp_path / "caches"))
    return tmp_path / "caches"


@pytest.fixture
def shared(folder: Path) -> Path:
    return fill(folder / "replies.sqlite")


def test_ls_lists_models_with_their_replies_tokens_and_days(terminal, shared, tmp_path):
    header, first, second, total, arrays = terminal.text("files", "list", "cache").splitlines()
    assert header.split("  ")[0] == "MODEL"
    assert first.split()[:2] == ["anthropic/opus-7", "2"]
    assert second.split()[:2] == ["openai/gpt-9", "3"]
    assert second.split()[3:] == ["3,000", "61", aged(40)[:10], aged(1)[:10]]
    assert total == f"{shared}: 5 replies, {shared.stat().st_size:,} bytes on disk"
    assert arrays == f"{shared.parent}/arrays: 0 entries of arrays, 0 bytes on disk"

    listing = terminal.report("files", "list", "cache")
    assert (listing["file"], listing["file_bytes"]) == (str(shared), shared.stat().st_size)

    uses = [
        (use["provider"], use["model"], use["replies"], use["input_tokens"])
        for use in listing["models"]
    ]

    assert uses == [("anthropic", "opus-7", 2, 2000), ("openai", "gpt-9", 3, 3000)]

    with CallDatabase(tmp_path / "run" / "replies.sqlite") as cache:
        cache.put([CacheEntry(sha256_hex("a"), "vllm", "qwen", Reply("hold"), aged(0))])

    assert "vllm/qwen" in terminal.text("files", "list", tmp_path / "run" / "replies.sqlite")
    assert "vllm/qwen" not in terminal.text("files", "list", "cache")


def test_before_the_first_entry_the_cache_is_empty_and_no_file_is_made(terminal, folder):
    commands = ("list cache", "check cache", "prune --all")
    said = "".join(terminal.text("files", *command.split()) for command in commands)

    assert said.replace(str(folder), "FOLDER") == snapshot("""\
FOLDER/replies.sqlite: 0 replies, 0 bytes on disk
FOLDER/arrays: 0 entries of arrays, 0 bytes on disk
FOLDER/replies.sqlite: 0 replies checked, all unchanged
FOLDER/replies.sqlite: removed 0 replies, 0 bytes
""")
    assert terminal.report("files", "list", "cache")["models"] == []
    assert not folder.exists()


PRUNES = {
    ("--all",): 5,
    ("--model", "openai/*", "--older-than", "30"): 1,
    ("--max-size", "0.0006"): 3,
}


@pytest.mark.parametrize("options", PRUNES)
def test_prune_removes_entries_by_option_and_a_dry_run_reports_the_same(terminal, shared, options):
    count = PRUNES[options]
    planned = terminal.report("files", "prune", *options, "--dry-run")

    assert (planned["replies"], planned["dry_run"]) == (count, True)
    assert "5 replies" in terminal.text("files", "list", "cache")

    words = "1 reply" if count == 1 else f"{count} replies"
    assert (
        terminal.text("files", "prune", *options)
        == f"{shared}: removed {words}, {planned['bytes']:,} bytes\n"
    )
    assert f"{5 - count} repl" in terminal.text("files", "list", "cache")
    assert "all unchanged" in terminal.text("files", "check", "cache")


def test_prune_needs_an_option_that_selects_entries(terminal, shared):
    refused = terminal.refusals(
        "files prune",
        "files prune --dry-run",
        "files prune --all --model openai/*",
        "files prune --all --older-than 0",
        "files prune --older-than -1",
        "files prune --older-than nan",
        "files prune --max-size -1",
        "files prune --max-size nan",
        "files prune --max-size inf",
    )
    assert refused == snapshot("""\
files prune
  ktdeval: error: name what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all without other options
files prune --dry-run
  ktdeval: error: name what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all without other options
files prune --all --model openai/*
  ktdeval: error: name what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all without other options
files prune --all --older-than 0
  ktdeval: error: name what to remove: --older-than DAYS, --model GLOB or --max-size MB, or --all without other options
files prune --older-than -1
  ktdeval: error: Invalid value for '--older-than': -1.0 is not in the range 0<=x<=36500; see `ktdeval files prune --help`
files prune --older-than nan
  ktdeval: error: Invalid value for '--older-than': 'nan' is not a finite number; see `ktdeval files prune --help`
files prune --max-size -1
  ktdeval: error: Invalid value for '--max-size': -1.0 is not in the range 0<=x<=1000000000; see `ktdeval files prune --help`
files prune --max-size nan
  ktdeval: error: Invalid value for '--max-size': 'nan' is not a finite number; see `ktdeval files prune --help`
files prune --max-size inf
  ktdeval: error: Invalid value for '--max-size': inf is not in the range 0<=x<=1000000000; see `ktdeval files prune --help`
""")

    code, out, err = terminal.call("files", "prune", "--model", "openai/gpt9")
    assert code == 0
    assert (out + err).replace(str(shared), "CACHE") == snapshot("""\
CACHE: removed 0 replies, 0 bytes
ktdeval: warning: --model 'openai/gpt9' matches no PROVIDER/MODEL in the cache; did you mean 'openai/gpt-9'?
""")
    assert "5 replies" in terminal.text("files", "list", "cache")


def damage(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE replies SET body = x'00' WHERE model = 'opus-7'")

    connection.close()


def problems(terminal: Terminal, *words: str) -> str:
    """What `verify` prints of a cache with problems."""
    code, out, err = terminal.call("files", "check", "cache", *words)
    assert (code, err) == (1, "")
    return out


def test_verify_finds_every_damaged_reply_and_exits_with_1(terminal, shared):
    assert (
        terminal.text("files", "check", "cache") == f"{shared}: 5 replies checked, all unchanged\n"
    )

    damage(shared)
    *findings, verdict = problems(terminal).splitlines()

    assert sorted(findings) == sorted(
        f"error [damaged] {sha256_hex(f'opus-7 {age}')}: its checksum does not match"
        for age in (2, 50)
    )
    assert verdict == f"{shared}: 5 replies checked, 2 problems"

    report = json.loads(problems(terminal, "--json"))
    assert (report["replies"], len(report["findings"])) == (5, 2)
    assert report["findings"][0]["message"] == "its checksum does not match"


def test_verify_advises_when_the_file_itself_is_damaged(terminal, shared):
    with CallDatabase(shared) as cache:
        cache.put(
            [
                CacheEntry(sha256_hex(str(n)), "openai", "gpt-9", Reply("x" * n), aged(0))
                for n in range(1, 200)
            ]
        )

    data = bytearray(shared.read_bytes())
    data[8 * 4096 : 9 * 4096] = bytes(4096)
    shared.write_bytes(data)
    out = problems(terminal)

    assert "error [damaged] " in out
    assert "  fix: delete the file; requests that are repeated are then paid again\n" in out


def test_files_that_are_no_cache_are_one_line(terminal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    notes = Path("notes.txt")
    notes.write_text("buy low, sell high\n" * 99)

    with sqlite3.connect("other.sqlite") as connection:
        connection.execute("CREATE TABLE bookmarks (address TEXT)")

    connection.close()
    os.mkfifo("pipe")
    Path("empty").touch()

    commands = [
        f"files {command} {path}"
        for path in ("pipe", notes, "other.sqlite", "empty", "''")
        for command in ("list", "check", "prune --all")
    ]
    assert terminal.refusals(*commands) == snapshot("""\
files list pipe
  ktdeval: error: pipe: reply cache: is not a plain file; choose another file (of a run: --cache)
files check pipe
  ktdeval: error: pipe: reply cache: is not a plain file; choose another file (of a run: --cache)
files prune --all pipe
  ktdeval: error: pipe: reply cache: is not a plain file; choose another file (of a run: --cache)
files list notes.txt
  ktdeval: error: notes.txt: reply cache: file is not a database; it is not a reply cache, or damaged: choose another file (of a run: --cache)
files check notes.txt
  ktdeval: error: notes.txt: reply cache: file is not a database; it is not a reply cache, or damaged: choose another file (of a run: --cache)
files prune --all notes.txt
  ktdeval: error: notes.txt: reply cache: file is not a database; it is not a reply cache, or damaged: choose another file (of a run: --cache)
files list other.sqlite
  ktdeval: error: other.sqlite: is an SQLite file of another application and is left as it is; choose another file (of a run: --cache)
files check other.sqlite
  ktdeval: error: other.sqlite: is an SQLite file of another application and is left as it is; choose another file (of a run: --cache)
files prune --all other.sqlite
  ktdeval: error: other.sqlite: is an SQLite file of another application and is left as it is; choose another file (of a run: --cache)
files list empty
  ktdeval: error: empty: reply cache: the file is empty; delete it, or choose another file (of a run: --cache)
files check empty
  ktdeval: error: empty: reply cache: the file is empty; delete it, or choose another file (of a run: --cache)
files prune --all empty
  ktdeval: error: empty: reply cache: the file is empty; delete it, or choose another file (of a run: --cache)
files list ''
  ktdeval: error: Invalid value for 'RUN|cache|FILE': the path is empty; see `ktdeval files list --help`
files check ''
  ktdeval: error: Invalid value for 'RUN|cache|FILE': the path is empty; see `ktdeval files check --help`
files prune --all ''
  ktdeval: error: Invalid value for '[FILE]': the path is empty; see `ktdeval files prune --help`
""")
    assert (notes.read_text(), Path("empty").read_bytes()) == ("buy low, sell high\n" * 99, b"")


def test_a_place_that_is_not_there_or_of_the_other_kind_is_one_line(
    terminal, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    refused = terminal.refusals(
        "files list nothing.sqlite", "files prune --all nothing.sqlite", "files prune --all ."
    )
    assert refused == snapshot("""\
files list nothing.sqlite
  ktdeval: error: nothing.sqlite: no run here or in the folders below it (a run has a manifest.json)
files prune --all nothing.sqlite
  ktdeval: error: nothing.sqlite: no such file; `ktdeval files list cache` shows the shared one
files prune --all .
  ktdeval: error: Invalid value for '[FILE]': File '.' is a directory; see `ktdeval files prune --help`
""")


def test_cache_keyword_means_the_shared_cache_and_not_a_folder(
    terminal, shared, tmp_path, monkeypatch
):
    (tmp_path / "cache").mkdir()
    monkeypatch.chdir(tmp_path)
    assert str(shared) in terminal.text("files", "list", "cache")
    assert f"{tmp_path}/cache: no run here" in terminal.refusal("files", "list", "./cache")


def test_options_that_choose_episodes_are_refused_of_a_cache(terminal, shared):
    refused = terminal.refusal("files", "list", shared, "--seed", "1")
    assert f"--seed selects episodes of runs, but {shared} is a cache" in refused
