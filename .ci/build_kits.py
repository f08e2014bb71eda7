"""Put the kits of plugins/kits at the top of the wheel, beside the plugins that import them, and the
pages of docs into the package, where they are searched.

Hatchling strips one prefix from a path, and `plugins/` is the first that fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KitsHook(BuildHookInterface):
    """Names the place of each kit and page in the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include kits and pages in a wheel; an editable installation has them in its folders."""
        if version != "standard":
            return

        for folder in sorted(Path(self.root, "plugins", "kits").iterdir()):
            if folder.is_dir():
                _include(folder, build_data["force_include"])

        for page in sorted(Path(self.root, "docs").rglob("*.md")):
            name = page.relative_to(self.root)
            build_data["force_include"][str(page)] = f"ktdeval/{name.as_posix()}"


def _include(kit: Path, places: dict[str, str]) -> None:
    """Name the place of each file of a kit but its tests."""
    for path in sorted(kit.rglob("*")):
        name = path.relative_to(kit.parent)
        if path.is_file() and not {"tests", "__pycache__"} & set(name.parts):
            places[str(path)] = name.as_posix()
