"""Power cuts amid a program's step: what is taken up again asks nothing twice, and decides what it
would have decided.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ktdeval.testing import wait_for
from support.runs.outside_plugin import DEFECT_AT_CALL
from support.runs.outside_programs import (
    KEYS,
    OUTSIDE_PLUGIN,
    TRADER,
    Place,
    Provider,
    provider,
    said,
)
from support.runs.run_support import Running, ktdeval, start

pytestmark = pytest.mark.slow  # processes of their own

STEPS = 2
BODY = """
HERE = {folder!r}
def pause(stage):
    if os.path.exists(f"{{HERE}}/pause at {{stage}}"):
        os.rename(f"{{HERE}}/pause at {{stage}}", f"{{HERE}}/here")
        time.sleep(600)
step = re.search(r"step \\\\d+", sys.stdin.read())[0]
pause(f"{{step}} before its calls")
first = words(ask(f"First of {{step}}."))
pause(f"{{step}} between its calls")
second = words(ask(f"Second of {{step}}: {{first}}"))
pause(f"{{step}} before its submission")
submit({{"orders": [], "overall_reason": second}})
open("diary", "a").write("x")
pause(f"{{step}} after its submission")
"""
STAGES = ("before its calls", "between its calls", "before its submission", "after its submission")
NUMBERS = [f"step {step}" for step in range(STEPS)]


@pytest.fixture
def place(place: Place) -> Place:
    place.write(BODY.format(folder=str(place.folder)).replace("\\\\", "\\"))
    return place


def begun(place: Place, asked: Provider) -> tuple[Running, list[object]]:
    words = place.command(*asked.words, steps=STEPS)
    return start(*words, cwd=place.folder, environment=KEYS), words


def finished(place: Place, words: list[object]) -> None:
    done = ktdeval(*words, cwd=place.folder, environment=KEYS)
    assert done.code == 0, done
    assert "Traceback" not in done.err


def questions(asked: Provider) -> list[str]:
    return [body["messages"][-1]["content"][:16] for body in asked.bodies]


def children(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread ended
            found += list(map(int, path.read_text().split()))
    return found


def names_below(pid: int) -> list[str]:
    """Return the names of a process's descendants."""
    names = []
    waiting = children(pid)
    while waiting:
        child = waiting.pop()
        with suppress(OSError):  # it ended
            names.append(Path(f"/proc/{child}/comm").read_text().strip())
            waiting += children(child)
    return names


@pytest.mark.sampled(1)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("step", NUMBERS)
def test_a_run_that_is_killed_asks_nothing_twice(place: Place, step: str, stage: str) -> None:
    (place.folder / f"pause at {step} {stage}").touch()
    with provider() as asked:
        process, words = begun(place, asked)
        wait_for((place.folder / "here").exists)
        process.kill()
        finished(place, words)

        assert len(questions(asked)) == len(set(questions(asked))) == 2 * STEPS

    assert [found.provenance for found in place.steps] == ["model"] * STEPS
    assert place.verified().code == 0


def test_a_run_that_is_killed_amid_a_call_asks_that_call_again_alone(place: Place) -> None:
    released = threading.Event()

    def held(body: Any) -> Any:
        if len(asked.bodies) == 2:
            released.wait(60)
        return said(body)

    with provider(held) as asked:
        process, words = begun(place, asked)
        wait_for(lambda: len(asked.bodies) == 2)
        process.kill()
        released.set()
        finished(place, words)

        seen = questions(asked)
        assert len(seen) == 2 * STEPS + 1
        assert len(set(seen)) == 2 * STEPS

    assert [found.provenance for found in place.steps] == ["model"] * STEPS
    assert place.verified().code == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_a_sandbox_that_is_killed_is_a_failure_of_its_step(
    place: Place, stage: str, sandbox: str, request: pytest.FixtureRequest
) -> None:
    """A decision that was accepted before stands."""
    mark = place.folder / "here"
    if sandbox == "bwrap":
        request.getfixturevalue("bwrap")
        body = (place.folder / "trader.py").read_text()
        # Inside, the folder of the test is not to be seen: the name of the process says that it pauses.
        at = (
            f'if stage == "step 1 {stage}":\n'
            '        open("/proc/self/comm", "w").write("paused")\n'
            "        time.sleep(600)\n"
            "    return"
        )
        (place.folder / "trader.py").write_text(
            body.replace("def pause(stage):\n", f"def pause(stage):\n    {at}\n")
        )
    else:
        (place.folder / f"pause at step 1 {stage}").touch()

    with provider() as asked:
        words = place.command(*asked.words, steps=STEPS, sandbox=sandbox)
        process = start(*words, cwd=place.folder, environment=KEYS)
        if sandbox == "none":
            wait_for(mark.exists)
        else:
            wait_for(lambda: "paused" in names_below(process.pid))
        killed = children(process.pid)
        left = [inside for child in killed for inside in children(child)]
        for child in (*killed, *left):  # without walls, a program outlives its supervisor
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        done = process.wait()

    assert done.code == 0, done
    assert "Traceback" not in done.err
    expected = "model" if stage == STAGES[-1] else "error"
    assert [found.provenance for found in place.steps] == ["model", expected]
    assert place.steps[1].failures == {"program_lost": 1}
    assert place.verified().code == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("call", [1, 3, 7])
def test_a_defect_behind_the_bridge_ends_the_run_and_is_no_decision(
    tmp_path: Path, market: Path, call: int
) -> None:
    place = Place(tmp_path, market)
    place.write(TRADER)
    model = ("--model", "outside/buyer", "--plugin", OUTSIDE_PLUGIN)
    words = place.command(*model, steps=STEPS)

    done = ktdeval(*words, cwd=tmp_path, environment={DEFECT_AT_CALL: str(call)})

    assert done.code != 0
    assert "a defect of the model" in done.err

    assert ktdeval(*words, cwd=tmp_path).code == 0
    assert [found.provenance for found in place.steps] == ["model_after_retry"] * STEPS
