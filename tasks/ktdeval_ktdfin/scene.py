"""Prompts of each step: one system prompt per mode, one shared user message with the state as JSON."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from ktdeval.harness import Observation
from ktdeval.jsonio import sha256_hex
from ktdeval.market import Board, MarketView
from ktdeval.masking import AssetRef, DayRef, Lens, Payload
from ktdeval.trading import Account, StepRecord
from ktdeval_ktdfin import tables
from ktdeval_ktdfin.config import KtdfinConfig, Mode
from ktdeval_ktdfin.step import Stage, Step, limit_stop_pct

_FOLDER = Path(__file__).with_name("prompts")


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file that ships with the package (a constant, so it is read once)."""
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def prompt_hashes(mode: Mode) -> dict[str, str]:
    """SHA-256 of the prompt files that a mode uses, by file name."""
    return {f"{name}.md": sha256_hex(prompt_text(name)) for name in (f"system_{mode}", "user")}


def system_prompt(config: KtdfinConfig) -> str:
    """Return the system prompt of a mode with the task's limits. It names no stock and no day, so every mask may show it."""
    trading, harness = config.trading, config.harness
    by_limit: dict[float, list[str]] = {}
    for board in Board:
        by_limit.setdefault(limit_stop_pct(board, trading), []).append(str(board))
    limits = [f"{pct:g} % ({' and '.join(boards)} board{'s' if len(boards) > 1 else ''})" for pct, boards in by_limit.items()]
    return Template(prompt_text(f"system_{config.mode}")).substitute(
        initial_cash=f"{trading.initial_cash_cny:,}",
        lot_shares=trading.lot_shares,
        star_min_shares=max(trading.star_min_shares, trading.lot_shares),
        buy_fee_bps=f"{trading.buy_fee_bps:g}",
        sell_fee_bps=f"{trading.sell_fee_bps:g}",
        min_fee_cny=f"{trading.min_fee_cny:g}",
        limits=", ".join(limits),
        max_positions=trading.max_positions,
        max_weight_pct=f"{trading.max_weight * 100:g}",
        max_candidates=harness.max_candidates,
        max_tool_calls=harness.max_tool_calls,
        schema_retries=harness.schema_retries,
        min_reason_chars=harness.min_reason_chars,
    )


class KtdfinScene:
    """One episode of a KTD-Fin task. Pure: equal arguments give equal bytes.

    Attributes:
        lens: the episode's mask.
    """

    def __init__(self, config: KtdfinConfig, lens: Lens, stage: Stage) -> None:
        self.lens = lens
        self._config = config
        self._stage = stage
        self._system = system_prompt(config)
        self._user = Template(prompt_text("user"))
        self._listed = [AssetRef(asset) for asset in lens.order]

    def observe(self, step: int, view: MarketView, account: Account, last: StepRecord | None) -> Observation:
        """Return the prompt of one step."""
        state = self._state(Step(self._stage, step, view, account), last)
        user = self._user.substitute(date_label=self.lens.day_handle(view.day), step=step, state=self.lens.render_text(state))
        return Observation(step, self._system, user)

    def tool_context(self, step: int, view: MarketView, account: Account) -> Step:
        """Return what research tools get at this step."""
        return Step(self._stage, step, view, account)

    def _state(self, step: Step, last: StepRecord | None) -> Payload:
        boards = [board for board in Board if board in step.view.boards]
        state: dict[str, Any] = {
            "day": DayRef(step.view.day),
            "account": tables.account(step),
            "positions": tables.positions(step),
            "performance": tables.performance(step),
            "last_step": None if last is None else tables.last_step(self._stage, last),
            "constraints": tables.constraints(self._stage, boards),
        }
        if self._config.mode == "memory_only":
            is_member = step.member.tolist()
            state["universe"] = [ref for ref in self._listed if is_member[ref.asset]]
        elif self._config.mode == "fixed_candidate":
            candidates = tables.factor_union(step, self._config.harness.max_candidates)
            state["candidates"] = tables.features(step, candidates)
            state["holdings"] = tables.features(step, [asset for asset in step.held_fen if asset not in candidates])
        else:
            harness = self._config.harness
            state["constraints"] |= {"max_candidates": harness.max_candidates, "max_tool_calls": harness.max_tool_calls}
        return state
