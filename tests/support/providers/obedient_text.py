"""What a prompt says, read as a language model reads it: from the text of its messages alone. Assets
that can be bought, how large a purchase is, the limits that hold, the form of an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ktdeval.harness import ModelRequest

_FENCE = re.compile(r"```json\n(.*?)\n```", re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.;])\s+|\n")
_PERCENT = r"(\d+(?:\.\d+)?) ?% of (?:the )?NAV"
_LIMIT = re.compile(rf"\b(?:at most|above|beyond|over|more than|exceeds?|up to) {_PERCENT}", re.I)
_LEFT = re.compile(r"(\d+(?:\.\d+)?) ?% (?:of \w+ )?(?:still )?(?:left|free)\b")
_SIZE = re.compile(rf"\bBUY\b(?! to \d)[^%]*? {_PERCENT}")
_SHARED = re.compile(r"sizes of all weights sum to 1\b")
_EQUAL = re.compile(r"^\W*All sides decided on weigh the same")
_KEEPS = re.compile(r"\bHOLD\b[^.;]*\b(?:keeps?|leaves?|as it is)\b")
_CLOSES = re.compile(r"\bHOLD\b[^.;]*\bno position\b")
_RATIOS = re.compile(r"\bratios: (\d[\d., ]*\d)")
_BARE = re.compile(r'(?<!")(<[^<>"]+>)(?!")')  # a placeholder of a figure
_EXAMPLE = re.compile(r"(?:JSON object|such as|in the form)[^{}\n]*(\{[^\n]*\})")
_ANALYSTS = re.compile(r"\banalysts\b[^:\n]*: ([^.\n]+)\.")
_LOT = re.compile(r"\b(?:lots of|at least) (\d+)(?= shares|[,.])")
_ONCE = re.compile(r"\b[Cc]all `?(\w+)`? exactly once")
_FILLED = re.compile(r" \(filled [^)]*\)")  # what became of an order is no size to buy
_NOT_ON_OFFER = ("positions", "news", "history", "outcomes", "last_step", "minutes")


@dataclass(frozen=True)
class Stated:
    """A figure that a text states, in per cent of NAV."""

    percent: float
    sentence: str  #: where it is stated


@dataclass(frozen=True)
class Offer:
    """An asset that a table or a list shows."""

    label: str
    is_open: bool  #: whether its status lets it be bought
    price: float | None
    board: str | None = None  #: as its table shows it


class Prompt:
    """The text of a request, and the tools that it offers. It takes nothing else from a request: no
    typed state, no role, no predictions.
    """

    def __init__(self, request: ModelRequest) -> None:
        self._messages = [(message.role, message.content) for message in request.messages]
        self.tools: Mapping[str, Mapping[str, Any]] = {
            tool.name: json.loads(json.dumps(tool.parameters)) for tool in request.tools
        }
        self._described = {tool.name: tool.description for tool in request.tools}
        self._forced = request.tool_choice

    # --- what is to be done

    @property
    def submit_tool(self) -> str | None:
        """The tool that must be called now; None if the answer is free, or may call none."""
        if self._forced is not None:
            return self._forced if self._forced in self.tools else None

        role, last = self._messages[-1]
        demanded = _ONCE.search(last)
        if role != "assistant" and demanded and demanded[1] in self.tools:
            return demanded[1]

        return None

    @property
    def search_tool(self) -> str | None:
        """The tool on offer that finds assets that can be bought; None if none may be called."""
        if self._forced is not None:
            return None

        for name, description in self._described.items():
            if "can be bought" in description:
                return name

        return None

    # --- prose

    @cached_property
    def prose(self) -> str:
        """All that was said to the model, without tables and without its own words."""
        told = [text for role, text in self._messages if role in ("system", "user")]
        return _FILLED.sub("", _FENCE.sub("", "\n".join(told)))

    @cached_property
    def sentences(self) -> list[str]:
        """Sentences and lines of the prose."""
        return [sentence for sentence in _SENTENCE.split(self.prose) if sentence.strip()]

    @property
    def is_portfolio(self) -> bool:
        """Whether all purchases decided on share the NAV."""
        return bool(_SHARED.search(self.prose))

    def sizes_of_buy(self, assets: int) -> list[Stated]:
        """Largest sizes that the text gives a decision to buy, if so many assets are bought; empty
        if it names none.
        """
        is_equal = any(map(_EQUAL.search, self.sentences))
        sizes = []

        for sentence in self.sentences:
            size = _SIZE.search(sentence)
            if size:
                sizes.append(Stated(float(size[1]), sentence))

            if _SHARED.search(sentence):
                sizes.append(Stated(100.0 / assets if is_equal else 100.0, sentence))

        return sizes

    def meanings_of_hold(self) -> dict[str, str]:
        """What the text says that HOLD does to a holding, `keep` or `close`, with the sentence."""
        meanings = {}
        for sentence in self.sentences:
            if _KEEPS.search(sentence):
                meanings["keep"] = sentence

            if _CLOSES.search(sentence):
                meanings["close"] = sentence

        return meanings

    def limits(self, label: str) -> list[Stated]:
        """Largest positions in an asset that the text allows."""
        held = self.held_pct(label)
        limits = []

        for sentence in self.sentences:
            if not self._is_about(sentence, label) or _SIZE.search(sentence):
                continue

            limits += [Stated(float(size), sentence) for size in _LIMIT.findall(sentence)]
            limits += [Stated(held + float(left), sentence) for left in _LEFT.findall(sentence)]
            ratio = re.search(rf"\b{re.escape(label)}:? (\d+(?:\.\d+)?)(?! ?%)", sentence)
            if ratio and "ratio" in self._line_of(sentence):
                limits.append(Stated(100.0 * float(ratio[1]), sentence))

        most = self.number("max_weight")
        if most is not None:
            limits.append(Stated(100.0 * most, f"max_weight {most}"))

        return limits

    def _is_about(self, sentence: str, label: str) -> bool:
        """Whether a sentence names this asset, or none."""
        if label in sentence:
            return True

        return not any(offer.label in sentence for offer in self.offers)

    def _line_of(self, sentence: str) -> str:
        """The line of the prose that a sentence stands on, in lower case."""
        for line in self.prose.splitlines():
            if sentence in line:
                return line.lower()

        return ""

    def ratios(self) -> list[float]:
        """Ratios on offer; empty if the text offers none."""
        offered = _RATIOS.findall(self.prose)
        if not offered:
            return []

        return [float(ratio) for ratio in offered[-1].split(",")]

    def example(self) -> dict[str, Any] | None:
        """The JSON object that the text gives last as the form of an answer."""
        for text in reversed(_EXAMPLE.findall(self.prose)):
            value = _parsed(_BARE.sub(r'"\1"', text))
            if isinstance(value, dict):
                return value

        return None

    def analysts(self) -> str:
        """Analysts that the text lists to choose from; empty if it lists none."""
        listed = _ANALYSTS.search(self.prose)
        return listed[1] if listed else ""

    def min_lot(self, offer: Offer) -> int:
        """Shares that can be bought: the lot that the text names for the asset's board; the largest
        of all that it names where it names none for this one.
        """
        on_board = re.search(rf"`{offer.board}`[^;.]*?{_LOT.pattern}", self.prose)

        if on_board:
            return int(on_board[1])

        return max(map(int, _LOT.findall(self.prose)), default=1)

    def says(self, words: str) -> bool:
        """Whether the prose has these words."""
        return words in self.prose

    # --- tables

    @cached_property
    def blocks(self) -> list[dict[str, Any]]:
        """JSON objects in the order shown: fenced ones, and results of tools."""
        blocks = []
        for role, text in self._messages:
            shown = [text] if role == "tool" else _FENCE.findall(text)
            blocks += [value for value in map(_parsed, shown) if isinstance(value, dict)]

        return blocks

    def section(self, name: str) -> Any:
        """A section of the day's state, as it was shown last; None if none is shown."""
        for block in reversed(self.blocks):
            if name in block:
                return block[name]

        return None

    @cached_property
    def offers(self) -> list[Offer]:
        """Assets on offer in the order shown, each once."""
        offers: dict[str, Offer] = {}
        for block in self.blocks:
            for offer in _offers_in(block):
                offers.setdefault(offer.label, offer)

        return list(offers.values())

    @property
    def candidates(self) -> list[Offer]:
        """Assets of the table that decisions are asked for."""
        return list(_offers_in({"candidates": self.section("candidates")}))

    def held_pct(self, label: str) -> float:
        """The weight of a holding in per cent; 0 if it is not held."""
        for row in _rows(self.section("positions")):
            if row.get("stock_id") == label:
                return 100.0 * float(row.get("weight") or 0.0)

        return 0.0

    def holds(self, label: str) -> bool:
        """Whether an asset is among the positions."""
        return any(row.get("stock_id") == label for row in _rows(self.section("positions")))

    def nav(self) -> float | None:
        """The account's NAV as shown."""
        account = self.section("account")
        if not isinstance(account, dict):
            return None

        for name, value in account.items():
            if name.startswith("nav") and value is not None:
                return float(value)

        return None

    def number(self, name: str) -> float | None:
        """A number of the account or the constraints, by its name."""
        for section in ("constraints", "account"):
            value = (self.section(section) or {}).get(name)
            if isinstance(value, int | float):
                return float(value)

        return None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _offers_in(block: Mapping[str, Any]) -> Iterator[Offer]:
    """Assets that a block offers: rows of its tables, or a list of labels."""
    for label in block.get("universe") or ():
        yield Offer(str(label), True, None)

    for name, value in block.items():
        if name in _NOT_ON_OFFER:
            continue

        for row in _rows(value):
            if "stock_id" not in row:
                continue

            prices = [value for key, value in row.items() if key.startswith("close")]
            is_open = row.get("status", "trading") == "trading"
            price = next(iter(prices), None)
            yield Offer(str(row["stock_id"]), is_open, price, row.get("board"))


def _rows(table: Any) -> Sequence[Mapping[str, Any]]:
    """Rows of a table by column; empty if it is none."""
    if not isinstance(table, dict) or not {"columns", "rows"} <= table.keys():
        return []

    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
