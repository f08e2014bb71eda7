"""Results of a forward test: daily returns, bounds for missing decisions, and live cards."""
