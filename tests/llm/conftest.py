"""A real language model, served on this machine for the session, and its log where a test fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.llm.forced_replies import table
from support.llm.llm_server import ServedModel, log_end, serving

ENVIRONMENT = "KTDEVAL_LLM_VENV"
LOG = pytest.StashKey[Path]()
ROWS = pytest.StashKey[list[list[str]]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ROWS] = []


@pytest.fixture(scope="session")
def environment() -> Path:
    """The environment that `make test-llm` makes."""
    return Path(os.environ[ENVIRONMENT])


@pytest.fixture(scope="session")
def served(environment: Path, request: pytest.FixtureRequest) -> Iterator[ServedModel]:
    """The model behind its server; the log is kept in the environment's folder."""
    log = environment / "server.log"
    request.config.stash[LOG] = log

    with serving(environment, log) as server:
        yield server


@pytest.fixture(scope="session")
def rows(request: pytest.FixtureRequest) -> list[list[str]]:
    """Rows of the table at the end."""
    return request.config.stash[ROWS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    log = item.config.stash.get(LOG, None)
    if report.failed and log is not None:
        report.sections.append((f"end of {log}", log_end(log)))

    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.stash[ROWS]:
        terminalreporter.section("forced submissions of a real language model")
        terminalreporter.write_line(table(config.stash[ROWS]))
