"""What takes seconds to build is built once a session of tests, whatever the number of workers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktdeval.values import lock_folder

SESSION = "PYTEST_XDIST_TESTRUNUID"


def built_once(name: str, build: Callable[[], Any]) -> Any:
    """Return what `build` returns, as JSON: from the first worker that asks, for all of them."""
    session = os.environ.get(SESSION)
    if session is None:
        return json.loads(json.dumps(build()))

    folder = Path(os.environ["KTDEVAL_CACHE_DIR"]) / "tests" / session / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "built.json"

    with lock_folder(folder, wait=True):
        if not path.exists():
            path.write_text(json.dumps(build()))

        return json.loads(path.read_text())
