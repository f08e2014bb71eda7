"""People as models: `--model human/terminal` and `--model human/page`.

A person answers the requests that a model would get, in a terminal or on a local web page, and sees
the contents of these requests and nothing else. So masks, tools, rules, records and cards are the
same for a person as for a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import maker, option

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TerminalParams:
    """Parameters for a person at a terminal."""

    who: str = option(
        "",
        help=(
            "name of the player on the card: up to 40 letters, digits, - and _; each name has "
            "separate runs"
        ),
    )


@dataclass(frozen=True)
class PageParams(TerminalParams):
    """Parameters for a person at a page."""

    port: int = option(0, help="port of the page; 0: any free port", minimum=0, maximum=65_535)


@hookimpl
def ktdeval_models() -> Sequence[Spec]:
    """Return the two models of a person: at a terminal and at a page."""
    return [
        Spec(
            "human/terminal",
            maker("ktdeval_human.terminal:at_terminal"),
            "A person who decides in this terminal",
            TerminalParams,
            remote=False,
            decider="person",
        ),
        Spec(
            "human/page",
            maker("ktdeval_human.page:at_page"),
            "A person who decides on a local web page",
            PageParams,
            remote=False,
            decider="person",
        ),
    ]
