"""ktdeval from Python: `evaluate` runs what `ktdeval run` runs, and a run's records and cards are data frames."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import pandas as pd

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.check import load_card
from ktdeval.cli.run import check_finished, run_shown
from ktdeval.config import load_config, names_in
from ktdeval.contracts.spec import EpisodeSpec
from ktdeval.errors import StoreError, UsageError
from ktdeval.fields import near_matches, shown_path, user_path
from ktdeval.harness.messages import Model, ModelRequest, Reply
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner.run import DEFAULT_RUNS_FOLDER
from ktdeval.runner.score import open_recorded_snapshot
from ktdeval.runner.store import RunFolder
from ktdeval.trading.ledger import Ledger

Replies = Callable[[ModelRequest], Reply | str]  #: A model as a function: the whole conversation in, a reply or its text out
_EPISODE = ["task", "window", "seed"]
_MONEY = ("nav", "cash", "holdings")


def evaluate(model: str | Model | Replies, tasks: str | object | Sequence[str | object], **options: Any) -> Evaluation:
    """Evaluate a model on tasks and return the run, once all its episodes are finished.

    `model`: a name as on the command line, an object with `reply(request)`, or a function of a `ModelRequest` that returns a
    `Reply` or its text; the latter two are called `python/NAME`. `tasks`: names, groups, globs, YAML files, or objects such as a
    `QATask`. `options`: fields of `RunConfig`, such as `windows="W1,W4"`, `seeds=3`, `out="runs/first"`, `quiet=True`; `metrics`
    takes `@metric` functions too. A model given as an object has a new folder each time unless `out` names one, because nothing
    shows whether it is the same as before. Raises KtdevalError: a bad option (UsageError, ConfigError), an episode that did not
    finish (EpisodeFailure; all that did is in the run folder, see `load_run`).
    """
    objects = _ObjectPlugin()
    name = objects.model_name(model)
    options = {option: _as_text(value) for option, value in options.items() if value is not None}
    options |= {"model": name, "tasks": objects.names_of("tasks", tasks)}
    if "metrics" in options:
        options["metrics"] = objects.names_of("metrics", options["metrics"])
    if not isinstance(model, str):
        options.setdefault("out", str(Path(DEFAULT_RUNS_FOLDER) / f"{name.replace('/', '-')}-{secrets.token_hex(4)}"))
    options |= {option: tuple(_texts(options[option], option)) for option in {"windows", "plugin"} & options.keys()}
    config = load_config(None, options)
    plugins = load_plugins(config.plugin)
    plugins.add(objects, "evaluate")
    result = run_shown(config, plugins)
    check_finished(result)
    return Evaluation(result.folder, plugins)


def load_run(folder: str | Path) -> Evaluation:
    """Open a run folder, complete or not. Raises StoreError: there is no run; UsageError: `folder` is no path."""
    return Evaluation(RunFolder.load(user_path(folder).absolute()).path, load_plugins())


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Run with its decisions, their outcomes and its cards. Records are only read.

    Frames name episodes by `task`, `window` and `seed`; money is in units of the ledger's currency.
    """

    folder: Path
    _plugins: Plugins = field(repr=False)

    def __repr__(self) -> str:
        cards = ", ".join(f"{card.task.name} by {card.model.name}" for card in self.cards)
        return f"<Evaluation {shown_path(self.folder)}: {cards}>"

    @cached_property
    def cards(self) -> tuple[TradingCard | ScoringCard, ...]:
        """The cards, typed; `card.plain` is the JSON."""
        files = sorted((self.folder / "cards").glob("*.json"))
        if not files:
            raise StoreError(f"{self.folder}: no episode is finished yet, so there are no cards; run it again to resume")
        cards = [load_card(file) for file in files]
        return tuple(card for card in cards if isinstance(card, (TradingCard, ScoringCard)))

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row a task and metric (or score): value over all episodes, `low` and `high` with what they bound (`bounds`: quartiles
        over episodes are `interquartile`, all else are 95 % intervals), n, unit, why there is none.
        """
        rows = []
        for card in self.cards:
            lines = card.metrics if isinstance(card, TradingCard) else card.scores
            order = card.task.config.get("metrics", []) if isinstance(card, TradingCard) else card.score_order
            for name in dict.fromkeys((*(name for name in order if name in lines), *lines)):
                line = lines[name]
                interval = getattr(line, "interval", None)
                ends = [getattr(interval, name, None) for name in ("low", "high", "kind")]
                reason = line.reason if line.value is None else None
                rows.append((card.task.name, name, line.value, *ends, line.n, line.unit, line.better, reason))
        columns = ["task", "metric", "value", "low", "high", "bounds", "n", "unit", "better", "reason"]
        return pd.DataFrame(rows, columns=columns).set_index(["task", "metric"])

    @cached_property
    def episodes(self) -> pd.DataFrame:
        """One row a finished episode, one column a metric; trading tasks only."""
        rows = [
            {"task": card.task.name, "window": episode.window, "seed": episode.seed}
            | {name: metric.value for name, metric in episode.metrics.items()}
            for card in self.cards
            if isinstance(card, TradingCard)
            for episode in card.episodes
        ]
        return pd.DataFrame(rows, columns=None if rows else _EPISODE).set_index(_EPISODE)

    def ledger(self, **episode: str | int) -> pd.DataFrame:
        """One row a step, of all episodes or of those chosen by `task=`, `window=`, `seed=`: days, who decided, NAV, cash,
        holdings, counts of orders, rejections, tool calls and tokens.
        """
        rows = []
        for spec, ledger in self._ledgers(episode):
            for step in ledger.steps:
                money = {name: getattr(step, f"{name}_minor") / ledger.minor_per_unit for name in _MONEY}
                rejected = sum(order.status == "rejected" for order in step.orders)
                counts = {"orders": len(step.orders), "rejected": rejected, "positions": len(step.positions)}
                tokens = {name: getattr(step, name) for name in ("tool_calls", "input_tokens", "output_tokens")}
                days = {"step": step.step, "decided_on": step.decided_on, "filled_on": step.filled_on}
                rows.append(_named(spec) | days | {"provenance": step.provenance} | money | counts | tokens)
        return _dated(pd.DataFrame(rows), "decided_on", "filled_on")

    def orders(self, **episode: str | int) -> pd.DataFrame:
        """One row an order, of all episodes or of those chosen, in true identities: what was asked and how it ended."""
        rows = []
        for spec, ledger in self._ledgers(episode):
            for step in ledger.steps:
                for order in step.orders:
                    fill = {name: getattr(order, f"{name}_minor") / ledger.minor_per_unit for name in ("notional", "fee")}
                    names = ("code", "side", "confidence", "target_weight", "shares", "status", "rule", "filled_shares", "reason")
                    fields = {name: getattr(order, name) for name in names}
                    if (steps := ledger.scale(order.code).steps_per_unit) > 1:
                        fields |= {
                            name: None if fields[name] is None else fields[name] / steps for name in ("shares", "filled_shares")
                        }
                    rows.append(_named(spec) | {"filled_on": step.filled_on} | fields | fill)
        return _dated(pd.DataFrame(rows), "filled_on")

    def equity(self, *, benchmark: bool = False, **episode: str | int) -> pd.DataFrame:
        """[days x episodes] NAV divided by the initial cash, from the base day on; columns are (task, window, seed). `benchmark`
        adds, for each window, what the same cash in the benchmark index would be (seed `benchmark`); it opens the market. Raises
        UsageError: that has no index.
        """
        series: dict[tuple[str, str, int | str], pd.Series[float]] = {}
        market = self._market if benchmark else None
        if market is not None and not market.meta.benchmark:
            raise UsageError(
                f"{self.folder}: market {market.meta.name} has no index to set beside the NAV; leave out benchmark=True"
            )
        for spec, ledger in self._ledgers(episode):
            days = [ledger.base_day, *ledger.days]
            series[spec.task, spec.span.name, spec.seed] = pd.Series(ledger.nav / ledger.nav[0], index=pd.DatetimeIndex(days))
            if market is not None:
                rows = [market.day_index(day) for day in days]
                levels = market.benchmark[rows]
                series[spec.task, spec.span.name, "benchmark"] = pd.Series(levels / levels[0], index=pd.DatetimeIndex(days))
        frame = pd.DataFrame(series).sort_index()
        frame.columns = pd.MultiIndex.from_tuples(series, names=_EPISODE)
        return frame.rename_axis("day")

    @cached_property
    def _market(self) -> MarketSnapshot:
        return open_recorded_snapshot(RunFolder.load(self.folder), self._plugins, {})

    def _ledgers(self, chosen: dict[str, str | int]) -> Iterator[tuple[EpisodeSpec, Ledger]]:
        if unknown := [name for name in chosen if name not in _EPISODE]:
            raise UsageError(f"an episode is chosen by {', '.join(_EPISODE)}, not by {unknown[0]!r}")
        run, trading = RunFolder.load(self.folder), {card.task.name for card in self.cards if isinstance(card, TradingCard)}
        any_match = False
        for spec in run.manifest.specs:
            if spec.task in trading and run.is_complete(spec) and chosen.items() <= _named(spec).items():
                any_match = True
                yield spec, run.load_ledger(spec)
        if not any_match:
            selection = ", ".join(f"{name}={value!r}" for name, value in chosen.items()) or "a trading task"
            raise UsageError(f"{self.folder}: no finished episode with {selection}")


def _named(spec: EpisodeSpec) -> dict[str, Any]:
    return {"task": spec.task, "window": spec.window_name, "seed": spec.seed}


def _dated(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    present = [column for column in columns if column in frame]
    return frame.assign(**{column: pd.to_datetime(frame[column]) for column in present})


def _texts(values: Any, where: str) -> list[Any]:
    """Return a list from one value, several, or names separated by commas."""
    if isinstance(values, str):
        return list(names_in([values], where))
    return list(map(_as_text, values)) if isinstance(values, (list, tuple)) else [values]


def _as_text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


class _ObjectPlugin:
    """Plugin that offers the objects of one call of `evaluate`."""

    def __init__(self) -> None:
        self._specs: dict[str, list[Any]] = {"models": [], "tasks": [], "metrics": []}

    def model_name(self, model: str | Model | Replies) -> str:
        """Return the name of a model, under which an object is offered."""
        if isinstance(model, str):
            return model
        if not hasattr(model, "reply") and not callable(model):
            raise UsageError(
                f"evaluate: a model is a name, an object with reply(request) or a function, not {type(model).__name__}"
            )
        name = f"python/{getattr(model, '__name__', type(model).__name__)}".replace("<lambda>", "function")
        instance = model if hasattr(model, "reply") else _FunctionModel(model)
        self._specs["models"].append(Spec(name, lambda _name: instance, "given to evaluate"))
        return name

    def names_of(self, kind: str, values: Any) -> tuple[str, ...]:
        """Return the names of tasks or metrics, under which objects are offered."""
        for value in (items := _texts(values, kind)):
            if not isinstance(value, str):
                if not hasattr(value, "spec" if kind == "tasks" else "compute"):
                    like = "a name or a task with spec(), as a QATask" if kind == "tasks" else "a name or a decorated metric"
                    raise UsageError(f"evaluate: {kind}: each is {like}, not {type(value).__name__}")
                self._specs[kind].append(value.spec() if kind == "tasks" else value)
        return tuple(value if isinstance(value, str) else value.name for value in items)

    @hookimpl
    def ktdeval_models(self) -> list[Spec]:
        """Return the model, where it was an object."""
        return self._specs["models"]

    @hookimpl
    def ktdeval_tasks(self) -> list[Spec]:
        """Return the tasks that were objects."""
        return self._specs["tasks"]

    @hookimpl
    def ktdeval_metrics(self) -> list[Any]:
        """Return the metrics that were objects."""
        return self._specs["metrics"]


class _FunctionModel:
    def __init__(self, function: Replies) -> None:
        self._function = function

    def reply(self, request: ModelRequest) -> Reply:
        """Ask the function."""
        reply = self._function(request)
        return Reply(reply) if isinstance(reply, str) else reply


def command_function(name: str) -> Callable[..., Any]:
    """Return the Python function of a command, such as `ktdeval.compare`: the one that `extra["function"]` of its `Spec` makes.
    Raises AttributeError: no command of this name has one.
    """
    specs = {command: spec for command, spec in load_plugins().specs("commands").items() if "function" in spec.extra}
    if name not in specs:
        raise AttributeError(f"ktdeval has no name {name!r}{near_matches(name, [*specs, 'evaluate', 'load_run', 'Evaluation'])}")
    return cast("Callable[..., Any]", specs[name].extra["function"]())
