"""Items of the benchmark, made of templates at seeded moments of a dataset. Equal arguments give equal items.

A template of a template file draws facts by name (`draw`, in order), puts one of its wordings (`say`), and gives the expected calls
(`steps`), the calls made before the agent starts (`setup`), or, of an item to refuse, the call of an agent that overlooks why it
can't be done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec import field

from ktdeval.errors import DataError, KtdevalError
from ktdeval.fields import near_matches
from ktdeval.jsonio import JsonValue
from ktdeval.seeds import derive_seed
from ktdeval.typed import Value, from_plain
from ktdeval.yamlio import load_yaml
from ktdeval_qfinzero.benchmark.draws import DRAWS, Facts, Random
from ktdeval_qfinzero.benchmark.items import ACCOUNT, SESSION, Call, Difficulty, Draft, Item, Step, is_empty, run_calls
from ktdeval_qfinzero.benchmark.wordings import Wording
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.rows import Dataset
from ktdeval_qfinzero.moments import MINUTE, moment_text
from ktdeval_qfinzero.scoring.types import REFUSE, GoldCall, GoldTask, Suite
from ktdeval_qfinzero.scoring.values import Tolerance
from ktdeval_qfinzero.trading_hours import trading_hours
from ktdeval_qfinzero.workspace import Workspace

IDS: dict[str, JsonValue] = {"session_id": SESSION, "account_id": ACCOUNT}
_CASH = 250_000.0
_SESSIONS_AHEAD = 15


def order(fields: dict[str, JsonValue]) -> Call:
    """Return an order of the situation's account."""
    return Call("PMB.order.place", {**IDS, "order": fields})


def opening(facts: Facts, stocks: Sequence[str], options: Sequence[str] = (), held: int = 0) -> tuple[Call, ...]:
    """Calls that open an account and a daily session of a universe at the clock, a day later with `held` of each stock bought."""
    universe = {"stocks": list(stocks), **({"options": list(options)} if options else {})}
    ends_ns = trading_hours().close_of(facts.session(_SESSIONS_AHEAD))
    span = {"start_ts": moment_text(facts.as_of_ns), "end_ts": moment_text(ends_ns)}
    opened = (
        Call("PMB.account.create", {"account_type": "MARGIN", "initial_cash": _CASH}),
        Call("PMB.session.create", {"account_id": ACCOUNT, "frequency": "1d", **span, "universe": universe}),
    )
    if not held:
        return opened
    bought = (
        order({"instrument": {"type": "STOCK", "symbol": symbol}, "side": "BUY", "order_type": "MARKET", "qty": held})
        for symbol in stocks
    )
    return (*opened, *bought, Call("PMB.session.step", {"session_id": SESSION, "step": 1}))


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
    order: dict[str, Any] | str | None = None  #: instead of both: an order of the situation's account
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
    """Calls made before the agent starts; without `stocks` there is no session, whose universe they and `options` are."""

    stocks: tuple[str, ...] | str = ()
    options: tuple[str, ...] | str = ()
    #: how many of each stock were bought on the session's first day, after which the clock is a day later; 0 for none
    held: int | str = 0
    calls: tuple[CallPattern, ...] = ()  #: made after that

    def filled(self, wording: Wording, facts: Facts) -> tuple[Call, ...]:
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
    setup: SetupPattern | None = None  #: situation that the agent starts in
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
        initial_facts = {"account": ACCOUNT, "session": SESSION, "last_day": facts.last_day, "stocks": facts.stocks}
        wording = Wording(chance, self.phrases, initial_facts)
        try:
            for name, drawn in template.draw.items():
                wording.facts[name] = _drawn(drawn, wording, facts)
            return Draft(
                instruction=wording.say(template.say),
                steps=tuple(self._pattern(step).step(wording) for step in template.steps),
                setup=() if template.setup is None else template.setup.filled(wording, facts),
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
    values = [_argument(text, wording) for text in arguments]
    try:
        return DRAWS[name](wording.chance, facts, *values)
    except DataError as error:
        raise DataError(f"{drawn}: {error}") from error


def _argument(text: str, wording: Wording) -> Any:
    """A number, a word in quotes, or a fact."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text[1:-1] if text.startswith("'") else wording.get_field(text, (), {})[0]


_OWN_IDS: dict[tuple[str, JsonValue], str] = {("account_id", ACCOUNT): "{account_id}", ("session_id", SESSION): "{session_id}"}
"""Ids that the instruction names: copying them earns nothing, so that gold has placeholders, as in the public tasks."""


def item_of(draft: Draft, template: Template, suite: Suite, item_id: str, as_of_ns: int) -> Item:
    """Make a draft of a template an item; `as_of_ns`: the moment that its facts are of."""
    step_ids = [f"s{number}" if suite == "planning" else None for number in range(1, max(len(draft.steps), 1) + 1)]
    calls = tuple(_gold_call(step, step_id) for step, step_id in zip(draft.steps, step_ids, strict=False))
    task = GoldTask(
        id=item_id,
        suite=suite,
        category=template.category,
        difficulty=template.difficulty,
        instruction=draft.instruction,
        calls=calls or (GoldCall(REFUSE, step_id=step_ids[0]),),
        notes=draft.notes,
    )
    empty = frozenset(number for number, step in enumerate(draft.steps) if step.may_be_empty)
    gold = tuple(step.call for step in draft.steps)
    return Item(task, template.name, as_of_ns, draft.setup, gold, empty, draft.attempt)


def _gold_call(step: Step, step_id: str | None) -> GoldCall:
    operation = catalogue().find(step.call.tool)
    required = {
        name: _OWN_IDS.get((name, value), value) if isinstance(value, str) else value for name, value in step.call.args.items()
    }
    times: dict[str, JsonValue] = {name: required[name] for name in step.times}
    if times:
        times["tolerance"] = step.tolerance
    return GoldCall(operation.name, operation.path, operation.method, required, times=times, step_id=step_id)


_PREFIX: dict[Suite, str] = {"calling": "qc", "planning": "qp"}
_MOMENTS = 16
_MARGIN_BEFORE, _MARGIN_AFTER = 10, 2
_AFTER_CLOSE = (0, 30, 60)
_TRIES = 20


def make_items(dataset: Dataset, suite: Suite, seed: int) -> tuple[Item, ...]:
    """Items of a suite, in an order that does not reveal their kind. Raises DataError: the dataset has less than some weeks of
    minutes and options, or gives no new instruction for a template.
    """
    moments = _moments(dataset, derive_seed(seed, suite, "moments"))
    facts = {ns: Facts(dataset, ns) for ns in moments}
    drafts: list[tuple[Template, Draft, int]] = []
    instructions: set[str] = set()
    for file in load_templates(suite):
        for template in file.templates:
            for number in range(template.weight):
                chance = np.random.default_rng(derive_seed(seed, suite, template.name, number))
                drafts.append((template, *_new_draft(file, template, chance, facts, instructions)))
    order = np.random.default_rng(derive_seed(seed, suite, "order")).permutation(len(drafts))
    items = []
    for number, chosen in enumerate(order, 1):
        template, draft, as_of_ns = drafts[chosen]
        items.append(item_of(draft, template, suite, f"{_PREFIX[suite]}-{number:04d}", as_of_ns))
    return tuple(items)


def _new_draft(
    file: TemplateFile, template: Template, chance: np.random.Generator, facts: Mapping[int, Facts], instructions: set[str]
) -> tuple[Draft, int]:
    """Make a draft whose instruction no other item has and whose calls find something, and return it with its moment."""
    moments = sorted(facts)
    for _ in range(_TRIES):
        as_of_ns = moments[int(chance.integers(len(moments)))]
        draft = file.draft(template, chance, facts[as_of_ns])
        if draft.instruction not in instructions and _finds_something(draft, facts[as_of_ns]):
            instructions.add(draft.instruction)
            return draft, as_of_ns
    raise DataError(f"template {template.name}: gives no new instruction in {_TRIES} tries; give it a smaller weight")


def _finds_something(draft: Draft, facts: Facts) -> bool:
    """Whether no expected call finds nothing that must find something; those in a situation of the broker's find what it holds."""
    if draft.setup:
        return True
    answers = run_calls(Workspace(facts.dataset, facts.as_of_ns), [step.call for step in draft.steps])
    return all(step.may_be_empty or not is_empty(answer) for step, answer in zip(draft.steps, answers, strict=True))


def _moments(dataset: Dataset, seed: int) -> Sequence[int]:
    """Moments shortly after closes, with days of minute bars before them and trading days after them."""
    hours, info = trading_hours(), dataset.info
    if not np.array_equal(info.hours.close_ns, hours.close_ns):
        raise DataError(f"the benchmark is about sessions in New York (XNYS); the dataset's are those of {info.calendar}")
    first, last = (
        int(np.searchsorted(hours.days, np.datetime64(day, "D"))) for day in (info.minute_first_day, info.minute_last_day)
    )
    rows = range(first + _MARGIN_BEFORE, last - _MARGIN_AFTER)
    if len(rows) < _MOMENTS:
        raise DataError("the benchmark needs a dataset with at least six weeks of minute bars")
    rng = np.random.default_rng(seed)
    chosen = sorted(int(row) for row in rng.choice(list(rows), _MOMENTS, replace=False))
    return [int(hours.close_ns[row]) + int(rng.choice(_AFTER_CLOSE)) * MINUTE for row in chosen]
