"""Classes of models: type and number of parameters, from the name alone; a model that no pattern knows is `unclassified`."""

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
    """Globs of names in lower case, whole or after the last slash: of each type, and those of known billions of parameters."""

    types: dict[Type, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)


def read_classes(path: Path | None, given: Sequence[str]) -> list[Classes]:
    """Return `MODEL=TYPE[:BILLIONS]` of the command line, the user's file and the one shipped. Raises UsageError, ConfigError."""
    own: dict[str, dict[str, Any]] = {"types": {}, "sizes": {}}
    for text in given:
        match = re.fullmatch(r"([^=]+)=([^:]+)(?::(\d+(?:\.\d+)?)[bB]?)?", text)
        if match is None:
            raise UsageError(f"--class {text!r}: expected MODEL=TYPE or MODEL=TYPE:BILLIONS, such as my-model=open_source:70")
        own["types"].setdefault(match[2], []).append(match[1])
        own["sizes"] |= {match[1]: float(match[3])} if match[3] else {}
    shipped = Path(str(files("ktdeval_investorbench") / "classes.yaml"))
    found = [build(Classes, own, "--class"), *(build(Classes, load_yaml(one), str(one)) for one in (path, shipped) if one)]
    if bad := [name for one in found for name, size in one.sizes.items() if size <= 0]:
        raise UsageError(f"size of {bad[0]}: expected billions of parameters above 0, such as 70")
    return found


def classify(model: str, known: Sequence[Classes]) -> tuple[str, float | None]:
    """Type, one of `TYPES`, and billions of parameters, None where not known, of a model by its name, such as `openai/gpt-4o`."""
    names = (model.lower(), model.lower().rpartition("/")[2])

    def fits(pattern: str) -> bool:
        return any(fnmatchcase(name, pattern.lower()) for name in names)

    kinds = [kind for one in known for kind, patterns in one.types.items() if any(map(fits, patterns))]
    listed = [size for one in known for pattern, size in one.sizes.items() if fits(pattern)]
    stated = {float(text) for text in _STATED.findall(names[1])}
    return kinds[0] if kinds else "unclassified", listed[0] if listed else stated.pop() if len(stated) == 1 else None
