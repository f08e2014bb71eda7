"""Tear sheet of a run's task: growth, risk, exposure and holdings of each window on one page."""
