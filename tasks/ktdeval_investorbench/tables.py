"""InvestorBench's tables from the user's cards: models, model classes as a percentage of Buy &
Hold, and tests of daily rewards.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from ktdeval.cards import clean
from ktdeval.errors import CardError, UsageError
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.runner import (
    RunFolder,
    load_ledger,
    open_recorded_snapshot,
    run_file,
    run_of,
)
from ktdeval.stats import holm, signed_rank
from ktdeval.values import build, file_sha256, load_yaml, near_matches
from ktdeval_investorbench.epochs_from_cards import (
    FIGURES,
    EpochCard,
    Median,
    SystemEpochs,
    read_epochs,
)
from ktdeval_investorbench.figures import daily_returns

if TYPE_CHECKING:
    import pandas as pd

    from ktdeval.registry import PaperTable, TableChoices

Type = Literal["financial_domain", "proprietary", "open_source", "no_language_model"]
TYPES = (*get_args(Type), "unclassified")  #: in table order
# matches neither the 22 in A22B nor the 7 in 8x7b
_STATED = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d{1,2})?)b(?![a-z0-9])")

Row = dict[str, Any]
#: size classes, with their upper bounds in billions of parameters
SIZES = {"<= 10B": 10.0, "10B-65B": 65.0, "> 65B": float("inf"), "unknown": float("nan")}
#: number of epochs in the paper, and the Holm-adjusted p-value at or below which one of two models
#: is called better
EPOCHS = 5
LEVEL = 0.05
#: Buy & Hold mean (a fraction, or a Sharpe ratio) at or below which a percentage of it is
#: meaningless
LEAST = 0.001
BUY_AND_HOLD = "builtin/buy_and_hold"
_HELD = "buy_and_hold"


@dataclass(frozen=True)
class ModelClasses:
    """Globs for lower-case model names, matched against the whole name or the part after the last
    slash. They are grouped by type, and by billions of parameters if known.
    """

    types: dict[Type, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, float] = field(default_factory=dict)


def read_classes(options: Sequence[str]) -> list[ModelClasses]:
    """Return the classes from the `--class` options in order of precedence: first
    `MODEL=TYPE[:BILLIONS]`, then files, and last the built-in classes. Raises UsageError or
    ConfigError if an option is invalid.
    """
    from_options: dict[str, dict[str, Any]] = {"types": {}, "sizes": {}}
    files = [Path(text) for text in options if "=" not in text]
    for text in options:
        if "=" not in text:
            continue

        match = re.fullmatch(r"([^=]+)=([^:]+)(?::(\d+(?:\.\d+)?)[bB]?)?", text)
        if match is None:
            raise UsageError(
                f"--class {text!r}: expected MODEL=TYPE or MODEL=TYPE:BILLIONS, such as"
                " my-model=open_source:70, or a YAML file"
            )

        model, kind, billions = match.groups()
        from_options["types"].setdefault(kind, []).append(model)
        if billions:
            from_options["sizes"][model] = float(billions)

    classes = [build(ModelClasses, from_options, "--class")]
    for path in files:
        classes.append(build(ModelClasses, load_yaml(path), str(path)))

    shipped = Path(__file__).with_name("classes.yaml")
    classes.append(build(ModelClasses, load_yaml(shipped), str(shipped)))
    for each in classes:
        for name, size in each.sizes.items():
            if size <= 0:
                raise UsageError(
                    f"size of {name}: expected billions of parameters above 0, such as 70"
                )

    return classes


def classify(model: str, classes: Sequence[ModelClasses]) -> tuple[str, float | None]:
    """Return a model's type (one of `TYPES`) and billions of parameters (or None), from a name such
    as `openai/gpt-4o`.
    """
    return _type_of(model, classes), _billions_of(model, classes)


def _type_of(model: str, classes: Sequence[ModelClasses]) -> str:
    for each in classes:
        for kind, patterns in each.types.items():
            if any(_is_pattern_match(model, pattern) for pattern in patterns):
                return kind

    return "unclassified"


def _billions_of(model: str, classes: Sequence[ModelClasses]) -> float | None:
    """Return the billions of parameters as listed in the classes, else as stated in the model's
    name.
    """
    for each in classes:
        for pattern, size in each.sizes.items():
            if _is_pattern_match(model, pattern):
                return size

    stated = {float(text) for text in _STATED.findall(_last_part(model))}
    if len(stated) == 1:
        return stated.pop()
    return None


def _last_part(model: str) -> str:
    return model.lower().rpartition("/")[2]


def _is_pattern_match(model: str, pattern: str) -> bool:
    """Return whether a glob matches a model's whole name or the part after its last slash."""
    glob = pattern.lower()
    return fnmatchcase(model.lower(), glob) or fnmatchcase(_last_part(model), glob)


def check_named(classes: ModelClasses, models: Iterable[str]) -> None:
    """Raise UsageError if a `--class` matches no model on the cards. The message gives the
    unmatched class and the available models.
    """
    known = list(dict.fromkeys(models))
    for pattern in itertools.chain.from_iterable(classes.types.values()):
        if not any(_is_pattern_match(model, pattern) for model in known):
            raise UsageError(
                f"--class {pattern}: matches no model; available: "
                f"{', '.join(known)}{near_matches(pattern, known)}"
            )


def model_rows(
    groups: Sequence[SystemEpochs], rule: Median, classes: Sequence[ModelClasses]
) -> list[Row]:
    """Return one row per task, window and system: Buy & Hold first, then models by type, largest
    first.

    Raises CardError if two systems are Buy & Hold.
    """
    order = (_HELD, *TYPES)
    rows = [_model_row(group, rule, classes) for group in groups]
    held = Counter((row["task"], row["window"]) for row in rows if row["type"] == _HELD)

    for (task, window), count in held.items():
        if count > 1:
            raise CardError(
                f"{task}, window {window}: two systems are Buy & Hold; percentages refer to one, "
                "so give only one of them"
            )

    def place(row: Row) -> tuple[Any, ...]:
        type_index = order.index(row["type"])
        return row["task"], row["window"], type_index, -(row["billions"] or 0), row["model"]

    return sorted(rows, key=place)


def _model_row(group: SystemEpochs, rule: Median, classes: Sequence[ModelClasses]) -> Row:
    model = group.system.model
    episodes = [epoch.episode for epoch in group.choose_epochs(rule)]
    kind, billions = classify(model, classes)
    if model == BUY_AND_HOLD:
        kind, billions = _HELD, None

    figures: dict[str, float | None] = {}
    reasons = []
    for name in FIGURES:
        value = group.figure(name, rule)
        if isinstance(value, str):
            reasons.append(f"{name} is not defined: {value}")
            figures[name] = None
        else:
            figures[name] = value

    remarks = []
    if len(group.members) < EPOCHS and kind != _HELD:
        remarks.append(f"fewer than {EPOCHS} epochs")

    bare = sum(epoch.episode.metrics["ib_sharpe"].value is None for epoch in group.members)
    if bare:
        remarks.append(f"{bare} without SR")

    decisions = [episode.decisions for episode in episodes]
    return {
        "task": group.task,
        "window": group.window,
        "model": group.label,
        "type": kind,
        "size": _size_class(billions),
        "billions": billions,
        "epochs": len(group.members),
        "seeds": [episode.seed for episode in episodes],
        "decisions": sum(episode.steps for episode in episodes),
        "own": sum(made.by_model for made in decisions),
        **figures,
        "reasons": "; ".join(reasons),
        "remark": "; ".join(remarks),
    }


def _size_class(billions: float | None) -> str:
    """Return the size class for billions of parameters."""
    if billions is None:
        return "unknown"
    return next(name for name, most in SIZES.items() if billions <= most)


def class_rows(rows: Sequence[Row], by: str) -> list[Row]:
    """Return one row per class of the models in `model_rows`: by `type`, or by `size` for
    open-source models only.

    Figures are means as a percentage of the Buy & Hold mean on the same assets. They are null with
    a reason if a row lacks the figure, or if the Buy & Hold mean is close to 0 or negative.
    """
    held = {(row["task"], row["window"]): row for row in rows if row["type"] == _HELD}
    models = list(rows)
    names: Iterable[str] = TYPES
    if by == "size":
        models = [row for row in rows if row["type"] == "open_source"]
        names = SIZES

    of_classes = []
    for name in names:
        members = [row for row in models if row[by] == name]
        if members:
            of_classes.append(_class_row(name, members, held))

    return of_classes


def _class_row(name: str, members: Sequence[Row], held: Mapping[tuple[str, str], Row]) -> Row:
    row: Row = {
        "class": name,
        "models": len({each["model"] for each in members}),
        "rows": len(members),
        **dict.fromkeys(FIGURES),
    }
    reasons = []
    for figure in FIGURES:
        values: list[float] = []
        held_values: list[float] = []
        for each in members:
            of_held = held.get((each["task"], each["window"]), {}).get(figure)
            if each[figure] is not None and of_held is not None:
                values.append(each[figure])
                held_values.append(of_held)

        lacking = len(members) - len(values)
        # The leading 0 fixes the order in which numpy sums, and thus the last bits.
        value = float(np.sum([0.0, *values])) / len(members)
        hold = float(np.sum([0.0, *held_values])) / len(members)

        if lacking:
            reasons.append(
                f"{figure} is not defined: {lacking} of {len(members)} rows lack it or Buy & Hold's"
            )
        elif hold <= LEAST:
            reasons.append(
                f"{figure} is not defined: a percentage of Buy & Hold's {hold:.3g} is meaningless"
            )
        else:
            row[figure] = 100.0 * value / hold

    return row | {"reasons": "; ".join(reasons)}


def notes(rows: Sequence[Row], shown: Sequence[Row]) -> Iterator[str]:
    """Yield caveats about the table `shown`, which is made from `rows`."""
    asked = {(row["task"], row["window"]) for row in rows}
    held = {(row["task"], row["window"]) for row in rows if row["type"] == _HELD}
    for task, window in sorted(asked - held):
        yield (
            f"no Buy & Hold on {task}, window {window}: give a card made with --model "
            f"{BUY_AND_HOLD}"
            f" --tasks {task}"
        )

    lost = sum(row["decisions"] - row["own"] for row in rows)
    if lost:
        yield (
            f"{lost} decisions were not made by the model: its reply failed, and the position was "
            "kept"
        )

    for row in shown:
        if not row.get("reasons"):
            continue

        subject = row.get("class")
        if not subject:  # a row for a model, not a class
            subject = f"{row['model']} on {row['task']}"
        yield f"{subject}: {row['reasons']}"

    unknown = sorted({row["model"] for row in rows if row["type"] == "unclassified"})
    if unknown:
        yield (
            f"unclassified: {', '.join(unknown)}; name their class with --class MODEL=TYPE:BILLIONS"
            " or --class FILE"
        )


def wilcoxon_rows(
    groups: Sequence[SystemEpochs], rule: Median, market_of: Callable[[Path], MarketSnapshot]
) -> list[Row]:
    """Return one row per task, window and pair of models, with a Wilcoxon signed-rank test of the
    paired differences in daily rewards. The p-values are Holm-adjusted over all rows.

    A reward is a day's log return in `ib_cumulative_return`, averaged over the epochs that `rule`
    chooses. Raises CardError if a task and window have only one model, or if a ledger is missing or
    does not match its card.
    """
    rows: list[Row] = []
    markets: dict[str, MarketSnapshot] = {}
    # groups are sorted by task and window (`read_epochs`)
    by_window = itertools.groupby(groups, key=lambda one: (one.task, one.window))
    for (task, window), members in by_window:
        rewards: dict[str, FloatArray] = {}
        for group in members:
            of_epochs = [_rewards(epoch, market_of, markets) for epoch in group.choose_epochs(rule)]
            rewards[group.label] = np.mean(of_epochs, axis=0)

        if len(rewards) < 2:
            raise CardError(
                f"{task}, window {window}: {next(iter(rewards))} is the only model; a test needs "
                "two models on the same task and window"
            )

        for one, second in itertools.combinations(rewards, 2):
            pair = {"task": task, "window": window, "first": one, "second": second}
            tested = _signed_rank_row(rewards[one] - rewards[second])
            rows.append(pair | tested)

    adjusted = holm([row["p"] for row in rows])
    for row, p in zip(rows, adjusted, strict=True):
        row["p_holm"] = p
        row["verdict"] = "tied"
        if p is not None and p <= LEVEL:
            better = row["second"]
            if (row["rank_biserial"] or 0) > 0:
                better = row["first"]
            row["verdict"] = f"{better} better"

    return rows


def _signed_rank_row(differences: FloatArray) -> Row:
    defined = differences[np.isfinite(differences)]
    defined[np.abs(defined) < 1e-7] = 0.0  # NAVs are whole cents and quantities are rounded
    test = signed_rank(defined)
    centred = defined - defined.mean()
    lag_1 = None  # the differences are all equal
    if centred.any():
        lag_1 = float(centred[1:] @ centred[:-1] / (centred @ centred))

    return {
        "days": test.n,
        "differing": test.n_nonzero,
        "cumulative": float(defined.sum()),
        "rank_biserial": test.rank_biserial,
        "autocorrelation": lag_1,
        "p": test.p,
    }


def _rewards(
    epoch: EpochCard,
    market_of: Callable[[Path], MarketSnapshot],
    markets: dict[str, MarketSnapshot],
) -> FloatArray:
    """Return an epoch's [days] rewards, NaN on days without a price.

    `markets`: the markets opened so far, keyed by id.
    """
    name = f"episodes/{epoch.episode.id}/ledger.parquet"
    run = run_of(epoch.path)
    ledger = run_file(run, name)
    if not ledger.is_file() or file_sha256(ledger) != epoch.card.artefacts.get(name):
        raise CardError(
            f"{epoch.path}: {name}, the ledger behind the card, is not next to it; give the run "
            "folder"
        )

    snapshot_id = epoch.card.snapshot.id
    if snapshot_id not in markets:
        markets[snapshot_id] = market_of(run)

    misfit = (
        f"{epoch.path}: {name} does not reproduce the card's cumulative return; score the run again"
    )
    returns = daily_returns(load_ledger(ledger), markets[snapshot_id], epoch.card.rules)
    cumulative = epoch.episode.metrics[FIGURES[0]].value
    if isinstance(returns, str) or cumulative is None:  # a string says why returns are missing
        raise CardError(misfit)

    rewards = returns[0]
    if abs(float(np.nansum(rewards)) - cumulative) > 1e-9:
        raise CardError(misfit)
    return rewards


# ---- the tables


def table_frame(paths: Sequence[Path], table: PaperTable, choices: TableChoices) -> pd.DataFrame:
    """Return the rows of a table of models, of model types or sizes, or of tests, as its setting
    `show` says.

    An epoch is a seed. Buy & Hold is the card of `builtin/buy_and_hold`. Tests need run folders.
    Raises UsageError or CardError if the table can't be made from the cards.
    """
    import pandas as pd  # imported here, so that plugins load quickly

    show = table.settings["show"]
    rule = choices.median
    groups = read_epochs(paths, choices.rules)
    known = read_classes(choices.classes)
    check_named(known[0], (group.system.model for group in groups))
    rows = model_rows(groups, rule, known)
    shown = rows

    if show == "tests":
        where = {"data": choices.data} if choices.data else {}

        def market_of(run: Path) -> MarketSnapshot:
            return open_recorded_snapshot(RunFolder.load(run), choices.plugins, where)

        shown = wilcoxon_rows(groups, rule, market_of)
    elif show != "models":
        shown = class_rows(rows, show.removesuffix("s"))

    if not shown:
        raise UsageError(
            f"no model belongs in {show} (sizes apply to open-source models); name classes with"
            " --class"
        )

    # With object dtype, counts stay integers even if some are missing.
    frame = pd.DataFrame(shown, dtype=object)
    remarks = [clean(note) for note in notes(rows, shown)]
    frame.attrs["notes"] = (_title(groups, rule), *remarks, *table.notes)
    return frame


def _title(groups: Sequence[SystemEpochs], rule: Median) -> str:
    """Return a table's title: its rule set and all labels on its cards."""
    labels: set[str] = set()
    for group in groups:
        for epoch in group.members:
            labels.update(epoch.card.labels)

    rules = groups[0].members[0].card.rules
    return f"by {rules} rules, --median {rule} ({', '.join(sorted(labels))})"
