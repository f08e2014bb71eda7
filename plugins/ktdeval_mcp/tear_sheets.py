"""Tear sheets of runs as resources: their addresses and their pages."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from urllib.parse import quote, unquote

from ktdeval.errors import UsageError, wrap_os_error
from ktdeval_mcp.answers import run_command
from ktdeval_mcp.folders import Folders

PREFIX = "ktdeval://tear-sheet/"
_OF_VALUES = "tear-sheet.html"  #: page for a judged account value, which has no run


def address_of(run: Path) -> str:
    """Return the address of a run's tear sheet, which contains the percent-encoded path of the run."""
    return PREFIX + quote(str(run), safe="")


async def read_sheets(address: str, folders: Folders) -> list[str]:
    """Return the tear sheets of a run as HTML pages, one for each trading task. Raises UsageError
    if the address is not that of a tear sheet, if the run is outside the folders, or if it has no
    tear sheet. Raises ToolError if the run does not exist or can't be read.
    """
    if not address.startswith(PREFIX):
        raise UsageError(f"no resource {address}: tear sheets are {PREFIX} and a path, encoded")

    run = folders.resolve(unquote(address.removeprefix(PREFIX)))
    page = folders.resolve(str(run / _OF_VALUES))  # the page itself may be a link
    with wrap_os_error(f"{run}: can't read"):
        if page.is_file():
            return [page.read_text(encoding="utf-8")]

    with tempfile.TemporaryDirectory() as folder:
        words = ["view", "episodes", f"--out={folder}/pages", "--json", "--", str(run)]
        output = await run_command(words, folders, folder)
        paths = json.loads(output.printed)["tear_sheets"]
        pages = [Path(path).read_text(encoding="utf-8") for path in paths]

    if not pages:
        raise UsageError(f"{run}: has no tear sheet: no trading task has a recorded day")
    return pages
