"""User files that a command line names. They are copied into the program's folder.

In a sandbox a program sees only its own folder and the system folders. `run='python3 agent.py'`
still works, because `agent.py` is copied into the program's folder before each step, under its own
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import ConfigError
from ktdeval.values import content_hash, read_plain, sha256_hex, user_path

_MAX_BYTES = 16 << 20


@dataclass(frozen=True)
class OwnFiles:
    """A command line with the files that it names."""

    words: tuple[str, ...]  #: arguments, with files named as in the program's folder
    files: Mapping[str, bytes]  #: contents, keyed by these names
    sources: tuple[Path, ...]  #: original paths

    @property
    def content(self) -> str | None:
        """Hash of all files; None without files."""
        if not self.files:
            return None
        return content_hash({name: sha256_hex(data) for name, data in self.files.items()})


def own_files(words: Sequence[str]) -> OwnFiles:
    """Read the files that arguments name by relative paths, below the folder in which ktdeval was
    started. Absolute paths are unchanged, and the program must be able to read them. Raises
    ConfigError if a file is too large, or if two files have the same name.
    """
    kept = list(words[:1])
    files: dict[str, bytes] = {}
    sources: dict[str, Path] = {}
    for word in words[1:]:
        path = user_path(word)
        is_own = not word.startswith(("-", "/", "~")) and path.is_file()
        if not is_own:
            kept.append(word)
            continue

        name = path.name
        if sources.setdefault(name, path) != path:
            raise ConfigError(
                f"run: two files are named {name}: {sources[name]} and {path}; rename"
            )
        if path.stat().st_size > _MAX_BYTES:
            raise ConfigError(
                f"run: {path} is over {_MAX_BYTES >> 20} MiB; give its absolute path, and add "
                "its folder to readable="
            )
        files[name] = read_plain(path)
        kept.append(name)

    return OwnFiles(tuple(kept), files, tuple(sources.values()))
