"""A day's state, rendered from a task's payloads by the mask's lens."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.masking.lens import Lens
from ktdeval.masking.payload_types import Payload
from ktdeval.observation.compact import compact_sections
from ktdeval.observation.older_closes import with_older_apart
from ktdeval.observation.state import ObservedState


def observe(
    lens: Lens,
    payload: Mapping[str, Payload],
    *,
    is_compact: bool = False,
    sets_older_apart: bool = False,
) -> ObservedState:
    """Return a day's payload as the lens shows it. `is_compact` packs the tables of figures;
    `sets_older_apart` stores the older closes in the history separately. Raises PluginError if a
    value is not a payload type, and DataError if the snapshot lacks an asset or day.
    """
    sections: Mapping[str, str] = lens.render_fields(payload)
    if sets_older_apart:
        sections = with_older_apart(sections)
    if is_compact:
        sections = compact_sections(sections)
    return ObservedState(sections)
