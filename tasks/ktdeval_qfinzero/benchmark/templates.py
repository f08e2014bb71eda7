"""Templates of items, read from this package's template files, and the drafts made of them.

A template draws facts by name (`draw`, in order), puts one of its wordings (`say`), and gives the expected calls (`steps`), the
calls made before the agent starts (`setup`), or, of an item to refuse, the call of somebody who overlooks why it can't be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import field

from ktdeval.errors import DataError, KtdevalError
from ktdeval.fields import near_matches
from ktdeval.typed import Value, from_plain
from ktdeval.yamlio import load_yaml
from ktdeval_qfinzero.benchmark.draws import DRAWS, Random
from ktdeval_qfinzero.benchmark.facts import Facts
from ktdeval_qfinzero.benchmark.items import ACCOUNT, SESSION, Call, Difficulty, Draft, Step
from ktdeval_qfinzero.benchmark.situations import opening, order
from ktdeval_qfinzero.benchmark.wordings import Wording
from ktdeval_qfinzero.scoring.types import Suite
from ktdeval_qfinzero.scoring.values import Tolerance

FILES: Mapping[Suite, tuple[str, ...]] = {
    "calling": ("calling_prices", "calling_events", "calling_broker", "calling_chains"),
    "planning": ("planning_options", "planning_trades"),
}  #: Template files of a suite, in the order in which drafts are made


class Chosen(Value, frozen=True):
    """A fact that is drawn of some values, all of them filled first; a text with slots is a value, too."""

    one_of: tuple[Any, ...]


class CallPattern(Value, frozen=True):
    """A call whose arguments have slots. `times, tolerance, may_be_empty`: as of `Step`."""

    tool: str = ""  #: dotted name
    args: dict[str, Any] | str = field(default_factory=dict)  #: arguments, or one slot that stands for all of them
    order: dict[str, Any] | str | None = None  #: in place of both: an order of the situation's account
    times: tuple[str, ...] = ()
    tolerance: Tolerance = "exact"
    may_be_empty: bool = False

    def call(self, wording: Wording) -> Call:
        """Fill the slots."""
        if self.order is not None:
            return order(wording.fill(self.order))
        return Call(wording.fill(self.tool), wording.fill(self.args))

    def step(self, wording: Wording) -> Step:
        """Fill the slots of an expected call."""
        return Step(self.call(wording), self.times, self.tolerance, self.may_be_empty)


class SetupPattern(Value, frozen=True):
    """Calls made before the agent starts. `stocks, options`: of the universe of a session on a new account; without stocks there is
    neither.
    """

    stocks: tuple[str, ...] | str = ()
    options: tuple[str, ...] | str = ()
    #: how many of each stock were bought on the session's first day, after which the clock is a day later; 0 for none
    held: int | str = 0
    calls: tuple[CallPattern, ...] = ()  #: made after that

    def made(self, wording: Wording, facts: Facts) -> tuple[Call, ...]:
        """Fill the slots."""
        stocks, options, held = (wording.fill(part) for part in (self.stocks, self.options, self.held))
        opened = opening(facts, stocks, options, held) if stocks else ()
        return (*opened, *(call.call(wording) for call in self.calls))


class Template(Value, frozen=True):
    """One kind of item."""

    name: str  #: of the kind; part of the seed of its items
    category: str
    difficulty: Difficulty
    weight: int = 1  #: how many items are made of it
    #: fact -> `function argument …` (`draws.DRAWS`), or values that one is drawn of
    draw: dict[str, str | Chosen] = field(default_factory=dict)
    say: str | tuple[str, ...] = ""  #: wordings, one of which is drawn
    #: expected calls in order, or names of the file's `calls`; none where the right answer is to refuse
    steps: tuple[CallPattern | str, ...] = ()
    setup: SetupPattern | None = None  #: what the agent finds
    #: of an item to refuse, the call that must fail; None where there is no tool for what is asked
    attempt: CallPattern | None = None
    notes: str = ""  #: why it is so; for people


class TemplateFile(Value, frozen=True):
    """Templates with the phrases and the calls that several of them use."""

    templates: tuple[Template, ...]
    phrases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: dict[str, CallPattern] = field(default_factory=dict)

    def draft(self, template: Template, chance: Random, facts: Facts) -> Draft:
        """Make a draft of one of the templates. Raises DataError: the template names what is not there."""
        known = {"account": ACCOUNT, "session": SESSION, "last_day": facts.last_day, "stocks": facts.stocks}
        wording = Wording(chance, self.phrases, known)
        try:
            for name, drawn in template.draw.items():
                wording.facts[name] = _drawn(drawn, wording, facts)
            return Draft(
                instruction=wording.say(template.say),
                steps=tuple(self._pattern(step).step(wording) for step in template.steps),
                setup=() if template.setup is None else template.setup.made(wording, facts),
                attempt=None if template.attempt is None else template.attempt.call(wording),
                notes=template.notes,
            )
        except KtdevalError as error:
            raise DataError(f"template {template.name}: {error}") from error

    def _pattern(self, step: CallPattern | str) -> CallPattern:
        if isinstance(step, CallPattern):
            return step
        if step not in self.calls:
            raise DataError(f"no call {step!r}{near_matches(step, self.calls)}")
        return self.calls[step]


def load_templates(suite: Suite) -> tuple[TemplateFile, ...]:
    """Read the template files of a suite. Raises DataError: a file is not one of templates."""
    paths = (Path(__file__).parent / "template_files" / f"{name}.yaml" for name in FILES[suite])
    return tuple(from_plain(load_yaml(path), TemplateFile, path.name, DataError) for path in paths)


def _drawn(drawn: str | Chosen, wording: Wording, facts: Facts) -> Any:
    if isinstance(drawn, Chosen):
        values = [wording.fill(value) for value in drawn.one_of]
        chosen = values[0] if len(values) == 1 else values[int(wording.chance.integers(len(values)))]
        return SimpleNamespace(**chosen) if isinstance(chosen, dict) else chosen
    name, *arguments = drawn.split()
    if name not in DRAWS:
        raise DataError(f"no draw {name!r}{near_matches(name, DRAWS)}")
    return DRAWS[name](wording.chance, facts, *(_argument(text, wording) for text in arguments))


def _argument(text: str, wording: Wording) -> Any:
    """A number, a word in quotes, or a fact."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text[1:-1] if text.startswith("'") else wording.get_field(text, (), {})[0]
