-- From cells of text to bars: of a block of rows at a time, `given` has the texts, `starts` the start of each distinct
-- text of `time`, `block` the bars. A cell that is malformed becomes NULL. Variables: `rounded` and `unit` as in the
-- spec, `is_option`. The patterns of symbols are words of `schema.yaml`.
CREATE TABLE given (
    file INTEGER, line BIGINT, symbol VARCHAR, time VARCHAR, open VARCHAR, high VARCHAR, low VARCHAR, close VARCHAR,
    volume VARCHAR, transactions VARCHAR
);
CREATE TABLE starts (time VARCHAR, start_ns BIGINT);

-- A number is cast first, and taken if it prints back: digits, and a point with at most four decimals. Patterns, which
-- are slow, read only the rest.
CREATE MACRO plain_decimal(x) AS TRY_CAST(x AS DECIMAL(15, 4));
CREATE MACRO prints_back(x, number) AS starts_with(number::VARCHAR, x) AND x[1] BETWEEN '0' AND '9' AND x[-1] <> '.';
-- Decimals of a price after the fourth
CREATE MACRO further_decimals(x) AS rtrim(substr(split_part(x, '.', 2), 5), '0');
CREATE MACRO cut_e4(x) AS TRY_CAST(split_part(x, '.', 1) || rpad(split_part(x, '.', 2)[:4], 4, '0') AS BIGINT);
-- Ten-thousandths, exact; more decimals are rounded, halves to even
CREATE MACRO exact_e4(x) AS CASE
    WHEN prints_back(x, plain_decimal(x)) THEN replace(plain_decimal(x)::VARCHAR, '.', '')::BIGINT
    WHEN regexp_full_match(x, '[0-9]{1,11}(\.[0-9]{1,40})?') AND (getvariable('rounded') OR further_decimals(x) = '')
    THEN cut_e4(x) + (further_decimals(x) > '5' OR (further_decimals(x) = '5' AND cut_e4(x) % 2 = 1))::BIGINT
END;
CREATE MACRO is_rounded(x, e4) AS CASE
    WHEN e4 IS NULL OR contains(x[-5:], '.') THEN 0 ELSE (further_decimals(x) <> '')::INTEGER
END;
CREATE MACRO number_from_0(x) AS CASE
    WHEN prints_back(x, plain_decimal(x)) THEN plain_decimal(x)::DOUBLE
    WHEN regexp_full_match(x, '[0-9]{1,16}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?') THEN x::DOUBLE
END;
-- Of a product of floats, a half is seen by its first six decimals: 4567.85 × 0.001 × 10,000 is 45678.50000000001.
CREATE MACRO scaled_e4(x) AS TRY_CAST(
    round_even(round_even(number_from_0(x) * getvariable('unit') * 10000 * 1e6, 0) / 1e6, 0) AS BIGINT
);
CREATE MACRO price_e4(x) AS CASE WHEN getvariable('unit') = 1 THEN exact_e4(x) ELSE scaled_e4(x) END;
-- Whole units. The factor is 1 and four times the distance of floats: 1.001 / 0.001 is 1000.9999999999999.
CREATE MACRO volume(x) AS CASE
    WHEN getvariable('unit') = 1 THEN number_from_0(x)
    ELSE floor(number_from_0(x) / getvariable('unit') * '1.0000000000000009'::DOUBLE)
END;
CREATE MACRO whole_from_0(x) AS CASE
    WHEN TRY_CAST(x AS UINTEGER)::VARCHAR = x THEN TRY_CAST(x AS UINTEGER)::BIGINT
    WHEN regexp_full_match(x, '[0-9]{1,16}') THEN x::BIGINT
END;
CREATE MACRO is_symbol(x) AS CASE
    WHEN getvariable('is_option')
    THEN regexp_full_match(x, '$opra') AND try_strptime('20' || right(x, 15)[:6], '%Y%m%d') IS NOT NULL
    ELSE regexp_full_match(x, '$ticker')
END;

-- Times as vendors write them in the form of ISO 8601: a blank before the hour, ` UTC` after it, offsets without a
-- colon
CREATE MACRO spelled_time(x) AS regexp_replace(
    regexp_replace(regexp_replace(x, '^([0-9]{4}-[0-9]{2}-[0-9]{2}) ', '\1T'), '( UTC|[+]00:?00)$$', 'Z'),
    '(T.*[+-][0-9]{2})([0-9]{2})$$', '\1:\2'
);
CREATE MACRO parts_of_time(x) AS regexp_extract(
    x,
    '^([0-9]{4}-[0-9]{2}-[0-9]{2})(T((?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2})?)(\.[0-9]{1,9})?(Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?$$',
    ['day', 'rest', 'clock', 'fraction', 'zone']
);
CREATE MACRO offset_ns(x) AS CASE
    WHEN length(x) > 1 THEN (x[1] || '1')::BIGINT * (x[2:3]::BIGINT * 60 + x[5:6]::BIGINT) * 60000000000 ELSE 0
END;
-- Each distinct text of `time`: nanoseconds since 1970, clocks without an offset as if they were in UTC, and its form:
-- empty if it is malformed
CREATE VIEW times AS
    WITH spelled AS (SELECT DISTINCT time, spelled_time(time) AS text FROM given),
    parts AS (SELECT time, text, parts_of_time(text) AS part FROM spelled),
    moments AS (
        SELECT time, part, CASE
            WHEN regexp_full_match(text, '[0-9]{17,19}') THEN TRY_CAST(text AS BIGINT)
            WHEN part.day <> '' THEN epoch_ns(TRY_CAST(part.day || ' ' || if(part.clock = '', '00:00', part.clock) AS TIMESTAMP_NS))
                + rpad(part.fraction[2:], 9, '0')::BIGINT - offset_ns(part.zone)
        END AS ns
        FROM parts
    )
    SELECT time, coalesce(ns, 0) AS ns, CASE
        WHEN ns IS NULL OR NOT ns BETWEEN 0 AND $last THEN ''
        WHEN part.day <> '' AND part.rest = '' THEN 'day'
        WHEN part.day <> '' AND part.zone = '' THEN 'clock'
        ELSE 'moment'
    END AS form
    FROM moments;

CREATE VIEW read_bars AS
    SELECT file, line, texts, CASE WHEN is_symbol(texts.symbol) THEN texts.symbol END AS symbol, start_ns,
        price_e4(texts.open) AS open_e4, price_e4(texts.high) AS high_e4,
        price_e4(texts.low) AS low_e4, price_e4(texts.close) AS close_e4,
        volume(texts.volume) AS volume,
        CASE WHEN texts.transactions = '' THEN 0 ELSE whole_from_0(texts.transactions) END AS transactions
    FROM (
        SELECT file, line, {
            symbol: symbol, time: time, open: open, high: high, low: low, close: close, volume: volume,
            transactions: transactions
        } AS texts FROM given
    ) JOIN starts ON starts.time = texts.time;
CREATE TABLE bars (
    asset_class VARCHAR, resolution VARCHAR, symbol VARCHAR, file INTEGER, line BIGINT,
    start_ns BIGINT, open_e4 BIGINT, high_e4 BIGINT, low_e4 BIGINT, close_e4 BIGINT, volume DOUBLE, transactions BIGINT
);
-- Bars of one instrument and moment, each but the first with the one before it
CREATE VIEW repeated_bars AS
    SELECT symbol, start_ns, file, line, lag(file) OVER same AS first_file, lag(line) OVER same AS first_line,
        values <> lag(values) OVER same AS differs
    FROM (
        SELECT *, row(open_e4, high_e4, low_e4, close_e4, volume, transactions) AS values
        FROM bars SEMI JOIN (
            SELECT asset_class, resolution, symbol, start_ns FROM bars GROUP BY ALL HAVING count(*) > 1
        ) USING (asset_class, resolution, symbol, start_ns)
    )
    WINDOW same AS (PARTITION BY asset_class, resolution, symbol, start_ns ORDER BY file, line)
    QUALIFY first_line IS NOT NULL
    ORDER BY asset_class, resolution, symbol, start_ns, file, line;
CREATE VIEW numbered_series AS
    SELECT row_number() OVER (ORDER BY min(file), min(line)) AS series, asset_class, resolution, symbol
    FROM bars GROUP BY asset_class, resolution, symbol;
-- All bars, each once
CREATE VIEW sorted_bars AS
    SELECT series, bars.* FROM bars JOIN numbered_series USING (asset_class, resolution, symbol)
    QUALIFY row_number() OVER (PARTITION BY series, start_ns ORDER BY file, line) = 1
    ORDER BY series, start_ns;
