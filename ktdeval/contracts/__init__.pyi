"""Public names of the contracts: episode specs, windows, tasks, samples, events, backends."""

from ktdeval.contracts.events import (
    CallDelayed as CallDelayed,
    EpisodeFailed as EpisodeFailed,
    EpisodeFinished as EpisodeFinished,
    EpisodeStarted as EpisodeStarted,
    Event as Event,
    SampleFinished as SampleFinished,
    StepFinished as StepFinished,
)
from ktdeval.contracts.registration import (
    TRANSPORT as TRANSPORT,
    DrawnKey as DrawnKey,
    RegisteredSystem as RegisteredSystem,
    RegisteredTask as RegisteredTask,
    RegisteredWindow as RegisteredWindow,
    Registrant as Registrant,
    Registration as Registration,
    load_drawn_key as load_drawn_key,
    registered_call as registered_call,
    registered_options as registered_options,
)
from ktdeval.contracts.scoring import (
    AnswerRecord as AnswerRecord,
    Environment as Environment,
    Sample as Sample,
    SampleSet as SampleSet,
    Score as Score,
    ScoreDefinition as ScoreDefinition,
    ScoringTask as ScoringTask,
    TargetTask as TargetTask,
    is_scoring as is_scoring,
    market_problem as market_problem,
    needs_market as needs_market,
)
from ktdeval.contracts.spec import (
    EpisodeOutcome as EpisodeOutcome,
    EpisodeSpec as EpisodeSpec,
    MaskKey as MaskKey,
    Runner as Runner,
    Window as Window,
)
from ktdeval.contracts.task import (
    HasForm as HasForm,
    HasLessons as HasLessons,
    MaskedConfig as MaskedConfig,
    QuestionsConfig as QuestionsConfig,
    Scene as Scene,
    Task as Task,
    TaskConfig as TaskConfig,
    WindowDates as WindowDates,
    describe_task as describe_task,
    windows_of as windows_of,
)
