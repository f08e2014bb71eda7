"""Addresses of the model bridge."""

import pytest

from ktdeval_command.desk.bridge_routes import route_post
from ktdeval_command.wire.refusals import WireError


@pytest.mark.parametrize("name", ["chat/completions", "responses", "messages"])
def test_clients_that_put_no_version_before_a_form_are_answered_too(name):
    assert route_post(f"/{name}") is route_post(f"/v1/{name}")


def test_an_unknown_address_is_refused_with_the_forms():
    with pytest.raises(WireError, match="supported: POST /v1/chat/completions, "):
        route_post("/v2/messages")
