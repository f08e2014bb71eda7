"""The mask as a lens: what a model may see of a payload, and what its words mean in the true market.

A lens translates by field type, never by text. It knows only what is static (codes, names, industries, the calendar) and
what was known at the close of day_+0, so nothing later can shine through it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Literal, cast, get_args

import numpy as np

from ktdeval.errors import ConfigError, DataError, PluginError
from ktdeval.jsonio import JsonValue
from ktdeval.market.documents import DocumentsView
from ktdeval.market.snapshot import NO_MARKET, FloatArray, MarketSnapshot, parse_code
from ktdeval.masking.draws import (
    FIGURE_DIGITS,
    AliasMap,
    DocumentAlias,
    Noise,
    Part,
    cut_significant,
    known_level,
    last_finite,
    round_significant,
)
from ktdeval.masking.identities import IdentityIndex, identities_of
from ktdeval.masking.payload import (
    TINY,
    AssetName,
    AssetRef,
    DayRef,
    DocumentRef,
    Exact,
    Figure,
    IndexLevel,
    OwnFigure,
    Payload,
    Price,
    Prose,
    RefusedTypeError,
    SectorRef,
    Shares,
    TinyPrice,
    path_of,
    render_json,
)
from ktdeval.masking.text import normalise
from ktdeval.seeds import derive_seed

MaskKind = Literal["bright", "stock_blind", "date_blind", "blinded"]
MASK_KINDS: tuple[MaskKind, ...] = get_args(MaskKind)
REBASE_LEVEL, MOST_DIGITS, MOST_NOISE_PCT = 100.0, 6, 50.0
_DAY_HANDLE = re.compile(r"day_([+-])([0-9]{1,6})")
_ISO_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_REFS, _ASSET_OF = frozenset({AssetRef}), itemgetter(0)
_SHORT = 64  # characters of a text that may be a handle, and is worth remembering


@dataclass(frozen=True)
class MaskConfig:
    """Mask: what is hidden. Part of every task config, and so of the card."""

    kind: MaskKind = "blinded"  #: bright: all is shown; stock_blind: asset_NNNN; date_blind: day_+N; blinded: both
    rebase_prices: bool = False  #: show each asset's close of day_+0 (listed later: its first) as 100, volumes to match
    #: significant digits of shown prices, volumes, amounts, returns, factor values and index figures; None: as they are
    round_digits: int | None = None
    #: log-normal noise on each asset's shown prices, volumes, amounts, returns and factor values, in per cent
    noise_pct: float = 0.0

    @property
    def is_coarse(self) -> bool:
        """Does it show market figures other than as they are?"""
        return self.round_digits is not None or self.noise_pct > 0.0

    def __post_init__(self) -> None:
        if self.round_digits is not None and not 1 <= self.round_digits <= MOST_DIGITS:
            raise ConfigError(f"round_digits: expected 1 … {MOST_DIGITS} significant digits or null, was {self.round_digits!r}")
        if not 0.0 <= self.noise_pct <= MOST_NOISE_PCT:
            raise ConfigError(f"noise_pct: expected 0 … {MOST_NOISE_PCT:g} per cent, was {self.noise_pct!r}")


class Lens:
    """One episode's mask. Equal seeds give equal handles and order under every mask; of the market only static facts, rows up to
    `base_row`, that of `day_+0`, and first closes since are read. It understands what it has shown, nothing else. Raises
    DataError if `base_row` is no row.
    """

    def __init__(self, mask: MaskConfig, seed: int, snapshot: MarketSnapshot, base_row: int) -> None:
        if not 0 <= base_row < len(snapshot.days):
            raise DataError(f"day_+0 at row {base_row} lies outside the snapshot's {len(snapshot.days)} trading days")
        self.mask = mask
        self.base_row = base_row
        self.hides_assets: bool = mask.kind in ("stock_blind", "blinded")
        self.hides_dates: bool = mask.kind in ("date_blind", "blinded")
        self._alias = AliasMap(seed, len(snapshot.codes), snapshot.industries)
        self._documents = DocumentAlias(seed)
        self.order: tuple[int, ...] = self._alias.order
        """Asset columns in a seeded order that says nothing about their codes; the same under all masks."""
        self.indices: tuple[str, ...] = tuple(sorted(snapshot.indices, key=lambda code: derive_seed(seed, "index_order", code)))
        """Index codes in a seeded order that says nothing about them; the same under all masks."""
        self._handles: dict[int, str] = {}  # of the assets that were shown, and no others
        self._assets: dict[str, int] = {}  # the same by handle
        self._today = self._latest = base_row  # the latest day that was shown
        self._columns = snapshot.asset_index
        self._day_texts: tuple[str, ...] = tuple(np.datetime_as_string(snapshot.days, unit="D").tolist())
        self._rows = {text: row for row, text in enumerate(self._day_texts)}
        self._index_scale = {code: REBASE_LEVEL / last_finite(levels[: base_row + 1]) for code, levels in snapshot.indices.items()}
        self._scale: list[float] | None = [1.0] * len(snapshot.codes) if mask.rebase_prices else None
        self._known_scale = list(self._scale or ())  # the same by the levels as known under the mask
        self._unlisted: Sequence[int] = range(len(self._scale or ()))  # assets that have no price to rebase to yet
        self._digits = mask.round_digits
        self._noise: Noise | None = Noise(seed, mask.noise_pct) if mask.noise_pct else None
        self._rebase(snapshot.close[base_row::-1])
        self._snapshot = snapshot
        self._renderers: Mapping[type, Callable[[Any], JsonValue]] = {
            AssetRef: lambda ref: self.asset_handle(ref.asset),
            AssetName: lambda ref: None if self.hides_assets else snapshot.called(ref.asset, self._today)[1],
            DayRef: lambda ref: self.day_handle(ref.day),
            SectorRef: lambda ref: self.sector_handle(ref.industry),
            DocumentRef: lambda ref: self._documents.handle(ref.row),
            Prose: lambda prose: "".join(str(self._render(part)) for part in prose.parts),
            Price: self._render_price,
            Shares: self._render_shares,
            IndexLevel: self._render_level,
            OwnFigure: lambda own: own.value if self._scale is None else self._rounded(own.value),
            Figure: self._render_figure if mask.is_coarse else lambda figure: self._render(figure.value),
            np.float64: lambda value: self._render(float(value)),
        }

    def move_to(self, row: int) -> None:
        """From now on, show visible codes and names as on day `row`, understand codes in use by then, rebase what was listed."""
        if self._snapshot.spells and not self.hides_assets:
            self._handles.clear()
        self._today, self._latest = row, max(row, self._latest)
        self._rebase(self._snapshot.close[self.base_row + 1 : row + 1])

    # --- from the market to the model

    def render(self, payload: Payload) -> JsonValue:
        """Plain JSON value as this mask shows it; NaN and infinity become null. Raises PluginError on a type that is no payload
        type (says where), DataError on an asset, day, industry or index that the snapshot lacks.
        """
        try:
            return self._render(payload)
        except RefusedTypeError as refused:
            raise PluginError(
                f"payload{path_of(refused.value, payload)}: a {type(refused.value).__name__} can't be shown; "
                "use AssetRef, DayRef, … or plain JSON values"
            ) from None

    def render_text(self, payload: Payload) -> str:
        """`render` as compact JSON, an `Exact` payload as it is. Raises PluginError also on `Exact` if the mask hides something."""
        if not isinstance(payload, Exact):
            return render_json(self.render(payload))
        if self.hides_assets or self.hides_dates:
            raise PluginError("an Exact payload can't be masked, and this mask hides identities; build it from payload field types")
        return payload.text()

    def asset_handle(self, asset: int) -> str:
        """`asset_0042` where assets are hidden, else the code. Raises DataError: the snapshot has no such column."""
        handle = self._handles.get(asset)
        if handle is None:
            if not 0 <= asset < len(self._columns):
                raise DataError(f"there is no asset column {asset}; the snapshot has {len(self._columns)}")
            code = self._snapshot.called(asset, self._today)[0]
            handle = self._handles[asset] = self._alias.asset_handle(asset) if self.hides_assets else code
            self._assets[handle] = asset
        return handle

    def day_handle(self, row: int) -> str:
        """`day_+12` from the first decision day where dates are hidden, else the ISO date. Raises DataError on no such row."""
        if not 0 <= row < len(self._day_texts):
            raise DataError(f"there is no trading day at row {row}; the snapshot has {len(self._day_texts)}")
        self._latest = max(self._latest, row)
        return f"day_{row - self.base_row:+d}" if self.hides_dates else self._day_texts[row]

    def sector_handle(self, industry: str) -> str:
        """`sector_07` where assets are hidden, else the industry's name. Raises DataError on an unknown industry."""
        if (handle := self._alias.sectors.get(industry)) is None:
            raise DataError("a payload names an industry that no asset of the snapshot belongs to")
        return handle if self.hides_assets else industry

    # --- from the model to the market

    def parse_asset(self, text: str) -> int | None:
        """Asset column of a handle as this mask has shown it, or None. Visible codes are understood in any vendor style, also those
        not shown, once the asset was in the universe by the latest day shown: an answer must not tell who will be.
        """
        normalised = normalise(text).strip()
        if self.hides_assets:
            return self._assets.get(normalised.lower())
        code = normalised if normalised in self._columns else parse_code(normalised)
        column = None if code is None else self._snapshot.asset_of(code, self._today)
        is_known = column is not None and (self._joined[column] <= self._latest or column in self._assets.values())
        return column if is_known else None

    def parse_day(self, text: str) -> int | None:
        """Row of a day handle up to the latest day that was shown, or None: a later one would tell where the data end."""
        normalised = normalise(text).strip()
        if self.hides_dates:
            match = _DAY_HANDLE.fullmatch(normalised.lower())
            row = -1 if match is None else self.base_row + int(match[1] + match[2])
        else:
            row = self._rows.get(normalised, -1) if _ISO_DAY.fullmatch(normalised) else -1
        return row if 0 <= row <= self._latest else None

    def in_turn(self, documents: DocumentsView, rows: Sequence[int]) -> Iterator[int]:
        """Yield rows of documents, newest first, in the order in which they are chosen where not all can be shown: of those known
        from one moment on by a hash of their content, which no mask changes and which says nothing about codes.
        """
        for _, group in groupby(rows, key=documents.known_at):
            same = list(group)
            if len(same) > 1:
                same.sort(key=lambda row: (derive_seed("document", *documents[row].words), row))
            yield from same

    def listed(self, documents: DocumentsView, rows: Iterable[int]) -> list[int]:
        """Return rows of documents as they are shown: newest first, those known from one moment on in an order of the key: as they
        are stored these stand by their content, and so by code.
        """
        return sorted(rows, key=lambda row: (-documents.known_at(row), self._documents.handle(row)))

    def newest(self, documents: DocumentsView, rows: Sequence[int], most: int) -> list[int]:
        """Return the first `most` of rows of documents in turn, as they are shown."""
        chosen = rows if len(rows) <= most else islice(self.in_turn(documents, rows), most)
        return self.listed(documents, chosen)

    def parse_document(self, text: str) -> int | None:
        """Row of a document's handle, None where it is none; its view says whether the document is known yet."""
        return self._documents.row(normalise(text).strip().lower())

    def has_joined(self, asset: int, row: int) -> bool:
        """Was the asset in the universe by day `row`? Before, no handle may tell that it will be."""
        return self._joined[asset] <= row

    def shares_in(self, asset: int, shown: float) -> float:
        """True shares of an asset from a number of shares as shown: differs only under `rebase_prices`."""
        return shown if self._scale is None else shown * self._known_scale[asset]

    def known_price(self, asset: int, value: float, day: int | None, part: Part = "close") -> float:
        """Return what a price is known as under the mask: as shown, at a level of `day_+0` of as many digits. What answers a
        question counts with it: true prices would be told to the last digit by questions one after the other.
        """
        if not self.mask.is_coarse or not math.isfinite(value):
            return value
        shown = float(cast("float", self._render_price(Price(asset, value, day, part))))
        return shown if self._scale is None else shown / self._known_scale[asset]

    def known_weight(self, weight: float) -> float:
        """Return a weight as a decision counts under the mask: cut towards zero to its digits."""
        return weight if self._digits is None else cut_significant(weight, self._digits)

    def is_hidden_identity(self, text: str) -> bool:
        """Is this a real code (any vendor style), company, industry or date that the mask hides? Counts as unmask attempt."""
        return self._names_identity(text) if len(text) <= _SHORT else self._identities.names_identity(text)

    @property
    def shown(self) -> tuple[str, ...]:
        """Handles of assets that were shown so far, to `recall` when an episode is resumed."""
        return tuple(self._assets)

    def recall(self, shown: Collection[str]) -> None:
        """Take handles as shown that an earlier lens of this episode has shown."""
        handles = frozenset(shown)
        if self.hides_assets:
            assets = {self._alias.asset_handle(asset): asset for asset in range(len(self._columns))}
        else:
            assets = {code: column for code in handles if (column := self._columns.get(self._snapshot.canonical(code))) is not None}
        self._assets |= {handle: asset for handle, asset in assets.items() if handle in handles}

    @cached_property
    def rank(self) -> tuple[int, ...]:
        """[N] rank of each asset in `order`: it breaks ties, and sorts lists without an order of their own."""
        return tuple(np.argsort(self.order).tolist())

    @cached_property
    def _joined(self) -> list[int]:
        """[N] row of the day on which each asset first was in the universe; beyond the last where it never is."""
        member = self._snapshot.member
        return cast("list[int]", np.where(member.any(axis=0), member.argmax(axis=0), len(member)).tolist())

    @cached_property
    def _identities(self) -> IdentityIndex:
        return identities_of(self._snapshot, assets=self.hides_assets, dates=self.hides_dates)

    @cached_property
    def _names_identity(self) -> Callable[[str], bool]:
        # Remembers its answers, for the same handles and field names are offered at every step.
        return lru_cache(maxsize=4096)(self._identities.names_identity)

    # --- the insides

    def _render(self, value: Payload) -> JsonValue:
        kind = type(value)
        if kind is str or kind is int or kind is bool or value is None:
            return value
        if kind is float:
            return value if math.isfinite(value) else None
        if (renderer := self._renderers.get(kind)) is not None:
            return renderer(value)
        if kind is dict:
            return {key if type(key) is str else self._key(key): self._render(item) for key, item in value.items()}
        if kind is list or kind is tuple:
            if _REFS.issuperset(map(type, value)):  # a universe comes with every step
                with suppress(KeyError):  # one that was not shown yet
                    return list(map(self._handles.__getitem__, map(_ASSET_OF, value)))
            return [self._render(item) for item in value]
        return self._render_rare(value)

    def _render_rare(self, value: Payload) -> JsonValue:
        """NumPy scalars and subclasses such as StrEnum; all else is refused, so that no date or frame slips by as text."""
        if isinstance(value, (np.integer, np.floating, np.bool_)):
            return self._render(value.item())
        for base in (str, int, float):
            if isinstance(value, base):
                return self._render(base(value))
        if isinstance(value, Mapping):
            return self._render(dict(value))
        raise RefusedTypeError(value)

    def _key(self, key: Any) -> str:
        """Handles may be keys (a grid by asset); other keys are plain text."""
        if type(key) in (AssetRef, DayRef, SectorRef):
            return str(self._renderers[type(key)](key))
        if isinstance(key, str):
            return str(key)
        raise RefusedTypeError(key)

    def _render_price(self, price: Price) -> float | None:
        value = float(price.value) if self._scale is None else float(price.value) * self._scale[price.asset]
        if self._noise is not None and price.day is not None:
            value *= self._noise.price(price.asset, price.day, price.part)
        shown = self._rounded(value)
        if price.times != 1.0 and shown is not None:
            shown = self._rounded(shown * price.times)
        return TinyPrice(shown) if shown and abs(shown) < TINY else shown

    def _render_shares(self, shares: Shares) -> int | float | None:
        number = float(shares.value)
        if not math.isfinite(number):
            return None
        if shares.day is None:
            digits = None if self._scale is None else self._digits
            scale = self._known_scale
        else:  # beside its amount in currency, a volume at another scale would tell what was rounded off the level
            digits = min(self._digits or FIGURE_DIGITS, FIGURE_DIGITS)
            scale = self._scale or []
            if self._noise is not None:
                number *= self._noise.figure(shares.asset, shares.day, "volume")
        if self._scale is not None:
            number /= scale[shares.asset]
        if digits is not None:  # last: digits of a number before it is rescaled would tell the scale
            number = round_significant(number, digits)
        return int(number) if self._scale is None and number.is_integer() else number

    def _render_figure(self, figure: Figure) -> float | None:
        value = float(figure.value)
        if self._noise is None or figure.asset is None or figure.day is None or not math.isfinite(value):
            return self._rounded(value)
        if figure.since is None:
            value *= self._noise.figure(figure.asset, figure.day, figure.name)
        else:
            growth = (1.0 + value / 100.0) * self._noise.change(figure.asset, figure.day, figure.since)
            value = (growth - 1.0) * 100.0
        return round_significant(value, self._digits or FIGURE_DIGITS)

    def _render_level(self, level: IndexLevel) -> float | None:
        if level.code not in self._index_scale:
            raise DataError("a payload names an index that the snapshot lacks")
        return self._rounded(float(level.value) * (self._index_scale[level.code] if self.hides_dates else 1.0))

    def _rounded(self, value: float) -> float | None:
        """To the digits of the mask; NaN and infinite numbers become null."""
        if not math.isfinite(value):
            return None
        return value if self._digits is None else round_significant(value, self._digits)

    def _rebase(self, closes: FloatArray) -> None:
        """Show assets without a price so far with the first known one of `closes`, [rows, N], as 100."""
        if self._scale is None or not self._unlisted or not len(closes):
            return
        first = closes[np.isfinite(closes).argmax(axis=0), np.arange(closes.shape[1])].tolist()
        for asset in self._unlisted:
            if first[asset] > 0.0:
                level = known_level(first[asset], asset, self.base_row, (self._noise, self._digits))
                self._scale[asset], self._known_scale[asset] = REBASE_LEVEL / first[asset], REBASE_LEVEL / level
        self._unlisted = [asset for asset in self._unlisted if not first[asset] > 0.0]


UNMASKED = Lens(MaskConfig("bright"), 0, NO_MARKET, 0)  #: Hides nothing: for what is about no market
