"""Mask of one episode: render payloads for the model, and parse the model's handles.

A lens translates by field type, never by text. It reads only static facts (codes, names,
industries, the calendar) and prices known at the close of day_+0, so that no later price can leak
through it. One exception: an asset listed after day_+0 is rebased to its first close.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import groupby, islice
from typing import Any, TypeVar, cast

import numpy as np

from ktdeval.errors import DataError, PluginError
from ktdeval.market.snapshots.documents import DocumentsView
from ktdeval.market.snapshots.no_market import NO_MARKET
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot, MarketView, parse_code
from ktdeval.masking.aliases_and_noise import (
    FIGURE_DIGITS,
    AliasMap,
    DocumentAlias,
    Noise,
    Part,
    cut_significant,
    first_levels,
    known_level,
    last_finite,
    round_each,
    round_significant,
)
from ktdeval.masking.identity_index import IdentityIndex, identities_of
from ktdeval.masking.mask_config import MaskConfig, listed_assets
from ktdeval.masking.payload_types import (
    AccountSum,
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
    small_number,
)
from ktdeval.masking.rendering import PayloadRenderer, Prepared, parse_payload
from ktdeval.masking.text_normalisation import normalise
from ktdeval.values.seeds import derive_seed
from ktdeval.values.strict_json import JsonValue

REBASE_LEVEL = 100.0
_DAY_HANDLE = re.compile(r"day_([+-])([0-9]{1,6})")
_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
Shown = TypeVar("Shown")
PayloadChange = Callable[[Payload], Payload]
_SHORT = 64  # longest text, in characters, that may be a handle: answers about these are cached


class Lens:
    """Mask of one episode. Equal seeds give equal handles and order under every mask.

    `base_row` is the row of `day_+0`. The lens reads static facts, rows up to `base_row`, the
    first close of assets listed later, and the largest number of members. It parses only handles
    that it has shown. Raises DataError if the snapshot has no row `base_row`.

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
        """Asset columns in a seeded order that says nothing about their codes; the same under all
        masks.
        """
        self.indices: tuple[str, ...] = tuple(
            sorted(snapshot.indices, key=lambda code: derive_seed(seed, "index_order", code))
        )
        """Index codes in a seeded order that says nothing about them; the same under all masks."""
        self._handles: dict[int, str] = {}  # asset -> handle, only of assets shown so far
        self._assets: dict[str, int] = {}  # handle -> asset
        #: whether a code is understood only where it was shown: that others are would tell the day
        self.only_shown = False
        self._today = base_row
        self._latest = base_row  # the latest day that was shown
        self._columns = snapshot.asset_index
        self._day_texts: tuple[str, ...] = tuple(
            np.datetime_as_string(snapshot.days, unit="D").tolist()
        )
        self._rows = {text: row for row, text in enumerate(self._day_texts)}
        self._index_scale = {
            code: REBASE_LEVEL / last_finite(levels[: base_row + 1])
            for code, levels in snapshot.indices.items()
        }
        self._digits = mask.round_digits
        self._change: PayloadChange | None = None
        self._noise: Noise | None = Noise(seed, mask.noise_pct) if mask.noise_pct else None

        self._scale: list[float] | None = None
        if mask.rebase_prices:
            self._scale = [1.0] * len(snapshot.codes)
        # The scale by levels as shown: shares and known prices must not tell the true levels.
        self._known_scale = list(self._scale or ())
        # assets that have no price to rebase to yet
        self._unlisted: Sequence[int] = range(len(self._scale or ()))
        # Newest first: an asset without a bar on day_+0 is rebased to its last close before it.
        self._rebase(snapshot.close[base_row::-1])

        self._snapshot = snapshot
        self._renderer = PayloadRenderer(self._make_renderers(), self._handles)

    @property
    def shows_figures_as_they_are(self) -> bool:
        """Are prices, volumes and other figures shown as in the data, so that masks share their
        text (`prepare_payload`)?
        """
        return self._scale is None and not self.mask.is_coarse and self._change is None

    def show_changed(self, change: PayloadChange) -> None:
        """From now on, show payloads as `change` returns them."""
        self._change = change

    def relabel(self, seed: int) -> None:
        """From now on, show assets and industries under handles of another draw, in their order."""
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
            Price: self._render_price,
            Shares: self._render_shares,
            IndexLevel: self._render_level,
            OwnFigure: self._render_own_figure,
            np.float64: lambda value: self._renderer.value(float(value)),
        }
        if self.mask.is_coarse:
            renderers[MarketFigure] = self._render_figure
        if self.shows_figures_as_they_are:
            renderers[Prepared] = lambda prepared: parse_payload(self._renderer.join_text(prepared))

        return renderers

    def move_to(self, row: int) -> None:
        """Move to day `row`: show codes and names of that day, accept codes in use by then, and
        rebase assets listed since.
        """
        if self._snapshot.spells and not self.hides_assets:
            # Codes and names change with the day: handles of the day before may be wrong.
            self._handles.clear()

        self._today = row
        self._latest = max(row, self._latest)
        self._rebase(self._snapshot.close[self.base_row + 1 : row + 1])

    # --- from the market to the model

    def render(self, payload: Payload) -> JsonValue:
        """Return a payload as plain JSON under this mask; NaN and infinity become null.

        Raises PluginError, with the path, on a value of no payload type; DataError on an asset,
        day, industry or index that the snapshot lacks.
        """
        return self._show_payload(payload, self._renderer.value)

    def render_text(self, payload: Payload) -> str:
        """Return `render` as compact JSON; an `Exact` payload is returned unmasked.

        Raises PluginError also on an `Exact` payload under a mask that hides identities.
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
        """Return the text of each field of a payload, by name. Errors as of `render`."""
        return self._show_payload(payload, self._field_texts)

    def _field_texts(self, payload: Mapping[str, Payload]) -> dict[str, str]:
        return {name: self._renderer.text(value) for name, value in payload.items()}

    def _show_payload(self, payload: Any, render: Callable[[Any], Shown]) -> Shown:
        """Render a payload; say where in it a value is refused."""
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
        """Return `asset_0042` where assets are hidden, else the code. Raises DataError on no asset."""
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
        """Return `day_+12` where dates are hidden, else the ISO date. Raises DataError on no row."""
        if not 0 <= row < len(self._day_texts):
            raise DataError(
                f"there is no trading day at row {row}; the snapshot has {len(self._day_texts)}"
            )
        self._latest = max(self._latest, row)
        if self.hides_dates:
            return f"day_{row - self.base_row:+d}"
        return self._day_texts[row]

    def sector_handle(self, industry: str) -> str:
        """Return `sector_07` where assets are hidden, else the industry's name. Raises DataError on
        an unknown industry.
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

        Where codes are visible, any vendor's spelling is accepted, also of assets not shown yet,
        but only if they joined the universe by the latest day shown: an answer must not tell which
        assets will join later. With `only_shown`, no asset is accepted that was not shown.
        """
        normalised = normalise(text).strip()
        if self.hides_assets:
            return self._assets.get(normalised.lower())

        code = normalised if normalised in self._columns else parse_code(normalised)
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
        """Return the row of a day handle, or None after the latest day shown: to accept a later
        day would tell where the data end.
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
        """Yield rows of documents in the order in which they are chosen where not all can be shown.

        Newest first. Documents that became known at the same moment are ordered by a hash of their
        content, which no mask changes and which does not depend on codes.
        """
        for _, group in groupby(rows, key=documents.known_at):
            same = list(group)
            if len(same) > 1:
                same.sort(key=lambda row: (derive_seed("document", *documents[row].words), row))
            yield from same

    def listed(self, documents: DocumentsView, rows: Iterable[int]) -> list[int]:
        """Return rows of documents in the order in which they are shown, newest first.

        Documents that became known at the same moment are ordered by handle, which the mask key
        draws. Their stored order would follow their content, and so their codes.
        """
        return sorted(rows, key=lambda row: (-documents.known_at(row), self._documents.handle(row)))

    def newest(self, documents: DocumentsView, rows: Sequence[int], most: int) -> list[int]:
        """Choose at most `most` documents by `in_turn`; return their rows as `listed` orders
        them.
        """
        chosen = rows if len(rows) <= most else islice(self.in_turn(documents, rows), most)
        return self.listed(documents, chosen)

    def parse_document(self, text: str) -> int | None:
        """Return the row of a document's handle, or None for another text. The view of documents
        checks whether the document is known yet.
        """
        return self._documents.row(normalise(text).strip().lower())

    def listed_assets(self) -> list[int]:
        """Return `listed_assets` of the episode."""
        return listed_assets(self.order, self._snapshot.member, self.mask.kind, self.base_row)

    def has_joined(self, asset: int, row: int) -> bool:
        """Return whether the asset was in the universe by day `row`, and may be shown."""
        return self._joined[asset] <= row

    def shares_in(self, asset: int, shown: float) -> float:
        """Return true shares from shares as shown; they differ only under `rebase_prices`."""
        if self._scale is None:
            return shown
        return shown * self._known_scale[asset]

    def price_in(self, asset: int, shown: float) -> float:
        """Return a true price from one as shown; they differ only under `rebase_prices`."""
        if self._scale is None:
            return shown
        return shown / self._known_scale[asset]

    def known_price(self, asset: int, value: float, day: int | None, part: Part = "close") -> float:
        """Return a price as far as the mask reveals it: the shown price, in units of currency.

        Whatever answers a model's question must compute with it: from answers computed with true
        prices, a series of questions could recover them to the last digit.
        """
        if not self.mask.is_coarse or not math.isfinite(value):
            return value

        shown = float(cast("float", self._render_price(Price(asset, value, day, part))))
        if self._scale is None:
            return shown
        return shown / self._known_scale[asset]

    def as_shown(self, view: MarketView) -> MarketView:
        """Return a market whose prices, volumes and amounts have the digits that this mask shows:
        figures computed from others would tell further digits. Return the view itself without
        `round_digits`, and under `noise_pct`, where each figure has a noise of its own.
        """
        if self._digits is None or self._noise is not None:
            return view
        return self._rounded_market.as_of(view.day)

    @cached_property
    def _rounded_market(self) -> MarketSnapshot:
        digits = self._digits
        assert digits is not None  # who asks has digits
        market = self._snapshot
        scale = np.ones(len(market.codes))
        if self._scale is not None:
            scale = REBASE_LEVEL / first_levels(market.close, self.base_row)

        # As tools show them: an amount has four digits before it has those of the mask.
        few = min(digits, FIGURE_DIGITS)
        return replace(
            market,
            open=round_each(market.open * scale, digits),
            high=round_each(market.high * scale, digits),
            low=round_each(market.low * scale, digits),
            close=round_each(market.close * scale, digits),
            volume=round_each(market.volume / scale, few),
            amount=round_each(round_each(market.amount, FIGURE_DIGITS), few),
            id="",
        )

    def known_weight(self, weight: float) -> float:
        """Return the weight that a decision counts with: cut towards zero to the mask's digits."""
        if self._digits is None:
            return weight
        return cut_significant(weight, self._digits)

    def is_hidden_identity(self, text: str) -> bool:
        """Return whether a text is a real code (in any vendor's spelling), company, industry or
        date that the mask hides. The model's use of one counts as an unmask attempt.
        """
        if len(text) <= _SHORT:
            return self._names_identity(text)
        return self._identities.names_identity(text)

    @property
    def shown(self) -> tuple[str, ...]:
        """Handles of assets that were shown so far, to `recall` when an episode is resumed."""
        return tuple(self._assets)

    def recall(self, shown: Collection[str]) -> None:
        """Treat handles that an earlier lens of this episode has shown as shown by this one."""
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
        """[N] rank of each asset in `order`, for ties and for lists without an order."""
        return tuple(np.argsort(self.order).tolist())

    @cached_property
    def _joined(self) -> list[int]:
        """[N] first row of each asset in the universe; the number of rows if it never joined."""
        member = self._snapshot.member
        never = len(member)
        first = np.where(member.any(axis=0), member.argmax(axis=0), never)
        return cast("list[int]", first.tolist())

    @cached_property
    def _identities(self) -> IdentityIndex:
        return identities_of(self._snapshot, assets=self.hides_assets, dates=self.hides_dates)

    @cached_property
    def _names_identity(self) -> Callable[[str], bool]:
        # Remembers its answers, for the same handles and field names are offered at every step.
        return lru_cache(maxsize=4096)(self._identities.names_identity)

    # --- the insides

    def _render_name(self, name: AssetName) -> JsonValue:
        if self.hides_assets:
            return None

        _, company = self._snapshot.name_asset(name.asset, self._today)
        return company

    def _render_prose(self, prose: Prose) -> str:
        return "".join(str(self._renderer.value(part)) for part in prose.parts)

    def _render_own_figure(self, own: OwnFigure) -> float | None:
        if self._scale is None:
            return AccountSum(own.value)
        rounded = self._round_value(own.value)
        return None if rounded is None else AccountSum(rounded)

    def _render_price(self, price: Price) -> float | None:
        value = float(price.value)
        if self._scale is not None:
            value *= self._scale[price.asset]
        if self._noise is not None and price.day is not None:
            value *= self._noise.price(price.asset, price.day, price.part)

        shown = self._round_value(value)
        # A multiple is taken of the rounded price: else it would tell further digits of it.
        if price.times != 1.0 and shown is not None:
            shown = self._round_value(shown * price.times)

        return None if shown is None else small_number(shown)

    def _render_shares(self, shares: Shares) -> int | float | None:
        number = float(shares.value)
        if not math.isfinite(number):
            return None

        if shares.day is None:  # shares held or ordered, exact unless prices are rebased
            digits = None if self._scale is None else self._digits
            scale = self._known_scale
        else:  # a day's volume
            # A volume is shown next to its amount in currency. Were it on the scale of levels as
            # shown, the quotient of the two would tell what was rounded off the level.
            digits = min(self._digits or FIGURE_DIGITS, FIGURE_DIGITS)
            scale = self._scale or []
            if self._noise is not None:
                number *= self._noise.figure(shares.asset, shares.day, "volume")

        if self._scale is not None:
            number /= scale[shares.asset]

        # Round last: a number that is rounded and then rescaled tells the scale.
        if digits is not None:
            number = round_significant(number, digits)

        if self._scale is None and number.is_integer():
            return int(number)
        return small_number(number)

    def _render_figure(self, figure: MarketFigure) -> JsonValue:
        value = float(figure.value)
        if (
            self._noise is None
            or figure.asset is None
            or figure.day is None
            or not math.isfinite(value)
        ):
            return self._round_value(value)

        if figure.since is None:
            value *= self._noise.figure(figure.asset, figure.day, figure.name)
        else:
            # Noise moves the quotient of the two prices, not the per cent: so the change agrees
            # with the two prices as shown.
            noise = self._noise.change(figure.asset, figure.day, figure.since)
            growth = (1.0 + value / 100.0) * noise
            value = (growth - 1.0) * 100.0

        return round_significant(value, self._digits or FIGURE_DIGITS)

    def _render_level(self, level: IndexLevel) -> float | None:
        if level.code not in self._index_scale:
            raise DataError("a payload names an index that the snapshot lacks")
        value = float(level.value)
        if self.hides_dates:  # a true level would tell the day
            value *= self._index_scale[level.code]
        return self._round_value(value)

    def _round_value(self, value: float) -> float | None:
        """Round to the digits of the mask; NaN and infinite numbers become null."""
        if not math.isfinite(value):
            return None
        if self._digits is None:
            return value
        return round_significant(value, self._digits)

    def _rebase(self, closes: FloatArray) -> None:
        """Rebase each asset without a price so far: its first finite close in `closes`, [rows, N],
        is shown as 100.
        """
        if self._scale is None or not self._unlisted or not len(closes):
            return

        first_row = np.isfinite(closes).argmax(axis=0)
        first = closes[first_row, np.arange(closes.shape[1])].tolist()
        still_unlisted = []

        for asset in self._unlisted:
            close = first[asset]
            if not close > 0.0:  # also NaN
                still_unlisted.append(asset)
                continue

            level = known_level(close, asset, self.base_row, (self._noise, self._digits))
            self._scale[asset] = REBASE_LEVEL / close
            self._known_scale[asset] = REBASE_LEVEL / level

        self._unlisted = still_unlisted


#: Hides nothing: for texts that concern no market
UNMASKED = Lens(MaskConfig("bright"), 0, NO_MARKET, 0)


def prepare_payload(payload: Payload) -> Prepared:
    """Return the text of a payload that all masks share that show figures as they are, with each
    identity left to the mask. Raises PluginError: it holds a figure of an account, or a text.
    """
    return UNMASKED._show_payload(payload, UNMASKED._renderer.prepare_payload)
