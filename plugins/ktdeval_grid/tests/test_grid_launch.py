"""A launch from its estimate to its end, with workers that have ended; drivers in the background."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from inline_snapshot import snapshot

from grid_launches import intent_of, request_of
from grid_store import HandMade, done, record_of, small_plan
from ktdeval.errors import EpisodeFailure, UsageError
from ktdeval.stores import LocalStore
from ktdeval.testing import wait_for
from ktdeval.values import encode_canonical
from ktdeval_grid.launch import launch_command
from ktdeval_grid.launch.driver import read_request
from ktdeval_grid.launch.launch_command import _detach, _drive_here, _LaunchIntent, forecast
from ktdeval_grid.planning.estimate_types import Amount, GridEstimate, ModelEstimate
from ktdeval_grid.state.amend import Amendment
from ktdeval_grid.state.subprocess_command import _read_output

RUNNER = """
from ktdeval.api import Spec, hookimpl

class Ended:
    def run(self, *_):
        pass
    def start_workers(self, job):
        return self
    def exit_codes(self):
        return [{code}]
    def stop(self):
        pass
    kill = close = stop

@hookimpl
def ktdeval_runners():
    return [Spec("ended", Ended, "workers that have ended")]
"""
ESTIMATE = GridEstimate(
    models=(),
    total=ModelEstimate(
        name="total",
        episodes=3,
        is_free=True,
        left={"low": Amount(calls=0, input_tokens=0, output_tokens=0, cost_usd=0.0, hours=0.0)},
    ),
    concurrency=8,
    pruned=0,
    assumptions=(),
    warnings=(),
)


def run_instead(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Run a script in the place of the commands of ours that are started."""

    def own_command(*words: str) -> list[str]:
        return [sys.executable, "-I", "-S", "-c", script, *words]

    monkeypatch.setattr(launch_command, "own_command", own_command)


# ---- the estimate before it


@pytest.mark.parametrize(("begins", "words"), [(False, 2), (True, 3)])
def test_the_estimate_is_that_of_a_process_of_its_own(
    begins: bool,
    words: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = encode_canonical(ESTIMATE)
    script = f"import sys; print({text!r}); print(len(sys.argv) - 1, file=sys.stderr)"
    run_instead(monkeypatch, script)

    found = forecast(request_of(tmp_path), begins=begins)

    assert found == ESTIMATE
    assert capsys.readouterr().err == f"{words}\n"  # what it warned of is passed on


def test_the_process_that_estimates_has_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(tmp_path)
    seen = tmp_path / "seen"
    script = (
        f"import sys; open({str(seen)!r}, 'w').write(sys.stdin.read());"
        f" print({encode_canonical(ESTIMATE)!r})"
    )
    run_instead(monkeypatch, script)

    forecast(request)

    assert read_request(seen.read_bytes()) == request


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "sys.exit('warning: slow\\nktdeval: error: no task is called so')",
            "no task is called so",
        ),
        ("sys.exit(3)", "the estimate ended with 3"),
    ],
)
def test_an_estimate_that_fails_is_refused_with_what_it_said(
    script: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, f"import sys; {script}")

    with pytest.raises(UsageError) as raised:
        forecast(request_of(tmp_path))

    assert str(raised.value).endswith(message)


# ---- a driver in this process


def ended(folder: Path, code: int = 0, **changes: Any) -> _LaunchIntent:
    """A launch whose workers have ended with a code."""
    plugin = folder / f"runner_of_{folder.name}.py"  # a module of its own
    plugin.write_text(RUNNER.format(code=code))
    plan = small_plan(plugin=[str(plugin)])

    return intent_of(request_of(folder, plan=plan, runner="ended"), **changes)


def under_line(function: Callable[[_LaunchIntent], int], intent: _LaunchIntent) -> int:
    """Call a function as under a command line that names the plugins of the plan."""
    with click.Context(launch_command.launch) as context:
        context.params["plugin"] = intent.request.plan.plugin
        return function(intent)


def grid_of(folder: Path, units: int) -> HandMade:
    """A grid of eight units of which so many are done."""
    grid = HandMade(folder, record_of(small_plan()))
    for _, unit in list(grid.record.units())[:units]:
        grid.finish(done(unit.id))

    return grid


def test_a_launch_that_ran_to_its_end_prints_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid_of(tmp_path, 8)

    assert under_line(_drive_here, ended(tmp_path)) == 0

    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "small: 8 of 8 episodes done"
    assert printed.err == "small: 8 of 8 episodes done\n"  # progress
    assert LocalStore(tmp_path).exists("launches/0001-end.json")


def test_a_launch_that_left_units_raises_after_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid_of(tmp_path, 6)

    with pytest.raises(EpisodeFailure, match=r"^2 of 8 episodes are not done"):
        under_line(_drive_here, ended(tmp_path, code=1))

    assert "small: 6 of 8 episodes done" in capsys.readouterr().out


def test_lines_for_programs_are_of_the_launch_and_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid_of(tmp_path, 8)
    news = Amendment(("seed 2",), (), ())

    under_line(_drive_here, ended(tmp_path, as_json=True, news=news, estimate=ESTIMATE))

    first, last = map(json.loads, capsys.readouterr().out.splitlines())

    assert (first["event"], first["launch"], first["log"]) == ("launch", "0001", None)
    assert (first["added"], first["estimate"]["total"]["episodes"]) == (["seed 2"], 3)
    assert (last["event"], last["exit_code"], last["total"]["done"]) == ("end", 0, 8)


# ---- a driver in the background


def detached(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> Path:
    """Detach a launch whose driver only keeps its request; return where that is."""
    seen = folder / "seen"
    part = folder / "part"
    leads = folder / "leads its session"
    script = (
        f"import sys, os; open({str(part)!r}, 'w').write(sys.stdin.read());"
        f" open({str(leads)!r}, 'w').write(str(os.getsid(0) == os.getpid()));"
        f" print('driven'); os.rename({str(part)!r}, {str(seen)!r})"
    )
    run_instead(monkeypatch, script)

    assert under_line(_detach, ended(folder, **changes)) == 0

    wait_for(seen.exists)
    return seen


def test_a_driver_in_the_background_has_the_request_and_a_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = detached(tmp_path, monkeypatch)

    request = read_request(seen.read_bytes())
    printed = capsys.readouterr().out.replace(str(tmp_path), "FOLDER")

    assert (request.out, request.workers, request.runner) == (str(tmp_path), 2, "ended")
    assert re.sub(r"process \d+", "process NUMBER", printed) == snapshot("""\
driver  process NUMBER, log FOLDER/logs/driver.log
look    ktdeval grid status FOLDER --watch
steer   ktdeval grid ctl FOLDER pause
""")
    assert (tmp_path / "logs" / "driver.log").exists()
    assert (tmp_path / "leads its session").read_text() == "True"


def test_a_driver_in_the_background_is_named_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    detached(tmp_path, monkeypatch, as_json=True)

    line = json.loads(capsys.readouterr().out)

    assert (line["event"], line["launch"]) == ("launch", "")
    assert line["log"] == str(tmp_path / "logs" / "driver.log")
    assert line["pid"] > 1


def test_a_driver_in_the_background_prints_no_lines_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = encode_canonical(request_of(tmp_path)).encode()
    driven: list[_LaunchIntent] = []
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(request)))
    monkeypatch.setattr(launch_command, "_preload", lambda *_: False)
    monkeypatch.setattr(launch_command, "_drive_here", driven.append)

    assert launch_command.drive.callback is not None
    launch_command.drive.callback(plugin=())

    assert [intent.as_json for intent in driven] == [False]


def test_what_a_command_printed_is_read_from_its_beginning() -> None:
    printed = io.BytesIO()
    printed.write(b"3 episodes")

    assert _read_output(printed) == b"3 episodes"
