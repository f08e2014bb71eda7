"""Rehearsals of a run: contents and costs of its steps, measured without a model."""
