"""A KTD-Fin trading task: its config, its episodes, and its prompts (one system prompt per mode,
and one user message with the state).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, Literal

from ktdeval.errors import ConfigError
from ktdeval.harness import Observation, join_parts
from ktdeval.market import (
    Board,
    MarketSnapshot,
    MarketView,
    active_execution,
    execution_words,
)
from ktdeval.masking import AssetRef, DayRef, Lens, Payload
from ktdeval.observation import observe
from ktdeval.task_api import EpisodeSpec, MaskedConfig, TaskTraits, Window, windows_of
from ktdeval.trading import Account, StepRecord, TradingConfig
from ktdeval.values import JsonValue, option, sha256_hex, to_mapping
from ktdeval_ktdfin import payloads
from ktdeval_ktdfin.step_view import EpisodeStage, ResearchStep, limit_stop_pct

_FOLDER = Path(__file__).with_name("prompts")
_KNOWN_RULES = (
    " A submission that breaks a rule as things stand at this close comes back in the same way, "
    "as a"
    " whole: a label of no stock, a sell of what is not held, a buy beyond the limits of rule 8, or"
    " one for which the orders before it leave no cash."
)
_KNOWN_RULES_AT_BOOK = (
    " A submission that breaks a rule at book comes back in the same way, as a whole: a label of no"
    " stock, a sell of what you never ordered, a buy to a weight or to a number of stocks beyond "
    "rule"
    " 5, or one for which the orders before it leave no cash."
)
_LIMIT_COSTS = "limit_costs"
Mode = Literal["memory_only", "fixed_candidate", "open_research"]
AccountView = Literal["money", "book"]


@dataclass(frozen=True, kw_only=True)
class KtdfinConfig(MaskedConfig):
    """One variant of KTD-Fin."""

    mode: Mode = option(
        help="what the model gets: labels only, a candidate table, or six research tools"
    )
    tools: tuple[str, ...] = option(
        (), help="research tools by name, in the order offered; open_research only"
    )
    account: AccountView | None = option(
        None,
        help=(
            "how the account is shown: money, as booked; or book, the ordered weights without "
            "anything that depends on a price; null: book in memory_only, else money"
        ),
        is_silent=True,
    )
    trading: TradingConfig = option(TradingConfig(), help="costs, lots and limits")

    @property
    def is_at_book(self) -> bool:
        """True if the account is shown at book value."""
        return self.account == "book" or (self.account is None and self.mode == "memory_only")

    def check(self, where: str) -> None:
        """Raise ConfigError if values are incompatible."""
        super().check(where)
        if self.mode == "memory_only" and (self.rebase_prices or self.mask_config.is_coarse):
            raise ConfigError(
                f"{where}: mode memory_only shows no prices, and rescaled shares would reveal "
                f"one; leave out rebase_prices, round_digits and noise_pct"
            )

        if self.is_at_book and self.mode != "memory_only":
            raise ConfigError(
                f"{where}: account: mode {self.mode} shows prices, so an account at book would "
                f"hide nothing; leave out account"
            )

        if self.trading.limit_orders:
            self._check_limit_orders(f"{where}: trading")

        has_tools = self.mode == "open_research"
        if self.tools and not has_tools:
            raise ConfigError(f"{where}: tools: mode {self.mode} has none")
        if has_tools and not self.tools:
            raise ConfigError(
                f"{where}: tools: mode {self.mode} needs research tools; name at least one"
            )

        if self.trading.board_rules != "paper":
            raise ConfigError(
                f"{where}: trading: board_rules: KTD-Fin's prompts and tools state the limits and "
                f"lots of the paper; leave it out, or use a market task such as market_bright"
            )

    def _check_limit_orders(self, where: str) -> None:
        if self.mode == "memory_only":
            raise ConfigError(
                f"{where}: limit_orders: mode memory_only shows no prices, but fills within a "
                f"limit would reveal them; leave out limit_orders"
            )


@cache
def _prompt_text(name: str) -> str:
    """Return the text of a prompt file that ships with the package (a constant, so it is read
    once).
    """
    return (_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def _rules_files(config: KtdfinConfig) -> tuple[str, ...]:
    """Return the names of the prompt files with the rules of a mode."""
    files = [f"system_{config.mode}"]
    if config.is_at_book:
        files = ["system_at_book"]
    if config.rebase_prices:
        files.append("rebased")

    if config.mask_config.is_coarse:
        files.append("coarse")
    if config.mask_config.leaves_out_whole_market:
        files.append("no_whole_market")
    if config.is_compact:
        files.append("compact")
    if active_execution(config.trading.execution) is not None:
        files.append("execution")

    return tuple(files)


def _submission_files(config: KtdfinConfig) -> tuple[str, ...]:
    """Return the names of the prompt files that describe the form of a submission."""
    files = ["submission_at_book" if config.is_at_book else "submission"]
    if config.trading.limit_orders:
        files.append("limit")

    return tuple(files)


def _tool_files(config: KtdfinConfig) -> tuple[str, ...]:
    """Return the names of the prompt files that explain the purpose of each research tool."""
    return ("research",) if config.mode == "open_research" else ()


def _fill_prompt(config: KtdfinConfig, files: Sequence[str], length: str) -> str:
    """Return the text of prompt files with the task's limits filled in.

    The text names no stock, so every mask may show it. `length`: the episode's length, as far as
    the mask may reveal it.
    """
    trading = config.trading
    harness = config.harness
    text = join_parts(*map(_prompt_text, files))
    known_rules = ""
    if trading.constraint_feedback:
        known_rules = _KNOWN_RULES_AT_BOOK if config.is_at_book else _KNOWN_RULES

    execution = active_execution(config.trading.execution)
    fills = ""
    if execution is not None:
        fills = execution_words(execution)

    return Template(text).substitute(
        execution=fills,
        length=length,
        initial_cash=f"{trading.initial_cash:,}",
        lot_shares=trading.lot_shares,
        star_min_shares=max(trading.star_min_shares, trading.lot_shares),
        buy_fee_bps=f"{trading.buy_fee_bps:g}",
        sell_fee_bps=f"{trading.sell_fee_bps:g}",
        min_fee_cny=f"{trading.min_fee_cny:g}",
        limits=_price_limits(trading),
        max_positions=trading.max_positions,
        max_weight_pct=f"{trading.max_weight * 100:g}",
        **config.coarse_words,
        known_rules=known_rules,
        max_candidates=harness.max_candidates,
        schema_retries=harness.schema_retries,
        min_reason_chars=harness.min_reason_chars,
    )


def _price_limits(trading: TradingConfig) -> str:
    """Return the price moves at which trading stops, with the boards to which each applies."""
    boards_of: dict[float, list[str]] = {}
    for board in Board:
        boards_of.setdefault(limit_stop_pct(board, trading), []).append(str(board))

    limits = []
    for pct, boards in boards_of.items():
        word = "boards" if len(boards) > 1 else "board"
        limits.append(f"{pct:g} % ({' and '.join(boards)} {word})")

    return ", ".join(limits)


class KtdfinScene:
    """One episode of a KTD-Fin task, as seen through its lens. Pure: equal arguments give equal
    bytes.
    """

    def __init__(self, config: KtdfinConfig, lens: Lens, stage: EpisodeStage, length: str) -> None:
        self.lens = lens
        self._config = config
        self._stage = stage
        self._rules = _fill_prompt(config, _rules_files(config), length)
        self._submission = _fill_prompt(config, _submission_files(config), length)
        self._tool_list = _fill_prompt(config, _tool_files(config), length)
        has_execution = any(terms.execution for terms in stage.rules.terms)
        if config.trading.limit_orders and has_execution:
            self._submission += _fill_prompt(config, [_LIMIT_COSTS], length)
        self._user = Template(_prompt_text("user"))
        self._universe = [AssetRef(asset) for asset in lens.listed_assets()]

    def observe(
        self, step: int, view: MarketView, account: Account, last: StepRecord | None
    ) -> Observation:
        """Return the prompt of one step."""
        payload = self._state(self.tool_context(step, view, account), last)
        state = observe(self.lens, payload, is_compact=self._config.is_compact)
        # KTD-Fin Appendix C: one user message template for all modes
        day = self.lens.day_handle(view.day)
        return Observation(
            step,
            rules=self._rules,
            day=self._user.substitute(date_label=day, step=step, state=state.text),
            state=state,
            submission=self._submission,
            request=_prompt_text("request"),
            tool_list=self._tool_list,
        )

    def tool_context(self, step: int, view: MarketView, account: Account) -> ResearchStep:
        """Return the object that research tools receive at this step. From then on, the lens shows
        the codes and names of that day.
        """
        self.lens.move_to(view.day)
        return ResearchStep(self._stage, step, view, account)

    def _state(self, step: ResearchStep, last: StepRecord | None) -> dict[str, Payload]:
        if self._config.is_at_book:
            return self._state_at_book(step, last)

        config = self._config
        state: dict[str, Any] = {
            "day": DayRef(step.view.day),
            "account": payloads.account(step),
            "positions": payloads.positions(step),
            "performance": payloads.performance(step),
            "last_step": None if last is None else payloads.last_step(step, last),
            "constraints": payloads.constraints(step),
        }
        if config.mode == "memory_only":
            state["universe"] = self._universe
        elif config.mode == "fixed_candidate":
            # KTD-Fin §3.2: a factor table over a small union of the factors' top names
            candidates = payloads.factor_union(step, config.harness.max_candidates)
            others_held = [asset for asset in step.held_fen if asset not in candidates]
            state["candidates"] = payloads.features(step, candidates)
            state["holdings"] = payloads.features(step, others_held)
        else:
            # §3.4: the prompt shows only account and constraints, so the model must research the
            # market.
            state["constraints"] |= {
                "max_candidates": config.harness.max_candidates,
                "max_tool_calls": config.harness.max_tool_calls,
            }

        return state

    def _state_at_book(self, step: ResearchStep, last: StepRecord | None) -> dict[str, Payload]:
        """Return the state for an account at book value: labels, and the account as ordered
        weights.
        """
        return {
            "day": DayRef(step.view.day),
            "account": payloads.account_at_book(step),
            "positions": payloads.positions_at_book(step),
            "last_step": None if last is None else payloads.last_step_at_book(step, last),
            "constraints": payloads.constraints(step),
            "universe": self._universe,
        }


class KtdfinTask:
    """One variant: a mask, a mode, and the limits of market and harness. Implements
    `ktdeval.api.Task`.
    """

    def __init__(self, name: str, config: KtdfinConfig) -> None:
        self.name = name
        self.version = config.version
        self.mask: str = config.mask
        self.mode: str = config.mode
        self.tools = config.tools
        self.metrics = config.metrics
        self.harness = config.harness
        self.trading = config.trading
        self.windows: Mapping[str, Window] = windows_of(config)
        self.default_windows = config.default_windows
        self._config = config
        hides = config.mask != "bright" and self.mode == "memory_only"
        self.traits = TaskTraits(
            needs_a_shares=True,
            adds_positions=False,  # candidates depend only on the market
            account_at_book=config.is_at_book,
            identifiable_by_account=hides and not config.is_at_book,
        )

    def describe(self) -> Mapping[str, JsonValue]:
        """Return the whole config and the hashes of the prompts."""
        config = self._config
        files = (*_rules_files(config), *_tool_files(config), *_submission_files(config))
        files = (*files, "user", "request")
        if config.trading.limit_orders:
            files = (*files, _LIMIT_COSTS)

        prompts = {f"{name}.md": sha256_hex(_prompt_text(name)) for name in files}
        return {"name": self.name, **to_mapping(self._config), "prompts": prompts}

    def scene(self, spec: EpisodeSpec, snapshot: MarketSnapshot) -> KtdfinScene:
        """Open one episode. Raises DataError if the window lies outside the snapshot."""
        lens = self._config.lens(spec, snapshot)
        # A code's index membership can reveal the day, even if everything else is masked.
        lens.only_shown = self.mode == "memory_only" and lens.hides_dates
        stage = EpisodeStage.open(snapshot, lens, (self.harness, self.trading))
        return KtdfinScene(self._config, lens, stage, self._config.length_words(spec.span))
