"""ktdeval from Python. `evaluate` does what `ktdeval run` does; records and cards are available as
data frames.
"""

from __future__ import annotations

import os
import secrets
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.card_list import Cards
from ktdeval.cards.card_reading import load_card
from ktdeval.cli.cards.card_frames import card_frame, figure_frame
from ktdeval.cli.cards.performance_frames import (
    benchmark_returns,
    daily_returns,
    position_values,
    transactions,
)
from ktdeval.cli.help.option_descriptions import described_options
from ktdeval.cli.run import check_finished, run_shown
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness.chat_messages import Model, ModelRequest, Reply, ToolCall
from ktdeval.harness.tools.tool_protocols import decode
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.registry.plugin_registry import Plugins, load_plugins
from ktdeval.runner.execution.run import DEFAULT_RUNS_FOLDER
from ktdeval.runner.plans.config import RunConfig, load_config, names_in
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_locator import local_run_path
from ktdeval.runner.scoring.score import open_recorded_snapshot, open_run
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.trading.ledger import Ledger, OrderRecord
from ktdeval.values.documents.strict_json import loads_strict
from ktdeval.values.options.config_options import near_matches, shown_path

#: model given as a function, which takes the whole conversation and returns a reply or its text
Replies = Callable[[ModelRequest], Reply | str]
_EPISODE = ["task", "window", "seed"]
_STEP_FIELDS = ("step", "decided_on", "filled_on", "provenance")
_USE_FIELDS = ("tool_calls", "input_tokens", "output_tokens")
_ORDER_FIELDS = (
    "code",
    "side",
    "confidence",
    "target_weight",
    "shares",
    "status",
    "rule",
    "filled_shares",
    "reason",
)
#: method that objects of each kind must have, and a description of the kind
_EXPECTED = {
    "tasks": ("spec", "a name or a task with spec(), as a QATask"),
    "metrics": ("compute", "a name or a decorated metric"),
}


def evaluate(
    model: str | Model | Replies, tasks: str | object | Sequence[str | object], **options: Any
) -> Evaluation:
    """Evaluate a model on tasks and return the run, once all its episodes are finished.

        `model`: a name as on the command line, an object with `reply(request)`, or a function of a
        `ModelRequest` that returns a `Reply` or its text; the latter two are called `python/NAME`.
        `tasks`: names, groups, globs, YAML files, or objects such as a `QATask`. `options`: those of
        `ktdeval run`, listed below, such as `windows="W1,W4"`, `seeds=3`, `out="runs/first"`;
        `metrics` takes `@metric` functions too. A model given as an object gets a new folder each time
        unless `out` names one, because nothing shows whether it is the same as before. Raises
        KtdevalError for a bad option (UsageError, ConfigError) or an episode that did not finish
        (EpisodeFailure; finished episodes are in the run folder, see `load_run`).

        Options:
    OPTIONS

    Example:
            run = ktdeval.evaluate(Parrot(), task, out="runs/first", quiet=True)
            run.metrics()["value"]
    """
    objects = _ObjectPlugin()
    name = objects.model_name(model)
    given = {option: _as_text(value) for option, value in options.items() if value is not None}
    given["model"] = name
    given["tasks"] = objects.names_of("tasks", tasks)
    if "metrics" in given:
        given["metrics"] = objects.names_of("metrics", given["metrics"])

    if not isinstance(model, str) and "out" not in given:
        folder_name = f"{name.replace('/', '-')}-{secrets.token_hex(4)}"
        given["out"] = str(Path(DEFAULT_RUNS_FOLDER) / folder_name)

    for option in ("windows", "plugin"):
        if option in given:
            given[option] = tuple(_option_values(given[option], option))

    config = load_config(None, given)
    plugins = load_plugins(config.plugin)
    plugins.add(objects, "evaluate")
    result = run_shown(config, plugins)
    check_finished(result)

    return Evaluation(result.folder, plugins)


_with_options = textwrap.indent(described_options(RunConfig, without=("model", "tasks")), " " * 8)
evaluate.__doc__ = (evaluate.__doc__ or "").replace("OPTIONS", _with_options)


def load_run(folder: str | Path) -> Evaluation:
    """Open a run folder, complete or not, at a path or a URL.

    Raises StoreError if no run is found. Raises UsageError if `folder` is not a path.

    Example:
        ktdeval.load_run("runs/first").typed_cards[0].model.name  # python/Parrot
    """
    plugins = load_plugins()
    return Evaluation(open_run(local_run_path(folder).absolute(), plugins).path, plugins)


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Run with its decisions, their outcomes and its cards. Records are read-only.

    Every method returns a table. Tables identify episodes by `task`, `window` and `seed`. Money is
    in units of the ledger's currency.

    Example:
        run = ktdeval.load_run("runs/first")
        run.metrics().loc[("sums", "right"), "value"]  # 1.0
    """

    folder: Path
    _plugins: Plugins = field(repr=False)

    def __repr__(self) -> str:
        cards = ", ".join(f"{card.task.name} by {card.model.name}" for card in self.typed_cards)
        return f"<Evaluation {shown_path(self.folder)}: {cards}>"

    @cached_property
    def typed_cards(self) -> Cards:
        """Cards as typed values. A notebook shows them as a table; `card.plain` is a card's
        JSON.
        """
        files = sorted((self.folder / "cards").glob("*.json"))
        if not files:
            raise StoreError(
                f"{self.folder}: no episode is finished yet, so there are no cards; run it again to"
                " resume"
            )
        cards = [load_card(file) for file in files]
        return Cards(card for card in cards if isinstance(card, (TradingCard, ScoringCard)))

    def cards(self) -> pd.DataFrame:
        """Return one row per card, sorted by task.

        Columns: model, agent, windows, finished episodes, fraction of steps that the model decided,
        whether the card may be ranked and the reasons why not, labels, and the headline figures.
        """
        return card_frame(self.typed_cards)

    def metrics(self) -> pd.DataFrame:
        """Return one row per task and metric (or score), with the value over all episodes, its
        interval or range, n, and unit.

        `bounds` is the kind of range between `low` and `high`: `interquartile` means quartiles over
        episodes, anything else a 95 % interval. `reason` explains why a value is missing.
        """
        return figure_frame(self.typed_cards)

    def episodes(self) -> pd.DataFrame:
        """Return one row per finished episode of a trading task, with one column per metric."""
        keys = []
        rows = []
        for card in self.typed_cards:
            if not isinstance(card, TradingCard):
                continue

            for episode in card.episodes:
                keys.append((card.task.name, episode.window, episode.seed))
                rows.append({name: metric.value for name, metric in episode.metrics.items()})

        index = pd.MultiIndex.from_tuples(keys, names=_EPISODE)
        return pd.DataFrame(rows, index=index)

    def ledger(self, **episode: str | int) -> pd.DataFrame:
        """Return one row per step, for all episodes or for those selected by `task=`, `window=` and
        `seed=`.

        Columns: days, provenance of the decision, NAV, cash, holdings, and the numbers of orders,
        rejections, positions, tool calls and tokens.
        """
        rows = []
        for spec, ledger in self._ledgers(episode):
            for step in ledger.steps:
                row = _episode_columns(spec) | _fields_of(step, _STEP_FIELDS)
                for name in ("nav", "cash", "holdings"):
                    row[name] = getattr(step, f"{name}_minor") / ledger.minor_per_unit

                row["orders"] = len(step.orders)
                row["rejected"] = sum(order.status == "rejected" for order in step.orders)
                row["positions"] = len(step.positions)
                rows.append(row | _fields_of(step, _USE_FIELDS))

        return _parse_dates(pd.DataFrame(rows), "decided_on", "filled_on")

    def orders(self, **episode: str | int) -> pd.DataFrame:
        """Return one row per order, with true identities: what was ordered, and the outcome.

        Covers all episodes, or those selected by `task=`, `window=` and `seed=`.
        """
        rows = []
        for spec, ledger in self._ledgers(episode):
            for step in ledger.steps:
                for order in step.orders:
                    row = _episode_columns(spec)
                    row["filled_on"] = step.filled_on
                    row |= _order_row(order, ledger)
                    rows.append(row)

        return _parse_dates(pd.DataFrame(rows), "filled_on")

    def equity(self, *, benchmark: bool = False, **episode: str | int) -> pd.DataFrame:
        """Return [days x episodes] NAV divided by the initial cash, starting with the base day.

        Columns are (task, window, seed). If `benchmark` is true, opens the market and adds a column
        for each window (seed `benchmark`), with the same cash invested in the benchmark index.
        Raises UsageError if the market has no index.
        """
        series: dict[tuple[str, str, int | str], pd.Series[float]] = {}
        market = self._indexed_market("leave out benchmark=True") if benchmark else None

        for spec, ledger in self._ledgers(episode):
            days = [ledger.base_day, *ledger.days]
            index = pd.DatetimeIndex(days)
            growth = ledger.nav / ledger.nav[0]
            series[spec.task, spec.span.name, spec.seed] = pd.Series(growth, index=index)
            if market is not None:
                levels = market.benchmark[[market.day_index(day) for day in days]]
                growth = levels / levels[0]
                series[spec.task, spec.span.name, "benchmark"] = pd.Series(growth, index=index)

        frame = pd.DataFrame(series).sort_index()
        frame.columns = pd.MultiIndex.from_tuples(series, names=_EPISODE)
        return frame.rename_axis("day")

    def returns(self, **episode: str | int) -> pd.Series[float] | pd.DataFrame:
        """Return daily returns of the NAV, in the form expected by quantstats, pyfolio and
        empyrical.

        For one episode, this is a series. For several, it is a frame with columns (task, window,
        seed). Each return is dated by the day at whose close it ends. The first return is relative
        to the initial cash, so that the returns compound to `equity`. `task=`, `window=` and
        `seed=` select episodes.

        Example:
            quantstats.stats.sharpe(run.returns(window="W4", seed=0))
        """
        return _one_or_all(
            {_episode_key(spec): daily_returns(ledger) for spec, ledger in self._ledgers(episode)}
        )

    def benchmark_returns(self, **episode: str | int) -> pd.Series[float] | pd.DataFrame:
        """Return daily returns of the benchmark index, on the same days and in the same form as
        `returns`.

        This opens the market. Raises UsageError if the market has no index.
        """
        market = self._indexed_market("use only returns()")
        series = {}
        for spec, ledger in self._ledgers(episode):
            series[_episode_key(spec)] = benchmark_returns(ledger, market)

        return _one_or_all(series)

    def positions(self, **episode: str | int) -> pd.DataFrame:
        """Return the value of each holding and of the cash at each close of one episode, in
        pyfolio's form.

        The shape is [days x codes and `cash`]. Values are in currency units, with true identities.
        Short positions are negative. Raises UsageError unless `task=`, `window=` and `seed=` select
        exactly one episode.
        """
        return position_values(self._one_ledger(episode))

    def transactions(self, **episode: str | int) -> pd.DataFrame:
        """Return one row per fill of one episode, indexed by day, in pyfolio's form.

        Columns: symbol, amount (negative for sales), price, and commission. Raises UsageError as
        `positions` does.
        """
        return transactions(self._one_ledger(episode))

    @cached_property
    def _market(self) -> MarketSnapshot:
        return open_recorded_snapshot(RunFolder.load(self.folder), self._plugins, {})

    def _indexed_market(self, advice: str) -> MarketSnapshot:
        """Return the market. If it has no index, raises UsageError with the given advice."""
        market = self._market
        if not market.meta.benchmark:
            raise UsageError(
                f"{self.folder}: market {market.meta.name} has no index to compare the NAV with;"
                f" {advice}"
            )
        return market

    def _one_ledger(self, chosen: dict[str, str | int]) -> Ledger:
        """Return the ledger of the single selected episode."""
        found = list(self._ledgers(chosen))
        if len(found) > 1:
            first = found[0][0]
            raise UsageError(
                f"{self.folder}: {len(found)} episodes; choose one, such as task={first.task!r},"
                f" window={first.window_name!r}, seed={first.seed}"
            )
        return found[0][1]

    def _ledgers(self, chosen: dict[str, str | int]) -> Iterator[tuple[EpisodeSpec, Ledger]]:
        """Yield the selected finished trading episodes, with their ledgers."""
        for name in chosen:
            if name not in _EPISODE:
                raise UsageError(
                    f"an episode is selected by {', '.join(_EPISODE)}, not by {name!r}"
                )

        run = RunFolder.load(self.folder)
        trading = {card.task.name for card in self.typed_cards if isinstance(card, TradingCard)}
        any_match = False
        for spec in run.manifest.specs:
            if spec.task not in trading or not run.is_complete(spec):
                continue

            if chosen.items() <= _episode_columns(spec).items():
                any_match = True
                yield spec, run.load_ledger(spec)

        if not any_match:
            selection = ", ".join(f"{name}={value!r}" for name, value in chosen.items())
            raise UsageError(
                f"{self.folder}: no finished episode with {selection or 'a trading task'}"
            )


def _episode_key(spec: EpisodeSpec) -> tuple[str, str, int]:
    return spec.task, spec.span.name, spec.seed


def _one_or_all(
    series: Mapping[tuple[str, str, int], pd.Series[float]],
) -> pd.Series[float] | pd.DataFrame:
    """Return the series of a single episode, named after the episode, or a frame with one column
    per episode.
    """
    if len(series) == 1:
        ((key, only),) = series.items()
        return only.rename(" ".join(map(str, key)))

    frame = pd.DataFrame(series).sort_index()
    frame.columns = pd.MultiIndex.from_tuples(series, names=_EPISODE)
    return frame.rename_axis("day")


def _order_row(order: OrderRecord, ledger: Ledger) -> dict[str, Any]:
    """Return the columns for an order, with quantity steps converted to units and minor units to
    money.
    """
    row = _fields_of(order, _ORDER_FIELDS)
    steps_per_unit = ledger.scale(order.code).steps_per_unit
    if steps_per_unit > 1:
        for name in ("shares", "filled_shares"):
            if row[name] is not None:
                row[name] /= steps_per_unit

    row["notional"] = order.notional_minor / ledger.minor_per_unit
    row["fee"] = order.fee_minor / ledger.minor_per_unit
    return row


def _fields_of(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _episode_columns(spec: EpisodeSpec) -> dict[str, Any]:
    """Return the columns that identify an episode."""
    return {"task": spec.task, "window": spec.window_name, "seed": spec.seed}


def _parse_dates(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Return the frame with those of these columns that exist converted to timestamps."""
    dated = {}
    for column in columns:
        if column in frame:
            dated[column] = pd.to_datetime(frame[column])

    return frame.assign(**dated)


def _option_values(values: Any, where: str) -> list[Any]:
    """Return a list, given one value, several values, or comma-separated names."""
    if isinstance(values, str):
        return list(names_in([values], where))
    if isinstance(values, (list, tuple)):
        return [_as_text(value) for value in values]
    return [values]


def _as_text(value: Any) -> Any:
    """Return a path as a string, and any other value unchanged."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return value


class _ObjectPlugin:
    """Plugin that offers the objects passed to an `evaluate` call."""

    def __init__(self) -> None:
        self._specs: dict[str, list[Any]] = {"models": [], "tasks": [], "metrics": []}

    def model_name(self, model: str | Model | Replies) -> str:
        """Return the name of a model. If the model is an object, it is offered under that name."""
        if isinstance(model, str):
            return model
        if not hasattr(model, "reply") and not callable(model):
            raise UsageError(
                "evaluate: a model must be a name, an object with reply(request) or a function,"
                f" was {type(model).__name__}"
            )

        own_name = getattr(model, "__name__", type(model).__name__)
        name = f"python/{own_name.replace('<lambda>', 'function')}"
        instance = model if hasattr(model, "reply") else _FunctionModel(model)
        self._specs["models"].append(Spec(name, lambda _name: instance, "given to evaluate"))
        return name

    def names_of(self, kind: str, values: Any) -> tuple[str, ...]:
        """Return the names of tasks or metrics. Objects among them are offered under their
        names.
        """
        method, expected = _EXPECTED[kind]
        names = []
        for value in _option_values(values, kind):
            if isinstance(value, str):
                names.append(value)
                continue

            if not hasattr(value, method):
                found = type(value).__name__
                raise UsageError(f"evaluate: {kind}: each must be {expected}, was {found}")

            self._specs[kind].append(value.spec() if kind == "tasks" else value)
            names.append(value.name)

        return tuple(names)

    @hookimpl
    def ktdeval_models(self) -> list[Spec]:
        """Return the model, if it was given as an object."""
        return self._specs["models"]

    @hookimpl
    def ktdeval_tasks(self) -> list[Spec]:
        """Return the tasks that were given as objects."""
        return self._specs["tasks"]

    @hookimpl
    def ktdeval_metrics(self) -> list[Any]:
        """Return the metrics that were given as objects."""
        return self._specs["metrics"]


class _FunctionModel:
    """Model whose replies come from a Python function, either as a `Reply` or as text."""

    def __init__(self, function: Replies) -> None:
        self._function = function

    def reply(self, request: ModelRequest) -> Reply:
        """Call the function. If it returns text, tool calls in the text are parsed as for models
        without native tool calling.
        """
        reply = self._function(request)
        if not isinstance(reply, str):
            return reply

        as_text = replace(request, params=replace(request.params, tool_protocol="text"))
        read = decode(Reply(reply), as_text)
        forced = request.tool_choice
        if not forced or read.tool_calls or not _is_json_object(reply):
            return read

        # If only one tool may be called, a bare JSON object can only be its arguments.
        return Reply(tool_calls=(ToolCall("", forced, reply),), finish_reason="tool_calls")


def _is_json_object(text: str) -> bool:
    """Return whether the text consists of exactly one JSON object."""
    try:
        return isinstance(loads_strict(text), dict)
    except ValueError:
        return False


def command_function(name: str) -> Callable[..., Any]:
    """Return the Python function for a command, such as `ktdeval.compare`.

    The `extra` mapping of the command's `Spec` declares its functions. `function` creates the main
    function, and `function_name` is its name, if that isn't the command's name. `more_functions`
    creates additional functions, by name. Raises AttributeError if no command has a function with
    this name.
    """
    makers = _function_makers()
    if name not in makers:
        near = near_matches(name, [*makers, "evaluate", "load_run", "Evaluation"])
        raise AttributeError(f"ktdeval has no name {name!r}{near}")

    return makers[name]()


def command_function_names() -> list[str]:
    """Return the names of all command functions, in alphabetical order."""
    return sorted(_function_makers())


def _function_makers() -> dict[str, Callable[[], Callable[..., Any]]]:
    makers: dict[str, Callable[[], Callable[..., Any]]] = {}
    for command, spec in load_plugins().specs("commands").items():
        if "function" in spec.extra:
            own = spec.extra.get("function_name", command)
            makers[own] = spec.extra["function"]

        makers |= spec.extra.get("more_functions", {})

    return makers
