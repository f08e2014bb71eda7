"""Results of a forward test: returns by day, bounds on what is missing, and live cards."""
