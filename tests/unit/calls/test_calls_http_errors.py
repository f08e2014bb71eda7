"""What an adapter of another plugin is given for the failures of HTTP: a typed error, one line, no secret."""

from __future__ import annotations

import pytest

from ktdeval.calls import Caller, ContentFiltered, http_error, json_reply, network_error
from ktdeval.errors import ModelError, ProviderError

KEY = "mine-0123456789abcdef"
CALLER = Caller("mine", "m-1", "https://mine.example/v1", ("MINE_API_KEY",), (KEY,), {"e17": 402})


def test_codes_of_a_server_mean_what_its_adapter_says() -> None:
    assert "no quota" in str(http_error(400, b'{"code": "E17"}', {}, CALLER))
    with pytest.raises(ProviderError, match="no quota"):
        json_reply(b'{"error": {"code": "E17"}}', CALLER)
    assert isinstance(http_error(400, b'{"error": {"code": "content_filter"}}', {}, CALLER), ContentFiltered)


def test_without_a_whole_response_it_is_a_timeout_a_connection_or_a_bad_response() -> None:
    assert network_error(CALLER, "", is_timeout=True).kind == "timeout"
    lost = network_error(CALLER, f"getaddrinfo failed for {KEY}")
    assert (lost.kind, "is the address right?" in str(lost), KEY in str(lost)) == ("connection", True, False)
    for content in (b"", b"<html>", b"[1]", b'{"cut": '):
        with pytest.raises(ModelError) as caught:
            json_reply(content, CALLER)
        assert caught.value.kind == "bad_response"
    assert json_reply(b'{"a": 1}', CALLER) == {"a": 1}
