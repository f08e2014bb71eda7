"""Generate the benchmark's items from templates, at seeded times in a dataset. Equal arguments give
equal items.

A template draws facts (`draw`, in order), words the instruction (`say`), and lists the calls made
before the agent starts (`setup`) and the expected calls (`steps`). If the right answer is to
refuse, the template has no steps, and `attempt` is a call that must fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec import field

from ktdeval.errors import DataError, KtdevalError
from ktdeval.values import JsonValue, Value, derive_seed, from_plain, load_yaml, near_matches
from ktdeval_qfinzero.benchmark.items import (
    ACCOUNT,
    SESSION,
    BenchmarkItem,
    Difficulty,
    GoldStep,
    ItemCall,
    ItemDraft,
    is_empty,
    run_calls,
)
from ktdeval_qfinzero.benchmark.market_facts import DRAWS, MomentFacts, Random
from ktdeval_qfinzero.benchmark.template_slots import SlotWording
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.scoring.types import REFUSE, GoldCall, GoldTask, Suite
from ktdeval_qfinzero.scoring.values import Tolerance
from ktdeval_qfinzero.timestamps import MINUTE, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

IDS: dict[str, JsonValue] = {"session_id": SESSION, "account_id": ACCOUNT}
_CASH = 250_000.0
_SESSIONS_AHEAD = 15


def order(fields: dict[str, JsonValue]) -> ItemCall:
    """Return the call that places an order for the prepared account."""
    return ItemCall("PMB.order.place", {**IDS, "order": fields})


def opening(
    facts: MomentFacts, stocks: Sequence[str], options: Sequence[str] = (), held: int = 0
) -> tuple[ItemCall, ...]:
    """Return the calls that open an account and a daily session with a universe. With `held`, the
    calls also buy this number of shares of each stock and step the session by a day.
    """
    universe: dict[str, JsonValue] = {"stocks": list(stocks)}
    if options:
        universe["options"] = list(options)

    ends_ns = trading_hours().close_of(facts.session(_SESSIONS_AHEAD))
    session: dict[str, JsonValue] = {
        "account_id": ACCOUNT,
        "frequency": "1d",
        "start_ts": moment_text(facts.as_of_ns),
        "end_ts": moment_text(ends_ns),
        "universe": universe,
    }
    calls = [
        ItemCall("PMB.account.create", {"account_type": "MARGIN", "initial_cash": _CASH}),
        ItemCall("PMB.session.create", session),
    ]
    if not held:
        return tuple(calls)

    for symbol in stocks:
        instrument: JsonValue = {"type": "STOCK", "symbol": symbol}
        calls.append(
            order({"instrument": instrument, "side": "BUY", "order_type": "MARKET", "qty": held})
        )

    # A market order is filled at the next open, so the shares are in the account only after a step.
    calls.append(ItemCall("PMB.session.step", {"session_id": SESSION, "step": 1}))

    return tuple(calls)


FILES: Mapping[Suite, tuple[str, ...]] = {
    "calling": ("calling_prices", "calling_events", "calling_broker", "calling_chains"),
    "planning": ("planning_options", "planning_trades"),
}
"""Template files of each suite. Items are numbered and drawn in this order."""


class Chosen(Value, frozen=True):
    """Values from which a fact is drawn. Slots in the values are filled first."""

    one_of: tuple[Any, ...]


class CallPattern(Value, frozen=True):
    """A call whose arguments have slots. `GoldStep` explains `times`, `tolerance`,
    `may_be_empty`.
    """

    tool: str = ""  #: dotted tool name
    #: arguments, or one slot whose fact contains all of them
    args: dict[str, Any] | str = field(default_factory=dict)
    #: an order for the prepared account, instead of `tool` and `args`
    order: dict[str, Any] | str | None = None
    times: tuple[str, ...] = ()
    tolerance: Tolerance = "exact"
    may_be_empty: bool = False

    def call(self, wording: SlotWording) -> ItemCall:
        """Fill the slots."""
        if self.order is not None:
            return order(wording.fill(self.order))
        return ItemCall(wording.fill(self.tool), wording.fill(self.args))

    def step(self, wording: SlotWording) -> GoldStep:
        """Fill the slots of an expected call."""
        return GoldStep(self.call(wording), self.times, self.tolerance, self.may_be_empty)


class SetupPattern(Value, frozen=True):
    """Calls made before the agent starts. With `stocks`, an account and a session are opened."""

    stocks: tuple[str, ...] | str = ()  #: stocks in the session's universe
    options: tuple[str, ...] | str = ()  #: options in the session's universe
    #: shares of each stock to buy on the session's first day, after which the session is stepped
    held: int | str = 0
    calls: tuple[CallPattern, ...] = ()  #: additional calls, made last

    def fill_slots(self, wording: SlotWording, facts: MomentFacts) -> tuple[ItemCall, ...]:
        """Fill the slots."""
        stocks = wording.fill(self.stocks)
        options = wording.fill(self.options)
        held = wording.fill(self.held)
        opened: tuple[ItemCall, ...] = ()
        if stocks:
            opened = opening(facts, stocks, options, held)

        return (*opened, *(call.call(wording) for call in self.calls))


class Template(Value, frozen=True):
    """Template for one kind of item."""

    name: str  #: part of the seed of the template's items
    category: str
    difficulty: Difficulty
    weight: int = 1  #: number of items generated from the template
    #: fact -> `function argument …` (`market_facts.DRAWS`), or values to draw from
    draw: dict[str, str | Chosen] = field(default_factory=dict)
    say: str | tuple[str, ...] = ""  #: wordings of the instruction, one of which is drawn
    #: expected calls in order, or names from the file's `calls`; empty if the right answer is to
    #: refuse
    steps: tuple[CallPattern | str, ...] = ()
    setup: SetupPattern | None = None  #: calls made before the agent starts
    #: for items that should be refused: a call that must fail; None if no tool could do the task
    attempt: CallPattern | None = None
    notes: str = ""  #: reasons, for human readers


class TemplateFile(Value, frozen=True):
    """Templates, with the phrases and calls that several of them share."""

    templates: tuple[Template, ...]
    phrases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: dict[str, CallPattern] = field(default_factory=dict)

    def draft(self, template: Template, chance: Random, facts: MomentFacts) -> ItemDraft:
        """Draw an item from one of the templates. Raises DataError if the template names an unknown
        fact, draw or call, or if the dataset lacks the data to draw from.
        """
        initial_facts = {
            "account": ACCOUNT,
            "session": SESSION,
            "last_day": facts.last_day,
            "stocks": facts.stocks,
        }
        wording = SlotWording(chance, self.phrases, initial_facts)
        try:
            return self._fill(template, wording, facts)
        except KtdevalError as error:
            raise DataError(f"template {template.name}: {error}") from error

    def _fill(self, template: Template, wording: SlotWording, facts: MomentFacts) -> ItemDraft:
        """Draw and fill the parts of a template. The order of the parts determines the draws."""
        for name, drawn in template.draw.items():
            wording.facts[name] = _draw_fact(drawn, wording, facts)

        instruction = wording.say(template.say)
        steps = tuple(self._pattern(step).step(wording) for step in template.steps)
        setup: tuple[ItemCall, ...] = ()
        if template.setup is not None:
            setup = template.setup.fill_slots(wording, facts)

        attempt: ItemCall | None = None
        if template.attempt is not None:
            attempt = template.attempt.call(wording)

        return ItemDraft(instruction, steps, setup, attempt, template.notes)

    def _pattern(self, step: CallPattern | str) -> CallPattern:
        if isinstance(step, CallPattern):
            return step
        if step not in self.calls:
            raise DataError(f"no call {step!r}{near_matches(step, self.calls)}")
        return self.calls[step]


def load_templates(suite: Suite) -> tuple[TemplateFile, ...]:
    """Read the template files of a suite. Raises DataError if a file is malformed."""
    folder = Path(__file__).parent / "template_files"
    files: list[TemplateFile] = []
    for name in FILES[suite]:
        path = folder / f"{name}.yaml"
        files.append(from_plain(load_yaml(path), TemplateFile, path.name, DataError))

    return tuple(files)


def _draw_fact(drawn: str | Chosen, wording: SlotWording, facts: MomentFacts) -> Any:
    """Draw a fact: one of several listed values, or the result of a function in `DRAWS`."""
    if isinstance(drawn, Chosen):
        return _chosen_value(drawn, wording)

    name, *arguments = drawn.split()
    if name not in DRAWS:
        raise DataError(f"no draw {name!r}{near_matches(name, DRAWS)}")

    values = [_argument(text, wording) for text in arguments]
    try:
        return DRAWS[name](wording.chance, facts, *values)
    except DataError as error:
        raise DataError(f"{drawn}: {error}") from error


def _chosen_value(chosen: Chosen, wording: SlotWording) -> Any:
    values = [wording.fill(value) for value in chosen.one_of]
    index = 0
    if len(values) > 1:
        index = int(wording.chance.integers(len(values)))

    value = values[index]
    if isinstance(value, dict):
        # Slots name the parts of a fact with a dot: `{right.word}`.
        return SimpleNamespace(**value)
    return value


def _argument(text: str, wording: SlotWording) -> Any:
    """Parse an argument of a draw: a number, a word in quotes, or the name of a fact."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue

    if text.startswith("'"):
        return text[1:-1]

    fact, _ = wording.get_field(text, (), {})
    return fact


_OWN_IDS: dict[tuple[str, JsonValue], str] = {
    ("account_id", ACCOUNT): "{account_id}",
    ("session_id", SESSION): "{session_id}",
}
"""Placeholders for ids that the instruction names. Copying an id earns nothing, so expected calls
have placeholders, as in the public tasks.
"""


def item_of(
    draft: ItemDraft, template: Template, suite: Suite, item_id: str, as_of_ns: int
) -> BenchmarkItem:
    """Turn a draft into an item with an id. `as_of_ns`: time as of which the draft's facts hold."""
    calls: list[GoldCall] = []
    for number, step in enumerate(draft.steps, 1):
        call = expected_call(step.call.tool, step.call.args, step.times, step.tolerance)
        calls.append(replace(call, step_id=_step_id(suite, number)))

    if not calls:
        calls.append(GoldCall(REFUSE, step_id=_step_id(suite, 1)))

    task = GoldTask(
        id=item_id,
        suite=suite,
        category=template.category,
        difficulty=template.difficulty,
        instruction=draft.instruction,
        calls=tuple(calls),
        notes=draft.notes,
    )
    empty = frozenset(number for number, step in enumerate(draft.steps) if step.may_be_empty)
    gold = tuple(step.call for step in draft.steps)

    return BenchmarkItem(task, template.name, as_of_ns, draft.setup, gold, empty, draft.attempt)


def _step_id(suite: Suite, number: int) -> str | None:
    """Return the id of an expected call; only calls of plans have one."""
    if suite != "planning":
        return None
    return f"s{number}"


def expected_call(
    tool: str, args: Mapping[str, JsonValue], times: Iterable[str], tolerance: Tolerance = "exact"
) -> GoldCall:
    """Return a call in its expected form. `times`: names of the arguments that are compared as
    times.
    """
    operation = catalogue().find(tool)
    required = dict(args)
    for (name, own_id), placeholder in _OWN_IDS.items():
        if required.get(name) == own_id:
            required[name] = placeholder

    compared: dict[str, JsonValue] = {name: required[name] for name in times}
    if compared:
        compared["tolerance"] = tolerance

    return GoldCall(operation.name, operation.path, operation.method, required, times=compared)


_PREFIX: dict[Suite, str] = {"calling": "qc", "planning": "qp"}
_MOMENTS = 16  #: Number of points in time over all items of a suite
_MARGIN_BEFORE = 10  #: Number of sessions with minute bars before a point in time
_MARGIN_AFTER = 2  #: Number of sessions with minute bars after a point in time
_AFTER_CLOSE = (0, 30, 60)  #: Minutes
_TRIES = 20


def make_items(dataset: Dataset, suite: Suite, seed: int) -> tuple[BenchmarkItem, ...]:
    """Make the items of a suite, in random order. Raises DataError if the dataset has too few weeks
    of minute bars and options, or if a template gives no new instruction.
    """
    moments = _draw_moments(dataset, derive_seed(seed, suite, "moments"))
    facts = {ns: MomentFacts(dataset, ns) for ns in moments}
    drafts: list[tuple[Template, ItemDraft, int]] = []
    instructions: set[str] = set()

    for file in load_templates(suite):
        for template in file.templates:
            for number in range(template.weight):
                chance = np.random.default_rng(derive_seed(seed, suite, template.name, number))
                draft, as_of_ns = _new_draft(file, template, chance, facts, instructions)
                drafts.append((template, draft, as_of_ns))

    # Shuffled, since ids in file order would reveal an item's kind.
    order = np.random.default_rng(derive_seed(seed, suite, "order")).permutation(len(drafts))
    items = []
    for number, chosen in enumerate(order, 1):
        template, draft, as_of_ns = drafts[chosen]
        item_id = f"{_PREFIX[suite]}-{number:04d}"
        items.append(item_of(draft, template, suite, item_id, as_of_ns))

    return tuple(items)


def _new_draft(
    file: TemplateFile,
    template: Template,
    chance: np.random.Generator,
    facts: Mapping[int, MomentFacts],
    instructions: set[str],
) -> tuple[ItemDraft, int]:
    """Draw until the instruction is new and the expected calls find something. Return the draft and
    its point in time.
    """
    moments = sorted(facts)
    for _ in range(_TRIES):
        as_of_ns = moments[int(chance.integers(len(moments)))]
        draft = file.draft(template, chance, facts[as_of_ns])
        if draft.instruction not in instructions and _finds_something(draft, facts[as_of_ns]):
            instructions.add(draft.instruction)
            return draft, as_of_ns

    raise DataError(
        f"template {template.name}: gives no new instruction in {_TRIES} tries; give it a smaller"
        " weight"
    )


def _finds_something(draft: ItemDraft, facts: MomentFacts) -> bool:
    """Return whether the answer to each expected call has contents, unless it may be empty."""
    if draft.setup:
        # These calls read orders placed by the setup, so nothing depends on the market.
        return True

    workspace = Workspace(facts.dataset, facts.as_of_ns)
    answers = run_calls(workspace, [step.call for step in draft.steps])
    for step, answer in zip(draft.steps, answers, strict=True):
        if is_empty(answer) and not step.may_be_empty:
            return False

    return True


def _draw_moments(dataset: Dataset, seed: int) -> Sequence[int]:
    """Draw points in time shortly after closes, with enough minute bars before and after them."""
    hours = trading_hours()
    info = dataset.info
    if not np.array_equal(info.hours.close_ns, hours.close_ns):
        raise DataError(
            "the benchmark is about sessions in New York (XNYS); the dataset's are those of"
            f" {info.calendar}"
        )

    first = int(np.searchsorted(hours.days, np.datetime64(info.minute_first_day, "D")))
    last = int(np.searchsorted(hours.days, np.datetime64(info.minute_last_day, "D")))
    rows = range(first + _MARGIN_BEFORE, last - _MARGIN_AFTER)
    if len(rows) < _MOMENTS:
        raise DataError("the benchmark needs a dataset with at least six weeks of minute bars")

    rng = np.random.default_rng(seed)
    chosen = rng.choice(list(rows), _MOMENTS, replace=False)
    moments: list[int] = []
    for row in sorted(chosen.tolist()):
        minutes = int(rng.choice(_AFTER_CLOSE))
        moments.append(int(hours.close_ns[row]) + minutes * MINUTE)

    return moments
