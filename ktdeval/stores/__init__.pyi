"""Public names of stores: keys and files, claims with leases, shared sums."""

from ktdeval.stores.claims import Claim as Claim, ClaimBoard as ClaimBoard
from ktdeval.stores.git_commands import Git as Git, git_around as git_around
from ktdeval.stores.heartbeats import Heartbeats as Heartbeats, HolderId as HolderId
from ktdeval.stores.local import LocalStore as LocalStore
from ktdeval.stores.shared_sums import SharedSum as SharedSum, SumState as SumState
from ktdeval.stores.store import (
    BadKey as BadKey,
    MissingKey as MissingKey,
    NoConditionalWrites as NoConditionalWrites,
    Stat as Stat,
    Store as Store,
    StoreUnavailable as StoreUnavailable,
    open_store as open_store,
)
from ktdeval.stores.typed_files import (
    ValueFolder as ValueFolder,
    encode_value as encode_value,
    find_value as find_value,
    read_value as read_value,
    value_name as value_name,
)
