"""Daily news summaries: what is excluded, nothing after a close, model failures, a run on them,
inter-rater agreement.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from itertools import chain, product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from ktdeval.cli.main import main
from ktdeval.harness import shown_state, table_rows
from ktdeval.market import Document, Documents, find_venue
from ktdeval.runner import RunFolder
from ktdeval.testing import Terminal, on_each_row
from ktdeval.values import sha256_hex
from ktdeval_arena.daily_news_summaries import (
    MIS,
    NewsDay,
    StoryStream,
    _VenueSessions,
    document_line,
    extract,
    stream_of,
)
from ktdeval_arena.rater_agreement import COLUMNS, RULES, agreement, alpha
from ktdeval_raw_markets.sources.document_files import read_documents
from support.providers.stub_provider import KEY, FaultPlan, running_stub
from support.searching import examples

NEW_YORK = ZoneInfo("America/New_York")
FRIDAY = datetime(2025, 8, 1, 12, 0, tzinfo=NEW_YORK)


def article(
    title: str = "Deliveries rise", text: str = "", known: datetime = FRIDAY, **more: Any
) -> Document:
    fields = {
        "source": "Reuters",
        "assets": ("TSLA",),
        "published_at": known,
        "kind": "news",
        **more,
    }
    return Document(
        known_at=known, title=title, text=text or f"{title} as nobody had told before", **fields
    )


def stream(
    *articles: Document, venue: str = "us_equity", assets: tuple[str, ...] = ()
) -> StoryStream:
    return stream_of(Documents.of(articles), find_venue(venue), assets)


def summaries(days: list[NewsDay]) -> dict[str, str]:
    return {day.id: document_line(day, extract(day)) for day in days}


MICROSECOND = timedelta(microseconds=1)


@on_each_row(
    "known, venue, day",
    ("2025-08-01T16:00:00-04:00", "us_equity", "2025-08-01"),
    ("2025-08-01T16:00:00.000001-04:00", "us_equity", "2025-08-04"),
    ("2025-08-02T12:00:00-04:00", "us_equity", "2025-08-04"),
    ("2025-08-04T16:00:00-04:00", "us_equity", "2025-08-04"),
    ("2025-08-02T00:00:00+00:00", "crypto_spot", "2025-08-01"),
    ("2025-08-02T00:00:00.000001+00:00", "crypto_spot", "2025-08-02"),
    ("2025-08-01T16:00:00-04:00", "crypto_spot", "2025-08-01"),
    ("2025-10-05T12:00:00+00:00", "a_share", "2025-10-09"),
)
def test_a_day_ends_with_its_close_equality_included(known: str, venue: str, day: str) -> None:
    moment = datetime.fromisoformat(known)
    (news_day,) = stream(article(known=moment), venue=venue).days

    assert (news_day.day, news_day.begins < moment <= news_day.cutoff) == (day, True)

    line = json.loads(document_line(news_day, extract(news_day)))
    assert (
        datetime.fromisoformat(line["known_at"])
        == news_day.cutoff
        == datetime.fromisoformat(line["published_at"])
    )


WORDS = (
    "fed",
    "rates",
    "lawsuit",
    "deliveries",
    "beat",
    "fall",
    "analysts",
    "record",
    "etf",
    "court",
    "sales",
    "miss",
)
ARTICLES = st.builds(
    lambda hours, words, source, asset, lag: article(
        " ".join(words),
        "x",
        FRIDAY + timedelta(hours=hours),
        source=source,
        assets=(asset,),
        published_at=FRIDAY + timedelta(hours=hours - lag),
    ),
    st.integers(0, 120),
    st.lists(st.sampled_from(WORDS), min_size=3, max_size=8),
    st.sampled_from("ABCDE"),
    st.sampled_from(["TSLA", "BMRN"]),
    st.integers(-1, 30),
)


@examples(10)
@given(st.lists(ARTICLES, max_size=25), st.lists(ARTICLES, max_size=10), st.integers(0, 100))
def test_what_becomes_known_later_changes_no_summary(
    before: list[Document], after: list[Document], hours: int
) -> None:
    until = FRIDAY + timedelta(hours=hours)
    known = [one for one in before if one.known_at <= until]
    later = [one for one in after if one.known_at > until]
    alone = stream(*known, venue="crypto_spot")
    both = stream(*known, *later, venue="crypto_spot")
    now = {
        day.id: line
        for day, line in zip(alone.days, summaries(alone.days).values(), strict=True)
        if day.cutoff <= until
    }

    assert now.items() <= summaries(both.days).items()

    for day in both.days:
        assert all(day.begins < story.article.known_at <= day.cutoff for story in day.stories)
        assert len(extract(day)) <= MIS["summary"]["most_characters"]

    left = sum(both.dropped.values()) + sum(len(day.stories) for day in both.days)

    # each is filed under one asset: none is lost, none counted twice
    assert left == both.articles == len(known) + len(later)


@on_each_row(
    "rule, more",
    ("known_early", {"published_at": "2025-08-01T12:00:00.000001-04:00"}),
    ("no_asset", {"assets": []}),
    ("other_asset", {"assets": ["BTC"]}),
    ("no_source", {"source": " "}),
    ("too_short", {"title": "One two", "text": "three four."}),
    ("late", {"published_at": "2025-07-31T11:59:59.999999-04:00"}),
    (
        "duplicate",
        {
            "title": "DELIVERIES RISE,",
            "source": "Finnhub",
            "known": "2025-08-01T12:00:00.000001-04:00",
        },
    ),
    ("repeated", {"title": "Deliveries rise", "known": "2025-08-06T12:00:00-04:00"}),
)
def test_each_rule_leaves_out_one(rule: str, more: dict[str, Any]) -> None:
    more = more | {
        name: datetime.fromisoformat(more[name])
        for name in ("published_at", "known")
        if name in more
    }
    other = {"title": "Another story of the day", **more}
    selected = stream(article(), article(**other), assets=("TSLA",))

    assert {name: count for name, count in selected.dropped.items() if count} == {rule: 1}
    assert [len(day.stories) for day in selected.days] == [1]
    assert selected.days[0].sources == (
        ["Reuters", "Finnhub"] if rule == "duplicate" else ["Reuters"]
    )


def test_the_same_words_after_the_days_of_comparison_are_news_again() -> None:
    # the fourth session
    assert len(stream(article(), article(known=FRIDAY + timedelta(days=6))).days) == 2


def test_no_outlet_takes_the_day_and_its_ratings_are_counted() -> None:
    many = [
        article(f"Story {number} of the wire", f"{number} {number + 1} {number + 2} words")
        for number in range(60)
    ]
    others = [
        article("The fed and a lawsuit", "analysts wait for rates and earnings", source="A"),
        article("Short note of a paper", "told by one alone here", source="B"),
        article(
            "Seen on Thursday already",
            "and received a day later only",
            source="C",
            published_at=FRIDAY - timedelta(hours=23),
        ),
    ]
    selected = stream(*many, *others)
    (day,) = selected.days

    assert (len(day.stories), selected.dropped["over_most"]) == (40, 23)
    assert {"A", "B", "C", "Reuters"} == set(day.sources)
    assert day.facts()["ratings"] == {"date_accuracy": 1, "coverage": 2, "source_diversity": 2}
    assert extract(day).startswith("Stories: 40, sources: 4. ")


def test_an_extract_by_hand() -> None:
    shown = [
        article("Tesla beats estimates", "It sold more. Analysts expected less.", source="Finnhub"),
        article(
            "Tesla beats estimates.",
            "It sold more. Analysts expected less.",
            source="Reuters",
            known=FRIDAY + MICROSECOND,
        ),
        article("", "A court hears the lawsuit today. More soon.", source="Blog"),
    ]

    assert (
        extract(stream(*shown).days[0])
        == "Stories: 2, sources: 3. Tesla beats estimates. It sold more (Finnhub, Reuters). A court"
        " hears the lawsuit today (Blog). Themes: regulation 1. Sentiment: mixed (1 positive and"
        " 1 negative words)."
    )


def lines_of(path: Path, *articles: Document) -> Path:
    rows = []
    for one in articles:
        times = {
            "published_at": one.published_at.isoformat(),
            "known_at": one.known_at.isoformat(),
        }
        rows.append({**one._asdict(), "assets": list(one.assets), **times})

    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    return path


def command(*words: Any) -> int:
    return main(["paper", "ama", *map(str, words), "--venue", "us_equity"])


@on_each_row(
    "line, words, message",
    ('{"published_at": "2025-08-01"}', [], "line 2: published_at: '2025-08-01' has no time zone"),
    ('{"published": "2025-08-01T10:00:00Z"}', [], "line 2: column 'published' is not a field"),
    ("[1]", [], "line 2: expected an object"),
    ("{", [], "line 2: not valid JSON"),
    (
        '{"published_at": "2025-08-01T10:00:00Z", "title": "\\ud800"}',
        [],
        "line 2: not valid JSON: 'utf-8' codec can't encode",
    ),
    ("", ["--assets", "BTC"], "--assets BTC: no article is filed under it"),
    ("", ["--out", "a.csv"], "--out a.csv: name a .jsonl file"),
    ("", ["--out", "raw.jsonl"], "not one of the input files"),
    ("", ["--mark-missing"], "these options require a model"),
    ("", ["--max-cost", "1"], "these options require a model"),
    ("", ["--venue", "us_equty"], "did you mean"),
)
def test_invalid_input_is_reported_in_one_line_and_nothing_is_written(
    line: str,
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    terminal: Terminal,
) -> None:
    monkeypatch.chdir(tmp_path)
    raw = lines_of(Path("raw.jsonl"), article())
    raw.write_text(raw.read_text() + line + "\n")
    before = raw.read_bytes()
    error = terminal.error(
        "paper", "ama", "raw.jsonl", "--out", "out.jsonl", "--venue", "us_equity", *words
    )

    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["raw.jsonl"]
    assert raw.read_bytes() == before


def three_days() -> list[Document]:
    return [
        article(f"News number {day} of it", known=FRIDAY + timedelta(days=day)) for day in (0, 3, 4)
    ]


@pytest.mark.slow
def test_summaries_are_requested_once_and_failed_ones_are_never_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    raw = lines_of(tmp_path / "raw.jsonl", *three_days())
    out = tmp_path / "out.jsonl"
    config = tmp_path / "run.yaml"
    settings = "tool_protocol: native\nquiet: true\ncache: run\nmax_retries: 0\n"

    with running_stub(FaultPlan(by_number={2: "context"})) as stub:
        config.write_text(f"{settings}base_url: {stub.base_url}\nout: {tmp_path / 'run'}\n")
        words = [raw, "--out", out, "--model", "openai_compatible/stub-model", "--config", config]
        assert command(*words) == 1
        shown = capsys.readouterr()
        assert "1 of 3 summaries failed, so nothing was written" in shown.err
        assert "summaries failed: model_context_exceeded" in shown.out
        assert not out.exists()
        asked = len(stub.requests)
        assert asked == 3, "one call a day: neither a canary nor a second seed"
        assert command(*words, "--mark-missing") == 0
        assert len(stub.requests) == asked  # the run is complete: its replies are on record

    documents = list(read_documents(out))

    assert [one.kind for one in documents] == ["summary", "summary_missing", "summary"]
    assert documents[1].text == "The summary of this day's 1 stories could not be made."
    assert all(one.text for one in documents)

    report = json.loads((tmp_path / "out.report.json").read_text())
    assert [day["failure"] for day in report["days"]] == [None, "model_context_exceeded", None]
    assert (report["summaries_by"], report["sha256"]) == (
        "openai_compatible/stub-model",
        sha256_hex(out.read_bytes()),
    )
    assert (tmp_path / "run" / "calls.sqlite").exists()

    (spec,) = RunFolder.load(tmp_path / "run").manifest.specs
    answers = RunFolder.load(tmp_path / "run").load_answers(spec)

    assert [None if one.answer is None else one.answer["answer"] for one in answers] == [
        documents[0].text,
        None,
        documents[2].text,
    ]


BLANK = '''
from ktdeval.harness import Reply, ToolCall
from ktdeval.hookspecs import Spec, hookimpl


class Blank:
    """Answers with a space."""

    def reply(self, request):
        """Answer."""
        if not request.tool_choice:
            return Reply(" ")
        return Reply("", (ToolCall("c", request.tool_choice, '{"answer": " "}'),))


@hookimpl
def ktdeval_models():
    """Offer the model."""
    return [Spec("test/blank", lambda _: Blank(), "answers with a space")]
'''


def test_a_blank_summary_is_a_failed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = lines_of(tmp_path / "raw.jsonl", *three_days())
    out = tmp_path / "out.jsonl"
    (tmp_path / "blank_plugin.py").write_text(BLANK)
    words = [
        raw,
        "--out",
        out,
        "--plugin",
        tmp_path / "blank_plugin.py",
        "--config",
        tmp_path / "run.yaml",
    ]
    (tmp_path / "run.yaml").write_text(f"model: test/blank\nout: {tmp_path / 'run'}\n")

    assert command(*words, "--mark-missing") == 0
    assert "empty" in capsys.readouterr().out

    report = json.loads((tmp_path / "out.report.json").read_text())
    assert [day["failure"] for day in report["days"]] == ["empty"] * 3
    assert {one.kind for one in read_documents(out)} == {"summary_missing"}


@pytest.mark.parametrize(
    ("more", "dropped"),
    [
        ({"title": "One two", "text": "three four five"}, {}),
        ({"title": "One two", "text": "three four"}, {"too_short": 1}),
        ({"published_at": FRIDAY - timedelta(hours=24)}, {}),
        ({"published_at": FRIDAY - timedelta(hours=24) - MICROSECOND}, {"late": 1}),
        ({"published_at": FRIDAY + MICROSECOND}, {"known_early": 1}),
    ],
)
def test_limits_of_the_rules_include_their_ends(
    more: dict[str, Any], dropped: dict[str, int]
) -> None:
    selected = stream(article(**more))
    assert {name: count for name, count in selected.dropped.items() if count} == dropped
    assert sum(len(day.stories) for day in selected.days) == 1 - sum(dropped.values())


@pytest.mark.exhaustive
def test_summaries_are_the_news_of_a_task_at_their_close(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = lines_of(tmp_path / "raw.jsonl", *three_days())
    out = tmp_path / "out.jsonl"

    assert command(raw, "--out", out) == 0

    first = out.read_bytes()
    assert "left out: filed under no asset" in capsys.readouterr().out

    report = json.loads((tmp_path / "out.report.json").read_text())
    assert (report["articles"], report["dropped"]["duplicate"], len(report["days"])) == (3, 0, 3)

    days = [datetime(2025, 7, 1) + timedelta(days=index) for index in range(100)]
    rows = [
        f"{day:%Y-%m-%d},TSLA,{300 + index},1000"
        for index, day in enumerate(days)
        if day.weekday() < 5 and f"{day:%m%d}" != "0704"
    ]
    (tmp_path / "bars.csv").write_text("\n".join(["date,code,close,volume", *rows]) + "\n")
    words = [
        "data",
        "make",
        "long",
        "--bars",
        tmp_path / "bars.csv",
        "--venue",
        "us_equity",
        "--documents",
        out,
    ]
    words += ["--documents-close", "16:00 America/New_York", "--out", tmp_path / "market"]

    assert main([*map(str, words)]) == 0

    words = [
        "--model",
        "builtin/hold",
        "--tasks",
        "ama_tsla_bright",
        "--data",
        tmp_path / "market",
        "--limit",
        "3",
        "--quiet",
    ]

    assert main([*map(str, words), "--out", str(tmp_path / "run")]) == 0

    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    talks = folder.load_transcript(spec)
    seen = [shown_state(talk.exchanges[0]["sent"][1]["content"])["news"] for talk in talks]

    assert [[row["text"] for row in table_rows(news)] for news in seen] == [
        [extract(day)] for day in stream(*three_days()).days
    ]
    # documents have their codes in upper case
    assert command(raw, "--out", out, "--assets", "tsla") == 0
    assert out.read_bytes() == first
    assert json.loads((tmp_path / "out.report.json").read_text())["assets"] == ["TSLA"]

    capsys.readouterr()
    assert command(raw, "--out", out, "--assets", "TSLA,TSAL") == 2
    assert (
        "--assets TSAL: no article is filed under it; did you mean 'TSLA'?"
        in capsys.readouterr().err
    )
    assert out.read_bytes() == first


# -- agreement of raters


def by_coincidences(shared: list[list[int]]) -> float:
    """Krippendorff (2011), from the matrix of coincidences."""
    matrix: Counter[tuple[int, int]] = Counter()
    for scores in shared:
        for first, one in enumerate(scores):
            for second, other in enumerate(scores):
                if first != second:
                    matrix[one, other] += 1 / (len(scores) - 1)  # type: ignore[assignment]

    totals = Counter[int]()
    for (one, _), count in matrix.items():
        totals[one] += count

    n = sum(totals.values())
    observed = sum(count * (one - other) ** 2 for (one, other), count in matrix.items()) / n
    expected = sum(
        totals[one] * totals[other] * (one - other) ** 2 for one, other in product(totals, totals)
    ) / (n * (n - 1))

    return 1 - observed / expected


def test_shares_as_the_papers_are_a_small_agreement_beyond_chance() -> None:
    # 40 items of two raters, 87.5 % the same; of the 7 items with a 1, 5 are those on which they
    # differ, and 2 both scored 1.
    date = {
        f"d{number}": [1, 2] if number < 5 else [1, 1] if number < 7 else [2, 2]
        for number in range(40)
    }
    dates = agreement("date_accuracy", date)

    assert (dates.same, dates.levels, dates.items, dates.shared) == (0.875, (0, 9, 71), 40, 40)
    assert dates.alpha == pytest.approx(1 - (5 / 40) / (2 * 9 * 71 / (80 * 79)), rel=1e-12)  # 0.38
    assert (dates.low, dates.high) == (
        pytest.approx(0.7389, abs=1e-4),
        pytest.approx(0.9454, abs=1e-4),
    )

    bias = agreement("bias_awareness", {str(number): [2, 2] for number in range(40)})
    assert (bias.same, bias.alpha, bias.mean) == (1.0, None, 2.0)

    alone = agreement("coverage", {"a": [1], "b": [2]})
    assert (alone.mean, alone.shared, alone.same, alone.low, alone.alpha) == (
        1.5,
        0,
        None,
        None,
        None,
    )


@examples(40)
@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=4), min_size=2, max_size=12))
def test_alpha_equals_the_coincidence_matrix_form_and_is_1_only_if_equal(
    shared: list[list[int]],
) -> None:
    figure = alpha(shared)
    if figure is None:
        assert len(set(chain.from_iterable(shared))) == 1
        return

    assert figure == pytest.approx(by_coincidences(shared), abs=1e-12)
    assert (figure == 1.0) == all(len(set(scores)) == 1 for scores in shared)


def ratings(path: Path, *rows: str) -> str:
    path.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n", encoding="utf-8")
    return str(path)


def test_the_command_reports_each_rule_of_the_file(tmp_path: Path, terminal: Terminal) -> None:
    rows = [
        f"{item},{rater},{rule},{2 - (rule == 'coverage' and item == 'b' and rater == 'y')}"
        for item, rater, rule in product("abc", "xy", ("coverage", "bias_awareness"))
    ]
    path = ratings(tmp_path / "r.csv", *rows)
    shown = terminal.out("paper", "table", "--like", "ama-ratings", path).splitlines()

    assert shown[2].split() == [
        "coverage",
        "3",
        "3",
        "1.83",
        "0",
        "1",
        "5",
        "66.7",
        "20.8",
        "…",
        "93.9",
        "0.000",
    ]
    assert (
        shown[-1]
        == "  Bias awareness: all scores are equal, so agreement beyond chance is undefined"
    )
    assert [
        one["rule"]
        for one in terminal.report("paper", "table", "--like", "ama-ratings", path)["rows"]
    ] == ["coverage", "bias_awareness"]
    assert {len(rule["levels"]) for rule in RULES.values()} == {3}


@on_each_row(
    "rows, message",
    ([], "no ratings below the header"),
    (["a,x,coverage,3"], "line 2: score '3'; expected 0, 1 or 2"),
    (["a,x,covrage,1"], "line 2: rule 'covrage' is unknown"),
    (["a,,coverage,1"], "line 2: item and rater must not be empty"),
    (["a,x,coverage"], "line 2: score ''; expected 0, 1 or 2"),
    (
        ["a,x,coverage,1", "a,x,coverage,2"],
        "line 3: rater 'x' has scored item 'a' by coverage twice; keep one score",
    ),
    (
        ["a,x,coverage,1", "", ('"a\nb",y,coverage,1'), "c,z,coverage,7"],
        "line 6: score '7'; expected 0, 1 or 2",
    ),
)
def test_a_file_of_something_else_is_one_line(
    rows: list[str], message: str, tmp_path: Path, terminal: Terminal
) -> None:
    (line,) = terminal.error(
        "paper", "table", "--like", "ama-ratings", ratings(tmp_path / "r.csv", *rows)
    ).splitlines()

    assert message in line

    (tmp_path / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert "column 'item' is missing; the columns are item, rater, rule, score" in terminal.error(
        "paper", "table", "--like", "ama-ratings", tmp_path / "other.csv"
    )


def test_a_days_summary_ends_at_an_early_close() -> None:
    """New York closes at 13:00 on 2025-07-03."""
    first = datetime.fromisoformat("2025-07-01T00:00Z")
    calendar = _VenueSessions(find_venue("us_equity"), first, first + timedelta(days=7))
    row = calendar.row_of(datetime.fromisoformat("2025-07-03T14:00:00-04:00"))
    assert str(calendar.days[row]) == "2025-07-07"
    assert calendar.close(row - 1) == datetime.fromisoformat("2025-07-03T17:00Z")
