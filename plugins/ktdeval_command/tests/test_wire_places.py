"""Every place of a request of each wire format, with a value that does not belong there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktdeval_command.wire.refusals import WireError
from support.fuzzing.fuzz_bridge import bridge_parsers
from support.json_places import places, with_value

FOREIGN: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1e300,
    "",
    "x" * 300,
    "\ud800\n",
    [],
    [[]],
    [{}],
    ["x"],
    {},
    {"type": "text"},
    {"": None},
    {"a\nb": 1, "c\x00" * 500: [{}]},
    "(removed)",
]
PARSERS = bridge_parsers()


def outcome(name: str, value: Any) -> str:
    """`read`, or the kind of refusal where it is one line; anything else is raised."""
    try:
        PARSERS[name].parse(json.dumps(value).encode())
    except WireError as error:
        message = error.refusal.message
        is_shown = message.isprintable() and 0 < len(message) <= 400
        return error.refusal.kind if is_shown else message

    return "read"


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", PARSERS)
def test_a_value_in_the_wrong_place_is_read_or_refused_and_nothing_else(name: str) -> None:
    seed = json.loads(PARSERS[name].seeds[0])
    assert outcome(name, seed) == "read"

    found = []
    for place in places(seed):
        for foreign in FOREIGN:
            found.append(outcome(name, with_value(seed, place, foreign)))

    assert set(found) == {"read", "bad_request", "unsupported"}
    assert found.count("bad_request") > len(found) / 3
