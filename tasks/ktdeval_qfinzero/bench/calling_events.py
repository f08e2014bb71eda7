"""Templates of news and calendar queries."""

from __future__ import annotations

from datetime import timedelta

from ktdeval.api import JsonValue
from ktdeval_qfinzero.bench.facts import Facts
from ktdeval_qfinzero.bench.items import Call, Draft, Step, Template
from ktdeval_qfinzero.bench.phrases import Random, listed, pick, several, spoken, spoken_range, week_of, whole
from ktdeval_qfinzero.data.stores import Tags
from ktdeval_qfinzero.moments import moment_text

_DATES = ("start_date", "end_date")
_WINDOW = ("start_utc", "end_utc")


def _search(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks)
    last = facts.last_day - timedelta(days=whole(rng, 0, 5))
    first = last - timedelta(days=whole(rng, 7, 30))
    arguments: dict[str, JsonValue] = {
        "tickers": [symbol.symbol],
        "start_utc": f"{first}T00:00:00Z",
        "end_utc": f"{last}T23:59:59Z",
    }
    start, end = spoken(rng, first), spoken(rng, last)
    text = pick(
        rng,
        (
            f"Search the news about {symbol.name} ({symbol.symbol}) from the start of {start} (UTC) to the last second of {end} "
            "(UTC).",
            f"Find articles on {symbol.symbol} published from {start}, 00:00 UTC, until {end}, 23:59:59 UTC.",
        ),
    )
    return Draft(text, (Step(Call("ESP.news.search", arguments), _WINDOW, "5min", may_be_empty=True),))


def _search_word(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    word = pick(rng, ("earnings", "dividend", "guidance", "analyst", "results"))
    first = facts.last_day - timedelta(days=whole(rng, 20, 60))
    arguments: dict[str, JsonValue] = {"tickers": [symbol], "keyword": word, "start_utc": f"{first}T00:00:00Z"}
    text = f"Which articles about {symbol} since {spoken(rng, first)} (00:00 UTC) mention the word “{word}”?"
    return Draft(text, (Step(Call("ESP.news.search", arguments), ("start_utc",), "5min", may_be_empty=True),))


def _search_publisher(rng: Random, facts: Facts) -> Draft:
    articles = facts.news(facts.last_day - timedelta(days=30), Tags())
    publisher = pick(rng, sorted({row.publisher["name"] for row in articles}))
    first = facts.last_day - timedelta(days=whole(rng, 3, 10))
    text = f"Show me what {publisher} has published since {spoken(rng, first)}, 00:00 UTC."
    arguments: dict[str, JsonValue] = {"publisher": publisher, "start_utc": f"{first}T00:00:00Z"}
    return Draft(text, (Step(Call("ESP.news.search", arguments), ("start_utc",), "5min", may_be_empty=True),))


def _body(rng: Random, facts: Facts) -> Draft:
    article = pick(rng, facts.news(facts.last_day - timedelta(days=40), Tags()))
    text = pick(
        rng,
        (
            f"Get the full text of the article with the id {article.id}.",
            f"I want to read article {article.id} in full.",
            f"Open news item {article.id} and give me its whole body.",
        ),
    )
    return Draft(text, (Step(Call("ESP.news.body", {"news_id": article.id})),))


def _event(rng: Random, facts: Facts) -> Draft:
    event = pick(rng, facts.events(facts.last_day - timedelta(days=20), facts.last_day + timedelta(days=20), Tags()))
    text = pick(
        rng,
        (
            f"Get the details of event {event.event_id}.",
            f"Look up the calendar event with the id {event.event_id}.",
            f"What does the record of event {event.event_id} say?",
        ),
    )
    return Draft(text, (Step(Call("ESP.events.get", {"event_id": event.event_id})),))


def _just_happened(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    hours = pick(rng, (2, 4, 6, 12, 24, 48))
    text = pick(
        rng,
        (
            f"Query the events: any breaking news on {listed(names)} in the past {hours} hours?",
            f"Query the events of the last {hours} hours for breaking news about {listed(names)}.",
        ),
    )
    arguments: dict[str, JsonValue] = {
        "mode": "just_happened", "horizon_minutes": hours * 60, "event_types": ["breaking_news"], "tickers": names,
    }  # fmt: skip
    return Draft(text, (Step(Call("ESP.events.query", arguments), ("horizon_minutes",), may_be_empty=True),))


def _window(rng: Random, facts: Facts) -> Draft:
    first = facts.last_day - timedelta(days=whole(rng, 0, 10))
    last = first + timedelta(days=whole(rng, 7, 14))
    least = pick(rng, ("medium", "high"))
    words = "of at least medium importance" if least == "medium" else "of high importance"
    text = (
        f"List all earnings and macro calendar events {words}, for any ticker, from the start of {spoken(rng, first)} to the last "
        f"second of {spoken(rng, last)}, both UTC. Use the event query, not the calendars."
    )
    arguments: dict[str, JsonValue] = {
        "mode": "window", "start_utc": f"{first}T00:00:00Z", "end_utc": f"{last}T23:59:59Z",
        "event_types": ["earnings", "macro_calendar"], "min_importance": least,
    }  # fmt: skip
    return Draft(text, (Step(Call("ESP.events.query", arguments), _WINDOW, "60min", may_be_empty=True),))


def _stream(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    words, types = pick(
        rng,
        (
            ("breaking news", ["breaking_news"]),
            ("analyst actions and option signals", ["analyst_action", "option_signal"]),
            ("earnings events", ["earnings"]),
        ),
    )
    text = pick(
        rng,
        (
            f"Start following the event stream for {listed(names)}, {words} only, from the head.",
            f"Poll the stream of {words} on {listed(names)} with the cursor HEAD.",
        ),
    )
    arguments: dict[str, JsonValue] = {"cursor": "HEAD", "event_types": types, "tickers": names}
    return Draft(text, (Step(Call("ESP.events.stream", arguments), may_be_empty=True),))


def _timeline(rng: Random, facts: Facts) -> Draft:
    symbol = pick(rng, facts.stocks).symbol
    monday, friday = week_of(facts.last_day - timedelta(days=7 * whole(rng, 1, 4)))
    hours = pick(rng, (1, 2, 4, 8, 12))
    text = (
        f"Build a timeline of {symbol}'s events from the start of {spoken(rng, monday)} to the last second of "
        f"{spoken(rng, friday)} (UTC) in buckets of {hours} hour{'s' if hours > 1 else ''}."
    )
    arguments: dict[str, JsonValue] = {
        "tickers": [symbol], "start_utc": f"{monday}T00:00:00Z", "end_utc": f"{friday}T23:59:59Z", "bucket_minutes": hours * 60,
    }  # fmt: skip
    return Draft(text, (Step(Call("ESP.timeline", arguments), _WINDOW, "60min", may_be_empty=True),))


def _earnings(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 3))]
    first = facts.last_day + timedelta(days=whole(rng, -10, 3))
    last = first + timedelta(days=whole(rng, 30, 60))
    text = pick(
        rng,
        (
            f"When does the calendar show earnings of {listed(names)}? Look {spoken_range(rng, first, last)}.",
            f"Check the earnings calendar for {listed(names)} {spoken_range(rng, first, last)}.",
        ),
    )
    arguments: dict[str, JsonValue] = {"start_date": first.isoformat(), "end_date": last.isoformat(), "tickers": names}
    return Draft(text, (Step(Call("ESP.calendar.earnings", arguments), _DATES, may_be_empty=True),))


def _earnings_all(rng: Random, facts: Facts) -> Draft:
    first = facts.last_day + timedelta(days=whole(rng, 1, 5))
    days = pick(rng, (7, 10, 14))
    last = first + timedelta(days=days - 1)
    text = pick(
        rng,
        (
            f"List every earnings report scheduled {spoken_range(rng, first, last)}.",
            f"Which companies report {spoken_range(rng, first, last)}? Any ticker counts.",
        ),
    )
    arguments: dict[str, JsonValue] = {"start_date": first.isoformat(), "end_date": last.isoformat()}
    return Draft(text, (Step(Call("ESP.calendar.earnings", arguments), _DATES, may_be_empty=True),))


def _econ(rng: Random, facts: Facts) -> Draft:
    first = facts.last_day + timedelta(days=whole(rng, -10, 5))
    last = first + timedelta(days=whole(rng, 4, 20))
    least = pick(rng, ("medium", "high"))
    words = "high-importance economic releases" if least == "high" else "economic releases of medium importance or more"
    text = pick(
        rng,
        (
            f"Which {words} does the calendar have {spoken_range(rng, first, last)}?",
            f"Give me all {words} {spoken_range(rng, first, last)}.",
        ),
    )
    arguments: dict[str, JsonValue] = {"start_date": first.isoformat(), "end_date": last.isoformat(), "min_importance": least}
    return Draft(text, (Step(Call("ESP.calendar.econ", arguments), _DATES, may_be_empty=True),))


def _triggers(rng: Random, facts: Facts) -> Draft:
    names = [row.symbol for row in several(rng, facts.stocks, whole(rng, 1, 4))]
    hours, least = pick(rng, (4, 8, 24, 48, 72)), pick(rng, ("medium", "high"))
    words = "high" if least == "high" else "medium or higher"
    text = f"My watchlist is {listed(names)}. What are the next event triggers of {words} importance within {hours} hours?"
    arguments: dict[str, JsonValue] = {"tickers": names, "min_importance": least, "horizon_minutes": hours * 60}
    return Draft(text, (Step(Call("ESP.triggers.next", arguments), ("horizon_minutes",), may_be_empty=True),))


def _upcoming(rng: Random, _: Facts) -> Draft:
    hours = pick(rng, (12, 24, 36, 48, 96))
    text = pick(
        rng,
        (
            f"Query the upcoming macro calendar events of the next {hours} hours.",
            f"Which macro calendar events are upcoming within {hours} hours? Query the events.",
        ),
    )
    arguments: dict[str, JsonValue] = {"mode": "upcoming", "horizon_minutes": hours * 60, "event_types": ["macro_calendar"]}
    return Draft(text, (Step(Call("ESP.events.query", arguments), ("horizon_minutes",), may_be_empty=True),))


def _around(rng: Random, facts: Facts) -> Draft:
    """A window in local time, so that it has to be turned into UTC."""
    symbol, day = pick(rng, facts.stocks).symbol, facts.session(-whole(rng, 1, 6))
    start, end = facts.local_moment(day, 9, 30), facts.local_moment(day, 16, 0)
    text = f"What news of any kind came out about {symbol} on {spoken(rng, day)} during regular trading hours? Search the articles."
    arguments: dict[str, JsonValue] = {"tickers": [symbol], "start_utc": moment_text(start), "end_utc": moment_text(end)}
    return Draft(text, (Step(Call("ESP.news.search", arguments), _WINDOW, "5min", may_be_empty=True),))


TEMPLATES = (
    Template("search", "news_query", "medium", _search, 5),
    Template("search_word", "news_query", "medium", _search_word, 4),
    Template("search_publisher", "news_query", "medium", _search_publisher, 4),
    Template("body", "news_query", "easy", _body, 4),
    Template("just_happened", "news_query", "medium", _just_happened, 5),
    Template("stream", "news_query", "medium", _stream, 4),
    Template("timeline", "news_query", "hard", _timeline, 5),
    Template("around", "news_query", "hard", _around, 5),
    Template("event", "calendar_query", "easy", _event, 4),
    Template("window", "calendar_query", "medium", _window, 5),
    Template("earnings", "calendar_query", "medium", _earnings, 6),
    Template("earnings_all", "calendar_query", "easy", _earnings_all, 4),
    Template("econ", "calendar_query", "medium", _econ, 6),
    Template("triggers", "calendar_query", "medium", _triggers, 5),
    Template("upcoming", "calendar_query", "easy", _upcoming, 3),
)
