"""Fixtures for tests of plugins. pytest loads this module wherever ktdeval is installed, so it
imports nothing but pytest: a fixture imports what it needs when a test asks for it.

A fixture of the same name in a test file or a `conftest.py` replaces one of these. `pytest -p
no:ktdeval.testing.fixtures` leaves all of them out.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ktdeval.registry import Plugins
    from ktdeval.testing import Terminal


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Commands of `ktdeval`, run in this process: `terminal.text("list", "plugins")`."""
    from ktdeval.testing.terminal import Terminal  # noqa: PLC0415 - see above

    return Terminal(capsys)


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    """The installed plugins: `plugins.make_task("mine")`."""
    from ktdeval.registry.plugin_registry import load_plugins  # noqa: PLC0415

    return load_plugins()


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of `small_market()`, for `--data`. All tests share it: copy it to change it."""
    from ktdeval.market.snapshots.storage import save_snapshot  # noqa: PLC0415
    from ktdeval.testing.small_market import small_market  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("data") / "market"
    save_snapshot(small_market(), folder)
    return folder


@pytest.fixture(scope="module")
def run_words() -> Sequence[object]:
    """Options of the run that `finished_run` makes on `market`: a model without a key trades in
    March 2024. Replace this fixture to run a model, agent or task of yours.
    """
    model = ("--model", "builtin/momentum", "--tasks", "blinded_open_research")
    return (*model, "--windows", "2024-03-01:2024-03-29")


@pytest.fixture(scope="module")
def finished_run(
    market: Path, run_words: Sequence[object], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder of a finished run with the options `run_words`. The tests of a module share it: ask
    for `run` to change it.
    """
    from ktdeval.cli.main import main  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("finished") / "run"
    words = [*run_words, "--data", market, "--out", folder, "--quiet"]
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        code = main([str(word) for word in words])

    if code != 0:
        pytest.fail(f"the run of the fixture `finished_run` failed: {shown.getvalue()}")

    return folder


@pytest.fixture
def run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of `finished_run`, which a test may change."""
    return Path(shutil.copytree(finished_run, tmp_path / "run"))
