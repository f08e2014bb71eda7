"""Steps of forward tests on a disk that is full, with a remote that refuses, and under cron."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import FileClock
from ktdeval_live.publication.publish_chain import publications, publish
from support.live.live_drops import Drops, begin_drops, ends, ledger, plugins, replayed
from support.runs.run_support import error_line, ktdeval

DAYS = ("2024-05-31", "2024-06-03", "2024-06-04")
"""Sessions on which is decided."""
SPAN = {"first": "2024-06-03", "last": "2024-06-05"}


def assert_sound(drops: Drops) -> None:
    """Everything that is on record holds."""
    assert [str(finding) for finding in verify_test(drops.folder, plugins()).findings] == []


def due(drops: Drops, day: str) -> None:
    """Drop a day and set the clock to when its data are asked for."""
    drops.drop(day)
    drops.after_close(day)


# ---- a disk that is full


@pytest.fixture
def drops(tmp_path: Path) -> Drops:
    """A test whose first day is there to be decided on."""
    drops = begin_drops(tmp_path, **SPAN)
    due(drops, DAYS[0])
    return drops


@pytest.mark.exhaustive
@pytest.mark.parametrize("more", [0, 500, 1500, 3000])
def test_step_on_a_full_disk_ends_with_one_line_and_the_next_one_goes_on(
    drops: Drops, tmp_path: Path, more: int
) -> None:
    for day in DAYS:
        due(drops, day)
        room = (drops.path / "chain.jsonl").stat().st_size + more
        full = ktdeval(*drops.words, cwd=tmp_path, max_file_bytes=room)
        if full.code:
            assert error_line(full)

        done = ktdeval(*drops.words, cwd=tmp_path)
        assert done.code == 0, done

    due(drops, SPAN["last"])

    assert ktdeval(*drops.words, cwd=tmp_path).code == 0

    assert_sound(drops)
    assert ledger(drops.folder, "momentum") == ledger(replayed(tmp_path, **SPAN), "momentum")


# ---- a remote that refuses


REFUSES = "#!/bin/sh\necho 'no room left' >&2\nexit 1\n"
ONCE = '#!/bin/sh\ntest -e "{mark}" && exit 1\ntouch "{mark}"\n'


def write_hook(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


def begin_with_remote(folder: Path, hook: str) -> tuple[Drops, Path]:
    """Begin a test with a remote that has a hook; return the test and the hook."""
    remote = folder / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    path = remote / "hooks" / "pre-receive"
    write_hook(path, hook)
    drops = begin_drops(folder, **SPAN, publish={"remote": str(remote)})
    due(drops, DAYS[0])

    return drops, path


@pytest.mark.exhaustive
def test_nobody_is_asked_before_the_data_are_public(tmp_path: Path) -> None:
    drops, hook = begin_with_remote(tmp_path, REFUSES)
    first, second, third = DAYS
    report = drops.step_here()

    assert "no room left" in report.problems[0]
    assert (report.decided, publications(drops.folder)) == ([], [])

    hook.unlink()  # repaired in time
    assert drops.step_here().decided == [f"momentum/us {first}: 6 orders"]
    assert publications(drops.folder)[-1].pushed

    write_hook(hook, REFUSES)
    due(drops, second)
    drops.step_here()
    drops.before_cutoff(second, minutes=-1)
    hook.unlink()  # too late

    assert drops.step_here().gaps == [f"momentum/us {second}: unpublished"]

    due(drops, third)
    drops.step_here()

    assert ends(drops.folder) == {first: "decided", second: "unpublished", third: "decided"}

    assert_sound(drops)


@pytest.mark.exhaustive
def test_data_that_became_public_in_time_are_not_the_cause_of_a_gap(tmp_path: Path) -> None:
    drops, hook = begin_with_remote(tmp_path, REFUSES)
    drops.step_here()
    hook.unlink()
    folder = drops.folder

    assert publish(folder, folder.chain(), FileClock(drops.clock_file))  # and nobody steps after it

    drops.before_cutoff(DAYS[0], minutes=-1)
    assert drops.step_here().gaps == [f"momentum/us {DAYS[0]}: missed"]

    assert_sound(drops)


@pytest.mark.exhaustive
def test_decision_that_was_not_public_in_time_is_a_gap(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    drops, hook = begin_with_remote(tmp_path, ONCE.format(mark=mark))
    first, second, _ = DAYS
    report = drops.step_here()  # the data are public, and the decision is not

    assert report.decided
    assert len(report.problems) == 1

    mark.unlink()  # repaired in time
    drops.step_here()
    drops.before_cutoff(first, minutes=-1)

    assert drops.step_here().gaps == []

    mark.unlink(missing_ok=True)
    due(drops, second)

    assert drops.step_here().decided

    drops.before_cutoff(second, minutes=-1)
    hook.unlink()  # too late

    assert drops.step_here().gaps == [f"momentum/us {second}: unpublished"]
    assert ends(drops.folder) == {first: "decided", second: "unpublished"}

    assert_sound(drops)
    filled = {record.decided_on: record for record in ledger(drops.folder, "momentum")}

    assert not filled[second].orders


@pytest.mark.exhaustive
def test_decision_that_came_to_nothing_is_not_in_the_next_account(tmp_path: Path) -> None:
    drops, hook = begin_with_remote(tmp_path, ONCE.format(mark=tmp_path / "mark"))
    first, second, _ = DAYS
    assert drops.step_here().decided

    hook.unlink()  # too late: the next step is that of the next close
    due(drops, second)
    report = drops.step_here()

    assert report.gaps == [f"momentum/us {first}: unpublished"]
    assert report.decided

    assert_sound(drops)


# ---- what killed processes leave


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "refs/heads/main.lock"])
def test_lock_that_a_killed_git_left_is_removed(drops: Drops, name: str) -> None:
    lock = drops.path / ".git" / name
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))

    assert drops.step_here().decided
    assert not lock.exists()


def test_lines_that_a_killed_process_left_are_cut_off(drops: Drops) -> None:
    for day in DAYS[:2]:
        due(drops, day)
        drops.step_here()
        for name in ("chain.jsonl", "published.jsonl"):
            with (drops.path / name).open("ab") as file:
                file.write(b'{"at":"2024-0')

    assert len(drops.folder.chain().entries) == 5

    assert_sound(drops)


def test_test_that_was_killed_while_it_began_can_begin_again(drops: Drops, tmp_path: Path) -> None:
    shutil.rmtree(drops.path)
    (tmp_path / ".test.new-abcdefgh" / "content" / "base").mkdir(parents=True)
    again = begin_drops(tmp_path, **SPAN)

    assert again.folder.chain().entries
    assert not (tmp_path / ".test.new-abcdefgh").exists()


# ---- surroundings


@pytest.mark.exhaustive
def test_step_needs_neither_home_nor_terminal_nor_its_folder(drops: Drops, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "json.py").write_text("raise SystemExit('not ours')\n", "utf-8")
    (elsewhere / "ktdeval").mkdir()
    done = subprocess.run(
        [Path(sys.executable).parent / "ktdeval", *drops.words],
        cwd=elsewhere,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"decided: momentum/us 2024-05-31: 6 orders" in done.stdout

    assert_sound(drops)


def test_git_takes_no_other_repository_and_no_settings_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    subprocess.run(["git", "init", "--quiet", str(other)], check=True)
    write_hook(tmp_path / "hooks" / "pre-commit", REFUSES)
    (tmp_path / "ignored").write_text("*.json\n*.jsonl\n", "utf-8")
    settings = tmp_path / "settings"
    settings.write_text(
        f"[core]\nexcludesFile = {tmp_path}/ignored\nhooksPath = {tmp_path}/hooks\n"
        "[commit]\ngpgSign = true\n",
        "utf-8",
    )
    for variable, path in {
        "GIT_CONFIG_GLOBAL": settings,
        "GIT_DIR": other / ".git",
        "GIT_WORK_TREE": other,
        "GIT_INDEX_FILE": other / "index",
    }.items():
        monkeypatch.setenv(variable, str(path))

    drops = begin_drops(tmp_path, **SPAN)
    due(drops, DAYS[0])

    assert drops.step_here().problems == []

    assert_sound(drops)
    assert not list((other / ".git" / "objects").glob("??"))


def test_test_without_its_repository_takes_none_around_it(drops: Drops, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    shutil.rmtree(drops.path / ".git")

    assert ".git: can't be opened" in drops.step_here().problems[0]
    assert not list((tmp_path / ".git" / "objects").glob("??"))
