"""Installation of a program: the files that it must read beyond the system folders, and its PATH.

npm programs are in `node_modules` and need `node`; Python scripts are in a virtual environment and
need its interpreter. Both are found through the links and the first line of the program's file.
Nothing else is shown: if a program is in a home folder or a project, that folder does not become
visible.
"""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from ktdeval.values import user_path
from ktdeval_command.sandboxes.shown_parts import SYSTEM, SourcePart, environment_parts

_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_FIRST_LINE_BYTES = 512
# from a script to its interpreter, which may be a script with an interpreter, and so on
_MAX_STEPS = 8


@dataclass(frozen=True)
class Installation:
    """Parts of a program. `path` is its variable PATH; empty if the usual PATH finds everything."""

    parts: tuple[SourcePart, ...] = ()
    path: str = ""


def start_path(program: str) -> str:
    """Return the path by which a program is found from any folder: a path becomes absolute, and a
    bare name is unchanged.
    """
    if "/" not in program:
        return program
    return str(_with_real_folder(user_path(program)))


def installation_of(program: str) -> Installation:
    """Return the locations of a program and its interpreters; empty if the program is not found."""
    parts: dict[SourcePart, None] = {}
    bins: dict[Path, None] = {}
    name: str | None = program
    for _ in range(_MAX_STEPS):
        found = shutil.which(name) if name else None
        if found is None:
            break

        link = _with_real_folder(Path(found))
        bins[link.parent] = None
        for candidate in (link, link.resolve()):
            parts |= dict.fromkeys(_parts_of(candidate))
        name = _interpreter(link)

    own = [str(folder) for folder in bins if not _is_system(folder)]
    path = ":".join([*own, _SYSTEM_PATH]) if own else ""
    return Installation(_without_nested(list(parts)), path)


def _with_real_folder(path: Path) -> Path:
    """Resolve the symlinks in a path's folder, but not the file itself: a program may behave
    differently depending on the name it is called by.
    """
    return path.absolute().parent.resolve() / path.name


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(root) for root in SYSTEM)


def _parts_of(path: Path) -> list[SourcePart]:
    """Return the parts to show for a file; empty if the file belongs to the system."""
    if _is_system(path):
        return []

    for above in reversed(path.parents):
        if above.name == "node_modules":
            return [SourcePart(above, "packages")]
    for above in path.parents:
        parts = environment_parts(above) if (above / "pyvenv.cfg").is_file() else []
        if any(path.is_relative_to(part.path) for part in parts):
            return parts
    if path.parent.name != "bin":
        return []

    library = path.parent.parent / "lib"
    if path.name.startswith("python") and any(library.glob("python3*/os.py")):
        # a Python with its standard library
        return [SourcePart(path.parent, "interpreter"), SourcePart(library, "interpreter")]
    return [SourcePart(path.parent, "programs")]


def _interpreter(path: Path) -> str | None:
    """Return the interpreter that a script's first line names; None if the file is not a script."""
    try:
        with path.open("rb") as file:
            line = file.readline(_FIRST_LINE_BYTES)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None

    try:
        words = shlex.split(line[2:].decode())
    except ValueError:
        return None
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return words[0] if words else None


def _without_nested(parts: list[SourcePart]) -> tuple[SourcePart, ...]:
    outer = []
    for part in parts:
        others = [other for other in parts if other.path != part.path]
        if not any(part.path.is_relative_to(other.path) for other in others):
            outer.append(part)
    return tuple(outer)
