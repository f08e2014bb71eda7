"""Data derived from the embedded market's prices: options, rates, stock lending, calendars and
articles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from ktdeval.testing import on_each_row
from ktdeval_qfinzero.data.synthetic.cached_dataset import cache_root, generated_folder
from ktdeval_qfinzero.data.synthetic.companies import STOCKS, live
from ktdeval_qfinzero.data.synthetic.earnings import draw_reports, report_events
from ktdeval_qfinzero.data.synthetic.macro import FOMC, SERIES
from ktdeval_qfinzero.data.synthetic.option_prices import OptionTerms, value
from ktdeval_qfinzero.data.synthetic.params import SyntheticMarketParams
from ktdeval_qfinzero.data.synthetic.prices import draw_course
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.suite.samples import embedded_dataset
from ktdeval_qfinzero.timestamps import moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_synthetic import SMALL, grid_of, small_market

DEFAULT = SyntheticMarketParams()


def connect(folder: Path) -> duckdb.DuckDBPyConnection:
    """A market's file, with the exchange's sessions and bars by day."""
    hours = trading_hours()
    columns = {"day": hours.days, "open_ns": hours.open_ns, "close_ns": hours.close_ns}
    bars = "SELECT *, make_timestamp_ns(start_ns)::DATE AS day FROM bars JOIN series USING (series)"
    connection = duckdb.connect(folder / "market.duckdb", read_only=True)
    connection.register("sessions", pa.table(columns))
    connection.execute(
        "CREATE TEMP VIEW grid AS FROM sessions"
        f" WHERE day BETWEEN '{SMALL.first_day}' AND '{SMALL.last_day}';"
        f"CREATE TEMP VIEW days AS {bars} WHERE resolution = 'day';"
        f"CREATE TEMP VIEW minutes AS {bars} WHERE resolution = 'minute'"
    )
    return connection


def tally(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, int]:
    """Rows of a query, and those in which the rule does not hold."""
    counts = f"SELECT count(*), count_if(NOT coalesce(holds, false)) FROM ({query})"
    rows, broken = connection.execute(counts).fetchall()[0]
    return rows, broken


@pytest.fixture(scope="module")
def stored(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The reduced market."""
    folder = tmp_path_factory.mktemp("stored") / "small"
    market = small_market()
    save_dataset(folder, market.prices, market.events, market.news, market.info)
    with connect(folder) as connection:
        yield connection


# Rules of the reduced market, as it is stored: at least so many rows, and what `holds` in each of them. Besides the tables of
# the file there are `sessions` of the exchange, those of the market's days (`grid`), and `days` and `minutes`: bars with their
# `asset_class`, `symbol` and calendar `day`.
@on_each_row(
    "rule, min_rows, query",
    # Bars
    (
        (
            "prices are to the cent, and volumes of stocks and options whole, with one price "
            "for one trade"
        ),
        130_000,
        (
            "SELECT open_e4 % 100 = 0 AND high_e4 % 100 = 0 AND low_e4 % 100 = 0 AND close_e4 "
            "% 100 = 0 AND volume > 0 AND transactions > 0 AND (asset_class = 'crypto' OR "
            "(volume = floor(volume) AND volume >= transactions AND (transactions > 1 OR "
            "high_e4 = low_e4))) AS holds FROM (FROM days UNION ALL BY NAME FROM minutes)"
        ),
    ),
    (
        "bars of days are made of bars of minutes",
        250,
        (
            "WITH made AS ( SELECT asset_class, symbol, day, first(open_e4 ORDER BY start_ns) "
            "AS opened, max(high_e4) AS highest, min(low_e4) AS lowest, last(close_e4 ORDER BY "
            "start_ns) AS closed, sum(volume) AS traded, sum(transactions) AS trades FROM "
            "minutes GROUP BY ALL) SELECT (opened, highest, lowest, closed, trades) = "
            "(open_e4, high_e4, low_e4, close_e4, transactions) AND abs(traded - volume) <= "
            "1e-9 * volume AS holds FROM made LEFT JOIN days USING (asset_class, symbol, day)"
        ),
    ),
    (
        "minutes of options are compared with their days, too",
        100,
        "SELECT DISTINCT ON (symbol, day) true AS holds FROM minutes WHERE asset_class = 'option'",
    ),
    (
        "days of stocks and options are sessions",
        10000,
        (
            "SELECT open_ns IS NOT NULL AS holds FROM days LEFT JOIN sessions USING (day) "
            "WHERE asset_class <> 'crypto'"
        ),
    ),
    (
        "minutes of stocks and options lie in sessions",
        30000,
        (
            "SELECT start_ns >= open_ns AND start_ns < close_ns AS holds FROM minutes LEFT "
            "JOIN sessions USING (day) WHERE asset_class <> 'crypto'"
        ),
    ),
    (
        "minutes stop at an early close",
        1,
        (
            "SELECT count(*) = 210 AND min(start_ns) = epoch_ns(TIMESTAMP '2024-12-24 14:30') "
            "AND max(start_ns) = epoch_ns(TIMESTAMP '2024-12-24 17:59') AS holds FROM minutes "
            "WHERE symbol = 'AVLN' AND day = '2024-12-24'"
        ),
    ),
    (
        "a thinly traded stock misses minutes, and a large one does not",
        1,
        (
            "WITH all_minutes AS (SELECT sum(close_ns - open_ns) / 60e9 AS amount FROM grid "
            "WHERE day BETWEEN '2024-12-16' AND '2024-12-31') SELECT count_if(symbol = 'AVLN') "
            "= any_value(amount) AND count_if(symbol = 'DUVN') BETWEEN 0.4 * any_value(amount) "
            "AND 0.9 * any_value(amount) AS holds FROM minutes, all_minutes"
        ),
    ),
    (
        "coins trade every minute",
        46076,
        (
            "SELECT start_ns - lag(start_ns) OVER (PARTITION BY symbol ORDER BY start_ns) = "
            "60e9 AS holds FROM minutes WHERE asset_class = 'crypto' QUALIFY holds IS NOT NULL"
        ),
    ),
    (
        "coins trade every day",
        170,
        (
            "SELECT day - lag(day) OVER (PARTITION BY symbol ORDER BY day) = 1 AS holds FROM "
            "days WHERE asset_class = 'crypto' QUALIFY holds IS NOT NULL"
        ),
    ),
    (
        "volumes of coins have decimals",
        1,
        (
            "SELECT bool_or(volume <> floor(volume)) AS holds FROM minutes WHERE asset_class = "
            "'crypto'"
        ),
    ),
    (
        "a halted stock has no bar for a day and trades again after it",
        1,
        (
            "SELECT count(*) = 1 AND min(day) > (SELECT min(day) FROM grid) AND max(day) < "
            "(SELECT max(day) FROM grid) AS holds FROM grid ANTI JOIN (FROM days WHERE symbol "
            "= 'FNXO') AS traded USING (day)"
        ),
    ),
    (
        "a stock that is bought jumps at the bid and rests",
        8,
        (
            "WITH bid AS (SELECT make_timestamp_ns(published_ns)::DATE AS bid_day FROM news "
            "WHERE list_contains(keywords, 'bid')), moves AS (SELECT day, open_e4 / "
            "lag(close_e4) OVER (ORDER BY day) AS jump, ln(close_e4 / lag(close_e4) OVER "
            "(ORDER BY day)) AS change FROM days WHERE symbol = 'GYRM') SELECT if(day = "
            "bid_day, jump BETWEEN 1.15 AND 1.30, abs(change) < 0.01) AS holds FROM moves, bid "
            "WHERE day >= bid_day"
        ),
    ),
    (
        "a stock that is bought is delisted, and nothing of it can be borrowed",
        1,
        (
            "SELECT max(day) < (SELECT max(day) FROM grid) AND (SELECT last(shares ORDER BY "
            "available_ns) = 0 FROM borrow WHERE symbol = 'GYRM') AS holds FROM days WHERE "
            "symbol = 'GYRM'"
        ),
    ),
    (
        "splits are those of the table, announced before they show",
        3,
        (
            "SELECT (symbol, \"new\", old) IN (('CSTL', 2, 1), ('HXLV', 1, 10), ('IVRD', 3, 2)) "
            "AND make_timestamp_ns(announced_ns)::DATE < ex_day AS holds FROM splits"
        ),
    ),
    (
        "splits show in prices and volumes",
        3,
        (
            "WITH moves AS (SELECT *, lag(close_e4) OVER (PARTITION BY symbol ORDER BY day) AS "
            'last_e4 FROM days) SELECT first(open_e4 / last_e4) FILTER (day = ex_day) * "new" '
            "/ old BETWEEN 0.85 AND 1.15 AND median(volume) FILTER (day >= ex_day) / "
            'median(volume) FILTER (day < ex_day) * old / "new" BETWEEN 0.5 AND 2 AS holds '
            'FROM splits JOIN moves USING (symbol) GROUP BY symbol, ex_day, "new", old'
        ),
    ),
    # Options
    (
        "dividends are of cents and declared before their ex-day, which is a session",
        5,
        (
            "SELECT make_timestamp_ns(declared_ns)::DATE < ex_day AND ex_day < pay_day AND "
            "open_ns IS NOT NULL AND amount_e4 % 100 = 0 AS holds FROM dividends LEFT JOIN "
            "sessions ON ex_day = day"
        ),
    ),
    (
        (
            "weeklies expire on Fridays, monthlies on third Fridays; on the session before "
            "where that is Good Friday"
        ),
        1500,
        (
            "SELECT open_ns IS NOT NULL AND (dayofweek(expiry) = 5 OR expiry = '2025-04-17') "
            "AND expiry + 1 NOT IN (SELECT expiry FROM contracts) AS holds FROM contracts LEFT "
            "JOIN sessions ON expiry = day"
        ),
    ),
    (
        "all monthlies are listed",
        6,
        (
            "SELECT monthly IN (SELECT expiry FROM contracts) AS holds FROM (SELECT "
            "unnest(['2024-11-15', '2024-12-20', '2025-01-17', '2025-02-21', '2025-03-21', "
            "'2025-04-17'])::DATE AS monthly)"
        ),
    ),
    (
        "a contract has no bar before its listing or after its last session",
        1000,
        (
            "SELECT listed_ns <= if(resolution = 'minute', first_ns, open_ns) AND "
            "make_timestamp_ns(last_ns)::DATE <= expiry AS holds FROM series JOIN contracts "
            "USING (symbol) LEFT JOIN sessions ON make_timestamp_ns(first_ns)::DATE = day"
        ),
    ),
    (
        "every day has strikes close to the price and far from it, of five expiries at least",
        50,
        (
            "WITH spot AS (SELECT day, lag(close_e4) OVER (ORDER BY day) AS price FROM days "
            "WHERE symbol = 'AVLN' QUALIFY price IS NOT NULL), chains AS ( SELECT day, "
            "min(strike_e4) < 0.92 * any_value(price) AND max(strike_e4) > 1.08 * "
            "any_value(price) AND min(abs(strike_e4 - price)) <= 0.02 * any_value(price) AS "
            "is_wide FROM spot JOIN sessions USING (day) JOIN contracts ON underlying = 'AVLN' "
            "AND expiry >= day AND listed_ns <= close_ns GROUP BY day, expiry) SELECT "
            "bool_and(is_wide) AND count(*) >= 5 AS holds FROM chains GROUP BY day"
        ),
    ),
    (
        "strikes are added as the price moves",
        1,
        (
            "SELECT count(DISTINCT listed_ns) > 1 AS holds FROM contracts WHERE underlying = "
            "'AVLN' AND expiry = '2025-01-17'"
        ),
    ),
    (
        "only underlyings that never split have options",
        1,
        (
            "SELECT list(DISTINCT underlying ORDER BY underlying) = (SELECT list(symbol ORDER "
            "BY symbol) FROM symbols WHERE has_options) AND list(DISTINCT underlying ORDER BY "
            "underlying) = ['AVLN', 'BRKT'] AND NOT list_has_any(list(underlying), (SELECT "
            "list(symbol) FROM splits)) AS holds FROM contracts"
        ),
    ),
    (
        "unwanted strikes have no bars, and volumes differ widely",
        1,
        (
            "SELECT count(DISTINCT symbol) / (SELECT count(*) FROM contracts) BETWEEN 0.5 AND "
            "0.98 AND quantile_cont(volume, 0.1) < 5 AND quantile_cont(volume, 0.9) > 200 AS "
            "holds FROM days WHERE asset_class = 'option'"
        ),
    ),
    (
        "an option is never worth less than exercise",
        5000,
        (
            "WITH spot AS (SELECT symbol AS underlying, day, close_e4 AS spot_e4 FROM days "
            "WHERE asset_class = 'stock'), worth AS (SELECT close_e4, day = expiry AS expires, "
            "greatest(0, if(\"right\" = 'C', spot_e4 - strike_e4, strike_e4 - spot_e4)) AS "
            "payoff FROM days JOIN contracts USING (symbol) JOIN spot USING (underlying, day) "
            "WHERE underlying = 'BRKT') SELECT if(expires, close_e4 = greatest(100, payoff), "
            "close_e4 >= payoff) AS holds FROM worth"
        ),
    ),
    (
        "an option is worth its payoff at expiry",
        100,
        (
            "WITH spot AS (SELECT symbol AS underlying, day, close_e4 AS spot_e4 FROM days "
            "WHERE asset_class = 'stock') SELECT close_e4 = greatest(100, if(\"right\" = 'C', "
            "spot_e4 - strike_e4, strike_e4 - spot_e4)) AS holds FROM days JOIN contracts "
            "USING (symbol) JOIN spot USING (underlying, day) WHERE underlying = 'BRKT' AND "
            "day = expiry"
        ),
    ),
    # Rates, lending
    (
        "calls and puts keep parity",
        1,
        (
            "WITH quotes AS (SELECT day, underlying, expiry, strike_e4, any_value(close_e4) "
            "FILTER (\"right\" = 'C') AS call, any_value(close_e4) FILTER (\"right\" = 'P') AS put "
            "FROM days JOIN contracts USING (symbol) WHERE underlying = 'BRKT' GROUP BY ALL "
            "HAVING call > 0 AND put > 0), owed AS (SELECT quotes.*, coalesce(sum(amount_e4), "
            "0) AS amount FROM quotes LEFT JOIN dividends ON symbol = underlying AND "
            "make_timestamp_ns(declared_ns)::DATE <= day AND ex_day > day AND ex_day <= expiry "
            "GROUP BY ALL), gaps AS (SELECT (call - put - (close_e4 - amount - strike_e4 * "
            "exp(-yields_pct['3M'] / 100 * (expiry - owed.day) / 365))) / close_e4 AS gap FROM "
            "owed JOIN rates ON rates.day = owed.day JOIN days ON days.symbol = underlying AND "
            "days.day = owed.day) SELECT count(*) > 1000 AND abs(median(gap)) < 0.0005 AND "
            "quantile_cont(abs(gap), 0.9) < 0.006 AS holds FROM gaps"
        ),
    ),
    (
        "a curve of seven tenors is published at six in the evening, also after an early close",
        59,
        (
            "SELECT available_ns = open_ns + 8.5 * 3600e9 AND len(map_keys(yields_pct)) = 7 AS "
            "holds FROM grid LEFT JOIN rates USING (day)"
        ),
    ),
    (
        "yields are above zero, to two decimals",
        413,
        (
            "SELECT yield > 0 AND round(yield, 2) = yield AS holds FROM (SELECT "
            "unnest(map_values(yields_pct)) AS yield FROM rates)"
        ),
    ),
    (
        "many shares of a large stock can be borrowed at a low fee",
        10,
        (
            "SELECT fee_bps_per_year <= 35 AND shares > 1000000 AS holds FROM borrow WHERE "
            "symbol = 'AVLN'"
        ),
    ),
    (
        "few shares of some stocks can be borrowed at a high fee",
        10,
        (
            "SELECT fee_bps_per_year >= 300 AND shares < 5000 AS holds FROM borrow WHERE "
            "symbol = 'FNXO'"
        ),
    ),
    (
        "high fees change",
        1,
        "SELECT count(DISTINCT fee_bps_per_year) > 3 AS holds FROM borrow WHERE symbol = 'FNXO'",
    ),
    (
        "lending is known when the data begin",
        1,
        (
            "SELECT min(available_ns) <= epoch_ns(TIMESTAMP '2024-10-21') AS holds FROM borrow "
            "WHERE symbol = 'AVLN'"
        ),
    ),
    # Calendars
    (
        "an event is announced before it is due, without its outcome",
        61,
        (
            "SELECT announced_ns < time_ns AND NOT contains(expected, 'actual\":') AS holds "
            "FROM events"
        ),
    ),
    (
        "no outcome is known before its event is due",
        60,
        (
            "SELECT (release->>0)::BIGINT >= time_ns AS holds FROM (SELECT time_ns, "
            "unnest(CAST(releases AS JSON[])) AS release FROM events) WHERE "
            "contains(release::VARCHAR, 'actual\":')"
        ),
    ),
    (
        "the previous value is that of the last release known at the announcement",
        26,
        (
            "WITH released AS (SELECT regexp_replace(event_id, '_\\d+', '', 'g') AS series, "
            "time_ns, announced_ns, released_ns[1] AS first_ns, json_extract(expected, "
            "'$.previous')::DOUBLE AS previous, json_extract(releases, "
            "'$[0][1].actual')::DOUBLE AS actual FROM events WHERE event_type = "
            "'macro_calendar') SELECT previous = lag(actual) OVER released_before AND "
            "announced_ns >= lag(first_ns) OVER released_before AS holds FROM released WINDOW "
            "released_before AS (PARTITION BY series ORDER BY time_ns) QUALIFY holds IS NOT NULL"
        ),
    ),
    (
        "economic releases come at their hours",
        3,
        (
            "SELECT time_ns = epoch_ns(due) AS holds FROM (VALUES ('econ_cpi_2024_12', "
            "TIMESTAMP '2024-12-11 13:30'), ('econ_fomc_2024_12', TIMESTAMP '2024-12-18 "
            "19:00'), ('econ_nfp_2025_01', TIMESTAMP '2025-01-10 13:30')) AS "
            "expected(event_id, due) LEFT JOIN events USING (event_id)"
        ),
    ),
    (
        "a title names the period",
        1,
        (
            "SELECT title = 'Consumer Price Index (November)' AS holds FROM events WHERE "
            "event_id = 'econ_cpi_2024_12'"
        ),
    ),
    # Articles
    (
        "events are of all importances and of two markets",
        1,
        (
            "SELECT list(DISTINCT importance ORDER BY importance) = ['high', 'low', 'medium'] "
            "AND list(DISTINCT market ORDER BY market) = ['global', 'us'] AS holds FROM events"
        ),
    ),
    (
        "articles are whole texts at addresses that exist nowhere",
        151,
        (
            "SELECT NOT regexp_matches(concat_ws(' ', title, description, body), "
            "'[{}]|\\bnan\\b|None|  |\\$-|--') AND title <> '' AND length(body) > 60 AND "
            "regexp_full_match(article_url, "
            "'https://[a-z]+\\.example/\\d{4}/\\d\\d/\\d\\d/[a-z0-9-]+') AS holds FROM news"
        ),
    ),
    (
        "articles are about listed instruments",
        200,
        (
            "SELECT listed_ns <= published_ns AS holds FROM (SELECT published_ns, "
            "unnest(tickers) AS symbol FROM news) LEFT JOIN symbols USING (symbol)"
        ),
    ),
    (
        "insights are about tickers of their article",
        150,
        (
            "SELECT list_contains(tickers, insight->>'ticker') AND (insight->>'sentiment') IN "
            "('positive', 'neutral', 'negative') AS holds FROM (SELECT tickers, "
            "unnest(CAST(insights AS JSON[])) AS insight FROM news)"
        ),
    ),
    (
        "articles report true results and not before publication",
        5,
        (
            "WITH known AS ( SELECT title, time_ns, unnest(list_prepend(json_array(0, "
            "expected::JSON), CAST(releases AS JSON[]))) AS release FROM events), facts AS ( "
            "SELECT title, time_ns, last(json_extract(release, '$[1].eps_actual')::DOUBLE "
            "ORDER BY (release->>0)::BIGINT) FILTER (json_exists(release, '$[1].eps_actual')) "
            "AS eps, last(json_extract(release, '$[1].eps_estimated')::DOUBLE ORDER BY "
            "(release->>0)::BIGINT) FILTER (json_exists(release, '$[1].eps_estimated')) AS "
            "estimate FROM known WHERE (release->>0)::BIGINT <= time_ns GROUP BY ALL HAVING "
            "eps IS NOT NULL), results AS ( SELECT body, published_ns, regexp_extract(title, "
            "'(.+) (beats|misses|meets) estimates for (Q\\d \\d{4})', ['name', 'verb', "
            "'period']) AS told FROM news WHERE regexp_matches(title, ' (beats|misses|meets) "
            "estimates for ')) SELECT verb = CASE WHEN eps > estimate THEN 'beats' WHEN eps < "
            "estimate THEN 'misses' ELSE 'meets' END AND contains(body, '$' || printf('%.2f', "
            "abs(eps)) || ' a share') AND published_ns > time_ns AND published_ns < time_ns + "
            "600e9 AS holds FROM (SELECT body, published_ns, told.verb AS verb, told.name || ' "
            "' || told.period || ' earnings' AS title FROM results) LEFT JOIN facts USING (title)"
        ),
    ),
    (
        "articles report the true close and only afterwards",
        151,
        (
            "WITH told AS (SELECT published_ns, make_timestamp_ns(published_ns)::DATE AS day, "
            "unnest(regexp_extract_all(body, '\\(([A-Z]+)\\) [+-]\\d', 1)) AS symbol, "
            "unnest(regexp_extract_all(body, '\\([A-Z]+\\) ([+-]\\d+\\.\\d)%', 1))::DOUBLE AS "
            "percent FROM news WHERE keywords = ['market close']), moves AS (SELECT symbol, "
            "day, close_e4 / lag(close_e4) OVER (PARTITION BY symbol ORDER BY day) AS change "
            "FROM days WHERE asset_class = 'stock') SELECT published_ns > close_ns AND "
            'abs((change * coalesce("new" / old, 1) - 1) * 100 - percent) <= 0.051 AS holds '
            "FROM told JOIN sessions USING (day) LEFT JOIN moves USING (symbol, day) LEFT JOIN "
            "splits ON splits.symbol = told.symbol AND ex_day = told.day"
        ),
    ),
    (
        "articles report true unusual volumes of options after the close",
        1,
        (
            'WITH chain AS (SELECT underlying, "right", day, sum(volume) AS volume FROM days '
            "JOIN contracts USING (symbol) GROUP BY ALL), told AS (SELECT published_ns, "
            "tickers[1] AS underlying, make_timestamp_ns(published_ns)::DATE AS day, "
            "replace(regexp_extract(body, '([\\d,]+) (call|put)s on', 1), ',', '')::DOUBLE AS "
            "told, upper(regexp_extract(body, ' (c|p)(all|ut)s on', 1)) AS \"right\" FROM news "
            "WHERE event_type = 'option_signal') SELECT published_ns > close_ns AND told = "
            "volume AS holds FROM told JOIN sessions USING (day) LEFT JOIN chain USING "
            '(underlying, "right", day)'
        ),
    ),
    (
        "dividends are reported five minutes after they are declared",
        1,
        (
            "SELECT list(published_ns ORDER BY published_ns) = (SELECT list(declared_ns + "
            "300000000000 ORDER BY declared_ns) FROM dividends WHERE declared_ns >= (SELECT "
            "min(open_ns) FROM grid)) AS holds FROM news WHERE list_contains(keywords, 'dividend')"
        ),
    ),
    (
        "splits are reported when they are announced",
        3,
        (
            "SELECT announced_ns IN (SELECT published_ns FROM news WHERE "
            "list_contains(keywords, 'split')) AS holds FROM splits"
        ),
    ),
    (
        "articles report listings, halts, bids, reports, analysts, the economy and coins",
        8,
        (
            "SELECT (SELECT bool_or(list_contains(keywords, word)) FROM news) AS holds FROM "
            "(SELECT unnest(['listing', 'halt', 'bid', 'delisting', 'earnings', 'analysts', "
            "'economy', 'coins']) AS word)"
        ),
    ),
)
def test_each_row_of_the_market_obeys(
    stored: duckdb.DuckDBPyConnection, rule: str, min_rows: int, query: str
) -> None:
    rows, broken = tally(stored, query)
    assert (rows >= min_rows, broken) == (True, 0), rule


@on_each_row(
    "rule, min_rows, query",
    (
        "there are 36 stocks, 12 of them with options, and four coins",
        1,
        (
            "SELECT count_if(asset_class = 'stock') = 36 AND count_if(asset_class = 'crypto') "
            "= 4 AND count_if(has_options) = 12 AS holds FROM symbols"
        ),
    ),
    (
        "there are a thousand articles of all kinds",
        1,
        (
            "SELECT count(*) > 1000 AND list(DISTINCT event_type ORDER BY event_type) = "
            "['analyst_action', 'breaking_news', 'daily_news', 'option_signal'] AS holds FROM news"
        ),
    ),
    (
        "sessions begin and end busier and wilder than they go on",
        1,
        (
            "WITH traded AS (SELECT (start_ns - open_ns) / 60e9 AS minute, volume, (high_e4 - "
            "low_e4) / close_e4 AS wide FROM minutes JOIN sessions USING (day) WHERE symbol = "
            "'BRKT') SELECT avg(volume) FILTER (minute < 20) > 1.8 * avg(volume) FILTER "
            "(minute > 150 AND minute < 240) AND avg(volume) FILTER (minute >= 380) > 1.8 * "
            "avg(volume) FILTER (minute > 150 AND minute < 240) AND avg(wide) FILTER (minute < "
            "20) > 1.3 * avg(wide) FILTER (minute > 150 AND minute < 240) AS holds FROM traded"
        ),
    ),
    (
        "some reports are moved, re-estimated and corrected",
        1,
        (
            "SELECT count_if(contains(expected, 'rescheduled_from_utc')) >= 5 AND "
            "count_if(contains(releases, '\"eps_estimated\"')) >= 30 AND "
            "count_if(len(regexp_extract_all(releases, 'actual\":')) > 2) >= 3 AS holds FROM "
            "events WHERE event_type = 'earnings'"
        ),
    ),
    (
        "economic numbers are revised",
        1,
        (
            "SELECT count_if(len(released_ns) > 1) > 50 AS holds FROM events WHERE event_type "
            "= 'macro_calendar'"
        ),
    ),
    (
        "events of the month after the clock's start are announced",
        16,
        (
            "SELECT true AS holds FROM events WHERE announced_ns <= epoch_ns(TIMESTAMP "
            "'2025-02-14 21:00') AND time_ns BETWEEN epoch_ns(TIMESTAMP '2025-02-14 21:00') "
            "AND epoch_ns(TIMESTAMP '2025-03-16 20:59:59')"
        ),
    ),
)
def test_each_row_of_the_embedded_market_obeys(rule: str, min_rows: int, query: str) -> None:
    embedded_dataset(0)
    with connect(generated_folder(cache_root(), DEFAULT)) as connection:
        rows, broken = tally(connection, query)

    assert (rows >= min_rows, broken) == (True, 0), rule


def one(
    strike: float, is_call: bool, rate: float, volatility: float, dividends: float = 0.0
) -> OptionTerms:
    return OptionTerms(
        *(np.array([number]) for number in (strike, is_call, rate, volatility, dividends))
    )


@pytest.mark.parametrize(
    ("strike", "is_call", "intrinsic", "worth"),
    [(40.0, True, 2.0, 4.76), (40.0, False, 0.0, 0.81), (100.0, False, 58.0, 58.0)],
)
def test_the_formula_gives_the_textbook_prices(
    strike: float, is_call: bool, intrinsic: float, worth: float
) -> None:
    """Hull: price 42, 10%, 20%, half a year. Far in the money a European put is worth less than
    exercise, at which nobody sells.
    """
    intrinsic_value, rest = value(one(strike, is_call, 0.1, 0.2), np.array([42.0]), np.array([0.5]))

    assert (intrinsic_value[0], round(intrinsic_value[0] + rest[0], 2)) == (intrinsic, worth)


@given(
    st.floats(20, 400),
    st.floats(0.6, 1.6),
    st.floats(0, 0.08),
    st.floats(0.08, 1.2),
    st.floats(0.003, 0.6),
)
def test_calls_and_puts_keep_parity_as_far_as_early_exercise_lets_them(
    spot: float, ratio: float, rate: float, volatility: float, years: float
) -> None:
    strike = spot * ratio

    def worth(is_call: bool) -> float:
        option = one(strike, is_call, rate, volatility)
        return sum(part[0] for part in value(option, np.array([spot]), np.array([years])))

    assert (
        spot - strike - 1e-6
        <= worth(True) - worth(False)
        <= spot - strike * math.exp(-rate * years) + 1e-6
    )


# Calendars.


@pytest.mark.slow
@given(st.integers(2016, 2034), st.integers(1, 12))
def test_due_days_are_sessions_and_a_series_is_due_once_in_its_month(year: int, month: int) -> None:
    for series in (*SERIES, FOMC):
        days = series.days(year, month)
        assert all(trading_hours().row_of(day) is not None for day in days)
        if series.period != "week":
            assert len(days) <= 1
            assert all((day.year, day.month) == (year, month) for day in days)


@pytest.mark.slow
def test_a_moved_report_is_known_by_its_new_date_only_from_the_move_on() -> None:
    rows = {}
    for stock in STOCKS:
        course = draw_course(0, stock, grid_of(DEFAULT))
        rows |= {row.event_id: row for row in report_events(course.life, course.reports)}

    moved = [row for row in rows.values() if row.event_id.endswith("_moved")]

    assert len(moved) >= 5

    for row in moved:
        first = rows[row.event_id.removesuffix("_moved")]
        (release,) = first.releases
        assert release.values["rescheduled_to_utc"] == moment_text(row.time_ns)
        assert row.expected["rescheduled_from_utc"] == moment_text(first.time_ns)
        assert (
            first.announced_ns
            < release.available_ns
            == row.announced_ns
            < min(first.time_ns, row.time_ns)
        )
        assert first.title == row.title
        assert "rescheduled_from_utc" not in first.expected


def test_the_price_mostly_follows_the_surprise_of_a_report() -> None:
    grid = grid_of(DEFAULT)
    agreed = []
    for stock in STOCKS:
        reports, shocks = draw_reports(0, live(0, stock, grid), grid)
        taken = [report for report in reports if report.reaction_row is not None]
        assert [report.reaction_row for report in taken] == [shock.row for shock in shocks]
        agreed += [
            (report.eps > report.estimate) == (shock.size > 0)
            for report, shock in zip(taken, shocks, strict=True)
            if report.eps != report.estimate
        ]

    assert len(agreed) > 150
    assert 0.6 < np.mean(agreed) < 0.95
