"""Rehearsals of a run: what its steps show and cost, measured without a model."""
