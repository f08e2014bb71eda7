"""The mask of one episode, which renders payloads for the model and parses the model's handles.

A lens translates by field type, never by text. It reads only static facts (codes, names,
industries, the calendar) and prices known at the close of day_+0, so it cannot leak a later price.
There is one exception: an asset listed after day_+0 is rebased to its first close.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import groupby, islice
from typing import Any, TypeVar, cast

import numpy as np

from ktdeval.errors import DataError, PluginError
from ktdeval.market.snapshots.documents import DocumentsView
from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.market.snapshots.snapshot import MarketSnapshot, parse_code
from ktdeval.masking.aliases_and_noise import (
    AliasMap,
    DocumentAlias,
)
from ktdeval.masking.mask_config import MaskConfig, listed_assets
from ktdeval.masking.names.identity_index import IdentityIndex, identities_of
from ktdeval.masking.payload_types import (
    AssetName,
    AssetRef,
    DayRef,
    DocumentRef,
    Exact,
    IndexLevel,
    MarketFigure,
    OwnFigure,
    Payload,
    Price,
    Prose,
    RefusedTypeError,
    SectorRef,
    Shares,
    path_of,
)
from ktdeval.masking.rendering import PayloadRenderer, Prepared, parse_payload
from ktdeval.masking.shown_figures import ShownFigures
from ktdeval.masking.text_normalisation import normalise
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.seeds import derive_seed

_DAY_HANDLE = re.compile(r"day_([+-])([0-9]{1,6})")
_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Shown = TypeVar("Shown")
PayloadChange = Callable[[Payload], Payload]
# maximum characters of a text that may be a handle; results for such texts are cached
_SHORT = 64


class Lens:
    """The mask of one episode. Equal seeds give equal handles and an equal order under every mask.

    `base_row` is the row of `day_+0`. The lens reads static facts, rows up to `base_row`, the first
    close of assets listed later, and the maximum number of members. It parses only handles that it
    has shown. Raises DataError if the snapshot does not have the row `base_row`.

    Example:
        lens = Lens(MaskConfig("blinded"), spec.mask_seed, snapshot, base_row=1)
        lens.render({"stock_id": AssetRef(0), "day": DayRef(0)})["day"]  # day_-1
    """

    def __init__(
        self, mask: MaskConfig, seed: int, snapshot: MarketSnapshot, base_row: int
    ) -> None:
        if not 0 <= base_row < len(snapshot.days):
            raise DataError(
                f"day_+0 at row {base_row} lies outside the snapshot's {len(snapshot.days)} trading"
                " days"
            )

        self.mask = mask
        self.base_row = base_row
        self.hides_assets: bool = mask.kind in ("stock_blind", "blinded")
        self.hides_dates: bool = mask.hides_dates
        self._alias = AliasMap(seed, len(snapshot.codes), snapshot.industries)
        self._documents = DocumentAlias(seed)
        self.order: tuple[int, ...] = self._alias.order
        """Asset columns in a seeded order that reveals nothing about their codes; the same under
        all masks.
        """
        self.indices: tuple[str, ...] = tuple(
            sorted(snapshot.indices, key=lambda code: derive_seed(seed, "index_order", code))
        )
        """Index codes in a seeded order that reveals nothing about them; the same
        under all masks.
        """
        self._handles: dict[int, str] = {}  # asset -> handle, only for assets shown so far
        self._assets: dict[str, int] = {}  # handle -> asset
        #: whether a code is accepted only after it was shown; accepting other codes would reveal
        #: the day
        self.only_shown = False
        self._today = base_row
        self._latest = base_row  # the latest day shown so far
        self._columns = snapshot.asset_index
        self._day_texts: tuple[str, ...] = tuple(
            np.datetime_as_string(snapshot.days, unit="D").tolist()
        )
        self._rows = {text: row for row, text in enumerate(self._day_texts)}
        self._change: PayloadChange | None = None
        self.figures = ShownFigures(mask, seed, snapshot, base_row)
        self._snapshot = snapshot
        self._renderer = PayloadRenderer(self._make_renderers(), self._handles)

    @property
    def shares_prepared_texts(self) -> bool:
        """True if payloads without identities have the same text under all masks of this kind (see
        `prepare_payload`).
        """
        return self.figures.are_as_in_data and self._change is None

    def show_changed(self, change: PayloadChange) -> None:
        """From now on, show payloads as modified by `change`."""
        self._change = change

    def relabel(self, seed: int) -> None:
        """From now on, show assets and industries under newly drawn handles."""
        shown = list(self._assets.values())
        self._alias = AliasMap(seed, len(self._columns), self._snapshot.industries)
        self._handles.clear()
        self._assets.clear()
        for asset in shown:
            self.asset_handle(asset)

    def _make_renderers(self) -> Mapping[type, Callable[[Any], JsonValue]]:
        renderers: dict[type, Callable[[Any], JsonValue]] = {
            AssetRef: lambda ref: self.asset_handle(ref.asset),
            AssetName: self._render_name,
            DayRef: lambda ref: self.day_handle(ref.day),
            SectorRef: lambda ref: self.sector_handle(ref.industry),
            DocumentRef: lambda ref: self._documents.handle(ref.row),
            Prose: self._render_prose,
            Price: self.figures.render_price,
            Shares: self.figures.render_shares,
            IndexLevel: self.figures.render_level,
            OwnFigure: self.figures.render_own_figure,
            np.float64: lambda value: self._renderer.value(float(value)),
        }
        if self.mask.is_coarse:
            renderers[MarketFigure] = self.figures.render_figure
        if self.shares_prepared_texts:
            renderers[Prepared] = lambda prepared: parse_payload(self._renderer.join_text(prepared))

        return renderers

    def move_to(self, row: int) -> None:
        """Move to day `row`: show codes and names as of that day, accept codes in use by then, and
        rebase assets that have been listed since.
        """
        if self._snapshot.spells and not self.hides_assets:
            # Codes and names change over time, so cached handles may be outdated.
            self._handles.clear()

        self._today = row
        self._latest = max(row, self._latest)
        self.figures.move_to(row)

    # --- from the market to the model

    def render(self, payload: Payload) -> JsonValue:
        """Return a payload as plain JSON under this mask; NaN and infinity become null.

        Raises PluginError if a value has no payload type; the message gives its path. Raises
        DataError if an asset, day, industry or index is not in the snapshot.
        """
        return self._show_payload(payload, self._renderer.value)

    def render_text(self, payload: Payload) -> str:
        """Return `render` as compact JSON; an `Exact` payload is returned unmasked.

        Raises the same errors as `render`, and PluginError for an `Exact` payload if the mask hides
        identities.
        """
        if not isinstance(payload, Exact):
            return self._show_payload(payload, self._renderer.text)
        if self.hides_assets or self.hides_dates:
            raise PluginError(
                "an Exact payload can't be masked, and this mask hides identities; build it from"
                " payload field types"
            )
        return payload.text()

    def render_fields(self, payload: Mapping[str, Payload]) -> dict[str, str]:
        """Return the text of each field in a payload, keyed by name. Raises the same errors as
        `render`.
        """
        return self._show_payload(payload, self._field_texts)

    def _field_texts(self, payload: Mapping[str, Payload]) -> dict[str, str]:
        return {name: self._renderer.text(value) for name, value in payload.items()}

    def _show_payload(self, payload: Any, render: Callable[[Any], Shown]) -> Shown:
        """Render a payload. If a value is refused, report the path to it."""
        if self._change is not None:
            payload = self._change(payload)
        try:
            return render(payload)
        except RefusedTypeError as refused:
            raise PluginError(
                f"payload{path_of(refused.value, payload)}: a {type(refused.value).__name__} can't"
                " be shown; use AssetRef, DayRef, … or plain JSON values"
            ) from None

    def asset_handle(self, asset: int) -> str:
        """Return a handle such as `asset_0042` if assets are hidden, else the code. Raises
        DataError if the asset does not exist.
        """
        handle = self._handles.get(asset)
        if handle is None:
            if not 0 <= asset < len(self._columns):
                raise DataError(
                    f"there is no asset column {asset}; the snapshot has {len(self._columns)}"
                )

            if self.hides_assets:
                handle = self._alias.asset_handle(asset)
            else:
                handle, _ = self._snapshot.name_asset(asset, self._today)

            self._handles[asset] = handle
            self._assets[handle] = asset

        return handle

    def day_handle(self, row: int) -> str:
        """Return a handle such as `day_+12` if dates are hidden, else the ISO date. Raises
        DataError if the row does not exist.
        """
        if not 0 <= row < len(self._day_texts):
            raise DataError(
                f"there is no trading day at row {row}; the snapshot has {len(self._day_texts)}"
            )
        self._latest = max(self._latest, row)
        if self.hides_dates:
            return f"day_{row - self.base_row:+d}"
        return self._day_texts[row]

    def sector_handle(self, industry: str) -> str:
        """Return a handle such as `sector_07` if assets are hidden, else the industry's name.
        Raises DataError if the industry is unknown.
        """
        handle = self._alias.sectors.get(industry)
        if handle is None:
            raise DataError("a payload names an industry that no asset of the snapshot belongs to")
        if self.hides_assets:
            return handle
        return industry

    # --- from the model to the market

    def parse_asset(self, text: str) -> int | None:
        """Return the asset column of a handle that this mask has shown, or None.

        If codes are visible, any vendor's spelling is accepted, even for assets not shown yet.
        However, such an asset must have joined the universe by the latest day shown, since an
        answer must not reveal which assets will join later. With `only_shown`, only assets already
        shown are accepted.
        """
        normalised = normalise(text).strip()
        if self.hides_assets:
            return self._assets.get(normalised.lower())

        # a former code such as `FB` need not have the form of a code
        code: str | None = normalised
        if not self._snapshot.assets_called(normalised):
            code = parse_code(normalised)
        if code is None:
            return None

        column = self._snapshot.asset_of(code, self._today)
        if column is None:
            return None
        if column in self._assets.values():
            return column
        if self.only_shown or self._joined[column] > self._latest:
            return None
        return column

    def parse_day(self, text: str) -> int | None:
        """Return the row for a day handle. None for days after the latest day shown, because
        accepting a later day would reveal where the data end.
        """
        normalised = normalise(text).strip()
        row = -1
        if self.hides_dates:
            match = _DAY_HANDLE.fullmatch(normalised.lower())
            if match is not None:
                row = self.base_row + int(match[1] + match[2])
        elif _ISO_DAY.fullmatch(normalised):
            row = self._rows.get(normalised, -1)

        return row if 0 <= row <= self._latest else None

    def in_turn(self, documents: DocumentsView, rows: Sequence[int]) -> Iterator[int]:
        """Yield rows of documents in order of priority, for the case that not all can be shown.

        The newest come first. Documents that became known at the same time are ordered by a hash of
        their content, which does not depend on the mask or on codes.
        """
        for _, group in groupby(rows, key=documents.known_at):
            same = list(group)
            if len(same) > 1:
                same.sort(key=lambda row: (derive_seed("document", *documents[row].words), row))
            yield from same

    def sort_documents(self, documents: DocumentsView, rows: Iterable[int]) -> list[int]:
        """Return rows of documents in display order, newest first.

        Documents that became known at the same time are ordered by handle, which is derived from
        the mask key. The stored order would depend on the content and thus on the codes.
        """
        return sorted(rows, key=lambda row: (-documents.known_at(row), self._documents.handle(row)))

    def newest(self, documents: DocumentsView, rows: Sequence[int], most: int) -> list[int]:
        """Choose at most `most` documents by `in_turn`, and return their rows in the order of
        `sort_documents`.
        """
        chosen = rows if len(rows) <= most else islice(self.in_turn(documents, rows), most)
        return self.sort_documents(documents, chosen)

    def parse_document(self, text: str) -> int | None:
        """Return the row for a document handle, or None for any other text. The documents view
        checks whether the document is already known.
        """
        return self._documents.row(normalise(text).strip().lower())

    def listed_assets(self) -> list[int]:
        """Return `listed_assets` for the episode."""
        return listed_assets(self.order, self._snapshot.member, self.mask.kind, self.base_row)

    def has_joined(self, asset: int, row: int) -> bool:
        """Return whether an asset has been in the universe by day `row`, and so may be shown."""
        return self._joined[asset] <= row

    def is_hidden_identity(self, text: str) -> bool:
        """Return whether a text is a real code (in any vendor's spelling), company, industry or
        date that the mask hides. If a model uses such a text, this is counted as an unmask attempt.
        """
        if len(text) <= _SHORT:
            return self._names_identity(text)
        return self._identities.names_identity(text)

    @property
    def shown(self) -> tuple[str, ...]:
        """Handles of assets shown so far; pass them to `recall` when an episode is resumed."""
        return tuple(self._assets)

    def recall(self, shown: Collection[str]) -> None:
        """Treat handles that an earlier lens of this episode has shown as shown."""
        handles = frozenset(shown)
        if self.hides_assets:
            for asset in range(len(self._columns)):
                handle = self._alias.asset_handle(asset)
                if handle in handles:
                    self._assets[handle] = asset
            return

        for code in handles:
            column = self._columns.get(self._snapshot.canonical(code))
            if column is not None:
                self._assets[code] = column

    @cached_property
    def rank(self) -> tuple[int, ...]:
        """Rank of each asset in `order`, used for ties and unordered lists. Shape: [N]."""
        return tuple(np.argsort(self.order).tolist())

    @cached_property
    def _joined(self) -> list[int]:
        """Row on which each asset is first in the universe, or the number of rows if it never is.
        Shape: [N].
        """
        member = self._snapshot.member
        never = len(member)
        first = np.where(member.any(axis=0), member.argmax(axis=0), never)
        return cast("list[int]", first.tolist())

    @cached_property
    def _identities(self) -> IdentityIndex:
        return identities_of(self._snapshot, assets=self.hides_assets, dates=self.hides_dates)

    @cached_property
    def _names_identity(self) -> Callable[[str], bool]:
        # Results are cached, because the same handles and field names occur at every step.
        return lru_cache(maxsize=4096)(self._identities.names_identity)

    # --- internals

    def _render_name(self, name: AssetName) -> JsonValue:
        if self.hides_assets:
            return None

        _, company = self._snapshot.name_asset(name.asset, self._today)
        return company

    def _render_prose(self, prose: Prose) -> str:
        return "".join(str(self._renderer.value(part)) for part in prose.parts)


#: A mask that hides nothing, for texts that do not involve a market
UNMASKED = Lens(MaskConfig("bright"), 0, NO_MARKET, 0)


def prepare_payload(payload: Payload) -> Prepared:
    """Return the text of a payload with placeholders for identities, which each mask fills in. All
    masks that show figures unchanged share this text. Raises PluginError if the payload contains an
    account figure or a text.
    """
    return UNMASKED._show_payload(payload, UNMASKED._renderer.prepare_payload)
