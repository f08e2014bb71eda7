"""Probe tasks: which stocks and days are asked about for a window and seed, what each probe shows,
its gold answer, and its scoring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any

import numpy as np

from ktdeval.errors import ConfigError, DataError
from ktdeval.harness import HarnessConfig, call
from ktdeval.market import Board, BoolArray, MarketSnapshot, window_rows
from ktdeval.masking import Lens, MaskKind, Payload
from ktdeval.task_api import (
    AnswerRecord,
    EpisodeSpec,
    Sample,
    Score,
    ScoreDefinition,
    TargetTask,
    TaskConfig,
    TaskTraits,
    Window,
    windows_of,
)
from ktdeval.trading import Account
from ktdeval.values import JsonValue, derive_seed, dumps_canonical, option, to_mapping
from ktdeval_deanon.answer import (
    ANSWER_FORM,
    board_of_answer,
    days_off,
    is_sector_in_labels,
    is_stock_in_labels,
    names_sector,
    sector_keys,
    tickers_of,
)
from ktdeval_deanon.attacker_prompt import ProbeBrief, prompt_hashes, prompt_text
from ktdeval_deanon.recovery_rates import (
    DEFINITIONS,
    LEFT_OUT_BY,
    SECTOR_IN_LABELS,
    STOCK_IN_LABELS,
    summarise,
)

DATE_MARGINS = (5, 20, 60)  #: Tolerances for a recovered date, in trading days

_NO_SECTOR = frozenset({"", "unknown"})


@dataclass(frozen=True, kw_only=True)
class DeanonConfig(TaskConfig):
    """One variant of the probes."""

    mask: MaskKind = option(help="the mask under attack; must be the target task's mask")
    subject: str = option(help="the trading task whose scene and tool results the attacker sees")
    control: str = option(
        "deanon_probe_bright",
        help=(
            "probe task on the same windows without a mask: the positive control of a certificate"
        ),
    )
    screen_factors: tuple[str, ...] = option(help="factors by which the shown screen is ranked")
    probes_per_window: int = option(
        40, help="number of probes drawn from each window", minimum=1, maximum=10_000
    )
    max_probes_per_stock: int = option(
        1, help="maximum number of probes about one stock in a window", minimum=1
    )
    lookback: int = option(60, help="number of daily bars that a payload shows", minimum=1)
    harness: HarnessConfig = option(
        HarnessConfig(), help="budgets of a sample; only schema_retries has an effect"
    )

    def check(self, where: str) -> None:
        """Raise ConfigError if values are incompatible."""
        super().check(where)
        if not self.screen_factors:
            raise ConfigError(f"{where}: screen_factors: name at least one factor")


# --- which stocks and days


@dataclass(frozen=True, slots=True)
class Probe:
    """One stock at one day's close, given by its column and row in the snapshot. Draws are
    stratified by board.
    """

    asset: int
    row: int
    board: Board


def _decision_rows(snapshot: MarketSnapshot, window: Window) -> tuple[int, int]:
    """Return the rows [start, stop) of the days inside a window at whose close a trading episode
    over the window makes a decision.

    An episode also decides at the close before the window, but not at the window's last close.
    """
    start, stop = window_rows(snapshot.days, window.first, window.last)
    if stop - start < 2:
        raise DataError(
            f"window {window.name}: its only trading day has no decision; choose a longer window"
        )
    return start, stop - 1


def draw_probes(
    snapshot: MarketSnapshot, window: Window, count: int, max_per_stock: int, seed: int
) -> tuple[Probe, ...]:
    """Draw a window's probes and return them in the order dealt. Equal arguments give equal probes,
    and no stock-day pair occurs twice.

    A pair can be drawn if the stock is an index member and trades on the day. Boards take turns, in
    a seeded order, until all probes are dealt. A board that runs out of pairs is skipped and the
    other boards take its share, so any prefix is about as evenly stratified as the whole. Within a
    board, each stock is asked about once, on a random day of its own, before any stock is asked
    about twice. Draws depend only on codes and dates, not on the snapshot's columns and rows.
    Raises DataError if the window extends beyond the data or has fewer than two trading days;
    ConfigError if it has fewer pairs than requested.
    """
    start, stop = _decision_rows(snapshot, window)
    traded = np.isfinite(snapshot.close[start:stop]) & (snapshot.volume[start:stop] > 0)
    eligible: BoolArray = snapshot.member[start:stop] & traded
    order = sorted(Board, key=lambda board: derive_seed(seed, "board", str(board)))
    queues = [_queue(snapshot, board, (start, eligible), max_per_stock, seed) for board in order]
    probes: list[Probe] = []

    while queues and len(probes) < count:
        unfinished: list[Iterator[Probe]] = []
        for queue in queues:
            probe = next(queue, None)
            if probe is not None:
                probes.append(probe)
                unfinished.append(queue)

        queues = unfinished

    if len(probes) < count:
        raise ConfigError(
            f"window {window.name}: probes_per_window is {count}, but a maximum of "
            f"{max_per_stock} per stock allows only {len(probes)}; lower probes_per_window or raise"
            " max_probes_per_stock"
        )

    return tuple(probes[:count])


def _queue(
    snapshot: MarketSnapshot,
    board: Board,
    days: tuple[int, BoolArray],
    max_per_stock: int,
    seed: int,
) -> Iterator[Probe]:
    """Yield the probes of one board in the order in which they are dealt: each stock once, then
    each stock a second time, and so on.
    """
    start, eligible = days
    assets: list[int] = []
    for asset in np.flatnonzero(eligible.any(axis=0)).tolist():
        if snapshot.boards[asset] is board:
            assets.append(asset)

    assets.sort(key=lambda asset: derive_seed(seed, "stock", snapshot.codes[asset]))
    shuffled: dict[int, list[int]] = {}
    for turn in range(max_per_stock):
        for asset in assets:
            # Shuffled lazily, since most boards are never exhausted.
            if asset not in shuffled:
                rows = [start + row for row in np.flatnonzero(eligible[:, asset]).tolist()]
                shuffled[asset] = _shuffled_days(snapshot, asset, rows, seed)

            if turn < len(shuffled[asset]):
                yield Probe(asset, shuffled[asset][turn], board)


def _shuffled_days(
    snapshot: MarketSnapshot, asset: int, rows: Sequence[int], seed: int
) -> list[int]:
    """Return rows in a seeded order that depends only on the stock's code and the dates."""
    code = snapshot.codes[asset]
    return sorted(rows, key=lambda row: derive_seed(seed, "day", code, str(snapshot.days[row])))


# --- what a probe shows


@dataclass(frozen=True, slots=True)
class ProbeView:
    """View of a probe: its mask, and the JSON text of `market_context`, `screen` and `snapshot`,
    the results of three tools.
    """

    lens: Lens
    text: str


def target_spec(target_task: TargetTask, spec: EpisodeSpec, number: int) -> EpisodeSpec:
    """Return the episode of the target task from which a probe is taken.

    Each probe has its own seed, so the scene draws a fresh alias map: knowledge from one probe, or
    from any other episode, does not reveal the handles in the next.
    """
    task = target_task.task
    seed = derive_seed(spec.mask_seed, "probe", number)
    return replace(
        spec, task=task.name, task_version=task.version, mask=task.mask, mode=task.mode, seed=seed
    )


def view_probe(
    config: DeanonConfig,
    target_task: TargetTask,
    spec: EpisodeSpec,
    snapshot: MarketSnapshot,
    probe: Probe,
) -> ProbeView:
    """Call the target task's tools through its own scene, at the close of the probe's day, as a
    model with an untouched account would.

    `spec` is the target task's episode (`target_spec`). Raises ConfigError if a tool is missing or
    refuses its arguments.
    """
    first, _ = window_rows(snapshot.days, spec.span.first, spec.span.last)
    task = target_task.task
    scene = task.scene(spec, snapshot)
    # The episode's first decision falls on the close before the window.
    step = probe.row - (first - 1)
    untouched = Account(task.trading.initial_cash * 100, {})
    context = scene.tool_context(step, snapshot.as_of(probe.row), untouched)
    asked: dict[str, tuple[str, Mapping[str, JsonValue]]] = {
        "market_context": ("get_market_context", {}),
        "screen": (
            "screen_candidates",
            {"factors": list(config.screen_factors), "k": task.harness.max_candidates},
        ),
        "snapshot": (
            "get_stock_snapshot",
            {"stock_id": scene.lens.asset_handle(probe.asset), "lookback": config.lookback},
        ),
    }
    shown = {}
    for part, (name, arguments) in asked.items():
        shown[part] = tool_result(target_task, name, arguments, (context, scene.lens))

    return ProbeView(scene.lens, scene.lens.render_text(shown))


def tool_result(
    target_task: TargetTask,
    name: str,
    arguments: Mapping[str, JsonValue],
    step: tuple[Any, Lens],
) -> Payload:
    """Call a tool of the target task as a model would, and return its result, not yet masked.

    `step`: what the tool receives of the day (`scene.tool_context`), and the episode's mask. Raises
    ConfigError if the tool is missing or refuses its arguments.
    """
    task = target_task.task
    tools = {tool.name: tool for tool in target_task.tools}
    if name not in tools:
        raise ConfigError(
            f"task {task.name}: has no tool {name!r}, which a probe shows; choose a target "
            f"task of mode open_research"
        )

    context, lens = step
    outcome = call(tools[name], context, dumps_canonical(arguments), lens)
    if outcome.complaint is not None:
        raise ConfigError(
            f"task {task.name}: {name} refuses {outcome.complaint.argument}: expected"
            f" {outcome.complaint.expected}"
        )

    return outcome.payload


# --- samples


def _alike(sector: str, industries: Mapping[str, int]) -> int:
    """Return the number of stocks whose industry shares a name with a sector."""
    keys = sector_keys(sector)
    return sum(
        members for name, members in industries.items() if not keys.isdisjoint(sector_keys(name))
    )


class DeanonSamples:
    """Probes for one window and seed. Pure: equal arguments give equal bytes.

    The mask key determines which stocks and days are asked about, and in which order, so the seed
    and the window do not reveal them. Models under the same key get the same probes, so that their
    rates can be paired probe by probe. Each mask has its own stocks and days, because an unmasked
    probe would give away the answer to the same probe behind a mask.

    `windows`: the task's default windows. The `period`, rows [start, stop), runs from the first day
    of these windows to their last and includes this set's own window. The brief names the period,
    and a random guess draws its date from it. Raises ConfigError if the window has too few stocks;
    DataError if it lies outside the snapshot.
    """

    def __init__(
        self,
        config: DeanonConfig,
        windows: Sequence[Window],
        spec: EpisodeSpec,
        snapshot: MarketSnapshot,
        target_task: TargetTask,
    ) -> None:
        seed = spec.hidden_seed("probes")
        self.probes = draw_probes(
            snapshot, spec.span, config.probes_per_window, config.max_probes_per_stock, seed
        )
        self._config = config
        self._spec = spec
        self._snapshot = snapshot
        self._target_task = target_task
        own_start, own_stop = _decision_rows(snapshot, spec.span)
        first = min(window.first for window in windows)
        last = max(window.last for window in windows)
        start = int(np.searchsorted(snapshot.days, np.datetime64(first, "D"), side="left"))
        stop = int(np.searchsorted(snapshot.days, np.datetime64(last, "D"), side="right"))
        self.period = (min(start, own_start), max(stop, own_stop))
        self._brief = ProbeBrief(snapshot, self.period, config.screen_factors)

    def __len__(self) -> int:
        """Return the number of probes."""
        return len(self.probes)

    def sample(self, number: int) -> Sample:
        """Return one probe as an attacker receives it."""
        view = self.view(number)
        user = Template(prompt_text("user")).substitute(payload=view.text)
        return Sample(
            f"probe_{number:04d}",
            view.lens,
            self._brief.text(view.lens),
            user,
            ANSWER_FORM,
            self.facts(number),
        )

    def view(self, number: int) -> ProbeView:
        """Return the view of a probe, without its gold answer."""
        spec = target_spec(self._target_task, self._spec, number)
        return view_probe(
            self._config, self._target_task, spec, self._snapshot, self.probes[number]
        )

    def facts(self, number: int) -> dict[str, JsonValue]:
        """Return a probe's gold answer, its strata, and the counts from which its chance level is
        computed.
        """
        probe = self.probes[number]
        market = self._snapshot
        boards: Counter[str] = Counter()
        industries: Counter[str] = Counter()  # counts over the members on the probe's board
        for asset in np.flatnonzero(market.member[probe.row]).tolist():
            boards[str(market.boards[asset])] += 1
            if market.boards[asset] is probe.board:
                industries[market.industries[asset]] += 1

        gold = market.industries[probe.asset]
        sector: str | None = None
        sector_members: int | None = None
        largest_sector: int | None = None
        if gold not in _NO_SECTOR:
            sector = gold
            sector_members = _alike(gold, industries)
            largest_sector = max(industries.values())

        start, stop = self.period
        near: dict[str, int] = {}
        for margin in DATE_MARGINS:
            near[str(margin)] = min(stop, probe.row + margin + 1) - max(start, probe.row - margin)

        return {
            "code": market.codes[probe.asset],
            "day": str(market.days[probe.row]),
            "sector": sector,
            "board": str(probe.board),
            "window": self._spec.span.name,
            # number of index members on the day, by board
            "members": {str(board): boards[str(board)] for board in Board if boards[str(board)]},
            # members on this board whose industry shares a name with the gold industry (including
            # the stock itself); members with the most common industry
            "sector_members": sector_members,
            "largest_sector": largest_sector,
            # trading days in the period, and how many of them lie within each margin (in trading
            # days) of the gold day
            "period_days": stop - start,
            "near_days": near,
        }

    def score(self, number: int, answer: Mapping[str, JsonValue]) -> dict[str, bool | None]:
        """Return which items an answer recovered, as booleans keyed by name. `sector` is null if
        the data do not give the stock's sector. What an answer names by labels of the mask alone is
        null, too, and marked.
        """
        probe = self.probes[number]
        market = self._snapshot
        tickers = tuple(market.canonical(code) for code in tickers_of(answer))
        code = market.codes[probe.asset]
        sector = market.industries[probe.asset]
        off = days_off(answer, market.days, probe.row)
        dates = {
            f"date_within_{margin}": off is not None and off <= margin for margin in DATE_MARGINS
        }

        scores: dict[str, bool | None] = {
            "ticker_top1": tickers[:1] == (code,),
            "ticker_top5": code in tickers,
            "board": board_of_answer(answer) is probe.board,
            "sector": None if sector in _NO_SECTOR else names_sector(answer, sector),
            **dates,
            "joint": code in tickers and dates["date_within_5"],
        }
        in_labels = {
            STOCK_IN_LABELS: is_stock_in_labels(answer),
            SECTOR_IN_LABELS: is_sector_in_labels(answer),
        }
        for name, mark in LEFT_OUT_BY.items():
            if in_labels[mark]:
                scores[name] = None

        return {**scores, **in_labels}


class DeanonTask:
    """One variant: a mask, and the trading task that shows its tool results behind the mask.
    Implements `ktdeval.api.ScoringTask`.
    """

    mode: str = "deanon_probe"
    tools: tuple[str, ...] = ()  #: empty, since a probe itself shows the tool results
    scores: Mapping[str, ScoreDefinition] = DEFINITIONS

    def __init__(self, name: str, config: DeanonConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.harness = config.harness
        self.target_task: str | None = config.subject
        self.traits = TaskTraits(needs_a_shares=True, control=config.control)
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config except the control, which changes no question, with the answer
        form and the hashes of the prompts.
        """
        form = {
            "name": ANSWER_FORM.name,
            "description": ANSWER_FORM.description,
            "parameters": ANSWER_FORM.parameters,
        }
        config = {
            name: value for name, value in to_mapping(self._config).items() if name != "control"
        }
        return {
            "name": self.name,
            "mode": self.mode,
            **config,
            "form": form,
            "prompts": prompt_hashes(),
        }

    def samples(
        self, spec: EpisodeSpec, snapshot: MarketSnapshot, target_task: TargetTask | None
    ) -> DeanonSamples:
        """Return the probes for one window and seed.

        Raises ConfigError if the target task is missing or has another mask, or if the window has
        too few stocks; DataError if the window lies outside the snapshot.
        """
        if target_task is None:
            raise ConfigError(
                f"task {self.name}: its target_task {self.target_task!r} must be a trading task "
                f"with research tools"
            )
        if target_task.task.mask != self.mask:
            raise ConfigError(
                f"task {self.name}: its mask is {self.mask}, but that of its target task"
                f" {target_task.task.name} is {target_task.task.mask}; name a target task with "
                f"the same mask"
            )

        defaults = [self.windows[name] for name in self.default_windows]
        return DeanonSamples(self._config, defaults, spec, snapshot, target_task)

    def summarise(self, records: Sequence[AnswerRecord]) -> Mapping[str, Score]:
        """Return the recovery rates pooled over all answered probes. Pure."""
        return summarise(records)
