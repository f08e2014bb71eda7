"""A new plugin, installed with pip into an environment of its own, passes its own tests and its own
CI file. `KTDEVAL_NEW_PLUGINS=each` tries every part alone too, `pairs` every pair as well.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

from ktdeval.values import load_yaml
from ktdeval_authoring.plugin_templates import parts, render_package, write_package

ALL = tuple(parts())
ASKED = os.environ.get("KTDEVAL_NEW_PLUGINS", "")
CHOICES = [
    ALL,
    *(combinations(ALL, 1) if ASKED in ("each", "pairs") else ()),
    *(combinations(ALL, 2) if ASKED == "pairs" else ()),
]
PIP = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")


@pytest.mark.parametrize("names", CHOICES, ids="-".join)
def test_a_new_plugin_passes_its_own_tests_and_ci(names: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "my-lab"
    site = tmp_path / "site"
    write_package(folder, render_package("my-lab", names))
    environment = {
        **os.environ,
        "PYTHONPATH": str(site),
        "KTDEVAL_CACHE_DIR": str(tmp_path / "cache"),
    }

    def python(*words: str) -> str:
        command = [sys.executable, "-m", *words]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

        assert done.returncode == 0, done.stdout + done.stderr

        return done.stdout

    workflow = load_yaml(folder / ".github/workflows/test.yml")
    for step in workflow["jobs"]["test"]["steps"]:
        command = shlex.split(step.get("run", ""))
        if command[:2] == ["pip", "install"]:  # from this machine, and into a folder of its own
            python("pip", "install", *PIP, "--target", str(site), str(folder))
        elif command:
            out = python(*command)

    assert f"my_lab: {len(names) + ('task' in names)} parts called, 0 faults" in out

    if "task" in names:
        words = ["--tasks", "my_lab_questions", "--model", "builtin/trivial", "--quiet"]
        assert "accuracy" in python("ktdeval", *words, "--out", str(tmp_path / "run"))
