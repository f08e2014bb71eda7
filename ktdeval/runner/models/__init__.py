"""Models of a run: their connection, their readiness and their drift."""
