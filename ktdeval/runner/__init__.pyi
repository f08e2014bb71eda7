"""Public names of the runner: runs, records, scoring again, verification."""

from ktdeval.runner.episodes.bookkeeper import (
    Bookkeeper as Bookkeeper,
    episode_ledger as episode_ledger,
    recorded_decision as recorded_decision,
)
from ktdeval.runner.episodes.episode import (
    DecidedStep as DecidedStep,
    TradingEpisodeRun as TradingEpisodeRun,
)
from ktdeval.runner.episodes.episode_execution import EpisodeFactory as EpisodeFactory
from ktdeval.runner.episodes.shown_account import SeenBooks as SeenBooks
from ktdeval.runner.estimate import SCENARIOS as SCENARIOS, estimate_run as estimate_run
from ktdeval.runner.estimate_values import (
    Amount as Amount,
    RunEstimate as RunEstimate,
    TaskEstimate as TaskEstimate,
)
from ktdeval.runner.execution.run import (
    DEFAULT_RUNS_FOLDER as DEFAULT_RUNS_FOLDER,
    RunResult as RunResult,
    SharedRun as SharedRun,
    evaluate as evaluate,
    execute_run as execute_run,
    open_access as open_access,
    prepare_run as prepare_run,
)
from ktdeval.runner.execution.run_fit import check_system as check_system
from ktdeval.runner.models.model_connection import (
    EpisodeAccess as EpisodeAccess,
    ModelAccess as ModelAccess,
)
from ktdeval.runner.models.model_readiness import why_not_asked as why_not_asked
from ktdeval.runner.plans.additional_models import (
    own_model as own_model,
    with_address as with_address,
)
from ktdeval.runner.plans.config import (
    RunConfig as RunConfig,
    load_config as load_config,
    split_model as split_model,
)
from ktdeval.runner.plans.data_source import (
    cache_folder as cache_folder,
    open_market as open_market,
    open_snapshot as open_snapshot,
    store_snapshot as store_snapshot,
)
from ktdeval.runner.plans.model_settings import with_model_settings as with_model_settings
from ktdeval.runner.plans.plan import (
    as_first_recorded as as_first_recorded,
    call_parameters as call_parameters,
    choose_tasks as choose_tasks,
    choose_windows as choose_windows,
    describe_any as describe_any,
    make_plan as make_plan,
    refuse_market as refuse_market,
    target_task_of as target_task_of,
)
from ktdeval.runner.plans.study_ledger import (
    Study as Study,
    StudyTry as StudyTry,
    find_studies as find_studies,
    record_try as record_try,
    study_ledger as study_ledger,
)
from ktdeval.runner.plans.trial_count import (
    TrialReturns as TrialReturns,
    Trials as Trials,
    count_trials as count_trials,
    count_trials_by_window as count_trials_by_window,
)
from ktdeval.runner.records.anchor_chain import (
    AnchorChain as AnchorChain,
    anchor_fact as anchor_fact,
    load_anchors as load_anchors,
)
from ktdeval.runner.records.episode_journal import (
    Journal as Journal,
    JournalEntry as JournalEntry,
    entry_type as entry_type,
    pack_lines as pack_lines,
    read_journal as read_journal,
)
from ktdeval.runner.records.fork_document import (
    DECISIONS as DECISIONS,
    FORK as FORK,
    FORK_VERSION as FORK_VERSION,
    FamilyFigures as FamilyFigures,
    ForkedDecision as ForkedDecision,
    ForkFile as ForkFile,
    ForkPlace as ForkPlace,
    VariantFigures as VariantFigures,
    fork_beside as fork_beside,
    load_fork as load_fork,
)
from ktdeval.runner.records.leaderboard_registration import (
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
from ktdeval.runner.records.ledger_file import (
    encode_ledger as encode_ledger,
    load_ledger as load_ledger,
    load_table as load_table,
)
from ktdeval.runner.records.question_answers import (
    Answer as Answer,
    answer as answer,
    last_look as last_look,
    shared_days as shared_days,
)
from ktdeval.runner.records.registered_question import (
    Question as Question,
    SequentialRule as SequentialRule,
)
from ktdeval.runner.records.result_documents import load_result as load_result
from ktdeval.runner.records.run_file_names import (
    ANCHORS as ANCHORS,
    ANSWERS as ANSWERS,
    CANARY as CANARY,
    CERTIFICATE as CERTIFICATE,
    DECLARED_FILE as DECLARED_FILE,
    JUDGEMENT as JUDGEMENT,
    LEDGER as LEDGER,
    MANIFEST as MANIFEST,
    MARK as MARK,
    TEAR_SHEET as TEAR_SHEET,
    TRANSCRIPT as TRANSCRIPT,
)
from ktdeval.runner.records.run_folder import (
    RunFolder as RunFolder,
    mask_key_of as mask_key_of,
    recorded_run as recorded_run,
)
from ktdeval.runner.records.run_locator import (
    local_run_path as local_run_path,
    paths_of_runs as paths_of_runs,
    runs_beside as runs_beside,
)
from ktdeval.runner.records.time_authorities import (
    NOBODY as NOBODY,
    TimeAuthority as TimeAuthority,
    TrustedRoots as TrustedRoots,
    authority_of as authority_of,
    authority_words as authority_words,
    load_trust as load_trust,
    plan_trust as plan_trust,
)
from ktdeval.runner.records.time_stamps import (
    MAX_STAMP_BYTES as MAX_STAMP_BYTES,
    StampAuthority as StampAuthority,
    read_certificates as read_certificates,
    request_stamp as request_stamp,
    verified_time as verified_time,
)
from ktdeval.runner.records.transcript_counts import (
    RecordedExchange as RecordedExchange,
    read_exchanges as read_exchanges,
)
from ktdeval.runner.records.transplant_document import (
    MIN_FILLED as MIN_FILLED,
    TRANSPLANT as TRANSPLANT,
    TRANSPLANT_VERSION as TRANSPLANT_VERSION,
    BreakEven as BreakEven,
    CapitalLine as CapitalLine,
    CostsLine as CostsLine,
    MeanLine as MeanLine,
    OtherStates as OtherStates,
    TransplantFile as TransplantFile,
    capital_folder as capital_folder,
    known_transplant as known_transplant,
    load_transplant as load_transplant,
    transplant_beside as transplant_beside,
    transplanted_at as transplanted_at,
)
from ktdeval.runner.records.url_run import run_file as run_file
from ktdeval.runner.rehearsals.model_task_fit import check_model as check_model
from ktdeval.runner.rehearsals.rehearsal import FirstStep as FirstStep, rehearse as rehearse
from ktdeval.runner.remote.gather_parts import Sources as Sources, gather_run as gather_run
from ktdeval.runner.remote.worker_part import (
    CANARY_CALLS as CANARY_CALLS,
    CHECK_CALLS as CHECK_CALLS,
    EpisodeUsage as EpisodeUsage,
    Progress as Progress,
    RunPart as RunPart,
    episode_progress as episode_progress,
    recorded_calls as recorded_calls,
)
from ktdeval.runner.scoring.call_log_checks import check_call_log as check_call_log
from ktdeval.runner.scoring.model_identity_checks import (
    card_claims as card_claims,
    unknown_model as unknown_model,
)
from ktdeval.runner.scoring.score import (
    check_ran as check_ran,
    describe_environment as describe_environment,
    make_card as make_card,
    make_inputs as make_inputs,
    open_market_of_run as open_market_of_run,
    open_recorded_snapshot as open_recorded_snapshot,
    open_run as open_run,
    recorded_market as recorded_market,
    rescore as rescore,
    run_of as run_of,
    write_cards as write_cards,
)
from ktdeval.runner.scoring.verify import (
    RecordedModel as RecordedModel,
    Verification as Verification,
    retrace_episode as retrace_episode,
    retrace_memories as retrace_memories,
    verify_card as verify_card,
    verify_records as verify_records,
)
from ktdeval.task_api.events import (
    CallDelayed as CallDelayed,
    CheckDelayed as CheckDelayed,
    EpisodeFailed as EpisodeFailed,
    EpisodeFinished as EpisodeFinished,
    EpisodeStarted as EpisodeStarted,
    Event as Event,
    SampleFinished as SampleFinished,
    StepFinished as StepFinished,
)
