"""Records are equal on Python 3.11, 3.12 and 3.13. `.ci/second-python` runs two of them; here is
why they can't differ by a sum.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from support.paths import REPOSITORY

pytestmark = pytest.mark.slow

SUMS = """
from collections.abc import Iterable
from typing import Any
def allowed(whole: dict[str, int], lists: list[list[int]], floats: list[float]) -> dict[str, Any]:
    return {"a": sum(whole.values()), "b": sum(map(len, lists)), "c": sum(value > 1 for value in floats)}
def listed(floats: list[float]) -> float: return sum(floats)
def halved(whole: Iterable[int]) -> float: return sum(number / 2 for number in whole)
def started(floats: Iterable[float]) -> float: return sum(floats, 0.0)
"""


def whole_sum(terms: Iterable[Any], start: Any = 0) -> Any:
    """`sum`, but for floats, which it adds in another way since Python 3.12."""
    given = list(terms)

    assert not any(isinstance(term, float) for term in (*given, start)), (
        "floats are added by math.fsum"
    )

    return sum(given, start)


@pytest.mark.parametrize("model", ["builtin/reversal", "builtin/chaos"])
def test_no_episode_adds_floats_by_the_builtin_sum(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(
        model=model,
        tasks=("blinded_open_research",),
        windows=("W1",),
        limit=4,
        out=str(tmp_path / "run"),
    )
    plugins = load_plugins()
    evaluate(replace(config, limit=1, out=str(tmp_path / "first")), plugins)  # loads the modules

    for name, module in list(sys.modules.items()):
        if name.startswith("ktdeval"):
            monkeypatch.setattr(module, "sum", whole_sum, raising=False)

    assert not evaluate(config, plugins).failed


def test_mypy_refuses_the_builtin_sum_of_floats(tmp_path: Path) -> None:
    (tmp_path / "sums.py").write_text(SUMS)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\nplugins = {REPOSITORY / '.ci/mypy_sums.py'}\n"
    )
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "sums.py"]
    lines = subprocess.run(
        command, cwd=tmp_path, text=True, capture_output=True, check=False
    ).stdout.splitlines()

    assert {line.split(":")[1] for line in lines[:-1]} == {"6", "7", "8"}, lines
