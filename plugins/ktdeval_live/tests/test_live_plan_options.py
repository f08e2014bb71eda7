"""Options of an entrant that its plan sets by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.errors import ConfigError
from ktdeval.testing import Terminal
from ktdeval_live.plan import check_plan
from support.live.live_plans import plan_of
from support.paths import REPOSITORY


@pytest.mark.parametrize("option", ["batch", "canary", "seed"])
def test_an_option_that_a_plan_sets_is_refused_for_an_entrant(option: str) -> None:
    entrant = {"name": "momentum", "model": "builtin/momentum", "options": {option: 1}}
    plan = plan_of(entrants=[entrant])
    with pytest.raises(ConfigError, match=rf"options\.{option}: is fixed by the plan; leave it"):
        check_plan(plan, "plan.yaml")


def test_a_replay_takes_no_clock_since_it_goes_from_close_to_close(
    tmp_path: Path, terminal: Terminal
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("2026-01-05T21:30:00+00:00")
    plan = REPOSITORY / "examples" / "live" / "week.yaml"
    out = tmp_path / "week"
    words = ("live", "init", plan, "--out", out, "--replay", "--clock", clock)

    assert "--replay steps from close to close; leave --clock out" in terminal.refusal(*words)
    assert not out.exists()
