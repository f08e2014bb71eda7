"""The keyless models: what they ask for, what they trade, that they look at figures and never at
labels; replays by themselves.

`builtin/recall` votes by words that it remembers, `builtin/tally` by the views in its prompt,
written by desks or passed on.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import ConfigError, ModelError, UsageError
from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, Reply, ToolSpec
from ktdeval.keyless import Conversation, Ranking, Sizing, buyable, rebalance
from ktdeval.registry import load_plugins
from ktdeval.testing import Terminal, on_each_row
from ktdeval_models.builtin_models import make_builtin
from ktdeval_models.chaos import ERROR_KINDS, RESEARCH_MISDEEDS, SUBMISSION_MISDEEDS
from ktdeval_models.params import (
    ChaosParams,
    EqualWeightParams,
    LinearFactorParams,
    RandomParams,
    RankParams,
)
from support.runs.run_support import WINDOW
from support.tasks.shown_states import with_state

PLUGINS = load_plugins()
NAMES = ("hold", "random", "equal_weight", "momentum", "reversal", "low_volatility", "chaos")
SUBMIT = ToolSpec("submit_action", "Submit.", {"type": "object"})
TOOLS = tuple(
    ToolSpec(name, name, {"type": "object"})
    for name in (
        "get_market_context",
        "screen_candidates",
        "compare_candidates",
        "portfolio_state",
        "risk_check",
    )
)
LIMITS = {
    "max_positions": 3,
    "max_weight": 0.4,
    "lot_shares": 100,
    "star_min_shares": 200,
    "min_reason_chars": 10,
}
FIGURES = (
    "stock_id",
    "board",
    "status",
    "close_cny",
    "MOM_12_1",
    "RV_60",
    "ILLIQ",
    "return_20d_pct",
)
POSITION = ("stock_id", "weight", "member", "status")


def state(positions: Any = (), cash: float = 1.0, **more: Any) -> dict[str, Any]:
    account = {"cash_weight": cash, "nav_cny": 1e6}
    return {
        "account": account,
        "positions": table(POSITION, positions),
        "constraints": LIMITS,
        **more,
    }


def table(columns: Any, rows: Any) -> dict[str, Any]:
    return {"columns": list(columns), "rows": [list(row) for row in rows]}


def request(
    shown: dict[str, Any], *later: Message, submit: bool = True, seed: int = 1
) -> ModelRequest:
    messages = (
        Message("system", "s"),
        Message("user", f"Day\n```json\n{json.dumps(shown)}\n```\nDecide."),
        *later,
    )
    asked = ModelRequest(
        messages,
        (SUBMIT,) if submit else TOOLS,
        "submit_action" if submit else None,
        CallParams(seed=seed),
    )
    return with_state(asked)


def candidates(*rows: Any) -> dict[str, Any]:
    return table(FIGURES, rows)


def submitted(reply: Reply) -> list[dict[str, Any]]:
    (call,) = reply.tool_calls
    assert call.name == "submit_action"
    return json.loads(call.arguments)["orders"]


def stocks(reply: Reply) -> dict[str, tuple[str, float]]:
    return {
        order["stock_id"]: (order["side"], order["target_weight"]) for order in submitted(reply)
    }


FOUR = candidates(
    ("a", "main", "trading", 10.0, 5.0, 40.0, -20.0, 9.0),
    ("b", "main", "trading", 10.0, 9.0, 30.0, -22.0, 1.0),
    ("c", "main", "trading", 10.0, 7.0, 20.0, -19.0, 2.0),
    ("d", "main", "trading", 10.0, 1.0, 10.0, -23.0, 3.0),
)


def test_every_model_is_made_by_name_with_parameters() -> None:
    assert {f"builtin/{name}" for name in NAMES} <= set(PLUGINS.specs("models"))
    assert PLUGINS.make_model("builtin/momentum", {"positions": 5}).params == RankParams(
        positions=5
    )
    assert (RankParams().positions, RankParams().keep_rank, EqualWeightParams().band) == (
        20,
        30,
        0.25,
    )

    with pytest.raises(UsageError, match="momentum"):
        make_builtin("momentun")


def held(*positions: Any, cash: float, shown: Any = FOUR) -> dict[str, Any]:
    return state(positions, cash, candidates=shown, holdings=table(FIGURES, ()))


@on_each_row(
    "name, params, positions, cash, orders",
    # The best of the table, in order.
    ("momentum", {}, [], 1.0, {"b": ["BUY", 0.3267], "c": ["BUY", 0.3267], "a": ["BUY", 0.3267]}),
    ("reversal", {}, [], 1.0, {"b": ["BUY", 0.3267], "c": ["BUY", 0.3267], "d": ["BUY", 0.3267]}),
    (
        "low_volatility",
        {},
        [],
        1.0,
        {"d": ["BUY", 0.3267], "c": ["BUY", 0.3267], "b": ["BUY", 0.3267]},
    ),
    (
        "equal_weight",
        {},
        [],
        1.0,
        {"d": ["BUY", 0.3267], "b": ["BUY", 0.3267], "a": ["BUY", 0.3267]},
    ),
    # a: 5 - 40 / 4 = -5, b: 9 - 7.5 = 1.5, c: 7 - 5 = 2, d: 1 - 2.5 = -1.5
    (
        "linear_factor",
        {"coefficients": "MOM_12_1:1 RV_60:-0.25"},
        [],
        1.0,
        {"c": ["BUY", 0.3267], "b": ["BUY", 0.3267], "d": ["BUY", 0.3267]},
    ),
    (
        "linear_factor",
        {"coefficients": "MOM_12_1:0 RV_60:-0.2", "positions": 1},
        [],
        1.0,
        {"d": ["BUY", 0.38]},
    ),
    # A holding is kept while it ranks high enough, and sold after.
    (
        "momentum",
        {"positions": 2, "keep_rank": 3},
        [["a", 0.32, True, "trading"], ["d", 0.32, True, "trading"]],
        0.36,
        {"d": ["SELL", 0.0], "b": ["BUY", 0.38]},
    ),
    (
        "momentum",
        {"positions": 2, "keep_rank": 4},
        [["a", 0.32, True, "trading"], ["d", 0.32, True, "trading"]],
        0.36,
        {},
    ),
    # One that left the index is sold, one that can't trade is not.
    # Weights outside the band are corrected, those inside are kept.
    (
        "momentum",
        {},
        [
            ["x", 0.3, False, "trading"],
            ["y", 0.3, False, "suspended"],
            ["z", 0.3, True, "limit_down"],
        ],
        0.1,
        {"x": ["SELL", 0.0], "b": ["BUY", 0.3267]},
    ),
    (
        "equal_weight",
        {},
        [["a", 0.45, True, "trading"], ["b", 0.3, True, "trading"], ["c", 0.1, True, "trading"]],
        0.15,
        {"a": ["SELL", 0.3267], "c": ["BUY", 0.3267]},
    ),
)
def test_orders_follow_from_the_figures_shown(
    name: str, params: Any, positions: Any, cash: float, orders: Any
) -> None:
    model = PLUGINS.make_model(f"builtin/{name}", params)
    trades = stocks(model.reply(request(held(*positions, cash=cash))))
    assert list(trades.items()) == [(stock, tuple(order)) for stock, order in orders.items()]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("random", "chaos")])
def test_without_data_they_hold(name: str) -> None:
    only_labels = state([("a", 0.3, True, "trading")], 0.7, universe=["a", "b", "c"])
    assert stocks(make_builtin(name).reply(request(only_labels))) == {}


def test_buys_share_the_cash_and_pass_over_names_too_dear_for_a_lot() -> None:
    dear = (
        ("e", "main", "trading", 9_000.0, 99.0, 1.0, 1.0, 1.0),
        ("s", "star", "trading", 1_700.0, 98.0, 1.0, 1.0, 1.0),
    )
    shown = held(("q", 0.9, True, "suspended"), cash=0.1, shown=candidates(*dear, *FOUR["rows"]))
    trades = stocks(make_builtin("momentum").reply(request(shown)))

    assert list(trades.items()) == [("b", ("BUY", 0.0475)), ("c", ("BUY", 0.0475))]


def test_linear_model_requests_each_factor_in_its_coefficients_direction() -> None:
    model = make_builtin(
        "linear_factor", LinearFactorParams(coefficients="MOM_12_1:0.02 RV_60:-0.1")
    )
    calls = model.reply(request(state([("a", 0.3, True, "trading")], 0.7), submit=False)).tool_calls
    asked = {call.name: json.loads(call.arguments) for call in calls}

    assert asked["screen_candidates"]["factors"] == ["MOM_12_1", "-RV_60"]
    assert asked["compare_candidates"] == {"stock_ids": ["a"], "dims": ["MOM_12_1", "RV_60"]}


@on_each_row(
    "coefficients, problem",
    ("", "at least one"),
    ("RV_60:0", "at least one"),
    ("MOM_121:1", "did you mean 'MOM_12_1'"),
    ("RV_60:low", "NAME:NUMBER"),
    ("RV_60", "NAME:NUMBER"),
    ("RV_60:1 RV_60:2", "twice"),
    ("RV_60:inf", "not finite"),
    ("MOM_12_1:1 RV_60:1 ILLIQ:1 REV_ON:1 MOM_ID:1 SKEW:1 CORR_PV:1", "at most 6"),
)
def test_unusable_coefficients_are_refused(coefficients: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make_builtin("linear_factor", LinearFactorParams(coefficients=coefficients))


def test_unbuyable_names_are_skipped() -> None:
    rows = [
        {"status": "trading"},
        {"status": "limit_up"},
        {"status": "limit_down"},
        {"status": "suspended"},
    ]

    assert buyable(rows) == [{"status": "trading"}, {"status": "limit_down"}]


def test_ties_are_broken_by_figures_not_labels() -> None:
    rows = [
        ("p", "main", "trading", 10.0, 5.0, 2.0, 1.0, 1.0),
        ("q", "main", "trading", 10.0, 5.0, 1.0, 1.0, 1.0),
    ]
    model = make_builtin("momentum", RankParams(positions=1))

    for shown, best in ((rows, "q"), ([("x", *rows[1][1:]), ("a", *rows[0][1:])], "x")):
        reply = model.reply(request(held(cash=1.0, shown=candidates(*shown))))
        assert list(stocks(reply)) == [best]


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("hold", ["get_market_context", "portfolio_state"]),
        ("random", ["get_market_context", "screen_candidates"]),
        ("equal_weight", ["get_market_context", "screen_candidates", "compare_candidates"]),
        ("momentum", ["get_market_context", "screen_candidates", "compare_candidates"]),
    ],
)
def test_models_call_the_tools_that_are_offered(name: str, called: list[str]) -> None:
    shown = state([("a", 0.3, True, "trading")], 0.7)
    reply = make_builtin(name).reply(request(shown, submit=False))
    assert [call.name for call in reply.tool_calls] == called


def test_plan_is_risk_checked_and_orders_in_violation_are_dropped() -> None:
    model = make_builtin("momentum")
    shown = state()
    lookups = model.reply(request(shown, submit=False))
    best_first = candidates(*(FOUR["rows"][number] for number in (1, 2, 0, 3)))
    answers = [Message("assistant", "", lookups.tool_calls)]

    for call in lookups.tool_calls:
        body = {"candidates": best_first} if call.name == "screen_candidates" else {}
        answers.append(Message("tool", json.dumps(body), tool_call_id=call.id))

    check = model.reply(request(shown, *answers, submit=False))
    (call,) = check.tool_calls

    assert (call.name, call.arguments) == (
        "risk_check",
        '{"target_weights": {"b": 0.3267, "c": 0.3267, "a": 0.3267}}',
    )

    report = {"plan": table(("stock_id", "violation"), [("b", None), ("c", "lot"), ("a", None)])}
    answers += [
        Message("assistant", "", check.tool_calls),
        Message("tool", json.dumps(report), tool_call_id=call.id),
    ]

    assert model.reply(request(shown, *answers, submit=False)).tool_calls == ()
    assert list(stocks(model.reply(request(shown, *answers)))) == ["b", "a"]


def test_random_trades_come_from_the_requests_seed_alone() -> None:
    shown = state(universe=[f"asset_{number:04d}" for number in range(50)])
    model = make_builtin("random", RandomParams(max_buys=5))
    replies = [model.reply(request(shown, seed=seed)) for seed in range(12)]

    assert replies == [model.reply(request(shown, seed=seed)) for seed in range(12)]
    assert len({reply.tool_calls[0].arguments for reply in replies}) > 6

    orders = chain.from_iterable(map(submitted, replies))
    assert all(0 < order["target_weight"] <= 0.08 for order in orders)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("submit", "misdeeds"), [(False, RESEARCH_MISDEEDS), (True, SUBMISSION_MISDEEDS)]
)
def test_chaos_is_deterministic_and_reaches_every_misdeed(submit: bool, misdeeds: Any) -> None:
    shown = state([("a", 0.1, True, "trading")], 0.9, candidates=FOUR)
    chaos = make_builtin("chaos", ChaosParams(misbehaviour=1.0, model_errors=0.0))
    replies = [chaos.reply(request(shown, submit=submit, seed=seed)) for seed in range(300)]

    assert replies == [chaos.reply(request(shown, submit=submit, seed=seed)) for seed in range(300)]
    assert len({(reply.content, reply.tool_calls, reply.finish_reason) for reply in replies}) > len(
        misdeeds
    )
    assert {reply.finish_reason for reply in replies} == {
        "stop",
        "tool_calls",
        "length",
        "refusal",
        "content_filter",
    }


@pytest.mark.slow
def test_chaos_model_fails_with_known_kinds_and_sometimes_behaves() -> None:
    shown = state([("a", 0.1, True, "trading")], 0.9, candidates=FOUR)
    kinds = set()
    sound = 0

    for seed in range(400):
        try:
            reply = make_builtin("chaos", ChaosParams(misbehaviour=0.5, model_errors=0.3)).reply(
                request(shown, seed=seed)
            )
        except ModelError as error:
            kinds.add(error.kind)
            continue

        sound += (
            bool(reply.tool_calls)
            and '"reason": "the dice like this one"' in reply.tool_calls[0].arguments
        )

    assert kinds == set(ERROR_KINDS)
    assert sound > 100


def test_rebalancing_never_spends_more_than_there_is() -> None:
    held = [("a", 0.5, True, "trading"), ("b", 0.05, True, "trading")]
    conversation = Conversation(request(state(held, 0.02, candidates=FOUR)))
    sizing = Sizing.equal(conversation, 3, 0.98, (0.75, 1.25))
    rows = conversation.rows(FOUR)
    intents = rebalance(conversation, Ranking(rows, None, "x"), sizing)
    weights = {"a": 0.5, "b": 0.05}
    spent = sum(intent.target_weight - weights.get(intent.stock_id, 0.0) for intent in intents)

    assert spent <= 0.02


# -- builtin/recall


MODEL = load_plugins().make_model("builtin/recall", {})


def ask(
    news: str,
    *memories: str,
    label: str | None = None,
    weight: float = 0.0,
    shorts: bool = True,
    assets: int = 1,
) -> Reply:
    """Its answer to a prompt with memories before it; with a label, to a lesson."""
    state: dict[str, Any] = {
        "news": {"columns": ["stock_ids", "text"], "rows": [[["asset_1"], news]] if news else []},
        "candidates": {
            "columns": ["stock_id"],
            "rows": [[f"asset_{number}"] for number in range(1, assets + 1)],
        },
    }

    if label is None:
        held = [["asset_1", weight, True, "trading"]] if weight else []
        state["positions"] = {"columns": ["stock_id", "weight", "member", "status"], "rows": held}
        state["account"] = {"nav": 1.0}
        state["constraints"] = {
            "max_weight": 1.0,
            "short_sales": shorts,
            "hold": "flat",
            "min_reason_chars": 1,
        }
    else:
        state["outcomes"] = {
            "columns": ["stock_id", "label"],
            "rows": [[f"asset_{number + 1}", label] for number in range(assets)],
        }

    lines = "\n".join(f"- M{number}: {memory}" for number, memory in enumerate(memories, start=9))
    prompt = f"What you remember:\n\n{lines}\n\n```json\n{json.dumps(state)}\n```\n\nDecide.\n"
    tools, choice = ((SUBMIT,), "submit_action") if label is None else ((), None)
    messages = (Message("system", "s"), Message("user", prompt))

    return MODEL.reply(with_state(ModelRequest(messages, tools, choice)))


def decided(reply: Reply) -> tuple[str, str]:
    submitted = json.loads(reply.tool_calls[0].arguments)
    return submitted["decisions"][0]["decision"], submitted["overall_reason"]


def test_a_lesson_counts_the_words_of_its_news_for_its_label() -> None:
    assert (
        ask("asset_1 raised 12 sales; weak sales", label="BUY").content
        == "votes: raised+1 sales+1 weak+1"
    )

    before = "day_-2, warm-up; it rose: votes: sales-2 weak-1"
    assert ask("Raised sales", before, label="BUY").content == "votes: raised+1 sales-1 weak-1"
    assert ask("raised", before, label="SELL").content == "votes: sales-2 raised-1 weak-1"
    assert (
        ask("raised", before, label="HOLD").content
        == ask("", before, label="BUY").content
        == "votes: sales-2 weak-1"
    )

    many = " ".join(f"{chr(97 + number % 26)}{chr(97 + number // 26)}word" for number in range(60))
    assert ask(many, label="BUY").content.count("+1") == 24


@pytest.mark.parametrize(
    "tools", [(), (ToolSpec("get_market_context", "Indices.", {"type": "object"}),)]
)
def test_as_a_role_that_does_not_submit_it_looks_nothing_up(tools: Any) -> None:
    state = {"account": {"nav": 1.0}, "positions": {}, "constraints": {}}
    asked = Message("user", f"Report.\n```json\n{json.dumps(state)}\n```\n")
    request = with_state(ModelRequest((Message("system", "s"), asked), tools))
    assert MODEL.reply(request) == Reply("Research done.")


def test_it_decides_by_the_newest_votes_that_it_is_shown() -> None:
    old = "day_-9, reflection: votes: raised-5"
    new = "day_-1, reflection: votes: raised+2 weak-3 sales+1"

    # and remembers them again
    assert decided(ask("raised sales", old, new)) == ("BUY", "votes: weak-3 raised+2 sales+1")
    assert decided(ask("raised weak", old, new))[0] == "SELL"
    assert decided(ask("raised weak", old, new, shorts=False))[0] == "HOLD"
    # flat: what was held is sold
    assert decided(ask("raised weak", old, new, weight=1.0, shorts=False))[0] == "HOLD"
    assert decided(ask("raised", old, new, weight=1.0))[0] == "BUY"

    for nothing in (
        ask("unheard of", old, new),
        ask("", old, new),
        ask("raised"),
        ask("raised", "votes of a board", new, assets=2),
    ):
        assert decided(nothing)[0] == "HOLD"


@pytest.mark.parametrize("label", ["BUY", None])
def test_of_several_assets_and_of_plain_prompts_it_learns_nothing(label: str | None) -> None:
    assert "votes" not in ask("raised", label="BUY", assets=2).content

    request = ModelRequest(
        (Message("system", "s"), Message("user", "Hello.")), () if label else (SUBMIT,)
    )

    assert "votes" not in str(MODEL.reply(request).to_json())


# -- replay/RUN by itself


@pytest.mark.exhaustive
def test_a_replay_alone_takes_windows_seeds_and_limit_of_its_run(
    market: Path, tmp_path: Path
) -> None:
    words = ["--tasks", "blinded_open_research", "--quiet", "--data", str(market)]
    first = tmp_path / "first"
    again = tmp_path / "again"
    how = ["--windows", WINDOW, "--seed", "3", "--limit", "2"]

    assert main(["--model", "builtin/momentum", *words, *how, "--out", str(first)]) == 0
    assert main(["--model", f"replay/{first}", *words, "--out", str(again)]) == 0

    orders = [
        pq.read_table(next(run.glob("episodes/*/ledger.parquet"))).column("orders").to_pylist()
        for run in (first, again)
    ]

    assert orders[0] == orders[1]

    for run in (first, again):
        (spec,) = json.loads((run / "manifest.json").read_text())["episodes"]
        assert (spec["window"]["name"], spec["seed"], spec["limit"]) == (WINDOW, 3, 2)


@pytest.mark.exhaustive
def test_a_replay_of_another_task_is_one_line(
    market: Path, tmp_path: Path, terminal: Terminal
) -> None:
    words = ["--windows", WINDOW, "--limit", "1", "--quiet", "--data", str(market)]
    run = str(tmp_path / "run")

    assert (
        main(["--model", "builtin/hold", "--tasks", "bright_open_research", *words, "--out", run])
        == 0
    )
    assert "that run is of bright_open_research" in terminal.error(
        "--model", f"replay/{run}", "--tasks", "blinded_open_research", "--out", tmp_path / "no"
    )


# ---- builtin/tally


TALLY = load_plugins().make_model("builtin/tally", {})
INSTRUCTION = (
    "## Analyst\n\nView of desk 2 on a: rise\nView of desk 3 on a: rise\n\n## Bull\n\nView of desk"
    " 3 on a: rise\n"
)


def views(
    instruction: str = "", *, submits: bool = True, hold: bool = True, weight: float = 0.0
) -> ModelRequest:
    limits: dict[str, Any] = {"max_weight": 1.0, "short_sales": True, "min_reason_chars": 1}
    text = "This desk expects {} to {} by the next close. It is right on seven days of ten."
    rows = [
        ["desk 1", ["a"], text.format("a", "fall")],
        ["desk 1", ["b"], text.format("b", "rise")],
        ["wire", ["a"], "It rose."],
    ]
    state = {
        "account": {},
        "positions": {"columns": ["stock_id", "weight"], "rows": [["c", weight]] if weight else []},
        "constraints": limits | ({"hold": "keep"} if hold else {}),
        "candidates": {
            "columns": ["stock_id", "close"],
            "rows": [["a", 1.0], ["b", 1.0], ["c", 1.0]],
        },
        "news": {"columns": ["source", "stock_ids", "text"], "rows": rows},
    }
    messages = (
        Message("system", INSTRUCTION),
        Message("user", f"{instruction}\n```json\n{json.dumps(state)}\n```"),
    )

    return with_state(ModelRequest(messages, *(((SUBMIT,), "submit_action") if submits else ())))


def tallied(**changes: Any) -> Any:
    (call,) = TALLY.reply(views(**changes)).tool_calls
    return json.loads(call.arguments)


@pytest.mark.parametrize(
    ("instruction", "side"),
    [("", "SELL"), (INSTRUCTION, "BUY"), ("View of desk 9 on a: rise", "HOLD")],
)
def test_the_majority_of_views_decides_each_counted_once(instruction: str, side: str) -> None:
    decisions = {
        one["stock_id"]: one["decision"] for one in tallied(instruction=instruction)["decisions"]
    }
    assert decisions == {"a": side, "b": "BUY", "c": "HOLD"}


def test_orders_split_the_side_equally_and_close_unsupported_positions() -> None:
    orders = tallied(hold=False, weight=0.2)["orders"]
    assert [(one["stock_id"], one["side"], round(one["target_weight"], 3)) for one in orders] == [
        ("a", "SELL", -0.333), ("b", "BUY", 0.333), ("c", "SELL", 0.0),
    ]  # fmt: skip


def test_a_role_passes_on_what_it_knows() -> None:
    assert TALLY.reply(views(INSTRUCTION, submits=False)).content.splitlines()[1:] == [
        "View of desk 1 on a: fall",
        "View of desk 1 on b: rise",
        "View of desk 2 on a: rise",
        "View of desk 3 on a: rise",
    ]
    assert (
        TALLY.reply(ModelRequest((Message("user", "How did it go?"),))).content
        == "No view is known to me."
    )
