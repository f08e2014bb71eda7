"""Attacks on a forward test while it runs: an answer after the cutoff, a record that is edited between
two steps, a clock that is set back.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ktdeval.errors import StoreError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.values import dumps_canonical
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.days.day_sources import StoredDays
from ktdeval_live.deciding.beginning import begin, join
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import DueDecision, LiveStep, Problem, StepReport
from ktdeval_live.plan import Entrant
from ktdeval_live.record.chain import Decided, Gap
from ktdeval_live.record.folder import LiveFolder
from support.live.clock_plugin import CLOCK, PLUGIN, TIME
from support.live.live_plans import plan_of
from support.live.live_week import BEFORE, ENTRANTS, drop_increment
from support.live.time_authority import authority
from support.paths import TESTS

FIRST = "2024-05-31"
CLOSED = "2024-05-31T20:15:00Z"
CUTOFF = "2024-06-03T13:20:00Z"
NEXT_CLOSED = "2024-06-03T20:15:00Z"

PLAN = """
name: attack
kind: rehearsal
first: 2024-06-03
last: 2024-06-07
markets:
  us: {data: synthetic_us, task: market_bright, source: stored}
entrants:
  - {name: slow, model: slow/momentum}
"""


def take_step(path: Path, plugins: Plugins, clock: SetClock) -> StepReport:
    folder = LiveFolder(path)
    with folder.lock():
        return LiveStep(folder, plugins, clock, InlineAsker(folder, plugins, clock)).run()


def ends(path: Path) -> list[tuple[str, str]]:
    """Return the decisions and gaps of a test, with their days."""
    found = []
    for link in LiveFolder(path).chain().entries:
        if isinstance(link.body, Decided):
            found.append(("decided", link.body.day))

        if isinstance(link.body, Gap):
            found.append((link.body.cause, link.body.day))

    return found


# --- an agent that decides after the open


def command(
    folder: Path, clock: str, answered: str, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run `ktdeval live` in a process at a time, in which the model answers at another one."""
    file = folder / "clock"
    file.write_text(clock, "utf-8")
    environment = {
        **os.environ,
        CLOCK: str(file),
        TIME: answered,
        "PYTHONPATH": str(TESTS),
    }
    options = ["--clock", str(file), "--plugin", str(PLUGIN)]

    return subprocess.run(
        [sys.executable, "-m", "ktdeval", "live", *words, *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize(
    ("answered", "end"),
    [
        pytest.param(
            "2024-06-03T13:19:59+00:00",
            "decided",
            id="before the cutoff",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("2024-06-03T13:20:00+00:00", "late", id="at the cutoff"),
    ],
)
def test_answer_after_the_cutoff_is_a_gap(tmp_path: Path, answered: str, end: str) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN, "utf-8")
    test = tmp_path / "test"
    begun = command(
        tmp_path, BEFORE, answered, "init", str(tmp_path / "plan.yaml"), "--out", str(test)
    )

    assert begun.returncode == 0, begun.stderr

    command(tmp_path, CLOSED, answered, "step", str(test))
    command(tmp_path, "2024-06-03T14:00:00Z", answered, "step", str(test))

    assert ends(test) == [(end, FIRST)]
    assert verify_test(LiveFolder(test), load_plugins([str(PLUGIN)])).findings == ()


# --- an agent that edits its record


@pytest.fixture
def clock() -> SetClock:
    return SetClock(of_text(BEFORE))


@pytest.mark.exhaustive
def test_record_that_is_edited_between_two_steps_stops_the_entrant(
    tmp_path: Path, plugins: Plugins, clock: SetClock
) -> None:
    path = tmp_path / "test"
    begin(plan_of(entrants=ENTRANTS), path, plugins, clock)
    clock.time = of_text(CLOSED)
    take_step(path, plugins, clock)

    record = path / "private/investor/us" / f"{FIRST}.json"
    content = json.loads(record.read_text("utf-8"))
    content["memory"]["entries"][0]["reason"] = "foresight"
    record.write_text(dumps_canonical(content), "utf-8")

    clock.time = of_text(NEXT_CLOSED)
    problems = take_step(path, plugins, clock).problems

    assert len(problems) == 1
    assert "investor/us 2024-06-03: failed: " in problems[0]
    assert "not the one that was committed to" in problems[0]
    assert ends(path).count(("decided", "2024-06-03")) == 1  # the other entrant goes on

    findings = verify_test(LiveFolder(path), plugins).findings
    assert [(one.rule, one.day) for one in findings] == [("record", FIRST)]


def test_sealed_decision_verifies_without_the_private_part(
    tmp_path: Path, plugins: Plugins, clock: SetClock
) -> None:
    path = tmp_path / "test"
    begin(plan_of(entrants=ENTRANTS), path, plugins, clock)
    for time in (CLOSED, NEXT_CLOSED):
        clock.time = of_text(time)
        take_step(path, plugins, clock)

    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(path), str(clone)], check=True)

    assert not (clone / "private").exists()

    result = verify_test(LiveFolder(clone), plugins)
    assert result.findings == ()
    assert (result.decisions, result.sealed) == (2, 2)


# --- a maintainer who sets the clock back


def test_clock_that_is_set_back_before_the_last_entry_is_refused(
    tmp_path: Path, plugins: Plugins, clock: SetClock
) -> None:
    path = tmp_path / "test"
    begin(plan_of(), path, plugins, clock)
    clock.time = of_text(NEXT_CLOSED)
    take_step(path, plugins, clock)
    chain = (path / "chain.jsonl").read_bytes()

    clock.time = of_text("2024-06-03T20:14:59Z")
    entrant = Entrant(name="late", model="builtin/random")

    with pytest.raises(StoreError, match="set the clock right"):
        join(LiveFolder(path), entrant, plugins, clock)

    assert (path / "chain.jsonl").read_bytes() == chain


@pytest.mark.exhaustive
def test_backdated_decision_is_not_public_before_its_cutoff(
    tmp_path: Path, plugins: Plugins, clock: SetClock
) -> None:
    pytest.importorskip("rfc3161_client", reason="needs the extra live")
    true_time = SetClock(of_text(BEFORE))
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    market = {
        "data": "synthetic_us", "task": "market_bright", "source": "drop",
        "source_args": {"folder": str(incoming)},
    }  # fmt: skip

    with authority(tmp_path / "authority", lambda: true_time.time) as running:
        stamp = {"url": running.url, "certificate": running.certificate.read_text("ascii")}
        path = tmp_path / "test"
        plan = plan_of(kind="live", markets={"us": market}, publish={"stamp": stamp})
        begin(plan, path, plugins, clock)
        day = StoredDays(plugins.make_snapshot("synthetic_us", {})).day(
            "us", FIRST, of_text("2024-05-31T20:00:00Z")
        )
        assert day is not None
        drop_increment(incoming, day, 1.0)

        # He knows how 3 June went, and sets his clock to the evening of 31 May.
        true_time.time = of_text(NEXT_CLOSED)
        clock.time = of_text(CLOSED)
        assert take_step(path, plugins, clock).problems == []
        assert ends(path) == [("decided", FIRST)]
        findings = verify_test(LiveFolder(path), plugins).findings
        assert [(one.rule, one.day) for one in findings] == [("published", FIRST)]

        # An honest step, at the true time, finds it as well.
        clock.time = true_time.time
        take_step(path, plugins, clock)
        assert ends(path) == [("decided", FIRST), ("unpublished", FIRST)]
        assert verify_test(LiveFolder(path), plugins).findings == ()


@pytest.mark.exhaustive
def test_decision_that_could_not_be_published_is_a_gap_before_the_next_one_is_asked_for(
    tmp_path: Path, plugins: Plugins, clock: SetClock
) -> None:
    path = tmp_path / "test"
    remote = tmp_path / "remote.git"
    begin(plan_of(publish={"remote": str(remote)}), path, plugins, clock)
    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    clock.time = of_text(CLOSED)
    test = LiveFolder(path)

    with test.lock():
        lost = LosesRemote(test, plugins, clock, remote)
        report = LiveStep(test, plugins, clock, lost.ask).run()

    assert ends(path) == [("decided", FIRST)]
    assert "git push failed" in report.problems[0]

    subprocess.run(["git", "init", "--quiet", "--bare", str(remote)], check=True)
    clock.time = of_text(NEXT_CLOSED)

    assert take_step(path, plugins, clock).problems == []
    assert ends(path) == [
        ("decided", FIRST),
        ("unpublished", FIRST),
        ("decided", "2024-06-03"),
    ]
    assert verify_test(LiveFolder(path), plugins).findings == ()


class LosesRemote:
    """Asks as usual; the remote is gone when the answer is there."""

    def __init__(self, test: LiveFolder, plugins: Plugins, clock: SetClock, remote: Path) -> None:
        self._ask = InlineAsker(test, plugins, clock)
        self._remote = remote

    def ask(self, due: DueDecision, limit_s: float) -> Problem | None:
        """Ask, and remove the remote."""
        problem = self._ask(due, limit_s)
        shutil.rmtree(self._remote)
        return problem
