"""Tasks of ktdeval as evaluations of Inspect."""

from ktdeval_inspect.tasks import ktdeval_task

__all__ = ["ktdeval_task"]
