"""Selection of the tables and reports that can be made from a grid's cards.

Commands of other plugins are looked up in the registry and called with arguments, as a user would
call them.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from ktdeval.cards import ScoringCard, TradingCard
from ktdeval.errors import ConfigError, KtdevalError
from ktdeval.registry import Plugins, hints
from ktdeval.values import Value, from_plain, load_yaml

OUTPUTS = Path(__file__).with_name("outputs.yaml")


class Conditions(Value):
    """Conditions under which an output can be made from some cards."""

    families: tuple[str, ...] = ()  #: task families that the output supports; empty: all
    kinds: tuple[str, ...] = ("trading",)  #: kinds of cards, at least one of which must be present
    #: minimum number of systems, tasks, masks and modes
    least: dict[str, int] = msgspec.field(default_factory=dict)
    most: dict[str, int] = msgspec.field(default_factory=dict)

    def hold(self, facts: CardFacts) -> bool:
        """Return whether cards with these facts meet the conditions."""
        if self.families and not facts.families <= set(self.families):
            return False
        if not facts.kinds & set(self.kinds):
            return False

        counts = facts.counts
        is_enough = all(counts[name] >= number for name, number in self.least.items())
        is_few = all(counts[name] <= number for name, number in self.most.items())
        return is_enough and is_few


class ReportSpec(Conditions, kw_only=True):
    """A report that can be made from several cards."""

    title: str
    words: tuple[str, ...]  #: words of the command


class OutputSpecs(Value):
    """Contents of `outputs.yaml`."""

    tables: dict[str, Conditions]
    reports: dict[str, ReportSpec]


@dataclass(frozen=True)
class CardFacts:
    """Facts about cards that determine which outputs can be made from them."""

    families: frozenset[str]
    kinds: frozenset[str]
    counts: Mapping[str, int]  #: number of systems, tasks, masks and modes

    @classmethod
    def of(cls, cards: Sequence[TradingCard | ScoringCard], systems: int) -> CardFacts:
        """Return the facts about cards."""
        tasks = {card.task.name for card in cards}
        masks = {card.task.config.get("mask") for card in cards} - {None}
        modes = {card.task.config.get("mode") for card in cards} - {None}
        families = {str(card.task.config.get("family")) for card in cards}
        counts = {
            "systems": systems,
            "tasks": len(tasks),
            "masks": len(masks),
            "modes": len(modes),
        }
        return cls(frozenset(families), frozenset(card.kind for card in cards), counts)


@dataclass(frozen=True)
class CardsOutput:
    """A table or report: its text in each format, or why it could not be made."""

    name: str
    title: str
    texts: Mapping[str, str]  #: text by file extension: txt, md, csv, json
    notes: tuple[str, ...] = ()  #: warnings printed by the command
    problem: str = ""  #: why it could not be made; empty on success


def output_specs() -> OutputSpecs:
    """Return the conditions for all outputs."""
    return from_plain(load_yaml(OUTPUTS), OutputSpecs, str(OUTPUTS), ConfigError)


def planned_outputs(
    cards: Sequence[Path], facts: CardFacts, tables: Sequence[str] | None, plugins: Plugins
) -> Iterator[Callable[[], CardsOutput]]:
    """Yield functions that make the tables that the plan names or, by default, those for which the
    cards suffice, and then the reports.
    """
    specs = output_specs()
    if tables is None:
        tables = [name for name, conditions in specs.tables.items() if conditions.hold(facts)]

    paths = [str(card) for card in cards]
    for name in tables:
        words = {
            form: ["paper", "table", *paths, "--like", name, "--format", spelled]
            for form, spelled in (("txt", "text"), ("md", "markdown"), ("csv", "csv"))
        }
        yield partial(_make_output, name, "", words, plugins)

    for name, report in specs.reports.items():
        if report.hold(facts):
            text = [*report.words, *paths]
            words = {"txt": text, "json": [*text, "--json"]}
            yield partial(_make_output, name, report.title, words, plugins)


def _make_output(
    name: str, title: str, words: Mapping[str, Sequence[str]], plugins: Plugins
) -> CardsOutput:
    texts: dict[str, str] = {}
    notes: dict[str, None] = {}
    for form, line in words.items():
        called = call_command(line, plugins)
        if called.problem:
            return CardsOutput(name, title, {}, problem=called.problem)

        texts[form] = called.text
        notes |= dict.fromkeys(called.notes)

    return CardsOutput(name, title, texts, tuple(notes))


@dataclass(frozen=True)
class PrintedOutput:
    """Output printed by a command."""

    text: str
    notes: tuple[str, ...]  #: lines on stderr
    problem: str = ""  #: one line on why the command failed; empty on success


def call_command(words: Sequence[str], plugins: Plugins) -> PrintedOutput:
    """Run a command of any plugin in this process. May only be called in the main thread."""
    first, *rest = words
    name = first
    if first in hints()["shared_groups"]:
        member, *rest = rest
        name = f"{first} {member}"

    out = io.StringIO()
    err = io.StringIO()
    problem = ""
    try:
        command: Any = plugins.make("commands", name)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            command.main(rest, prog_name=f"ktdeval {name}", standalone_mode=False)
    except KtdevalError as error:
        problem = str(error)
    except click.ClickException as error:
        problem = error.format_message()

    notes = tuple(err.getvalue().splitlines())
    return PrintedOutput(out.getvalue(), notes, " ".join(problem.split()))
