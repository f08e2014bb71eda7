"""A folder of logs is audited as one: bad files are named, none blocks the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from audit_play import conversation, day, write_lines
from ktdeval.cli.main import cli
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval_audit.decision_days import date_log
from ktdeval_audit.readers import read_log

LEAK = conversation("", tool=f"It closed at 5 on {day(3)}.")
UNDATED = {"messages": [{"role": "user", "content": "Decide."}]}


def _run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three logs of two agents, the settings beside them, and what no reader should open."""
    folder = tmp_path / "agents"
    for name, record in {
        "b/log/log.jsonl": LEAK,
        "a/log.jsonl": conversation("Decide."),
        "a/state.json": {"trade_date": day(), "market_report": "It rose."},
        "a/config.json": {"rate": 5},
        "a/position.jsonl": {"date": day(), "positions": {"CASH": 5.0}},
        ".cache/log.jsonl": LEAK,
        "notes.txt": LEAK,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_lines(path, [record])
    return folder


def test_one_bad_log_is_named_and_the_others_are_audited(folder: Path) -> None:
    (folder / "a/bad.jsonl").write_text('{"messages": []}\n{broken\n', encoding="utf-8")
    (folder / "c.json").write_bytes(b"\x80\x04")
    result = _run(folder)

    assert result.exit_code == 2
    assert "2 could not be read:" in result.output
    assert f"  {folder}/a/bad.jsonl:2: is not JSON" in result.output
    assert f"  {folder}/c.json: is a pickle file, which can run code; write" in result.output
    assert "1 error" in result.output

    report = json.loads(_run(folder, "--json").output)
    assert (report["errors"], report["files"], len(report["unread"])) == (1, 3, 2)
    assert report["findings"][0]["path"] == "b/log/log.jsonl"
    assert "::error title=ktdeval audit%3A not read::" in _run(folder, "--github").output


def test_nothing_is_found_only_in_what_was_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.jsonl", [conversation("Decide.", tool="quiet")])
    (tmp_path / "b.jsonl").write_text("{", encoding="utf-8")
    result = _run(tmp_path)

    assert result.exit_code == 2
    assert result.output.startswith(
        "Nothing was found that the agent could not have known in the logs that could be read."
    )


def test_sarif_says_that_logs_could_not_be_read(folder: Path, tmp_path: Path) -> None:
    (folder / "bad.json").write_text("{", encoding="utf-8")
    _run(folder, "--sarif", tmp_path / "out.sarif")
    (run,) = json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8"))["runs"]

    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert (
        "bad.json:1: is not JSON" in invocation["toolExecutionNotifications"][0]["message"]["text"]
    )


@pytest.mark.parametrize(
    ("files", "error", "words"),
    [
        ({}, UsageError, r"contains no log; give a folder with files \.jsonl"),
        ({"a.txt": "{}"}, UsageError, "contains no log"),
        (
            {"a.json": '{"a": 1}'},
            UsageError,
            "none of its 1 files is a log; the first: .*matches no known kind of log",
        ),
        ({"a.json": "{", "b.json": "{"}, DataError, r"can be read; the first: .*a\.json:1: is not"),
    ],
)
def test_a_folder_without_a_readable_log_is_refused(
    tmp_path: Path, files: dict[str, str], error: type[Exception], words: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    with pytest.raises(error, match=words):
        read_log(tmp_path)


def test_a_manifest_of_another_program_makes_no_run_folder(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"version": 3}', encoding="utf-8")
    assert len(read_log(folder).decisions) == 3

    (folder / "manifest.json").write_text('{"episodes": []}', encoding="utf-8")
    with pytest.raises(StoreError, match="version none of a run folder"):
        read_log(folder)


# ---- days


def test_nearest_folder_named_by_a_date_dates_files_without_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "2024-01-02/ACME/2024-03-05 15:00:00/run 7/log.jsonl"
    path.parent.mkdir(parents=True)
    write_lines(path, [UNDATED, conversation("")])

    dated = date_log(read_log(tmp_path))

    assert [str(each) for each in dated.days] == [day(), "2024-03-05"]
    words = "1 of 2 decisions name no day; they were given the day of their folder."
    assert words in _run(tmp_path).output
