"""Public names of stores: keys and files, claims with leases, shared sums."""

from ktdeval.stores.git_commands import Git as Git, git_around as git_around
from ktdeval.stores.local import LocalStore as LocalStore
from ktdeval.stores.store import (
    BadKey as BadKey,
    MissingKey as MissingKey,
    NoConditionalWrites as NoConditionalWrites,
    Stat as Stat,
    Store as Store,
    StoreUnavailable as StoreUnavailable,
    checked_key as checked_key,
    open_store as open_store,
)
from ktdeval.stores.typed_files import (
    ValueFolder as ValueFolder,
    encode_value as encode_value,
    find_value as find_value,
    read_value as read_value,
    value_name as value_name,
)
