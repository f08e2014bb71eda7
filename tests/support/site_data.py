"""Values of a site's data files, read back as its pages do."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from ktdeval.jsonio import loads_strict


def read_data_file(content: bytes) -> Any:
    """Return the value that the content of a data file hands over."""
    head, _, rest = content.partition(b"\n")
    if not rest.endswith(b"\n);\n") or not head.startswith((b"ktdevalReceive(", b"ktdevalReceivePacked(")):
        raise ValueError("is no data file of a site")
    found = loads_strict(rest.removesuffix(b"\n);\n"))
    if head.startswith(b"ktdevalReceivePacked("):
        return loads_strict(zlib.decompress(base64.b64decode(found)))
    return found
