"""Bodies of requests: what a length may look like, and reading no byte more than it says."""

from __future__ import annotations

import io
from email.parser import BytesParser
from http.client import HTTPMessage
from typing import Any

import pytest

from ktdeval.values import RefusedBody, body_length, body_pieces, check_length, content_length


def headers_of(*lines: str) -> Any:
    text = "".join(f"{line}\r\n" for line in lines) + "\r\n"
    return BytesParser(_class=HTTPMessage).parsebytes(text.encode("latin-1"))


@pytest.mark.parametrize(
    ("text", "length"),
    [("0", 0), ("5", 5), (" 5 ", 5), ("007", 7), ("000000300000000", 300_000_000)],
)
def test_a_length_is_the_number_whatever_its_leading_zeros(text: str, length: int) -> None:
    assert content_length(text) == length


@pytest.mark.parametrize(
    "text",
    [
        "000000000000000300000000",  # its first digits are zeros
        "9" * 5000,
        "-1",
        "+5",
        "5, 5",
        "5;5",
        "0x5",
        "1e9",
        "5.0",
        "",
        " ",
        "\u0665",
        "\u00b2",
        "5\x0b",
        "5_0",
    ],
)
def test_any_other_length_is_refused(text: str) -> None:
    with pytest.raises(RefusedBody, match="Content-Length: expected a whole number") as refused:
        content_length(text)

    assert refused.value.fault == "bad_request"


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (("Content-Length: 5", "Content-Length: 5"), "bad_request"),
        (("Content-Length: 5", "content-length: 6"), "bad_request"),
        (("Content-Length: 5", "Transfer-Encoding: chunked"), "bad_request"),
        (("Transfer-Encoding: chunked",), "unsupported"),
        (("Transfer-Encoding: identity",), "unsupported"),
        (("Content-Encoding: gzip", "Content-Length: 5"), "unsupported"),
        (("no header", "Content-Length: 5"), "bad_request"),
        (("Cookie: a", "Cookie: b"), "bad_request"),
    ],
)
def test_headers_that_say_the_length_in_two_ways_or_none_are_refused(
    lines: tuple[str, ...], fault: str
) -> None:
    with pytest.raises(RefusedBody) as refused:
        body_length(headers_of("Host: x", *lines), ("cookie",))

    assert refused.value.fault == fault


def test_a_body_is_read_to_its_end_and_no_further() -> None:
    stream = io.BytesIO(b"a" * 200_000 + b"GET /second")

    assert b"".join(body_pieces(stream, 200_000, 30)) == b"a" * 200_000
    assert stream.read() == b"GET /second"


def test_a_body_that_ends_early_is_refused_after_what_came() -> None:
    pieces = body_pieces(io.BytesIO(b"abc"), 5, 30)

    assert next(pieces) == b"abc"
    with pytest.raises(RefusedBody, match="shorter than Content-Length"):
        next(pieces)


class Drip:
    """Sends one byte at a time, for ever."""

    sent = 0

    def read1(self, _size: int, /) -> bytes:
        self.sent += 1
        return b"x"


def test_a_body_that_drips_is_refused_when_its_time_is_over() -> None:
    drip = Drip()

    with pytest.raises(RefusedBody, match="did not arrive in time"):
        list(body_pieces(drip, 1000, max_s=0.0))

    assert drip.sent <= 2


def test_a_body_over_the_limit_is_refused_unread() -> None:
    check_length(10, 10)
    with pytest.raises(RefusedBody, match="over 10 bytes") as refused:
        check_length(11, 10)

    assert refused.value.fault == "too_large"
