"""Entry point of Inspect: `inspect eval ktdeval_inspect/ktdeval_task`."""

from ktdeval_inspect.scoring import median_defined, task_figures
from ktdeval_inspect.solving import run_ktdeval_episode
from ktdeval_inspect.step_model import StepModel
from ktdeval_inspect.tasks import ktdeval_task

__all__ = ["StepModel", "ktdeval_task", "median_defined", "run_ktdeval_episode", "task_figures"]
