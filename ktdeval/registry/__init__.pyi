"""Plugins: where they are found, how they are imported and checked, and their registry."""

from ktdeval.registry.code import code_differences as code_differences, code_hashes as code_hashes
from ktdeval.registry.discovery import GROUP as GROUP, find_entry_points as find_entry_points
from ktdeval.registry.installed_wheel import Wheel as Wheel, own_wheel as own_wheel
from ktdeval.registry.paper_tables import (
    Median as Median,
    PaperTable as PaperTable,
    Pivot as Pivot,
    RuleSet as RuleSet,
    TableChoices as TableChoices,
)
from ktdeval.registry.plugin_boundary import (
    PIN as PIN,
    call_foreign as call_foreign,
    call_through as call_through,
    describe_error as describe_error,
    raised_by as raised_by,
)
from ktdeval.registry.plugin_data_formats import DataForm as DataForm
from ktdeval.registry.plugin_registry import (
    KINDS as KINDS,
    Plugins as Plugins,
    hints as hints,
    load_plugins as load_plugins,
)
from ktdeval.registry.task_files import (
    ITEMS_KEY as ITEMS_KEY,
    find_figure as find_figure,
    merge_layers as merge_layers,
    metric_specs as metric_specs,
    table_metrics as table_metrics,
    table_specs as table_specs,
    task_maker as task_maker,
    task_specs as task_specs,
    venue_specs as venue_specs,
)
