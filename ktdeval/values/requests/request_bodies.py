"""Bodies of HTTP requests, for servers on top of `http.server`: how long a body is, and reading it
piece by piece within limits of size and time.

`http.server` leaves both to its handlers, so that each would interpret the headers by itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from email.message import Message
from typing import Literal, Protocol

from ktdeval.errors import KtdevalError
from ktdeval.values.requests.request_smuggling import ambiguity

BodyFault = Literal["bad_request", "unsupported", "too_large"]

_MAX_DIGITS = 15  #: leading zeros included; any longer number is refused unread
_PIECE_BYTES = 1 << 16


class RefusedBody(KtdevalError):
    """The body of a request that is not read, or not to its end."""

    def __init__(self, fault: BodyFault, problem: str) -> None:
        super().__init__(problem)
        self.fault = fault  #: kind of the problem, from which a server derives its status


class PieceStream(Protocol):
    """Stream of bytes, such as the `rfile` of a handler."""

    def read1(self, size: int, /) -> bytes:
        """Return the bytes that have arrived, at most `size`; none at the end."""


def content_length(text: str) -> int:
    """Return the number in a header Content-Length. Raises RefusedBody unless it consists of at
    most 15 digits 0 to 9.
    """
    digits = text.strip(" \t")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > _MAX_DIGITS:
        raise RefusedBody("bad_request", "Content-Length: expected a whole number")
    return int(digits)


def body_length(headers: Message, once: Iterable[str] = ()) -> int:
    """Return the length in bytes of a request's body; 0 if it has none. Raises RefusedBody if the
    headers are malformed or ambiguous, or if the body is chunked or compressed. `once`: as in
    `ambiguity`.
    """
    # For the parser, a line that is not a header ends the headers, so a length could be hidden in
    # the lines after it.
    if headers.defects or headers.get_payload():
        raise RefusedBody("bad_request", "the request has a malformed header line")

    problem = ambiguity(headers.items(), once)
    if problem is not None:
        raise RefusedBody("bad_request", problem)
    if "Transfer-Encoding" in headers:
        raise RefusedBody("unsupported", "a body needs the header Content-Length")
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise RefusedBody(
            "unsupported", "a compressed body is not supported; send it without Content-Encoding"
        )
    return content_length(headers.get("Content-Length", "0"))


def check_length(length: int, max_bytes: int) -> None:
    """Raise RefusedBody if a body is longer than the limit."""
    if length > max_bytes:
        raise RefusedBody("too_large", f"the body has over {max_bytes:,} bytes")


def body_pieces(stream: PieceStream, length: int, max_s: float) -> Iterator[bytes]:
    """Yield a body of this length piece by piece, as it arrives; no byte beyond it is read. Raises
    RefusedBody if the stream ends early, or if the body does not arrive within `max_s` seconds.
    """
    deadline = time.monotonic() + max_s
    unread = length
    while unread > 0:
        try:
            piece = stream.read1(min(unread, _PIECE_BYTES))
        except TimeoutError as error:
            raise RefusedBody("bad_request", "the body did not arrive in time") from error
        if not piece:
            raise RefusedBody("bad_request", "the body is shorter than Content-Length")

        unread -= len(piece)
        yield piece
        if unread and time.monotonic() > deadline:
            raise RefusedBody("bad_request", "the body did not arrive in time")
