"""One client's day: every operation of the services at least once, with arguments that they accept,
each using what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from itertools import takewhile
from typing import Any

from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from support.tables import beside

Call = tuple[str, dict[str, Any]]
Played = list[tuple[str, dict[str, Any], dict[str, Any]]]

CONTRACT = "O:AVLN250117C00100000"


def trading() -> list[Call]:
    """Calls of a broker's client."""
    return [(name, deepcopy(arguments)) for name, arguments in beside(__file__)["trading"]]


def amid_trading() -> list[Call]:
    """Those of them after which there are fills, positions, a cancelled order and a session that
    runs.
    """
    return list(takewhile(lambda call: call[0] != "PMB.session.market", trading()))


def day() -> list[Call]:
    """Everything, in order."""
    parts = beside(__file__)
    calls = [*parts["prices"], *parts["events"], *parts["trading"]]
    return [(name, deepcopy(arguments)) for name, arguments in calls]


def played(calls: Sequence[Call], call: Callable[[str, dict[str, Any]], Any]) -> Played:
    """Calls with their answers."""
    return [(name, arguments, call(name, arguments)) for name, arguments in calls]


def in_process(workspace: Workspace) -> Callable[[str, dict[str, Any]], Any]:
    """How `played` calls the services of this process; a refusal is answered with its envelope."""
    return partial(catalogue().answer, workspace)
