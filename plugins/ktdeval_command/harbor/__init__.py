"""Episodes as Harbor tasks."""
