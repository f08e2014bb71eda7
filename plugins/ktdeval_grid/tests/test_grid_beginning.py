"""Beginning of a grid: models at an address of the user's, and grids of which no system can begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError, UsageError
from ktdeval.registry import load_plugins
from ktdeval.testing import free_port
from ktdeval_grid.launch.driver import Request
from ktdeval_grid.launch.forecast import check_beginning
from ktdeval_grid.planning.estimate import estimate_grid
from ktdeval_grid.planning.estimate_types import GridEstimate
from ktdeval_grid.planning.plan import plan_of

SERVED = "openai_compatible/mine"
KEYED = "openai/gpt-5.5"
HERE = "builtin/momentum"


@pytest.fixture
def closed_port() -> int:
    return free_port()


def served(port: int) -> dict[str, Any]:
    return {"name": SERVED, "base_url": f"http://127.0.0.1:{port}/v1"}


def checked(*models: Any, runner: str = "local", **options: Any) -> GridEstimate:
    """Estimate a small grid of models, and check that it can begin."""
    plan = plan_of(
        {
            "models": list(models),
            "tasks": "blinded_open_research",
            "windows": "W1",
            "options": {"limit": 1, "cache": "run", **options},
        },
        "plan",
    )
    request = Request(plan=plan, out="nowhere", workers=1, runner=runner)
    estimate = estimate_grid(plan, load_plugins(), lambda _system, _cell: False, 1)
    check_beginning(request, estimate)

    return estimate


@pytest.mark.slow
def test_workers_elsewhere_have_their_own_network(
    closed_port: int,
) -> None:
    estimate = checked(served(closed_port), runner="far")
    assert (estimate.total.episodes, estimate.total.is_free) == (1, False)


@pytest.mark.slow
def test_a_grid_whose_only_server_is_down_does_not_begin(closed_port: int) -> None:
    with pytest.raises(UsageError, match=r"no system of the grid can begin: .*can't be reached"):
        checked(served(closed_port))


@pytest.mark.exhaustive
def test_a_grid_without_any_key_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UsageError, match=r"no system of the grid can begin: .*OPENAI_API_KEY"):
        checked(KEYED)


def test_a_grid_of_which_one_system_can_begin_is_not_refused(closed_port: int) -> None:
    estimate = checked(served(closed_port), HERE)
    assert estimate.total.episodes == 2


def test_a_cache_that_is_none_is_named_before_a_grid_begins(
    closed_port: int, tmp_path: Path
) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_text("no database, but a text that is long enough to be told from one" * 20)
    with pytest.raises(StoreError, match=r"replies\.sqlite"):
        checked(served(closed_port), cache=str(path))
