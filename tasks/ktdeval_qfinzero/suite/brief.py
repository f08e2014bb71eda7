"""The words that an item is put in: system prompt and question, from the prompt files of this package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from string import Template
from typing import Final

from ktdeval.api import JsonValue, content_hash, sha256_hex
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.esp.schemas import STREAM_CURSOR
from ktdeval_qfinzero.operations import Operation, Schema
from ktdeval_qfinzero.scoring.ids import with_run_ids
from ktdeval_qfinzero.suite.config import SuiteConfig
from ktdeval_qfinzero.suite.situation import Situation, clock_words
from ktdeval_qfinzero.view import View

_FOLDER = Path(__file__).with_name("prompts")
_PROMPTS: Final = (
    "system", "user", "public", "public_user", "native_dry", "native_live", "text_dry", "text_tools", "references_dry",
)  # fmt: skip
_UNTOLD: Final = frozenset({"minLength", "maxLength", "pattern", "maxItems", "additionalProperties"})


@cache
def prompt_text(name: str) -> str:
    """The text of a prompt file that ships with the package (a constant, so it is read once)."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def prompt_hashes() -> dict[str, str]:
    """SHA-256 of the prompt files, by file name."""
    return {f"{name}.md": sha256_hex(prompt_text(name)) for name in _PROMPTS}


@cache
def tool_hashes() -> dict[str, str]:
    """Hashes of what a model is told of each tool, by its dotted name."""
    return {
        each.name: content_hash({"description": each.summary, "parameters": each.parameters}) for each in catalogue().operations
    }


def system_text(config: SuiteConfig, view: View, closed_days: Sequence[date]) -> str:
    """The system prompt of an item of our own.

    Args:
        config: the variant.
        view: the data as of the item's clock: what is listed by then is named.
        closed_days: weekdays without a session that are named.
    """
    symbols = view.symbols()
    stocks = (f"{row.symbol} ({row.name}){'*' if row.has_options else ''}" for row in symbols if row.asset_class == "stock")
    coins = (f"{row.symbol} ({row.name})" for row in symbols if row.asset_class == "crypto")
    return Template(prompt_text("system")).substitute(
        _shared(config),
        clock=clock_words(view.as_of_ns),
        stocks=", ".join(stocks) or "none",
        coins=", ".join(coins) or "none",
        closed=f"weekends and on {', '.join(map(str, closed_days))}" if closed_days else "weekends",
    )


def public_system_text(config: SuiteConfig) -> str:
    """The system prompt of a task of a file: no clock, no market of ours."""
    return Template(prompt_text("public")).substitute(_shared(config))


def user_text(instruction: str, situation: Situation, as_of_ns: int | None) -> str:
    """The question. `as_of_ns` is the moment of the clock; None for a task of a file, which has none."""
    asked = with_run_ids(instruction, situation.ids)
    if as_of_ns is None:
        return Template(prompt_text("public_user")).substitute(instruction=asked)
    return Template(prompt_text("user")).substitute(clock=clock_words(as_of_ns), situation=situation.words, instruction=asked)


def _shared(config: SuiteConfig) -> Mapping[str, str]:
    is_text = config.calls == "text"
    return {
        "how": prompt_text(f"{config.calls}_{config.execution}"),
        "references": "" if config.is_live else prompt_text("references_dry"),
        "calls_word": ", `calls`" if is_text else "",
        "tools": f"\n# Tools\n\n{tools_text()}" if is_text else "",
    }


@cache
def tools_text() -> str:
    """All tools with their arguments, as a model reads them that is offered none.

    Limits on lengths and patterns are left out, and `cursor` too, which is told once for all tools whose answers have pages.
    """
    tools = "\n\n".join(f"## {each.name}\n\n{each.summary}\nArguments: {_compact(_told(each))}" for each in catalogue().operations)
    return f"{prompt_text('text_tools')}\n\n{tools}"


def _told(operation: Operation) -> JsonValue:
    """JSON Schema of an operation's arguments, as told in text; the stream's cursor is of its own kind, and stays."""
    schema: dict[str, JsonValue] = _shortened(operation.parameters)
    if operation.properties.get("cursor") != STREAM_CURSOR:
        schema["properties"].pop("cursor", None)
    return schema


def _shortened(schema: Schema) -> dict[str, JsonValue]:
    kept: dict[str, JsonValue] = {keyword: value for keyword, value in schema.items() if keyword not in _UNTOLD}
    if "properties" in kept:
        kept["properties"] = {name: _shortened(part) for name, part in kept["properties"].items()}
    if "items" in kept:
        kept["items"] = _shortened(kept["items"])
    return kept


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
