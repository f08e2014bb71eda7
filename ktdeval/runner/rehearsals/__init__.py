"""Rehearsals of a run: the contents and costs of its steps, measured without a model."""
