"""Models of a run: connection, readiness and drift."""
