"""Observers that report a run to MLflow, Weights & Biases or OpenTelemetry.

No observer is active unless it is named: `ktdeval run … --plugin ktdeval_trackers.mlflow` (or
`.wandb`, `.otel`). Each is configured by the environment variables of its own tool.
"""
