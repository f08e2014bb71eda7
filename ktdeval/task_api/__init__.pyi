"""Public names of tasks: episode specs, windows, tasks and their config, samples, backends."""

from ktdeval.task_api.episode_spec import (
    EpisodeOutcome as EpisodeOutcome,
    EpisodeSpec as EpisodeSpec,
    FurtherModel as FurtherModel,
    MaskKey as MaskKey,
    Runner as Runner,
    Window as Window,
)
from ktdeval.task_api.events import (
    CallFinished as CallFinished,
    EpisodeFailed as EpisodeFailed,
    EpisodeFinished as EpisodeFinished,
    EpisodeStarted as EpisodeStarted,
    Event as Event,
    RunFinished as RunFinished,
    RunStarted as RunStarted,
    SampleFinished as SampleFinished,
    StepFinished as StepFinished,
)
from ktdeval.task_api.scoring import (
    FAILURE_MODES as FAILURE_MODES,
    VERDICT as VERDICT,
    AnswerRecord as AnswerRecord,
    Environment as Environment,
    Sample as Sample,
    SampleSet as SampleSet,
    Score as Score,
    ScoreDefinition as ScoreDefinition,
    ScoringTask as ScoringTask,
    TargetTask as TargetTask,
    Unanswered as Unanswered,
    is_scoring as is_scoring,
    market_problem as market_problem,
    needs_market as needs_market,
    worst_figure as worst_figure,
)
from ktdeval.task_api.trading_task import (
    MaskedConfig as MaskedConfig,
    QuestionsConfig as QuestionsConfig,
    Scene as Scene,
    Task as Task,
    TaskConfig as TaskConfig,
    WindowDates as WindowDates,
    describe_task as describe_task,
    windows_of as windows_of,
)
from ktdeval.task_api.traits import TaskTraits as TaskTraits, task_traits as task_traits
from ktdeval.task_api.unanswered import (
    BOUNDS as BOUNDS,
    UNANSWERED as UNANSWERED,
    bounds_of as bounds_of,
    bounds_words as bounds_words,
    unanswered_definition as unanswered_definition,
    unanswered_detail as unanswered_detail,
    unanswered_score as unanswered_score,
    with_bounds as with_bounds,
)
from ktdeval.task_api.worker_backend import (
    WITH_PARENT as WITH_PARENT,
    RunningWorkers as RunningWorkers,
    WorkerJob as WorkerJob,
    WorkersRunner as WorkersRunner,
)
