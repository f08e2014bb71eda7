-- Bars of an update: `temp.staged_bars` with the stored ones, by the new numbers of series.
CREATE TEMP VIEW old_bars AS
    SELECT new.series, bars.* EXCLUDE (series)
    FROM old.bars
    JOIN old.series AS before ON before.series = bars.series
    JOIN temp.series AS new USING (asset_class, resolution, symbol);
CREATE TEMP TABLE bar_pairs AS
    SELECT series, start_ns, staged.open_e4 <> old.open_e4 OR staged.high_e4 <> old.high_e4 OR staged.low_e4 <> old.low_e4
        OR staged.close_e4 <> old.close_e4 OR staged.volume <> old.volume OR staged.transactions <> old.transactions AS differs
    FROM temp.staged_bars AS staged JOIN old_bars AS old USING (series, start_ns);
CREATE TEMP VIEW bar_tallies AS
    SELECT asset_class || ' ' || resolution AS kind, count(*) AS given, count(pair.series) AS matched,
        coalesce(count_if(differs), 0) AS other
    FROM temp.staged_bars JOIN temp.series USING (series)
    LEFT JOIN bar_pairs AS pair USING (series, start_ns)
    GROUP BY kind ORDER BY kind;
CREATE TEMP VIEW bar_contradictions AS
    SELECT asset_class || ' ' || resolution AS kind, series, symbol, start_ns,
        old.open_e4, old.high_e4, old.low_e4, old.close_e4, old.volume, old.transactions,
        new.open_e4, new.high_e4, new.low_e4, new.close_e4, new.volume, new.transactions
    FROM bar_pairs JOIN temp.series USING (series)
    JOIN old_bars AS old USING (series, start_ns) JOIN temp.staged_bars AS new USING (series, start_ns)
    WHERE differs;
INSERT INTO market.bars
    SELECT * FROM (
        SELECT * FROM old_bars ANTI JOIN temp.staged_bars USING (series, start_ns)
        UNION ALL SELECT * FROM temp.staged_bars
    ) ORDER BY series, start_ns;
