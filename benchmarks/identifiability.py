"""What masked payloads give away to a perfect memory, and what each coarsening costs: the tables of
docs/certificate.md and identifiability_tables.md.

    python benchmarks/identifiability.py [--data FOLDER] [--probes 200] [--steps 40] [--seed 0]
        [--tables fields,channels,masks,single]

A probe is one stock on one decision day, drawn evenly over five windows and all boards. Its payload
is what the three research tools show of it under a mask; the attacker gets the payload's JSON and
the public history. The signal kept is measured on the same market: rank correlation over the index
members of shown with true figures, and decisions of keyless models on the same accounts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from bisecting import CHANNELS, Field as Ground, Learned, name_stocks
from judging import Gold, chances_of, judge
from played_episodes import PLUGINS, market_of
from scipy import stats

from ktdeval.attribution.style_factor_panel import FACTOR_NAMES, factor_panel
from ktdeval.harness.chat_messages import CallParams
from ktdeval.harness.steps.session_parts import SessionParts
from ktdeval.harness.steps.step_session import GuardedSession
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig
from ktdeval.stats.intervals import wilson
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account
from ktdeval.values import derive_seed
from ktdeval_builtin.react import ReactAgent
from ktdeval_deanon.certificate.lookup_attackers import RandomAttacker, field_sets, weigh
from ktdeval_deanon.certificate.payload_matching import Field
from ktdeval_deanon.certificate.public_history import PublicHistory
from ktdeval_ktdfin.market_day import MEASURE_NAMES, MarketDay
from ktdeval_ktdfin.step_view import EpisodeStage, ResearchStep
from ktdeval_ktdfin.task import KtdfinScene
from ktdeval_ktdfin.tools import get_market_context, get_stock_snapshot, screen_candidates

WINDOWS = ("W2", "W4", "W6", "W8", "W10")
DECISION_WINDOW = "W5"
MODELS = ("momentum", "reversal", "low_volatility")
# the tools show these in per cent
PERCENT_FACTORS = ("MOM_12_1", "RV_60", "REV_ON", "MOM_ID", "HIGH_52W")
ALL: tuple[Field, ...] = field_sets()["all"]
SINGLE: tuple[Field, ...] = (
    "price_level",
    "returns",
    "volume",
    "factors",
    "board",
    "index",
    "breadth",
)
LOOKBACK = 20

MASKS: dict[str, MaskConfig] = {
    "blinded": MaskConfig(),
    "rebase": MaskConfig(rebase_prices=True),
    "4 digits": MaskConfig(round_digits=4),
    "3 digits": MaskConfig(round_digits=3),
    "2 digits": MaskConfig(round_digits=2),
    "noise 0.1 %": MaskConfig(noise_pct=0.1),
    "noise 0.5 %": MaskConfig(noise_pct=0.5),
    "noise 1 %": MaskConfig(noise_pct=1.0),
    "noise 2 %": MaskConfig(noise_pct=2.0),
    "rebase, 3 digits": MaskConfig(rebase_prices=True, round_digits=3),
    "rebase, noise 0.5 %": MaskConfig(rebase_prices=True, noise_pct=0.5),
    "rebase, 3 digits, noise 0.5 %": MaskConfig(rebase_prices=True, round_digits=3, noise_pct=0.5),
    "rebase, 2 digits, noise 2 %": MaskConfig(rebase_prices=True, round_digits=2, noise_pct=2.0),
    "rebase, 1 digit, noise 10 %": MaskConfig(rebase_prices=True, round_digits=1, noise_pct=10.0),
    "rebase, 1 digit, noise 50 %": MaskConfig(rebase_prices=True, round_digits=1, noise_pct=50.0),
}
COARSENED = (
    "blinded",
    "rebase",
    "3 digits",
    "rebase, 3 digits",
    "2 digits",
    "noise 2 %",
    "rebase, 2 digits, noise 2 %",
    "rebase, 1 digit, noise 10 %",
    "rebase, 1 digit, noise 50 %",
)


class Probe(NamedTuple):
    """One stock on one decision day of an episode."""

    base: int
    row: int
    asset: int


class Found(NamedTuple):
    """What the exact matcher made of some probes by one set of fields."""

    hits: np.ndarray  # [probes, 8]
    k: np.ndarray  # [probes]


def history_of(market: MarketSnapshot) -> PublicHistory:
    """The market with the nine factors in the tools' units."""
    panel = factor_panel(market, range(len(market.days)))
    factors = {
        name: panel[k] * (100.0 if name in PERCENT_FACTORS else 1.0)
        for k, name in enumerate(FACTOR_NAMES)
    }
    return PublicHistory(market, factors)


def draw_probes(market: MarketSnapshot, count: int, seed: int) -> list[Probe]:
    """Probes spread evenly over five windows and the boards that have index members there."""
    rng = np.random.default_rng(derive_seed(seed, "probes"))
    windows, boards = (
        task_of("open_research").windows,
        np.array([str(board) for board in market.boards]),
    )
    listed = np.isfinite(market.close)
    strata = []
    for name in WINDOWS:
        start, stop = window_rows(market.days, windows[name].first, windows[name].last)
        for board in sorted(set(boards)):
            pool = (
                market.member[start - 1 : stop - 1]
                & (boards == board)
                & listed[start - 1 : stop - 1]
            )
            if pool.any():
                strata.append((start - 1, np.argwhere(pool)))
    made = []
    for number in range(count):
        base, pairs = strata[number % len(strata)]
        day, asset = pairs[int(rng.integers(len(pairs)))].tolist()
        made.append(Probe(base, base + day, asset))
    return made


def task_of(mode: str) -> Any:
    """The task whose prompts, tools and limits are used."""
    return PLUGINS.make_task(f"blinded_{mode}")


class Shown:
    """One market under one mask."""

    def __init__(
        self, market: MarketSnapshot, mask: MaskConfig, mode: str = "open_research", seed: int = 0
    ) -> None:
        self.market, self.mask, self.seed = market, mask, seed
        self.task = task_of(mode)
        self.stages: dict[int, EpisodeStage] = {}

    def stage(self, base: int) -> EpisodeStage:
        """The episode that begins at the close of a row."""
        if base not in self.stages:
            lens = Lens(self.mask, derive_seed(self.seed, base, "mask"), self.market, base)
            self.stages[base] = EpisodeStage.open(
                self.market, lens, (self.task.harness, self.task.trading)
            )
        return self.stages[base]

    def step(self, base: int, row: int) -> ResearchStep:
        """A decision day with nothing held."""
        return ResearchStep(
            self.stage(base),
            row - base,
            self.market.as_of(row),
            Account(100 * self.task.trading.initial_cash, {}),
        )

    def payload(self, probe: Probe, lookback: int) -> dict[str, Any]:
        """What the three tools show of a probe, through its JSON text."""
        step, lens = self.step(probe.base, probe.row), self.stage(probe.base).lens
        parts = {
            "market_context": get_market_context(step),
            "screen": screen_candidates(step, ["MOM_12_1", "-RV_60"], 20),
            "snapshot": get_stock_snapshot(step, probe.asset, lookback),
        }
        return {name: json.loads(lens.render_text(part)) for name, part in parts.items()}


def attack_all(
    shown: Shown,
    history: PublicHistory,
    probes: Sequence[Probe],
    sets: Mapping[str, Sequence[Field]],
    lookback: int = LOOKBACK,
) -> dict[str, Found]:
    """The exact matcher on all probes, by every set of fields."""
    hits: dict[str, list[Any]] = {name: [] for name in sets}
    counts: dict[str, list[int]] = {name: [] for name in sets}
    for number, probe in enumerate(probes):
        evidence = weigh(shown.payload(probe, lookback), history, ALL, shown.mask)
        gold = Gold.of(history.market, probe.asset, probe.row)
        for name, fields in sets.items():
            hits[name].append(judge(evidence.guess(fields, number), gold, history.rows))
            counts[name].append(evidence.anonymity(fields))
    return {name: Found(np.array(hits[name], dtype=float), np.array(counts[name])) for name in sets}


def share(hits: np.ndarray) -> str:
    """A share in per cent with its Wilson interval."""
    interval = wilson(int(hits.sum()), len(hits))
    assert interval.low is not None
    assert interval.high is not None
    return f"{100 * hits.mean():.1f} ({100 * interval.low:.1f}…{100 * interval.high:.1f})"


def recovery(found: Found) -> list[str]:
    """tk@1, tk@5, date within 5, joint."""
    return [share(found.hits[:, column]) for column in (0, 1, 4, 7)]


def line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def heading(cells: Sequence[str]) -> None:
    print(f"\n{line(cells)}\n{line(['---'] * len(cells))}")


def k_cells(found: Found) -> list[str]:
    """Mean and median of k, and the share of probes that are alone."""
    return [
        f"{found.k.mean():,.0f}",
        f"{np.median(found.k):,.0f}",
        f"{100 * (found.k <= 1).mean():.1f}",
    ]


def print_fields(market: MarketSnapshot, history: PublicHistory, probes: Sequence[Probe]) -> None:
    """What each field of the plain mask gives away, and what chance alone would get."""
    shown = Shown(market, MASKS["blinded"])
    found = attack_all(shown, history, probes, field_sets(SINGLE))
    heading(
        ["fields", "tk@1 %", "tk@5 %", "date ≤ 5 %", "joint %", "mean k", "median k", "k = 1 %"]
    )
    for name, result in found.items():
        print(line([name, *recovery(result), *k_cells(result)]))
    attacker = RandomAttacker(history)
    payloads = [
        (shown.payload(probe, 1), Gold.of(market, probe.asset, probe.row)) for probe in probes
    ]
    hits = [
        judge(attacker.guess(payload, number), gold, history.rows)
        for number, (payload, gold) in enumerate(payloads)
    ]
    chances = np.mean([chances_of(attacker, payload, gold) for payload, gold in payloads], axis=0)
    print(
        line(
            [
                "random attacker",
                *recovery(Found(np.array(hits, dtype=float), np.zeros(1))),
                "",
                "",
                "",
            ]
        )
    )
    print(
        line(
            [
                "random attacker, computed",
                *(f"{100 * chances[column]:.2f}" for column in (0, 1, 4, 7)),
                "",
                "",
                "",
            ]
        )
    )


def print_masks(
    market: MarketSnapshot, history: PublicHistory, probes: Sequence[Probe], steps: int
) -> None:
    """Identifiability against the signal kept, by mask."""
    references = {
        (model, mode): list(reference(market, model, mode, steps))
        for model in MODELS
        for mode in MODES
    }
    heading(
        [
            "mask",
            "tk@1 %",
            "tk@5 %",
            "date ≤ 5 %",
            "joint %",
            "mean k",
            "rank corr., mean",
            "lowest",
        ]
        + [f"same decisions % ({mode})" for mode in MODES]
    )
    for name, mask in MASKS.items():
        shown = Shown(market, mask)
        found = attack_all(shown, history, probes, {"all": SINGLE})["all"]
        correlations = rank_correlations(shown, probes[:: max(1, len(probes) // 20)])
        lowest = min(correlations, key=lambda figure: correlations[figure])
        signal = [
            f"{np.mean(list(correlations.values())):.4f}",
            f"{correlations[lowest]:.4f} {lowest}",
        ]
        agreement = []
        for mode in MODES:
            keys = [key for key in references if key[1] == mode]
            shares = [agreed(market, mask, *key, references[key]) for key in keys]
            agreement.append(f"{100 * np.mean(shares):.1f}")
        print(
            line([name, *recovery(found), f"{found.k.mean():,.1f}", *signal, *agreement]),
            flush=True,
        )


def print_single(market: MarketSnapshot, history: PublicHistory, probes: Sequence[Probe]) -> None:
    """tk@1 and median k by single fields, by mask and bars shown."""
    own: dict[str, tuple[Field, ...]] = {
        name: (name,) for name in ("price_level", "returns", "volume", "factors")
    }
    day: dict[str, tuple[Field, ...]] = {"index": ("index",), "breadth": ("breadth",)}
    heading(
        [
            "mask",
            "bars",
            *(f"{name}: tk@1 %, median k" for name in own),
            *(f"{name}: date ≤ 5 %" for name in day),
        ]
    )
    for name in COARSENED:
        for bars in (1, 5, LOOKBACK):
            found = attack_all(Shown(market, MASKS[name]), history, probes, own | day, bars)
            cells = [
                f"{100 * found[field].hits[:, 0].mean():.1f}, {np.median(found[field].k):,.0f}"
                for field in own
            ]
            print(
                line(
                    [
                        name,
                        bars,
                        *cells,
                        *(f"{100 * found[field].hits[:, 4].mean():.1f}" for field in day),
                    ]
                ),
                flush=True,
            )


def print_channels(market: MarketSnapshot, seed: int, days: int) -> None:
    """What an attacker that asks learns of price levels, by channel: with exact answers under
    rebased prices, and in the task.
    """
    task, windows = task_of("rebased_open_research"), task_of("open_research").windows
    bases = [
        window_rows(market.days, windows[name].first, windows[name].last)[0] - 1 for name in WINDOWS
    ]
    heading(
        [
            "channel",
            "mask",
            "stocks",
            "exact to the fen %",
            "median error %",
            "names by level %",
            "with the day %",
            "median k",
        ]
    )
    for name in ("rebase", "rebase, 3 digits"):
        ground = Ground(market, task, PLUGINS.tools(task.tools), MASKS[name], seed)
        best: dict[tuple[int, int], Learned] = {}
        for channel in CHANNELS:
            learned = [found for base in bases for found in ground.attack(channel, base, days)]
            print(line([channel, name, *channel_cells(market, learned, ground.digits)]), flush=True)
            for one in learned:
                other = best.get((one.base, one.asset), one)
                best[one.base, one.asset] = Learned(
                    one.base, one.asset, other.span.within(one.span)
                )
        print(
            line(["all", name, *channel_cells(market, list(best.values()), ground.digits)]),
            flush=True,
        )


def channel_cells(market: MarketSnapshot, learned: Sequence[Learned], digits: int) -> list[object]:
    named = name_stocks(market, learned, digits)
    shares = [f"{100 * named.by_pairs.mean():.1f}", f"{100 * named.by_day.mean():.1f}"]
    return [
        len(learned),
        share(named.is_exact),
        f"{100 * np.median(named.error):.3f}",
        *shares,
        f"{np.median(named.k):,.0f}",
    ]


def rank_correlations(shown: Shown, probes: Sequence[Probe]) -> dict[str, float]:
    """Spearman's correlation of shown with true figures over the index members, mean over the
    probes' days.
    """
    found: dict[str, list[float]] = {name: [] for name in (*MEASURE_NAMES, *FACTOR_NAMES)}
    for probe in probes:
        step, lens = shown.step(probe.base, probe.row), shown.stage(probe.base).lens
        exact = MarketDay(step.view, step.stage.limit_ppm).dims
        for name in found:
            true = exact[name]
            members = np.flatnonzero(step.member & np.isfinite(true + step.dims[name]))
            seen = [lens.render(step.show_figure(name, int(asset))) for asset in members]
            found[name].append(
                float(stats.spearmanr(seen, true[members]).statistic) if len(set(seen)) > 1 else 0.0
            )
    return {name: float(np.mean(values)) for name, values in found.items()}


# ---- decisions

MODES = ("open_research", "fixed_candidate")
Orders = frozenset[tuple[int | None, str, float | None]]


class Moment(NamedTuple):
    """A decision day of the reference episode: the account there, what became of the last orders,
    and what was decided.
    """

    row: int
    account: Account
    orders: Orders


def reference(market: MarketSnapshot, model: str, mode: str, steps: int) -> Iterator[Moment]:
    """An episode of a keyless model under the plain mask."""
    shown = Shown(market, MASKS["blinded"], mode)
    base, count = decision_rows(market, steps)
    tape = MarketTape.from_snapshot(market, shown.task.trading)
    account = Account(100 * shown.task.trading.initial_cash, {})
    for row in range(base, base + count):
        decision = decide(shown, model, base, row, account)
        yield Moment(row, account, orders_of(decision.action))
        account = settle(account, tape.day(row + 1), decision.action, row).after


def decision_rows(market: MarketSnapshot, steps: int) -> tuple[int, int]:
    window = task_of("open_research").windows[DECISION_WINDOW]
    start, stop = window_rows(market.days, window.first, window.last)
    return start - 1, min(steps, stop - start)


def decide(shown: Shown, model: str, base: int, row: int, account: Account) -> Any:
    """One decision of a keyless model through the harness."""
    stage = shown.stage(base)
    lens, task = stage.lens, shown.task
    parts = SessionParts(
        PLUGINS.make_model(f"builtin/{model}"),
        lens,
        LeakGuard(lens, shown.market),
        PLUGINS.tools(task.tools),
        ActionForm(task.harness, lens),
        task.harness,
        CallParams(),
        0,
    )
    scene = KtdfinScene(task._config, lens, stage, "The episode lasts one day.")
    view = shown.market.as_of(row)
    observation = scene.observe(row - base, view, account, None)
    session = GuardedSession(parts, row - base, scene.tool_context(row - base, view, account))
    return session.decide(ReactAgent(), observation, None).decision


def orders_of(action: Sequence[Any]) -> Orders:
    return frozenset((order.asset, order.side, order.target_weight) for order in action)


def agreed(
    market: MarketSnapshot, mask: MaskConfig, model: str, mode: str, moments: Sequence[Moment]
) -> float:
    """Share of the reference's decision days on which the model decides the same under another
    mask, with the same account.
    """
    shown = Shown(market, mask, mode)
    base = moments[0].row
    same = [
        orders_of(decide(shown, model, base, moment.row, moment.account).action) == moment.orders
        for moment in moments
    ]
    return float(np.mean(same))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default="synthetic", help="a snapshot's folder; the embedded market when left out"
    )
    parser.add_argument("--probes", type=int, default=200)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tables", default="fields,channels,masks,single")
    options = parser.parse_args()
    market = market_of(options.data)
    history, probes, tables = (
        history_of(market),
        draw_probes(market, options.probes, options.seed),
        options.tables.split(","),
    )
    print(
        f"{market.meta.name}: {len(market.codes)} assets, {len(market.days)} days, {len(probes)}"
        f" probes, {LOOKBACK} bars shown"
    )
    payload = Shown(market, MASKS["blinded"]).payload(probes[0], LOOKBACK)
    weigh(payload, history)  # what is computed once a market
    started = time.perf_counter()
    evidence = weigh(payload, history)
    first = time.perf_counter() - started
    for fields in field_sets(SINGLE).values():
        evidence.guess(fields)
        evidence.anonymity(fields)
    print(
        f"one probe: {first:.2f} s to compare, {time.perf_counter() - started:.2f} s with all"
        f" {len(field_sets(SINGLE))} field sets"
    )
    if "channels" in tables:
        print_channels(market, options.seed, options.steps)
    if "fields" in tables:
        print_fields(market, history, probes)
    if "masks" in tables:
        print_masks(market, history, probes, options.steps)
    if "single" in tables:
        print_single(market, history, probes)


if __name__ == "__main__":
    main()
