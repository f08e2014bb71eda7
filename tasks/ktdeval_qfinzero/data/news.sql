-- `articles.publisher` is its name with the case folded; `record` is what no query looks into, as JSON.
CREATE TABLE articles (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, event_type TEXT NOT NULL, published_ns INTEGER NOT NULL,
    importance INTEGER NOT NULL, market TEXT NOT NULL, publisher TEXT NOT NULL, record TEXT NOT NULL
);
CREATE INDEX articles_by_date ON articles (published_ns, id);
CREATE INDEX articles_by_type ON articles (event_type, published_ns, id);
CREATE TABLE article_tickers (
    ticker TEXT NOT NULL, published_ns INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (ticker, published_ns, number)
) WITHOUT ROWID;
-- What the index gets are the words as `words` finds them: the tokenizer `ascii` parts them at the spaces and nowhere else.
CREATE VIRTUAL TABLE article_words USING fts5(words, content='', detail=none, columnsize=0, tokenize='ascii');
