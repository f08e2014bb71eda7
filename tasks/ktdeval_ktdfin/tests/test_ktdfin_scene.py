"""What a KTD-Fin task shows at each step, and whole episodes of it with the built-in models."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError
from ktdeval.harness import Observation
from ktdeval.harness.chat_messages import Reply, ToolCall
from ktdeval.registry import load_plugins
from ktdeval.stats.performance_metrics import parse_failure_rate
from ktdeval.testing import not_empty, small_market, step_record
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.trading.types import BOOK_NAV, Account, Position
from ktdeval_ktdfin.task import KtdfinConfig, KtdfinScene, KtdfinTask
from support.figures.metric_cases import order
from support.paths import REPOSITORY
from support.tasks.ktdfin_market import rows, spec_of
from support.tasks.ktdfin_play import Play, Scripted

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")
MARKET = small_market()
PLUGINS = load_plugins()
ACCOUNT = Account(
    50_000_000, {4: Position(1200, 100), 0: Position(700), 5: Position(300), 3: Position(2050)}
)
RECORD = step_record(
    MARKET,
    2,
    300,
    failures={"schema": 1},
    orders=[
        order(MARKET.codes[4], filled=1200, price_ticks=123_400, fee_minor=740),
        order(
            None,
            filled=0,
            stock_id="600519",
            target_weight=None,
            shares=100,
            rule="universe",
            price_ticks=0,
        ),
    ],
    corporate_actions=[
        {
            "code": MARKET.codes[3],
            "ratio": 2.0,
            "shares_before": 1025,
            "shares_after": 2050,
            "cash_minor": 0,
        }
    ],
)


def scene_of(name: str, seed: int = 0, market: Any = MARKET) -> KtdfinScene:
    task = PLUGINS.make_task(name)
    return task.scene(spec_of(name, task.mask, task.mode, seed), market)


def state_of(user: str) -> dict[str, Any]:
    (block,) = re.findall(r"```json\n(.*)\n```", user)
    return json.loads(block)


def observed(
    name: str, step: int = 3, seed: int = 0, market: Any = MARKET, last: StepRecord = RECORD
) -> tuple[str, dict[str, Any]]:
    observation = shown_by(name, step, seed, market, last)
    return observation.system, state_of(observation.user)


def shown_by(
    name: str, step: int = 3, seed: int = 0, market: Any = MARKET, last: StepRecord = RECORD
) -> Observation:
    scene = scene_of(name, seed, market)
    return scene.observe(step, market.as_of(scene.lens.base_row + step), ACCOUNT, last)


def shown_at(scene: KtdfinScene, step: int, account: Account) -> dict[str, Any]:
    """State that a scene shows after nothing was traded."""
    return state_of(
        scene.observe(step, MARKET.as_of(scene.lens.base_row + step), account, None).user
    )


@pytest.mark.slow
def test_rules_of_boards_that_the_prompts_do_not_state_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "family: mine\n"
        'version: "1"\n'
        "summary: The rules of the exchange\n"
        "variants:\n"
        "  mine:\n"
        "    extends: blinded_memory_only\n"
        "    trading: {board_rules: exchange}\n"
    )
    plan = ["plan", "--model", "builtin/hold", "--tasks", str(file)]

    assert main(plan) == 2
    assert "board_rules: KTD-Fin's prompts and tools state" in capsys.readouterr().err

    file.write_text(file.read_text().replace("exchange}", "paper}"))
    assert main(plan) == 0


@pytest.mark.parametrize("mode", MODES)
def test_system_prompt_is_the_same_under_every_mask_and_states_the_limits(mode: str) -> None:
    """But for the line on the length of the episode."""
    of_masks = [observed(f"{mask}_{mode}")[0] for mask in MASKS]
    prompts = {re.sub("\n- (The last day|Episodes of this task).*", "", one) for one in of_masks}
    assert len(prompts) == 1

    (prompt,) = prompts
    assert "$" not in prompt

    limits = (
        "CNY 1,000,000",
        "lots of 100 shares",
        "at least 200 shares",
        "9.5 % (main board)",
        "29.5 % (bse board)",
        "5 basis points",
        "15 basis points",
        "At most 20 stocks",
        "above 10 % of NAV",
        "at least 10 characters",
    )

    for limit in limits:
        assert limit in prompt


@pytest.mark.parametrize("heading", ["# When things happen", "# Rules"])
def test_rules_are_worded_alike_in_all_three_prompts(heading: str) -> None:
    folder = REPOSITORY / "tasks" / "ktdeval_ktdfin" / "prompts"
    texts = [(folder / f"system_{mode}.md").read_text() for mode in MODES]
    sections = {text.split(heading)[1].split("\n# ")[0] for text in texts}
    assert len(sections) == 1, heading


def test_each_mode_shows_what_it_may_in_an_order_without_codes() -> None:
    common = {"day", "account", "positions", "last_step"}
    memory = observed("blinded_memory_only")[1]
    paper = observed("blinded_memory_only_paper")[1]
    research = observed("bright_open_research")[1]

    assert set(memory) == common | {"universe"}
    assert set(paper) == common | {"universe", "performance"}
    assert set(research) == common | {"performance"}
    assert (
        len(memory["universe"])
        == MARKET.member[scene_of("blinded_memory_only").lens.base_row + 3].sum()
    )
    assert all(re.fullmatch(r"asset_\d{4}", handle) for handle in memory["universe"])

    first, second = (observed("bright_memory_only", seed=seed)[1]["universe"] for seed in (0, 1))
    assert sorted(first) != first != second


AT_BOOK = Account(
    700_000_000, {3: Position(50_000_000), 4: Position(100_000_000), 0: Position(150_000_000)}
)


@pytest.mark.parametrize("mask", MASKS)
def test_memory_only_account_shows_nothing_derived_from_a_price(
    mask: str,
) -> None:
    """No cash, value, price, fill, outcome, split, lock or return, and no board."""
    scene = scene_of(f"{mask}_memory_only")
    label = scene.lens.asset_handle
    observation = scene.observe(3, MARKET.as_of(scene.lens.base_row + 3), AT_BOOK, RECORD)
    state = state_of(observation.user)

    assert state["account"] == {"cash_weight": 0.7, "positions_held": 3}
    assert state["positions"] == {
        "columns": ["stock_id", "weight"],
        "rows": [[label(0), 0.15], [label(4), 0.1], [label(3), 0.05]],
    }
    assert state["last_step"] == {
        "decided_by": "model",
        "failures": {"schema": 1},
        "orders": {
            "columns": ["stock_id", "side", "target_weight"],
            "rows": [[label(4), "BUY", 0.05], [None, "BUY", None]],
        },
    }
    assert "no figure that follows from a price" in observation.system
    assert "Orders in shares are not accepted" in observation.system


@pytest.mark.parametrize("mask", ["bright", "date_blind"])
def test_the_papers_account_view_is_that_of_other_modes(mask: str) -> None:
    paper, table = (
        observed(f"{mask}_{mode}")[1] for mode in ("memory_only_paper", "fixed_candidate")
    )
    shared = set(table) - {"candidates", "holdings"}
    assert {name: paper[name] for name in shared} == {name: table[name] for name in shared}


@pytest.mark.parametrize("mask", MASKS)
def test_the_list_of_labels_tells_no_day(mask: str) -> None:
    """The same names in all steps, though two leave the index and two join it. Where codes are shown
    and days hidden, it has every stock of the market: later members must not show either.
    """
    early, late = (observed(f"{mask}_memory_only", step=step)[1]["universe"] for step in (0, 15))
    scene = scene_of(f"{mask}_memory_only")
    start = scene.lens.base_row
    members = MARKET.member[start]

    assert MARKET.member[start + 15].tolist() != members.tolist()
    assert early == late

    if mask == "date_blind":
        members = np.ones_like(members)
    assert sorted(early) == sorted(map(scene.lens.asset_handle, np.flatnonzero(members).tolist()))


@pytest.mark.parametrize(("mask", "listed"), [("blinded", 6), ("stock_blind", 5), ("bright", 5)])
def test_where_days_are_hidden_a_list_has_one_length_on_all_days(mask: str, listed: int) -> None:
    """The index has five members, and one more from the next day on. The sixth label is of a stock
    that is a member on some other day.
    """
    member = MARKET.member.copy()
    start = scene_of("bright_memory_only").lens.base_row
    member[: start + 1] &= member[start].cumsum() <= 5
    member[start + 1 :] = member[start]
    member[start + 1 :, np.flatnonzero(~member[start])[0]] = True
    market = replace(MARKET, member=member)
    assert member.sum(axis=1).max() == 6

    names = observed(f"{mask}_memory_only", market=market)[1]["universe"]
    assert len(names) == listed


def test_where_days_are_hidden_every_listed_code_is_a_label_and_no_other() -> None:
    """Whether a code has joined the index would tell the day."""
    member = MARKET.member.copy()
    member[-1, -1] = True
    market = replace(MARKET, member=member)
    joins_last = market.codes[-1]

    for mask, is_label in (("bright", False), ("date_blind", True)):
        scene = scene_of(f"{mask}_memory_only", market=market)
        shown_at(scene, 0, Account(BOOK_NAV, {}))
        assert (scene.lens.parse_asset(joins_last) is not None) == is_label

    fresh = scene_of("date_blind_memory_only")
    assert fresh.lens.parse_asset(MARKET.codes[0]) is None


def test_a_suspended_holding_is_valued_at_its_last_close_in_todays_terms() -> None:
    scene = scene_of("bright_fixed_candidate")
    row = next(
        day
        for day in range(scene.lens.base_row, len(MARKET.days))
        if np.isnan(MARKET.close[day, 5])
    )
    last_close = MARKET.close[:row, 5][~np.isnan(MARKET.close[:row, 5])][-1]
    (held,) = rows(
        shown_at(scene, row - scene.lens.base_row, Account(0, {5: Position(300)}))["positions"]
    )

    assert (held["status"], held["last_close_cny"]) == ("suspended", last_close)
    assert held["value_cny"] == pytest.approx(300 * last_close)


def test_candidates_leave_out_suspended_limit_up_and_non_member_names() -> None:
    scene = scene_of("bright_fixed_candidate")
    row = scene.lens.base_row + 2
    close = MARKET.close.copy()
    up = 9
    close[row, up] = round(float(close[row - 1, up]) * 1.4, 2)
    down = 10
    close[row, down] = round(float(close[row - 1, down]) * 0.6, 2)
    market = replace(
        MARKET, close=close, high=np.fmax(MARKET.high, close), low=np.fmin(MARKET.low, close)
    )
    context = scene_of("bright_fixed_candidate", market=market).tool_context(
        2, market.as_of(row), ACCOUNT
    )

    assert (context.status(up), context.status(down)) == ("limit_up", "limit_down")
    assert not context.candidates[up]
    assert context.candidates[down] == market.member[row, down]
    assert not context.candidates[~market.member[row]].any()
    assert not context.candidates[np.isnan(market.close[row])].any()


def test_last_steps_outcomes_are_shown_without_repeating_unknown_stocks() -> None:
    _, state = observed("blinded_open_research")
    filled, rejected = rows(state["last_step"]["orders"])
    handle = scene_of("blinded_open_research").lens.asset_handle
    wanted = {
        "stock_id": handle(4),
        "status": "filled",
        "filled_shares": 1200,
        "fill_price_cny": 12.34,
        "cost_cny": 7.4,
    }

    assert filled.items() >= wanted.items()
    assert (
        rejected.items() >= {"stock_id": None, "rule": "universe", "fill_price_cny": None}.items()
    )
    assert "600519" not in json.dumps(state)

    (split,) = rows(state["last_step"]["splits_and_dividends"])
    assert (split["stock_id"], split["share_ratio"], split["shares_after"]) == (handle(3), 2, 2050)


def test_holdings_outside_the_candidates_get_the_same_table() -> None:
    _, state = observed("blinded_fixed_candidate")
    candidates = {row["stock_id"] for row in rows(state["candidates"])}
    holdings = {row["stock_id"] for row in rows(state["holdings"])}
    positions = {row["stock_id"] for row in rows(state["positions"])}

    assert state["holdings"]["columns"] == state["candidates"]["columns"]
    assert positions <= candidates | holdings
    assert not candidates & holdings


def test_numbers_are_equal_under_all_masks() -> None:
    def numbers(mask: str) -> list[Any]:
        _, state = observed(f"{mask}_fixed_candidate")
        figures = []
        for row in state["candidates"]["rows"]:
            figures.append([cell for cell in row if not isinstance(cell, str)])

        return sorted(figures)

    assert (
        numbers("bright") == numbers("stock_blind") == numbers("date_blind") == numbers("blinded")
    )


def test_rebased_prices_hide_levels_but_not_weights() -> None:
    config = {
        **PLUGINS.specs("tasks")["blinded_open_research"].extra["config"],
        "rebase_prices": True,
    }
    task = KtdfinTask("rebased", KtdfinConfig.load(config, "test"))
    account = Account(0, {4: Position(1200)})
    (plain,) = rows(shown_at(scene_of("blinded_open_research"), 0, account)["positions"])
    scene = task.scene(spec_of("rebased", "blinded", "open_research"), MARKET)
    (rebased,) = rows(shown_at(scene, 0, account)["positions"])

    assert rebased["last_close_cny"] == 100
    assert rebased["value_cny"] == plain["value_cny"]
    assert rebased["shares"] * 100 == pytest.approx(1200 * plain["last_close_cny"])


# ---- whole episodes


def play(task: str, model: str, steps: int = 8, seed: int = 0) -> Play:
    episode = Play(PLUGINS.make_task(task), PLUGINS.make_model(f"builtin/{model}"), MARKET, seed)
    episode.run(steps)
    return episode


@pytest.mark.parametrize(
    "model", ["hold", "random", "momentum", "reversal", "low_volatility", "equal_weight"]
)
def test_well_behaved_models_use_tools_without_failure(model: str) -> None:
    records = not_empty(play("blinded_open_research", model).records)
    assert all(record.failures == {} and record.provenance == "model" for record in records)
    assert all(record.tool_calls_valid == record.tool_calls >= 2 for record in records)

    if model != "random":
        idle = not_empty(play("blinded_memory_only", model, 3).records, 3)
        assert all(record.orders == () and record.provenance == "model" for record in idle)


class Overheard:
    """A model of this machine, and all that it was sent but its own words."""

    def __init__(self, name: str) -> None:
        self.model, self.texts = PLUGINS.make_model(f"builtin/{name}"), [""]

    def reply(self, request: Any) -> Reply:
        self.texts += [
            message.content for message in request.messages if message.role in ("user", "tool")
        ]
        return self.model.reply(request)


def exact_figures(value: Any, name: str = "") -> set[str]:
    """Names of the fields and columns of a JSON value in which a number has more than three
    significant digits.
    """
    if isinstance(value, dict) and "columns" in value:
        return set().union(
            *(exact_figures(dict(zip(value["columns"], row, strict=True))) for row in value["rows"])
        )

    if isinstance(value, dict):
        return set().union(*(exact_figures(item, key) for key, item in value.items()))

    if isinstance(value, list):
        return set().union(*(exact_figures(item, name) for item in value))

    return {name} if type(value) in (int, float) and float(f"{value:.2e}") != value else set()


OF_THE_ACCOUNT = {
    "cash_weight",
    "weight",
    "weight_now",
    "largest_weight",
    "traded_weight",
    "portfolio_return_pct",
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fixed_candidate", "open_research"])
def test_rebased_tasks_show_no_exact_figure_of_a_market_in_prompt_or_tools(mode: str) -> None:
    shown: dict[str, set[str]] = {}
    for task in (f"blinded_{mode}", f"blinded_rebased_{mode}"):
        model = Overheard("momentum")
        episode = Play(PLUGINS.make_task(task), model, MARKET)
        records = episode.run(8)
        orders = chain.from_iterable(record.orders for record in records)
        assert any(order.status == "filled" for order in orders)
        texts = []
        for text in model.texts:
            texts += [
                block
                for block in re.findall(r"```json\n(.*)\n```", text) or [text]
                if block[:1] == "{"
            ]

        # what a model may ask that looks for prices: a lot, all it holds, each figure of many
        if mode == "open_research":
            session = episode.session(8)[1]
            handles = [episode.scene.lens.asset_handle(asset) for asset in range(12)]
            asked = {
                "risk_check": {"target_weights": dict.fromkeys(handles, 0.02)},
                "get_stock_snapshot": {"stock_id": handles[3], "lookback": 120},
                "compare_candidates": {
                    "stock_ids": handles,
                    "dims": ["amount_20d_cny", "return_20d_pct", "SKEW"],
                },
                "portfolio_state": {},
                "get_market_context": {},
                "screen_candidates": {"factors": ["-RV_60"], "k": 30},
            }
            texts += [
                session.call_tool(ToolCall("1", name, json.dumps(arguments))).text
                for name, arguments in asked.items()
            ]

        shown[task] = set().union(*(exact_figures(json.loads(text)) for text in texts))

    plain, rebased = shown.values()

    assert {
        "close_cny",
        "open_cny",
        "amount_cny",
        "value_cny",
        "cash_cny",
        "last_close_cny",
    } <= plain
    assert rebased <= OF_THE_ACCOUNT


@pytest.mark.slow
def test_chaos_trades_and_fails_in_many_ways_and_is_always_recorded() -> None:
    records = play("blinded_open_research", "chaos", 18).records
    assert len(records) == 18
    assert {record.provenance for record in records} <= {
        "model",
        "model_after_retry",
        "fallback",
        "error",
    }
    assert len(set(chain.from_iterable(record.failures for record in records))) >= 8

    orders = chain.from_iterable(record.orders for record in records)
    assert any(order.status == "filled" for order in orders)
    assert sum(record.unmask_attempts for record in records) > 0


def submission(*orders: dict[str, Any]) -> Reply:
    filled = [
        {"side": "BUY", "confidence": 0.6, "reason": "because it fits", **order} for order in orders
    ]
    arguments = json.dumps({"orders": filled, "overall_reason": "as it is"})
    return Reply(
        tool_calls=(ToolCall("1", "submit_action", arguments),), finish_reason="tool_calls"
    )


@pytest.mark.parametrize("mask", MASKS)
def test_an_action_that_breaks_a_rule_costs_a_retry_and_is_well_formed(
    mask: str,
) -> None:
    task = PLUGINS.make_task(f"{mask}_memory_only")
    lens = scene_of(task.name).lens
    first, second = (lens.asset_handle(asset) for asset in (1, 2))
    bad = submission(
        {"stock_id": first, "target_weight": 0.05}, {"stock_id": second, "target_weight": 0.11}
    )
    model = Scripted(
        bad,
        submission({"stock_id": second, "side": "SELL", "target_weight": 0.0}),
        submission(),
        *[bad] * 4,
    )
    play = Play(task, model, MARKET)
    retried, refused = play.run(2)

    assert (retried.provenance, retried.failures, retried.submissions) == (
        "model_after_retry",
        {"constraint": 2},
        3,
    )
    assert (refused.provenance, refused.failures, refused.orders) == (
        "fallback",
        {"constraint": 4, "constraint_after_retries": 1},
        (),
    )

    feedback = [
        json.loads(request.messages[-1].content)["error"] for request in model.requests[1:3]
    ]

    assert [error["problems"][0]["at"] for error in feedback] == ["orders[1]", "orders[0]"]
    assert [error["problems"][0]["rule"].split(":")[0] for error in feedback] == [
        "weight_limit",
        "holding",
    ]
    assert (
        parse_failure_rate.compute(
            Ledger({}, 100_000_000, [retried, refused]), MARKET, "paper"
        ).value
        == 0.0
    )
    assert "A submission that breaks a rule" in model.requests[0].messages[0].content


@pytest.mark.parametrize(
    ("order", "failed"), [("constraint last", 0.0), ("constraint first", 1.0), ("texts", 1.0)]
)
def test_a_parse_failure_is_judged_by_the_submission_after_the_last_retry(
    order: str, failed: float
) -> None:
    task = PLUGINS.make_task("bright_memory_only")
    broken = submission({"stock_id": MARKET.codes[8], "target_weight": 0.11})
    out_of_form = submission({"stock_id": MARKET.codes[8]})
    replies = {
        "constraint last": [*[out_of_form] * 3, broken],
        "constraint first": [broken, *[out_of_form] * 3],
        "texts": [broken, *[Reply("I hold.")] * 3],
    }
    (record,) = Play(task, Scripted(*replies[order]), MARKET).run(1)

    assert (record.provenance, record.submissions) == ("fallback", 4)

    of = Ledger({}, 100_000_000, [record])
    assert parse_failure_rate.compute(of, MARKET, "strict").value == failed


def test_memory_only_takes_no_order_in_shares() -> None:
    """Its weight at book would need a price."""
    stock = MARKET.codes[8]
    in_shares = submission({"stock_id": stock, "shares": 900})
    model = Scripted(in_shares, submission({"stock_id": stock, "target_weight": 0.05}))
    (record,) = Play(PLUGINS.make_task("bright_memory_only"), model, MARKET).run(1)

    assert (record.provenance, record.failures) == ("model_after_retry", {"schema": 1})
    (problem,) = json.loads(model.requests[1].messages[-1].content)["error"]["problems"][:1]
    assert problem["at"] == "orders[0]"


def test_an_account_at_book_is_refused_where_prices_are_shown() -> None:
    config = replace(PLUGINS.make_task("blinded_fixed_candidate")._config, account="book")
    with pytest.raises(ConfigError, match="account: mode fixed_candidate shows prices"):
        config.check("mine.yaml")


@pytest.mark.parametrize("change", ["rebase_prices: true", "round_digits: 3", "noise_pct: 1.0"])
def test_a_mask_of_prices_is_refused_where_no_price_is_shown(change: str) -> None:
    name, value = change.split(": ")
    task = PLUGINS.make_task("blinded_memory_only")
    config = replace(task._config, **{name: json.loads(value)})

    with pytest.raises(ConfigError, match="mode memory_only shows no prices, and rescaled shares"):
        config.check("mine.yaml")


def test_task_without_constraint_feedback_leaves_checks_to_the_executor() -> None:
    task = PLUGINS.make_task("bright_memory_only")
    quiet = KtdfinTask(
        task.name, replace(task._config, trading=replace(task.trading, constraint_feedback=False))
    )
    model = Scripted(
        submission({"stock_id": MARKET.codes[2], "side": "SELL", "target_weight": 0.0})
    )
    (record,) = Play(quiet, model, MARKET).run(1)

    assert (record.provenance, record.failures, record.orders[0].rule) == ("model", {}, "holding")
    assert "a submission that breaks a rule" not in model.requests[0].messages[0].content
