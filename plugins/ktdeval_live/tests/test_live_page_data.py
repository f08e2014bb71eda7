"""Data of the live page: its figures are those of `settle`, and nothing in it is private."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from ktdeval.calls.records.record import CallRecord
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness.chat_messages import Usage
from ktdeval.registry import Plugins
from ktdeval.testing import not_empty
from ktdeval.values import encode_canonical, loads_strict
from ktdeval_live.commands import live
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.beginning import begin, join
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import LiveStep
from ktdeval_live.page.build_data import live_page
from ktdeval_live.page.data import LivePage
from ktdeval_live.page.model_costs import costs_of
from ktdeval_live.page.sentence import live_sentences
from ktdeval_live.page.write import page_html, site_folder, write_page
from ktdeval_live.plan import Entrant
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.record.chain import DecisionKey
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import differences, settle_test
from support.board.board_repository import git
from support.live.live_pages import Shape, generated_page
from support.live.live_plans import entrants, plan_of, rehearsed
from support.pages.report_page import check_whole
from support.providers.call_runs import call_of

pytestmark = pytest.mark.slow

MODELS = {"momentum": "builtin/momentum", "chance": "builtin/random"}
AFTER = of_text("2024-06-29T00:00:00Z")


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> LiveFolder:
    """Four weeks, of which three days are not counted."""
    path = tmp_path_factory.mktemp("live") / "month"
    return rehearsed(
        path, plugins, last="2024-06-28", shadow_days=3, entrants=entrants(MODELS)
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(month: LiveFolder, plugins: Plugins) -> LivePage:
    return live_page(month, plugins, AFTER)


@pytest.fixture
def half_way(tmp_path: Path, plugins: Plugins) -> LiveFolder:
    """A week after its second close; nobody ran a step on the first one."""
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    folder = begin(plan_of(entrants=entrants(MODELS)), tmp_path / "week", plugins, clock)

    for time in ("2024-06-03T20:15:00Z", "2024-06-04T20:15:00Z"):
        clock.time = of_text(time)
        with folder.lock():
            LiveStep(folder, plugins, clock, InlineAsker(folder, plugins, clock)).run()

    return folder


NOW = of_text("2024-06-04T21:00:00Z")


# ---- figures


@pytest.mark.exhaustive
def test_figures_are_those_of_settle(month: LiveFolder, page: LivePage, plugins: Plugins) -> None:
    settled = settle_test(month, plugins, AFTER)
    assert len(page.entries) == len(settled.cards) == 2

    for entry, card, result in zip(page.entries, settled.cards, settled.results, strict=True):
        assert (entry.entrant, entry.market) == (card.entrant, card.market.name)
        assert (entry.days, entry.labels) == (card.days, tuple(card.labels))
        assert replace(entry.results, sharpe=card.results.sharpe) == card.results
        # a ratio of fewer than 20 days is not shown
        is_short = int(result.counted.sum()) < 20
        assert entry.results.sharpe == card.results.sharpe or is_short
        assert (entry.results.sharpe.value is None) == is_short

    pairs = [excess for _, _, excess in differences(month.plan, settled.results)]

    assert [pair.excess for pair in page.pairs] == pairs


@pytest.mark.exhaustive
def test_series_end_at_the_totals_of_the_card(page: LivePage) -> None:
    for entry in not_empty(page.entries):
        for name in ("held", "flat", "low", "high", "index", "buy_and_hold"):
            series = getattr(entry.equity, name)
            total = getattr(entry.results, name).value
            assert len(series) == entry.days.counted == 16
            assert series[-1] == pytest.approx(total, abs=1e-6)

        for name in ("over_index", "over_buy_and_hold"):
            series = getattr(entry, name)
            interval = getattr(entry.results, name).symmetric
            assert len(series.sessions) == interval.n
            assert series.mean[-1] == pytest.approx(interval.mean, abs=1e-3)
            assert series.low[-1] == (
                None if interval.low is None else pytest.approx(interval.low, abs=1e-3)
            )


@pytest.mark.exhaustive
def test_series_begin_at_the_first_counted_day(page: LivePage) -> None:
    (market,) = page.markets
    for entry in not_empty(page.entries):
        assert market.days[entry.equity.first] == "2024-06-06"
        assert entry.over_index.sessions[0] == entry.equity.first
        assert entry.uncounted == 3


# ---- days and what is private


@pytest.mark.exhaustive
def test_state_of_each_day_is_that_of_the_chain(half_way: LiveFolder, plugins: Plugins) -> None:
    page = live_page(half_way, plugins, NOW)
    for entry in not_empty(page.entries):
        assert entry.states == ("missed", "decided", "sealed")

    assert [(gap.entrant, gap.day, gap.cause) for gap in page.gaps] == [
        ("momentum", "2024-05-31", "missed"),
        ("chance", "2024-05-31", "missed"),
    ]

    (market,) = page.markets
    assert (market.frozen, market.last_frozen) == (3, "2024-06-04")
    assert market.next_close == "2024-06-05T20:00:00Z"
    assert market.next_cutoff == "2024-06-05T13:20:00Z"
    assert page.next_due is not None
    assert page.next_due.at == "2024-06-05T20:15:00Z"


@pytest.mark.exhaustive
def test_joiner_is_absent_before_it_joined(half_way: LiveFolder, plugins: Plugins) -> None:
    late = Entrant(name="late", model="builtin/random")
    join(half_way, late, plugins, SetClock(NOW))
    entry = live_page(LiveFolder(half_way.path), plugins, NOW).entries[-1]

    assert entry.entrant == "late"
    assert entry.states == ("absent", "absent", "open")
    assert entry.uncounted == 2
    assert entry.equity.held == ()
    assert entry.results.held.value is None


@pytest.mark.exhaustive
def test_sealed_decision_shows_only_that_it_is_committed(
    half_way: LiveFolder, plugins: Plugins
) -> None:
    sealed = half_way.record(DecisionKey("chance", "us", "2024-06-04"))
    assert sealed is not None
    assert sealed.orders

    page = live_page(half_way, plugins, NOW)
    text = encode_canonical(page)

    for word in (sealed.question.salt, sealed.overall_reason, sealed.orders[0].code):
        assert word
        assert word not in text

    assert all(entry.costs.tokens[-1] is None for entry in page.entries)


@pytest.mark.exhaustive
def test_decision_that_is_not_public_is_not_settled(half_way: LiveFolder, plugins: Plugins) -> None:
    public = half_way.record_path(DecisionKey("momentum", "us", "2024-06-03"), private=False)
    public.rename(half_way.record_path(DecisionKey("momentum", "us", "2024-06-03"), private=True))
    with pytest.raises(StoreError, match=r"momentum/us 2024-06-03: .* is not published"):
        live_page(half_way, plugins, NOW)


# ---- ranks


@pytest.mark.exhaustive
def test_ranks_follow_the_mean_excess_and_leave_the_inactive_out() -> None:
    page = generated_page(Shape(entrants=9, days=60))
    inactive = [entry for entry in page.entries if "inactive" in entry.labels]

    assert [entry.rank for entry in inactive] == [None]

    ranked = sorted(
        (entry for entry in page.entries if entry.rank is not None),
        key=lambda entry: entry.rank or 0,
    )
    means = [entry.results.over_index.symmetric.mean or 0.0 for entry in ranked]

    assert [entry.rank for entry in ranked] == list(range(1, 9))
    assert means == sorted(means, reverse=True)


@pytest.mark.exhaustive
def test_nobody_has_a_rank_in_a_rehearsal(page: LivePage) -> None:
    assert [entry.rank for entry in page.entries] == [None, None]


# ---- costs


def called(step: int, outcome: str = "answered", cost: float | None = 0.25) -> CallRecord:
    """Return a call of a session; an answer has 10 tokens of prompt and 2 of reply."""
    usage = Usage(10, 2) if outcome != "timeout" else None
    return call_of("asked", step=step, outcome=outcome, cost_usd=cost, usage=usage)


@pytest.mark.exhaustive
def test_costs_are_sums_of_the_answers_of_a_session() -> None:
    records = [called(0), called(0), called(1), called(1, "timeout", None)]
    costs = costs_of(records, (True, True))

    assert costs.usd == (0.5, 0.25)
    assert costs.tokens == (24.0, 12.0)
    assert (costs.usd_total, costs.usd_a_day, costs.tokens_a_day) == (0.75, 0.375, 18.0)
    assert (costs.calls, costs.failed, costs.error_rate) == (4, 1, 0.25)


@pytest.mark.exhaustive
def test_unknown_price_is_null_and_never_0() -> None:
    costs = costs_of([called(0), called(1, cost=None)], (True, True))
    assert costs.usd == (0.25, None)
    assert (costs.usd_total, costs.usd_a_day) == (None, None)
    assert costs.tokens_a_day == 12.0


@pytest.mark.exhaustive
def test_session_without_an_answer_has_no_cost() -> None:
    costs = costs_of([called(1, "timeout", None)], (True, True))
    assert costs.usd == costs.tokens == (None, None)
    assert (costs.usd_total, costs.error_rate) == (None, 1.0)
    assert costs_of([], (True,)).error_rate is None


@pytest.mark.exhaustive
def test_reply_from_the_record_and_sealed_sessions_cost_nothing() -> None:
    costs = costs_of([called(0), called(0, "cached"), called(1)], (True, False))
    assert costs.usd == (0.25, None)
    assert (costs.calls, costs.usd_total) == (1, 0.25)


# ---- files


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["live", "rehearsal"])
def test_page_is_whole_and_says_what_it_is(kind: str, tmp_path: Path) -> None:
    page = generated_page(Shape(entrants=2, days=30, kind=kind))
    path = write_page(page, tmp_path / "site")
    text = path.read_text("utf-8")
    found = check_whole(text, also=("live.json",))
    (title,) = found.all("title")
    is_marked = title.text.startswith("REHEARSAL")

    assert is_marked == (kind == "rehearsal")
    assert ("REHEARSAL" in found.all("h1")[0].text) == is_marked
    assert "unsafe-" not in text

    data = msgspec.json.decode((tmp_path / "site" / "live.json").read_bytes(), type=LivePage)
    assert data == page
    assert write_page(page, tmp_path / "site") == path

    path.write_text("my own page")
    with pytest.raises(StoreError, match="was not written by ktdeval live"):
        write_page(page, tmp_path / "site")
    assert path.read_text() == "my own page"
    assert page_html(page, encode_canonical(page)) == text


@pytest.mark.exhaustive
def test_page_has_no_number_that_json_lacks() -> None:
    page = generated_page(Shape(entrants=3, days=120))
    value = loads_strict(encode_canonical(page))
    pending = [value]

    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
        else:
            assert not isinstance(one, float) or math.isfinite(one)


# ---- the command


def publish(folder: LiveFolder, *words: str) -> Result:
    return CliRunner().invoke(live, ["publish", str(folder.path), *words])


@pytest.mark.exhaustive
def test_publish_writes_a_page_that_is_no_part_of_the_record(half_way: LiveFolder) -> None:
    before = len(publications(half_way))
    clock = half_way.path.parent / "clock"
    clock.write_text("2024-06-04T21:00:00+00:00", "utf-8")

    for _ in range(2):
        done = publish(half_way, "--clock", str(clock))
        assert done.exit_code == 0, done.output
        assert "nothing is new" in done.output

    assert (half_way.path / "site" / "index.html").is_file()
    assert len(publications(half_way)) == before
    assert "site" not in git(half_way.path, "status", "--porcelain")


@pytest.mark.exhaustive
def test_publish_reveals_decisions_whose_fills_are_past(
    half_way: LiveFolder, plugins: Plugins
) -> None:
    done = publish(half_way)  # by the clock of the machine, all cutoffs are past
    assert done.exit_code == 0, done.output
    assert "the record up to entry" in done.output
    assert half_way.record_path(
        DecisionKey("momentum", "us", "2024-06-04"), private=False
    ).is_file()

    entry = live_page(half_way, plugins, NOW).entries[0]
    assert entry.states == ("missed", "decided", "decided")


@pytest.mark.exhaustive
def test_publish_makes_the_page_though_the_remote_refuses(tmp_path: Path, plugins: Plugins) -> None:
    remote = tmp_path / "remote"
    plan = plan_of(publish={"remote": str(remote)})
    clock = SetClock(of_text("2024-05-30T00:00:00Z"))
    folder = begin(plan, tmp_path / "week", plugins, clock)
    done = publish(folder)

    assert isinstance(done.exception, StoreError)
    assert "git push failed" in str(done.exception)

    data = (folder.path / "site" / "live.json").read_bytes()
    assert msgspec.json.decode(data, type=LivePage).chain.unpublished == 1

    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    done = publish(folder)

    assert done.exit_code == 0, done.output

    data = (folder.path / "site" / "live.json").read_bytes()
    chain = msgspec.json.decode(data, type=LivePage).chain

    assert (chain.unpublished, chain.pushed) == (0, 1)


@pytest.mark.exhaustive
def test_page_is_not_written_into_the_record(half_way: LiveFolder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="would be published as part of its record"):
        site_folder(half_way, half_way.path / "records")

    assert site_folder(half_way, tmp_path / "www") == tmp_path / "www"
    assert site_folder(half_way, None) == half_way.path / "site"


@pytest.mark.parametrize("days", [10, 60, 300])
@pytest.mark.parametrize("kind", ["live", "rehearsal"])
def test_the_first_sentence_names_who_is_above_the_index(days: int, kind: str) -> None:
    shape = Shape(entrants=9, days=days, markets=("us", "cn"), kind=kind)
    page = generated_page(shape)
    sentences = list(live_sentences(page))

    for market, sentence in zip(("us", "cn"), sentences, strict=True):
        compared = [
            entry
            for entry in page.entries
            if entry.market == market and (entry.rank is not None or kind == "rehearsal")
        ]
        above = []
        for entry in compared:
            low = entry.results.over_index.symmetric.low
            if low is not None and low > 0:
                above.append(entry.entrant)

        assert market in sentence
        assert ("Rehearsal" in sentence) == (kind == "rehearsal")
        if not compared:
            assert "can be ranked yet: nothing shown" in sentence
        elif above:
            assert f"{len(above)} of {len(compared)} entrants" in sentence
            assert all(name in sentence for name in above)
        else:
            assert f"None of {len(compared)} entrants is shown to be above" in sentence
        assert (" a year" in sentence) == bool(compared and days == 300)
