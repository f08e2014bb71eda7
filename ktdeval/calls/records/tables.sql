CREATE TABLE IF NOT EXISTS replies (key TEXT NOT NULL PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL,
    created_at TEXT NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, checksum BLOB NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, at TEXT NOT NULL, episode TEXT NOT NULL, key TEXT NOT NULL,
    outcome TEXT NOT NULL, attempt INTEGER NOT NULL, latency_s REAL NOT NULL, cost_usd REAL, held_usd REAL NOT NULL,
    model TEXT NOT NULL, served_by TEXT NOT NULL, step INTEGER, opening INTEGER NOT NULL, input_tokens INTEGER,
    output_tokens INTEGER, reasoning_tokens INTEGER, cache_read_tokens INTEGER, cache_write_tokens INTEGER, reply BLOB);
CREATE TABLE IF NOT EXISTS log (id TEXT NOT NULL, begun_at TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS calls_of_episodes ON calls (episode)
