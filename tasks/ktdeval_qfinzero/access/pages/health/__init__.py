"""State of datasets and services: coverage by day, problems, probes, and the calendar's export."""
