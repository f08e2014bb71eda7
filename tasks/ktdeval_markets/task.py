"""A task on any market: its config, its prompts (rules of the venues in words, a table of the assets), its episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Literal

import numpy as np

from ktdeval.contracts import EpisodeSpec, HasForm, MaskedConfig, Window, windows_of
from ktdeval.errors import ConfigError, DataError
from ktdeval.fields import near_matches, option, to_mapping
from ktdeval.harness import HoldRule, Lesson, Observation, Rebuild, StanceForm, StanceRule
from ktdeval.jsonio import JsonValue, sha256_hex
from ktdeval.market import MarketSnapshot, MarketView, Venue, parse_day
from ktdeval.masking import DayRef, Payload, TextMask, table
from ktdeval.trading import Account, AccountConfig, MarketRules, StepRecord
from ktdeval.yamlio import load_yaml
from ktdeval_markets import state
from ktdeval_markets.portfolio import PortfolioRebuild, WeightRule
from ktdeval_markets.state import Stage

_FOLDER = Path(__file__).parent
_TEXTS, _WEIGHTS, _LESSON = ("prompts/user.md", "wording.yaml"), "weights.yaml", "prompts/lesson.md"
_COARSE = "prompts/coarse.md"
_CLOSE, _EXIT = "prompts/sell_close.md", "prompts/exit.md"
_TABLES = {name: f"prompts/{name}.md" for name in ("intraday", "history")}  # tables that an option adds, and their descriptions


@dataclass(frozen=True, kw_only=True)
class MarketConfig(MaskedConfig):
    """One variant of a task on any market."""

    shown: int = option(120, help="most assets in the table of a step; the most traded ones where there are more", minimum=1)
    news: int = option(0, help="most documents shown in a step, the newest ones; 0: none", minimum=0, maximum=200)
    news_days: int = option(5, help="days of the market that a document shown may be old", minimum=1)
    intraday: int | None = option(None, help="most assets whose last session is shown; null: none", minimum=1, leave_out_null=True)
    history: int | None = option(
        None, help="last bars shown of each asset; null: none", minimum=1, maximum=500, leave_out_null=True
    )
    assets: tuple[str, ...] = option((), help="codes of the only assets shown and traded; none: all members")
    answers: Literal["orders", "stances"] = option(
        "orders", help="what is submitted: orders, or BUY, SELL or HOLD for each asset shown (`ktdeval.harness.StanceForm`)"
    )
    hold: HoldRule = option("keep", help="of stances: HOLD keeps the position, or closes it (flat)")
    sell: Literal["close"] | None = option(
        None,
        help="of stances: close: SELL of a holding only closes it, and the next one sells short; null: it turns it into a short",
        leave_out_null=True,
    )
    exit: tuple[int, ...] | None = option(
        None,
        help="of stances: parts, none smaller than the one before, that decisions against a position on days in a row close of it; "
        "null: the first one ends it",
        leave_out_null=True,
    )
    weights: WeightRule | None = option(
        None,
        help="of stances: weights of a portfolio rebuilt at every close (`ktdeval_markets.portfolio`); null: max_weight each",
        leave_out_null=True,
    )
    warm_up: dict[str, str] | None = option(
        None,
        help="by window: first day of a warm-up before it, whose days are shown with what came after them to agents that learn",
        leave_out_null=True,
    )
    labels: Literal["inverted"] | None = option(
        None,
        help="of a warm-up: inverted shows the opposite of each change, as the public code of InvestorBench does; null: right ones",
        leave_out_null=True,
    )
    trading: AccountConfig = option(AccountConfig(), help="account, limits, and what replaces rules of the venues")

    def check(self, where: str) -> None:
        """Raise ConfigError if values do not go together."""
        super().check(where)
        self.trading.rules(f"{where}: trading")
        if self.intraday and self.noise_pct:
            raise ConfigError(f"{where}: noise_pct is one for all bars of a day and hides no intraday shape; leave out one")
        for name, first in (self.warm_up or {}).items():
            if name not in self.windows:
                raise ConfigError(f"{where}: warm_up: no window {name!r}{near_matches(name, self.windows)}")
            if parse_day(first, f"{where}: warm_up.{name}: ", ConfigError) >= parse_day(self.windows[name].first):
                raise ConfigError(
                    f"{where}: warm_up.{name}: {first} is not before the window, which begins {self.windows[name].first}"
                )
        if self.sell and self.answers != "stances":
            raise ConfigError(f"{where}: sell: close applies to decisions, and the task asks for orders; set answers: stances")
        if self.exit is not None:
            _check_exit(self, where)
        if self.labels and not self.warm_up:
            raise ConfigError(f"{where}: labels: inverted applies to a warm-up, and there is none; set warm_up")
        if self.weights and (self.answers != "stances" or self.trading.max_weight < 1.0):
            raise ConfigError(f"{where}: weights: those of decisions, which sum to 1; set answers: stances, trading.max_weight: 1")

    @property
    def texts(self) -> tuple[str, ...]:
        """Names of the files that prompts are made of, the system prompt's first."""
        own = ("prompts/portfolio.md", _WEIGHTS) if self.weights else (f"prompts/{self.answers}.md",)
        more = [text for name, text in _TABLES.items() if getattr(self, name)]
        more += [_COARSE] if self.mask_config.is_coarse else []
        return (*own, *_TEXTS, *more, *(_LESSON,) * bool(self.warm_up), *(_CLOSE,) * bool(self.sell), *(_EXIT,) * bool(self.exit))


def _check_exit(config: MarketConfig, where: str) -> None:
    parts = config.exit or ()
    if len(parts) < 2 or parts[0] < 1 or list(parts) != sorted(parts):
        raise ConfigError(
            f"{where}: exit: expected two or more whole numbers from 1, none smaller than the one before, as [1, 2, 3]"
        )
    if config.answers != "stances" or config.hold != "keep" or config.sell or config.weights:
        raise ConfigError(
            f"{where}: exit: of decisions that keep a position; set answers: stances, hold: keep, and no sell or weights"
        )


@cache
def _text(name: str) -> str:
    """Text of a file that ships with the package (a constant, so it is read once)."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _wording() -> dict[str, Any]:
    return load_yaml(_FOLDER / "wording.yaml")


def venue_line(venue: Venue) -> str:
    """Trading conditions of a venue in words."""
    fees, money = venue.fees, venue.currency
    costs = [f"{fees.buy_bps:g} basis points of a buy and {fees.sell_bps:g} of a sell"] if fees.buy_bps or fees.sell_bps else []
    costs += [f"{money} {fees.per_unit:g} for each share or coin"] if fees.per_unit else []
    costs += [f"at least {money} {fees.minimum:g} an order"] if fees.minimum else []
    costs += [f"at most {fees.maximum_bps:g} basis points"] if fees.maximum_bps is not None else []
    levies = f"levies of {fees.sell_levy_bps:g} basis points and {money} {fees.sell_levy_per_unit:g} a share on sells"
    costs += [levies] if fees.sell_levy_bps or fees.sell_levy_per_unit else []
    lot = f", bought in lots of {venue.lot_steps / venue.steps_per_unit:g}" if venue.lot_steps > 1 else ""
    short = venue.short
    return Template(_wording()["venue"]).substitute(
        name=venue.name,
        step=f"{1 / venue.steps_per_unit:.8f}".rstrip("0").rstrip("."),
        lot=lot,
        costs=f"costs {', '.join(costs)}" if costs else "no costs",
        smallest=f"; orders of at least {money} {venue.minimum_notional:g}" if venue.minimum_notional else "",
        lock="what was bought on a day can't be sold on it; " if venue.settlement_lock else "",
        short="no short sales"
        if short is None
        else f"short sales at {short.borrow_pct_a_year:g} % interest a year, initial margin {short.initial_margin_pct:g} %, "
        f"maintenance margin {short.maintenance_margin_pct:g} %",
    )


def _sell(config: MarketConfig, shorts: bool) -> str:
    """Meaning of SELL in words."""
    if config.sell and shorts:
        return _text(_CLOSE).rstrip("\n")
    meaning = str(_wording()["sell_short" if shorts else "sell_out"])
    if not config.exit:
        return meaning
    parts = ", ".join(f"{part}/{sum(config.exit)}" for part in config.exit[:-1])
    return f"{meaning}\n- {Template(_text(_EXIT)).substitute(parts=parts).rstrip()}"


def _coarse(config: MarketConfig) -> str:
    """How orders count where the mask shows figures other than as they are, in words."""
    if not config.mask_config.is_coarse:
        return ""
    return Template(_text(_COARSE)).substitute(config.coarse_words).rstrip("\n")


class MarketScene:
    """One episode. Implements `ktdeval.contracts.Scene`."""

    def __init__(self, config: MarketConfig, stage: Stage, venues: Mapping[str, Venue], warm_up: str | None) -> None:
        self.lens = stage.lens
        self._stage = stage
        self._warm_up, self._inverted = warm_up, config.labels == "inverted"
        self._limits: dict[str, Payload] = {
            "max_positions": stage.trading.max_positions,
            "max_weight": stage.trading.max_weight,
            "short_sales": stage.rules.shorts,
            "min_reason_chars": config.harness.min_reason_chars,
        }
        words, fills = _wording(), {venue.fill for venue in venues.values()}
        if config.answers == "stances":
            rule = StanceRule(stage.trading.max_weight, config.hold, stage.rules.shorts, config.sell == "close", config.exit or ())
            self.form = StanceForm(config.harness, stage.lens, rule)
            self._limits["hold"] = config.hold
        self._rule = config.weights
        if config.weights:
            self._limits["weights"] = config.weights
        self._system = Template(_text(config.texts[0])).substitute(
            currency=stage.rules.currency,
            initial_cash=f"{stage.trading.initial_cash:,}",
            fill=words["fill"][fills.pop() if len(fills) == 1 else "mixed"],
            shorts=words["shorts" if stage.rules.shorts else "long_only"],
            news=(words["news"] if stage.news else "")
            + "".join(_text(name).rstrip("\n") for name in _TABLES.values() if name in config.texts)
            + _coarse(config),
            hold=words["hold"][config.hold],
            weights=load_yaml(_FOLDER / _WEIGHTS)[config.weights] if config.weights else "",
            sell=_sell(config, stage.rules.shorts),
            venues="\n".join(map(venue_line, venues.values())),
            max_positions=stage.trading.max_positions,
            max_weight_pct=f"{stage.trading.max_weight * 100:g}",
            **{name: getattr(config.harness, name) for name in ("schema_retries", "min_reason_chars")},
        )

    def observe(self, step: int, view: MarketView, account: Account, last: StepRecord | None) -> Observation:
        """Return the prompt of one step."""
        stage = self._stage
        self.lens.move_to(view.day)
        listed = state.listed(stage, view, last, stage.shown)
        if isinstance(self, HasForm):
            standings = state.standings(stage, last, listed)
            self.form.today(listed, account.positions, self._rebuild(step, view, last, listed), standings)
        shown = {
            "day": DayRef(view.day),
            "account": state.account(stage, last),
            "positions": state.positions(stage, view, last),
            "last_step": None if last is None else state.last_step(stage, last, view.day),
            "constraints": self._limits,
            "candidates": state.assets(stage, view, listed),
        }
        if stage.news:
            shown["news"] = state.news(stage, view)
        if stage.intraday:
            shown["intraday"] = state.intraday(stage, view, last)
        if stage.history:
            shown["history"] = state.history(stage, view, listed)
        texts = {"date_label": self.lens.day_handle(view.day), "step": step, "state": self.lens.render_text(shown)}
        return Observation(step, self._system, Template(_text("prompts/user.md")).substitute(texts))

    def lessons(self, view: MarketView) -> Iterator[Lesson]:
        """Yield the days of the window's warm-up, each with the next price of its assets. An asset without a price is left out of
        the day, and a day without any asset is no lesson. The last price shown is that of the day of `view`. Raises DataError: the
        market begins after the first day of the warm-up.
        """
        if self._warm_up is None:
            return
        stage, days = self._stage, self._stage.snapshot.days
        first = int(np.searchsorted(days, parse_day(self._warm_up)))
        if days[0] > parse_day(self._warm_up):
            raise DataError(f"the warm-up begins {self._warm_up}, {stage.snapshot.meta.name} on {days[0]}; import earlier days")
        for row in range(first, view.day):
            then = stage.snapshot.as_of(row)
            listed = state.listed(stage, then, None, stage.shown)
            outcomes = state.outcomes(view, row, listed, self._inverted)
            if not outcomes:
                continue
            self.lens.move_to(row)
            shown = {"day": DayRef(row), "candidates": state.assets(stage, then, listed)}
            if stage.news:
                shown["news"] = state.news(stage, then)
            shown["outcomes"] = table(state.OUTCOME_COLUMNS, outcomes)
            day = self.lens.day_handle(row)
            texts = {"date_label": day, "state": self.lens.render_text(shown)}
            yield Lesson(day, Template(_text(_LESSON)).substitute(texts))
        self.lens.move_to(view.day)

    def _rebuild(self, step: int, view: MarketView, last: StepRecord | None, listed: Sequence[int]) -> Rebuild | None:
        """Return what rebuilds the portfolio at this close, where the task has one."""
        if self._rule is None:
            return None
        rules = self._stage.rules
        nav = self._stage.trading.initial_cash * rules.minor_per_unit if last is None else last.nav_minor
        return PortfolioRebuild(view, step, listed, nav, rules, self._rule, self.lens.known_price)

    def tool_context(self, step: int, view: MarketView, account: Account) -> None:
        """There are no research tools."""


class MarketTask:
    """One variant. Implements `ktdeval.api.Task`."""

    mode = "market"
    tools: tuple[str, ...] = ()

    def __init__(self, name: str, config: MarketConfig) -> None:
        self.name, self.version = name, config.version
        self.mask: str = config.mask
        self.metrics, self.harness = config.metrics, config.harness
        self.trading = config.trading.rules(name)
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self.needs_minutes, self.needs_assets = bool(config.intraday), config.assets
        self._config = config

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config, the rules of the venue that it names, and the hashes of the texts."""
        rules = None if self.trading.venue is None else to_mapping(self.trading.venue)
        texts = {name: sha256_hex(_text(name)) for name in self._config.texts}
        return {"name": self.name, "mode": self.mode, **to_mapping(self._config), "venue_rules": rules, "prompts": texts}

    def scene(self, spec: EpisodeSpec, snapshot: MarketSnapshot) -> MarketScene:
        """Open one episode; DataError where the window lies outside the snapshot."""
        config, lens = self._config, self._config.lens(spec, snapshot)
        rules, texts = MarketRules.of(snapshot, self.trading), TextMask(lens, snapshot)
        most: dict[str, Any] = {name: getattr(config, name) or 0 for name in ("shown", "news", "news_days", *_TABLES)}
        stage = Stage(
            lens, snapshot, rules, self.trading, texts, only=frozenset(map(snapshot.asset_index.__getitem__, config.assets)), **most
        )
        venue = self.trading.venue
        names = sorted({snapshot.venues[asset] for asset in stage.only}) or snapshot.rules
        venues = {name: snapshot.rules[name] for name in names} if venue is None else {venue.name: venue}
        named = "" if spec.window is None else spec.window.name
        return MarketScene(config, stage, venues, (config.warm_up or {}).get(named))
