"""Errors as a user reads them, one line each, for snapshots of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import KtdevalError


def text_of(lines: Iterable[str]) -> str:
    """Return lines as one text, without the blanks at their ends.

    Example:
        text_of(["day  NAV  ", "1    1.02"])
    """
    return "".join(f"{line.rstrip()}\n" for line in lines)


def error_lines(*calls: Callable[[], object], folder: Path | None = None) -> str:
    """Return a line for each call: the kind and the message of its `KtdevalError`. `FOLDER`
    replaces the path of `folder`, which is mostly temporary.

    Raises AssertionError if a message has several lines; the test fails if a call ends without a
    KtdevalError.

    Example:
        error_lines(lambda: load_plugins().make_task("no_such_task"))
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
    """Return a line, as `error_lines`, for each value that `call` refuses.

    Example:
        errors_of(load_plugins().make_task, "no_such_task", "")
    """
    return error_lines(*(partial(call, each) for each in given), folder=folder)


def errors_with(
    call: Callable[..., object], *given: Mapping[str, Any], folder: Path | None = None
) -> str:
    """Return a line, as `error_lines`, for each set of options that `call` refuses.

    Example:
        errors_with(load_plugins().make_task, {"name": "no_such_task"})
    """
    return error_lines(*(partial(call, **each) for each in given), folder=folder)
