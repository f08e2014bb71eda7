"""Read a state from a recorded prompt. Transcripts contain only the text.

For metrics and viewers of finished runs. Agents, models and estimates use `Observation.state` and
`ModelRequest.state` instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ktdeval.observation.compact import unpack_section
from ktdeval.observation.state import ObservedState, state_of_values
from ktdeval.observation.state_rows import as_object
from ktdeval.values.documents.strict_json import loads_strict

_JSON_BLOCK = re.compile(r"```json\s*\n(.*?)\n```", re.DOTALL)


def recorded_state(prompt: str) -> ObservedState:
    """Return the state in a recorded prompt; an empty state if the prompt shows none."""
    return state_of_values(shown_state(prompt))


def shown_state(prompt: str) -> Mapping[str, Any]:
    """Return the last JSON block in a recorded prompt; empty without a JSON block, or if the
    block is not an object.
    """
    blocks = _JSON_BLOCK.findall(prompt)
    if not blocks:
        return {}

    try:
        value = loads_strict(blocks[-1])
    except ValueError:
        return {}
    return {name: unpack_section(section) for name, section in as_object(value).items()}
