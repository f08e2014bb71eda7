"""What a user sees of a run under way, and that a stranger's words can't reach the terminal's
controls.
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import pytest
from inline_snapshot import snapshot
from rich.console import Console

from ktdeval.cli.main import CleanStream, main
from ktdeval.cli.progress import CheckWaits, ProgressObserver, work_shown
from ktdeval.task_api.events import (
    CheckDelayed,
    EpisodeFailed,
    EpisodeFinished,
    EpisodeStarted,
    StepFinished,
)
from support.figures.metric_cases import spec as make_spec

HOSTILE = {
    "clear": "\x1b[2J",
    "title": "\x1b]0;mine\x07",
    "cursor": "\x1b[1A",
    "hidden": "\x1b[8m",
    "c1": "\x9b31m",
    "bell": "\x07",
    "back": "\b\b",
    "return": "\r",
    "bidi": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f",
    "zero": "\u200b",
    "line": "\u2028",
    "bom": "\ufeff",
}


class Screen(io.StringIO):
    """A terminal, or a file."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("terminal", [True, False])
def test_controls_and_invisible_characters_become_spaces(sent: str, terminal: bool) -> None:
    screen = Screen(terminal)
    click.echo(f"a{sent}b\n\tc 中文", file=CleanStream(screen))
    shown = screen.getvalue()

    assert not set(shown) & (set(sent) - set("[]0123456789;mJAine"))
    assert shown.endswith("b\n\tc 中文\n")


@pytest.mark.parametrize(("terminal", "shown"), [(True, "\x1b[1;31mred\x1b[0m"), (False, "red")])
def test_colours_pass_to_a_terminal_and_nowhere_else(terminal: bool, shown: str) -> None:
    screen = Screen(terminal)
    stream = CleanStream(screen)
    click.echo("\x1b[1;31mred\x1b[0m", file=stream)
    assert screen.getvalue() == f"{shown}\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_stream_that_is_full_or_closed_is_no_defect(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["list", "tasks", "nothing-of-this-name"]) == 2
        assert main(["list", "tasks"]) == 0

    monkeypatch.undo()
    monkeypatch.setattr(sys, "stdout", None)

    assert main(["list", "tasks"]) == 0
    assert capfd.readouterr().err == ""


# -- progress


SPEC = make_spec()


def step(number: int, total: int = 40, provenance: str = "model") -> StepFinished:
    return StepFinished(
        SPEC,
        number,
        total,
        f"2024-01-{number % 28 + 1:02}",
        (100_000_000 + number) / 100,
        3,
        1,
        40_000,
        provenance,
        "CNY",
    )


def watch(*events: object, width: int = 80, terminal: bool = False) -> str:
    """What is printed while `events` come in."""
    stream = io.StringIO()
    with ProgressObserver(
        Console(file=stream, width=width, force_terminal=terminal), 1
    ) as progress:
        for event in events:
            progress.ktdeval_event(event)
            progress._progress.refresh()

    return stream.getvalue()


def test_without_a_terminal_a_run_of_many_episodes_is_twenty_lines() -> None:
    stream = io.StringIO()
    with ProgressObserver(Console(file=stream, width=100, force_terminal=False), 60) as progress:
        for number in range(60):
            spec = replace(SPEC, seed=number)
            if number < 15:
                progress.ktdeval_event(EpisodeFinished(spec, already_done=True))
                continue

            progress.ktdeval_event(EpisodeStarted(spec, 40, 0))
            for day in range(40):
                progress.ktdeval_event(replace(step(day), spec=spec))

            progress.ktdeval_event(EpisodeFinished(spec, already_done=False))

    lines = stream.getvalue().splitlines()
    assert len(lines) == 20
    assert "already complete" in lines[0]
    assert "seed 59: 40/40" in lines[-1]


def test_steps_that_the_model_did_not_decide_are_counted() -> None:
    shown = watch(EpisodeStarted(SPEC, 2, 0), step(0, 2, "fallback"), step(1, 2, "error"))
    assert shown.rstrip().endswith("2 failed")


def test_a_resumed_episode_continues_its_totals() -> None:
    shown = watch(EpisodeStarted(SPEC, 40, 38, tuple(map(step, range(38)))), step(38), step(39))
    assert shown == snapshot("""\
blinded_open_research long seed 0: resuming after 38 of 40 steps
blinded_open_research long seed 0: 40/40 2024-01-12 · NAV 1,000,000 CNY · 120 orders, 40 rejected · 1.60M tokens
""")


def test_what_was_done_before_and_what_failed_are_one_line_each() -> None:
    shown = watch(
        EpisodeFinished(SPEC, already_done=True),
        EpisodeStarted(SPEC, 4, 0),
        EpisodeFailed(SPEC, "no more money"),
    )

    assert shown == snapshot("""\
blinded_open_research long seed 0: already complete
blinded_open_research long seed 0: failed: no more money
""")


@pytest.mark.parametrize("width", [60, 80])
def test_bar_and_status_fit_a_narrow_terminal(width: int) -> None:
    window = replace(SPEC.window, name="2024-03-01:2024-03-29")
    long = replace(SPEC, task="stock_blind_fixed_candidate", window=window)
    events = [
        EpisodeStarted(long, 40, 0),
        *(replace(step(number), spec=long) for number in range(5)),
    ]
    printed = watch(*events, width=width, terminal=True)
    shown = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", printed).replace("\r", "\n")

    assert max(map(len, shown.splitlines())) <= width
    assert "━" in shown
    assert "5/40 0:00:0" in shown

    status = "  2024-01-05 · NAV 1,000,000 CNY · 15 orders, 5 rejected · 200,000 tokens"
    assert status[: width - 1] in shown


@pytest.mark.parametrize("terminal", [True, False])
def test_work_is_a_bar_on_a_terminal_and_silent_elsewhere(terminal: bool) -> None:
    stream = io.StringIO()
    with work_shown(Console(file=stream, width=80, force_terminal=terminal)) as tell:
        for done in range(3):
            tell(f"\x1b[2Jepisode {done}", done, 3)

    assert ("episode 2" in stream.getvalue()) == terminal
    assert "2/3" in stream.getvalue() or not terminal
    assert "\x1b[2J" not in stream.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_long_wait_of_a_check_is_one_line_with_cause_and_server_message(
    terminal: bool,
) -> None:
    stream = io.StringIO()
    waits = CheckWaits(Console(file=stream, width=100, force_terminal=terminal))
    waits.ktdeval_event(CheckDelayed("canary", "rate_limited", 9.0, 1, 13, "slow down"))
    waits.ktdeval_event(CheckDelayed("canary", "rate_limited", 75.0, 2, 13, "slow down"))

    assert stream.getvalue() == (
        "fixed questions (canary): waiting 1 min 15 s: rate limited, attempt 2 of 13 (slow down)\n"
    )
