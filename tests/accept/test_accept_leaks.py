"""Nothing that is sent names a stock or a day that the mask hides, whatever a model says; what is
recorded is what was sent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ktdeval.harness.chat_messages import ModelRequest
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.runner.execution.run import in_turn
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import not_empty
from support.accept import accept_overheard
from support.accept.accept_leaks import Scanner
from support.accept.accept_runs import (
    HIDES_ASSETS,
    HIDES_DATES,
    PLUGINS,
    TASKS,
    conversations,
    evaluate,
    import_real,
    ledgers,
    offered_tools,
)
from support.json_places import texts_in

WINDOW = "2024-12-26:2025-01-09"  # across a New Year, with a gap of four days in it
STEPS = 8
FAILURES = {
    "bad_json",
    "schema",
    "unknown_tool",
    "bad_arguments",
    "unknown_asset",
    "unknown_day",
    "empty_reply",
    "no_submission",
    "wrong_tool",
    "tool_budget",
    "truncated",
    "refusal",
    "content_filter",
    "constraint",
    "constraint_after_retries",
    "contradictory",
    *(
        f"model_{kind}"
        for kind in ("timeout", "rate_limited", "server", "connection", "bad_response")
    ),
}


class Heard:
    """A run, and what its model really got: the requests of each episode."""

    def __init__(
        self, folder: RunFolder, requests: list[ModelRequest], market: MarketSnapshot
    ) -> None:
        self.folder = folder
        self.market = market
        self.transcripts = {spec.id: folder.load_transcript(spec) for spec in folder.manifest.specs}
        self.requests: dict[str, list[ModelRequest]] = {}
        rest = iter(requests)

        for spec in in_turn(folder.manifest.specs):
            count = sum(len(entry.exchanges) for entry in self.transcripts[spec.id])
            self.requests[spec.id] = [next(rest) for _ in range(count)]

        assert next(rest, None) is None


def hear(out: Path, model: str, market: MarketSnapshot, *words: str) -> Heard:
    accept_overheard.HEARD.clear()
    plugin = accept_overheard.__name__
    arguments = ["--plugin", plugin, "--windows", WINDOW, "--limit", str(STEPS), *words]
    folder = evaluate(out, f"overheard/{model}", ["ktdfin"], *arguments)

    assert {spec.task for spec in folder.manifest.specs} == set(TASKS)

    return Heard(folder, list(accept_overheard.HEARD), market)


@pytest.fixture(scope="module", params=["chaos", "wild", "momentum"])
def heard(
    request: pytest.FixtureRequest,
    embedded: MarketSnapshot,
    tmp_path_factory: pytest.TempPathFactory,
) -> Heard:
    return hear(tmp_path_factory.mktemp("leaks") / "run", request.param, embedded)


def sent_texts(requests: list[ModelRequest]) -> set[str]:
    """Everything in the requests: messages, calls, and the offered tools with their schemas."""
    messages = set(chain.from_iterable(request.messages for request in requests))
    offered = chain.from_iterable(request.tools for request in requests)
    tools = {json.dumps([tool.name, tool.description, tool.parameters]) for tool in offered}

    return {*tools, *chain.from_iterable(texts_in(message.to_json()) for message in messages)}


def assert_nothing_leaks(heard: Heard) -> None:
    scanner = Scanner(heard.market)
    for spec in heard.folder.manifest.specs:
        texts = sent_texts(heard.requests[spec.id])
        leaks = scanner.leaks(
            texts, assets=spec.mask in HIDES_ASSETS, dates=spec.mask in HIDES_DATES
        )
        assert not leaks, (spec.task, spec.seed, sorted(leaks))
        if spec.mask in HIDES_ASSETS:  # an index is an identity too, at least in what we say of it
            messages = chain.from_iterable(each.messages for each in heard.requests[spec.id])
            ours = {message for message in messages if message.role != "assistant"}
            assert not any(scanner.indices_in(message.content) for message in ours)


@pytest.mark.sampled(1)
def test_no_hidden_code_name_industry_or_date_is_sent(heard: Heard) -> None:
    assert_nothing_leaks(heard)


def identities_of(market: MarketSnapshot) -> list[str]:
    """Real ones, a quarter each of codes, names, industries and days in many styles."""
    day_styles = (
        "%Y-%m-%d",
        "%Y%m%d",
        "%Y/%m/%d",
        "%Y年%m月%d日",
        "%d %B %Y",
        "%b %d, %Y",
        "%A",
        "%Y",
        "%B",
    )
    days = [
        market.days[-1 - 7 * place].astype(object).strftime(style)
        for place, style in enumerate(day_styles * 4)
    ]
    # bare, these are words like any other
    days = [day for day in days if day not in ("March", "May")]
    count = len(days)
    codes = [*market.codes[:: len(market.codes) // count], *market.indices][-count:]
    names = [*market.names[:: len(market.names) // count], *market.index_names.values()][-count:]
    industries = (sorted(set(market.industries) - {"unknown"}) * 2)[:count]

    return [*codes, *names, *industries, *days]


def check_parrot(out: Path, market: MarketSnapshot, *words: str) -> None:
    accept_overheard.IDENTITIES[:] = identities_of(market)
    heard = hear(out, "parrot", market, *words)
    assert_nothing_leaks(heard)

    for spec, ledger in ledgers(heard.folder):
        attempts = sum(record.unmask_attempts for record in ledger.steps)
        assert (attempts > 0) == (spec.mask != "bright"), (spec.task, attempts)


def test_a_model_that_knows_the_market_never_hears_it_from_us(
    embedded: MarketSnapshot, tmp_path: Path
) -> None:
    """A parrot says real codes, names, industries and days of this very market; all come back to it
    withheld.
    """
    check_parrot(tmp_path / "run", embedded)


@pytest.mark.shared_data
def test_no_identity_of_a_real_market_is_sent(shared_data: Path, tmp_path: Path) -> None:
    folder = import_real(shared_data, tmp_path / "market")
    market = load_snapshot(folder)
    for model in ("chaos", "wild", "momentum"):
        assert_nothing_leaks(hear(tmp_path / model, model, market, "--data", str(folder)))

    check_parrot(tmp_path / "parrot", market, "--data", str(folder))


def test_the_scanner_finds_what_the_other_masks_show(heard: Heard) -> None:
    """Otherwise the test above would show nothing."""
    scanner = Scanner(heard.market)
    specs = heard.folder.manifest.specs

    for spec in not_empty(spec for spec in specs if spec.mask not in HIDES_ASSETS):
        assert (
            len(scanner.leaks(sent_texts(heard.requests[spec.id]), assets=True, dates=False)) > 5
        ), spec.task

    for spec in not_empty(spec for spec in specs if spec.mask not in HIDES_DATES):
        assert (
            len(scanner.leaks(sent_texts(heard.requests[spec.id]), assets=False, dates=True))
            >= STEPS
        ), spec.task


def test_the_transcript_holds_what_was_sent_and_nothing_else(heard: Heard) -> None:
    for spec in not_empty(heard.folder.manifest.specs):
        offered = offered_tools(spec, heard.market)
        requests = iter(heard.requests[spec.id])
        for entry in not_empty(heard.transcripts[spec.id]):
            recorded = {tool.name: tool for tool in offered}
            for exchange, messages in not_empty(
                zip(entry.exchanges, conversations(entry), strict=True)
            ):
                request = next(requests)
                assert messages == [message.to_json() for message in request.messages]
                assert exchange["tools"] == [tool.name for tool in request.tools]
                assert exchange["tool_choice"] == request.tool_choice
                assert exchange["seed"] == request.params.seed
                assert [tool.name for tool in request.tools] == [tool.name for tool in offered]
                own = exchange.get("schemas", {})
                # only what differs from what was recorded last
                assert all(recorded[name].parameters != own[name] for name in own)
                for name, schema in own.items():
                    recorded[name] = replace(recorded[name], parameters=schema)

                assert request.tools == tuple(recorded.values())


def test_only_a_days_position_in_the_episode_shows_if_dates_are_hidden(
    heard: Heard,
) -> None:
    """Handles count sessions, so neither weekends nor holidays show; none lies after the
    present.
    """
    for spec in not_empty(spec for spec in heard.folder.manifest.specs if spec.mask in HIDES_DATES):
        for step, entry in enumerate(not_empty(heard.transcripts[spec.id])):
            first = next(conversations(entry))
            assert first[1]["content"].startswith(f"Day day_+{step} has closed (step {step}).")
            messages = chain.from_iterable(conversations(entry))
            shown = [m["content"] for m in messages if m["role"] != "assistant"]
            days = []
            for text in shown:
                days += [int(day) for day in re.findall(r"day_([+-][0-9]+)", text)]

            assert max(days) == step, spec.task


def test_index_levels_start_at_one_hundred_where_dates_are_hidden(heard: Heard) -> None:
    seen = 0
    for spec in heard.folder.manifest.specs:
        for step, entry in enumerate(heard.transcripts[spec.id]):
            messages = chain.from_iterable(conversations(entry))
            for content in {m["content"] for m in messages if m["role"] == "tool"}:
                if not content.startswith('{"calendar"'):
                    continue

                value = json.loads(content)
                labels, levels = zip(
                    *((row[0], row[1]) for row in value["indices"]["rows"]), strict=True
                )
                hidden = spec.mask in HIDES_DATES
                seen += hidden
                assert all(50 < level < 200 for level in levels) == hidden, spec.task
                assert set(levels) == {100} or not hidden or step > 0
                if spec.mask in HIDES_ASSETS:
                    assert all(re.fullmatch(r"benchmark|index_[0-9]+", label) for label in labels)

    assert seen > 1


def takes_early_submissions(task: str) -> bool:
    """Whether a submission counts during research; tasks of the paper ask for it afterwards."""
    return "open_research" in task and not task.endswith("_paper")


def test_failures_are_counted_under_their_kinds(heard: Heard) -> None:
    """Counted again from the transcripts, where the conversation shows them."""
    model = heard.folder.manifest.specs[0].model
    kinds: Counter[str] = Counter()
    decisions: Counter[str] = Counter()

    for spec, ledger in ledgers(heard.folder):
        assert len(ledger.steps) == STEPS
        for record, entry in zip(ledger.steps, heard.transcripts[spec.id], strict=True):
            failures = Counter(record.failures)
            kinds += failures
            decisions[record.provenance] += 1
            assert set(failures) <= FAILURES
            exchanges = entry.exchanges
            replies = [exchange.get("reply", {}) for exchange in exchanges]
            errors = Counter(
                f"model_{exchange['error']}" for exchange in exchanges if "error" in exchange
            )
            assert errors == Counter(
                {kind: count for kind, count in failures.items() if kind.startswith("model_")}
            )
            for reason, kind in (
                ("length", "truncated"),
                ("refusal", "refusal"),
                ("content_filter", "content_filter"),
            ):
                assert failures[kind] == sum(
                    reply.get("finish_reason") == reason for reply in replies
                )

            asked_for = [exchange["tool_choice"] == "submit_action" for exchange in exchanges]
            research = []
            for exchange in exchanges:
                if exchange["tool_choice"] is None and "reply" in exchange:
                    calls = exchange["reply"].get("tool_calls", ())
                    research.append([call["name"] for call in calls])

            early = 0
            if takes_early_submissions(spec.task):
                early = sum("submit_action" in names for names in research)

            is_decided_early = early > 0 and not any(asked_for)
            assert record.submissions == sum(asked_for) + early
            if is_decided_early:
                research[-1] = ["submit_action"]  # calls beside the decision are not run

            called = chain.from_iterable(research)
            looked_up = [name for name in called if name != "submit_action"]
            assert record.tool_calls + failures["tool_budget"] == len(looked_up)
            # a call to submit ends the research
            assert not any("submit_action" in names for names in research[:-1])
            if exchanges and not is_decided_early:
                assert exchanges[-1]["tool_choice"] or "error" in exchanges[-1]
            assert record.tool_calls <= 12
            assert (record.provenance == "error") == bool(errors)
            failure_kinds = Counter(
                json.loads(message["content"])["error"]["kind"]
                for message in (list(conversations(entry)) or [[]])[-1]
                if message["role"] == "tool" and '"error"' in message["content"]
            )
            assert all(failures[kind] >= count for kind, count in failure_kinds.items()), (
                spec.task,
                record.step,
            )

        attempts = sum(record.unmask_attempts for record in ledger.steps)
        assert spec.mask != "bright" or attempts == 0

    if model == "overheard/momentum":
        assert not kinds
        assert set(decisions) == {"model"}
        return

    assert len(kinds) >= 10
    assert decisions["model_after_retry"] > 0
    assert decisions["error" if model == "overheard/chaos" else "fallback"] > 0

    hidden = []

    for spec, ledger in ledgers(heard.folder):
        if spec.mask == "blinded":
            hidden += ledger.steps

    assert sum(record.unmask_attempts for record in hidden) > 0

    orders = chain.from_iterable(record.orders for record in hidden)
    assert sum(order.status == "filled" for order in orders) > 0


@pytest.mark.parametrize("mode", ["memory_only", "fixed_candidate", "open_research"])
def test_how_many_steps_are_left_does_not_show(
    mode: str, tmp_path: Path, embedded: MarketSnapshot
) -> None:
    """Two episodes that begin on one day and end on different ones are told the same, but for the
    shuffle of handles.
    """
    task = f"blinded_{mode}"
    shown = []

    for number, (last, limit) in enumerate((("2025-01-09", "4"), ("2026-04-10", "3"))):
        words = ["--windows", f"2024-12-26:{last}", "--limit", limit]
        # which finds nothing to rank by there
        model = "builtin/hold" if mode == "memory_only" else "builtin/momentum"
        folder = evaluate(tmp_path / str(number), model, [task], *words)
        spec = folder.manifest.specs[0]
        lens = PLUGINS.make_task(task).scene(spec, embedded).lens
        transcript = folder.load_transcript(spec)[:3]
        sectors = {lens.sector_handle(name): name for name in embedded.industries}
        told = []
        for messages in chain.from_iterable(map(conversations, transcript)):
            told.append([unshuffled(m, lens, sectors) for m in messages])

        shown.append(told)

    assert len(shown[0]) >= 3
    assert shown[0] == shown[1]


def unshuffled(message: dict[str, Any], lens: Any, industries: dict[str, str]) -> str:
    """A message with codes for handles and with rows in one order, which may be drawn by chance
    where it means nothing.
    """
    text = json.dumps(message, ensure_ascii=False)
    text = re.sub(r"asset_[0-9]{4}", lambda match: f"asset {lens.parse_asset(match[0])}", text)
    indices = [code for code in lens.indices if code != lens._snapshot.meta.benchmark]
    text = re.sub(r"index_([0-9])", lambda match: f"index {indices[int(match[1]) - 1]}", text)
    text = re.sub(r"sector_[0-9]{2}", lambda match: f"sector {industries[match[0]]}", text)

    def in_order(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: in_order(item) for key, item in value.items()}

        if isinstance(value, list):
            return (
                sorted(map(in_order, value), key=json.dumps)
                if value and not isinstance(value[0], (int, float))
                else value
            )

        return value

    content = json.loads(text)["content"]
    parts = re.split(r"```json\n(.*)\n```", content, flags=re.DOTALL)
    if message["role"] == "tool":
        parts = ["", content, ""]

    return (
        f"{parts[0]}{json.dumps(in_order(json.loads(parts[1])))}{parts[2]}"
        if len(parts) == 3
        else text
    )
