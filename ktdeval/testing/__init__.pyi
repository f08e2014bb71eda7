"""Public names of the kit for plugin authors; pytest finds the fixtures of `fixtures` itself."""

from ktdeval.testing.conformance import (
    check_metric as check_metric,
    check_model as check_model,
    check_scoring_task as check_scoring_task,
    check_task as check_task,
)
from ktdeval.testing.day_markets import (
    scene_on as scene_on,
    snapshot_of_days as snapshot_of_days,
)
from ktdeval.testing.findings import (
    ConformanceError as ConformanceError,
    PluginReport as PluginReport,
)
from ktdeval.testing.ledger_fixtures import ledger_of as ledger_of, step_record as step_record
from ktdeval.testing.local_server import (
    AnsweringHandler as AnsweringHandler,
    QuietHandler as QuietHandler,
    free_port as free_port,
    running_server as running_server,
    serving as serving,
)
from ktdeval.testing.markets import (
    random_snapshot as random_snapshot,
    tiny_snapshot as tiny_snapshot,
)
from ktdeval.testing.plugin_check import (
    check_parts as check_parts,
    check_plugin as check_plugin,
)
from ktdeval.testing.printed_errors import (
    error_lines as error_lines,
    errors_of as errors_of,
    errors_with as errors_with,
    text_of as text_of,
)
from ktdeval.testing.rows import not_empty as not_empty, on_each_row as on_each_row
from ktdeval.testing.small_market import small_market as small_market
from ktdeval.testing.terminal import Terminal as Terminal
from ktdeval.testing.waiting import is_met as is_met, wait_for as wait_for
from ktdeval.values.findings import Finding as Finding
