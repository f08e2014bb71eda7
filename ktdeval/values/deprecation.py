"""Warn of what will be removed, in one form: what, since when, until when, and what to use."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class KtdevalDeprecationWarning(FutureWarning):
    """A public name, option or hook will be removed. Shown by default, unlike DeprecationWarning."""


def warn_deprecated(what: str, since: str, until: str, instead: str, level: int = 2) -> None:
    """Warn that `what` is deprecated since a version and removed in another one.

    `instead`: what to use, such as "use `--seeds`". `level`: frames up to the caller's code.
    """
    message = f"{what} is deprecated since {since} and will be removed in {until}; {instead}"
    warnings.warn(message, KtdevalDeprecationWarning, stacklevel=level + 1)


def deprecated(since: str, until: str, instead: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of a function, command or hook that warns at each call."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def warned(*args: P.args, **kwargs: P.kwargs) -> R:
            warn_deprecated(function.__qualname__, since, until, instead)
            return function(*args, **kwargs)

        return warned

    return decorate
