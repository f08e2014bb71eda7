"""Tokens that are estimated from bytes: bounds hold for each tokenizer that was measured, on texts of
every kind, and the table says where its figures are from.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ktdeval.calls.costs.prompt_size import (
    KINDS,
    MAX_TOKENS,
    MIN_TOKENS,
    TOKEN_RATES,
    USUAL_TOKENS,
    BytesPerToken,
    PromptBytes,
    prompt_bytes,
    text_bytes,
)
from ktdeval.calls.records.record import tool_texts
from ktdeval.harness.chat_messages import Message, ModelRequest, Opaque, ToolCall, ToolSpec
from ktdeval.testing import not_empty
from ktdeval.values import load_yaml
from support.llm.real_tokenizers import counters, needs_tokenizers
from support.paths import REPOSITORY

TABLE: dict[str, Any] = load_yaml(TOKEN_RATES)
CONTENTS = {row["content"]: row for row in TABLE["contents"]}
COUNTED = [(name, tokenizer) for name in CONTENTS for tokenizer in TABLE["tokenizers"]]


def size_of(row: dict[str, Any]) -> PromptBytes:
    return PromptBytes(*(row[kind] for kind in KINDS))


def test_bytes_are_counted_by_kind_of_character() -> None:
    assert text_bytes('{"ret": -0.125}\n涨é') == PromptBytes(
        letters=3, spaces=1, digits=4, marks=8, scripts=5
    )
    assert text_bytes("") == PromptBytes()


def test_a_request_is_as_large_as_its_texts_and_counts_a_part_for_each() -> None:
    tool = ToolSpec("quote", "A price of 1 name.", {"type": "object", "properties": {"涨": {}}})
    system = Message("system", "Rules: 1, 2.")
    call = ToolCall("c1", "quote", '{"a": 1}', Opaque("p", "Let me look.", has_words=True))
    answered = (Message("assistant", "So", (call,)), Message("tool", "3 é", tool_call_id="c1"))
    texts = ["Rules: 1, 2.", "So", "quote", '{"a": 1}', "Let me look.", "3 é"]

    for tools in ((), (tool,), (tool, tool)):
        request = ModelRequest((system, *answered), tools=tools)
        shown = text_bytes("".join([*texts, *tool_texts(request)]))
        expected = shown + PromptBytes(parts=3 + len(tools))
        assert prompt_bytes(request) == prompt_bytes(request, tool_texts(request)) == expected

    tool.parameters["properties"]["more"] = {}  # type: ignore[index]
    changed = ModelRequest((system,), tools=(tool,))
    assert prompt_bytes(changed).letters > prompt_bytes(ModelRequest((system,))).letters
    assert prompt_bytes(request).total == text_bytes("".join([*texts, *tool_texts(request)])).total


def test_tokens_are_bytes_of_each_kind_at_its_rate_plus_those_per_part() -> None:
    size = PromptBytes(letters=655, spaces=133, digits=86, marks=126, scripts=155, parts=3)
    assert size.tokens(MAX_TOKENS) == pytest.approx(5 * 100 + 3 * 8)

    rate = BytesPerToken(4.0, 3.0, 2.0, 1.0, 5.0, around=7.0)
    assert PromptBytes(8, 9, 8, 5, 30, 2).tokens(rate) == 2 + 3 + 4 + 5 + 6 + 14
    assert PromptBytes(8, 9, 8, 5, 30, 2).total == 60
    assert size + size == PromptBytes(1310, 266, 172, 252, 310, 6)
    assert (size + size).without(size) == size
    assert size.without(size + size) == PromptBytes()


@pytest.mark.parametrize(("content", "tokenizer"), COUNTED)
def test_no_tokenizer_counts_more_or_fewer_than_the_bounds(content: str, tokenizer: str) -> None:
    row = CONTENTS[content]
    tokens = row["tokens"][tokenizer]
    size = size_of(row)
    assert size.tokens(MIN_TOKENS) <= tokens <= size.tokens(MAX_TOKENS)


@pytest.mark.parametrize("content", CONTENTS)
def test_the_bounds_are_near_what_is_counted(
    content: str,
) -> None:
    row = CONTENTS[content]
    size = size_of(row)
    least = min(row["tokens"].values())
    most = max(row["tokens"].values())

    assert size.tokens(MIN_TOKENS) > 0.55 * least
    assert size.tokens(MAX_TOKENS) < 1.7 * most
    assert size.tokens(MIN_TOKENS) < size.tokens(USUAL_TOKENS) < size.tokens(MAX_TOKENS)


@pytest.mark.parametrize("kind", [*KINDS, "around"])
def test_rates_are_ordered_in_each_kind(kind: str) -> None:
    rates = [getattr(rate, kind) for rate in (MIN_TOKENS, USUAL_TOKENS, MAX_TOKENS)]
    assert rates == sorted(rates, reverse=kind != "around")


def test_the_table_names_tokenizers_versions_and_its_day() -> None:
    assert len(TABLE["tokenizers"]) >= 3
    assert str(date.fromisoformat(TABLE["measured"])) == TABLE["measured"]
    for entry in not_empty(TABLE["tokenizers"].values()):
        assert re.fullmatch(r"[a-z0-9-]+ \d+(\.\d+)+", entry["package"])


@pytest.mark.parametrize("path", sorted((REPOSITORY / "benchmarks/token_texts").glob("*.txt")))
def test_sizes_in_the_table_are_those_of_the_texts_beside_the_script(path: Path) -> None:
    (row,) = (CONTENTS[name] for name in CONTENTS if name.lower().startswith(path.stem))
    assert text_bytes(path.read_text("utf-8")) == size_of(row)


@needs_tokenizers
@pytest.mark.parametrize("path", sorted((REPOSITORY / "benchmarks/token_texts").glob("*.txt")))
def test_the_tokenizers_count_what_the_table_says(path: Path) -> None:
    (row,) = (CONTENTS[name] for name in CONTENTS if name.lower().startswith(path.stem))
    text = path.read_text("utf-8")
    assert {name: count(text) for name, count in counters().items()} == row["tokens"]
