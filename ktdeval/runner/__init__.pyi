"""Public names of the runner: runs, records, scoring again, verification."""

from ktdeval.runner.data_source import cache_folder as cache_folder, open_snapshot as open_snapshot
from ktdeval.runner.journal import (
    JournalEntry as JournalEntry,
    entry_type as entry_type,
    pack_lines as pack_lines,
    read_journal as read_journal,
)
from ktdeval.runner.ledger_file import load_ledger as load_ledger, load_table as load_table
from ktdeval.runner.plan import (
    choose_windows as choose_windows,
    describe_any as describe_any,
    make_plan as make_plan,
    refuse_market as refuse_market,
    target_task_of as target_task_of,
)
from ktdeval.runner.register import registered_system as registered_system
from ktdeval.runner.run import (
    RunResult as RunResult,
    evaluate as evaluate,
    mask_key_of as mask_key_of,
    recorded_run as recorded_run,
)
from ktdeval.runner.score import (
    describe_environment as describe_environment,
    open_recorded_snapshot as open_recorded_snapshot,
    recorded_market as recorded_market,
    rescore as rescore,
    run_of as run_of,
)
from ktdeval.runner.store import RunFolder as RunFolder
from ktdeval.runner.trials import Trials as Trials, count_trials as count_trials
from ktdeval.runner.verify import (
    Verification as Verification,
    retrace_memories as retrace_memories,
    verify_card as verify_card,
    verify_records as verify_records,
)
