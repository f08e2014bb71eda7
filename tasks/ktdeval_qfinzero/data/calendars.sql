-- `events.words` are the title's words between spaces; `updates` has the moments at which something about an event became known;
-- `record` is what no query looks into, as JSON.
CREATE TABLE events (
    event_id TEXT PRIMARY KEY NOT NULL, event_type TEXT NOT NULL, time_ns INTEGER NOT NULL, announced_ns INTEGER NOT NULL,
    importance INTEGER NOT NULL, country TEXT NOT NULL, market TEXT NOT NULL, words TEXT NOT NULL, record TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX events_by_date ON events (time_ns, event_id);
CREATE INDEX events_by_type ON events (event_type, time_ns, event_id);
CREATE INDEX events_by_country ON events (country, event_type, time_ns);
CREATE TABLE event_tickers (
    ticker TEXT NOT NULL, time_ns INTEGER NOT NULL, event_id TEXT NOT NULL, PRIMARY KEY (ticker, time_ns, event_id)
) WITHOUT ROWID;
CREATE TABLE releases (
    event_id TEXT NOT NULL, number INTEGER NOT NULL, available_ns INTEGER NOT NULL, record TEXT NOT NULL,
    PRIMARY KEY (event_id, number)
) WITHOUT ROWID;
CREATE TABLE updates (
    known_ns INTEGER NOT NULL, event_id TEXT NOT NULL, PRIMARY KEY (known_ns, event_id)
) WITHOUT ROWID;
