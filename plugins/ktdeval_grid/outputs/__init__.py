"""Outputs at the end of a grid: tables, reports and a static bundle."""
