from ktdeval.cli.evaluation import (
    Evaluation as Evaluation,
    evaluate as evaluate,
    load_run as load_run,
)

__version__: str
