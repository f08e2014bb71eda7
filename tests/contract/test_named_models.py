"""A model of the documentation has a price, so that its example does what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ktdeval.testing import Terminal
from support.paths import REPOSITORY


@pytest.mark.slow
def test_the_example_of_plan_prints_dollars(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "docs/plan.md").read_text(encoding="utf-8")
    command = re.search(r"^    ktdeval (plan .*)$", page, re.MULTILINE)
    assert command is not None

    left = terminal.report(*shlex.split(command[1]), "--windows", "W1")["left"]
    costs = [left[case]["cost_usd"] for case in ("low", "typical", "high")]

    assert costs[0] > 0
    assert costs == sorted(costs)
