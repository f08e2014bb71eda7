"""Result documents of commands that analyse a run, each in its own folder: a shared reader with
consistent errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from ktdeval.errors import StoreError, wrap_os_error
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.format_versions import check_version, stated_version
from ktdeval.values.documents.typed_json import Value, decode_json

Document = TypeVar("Document", bound=Value)


def load_result(
    folder: Path, name: str, type_: type[Document], form: str, command: str
) -> Document:
    """Read the document `name` in a folder.

    `form`: the document's format. `command`: the command that writes it, such as `judge`. Raises
    StoreError if the document is missing or unreadable.
    """
    path = folder / name
    where = f"{path}: not a readable {form}"
    if not path.exists():
        raise StoreError(f"{folder}: no {form} here ({name} is missing)")

    with wrap_os_error(where):
        data = read_plain(path)

    head = decode_json(data, dict[str, msgspec.Raw], where)
    version = stated_version(head, str(path))
    check_version(form, version, path, f"run `ktdeval {command}` again")
    return decode_json(data, type_, where)
