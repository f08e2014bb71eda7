"""Make the description that a package index shows from README.md.

An index shows the page away from the repository: links within it become links to the released files
at the address in `pyproject.toml`. Without an address there are no such files, so that links leave
their words and pictures are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"!\[(?P<words>[^]]*)\]\((?P<target>(?!https?:)[^)]+)\)")
_LINK = re.compile(r"(?<!!)\[(?P<words>[^]]*)\]\((?P<target>(?!https?:|#)[^)]+)\)")


class IndexPageHook(MetadataHookInterface):
    """Set the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md of the project, and rewrite its links."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        address = metadata.get("urls", {}).get("Repository", "")
        page = index_page(text, address, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def index_page(text: str, address: str, version: str) -> str:
    """Return a page of the repository as an index shows it; `address` of the repository, or empty."""
    if not address:
        without = _LINK.sub(r"\g<words>", _PICTURE.sub("", text))
        return re.sub(r"\n{3,}", "\n\n", without)

    pictures = rf"![\g<words>]({address}/raw/v{version}/\g<target>)"
    links = rf"[\g<words>]({address}/blob/v{version}/\g<target>)"
    return _LINK.sub(links, _PICTURE.sub(pictures, text))
