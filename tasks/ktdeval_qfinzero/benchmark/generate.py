"""Items of the benchmark: templates at seeded moments of a dataset. Equal arguments give equal items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ktdeval.errors import DataError
from ktdeval.seeds import derive_seed
from ktdeval_qfinzero.benchmark.facts import Facts
from ktdeval_qfinzero.benchmark.items import Draft, Item, Kind, Place, item_of
from ktdeval_qfinzero.benchmark.templates import Template, TemplateFile, load_templates
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.stores import Dataset
from ktdeval_qfinzero.moments import MINUTE
from ktdeval_qfinzero.scoring.types import Suite
from ktdeval_qfinzero.trading_hours import trading_hours

_PREFIX: dict[Suite, str] = {"calling": "qc", "planning": "qp"}
_MOMENTS = 16
_MARGIN_BEFORE, _MARGIN_AFTER = 10, 2
_AFTER_CLOSE = (0, 30, 60)
_TRIES = 20


def make_items(dataset: Dataset, suite: Suite, seed: int) -> tuple[Item, ...]:
    """Items of a suite, in a fixed order that has nothing to do with their kind. `dataset`: where prices, contracts and events come
    from; it needs some weeks of minute bars and of options; `suite`: `calling` or `planning`; `seed`: another seed, other items.
    Raises DataError: the dataset is too small, or gives no new instruction for a template.
    """
    moments = _moments(dataset, derive_seed(seed, suite, "moments"))
    facts = {ns: Facts(dataset, ns) for ns in moments}
    drafts: list[tuple[Kind, Draft, int]] = []
    told: set[str] = set()
    for file in load_templates(suite):
        for template in file.templates:
            kind = Kind(template.name, template.category, template.difficulty)
            for number in range(template.weight):
                chance = np.random.default_rng(derive_seed(seed, suite, template.name, number))
                drafts.append((kind, *_new_draft(file, template, chance, facts, told)))
    order = np.random.default_rng(derive_seed(seed, suite, "order")).permutation(len(drafts))
    items = []
    for number, chosen in enumerate(order, 1):
        kind, draft, as_of_ns = drafts[chosen]
        items.append(item_of(draft, kind, Place(suite, f"{_PREFIX[suite]}-{number:04d}", as_of_ns), catalogue()))
    return tuple(items)


def _new_draft(
    file: TemplateFile, template: Template, chance: np.random.Generator, facts: Mapping[int, Facts], told: set[str]
) -> tuple[Draft, int]:
    """Make a draft whose instruction no other item has, and return it with its moment."""
    moments = sorted(facts)
    for _ in range(_TRIES):
        as_of_ns = moments[int(chance.integers(len(moments)))]
        draft = file.draft(template, chance, facts[as_of_ns])
        if draft.instruction not in told:
            told.add(draft.instruction)
            return draft, as_of_ns
    raise DataError(f"template {template.name}: gives no new instruction in {_TRIES} tries; give it a smaller weight")


def _moments(dataset: Dataset, seed: int) -> Sequence[int]:
    """Moments shortly after closes, with days of minute bars before them and trading days after them."""
    hours, info = trading_hours(), dataset.info
    first, last = (
        int(np.searchsorted(hours.days, np.datetime64(day, "D"))) for day in (info.minute_first_day, info.minute_last_day)
    )
    rows = range(first + _MARGIN_BEFORE, last - _MARGIN_AFTER)
    if len(rows) < _MOMENTS:
        raise DataError("the benchmark needs a dataset with at least six weeks of minute bars")
    rng = np.random.default_rng(seed)
    chosen = sorted(int(row) for row in rng.choice(list(rows), _MOMENTS, replace=False))
    return [int(hours.close_ns[row]) + int(rng.choice(_AFTER_CLOSE)) * MINUTE for row in chosen]
