"""Public names of observations: the state of a day as the mask shows it."""

from ktdeval.observation.fills import Fill as Fill, fill_of as fill_of
from ktdeval.observation.state import (
    NOTHING_SHOWN as NOTHING_SHOWN,
    ObservedState as ObservedState,
    state_of_values as state_of_values,
)
from ktdeval.observation.state_entries import (
    ObservedAccount as ObservedAccount,
    ObservedAsset as ObservedAsset,
    ObservedBar as ObservedBar,
    ObservedDocument as ObservedDocument,
    ObservedLimits as ObservedLimits,
    ObservedOrder as ObservedOrder,
    ObservedOutcome as ObservedOutcome,
    ObservedPosition as ObservedPosition,
    first_number as first_number,
)
from ktdeval.observation.state_reading import (
    recorded_state as recorded_state,
    shown_state as shown_state,
)
from ktdeval.observation.state_rendering import observe as observe
from ktdeval.observation.state_rows import (
    ASSET as ASSET,
    as_object as as_object,
    rows_by_asset as rows_by_asset,
    table_rows as table_rows,
)
