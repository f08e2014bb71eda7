"""Plugin of mypy that refuses the built-in `sum` of floats in product code.

Since Python 3.12 it compensates for rounding and before it does not, so that a record would depend
on the Python that wrote it. Values whose type mypy does not know pass;
`tests/contract/test_two_pythons.py` looks at those while an episode runs.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.maptype import map_instance_to_supertype
from mypy.plugin import FunctionContext, Plugin
from mypy.types import Instance, Type, UnionType, get_proper_type


class SumPlugin(Plugin):
    """Holds each call of `sum` to whole numbers."""

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """Return the check of a call of `sum`."""
        return _check if fullname == "builtins.sum" else None


def _check(context: FunctionContext) -> Type:
    iterable = context.api.named_generic_type("typing.Iterable", []).type
    terms, *start = [
        get_proper_type(context.api.get_expression_type(given[0]))
        for given in context.args
        if given
    ]
    if isinstance(terms, Instance) and terms.type.has_base("typing.Iterable"):
        terms = get_proper_type(map_instance_to_supertype(terms, iterable).args[0])
    kinds = [
        get_proper_type(part)
        for one in (terms, *start)
        for part in (one.items if isinstance(one, UnionType) else [one])
    ]
    if any(isinstance(kind, Instance) and kind.type.has_base("builtins.float") for kind in kinds):
        context.api.fail(
            "`sum` is for whole numbers; floats are added by `math.fsum`", context.context
        )
    return context.default_return_type


def plugin(version: str) -> type[Plugin]:  # noqa: ARG001
    """Return the plugin class, as mypy asks for it."""
    return SumPlugin
