"""Data files of sites: values read back as their pages do, and a copy of a site with other values."""

from __future__ import annotations

import base64
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktdeval.jsonio import loads_strict
from ktdeval_board.site.files import data_file


def read_data_file(content: bytes) -> Any:
    """Return the value that the content of a data file hands over."""
    head, _, rest = content.partition(b"\n")
    if not rest.endswith(b"\n);\n") or not head.startswith((b"ktdevalReceive(", b"ktdevalReceivePacked(")):
        raise ValueError("is no data file of a site")
    value = loads_strict(rest.removesuffix(b"\n);\n"))
    if head.startswith(b"ktdevalReceivePacked("):
        return loads_strict(zlib.decompress(base64.b64decode(value)))
    return value


def read_data(site: Path, name: str) -> Any:
    """The value of a data file of a site."""
    return read_data_file((site / "data" / f"{name}.js").read_bytes())


def changed_site(site: Path, folder: Path, changes: dict[str, Callable[[Any], Any]]) -> Path:
    """A copy of a site in which some data files hold other values."""
    shutil.copytree(site, folder)
    for name, change in changes.items():
        value = json.dumps(change(read_data(site, name)), ensure_ascii=False)
        (folder / "data" / f"{name}.js").write_bytes(data_file(name, value.encode()))
    return folder
