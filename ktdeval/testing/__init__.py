"""Kit for plugin authors: small hand-made markets, and checks of the plugin contract.

from ktdeval.testing import check_plugin

def test_plugin_keeps_the_contract():
    check_plugin("my_plugin")
"""

from ktdeval.testing.conformance import (
    check_metric as check_metric,
    check_model as check_model,
    check_scoring_task as check_scoring_task,
    check_task as check_task,
)
from ktdeval.testing.findings import (
    ConformanceError as ConformanceError,
    PluginReport as PluginReport,
)
from ktdeval.testing.ledger_fixtures import ledger_of as ledger_of, step_record as step_record
from ktdeval.testing.markets import (
    random_snapshot as random_snapshot,
    tiny_snapshot as tiny_snapshot,
)
from ktdeval.testing.plugin_check import (
    check_parts as check_parts,
    check_plugin as check_plugin,
)
from ktdeval.values.findings import Finding as Finding
