"""A KTD-Fin trading task: its config, its prompts (a system prompt per mode, one user message with the state), its episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import compress
from pathlib import Path
from string import Template
from typing import Any, Literal

import numpy as np

from ktdeval.contracts import EpisodeSpec, MaskedConfig, Window, windows_of
from ktdeval.errors import ConfigError
from ktdeval.fields import option, to_mapping
from ktdeval.harness import Observation
from ktdeval.jsonio import JsonValue, sha256_hex
from ktdeval.market import Board, MarketSnapshot, MarketView
from ktdeval.masking import AssetRef, DayRef, Lens, Payload
from ktdeval.trading import Account, StepRecord, TradingConfig
from ktdeval_ktdfin import tables
from ktdeval_ktdfin.step import Stage, Step, limit_stop_pct

_FOLDER = Path(__file__).with_name("prompts")
_KNOWN_RULES = (
    " So does, all of it, a submission that breaks a rule as things stand at this close: a label of no stock, a sell of what is "
    "not held, a buy beyond the limits of rule 8, or one for which the orders before it leave no cash."
)
Mode = Literal["memory_only", "fixed_candidate", "open_research"]


@dataclass(frozen=True, kw_only=True)
class KtdfinConfig(MaskedConfig):
    """One variant of KTD-Fin."""

    mode: Mode = option(help="what the model is shown: labels only, a candidate table, or six research tools")
    tools: tuple[str, ...] = option((), help="research tools by name, in the order offered; open_research only")
    trading: TradingConfig = option(TradingConfig(), help="costs, lots and limits")

    def check(self, where: str) -> None:
        """Raise ConfigError if values do not go together."""
        super().check(where)
        if bool(self.tools) != (self.mode == "open_research"):
            raise ConfigError(f"{where}: tools: mode {self.mode} has {'none' if self.tools else 'research tools; name some'}")


@cache
def _prompt_text(name: str) -> str:
    """Text of a prompt file that ships with the package (a constant, so it is read once)."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def _system_parts(config: KtdfinConfig) -> tuple[str, ...]:
    """Names of the prompt files that make up the system prompt."""
    parts = [f"system_{config.mode}"]
    if config.rebase_prices:
        parts.append("rebased")
    if config.mask_config.is_coarse:
        parts.append("coarse")
    return tuple(parts)


def _system_prompt(config: KtdfinConfig) -> str:
    """Return the system prompt of a mode with the task's limits. It names no stock and no day, so every mask may show it."""
    trading, harness = config.trading, config.harness
    by_limit: dict[float, list[str]] = {}
    for board in Board:
        by_limit.setdefault(limit_stop_pct(board, trading), []).append(str(board))
    limits = [f"{pct:g} % ({' and '.join(boards)} board{'s' if len(boards) > 1 else ''})" for pct, boards in by_limit.items()]
    return Template("\n".join(map(_prompt_text, _system_parts(config)))).substitute(
        initial_cash=f"{trading.initial_cash:,}",
        lot_shares=trading.lot_shares,
        star_min_shares=max(trading.star_min_shares, trading.lot_shares),
        buy_fee_bps=f"{trading.buy_fee_bps:g}",
        sell_fee_bps=f"{trading.sell_fee_bps:g}",
        min_fee_cny=f"{trading.min_fee_cny:g}",
        limits=", ".join(limits),
        max_positions=trading.max_positions,
        max_weight_pct=f"{trading.max_weight * 100:g}",
        **config.coarse_words,
        known_rules=_KNOWN_RULES if trading.constraint_feedback else "",
        **{name: getattr(harness, name) for name in ("max_candidates", "max_tool_calls", "schema_retries", "min_reason_chars")},
    )


class KtdfinScene:
    """One episode of a KTD-Fin task, seen through its lens. Pure: equal arguments give equal bytes."""

    def __init__(self, config: KtdfinConfig, lens: Lens, stage: Stage) -> None:
        self.lens = lens
        self._config = config
        self._stage = stage
        self._system = _system_prompt(config)
        self._user = Template(_prompt_text("user"))
        self._order = np.array(lens.order)
        self._listed = [AssetRef(asset) for asset in lens.order]

    def observe(self, step: int, view: MarketView, account: Account, last: StepRecord | None) -> Observation:
        """Return the prompt of one step."""
        state = self._state(self.tool_context(step, view, account), last)
        user = self._user.substitute(date_label=self.lens.day_handle(view.day), step=step, state=self.lens.render_text(state))
        return Observation(step, self._system, user)

    def tool_context(self, step: int, view: MarketView, account: Account) -> Step:
        """Return what research tools get at this step; from then on the lens shows codes and names of its day."""
        self.lens.move_to(view.day)
        return Step(self._stage, step, view, account)

    def _state(self, step: Step, last: StepRecord | None) -> Payload:
        harness = self._config.harness
        state: dict[str, Any] = {
            "day": DayRef(step.view.day),
            "account": tables.account(step),
            "positions": tables.positions(step),
            "performance": tables.performance(step),
            "last_step": None if last is None else tables.last_step(step, last),
            "constraints": tables.constraints(step),
        }
        if self._config.mode == "memory_only":
            state["universe"] = list(compress(self._listed, step.member[self._order].tolist()))
        elif self._config.mode == "fixed_candidate":
            candidates = tables.factor_union(step, harness.max_candidates)
            state["candidates"] = tables.features(step, candidates)
            state["holdings"] = tables.features(step, [asset for asset in step.held_fen if asset not in candidates])
        else:
            state["constraints"] |= {"max_candidates": harness.max_candidates, "max_tool_calls": harness.max_tool_calls}
        return state


class KtdfinTask:
    """One variant: a mask, a mode, and the limits of market and harness. Implements `ktdeval.api.Task`."""

    needs_a_shares = True

    def __init__(self, name: str, config: KtdfinConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.mode: str = config.mode
        self.tools, self.metrics = config.tools, config.metrics
        self.harness, self.trading = config.harness, config.trading
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config, and the hashes of the prompts."""
        prompts = {f"{name}.md": sha256_hex(_prompt_text(name)) for name in (*_system_parts(self._config), "user")}
        return {"name": self.name, **to_mapping(self._config), "prompts": prompts}

    def scene(self, spec: EpisodeSpec, snapshot: MarketSnapshot) -> KtdfinScene:
        """Open one episode; DataError where the window lies outside the snapshot."""
        lens = self._config.lens(spec, snapshot)
        return KtdfinScene(self._config, lens, Stage.open(snapshot, lens, (self.harness, self.trading)))
