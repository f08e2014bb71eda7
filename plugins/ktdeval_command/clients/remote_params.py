"""Arguments of the agent `remote`."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values import Address, LocalPath, option


@dataclass(frozen=True, kw_only=True)
class RemoteAgentParams:
    """Where clients connect, and how long the run waits for them."""

    host: Address = option(
        "127.0.0.1",
        help=(
            "address to listen on; connections are not encrypted, so any other address than this "
            "machine's needs a tunnel or a proxy with TLS"
        ),
    )
    port: int = option(8765, help="port to listen on; 0: any free port", minimum=0, maximum=65_535)
    token: LocalPath = option(
        "",
        help=(
            "file with the token that clients send, created if missing; default: a new token, "
            "written to standard error"
        ),
    )
    seconds: float = option(
        600.0,
        help=(
            "time limit of a day, in seconds; after it the step is a hold, and the episode waits "
            "for another client"
        ),
        minimum=0.1,
        maximum=31_536_000,
    )
    wait_s: float = option(
        3600.0,
        help="seconds without any client after which the run stops; it can be resumed",
        minimum=0.1,
        maximum=31_536_000,
    )
    calls: int = option(
        200,
        help="maximum number of calls of the model bridge in a step",
        minimum=1,
        maximum=100_000,
    )
