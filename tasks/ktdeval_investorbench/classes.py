"""Classes of models: type and number of parameters, by name only; a model that matches no pattern is `unclassified`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

from ktdeval.errors import UsageError
from ktdeval.fields import build
from ktdeval.yamlio import load_yaml

Type = Literal["financial_domain", "proprietary", "open_source", "no_language_model"]
TYPES = (*get_args(Type), "unclassified")  #: in the order of tables
_STATED = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])")  # neither the 22 of A22B nor the 7 of 8x7b


@dataclass(frozen=True)
class Classes:
    """Globs of lower-case names, whole or after the last slash: by type, and with known billions of parameters."""

    types: dict[Type, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)


def read_classes(path: Path | None, options: Sequence[str]) -> list[Classes]:
    """Return `MODEL=TYPE[:BILLIONS]` of the command line, the user's file and the one shipped. Raises UsageError, ConfigError."""
    from_options: dict[str, dict[str, Any]] = {"types": {}, "sizes": {}}
    for text in options:
        match = re.fullmatch(r"([^=]+)=([^:]+)(?::(\d+(?:\.\d+)?)[bB]?)?", text)
        if match is None:
            raise UsageError(f"--class {text!r}: expected MODEL=TYPE or MODEL=TYPE:BILLIONS, such as my-model=open_source:70")
        from_options["types"].setdefault(match[2], []).append(match[1])
        from_options["sizes"] |= {match[1]: float(match[3])} if match[3] else {}
    shipped = Path(str(files("ktdeval_investorbench") / "classes.yaml"))
    paths = (path, shipped) if path else (shipped,)
    classes = [build(Classes, from_options, "--class"), *(build(Classes, load_yaml(each), str(each)) for each in paths)]
    if bad := [name for each in classes for name, size in each.sizes.items() if size <= 0]:
        raise UsageError(f"size of {bad[0]}: expected billions of parameters above 0, such as 70")
    return classes


def classify(model: str, classes: Sequence[Classes]) -> tuple[str, float | None]:
    """Return type, one of `TYPES`, and billions of parameters, or None, of a model by its name, such as `openai/gpt-4o`."""
    names = (model.lower(), model.lower().rpartition("/")[2])

    def fits(pattern: str) -> bool:
        return any(fnmatchcase(name, pattern.lower()) for name in names)

    kinds = [kind for each in classes for kind, patterns in each.types.items() if any(map(fits, patterns))]
    listed = [size for each in classes for pattern, size in each.sizes.items() if fits(pattern)]
    stated = {float(text) for text in _STATED.findall(names[1])}
    return kinds[0] if kinds else "unclassified", listed[0] if listed else stated.pop() if len(stated) == 1 else None
