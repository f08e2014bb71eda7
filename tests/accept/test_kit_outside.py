"""The kit `ktdeval.testing` in a folder of somebody else: its fixtures are there for who asks, and
cost others nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.docs_prose import guide_files

FILES = guide_files()

#: Tests of somebody who has ktdeval installed and does not use the kit
STRANGERS = """
import sys

import pytest


@pytest.fixture
def market():
    return "mine"


def test_a_fixture_of_ones_own_replaces_that_of_the_kit(market):
    assert market == "mine"


def test_nothing_of_ktdeval_is_imported_unless_a_test_asks(request):
    own = {name for name in sys.modules if name.partition(".")[0].startswith("ktdeval")}
    assert own == {"ktdeval", "ktdeval.testing", "ktdeval.testing.fixtures", *LAZY}
    assert not {"pandas", "numpy", "click"} & set(sys.modules)


def test_no_fixture_of_the_kit_is_used_unasked(request):
    assert set(request.fixturenames) <= {"request", "event_loop_policy"}


LAZY = {"ktdeval.values", "ktdeval.values.lazy"}
"""


def pytest_in(folder: Path, *options: str) -> str:
    """Run pytest in a folder, without plugins that this environment happens to have, and return
    what it printed.
    """
    variables = ("PATH", "HOME", "KTDEVAL_CACHE_DIR", "TMPDIR")
    environment = {name: os.environ[name] for name in variables if name in os.environ}
    environment |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    others = ("schemathesis", "hypothesispytest", "inline_snapshot", "anyio", "xdist")
    left_out = [word for name in others for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", "--strict-config", *left_out, *options]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_tests_of_the_guide_pass_in_a_folder_of_their_own(tmp_path: Path) -> None:
    for name in ("parrot.py", "test_parrot.py", "hits.py", "test_hits.py"):
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")

    assert "6 passed" in pytest_in(tmp_path)


def test_who_does_not_use_the_kit_does_not_notice_it(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(STRANGERS, encoding="utf-8")

    assert "3 passed" in pytest_in(tmp_path, "-W", "error")


def test_the_fixtures_are_listed_with_their_meaning(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text("def test_nothing():\n    pass\n", encoding="utf-8")
    listed = pytest_in(tmp_path, "--fixtures")

    for name in ("terminal", "plugins", "market", "run_words", "finished_run", "run"):
        assert f"\n{name} " in listed, name

    assert "no docstring available" not in listed.partition("ktdeval.testing.fixtures")[2]


@pytest.mark.parametrize("module", ["ktdeval", "ktdeval.api", "ktdeval.cli.main"])
def test_ktdeval_itself_imports_neither_pytest_nor_the_kit(module: str) -> None:
    script = (
        f"import sys, {module}; print('pytest' in sys.modules, 'ktdeval.testing' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout == "False False\n"
