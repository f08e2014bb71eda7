"""Runs of models behind a network, which a module's tests forge."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.runs.nulled_runs import Subject, subject


@pytest.fixture(scope="module")
def one(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A run of one model behind a network."""
    return subject(tmp_path_factory.mktemp("one") / "one", market)


@pytest.fixture(scope="module")
def team(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """A run of a team that asks two."""
    args = {"quick_model": "lucky/y"}
    folder = tmp_path_factory.mktemp("team") / "team"
    return subject(folder, market, agent="trade", agent_args=args, limit=1)
