"""Public names of the command line: lazy groups of commands, options of a run's config, tables and
JSON for the terminal.
"""

from ktdeval.cli.amounts import capital_of as capital_of
from ktdeval.cli.cards.signing import passphrase_of_key as passphrase_of_key
from ktdeval.cli.forked_command import (
    CommandStreams as CommandStreams,
    ForkedCall as ForkedCall,
    ForkedCommand as ForkedCommand,
    can_fork as can_fork,
)
from ktdeval.cli.groups import (
    LazyCommand as LazyCommand,
    LazyGroup as LazyGroup,
    load_command as load_command,
)
from ktdeval.cli.help.completers import (
    complete_data as complete_data,
    complete_names as complete_names,
    complete_words as complete_words,
)
from ktdeval.cli.help.examples import example as example
from ktdeval.cli.listing import spec_json as spec_json
from ktdeval.cli.options import (
    WORDS as WORDS,
    FilePath as FilePath,
    FiniteNumber as FiniteNumber,
    JsonOptions as JsonOptions,
    MarketOptions as MarketOptions,
    OutputPath as OutputPath,
    PluginOptions as PluginOptions,
    RunOptionsCommand as RunOptionsCommand,
    RunPath as RunPath,
    config_option as config_option,
    field_option as field_option,
    flag as flag,
    given_of as given_of,
    inherit_option as inherit_option,
    is_required as is_required,
    open_plugins as open_plugins,
    options_of as options_of,
    parameters_of as parameters_of,
    plugin_words as plugin_words,
    run_flag as run_flag,
    warn as warn,
    write_groups as write_groups,
)
from ktdeval.cli.progress import work_shown as work_shown
from ktdeval.cli.resume_hint import resume_line as resume_line
from ktdeval.cli.run import (
    check_finished as check_finished,
    run_shown as run_shown,
)
from ktdeval.cli.signal_handlers import handle_signals as handle_signals
from ktdeval.cli.terminal_tables import (
    grid_lines as grid_lines,
    line_width as line_width,
    params_of as params_of,
    print_findings as print_findings,
    print_grid as print_grid,
    print_json as print_json,
    print_table as print_table,
    report_findings as report_findings,
    terminal_width as terminal_width,
)
from ktdeval.values.all_cores import cores as cores
