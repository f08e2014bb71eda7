"""Arguments and answers of operations that only a server offers: workspaces, errors, and the
broker's log.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.errors import Code
from ktdeval_qfinzero.schemas import Arguments, Page, text

ErrorCode = Literal[Code, "internal"]
WorkspaceId = Annotated[str, text("Id of the workspace.", 64)]


class OpenWorkspace(Arguments, kw_only=True):
    """A workspace to open."""

    as_of_ts: (
        Annotated[
            str,
            Meta(
                description="Where the clock starts, such as 2025-01-06T21:00:00Z; the server's own "
                "start when left out.",
                max_length=40,
            ),
        ]
        | None
    ) = None


class DropWorkspace(Arguments, kw_only=True):
    """A workspace to drop."""

    workspace_id: WorkspaceId


class Opened(msgspec.Struct):
    """A new workspace.

    as_of_ts: Where the workspace's clock stands.
    """

    workspace_id: WorkspaceId
    as_of_ts: str


class Dropped(msgspec.Struct):
    """A workspace that is gone.

    dropped: It is gone.
    """

    workspace_id: WorkspaceId
    dropped: bool


class ErrorInfo(msgspec.Struct):
    """A refusal or a defect.

    code: Kind of error.
    message: One line.
    field: The argument concerned, with its place inside.
    """

    code: ErrorCode
    message: str
    field: str | UnsetType = UNSET


class ErrorEnvelope(msgspec.Struct):
    """Form of every error.

    error: What is wrong and how to fix it.
    """

    error: ErrorInfo


class LogPage(Page):
    """Lines of a log, without line ends.

    lines: Each as it stands in the log: write them to a file, one a line.
    log_hash: Hash of the log's last line, which stands for the whole log.
    """

    lines: list[str]
    log_hash: str
