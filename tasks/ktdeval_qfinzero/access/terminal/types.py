"""Arguments and answers of the terminal's own calls.

All of them act on the workspace that the header Qfinzero-Workspace names, as the calls of
/openapi.json do, and refuse with the same error envelope: {"error": {"code", "message", "field"?}}.

POST /terminal/branches {"as_of_ts": "2025-01-06T15:30:00Z"}
    -> 201 {"as_of_ts": "2025-01-06T15:30:00Z", "workspace_id": "…", "name": "branch 1"}
    `workspace_id` goes into the header of later calls. Refused with the field `as_of_ts`: 409
    conflict where the moment is after the workspace's clock, or before it was opened. Refused
    without a field: 503 unavailable where all workspaces of the server are in use.

GET /terminal/lineage
    -> 200 {"as_of_ts": "…", "name": "branch 2", "opened_ts": "…",
            "lineage": [{"name": "main", "from_ts": "…"}, {"name": "branch 2", "from_ts": "…"}]}
    `as_of_ts`: the workspace's clock; `opened_ts`: earliest moment of a branch.

POST /terminal/preview {"session_id", "account_id", "order": {…}}: arguments of POST /v1/orders
    -> 200 {"as_of_ts": "…", "accepted": true, "reason": null, "idempotent": false,
            "price": 101.5, "value": 1015.0, "fee": 1.0, "reserve": 507.5,
            "before": {"cash", "equity", "buying_power", "reserved"},
            "placed": {…}, "filled": {…} or null}
    An order that POST /v1/orders would answer with an error is answered with that error. One that
    the broker would reject has `accepted` false and its `reason`, and `filled` null.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ktdeval_qfinzero.access.types import WorkspaceId
from ktdeval_qfinzero.schemas import Answer, Arguments, Moment, described, text

Name = Annotated[str, described("`main`, or `branch` and a number.")]


class Branch(Arguments, kw_only=True):
    """A branch to open."""

    as_of_ts: Annotated[
        str,
        text(
            "Moment at which the branch begins, such as 2025-01-06T15:30:00Z; not after the clock."
        ),
    ]


class Branched(Answer):
    """A new workspace, which holds what this one held at a moment."""

    workspace_id: WorkspaceId
    name: Name


class LineageQuery(Arguments, kw_only=True):
    """No arguments."""


class Origin(msgspec.Struct, frozen=True):
    """A workspace of a lineage, and where it begins."""

    name: Name
    from_ts: Moment


class LineageShown(Answer):
    """Name of a workspace, and the workspaces whose commands it repeats."""

    name: Name
    opened_ts: Annotated[str, described("Where the clock of the first of them started.")]
    lineage: Annotated[
        list[Origin], described("The first workspace, each branch after it, and this one last.")
    ]


class Funds(msgspec.Struct):
    """Means of an account."""

    cash: Annotated[float, described("Cash; negative: borrowed.")]
    equity: Annotated[float, described("Cash and market value of all positions.")]
    buying_power: Annotated[
        float, described("What new long stock could be bought for, without working orders.")
    ]
    reserved: Annotated[float, described("What working orders tie up.")]


class Preview(Answer):
    """An order as the broker would take it now; nothing is sent."""

    accepted: Annotated[bool, described("Whether the broker would accept it.")]
    reason: Annotated[str | None, described("Why it would be rejected.")]
    idempotent: Annotated[bool, described("Whether its client_order_id stands for an order sent.")]
    price: Annotated[
        float | None,
        described(
            "Price at which the broker checks it: limit, or else stop or last price with slippage."
        ),
    ]
    value: Annotated[float | None, described("Price times units.")]
    fee: Annotated[float, described("Fee of a fill in full.")]
    reserve: Annotated[float, described("What it ties up while it works.")]
    before: Annotated[Funds, described("Without it.")]
    placed: Annotated[Funds, described("While it works.")]
    filled: Annotated[Funds | None, described("After a fill in full at `price`.")]
