"""Public names of masking: lens, handles, payloads, the identities of a market."""

from ktdeval.masking.aliases_and_noise import (
    FIGURE_DIGITS as FIGURE_DIGITS,
    WICK_SD as WICK_SD,
    WICK_SHIFT as WICK_SHIFT,
    asset_order as asset_order,
)
from ktdeval.masking.dates.date_detection import is_amount as is_amount
from ktdeval.masking.dates.foreign_date_names import (
    find_named as find_named,
    name_hints as name_hints,
)
from ktdeval.masking.hidden_spans import Hidden as Hidden
from ktdeval.masking.leak_guard import LeakGuard as LeakGuard
from ktdeval.masking.lens import (
    UNMASKED as UNMASKED,
    Lens as Lens,
    prepare_payload as prepare_payload,
)
from ktdeval.masking.mask_config import (
    MASK_KINDS as MASK_KINDS,
    MAX_DIGITS as MAX_DIGITS,
    MaskConfig as MaskConfig,
    MaskKind as MaskKind,
    listed_assets as listed_assets,
)
from ktdeval.masking.names.entity_detection import EntityIndex as EntityIndex
from ktdeval.masking.names.identity_index import (
    WITHHELD as WITHHELD,
    IdentityIndex as IdentityIndex,
    identities_of as identities_of,
)
from ktdeval.masking.payload_types import (
    AssetName as AssetName,
    AssetRef as AssetRef,
    DayRef as DayRef,
    DocumentRef as DocumentRef,
    Exact as Exact,
    IndexLevel as IndexLevel,
    OwnFigure as OwnFigure,
    Payload as Payload,
    Price as Price,
    Prose as Prose,
    SectorRef as SectorRef,
    Shares as Shares,
    figure as figure,
    filled_table as filled_table,
    render_json as render_json,
    table as table,
)
from ktdeval.masking.prose import ShownDocument as ShownDocument, TextMask as TextMask
from ktdeval.masking.rendering import Prepared as Prepared
from ktdeval.masking.shown_figures import REBASE_LEVEL as REBASE_LEVEL
from ktdeval.masking.text_normalisation import (
    lower_text as lower_text,
    normalise as normalise,
    normalise_with_places as normalise_with_places,
    places_of as places_of,
    squash as squash,
)
from ktdeval.masking.text_truncation import beginning as beginning, shorten as shorten
