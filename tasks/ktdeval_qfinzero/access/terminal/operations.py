"""The terminal's own operations. They are in no catalogue: agents have no such tools, and the
OpenAPI document does not list them.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import get_type_hints

from anyio import from_thread

from ktdeval_qfinzero.access.terminal import types
from ktdeval_qfinzero.access.terminal.lineage import Lineages
from ktdeval_qfinzero.access.terminal.previewing import preview
from ktdeval_qfinzero.access.workspaces import Workspaces
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.operations import Operation, summary_of, typed
from ktdeval_qfinzero.pmb.arguments import PlaceOrder
from ktdeval_qfinzero.pmb.branching import check_moment, opened_ns, repeat_until
from ktdeval_qfinzero.timestamps import moment_text, parse_moment


def terminal_operations(workspaces: Workspaces) -> list[tuple[Operation, HTTPStatus]]:
    """Return the operations, each with the status of its answer. `workspaces`: those of the
    server, which branches are taken into.
    """
    lineages = Lineages()

    def branch(workspace: Workspace, given: types.Branch) -> types.Branched:
        """Open a workspace that holds what this one held at an earlier moment, and knows nothing of
        what came after it.
        """
        moment_ns = parse_moment(given.as_of_ts, "as_of_ts")
        check_moment(workspace.broker, moment_ns)
        # This runs in a thread, and the server's workspaces belong to its event loop. There is room
        # before the commands are carried out, and again where others came in the meantime.
        from_thread.run_sync(workspaces.make_room)
        new = branched(workspace, moment_ns)
        workspace_id = from_thread.run_sync(workspaces.add, new)

        added = lineages.add_branch(workspace, new, moment_ns)
        return types.Branched(
            as_of_ts=moment_text(moment_ns), workspace_id=workspace_id, name=added.name
        )

    def lineage(workspace: Workspace, given: types.LineageQuery) -> types.LineageShown:  # noqa: ARG001 - all functions of operations take both
        """Name this workspace and those that it branched from."""
        known = lineages.of(workspace)
        return types.LineageShown(
            as_of_ts=moment_text(workspace.clock.as_of_ns),
            name=known.name,
            opened_ts=moment_text(opened_ns(workspace.broker)),
            lineage=[
                types.Origin(name=each.name, from_ts=moment_text(each.from_ns))
                for each in known.members
            ],
        )

    branching = Operation(
        "TERMINAL.branch",
        "POST",
        "/terminal/branches",
        summary_of(branch),
        *typed(branch, lambda workspace: workspace),
        changes=True,
    )
    naming = Operation(
        "TERMINAL.lineage",
        "GET",
        "/terminal/lineage",
        summary_of(lineage),
        *typed(lineage, lambda workspace: workspace),
    )
    previewing = Operation(
        name="TERMINAL.preview",
        method="POST",
        path="/terminal/preview",
        summary=summary_of(preview),
        takes=PlaceOrder,
        gives=get_type_hints(preview)["return"],
        handler=preview,
    )
    return [
        (branching, HTTPStatus.CREATED),
        (naming, HTTPStatus.OK),
        (previewing, HTTPStatus.OK),
    ]


def branched(workspace: Workspace, moment_ns: int) -> Workspace:
    """Return a new workspace that holds what a workspace held at a moment, made by its commands
    alone.
    """
    new = Workspace(workspace.dataset, opened_ns(workspace.broker))
    repeat_until(new.broker, workspace.broker.engine, moment_ns)
    return new
