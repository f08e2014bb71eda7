"""Values that cross files and processes: how they are declared, read, written and hashed."""

from ktdeval.values.all_cores import cores as cores
from ktdeval.values.disk.decompression_limits import (
    MAX_TIMES_OF_TEXT as MAX_TIMES_OF_TEXT,
    check_parquet as check_parquet,
    max_bytes as max_bytes,
    open_parquet as open_parquet,
    open_unpacked as open_unpacked,
    too_large as too_large,
)
from ktdeval.values.disk.file_signatures import (
    GZIP as GZIP,
    PARQUET as PARQUET,
    SIGNATURE_BYTES as SIGNATURE_BYTES,
    ZIP as ZIP,
    first_words as first_words,
    other_kind as other_kind,
)
from ktdeval.values.disk.files import (
    Closing as Closing,
    check_output as check_output,
    csv_rows as csv_rows,
    make_folder as make_folder,
    new_folder as new_folder,
    open_plain as open_plain,
    read_plain as read_plain,
    sync_files as sync_files,
    sync_folder as sync_folder,
    write_atomic as write_atomic,
)
from ktdeval.values.disk.folder_lock import lock_folder as lock_folder
from ktdeval.values.disk.rollback import undone_on_error as undone_on_error
from ktdeval.values.disk.temporary import (
    filling as filling,
    temporary_folder as temporary_folder,
    try_lock as try_lock,
)
from ktdeval.values.documents.format_versions import (
    check_stated as check_stated,
    check_version as check_version,
    format_version as format_version,
    stated_version as stated_version,
)
from ktdeval.values.documents.formula_escaping import without_formula as without_formula
from ktdeval.values.documents.strict_json import (
    MAX_LEVELS as MAX_LEVELS,
    TOO_DEEP as TOO_DEEP,
    JsonObject as JsonObject,
    JsonValue as JsonValue,
    bounded_int as bounded_int,
    dumps_canonical as dumps_canonical,
    dumps_compact as dumps_compact,
    dumps_pretty as dumps_pretty,
    is_flat as is_flat,
    is_nested_within as is_nested_within,
    loads_data as loads_data,
    loads_strict as loads_strict,
    loads_untrusted as loads_untrusted,
    plain as plain,
    refuse_half_pairs as refuse_half_pairs,
    reject_constant as reject_constant,
    unique_fields as unique_fields,
)
from ktdeval.values.documents.typed_json import (
    Value as Value,
    convert_value as convert_value,
    decode_json as decode_json,
    encode_canonical as encode_canonical,
    from_plain as from_plain,
    json_schema as json_schema,
    to_object as to_object,
    to_plain as to_plain,
)
from ktdeval.values.documents.yamlio import (
    load_yaml as load_yaml,
    load_yaml_as as load_yaml_as,
    parse_yaml as parse_yaml,
)
from ktdeval.values.facts import facts_file as facts_file
from ktdeval.values.findings import (
    LEVELS as LEVELS,
    MAX_EXAMPLES as MAX_EXAMPLES,
    Finding as Finding,
    Level as Level,
    count_level as count_level,
    exit_code as exit_code,
    finding_lines as finding_lines,
    findings_json as findings_json,
    sort_by_level as sort_by_level,
)
from ktdeval.values.hashes import (
    content_hash as content_hash,
    file_sha256 as file_sha256,
    sha256_hex as sha256_hex,
)
from ktdeval.values.installation import (
    import_problem as import_problem,
    install_command as install_command,
    requirement as requirement,
)
from ktdeval.values.lazy import later as later, lazy_exports as lazy_exports, maker as maker
from ktdeval.values.options.config_options import (
    LocalPath as LocalPath,
    build as build,
    build_params as build_params,
    lasting_data as lasting_data,
    near_matches as near_matches,
    option as option,
    shown_path as shown_path,
    split_list as split_list,
    split_local as split_local,
    stored_market as stored_market,
    to_mapping as to_mapping,
    user_path as user_path,
)
from ktdeval.values.progress_reports import Tell as Tell, tell_nobody as tell_nobody
from ktdeval.values.requests.request_bodies import (
    RefusedBody as RefusedBody,
    body_length as body_length,
    body_pieces as body_pieces,
    check_length as check_length,
    content_length as content_length,
)
from ktdeval.values.requests.request_smuggling import ambiguity as ambiguity
from ktdeval.values.requests.secret_free_addresses import (
    KEY_PREFIXED as KEY_PREFIXED,
    Address as Address,
    AddressText as AddressText,
    Arguments as Arguments,
    GitAddress as GitAddress,
    Parameters as Parameters,
    faults_in as faults_in,
)
from ktdeval.values.seeds import derive_seed as derive_seed
from ktdeval.values.tie_breaking import (
    first_of as first_of,
    group_by_place as group_by_place,
    places as places,
    whole_groups as whole_groups,
)
