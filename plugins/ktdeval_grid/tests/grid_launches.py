"""Launches of a small grid, as the command asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grid_store import small_plan
from ktdeval_grid.launch.driver import Request
from ktdeval_grid.launch.launch_command import _LaunchIntent
from ktdeval_grid.state.layout import open_place


def request_of(folder: Path, **changes: Any) -> Request:
    """A request to run the small plan in a folder, with two workers."""
    fields = {"plan": small_plan(), "out": str(folder), "workers": 2, "runner": "local"}
    return Request(**{**fields, **changes})


def intent_of(request: Request, **changes: Any) -> _LaunchIntent:
    """What the command is about to do for a request."""
    fields: dict[str, Any] = {"news": None, "estimate": None, "as_json": False}
    return _LaunchIntent(request, open_place(request.out), **{**fields, **changes})
