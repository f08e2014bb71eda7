"""What a call says when it refuses what it is given, to be set against a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from ktdeval.errors import KtdevalError

Case = TypeVar("Case")


def refusals(folder: Path, call: Callable[[Case], object], cases: Iterable[Case]) -> str:
    """The kind of error and its message for each case, a line each; the folder is written as
    FOLDER.
    """
    lines = []
    for case in cases:
        with pytest.raises(KtdevalError) as refused:
            call(case)

        lines.append(f"{refused.typename}: {refused.value}\n")

    return "".join(lines).replace(str(folder), "FOLDER")
