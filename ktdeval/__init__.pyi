from ktdeval.cli.python_api import (
    Evaluation as Evaluation,
    evaluate as evaluate,
    load_run as load_run,
)

__version__: str
