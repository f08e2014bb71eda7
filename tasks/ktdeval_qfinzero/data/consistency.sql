-- Problems of tables that do not fit each other or the bars: one line a row, in the form of messages.
WITH
stocks AS (SELECT symbol FROM market.symbols WHERE asset_class = 'stock'),
named AS (
    SELECT 'contracts' AS place, underlying AS symbol FROM market.contracts
    UNION SELECT 'dividends', symbol FROM market.dividends
    UNION SELECT 'splits', symbol FROM market.splits
    UNION SELECT 'borrow', symbol FROM market.borrow
    UNION SELECT 'deals', symbol FROM market.deals
),
becomes AS (SELECT symbol, last("into" ORDER BY day) AS "into" FROM market.deals GROUP BY symbol),
chains AS (
    WITH RECURSIVE steps AS (
        SELECT symbol, "into", 1 AS step FROM becomes
        UNION ALL
        SELECT steps.symbol, becomes."into", step + 1 FROM steps JOIN becomes ON becomes.symbol = steps."into"
        WHERE steps."into" <> steps.symbol AND step < (SELECT count(*) FROM becomes)
    )
    SELECT symbol FROM steps WHERE "into" = symbol
),
listed AS (
    SELECT asset_class, symbol, listed_ns, NULL AS expiry FROM market.symbols
    UNION ALL SELECT 'option', symbol, listed_ns, expiry FROM market.contracts
),
reaches AS (
    SELECT asset_class, symbol, max(last_ns) AS last_ns,
        min(first_ns + if(resolution = 'day', 86400000000000, 60000000000)) AS first_ns
    FROM market.series GROUP BY asset_class, symbol
),
instruments AS (
    SELECT asset_class || ' ' || symbol AS instrument, CASE
        WHEN listed_ns IS NULL THEN 'has bars, but is not in ' || if(asset_class = 'option', 'contracts', 'symbols')
        WHEN first_ns <= listed_ns THEN 'was listed at '
            || regexp_replace(strftime(make_timestamp_ns(listed_ns), '%Y-%m-%dT%H:%M:%S.%n'), '\.000000000$', '') || 'Z, after its first bar'
        WHEN make_timestamp_ns(last_ns)::DATE > expiry THEN 'has bars after its expiry'
        END AS words
    FROM reaches LEFT JOIN listed USING (asset_class, symbol)
)
SELECT line FROM (
    SELECT 1 AS part, symbol, 'tables/' || place || ': ' || symbol[:40] || ' is not a stock in symbols' AS line
    FROM named ANTI JOIN stocks USING (symbol)
    UNION ALL
    SELECT 2, symbol, 'tables/deals: a share of ' || symbol || ' becomes ' || "into" || ', and that in the end ' || symbol || ' again'
    FROM becomes SEMI JOIN chains USING (symbol)
    UNION ALL
    SELECT 3, instrument, instrument || ': ' || words FROM instruments WHERE words IS NOT NULL
) ORDER BY part, symbol, line
