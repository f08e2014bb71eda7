"""Texts as somebody reads them, for snapshots of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import KtdevalError


def text_of(lines: Iterable[str]) -> str:
    """Lines as they stand on a page, blanks at their ends aside."""
    return "".join(f"{line.rstrip()}\n" for line in lines)


def error_lines(*calls: Callable[[], object], folder: Path | None = None) -> str:
    """The kind and the one line of the error that each call ends with; `FOLDER` stands for a
    temporary folder.
    """
    lines = []
    for call in calls:
        with pytest.raises(KtdevalError) as caught:
            call()

        lines.append(f"{type(caught.value).__name__}: {caught.value}")

    text = text_of(lines)
    assert text.count("\n") == len(calls), text
    return text if folder is None else text.replace(str(folder), "FOLDER")


def errors_of(call: Callable[[Any], object], *given: Any, folder: Path | None = None) -> str:
    """A line, as of `error_lines`, for each value with which this call ends in an error."""
    return error_lines(*(partial(call, each) for each in given), folder=folder)


def errors_with(
    call: Callable[..., object], *given: Mapping[str, Any], folder: Path | None = None
) -> str:
    """A line, as of `error_lines`, for each set of options with which this call ends in an error."""
    return error_lines(*(partial(call, **each) for each in given), folder=folder)
