"""Prompt texts for an item: system prompt, situation and question, from this package's prompt
files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec

from ktdeval.errors import DataError
from ktdeval.values import JsonValue, content_hash, sha256_hex
from ktdeval_qfinzero.benchmark.items import ACCOUNT, SESSION, BenchmarkItem
from ktdeval_qfinzero.benchmark.template_slots import clock_text
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.rows import SymbolRow
from ktdeval_qfinzero.esp.arguments import StreamQuery
from ktdeval_qfinzero.operations import Operation
from ktdeval_qfinzero.pmb.arguments import CreateSession
from ktdeval_qfinzero.point_in_time_view import DatasetView
from ktdeval_qfinzero.scoring.types import with_run_ids
from ktdeval_qfinzero.suite.config import SuiteConfig
from ktdeval_qfinzero.timestamps import SECOND, moment_text

_FOLDER = Path(__file__).with_name("prompts")
_OMITTED: Final = frozenset(
    {"minLength", "maxLength", "pattern", "maxItems", "additionalProperties"}
)


_NEW_YORK: Final = ZoneInfo("America/New_York")
_FREQUENCIES: Final[Mapping[str, str]] = MappingProxyType(
    {"1m": "one minute", "1d": "one trading day"}
)

PUBLIC_IDS: Final[Mapping[str, str]] = MappingProxyType(
    {"session_id": "sess-dryrun-2025", "account_id": "acct-dryrun-2025"}
)
"""Ids that the public benchmark fills into its tasks in a run without services."""


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file that ships with the package (a constant, so it is read
    once).
    """
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def prompt_hashes(folder: Path = _FOLDER) -> dict[str, JsonValue]:
    """Return the SHA-256 of the prompt files in a folder, keyed by file name."""
    return {
        path.name: sha256_hex(path.read_text(encoding="utf-8").rstrip("\n"))
        for path in sorted(folder.glob("*.md"))
    }


@cache
def tool_hashes() -> dict[str, str]:
    """Return the hash of the text that a model reads about each tool, keyed by the tool's dotted
    name.
    """
    return {
        each.name: content_hash({"description": each.summary, "parameters": each.parameters})
        for each in catalogue().operations
    }


def system_text(config: SuiteConfig, first: DatasetView, closed_days: Sequence[date]) -> str:
    """Return the system prompt for ktdeval's own items: the same for all of them, so that providers
    keep it in their prompt caches.

    `first`: the data as of the first clock of all items, whose listed symbols are named;
    `closed_days`: weekdays without a session to be named.
    """
    listed = first.symbols()
    closed = "weekends"
    if closed_days:
        closed = f"weekends and on {', '.join(map(str, closed_days))}"

    return Template(prompt_text("system")).substitute(
        _shared_words(config),
        listed_by=moment_text(first.as_of_ns),
        stocks=_names(listed, "stock") or "none",
        coins=_names(listed, "crypto") or "none",
        closed=closed,
    )


def listed_since(first: DatasetView, view: DatasetView) -> str:
    """Return the symbols that an item's view lists and the system prompt does not; an empty string
    if there are none.
    """
    known = {row.symbol for row in first.symbols()}
    later = [row for row in view.symbols() if row.symbol not in known]
    parts: list[str] = []
    for kind, words in (("stock", "stocks"), ("crypto", "coins")):
        names = _names(later, kind)
        if names:
            parts.append(f"{words} {names}")

    if not parts:
        return ""
    return f"Listed since {moment_text(first.as_of_ns)}: {'; '.join(parts)}."


def _names(rows: Sequence[SymbolRow], asset_class: str) -> str:
    """Return symbols of a class with their names; stocks with options are marked by a star."""
    names: list[str] = []
    for row in rows:
        if row.asset_class == asset_class:
            mark = "*" if row.has_options else ""
            names.append(f"{row.symbol} ({row.name}){mark}")

    return ", ".join(names)


def public_system_text(config: SuiteConfig) -> str:
    """Return the system prompt for a task from a file, which has no clock and no market here."""
    return Template(prompt_text("public")).substitute(_shared_words(config))


def user_text(instruction: str, situation: Situation, as_of_ns: int, listed: str) -> str:
    """Return the question of an item: all that differs between items, beginning with the clock.

    `listed`: as `listed_since` returns it.
    """
    lines = [f"The clock stands at {clock_words(as_of_ns)}."]
    if listed:
        lines.append(listed)

    return Template(prompt_text("user")).substitute(
        clock="\n".join(lines),
        situation=situation.words,
        instruction=with_run_ids(instruction, situation.ids),
    )


def public_user_text(instruction: str) -> str:
    """Return the question of a task from a file, which has no clock."""
    question = with_run_ids(instruction, PUBLIC_IDS)
    return Template(prompt_text("public_user")).substitute(instruction=question)


def _shared_words(config: SuiteConfig) -> Mapping[str, str]:
    is_text = config.calls == "text"
    how = Template(prompt_text(f"{config.calls}_{config.execution}"))
    return {
        "how": how.safe_substitute(most_calls=config.harness.max_tool_calls),
        "references": "" if config.is_live else prompt_text("references_dry"),
        "calls_word": ", `calls`" if is_text else "",
        "tools": f"\n# Tools\n\n{tools_text()}" if is_text else "",
    }


@cache
def tools_text() -> str:
    """Return all tools with their arguments as text, for a model that is offered no tools.

    Limits on lengths and patterns are omitted, as is `cursor`, which is described once for all
    tools with paged answers.
    """
    paragraphs = [prompt_text("text_tools")]
    for each in catalogue().operations:
        arguments = json.dumps(_arguments_schema(each), ensure_ascii=False, separators=(",", ":"))
        paragraphs.append(f"## {each.name}\n\n{each.summary}\nArguments: {arguments}")

    return "\n\n".join(paragraphs)


def _arguments_schema(operation: Operation) -> JsonValue:
    """Return the JSON Schema of an operation's arguments in the form shown in text. The stream's
    cursor is different and is kept.
    """
    properties = dict(operation.properties)
    if operation.takes is not StreamQuery:
        properties.pop("cursor", None)

    return _shortened_schema({**operation.parameters, "properties": properties})


def _shortened_schema(schema: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return a schema without limits on lengths and patterns."""
    short: dict[str, JsonValue] = {}
    for keyword, value in schema.items():
        if keyword == "properties":
            short[keyword] = {name: _shortened_schema(part) for name, part in value.items()}
        elif keyword == "items":
            short[keyword] = _shortened_schema(value)
        elif keyword not in _OMITTED:
            short[keyword] = value

    return short


# ---- situations


@dataclass(frozen=True)
class Situation:
    """Account and session with which an agent starts."""

    ids: Mapping[str, str]  # `session_id` and `account_id`, if any
    # arguments with which the session was opened; None without a session
    session: CreateSession | None = None

    @property
    def words(self) -> str:
        """Text that states which account and session exist. Their contents must be queried."""
        if "account_id" not in self.ids:
            return "There is no account and no session."
        if self.session is None:
            return f"There is an account, {ACCOUNT}, and no session."

        universe = self.session.universe
        names = ", ".join((*(universe.stocks or ()), *(universe.options or ())))
        frequency = _FREQUENCIES[self.session.frequency]

        return (
            f"There is an account, {ACCOUNT}, with a session, {SESSION}. The session has ticks of"
            f" {frequency}, ends at {self.session.end_ts}, and trades {names}."
        )


def situation_of(item: BenchmarkItem) -> Situation:
    """Return the situation that an item's setup creates. Raises DataError if it opens more than one
    account or session, which the prompt texts do not cover.
    """
    accounts = [call for call in item.setup if call.tool == "PMB.account.create"]
    sessions = [call for call in item.setup if call.tool == "PMB.session.create"]
    if len(accounts) > 1 or len(sessions) > 1:
        raise DataError(
            f"{item.task.id} ({item.template}): its setup opens more than one account or session"
        )

    ids: dict[str, str] = {}
    if accounts:
        ids["account_id"] = ACCOUNT
    if not sessions:
        return Situation(ids)

    session = msgspec.convert(sessions[0].args, CreateSession)
    return Situation({**ids, "session_id": SESSION}, session)


def clock_words(as_of_ns: int) -> str:
    """Return text such as `2025-01-06T21:00:00Z, which is Monday, 2025-01-06, 4:00 p.m. in New
    York`.
    """
    local = datetime.fromtimestamp(as_of_ns // SECOND, UTC).astimezone(_NEW_YORK)
    return (
        f"{moment_text(as_of_ns)}, which is {local:%A, %Y-%m-%d}, {clock_text(as_of_ns)} in New"
        " York"
    )
