"""Observers that hand a run to MLflow, Weights & Biases or OpenTelemetry.

None is on unless it is named: `ktdeval run … --plugin ktdeval_trackers.mlflow` (or `.wandb`,
`.otel`). Each is configured by the variables of its own tool.
"""
